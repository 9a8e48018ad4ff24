package engine

import (
	"context"
	"sync"
	"time"

	"queen/engine/clock"
)

// admission is a byte budget with a FIFO of waiters. Writes, and rendered reads, have one each:
// producers can never starve consumers (S-bp-3). A request larger than the budget is let through
// alone.
type admission struct {
	clock clock.Clock
	limit int64

	mu struct {
		sync.Mutex
		used   int64
		queue  []*admitWaiter
		closed bool
	}
}

type admitWaiter struct {
	bytes int64
	ready chan struct{}
}

func newAdmission(c clock.Clock, limit int64) *admission {
	return &admission{clock: c, limit: limit}
}

// acquire takes bytes of the budget, waiting at most hold: after it CodeOverloaded, with nothing
// taken. The caller must release what it acquired.
func (a *admission) acquire(ctx context.Context, bytes int64, hold time.Duration) *Error {
	a.mu.Lock()
	if a.mu.closed {
		a.mu.Unlock()
		return errClosed()
	}
	if len(a.mu.queue) == 0 && a.fits(bytes) {
		a.mu.used += bytes
		a.mu.Unlock()
		return nil
	}
	w := &admitWaiter{bytes: bytes, ready: make(chan struct{})}
	a.mu.queue = append(a.mu.queue, w)
	a.mu.Unlock()

	timer := a.clock.NewTimer(hold)
	defer timer.Stop()
	select {
	case <-w.ready:
		return nil
	case <-timer.C():
	case <-ctx.Done():
	}
	if a.forget(w) {
		if ctx.Err() != nil {
			return errContext(ctx, OutcomeNone)
		}
		return &Error{Code: CodeOverloaded, RetryAfter: time.Second,
			Message: "writes are waiting for the disk; nothing was written"}
	}
	return nil // granted in the meantime
}

func (a *admission) fits(bytes int64) bool {
	return a.mu.used == 0 || a.mu.used+bytes <= a.limit
}

// forget takes w out of the queue; false when it was granted already.
func (a *admission) forget(w *admitWaiter) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, q := range a.mu.queue {
		if q == w {
			a.mu.queue = append(a.mu.queue[:i], a.mu.queue[i+1:]...)
			return true
		}
	}
	return false
}

func (a *admission) release(bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.used -= bytes
	for len(a.mu.queue) > 0 && a.fits(a.mu.queue[0].bytes) {
		w := a.mu.queue[0]
		a.mu.queue[0] = nil
		a.mu.queue = a.mu.queue[1:]
		a.mu.used += w.bytes
		close(w.ready)
	}
}

func (a *admission) inflight() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mu.used
}
