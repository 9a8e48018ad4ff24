package frontendhttp

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestSharedDeadlines: calls of one moment share a context, later ones do not, and each has at least the time it is meant to
// have and at most a step more.
func TestSharedDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := deadlines{after: writeDeadline}
		first := d.context()
		time.Sleep(deadlineStep - 1)
		if d.context() != first {
			t.Error("calls less than a step apart do not share their context")
		}
		time.Sleep(time.Nanosecond)
		second := d.context()
		if second == first {
			t.Error("calls a step apart share their context")
		}
		time.Sleep(writeDeadline - 1) // the last call of the first context was a nanosecond before the second's
		if first.Err() != nil {
			t.Error("a context ended before its time")
		}
		time.Sleep(2 * time.Nanosecond)
		if first.Err() != context.DeadlineExceeded || second.Err() != nil {
			t.Errorf("a step after their time: %v, want an end; before it: %v", first.Err(), second.Err())
		}
		<-second.Done()
	})
}
