package report

import (
	"fmt"
	"slices"
	"sync"
)

// Violations are the broken promises that several goroutines note; the first ones are kept.
type Violations struct {
	mu struct {
		sync.Mutex
		some  []string
		count int
	}
}

// mostViolations is how many are kept with their words.
const mostViolations = 50

// Add notes one.
func (v *Violations) Add(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.mu.count++; len(v.mu.some) < mostViolations {
		v.mu.some = append(v.mu.some, fmt.Sprintf(format, args...))
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
