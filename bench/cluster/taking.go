package main

import (
	"fmt"
	"sync"
	"time"
)

// taking is what a consumer group did with one lane, judged as it comes.
type taking struct {
	mu    sync.Mutex
	held  []held  // leases that may live
	acks  []ackAt // of the last time, in the order of their answers; each has the highest offset until then
	base  int64   // the highest offset that was acked before those
	sent  int64   // the highest offset whose ack was sent, answered or not
	below int64   // all offsets below are acked, or may be
	above map[int64]struct{}
}

// held is a lease as its holder knows it: claimed between asked and came, and over no sooner than ends.
type held struct {
	lease             string
	asked, came, ends time.Duration
	last              int64 // offset of its last message, whose ack gives it back
}

type ackAt struct {
	offset   int64
	answered time.Duration
}

// acksFor is how long answers to acks are kept one by one: longer than a pop can take.
const acksFor = 2 * time.Minute

func (t *taking) init() { t.base, t.sent, t.above = -1, -1, map[int64]struct{}{} }

// deliver notes that a pop asked for at a time gave offsets first to last under a lease. They come in the order of came.
func (t *taking) deliver(lane fmt.Stringer, id string, first, last int64, asked, came time.Duration) (errs []error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := held{lease: id, asked: asked, came: came, ends: asked + lease, last: last}
	live := t.held[:0]
	for _, h := range t.held {
		// The claim of d, no later than came, was after the end of h; or the claim of h, no later than h.came, after the end of d.
		if h.ends > came && d.ends > h.came {
			errs = append(errs, fmt.Errorf("%v: lease %s, asked for at %v and there at %v, may not have ended before %v, and lease %s was there at %v, asked for at %v",
				lane, h.lease, h.asked, h.came, h.ends, id, came, asked))
		}
		if h.ends > came {
			live = append(live, h)
		}
	}
	t.held = append(live, d)
	if done := t.doneBefore(asked); first <= done {
		errs = append(errs, fmt.Errorf("%v: offset %d was delivered to a pop sent at %v, before which the answer to an ack of %d had come", lane, first, asked, done))
	}
	if first > t.sent+1 {
		errs = append(errs, fmt.Errorf("%v: a delivery begins at offset %d, nothing above %d was acked", lane, first, t.sent))
	}
	return errs
}

// doneBefore is the highest offset whose ack was answered before a time.
func (t *taking) doneBefore(at time.Duration) int64 {
	for i := len(t.acks) - 1; i >= 0; i-- {
		if t.acks[i].answered < at {
			return t.acks[i].offset
		}
	}
	return t.base
}

// sending notes that an ack is about to leave. That of a lease's last message gives the lease back, a refusal always does.
func (t *taking) sending(id string, offset int64, refusal bool, now time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent = max(t.sent, offset)
	for i := range t.held {
		if h := &t.held[i]; h.lease == id && (refusal || offset >= h.last) {
			h.ends = min(h.ends, now)
		}
	}
}

// extend notes that a lease was made to last anew, by a call sent at a time.
func (t *taking) extend(id string, sent time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.held {
		if h := &t.held[i]; h.lease == id {
			h.ends = max(h.ends, sent+lease)
		}
	}
}

// done notes that an ack was answered, and the group is past its offset.
func (t *taking) done(offset int64, now time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.acks) > 0 && t.acks[0].answered < now-acksFor {
		t.base = t.acks[0].offset
		t.acks = t.acks[1:]
	}
	highest := max(t.base, offset)
	if n := len(t.acks); n > 0 {
		highest = max(t.acks[n-1].offset, offset)
	}
	t.acks = append(t.acks, ackAt{highest, now})
	t.settle(offset)
}

// lost notes that an ack got no answer: nobody knows whether the group is past its offset.
func (t *taking) lost(offset int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settle(offset)
}

// refused judges that an ack with a lease was refused, which is right only once the lease can have ended.
func (t *taking) refused(lane fmt.Stringer, id string, offset int64, why string, now time.Duration) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, h := range t.held {
		if h.lease == id && h.ends > now {
			return fmt.Errorf("%v: an ack of offset %d under lease %s was refused at %v (%s), the lease was asked for at %v", lane, offset, id, now, why, h.asked)
		}
	}
	return nil
}

func (t *taking) settle(offset int64) {
	if offset < t.below {
		return
	}
	t.above[offset] = struct{}{}
	for {
		if _, ok := t.above[t.below]; !ok {
			return
		}
		delete(t.above, t.below)
		t.below++
	}
}

// settled is the lowest offset that was not acked.
func (t *taking) settled() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.below
}
