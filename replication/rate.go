package replication

import (
	"context"
	"io"
	"sync"
	"time"

	"queen/engine/clock"
)

// rate lets so many bytes pass in a second, over all that share it. What nobody used is not saved up.
type rate struct {
	clock     clock.Clock
	perSecond int64

	mu   sync.Mutex
	paid int64 // monotonic time until which what has passed takes
}

// wait returns when n bytes may pass, or ctx ends.
func (r *rate) wait(ctx context.Context, n int) error {
	now := r.clock.Mono()
	r.mu.Lock()
	at := max(r.paid, now)
	r.paid = at + int64(n)*int64(time.Second/time.Microsecond)/r.perSecond
	r.mu.Unlock()
	if at == now {
		return ctx.Err()
	}
	t := r.clock.NewTimer(time.Duration(at-now) * time.Microsecond)
	defer t.Stop()
	select {
	case <-t.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ratePiece is how much passes at a time: less than the slowest rate lets pass while who reads waits for more.
const ratePiece = 64 << 10

// ratedWriter writes at a rate.
type ratedWriter struct {
	ctx  context.Context
	to   io.Writer
	rate *rate
}

// Write implements io.Writer.
func (w *ratedWriter) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		piece := b[n:min(n+ratePiece, len(b))]
		if err = w.rate.wait(w.ctx, len(piece)); err == nil {
			var k int
			k, err = w.to.Write(piece)
			n += k
		}
	}
	return n, err
}
