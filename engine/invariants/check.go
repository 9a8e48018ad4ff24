package invariants

import "fmt"

// Violation is the panic value of a broken invariant.
type Violation struct {
	Message string
}

// Error returns the message with the package's mark in front, so that it is found in a crash report.
func (v *Violation) Error() string { return "invariant broken: " + v.Message }

// Check panics with a *Violation if cond is false. Its arguments are evaluated, and may be allocated, even when
// cond holds: on hot paths write "if !cond { invariants.Fail(...) }" instead.
func Check(cond bool, format string, args ...any) {
	if !cond {
		Fail(format, args...)
	}
}

// Fail panics with a *Violation.
func Fail(format string, args ...any) {
	panic(&Violation{Message: fmt.Sprintf(format, args...)})
}
