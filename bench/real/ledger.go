package main

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	"queen/bench/internal/changes"
	"queen/bench/internal/client"
)

// violations are the broken promises of a run; the first ones are kept.
type violations struct {
	mu struct {
		sync.Mutex
		some  []string
		count int
	}
}

func (v *violations) add(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.mu.count++; len(v.mu.some) < 50 {
		v.mu.some = append(v.mu.some, fmt.Sprintf(format, args...))
	}
}

func (v *violations) list() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	out := slices.Clone(v.mu.some)
	if more := v.mu.count - len(out); more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return out
}

// ledger follows what one consumer group receives and acknowledges.
//
// INVARIANT: a line is settled when its ack was answered with success, or when an ack of it got no answer: then nobody can
// tell whether it counts, and it may or may not come again.
type ledger struct {
	in    *changes.Input
	group string
	v     *violations

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

// counts are for the report.
type counts struct {
	settled, delivered, redelivered    int
	acked, lostAcks, resent, expired   int
	redeliveredAfterLost, highAttempts int
}

func newLedger(in *changes.Input, group string, v *violations) *ledger {
	l := &ledger{in: in, group: group, v: v, all: make(chan struct{})}
	l.mu.next, l.mu.state = map[*changes.File]int{}, map[*changes.Line]*receipt{}
	return l
}

// received judges one delivered message and returns its line; nil for one that nobody pushed.
func (l *ledger) received(m *client.Message) *changes.Line {
	e := l.in.Find(m.Partition, m.Data)
	if e == nil {
		l.v.add("group %s: partition %q delivered a message that is no line of the input: %.200s", l.group, m.Partition, m.Data)
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.delivered++
	if !bytes.Equal(m.Data, e.Raw) || !bytes.Equal(m.ID, e.ID) || m.Offset != uint64(e.At) {
		l.v.add("group %s: %s line %d came as offset %d, id %q, data %.300s", l.group, e.File.Name, e.At, m.Offset, m.ID, m.Data)
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
		l.v.add("group %s: %s went on with version %d, want %d: a gap", l.group, e.File.Name, e.File.First+e.At,
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
		l.v.add("group %s: %s version %d was acknowledged and came again (attempt %d)", l.group, e.File.Name,
			e.File.First+e.At, m.Attempt)
	case r.lost:
		l.mu.redeliveredAfterLost++
	case m.Attempt < 2:
		l.v.add("group %s: %s version %d came again as its first delivery", l.group, e.File.Name, e.File.First+e.At)
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
			l.v.add("group %s: %s was read up to version %d, its last is %d", l.group, e.Name, e.First+n-1,
				e.First+len(e.Lines)-1)
		}
	}
	return l.mu.counts
}
