package frontendkafka

import (
	"context"
	"time"

	"queen/engine"
)

const (
	// partitionRoom is about what a partition takes of memory in an answer that lists it, decoded and encoded; replicaRoom
	// is what each of its replicas adds.
	partitionRoom = 144
	replicaRoom   = 8
	// listingWait is how long an answer waits for others that list partitions to be written.
	listingWait = 10 * time.Second
	// listingPace is what a client has to take of such an answer in a second.
	listingPace = 1 << 20
)

// room takes memory for an answer that lists very many partitions, out of what all such answers share, and holds it until
// the answer is written. Little answers ask nobody, and one always fits; the error is that there was no room for a while.
func (c *conn) room(ctx context.Context, n int64) error {
	if n <= smallFrame {
		return nil
	}
	p := c.f.listings
	got, ok := p.try(min(n, p.size))
	if !ok {
		if err := c.flush(); err != nil { // earlier answers do not wait
			return err
		}
		wait, cancel := context.WithTimeout(ctx, c.f.listingWait)
		defer cancel()
		stop := context.AfterFunc(c.waiting, cancel)
		defer stop()
		var err error
		if got, err = p.take(wait, n); err != nil {
			return &engine.Error{Code: engine.CodeOverloaded, RetryAfter: time.Second,
				Message: "other answers with very many partitions are under way"}
		}
	}
	c.listed = append(c.listed, got)
	return nil
}

// listingDue is when an answer with very many partitions has to be written: whoever takes it slowly keeps others waiting.
func (c *conn) listingDue() (t time.Time, ok bool) {
	if len(c.listed) == 0 {
		return t, false
	}
	return time.Now().Add(c.f.opts.FrameTimeout + time.Duration(len(c.out)/listingPace)*time.Second), true
}
