package errorfs

import (
	"errors"
	"path"
	"slices"

	"queen/engine/vfs"
)

// ErrInjected is the error of a rule that names none.
var ErrInjected = errors.New("errorfs: injected")

// Match decides whether a rule concerns a call.
type Match func(vfs.Op) bool

// Rule says which calls fail and how.
type Rule struct {
	// Match picks the calls; nil picks all.
	Match Match

	// Nth is which of the picked calls fails, counted from 1 since the rule was added; 0 means each of them. A
	// flush that fails once and then succeeds is Nth 1.
	Nth int64

	// Err is what the call returns; nil means ErrInjected.
	Err error

	// Short lets the first Short bytes of a failing WriteAt or WriteAtSync reach the file below, rounded down to
	// whole blocks on a direct file. 0 means none.
	Short int

	// After makes the call happen in full before it fails: the flush was done but its answer got lost. Short is
	// ignored.
	After bool
}

// Kinds matches calls of these kinds.
func Kinds(kinds ...vfs.OpKind) Match {
	return func(op vfs.Op) bool { return slices.Contains(kinds, op.Kind) }
}

// Base matches calls on names whose last element matches a path.Match pattern, by the old or the new name.
func Base(pattern string) Match {
	return func(op vfs.Op) bool {
		if ok, err := path.Match(pattern, path.Base(op.Name)); err != nil || ok {
			return ok
		}
		ok, _ := path.Match(pattern, path.Base(op.NewName))
		return ok && op.NewName != ""
	}
}

// All matches what every one of these matches.
func All(matches ...Match) Match {
	return func(op vfs.Op) bool {
		for _, m := range matches {
			if !m(op) {
				return false
			}
		}
		return true
	}
}

// Mutating matches calls that can change what a crash leaves.
func Mutating() Match { return func(op vfs.Op) bool { return op.Kind.Mutating() } }

// rule is a Rule with its count.
type rule struct {
	Rule
	seen int64
}

// hit counts the call and reports whether it must fail.
func (r *rule) hit(op vfs.Op) bool {
	if r.Match != nil && !r.Match(op) {
		return false
	}
	r.seen++
	return r.Nth == 0 || r.seen == r.Nth
}

func (r *rule) err() error {
	if r.Err == nil {
		return ErrInjected
	}
	return r.Err
}
