package main

import (
	"bytes"
	"sync"
	"time"

	"queen/bench/internal/changes"
	"queen/bench/internal/client"
	"queen/bench/internal/report"
)

// ledger follows what one consumer group receives and acknowledges.
//
// INVARIANT: a line is settled when its ack was answered with success, or when an ack of it got no answer: then nobody can
// tell whether it counts, and it may or may not come again.
type ledger struct {
	in    *changes.Input
	group string
	v     *report.Violations

	mu struct {
		sync.Mutex
		next  map[*changes.File]int
		state map[*changes.Line]*receipt
		counts
	}
	// all is closed when every line is settled.
	all chan struct{}
}

type receipt struct{ acked, lost bool }

func newLedger(in *changes.Input, group string, v *report.Violations) *ledger {
	l := &ledger{in: in, group: group, v: v, all: make(chan struct{})}
	l.mu.next, l.mu.state = map[*changes.File]int{}, map[*changes.Line]*receipt{}
	return l
}

// received judges one delivered message and returns its line; nil for one that nobody pushed, and for one that comes when
// its lease, which lasts until then at least, may be over: others may have had it since, so that nothing can be told by it, and it is
// not used.
func (l *ledger) received(m *client.Message, until time.Time) *changes.Line {
	e := l.in.Find(m.Partition, m.Data)
	if e == nil {
		l.v.Add("group %s: partition %q delivered a message that is no line of the input: %.200s", l.group, m.Partition, m.Data)
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.delivered++
	if !bytes.Equal(m.Data, e.Raw) || !bytes.Equal(m.ID, e.ID) || m.Offset != uint64(e.At) {
		l.v.Add("group %s: %s line %d came as offset %d, id %q, data %.300s", l.group, e.File.Name, e.At, m.Offset, m.ID, m.Data)
	}
	// Under the lock: whoever gets it after this one comes after it here, too.
	if time.Now().After(until) {
		l.mu.late++
		return nil
	}
	if m.Attempt > 1 {
		l.mu.highAttempts++
	}
	next := l.mu.next[e.File]
	switch {
	case e.At == next:
		l.mu.next[e.File] = next + 1
		l.mu.state[e] = &receipt{}
	case e.At > next:
		l.v.Add("group %s: %s went on with version %d, want %d: a gap", l.group, e.File.Name, e.File.First+e.At,
			e.File.First+next)
	default:
		l.again(m, e)
	}
	return e
}

// again judges a redelivery.
func (l *ledger) again(m *client.Message, e *changes.Line) {
	l.mu.redelivered++
	r := l.mu.state[e]
	switch {
	case r == nil: // it was skipped before, which is named already
	case r.acked:
		l.v.Add("group %s: %s version %d was acknowledged and came again (attempt %d)", l.group, e.File.Name,
			e.File.First+e.At, m.Attempt)
	case r.lost:
		l.mu.redeliveredAfterLost++
	case m.Attempt < 2:
		l.v.Add("group %s: %s version %d came again as its first delivery", l.group, e.File.Name, e.File.First+e.At)
	}
}

// acked notes the answer to an ack. A refused one is no violation: the lease ran out while the node was away.
func (l *ledger) acked(e *changes.Line, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.mu.state[e]
	if !ok || r == nil {
		l.mu.expired++
		return
	}
	l.mu.acked++
	l.settle(r, func() { r.acked = true })
}

// lost notes that acks got no answer.
func (l *ledger) lost(lines []*changes.Line, resend bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range lines {
		r := l.mu.state[e]
		if r == nil {
			continue
		}
		l.mu.lostAcks++
		if resend {
			l.mu.resent++
		}
		l.settle(r, func() { r.lost = true })
	}
}

func (l *ledger) settle(r *receipt, change func()) {
	was := r.acked || r.lost
	change()
	if was {
		return
	}
	if l.mu.settled++; l.mu.settled == len(l.in.Lines) {
		close(l.all)
	}
}

// finish judges what must hold at the end: every file was read to its end.
func (l *ledger) finish() counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.in.Files {
		if n := l.mu.next[e]; n != len(e.Lines) {
			l.v.Add("group %s: %s was read up to version %d, its last is %d", l.group, e.Name, e.First+n-1,
				e.First+len(e.Lines)-1)
		}
	}
	return l.mu.counts
}
