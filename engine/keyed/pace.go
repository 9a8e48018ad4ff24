package keyed

import (
	"context"
	"time"

	"queen/engine/clock"
)

// pace is a token bucket over rows. It belongs to the flusher. Its burst is one second's worth, so
// a small checkpoint passes at once.
type pace struct {
	clock clock.Clock
	rate  int // rows a second; 0: unbounded

	started bool
	last    int64   // mono time of the last refill, microseconds
	tokens  float64 // may go below zero: the debt is waited for
}

// wait takes rows tokens and blocks until the bucket is out of debt or ctx ends.
func (p *pace) wait(ctx context.Context, rows int) error {
	if err := ctx.Err(); err != nil || p.rate == 0 {
		return err
	}
	now := p.clock.Mono()
	if !p.started {
		p.started, p.tokens = true, float64(p.rate)
	} else {
		p.tokens = min(float64(p.rate), p.tokens+float64(now-p.last)*float64(p.rate)/1e6)
	}
	p.last = now
	p.tokens -= float64(rows)
	if p.tokens >= 0 {
		return nil
	}
	timer := p.clock.NewTimer(time.Duration(-p.tokens / float64(p.rate) * float64(time.Second)))
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
