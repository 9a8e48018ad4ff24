package frontendkafka

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// smallFrame is what the only frame of a connection may have without asking the budget of all connections.
const smallFrame = 64 << 10

// budget bounds the bytes of requests that were read and not yet answered, over all connections. What is read ahead of an
// answer may have to wait for long, behind a fetch or while its client is throttled; what is handled may only wait if it is
// no Produce. So each of the three has a purse of its own, and none keeps the others from going on.
type budget struct{ produce, other, ahead *purse }

func newBudget(size int64) budget {
	return budget{produce: newPurse(size / 2), other: newPurse(size / 4), ahead: newPurse(size / 4)}
}

// take waits for room for a frame. One that is read ahead and finds none waits until it is the only one of its
// connection.
func (b *budget) take(ctx context.Context, in *inbox, key int16, n int64) (charge, error) {
	if !in.idle() {
		if c, ok := b.ahead.try(n); ok {
			return c, nil
		}
		if !in.waitIdle(ctx.Done()) {
			return charge{}, ctx.Err()
		}
	}
	if key == produceKey {
		return b.produce.take(ctx, n)
	}
	return b.other.take(ctx, n)
}

// purse is a number of bytes that are given out.
type purse struct {
	sem  *semaphore.Weighted
	size int64
}

func newPurse(size int64) *purse { return &purse{semaphore.NewWeighted(size), size} }

// take waits for n bytes; more than there are is all of them.
func (p *purse) take(ctx context.Context, n int64) (charge, error) {
	n = min(n, p.size)
	if err := p.sem.Acquire(ctx, n); err != nil {
		return charge{}, err
	}
	return charge{p, n}, nil
}

// try takes n bytes if they are there.
func (p *purse) try(n int64) (charge, bool) {
	if !p.sem.TryAcquire(n) {
		return charge{}, false
	}
	return charge{p, n}, true
}

// charge is what was taken of a purse; the zero value is nothing.
type charge struct {
	of *purse
	n  int64
}

func (c charge) give() {
	if c.of != nil {
		c.of.sem.Release(c.n)
	}
}
