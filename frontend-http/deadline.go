package frontendhttp

import (
	"context"
	"sync/atomic"
	"time"
)

// deadlines are contexts that end after a time, for calls that come by the ten thousand a second: those of one moment
// share a context, whose timer and channels would else cost each of them more than decoding a small body does.
type deadlines struct {
	after  time.Duration
	newest atomic.Pointer[sharedDeadline]
}

type sharedDeadline struct {
	ctx    context.Context
	cancel context.CancelFunc
	until  time.Time // when calls get another one
}

// deadlineStep is how long calls get the same context, so that it ends by that much later than it has to at most.
const deadlineStep = time.Second

// context is a context that ends after d.after, or up to deadlineStep later. Nobody cancels it.
func (d *deadlines) context() context.Context {
	for {
		now := time.Now()
		s := d.newest.Load()
		if s != nil && now.Before(s.until) {
			return s.ctx
		}
		next := &sharedDeadline{until: now.Add(deadlineStep)}
		next.ctx, next.cancel = context.WithTimeout(context.Background(), d.after+deadlineStep)
		if d.newest.CompareAndSwap(s, next) {
			return next.ctx
		}
		next.cancel() // another call was faster
	}
}
