package main

import (
	"fmt"
	"sync"
	"time"
)

// lane is the history of one partition: what its writers were told of it, and what one consumer group did with it. Writers
// number what they write from 0, each its own, and write a number only when all lower ones were handed over.
type lane struct {
	place
	kafka bool // written over Kafka: native readers get records in their JSON form

	mu    sync.Mutex
	told  []uint64 // by offset: which message is there, as key says, as far as anybody was told; 0 is not known
	sent  []int    // by writer: numbers below were handed over
	acked []int    // by writer: numbers below are there: one was acknowledged, and they go in order
	group int      // raft group, as ids of the partition say; 0 is not known
	times stamps   // of all messages, as the first node that was read tells them

	taking taking
}

// stamps is a sum over the times of a lane's first messages.
type stamps struct{ count, sum int64 }

// aheadMost bounds how far an offset may be above the highest one known, which is what fits into memory and no promise.
const aheadMost = 1 << 20

func key(w, n int) uint64 { return uint64(w+1)<<40 | uint64(n) }

func (l *lane) String() string { return fmt.Sprintf("tenant %d %s/%s", l.tenant, l.queue, l.partition) }

// top is the lowest offset that nobody has heard of.
func (l *lane) top() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(len(l.told))
}

// left is how many messages are known of that the group has not settled.
func (l *lane) left() int64 { return l.top() - l.taking.settled() }

// send notes that writer w hands over what is numbered below n. What it is told lies at or above floor: all else was there
// before it began (S-push-6).
func (l *lane) send(w, n int) (floor int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent[w] = max(l.sent[w], n)
	return int64(len(l.told))
}

// tell notes that message n of writer w was acknowledged at an offset.
func (l *lane) tell(w, n int, offset, floor int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked[w] = max(l.acked[w], n+1)
	if offset < floor {
		return fmt.Errorf("%v: message %d of writer %d is at offset %d, below %d, which was acknowledged before it was sent", l, n, w, offset, floor)
	}
	return l.put(w, n, offset)
}

// see notes that a message was read at an offset.
func (l *lane) see(w, n int, offset int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.put(w, n, offset)
}

// put holds a message at an offset against what is known of it.
func (l *lane) put(w, n int, offset int64) error {
	if w < 0 || w >= len(l.sent) || n < 0 || n >= l.sent[w] {
		return fmt.Errorf("%v: offset %d holds message %d of writer %d, which nobody wrote", l, offset, n, w)
	}
	if offset < 0 || offset > int64(len(l.told))+aheadMost {
		return fmt.Errorf("%v: message %d of writer %d is at offset %d, where %d are known of", l, n, w, offset, len(l.told))
	}
	for int64(len(l.told)) <= offset {
		l.told = append(l.told, 0)
	}
	if was := l.told[offset]; was != 0 && was != key(w, n) {
		return fmt.Errorf("%v: offset %d holds message %d of writer %d for one, and %d of writer %d for another", l, offset,
			n, w, was&(1<<40-1), was>>40-1)
	}
	l.told[offset] = key(w, n)
	return nil
}

// inGroup notes the raft group of the lane.
func (l *lane) inGroup(g int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.group != 0 && l.group != g {
		return fmt.Errorf("%v: it was in raft group %d and is in %d", l, l.group, g)
	}
	l.group = g
	return nil
}

// reading judges what one node holds of a lane, message after message, from offset 0.
type reading struct {
	l     *lane
	node  int
	at    int64 // the next offset
	next  []int // by writer: the next number
	stamp time.Time
	times stamps
}

func (l *lane) read(node int) *reading {
	return &reading{l: l, node: node, next: make([]int, len(l.sent))}
}

func (r *reading) wrong(format string, args ...any) error {
	return fmt.Errorf("node %d: %v: %s", r.node+1, r.l, fmt.Sprintf(format, args...))
}

// take judges the next message; a reader that is not told the group's time gives none.
func (r *reading) take(w, n int, offset int64, stamp time.Time) error {
	if offset != r.at {
		return r.wrong("offset %d comes where %d belongs", offset, r.at)
	}
	if w < 0 || w >= len(r.next) {
		return r.wrong("offset %d is of writer %d, who is none", offset, w)
	}
	switch next := r.next[w]; {
	case n < next:
		return r.wrong("offset %d holds message %d of writer %d again", offset, n, w)
	case n > next:
		return r.wrong("offset %d holds message %d of writer %d, and there is no message %d before it", offset, n, w, next)
	}
	if stamp.Before(r.stamp) {
		return r.wrong("offset %d was made at %v, the one before it at %v", offset, stamp, r.stamp)
	}
	r.at, r.next[w], r.stamp = offset+1, n+1, stamp
	if !stamp.IsZero() {
		r.times = stamps{r.at, r.times.sum*31 + stamp.UnixMicro()}
	}
	return r.l.see(w, n, offset)
}

// end judges that everything was there.
func (r *reading) end() error {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	for w, n := range r.next {
		if n < r.l.acked[w] {
			return r.wrong("message %d of writer %d was acknowledged and is not there", n, w)
		}
	}
	if r.at < int64(len(r.l.told)) {
		return r.wrong("it holds %d messages of %d that somebody was told of", r.at, len(r.l.told))
	}
	if r.l.times.count == 0 {
		r.l.times = r.times
	}
	if r.times.count == r.l.times.count && r.times.sum != r.l.times.sum {
		return r.wrong("its messages are of other times than those of the node that was read first")
	}
	return nil
}
