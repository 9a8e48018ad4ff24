package report

import (
	"fmt"
	"io"
	"slices"
	"sync"
)

// Violations are the broken promises that several goroutines note; the first ones are kept.
type Violations struct {
	// Out, when set, is told of those that are kept, at once: when it was tells what else went on.
	Out io.Writer

	of   *Violations
	name string

	mu struct {
		sync.Mutex
		some  []string
		count int
	}
}

// mostViolations is how many are kept with their words.
const mostViolations = 50

// In are the same, with the name of a part of the run in front of those that are added.
func (v *Violations) In(name string) *Violations { return &Violations{of: v, name: name} }

// Add notes one.
func (v *Violations) Add(format string, args ...any) {
	if v.of != nil {
		v.of.Add("%s: "+format, append([]any{v.name}, args...)...)
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.mu.count++; len(v.mu.some) >= mostViolations {
		return
	}
	v.mu.some = append(v.mu.some, fmt.Sprintf(format, args...))
	if v.Out != nil {
		fmt.Fprintf(v.Out, "VIOLATION: %s\n", v.mu.some[len(v.mu.some)-1])
	}
}

// List returns those that were kept, and how many more there were.
func (v *Violations) List() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	out := slices.Clone(v.mu.some)
	if more := v.mu.count - len(out); more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return out
}
