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
	// configRoom is that of one name of a configuration, producerRoom of a producer, nameRoom of a name without its bytes.
	configRoom   = 256
	producerRoom = 96
	nameRoom     = 64
	// listingWait is how long an answer waits for others that list partitions to be written.
	listingWait = 10 * time.Second
	// listingPace is what a client has to take of such an answer in a second.
	listingPace = 1 << 20
)

// room takes memory for an answer that lists very many partitions, out of what all such answers share, and holds it until
// the answer is written. Little answers ask nobody, and one always fits, also when it asks bit by bit; the error is that
// there was no room for a while.
func (c *conn) room(ctx context.Context, n int64) error {
	if n <= smallFrame {
		return nil
	}
	if len(c.out) > 0 {
		// Earlier answers do not wait, and what they hold is given back before this one holds anything.
		if err := c.flush(); err != nil {
			return err
		}
	}
	p := c.f.listings
	left := p.size
	for _, one := range c.listed {
		left -= one.n
	}
	if n = min(n, left); n <= 0 {
		return nil // it has everything
	}
	got, ok := p.try(n)
	if !ok {
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

// listing asks room for an answer whose size shows bit by bit, so that very many little things need as much as a few large
// ones do.
type listing struct {
	c          *conn
	due, total int64
}

// errListing refuses what is too much for one answer.
var errListing = &engine.Error{Code: engine.CodeBadRequest, Message: "that is too much for one answer: name less at a time"}

// add takes n bytes more; errListing when the answer has come to more than one may have.
func (l *listing) add(ctx context.Context, n int64) error {
	if l.total += n; l.total > listedMax*partitionRoom {
		return errListing
	}
	if l.due += n; l.due <= smallFrame {
		return nil
	}
	n, l.due = l.due, 0
	return l.c.room(ctx, n)
}

// listingDue is when an answer with very many partitions has to be written: whoever takes it slowly keeps others waiting.
func (c *conn) listingDue() (t time.Time, ok bool) {
	if len(c.listed) == 0 {
		return t, false
	}
	return time.Now().Add(c.f.opts.FrameTimeout + time.Duration(len(c.out)/listingPace)*time.Second), true
}
