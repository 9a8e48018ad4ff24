package engine

import (
	"sync"

	"queen/engine/format"
	"queen/engine/invariants"
	"queen/engine/machine"
)

// Failpoints between what a proposal rests on and the proposal.
var (
	failRetainAsked = invariants.Register("engine.retain.asked")
	failTrimAsked   = invariants.Register("engine.trim.asked")
)

// lastWrites remembers, per queue, when the newest message was appended, so that retention proposes
// nothing for a queue in which nothing can have expired since. It is bounded by the live queues
// written in this life.
type lastWrites struct {
	mu   sync.Mutex
	at   map[format.QueueID]format.Wall
	done map[format.QueueID]format.Wall // cutoff proposed last
}

func (l *lastWrites) note(touched []machine.Touched, w format.Wall) {
	if len(touched) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at == nil {
		l.at, l.done = map[format.QueueID]format.Wall{}, map[format.QueueID]format.Wall{}
	}
	var last format.QueueID
	for i := range touched {
		t := &touched[i]
		switch {
		case t.Reason&machine.TouchedGone != 0 && t.Partition == 0:
			delete(l.at, t.Queue)
			delete(l.done, t.Queue)
		case t.Reason&machine.TouchedAppend != 0 && t.Queue != last:
			last = t.Queue
			l.at[t.Queue] = w
		}
	}
}

// expired reports whether messages created before cutoff may exist that the last proposal did not
// cover.
func (l *lastWrites) expired(q format.QueueID, cutoff format.Wall) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	last, written := l.at[q]
	done, proposed := l.done[q]
	return !proposed || cutoff > done && (!written || done <= last)
}

func (l *lastWrites) proposed(q format.QueueID, cutoff format.Wall) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done == nil {
		l.at, l.done = map[format.QueueID]format.Wall{}, map[format.QueueID]format.Wall{}
	}
	l.done[q] = max(l.done[q], cutoff)
}

// retainAborts bounds the aborted ranges that one entry forgets, retainRounds the entries of one pass: what is left is
// taken by the next one.
const (
	retainAborts = 4096
	retainRounds = 16
)

// retain proposes time retention, one command per queue that may hold expired messages (S-ret-2,
// S-ret-4): constant work per queue, none per partition; and has aborted ranges forgotten that are older, whether there are
// messages or not. Passes follow each other, so that who waits for one (Settle) waits for the one under way too.
func (h *house) retain() {
	if !h.n.leading() {
		return
	}
	h.retaining.Lock()
	defer h.retaining.Unlock()
	for range retainRounds {
		if !h.retainRound() {
			return
		}
	}
}

// retainRound proposes one entry; again says that more ranges than it may forget are due.
func (h *house) retainRound() (again bool) {
	n := h.n
	_, now := n.stamp.now()
	s := newSubmission(consumption)
	var asked []format.Retain
	room := h.abortsMost
	var aborts [256]uint32
	for after := format.QueueID(0); ; {
		n.state.RLock()
		page := n.state.m.Queues(format.Tenant{}, true, after, len(aborts))
		for i := range page {
			q := &page[i]
			if aborts[i] = 0; q.Expiry > 0 {
				aborts[i] = n.state.m.OldAborts(q.ID, max(now-q.Expiry, q.Cutoff), room)
				room -= aborts[i]
			}
		}
		n.state.RUnlock()
		if len(page) == 0 {
			break
		}
		for i := range page {
			q := &page[i]
			after = q.ID
			cutoff := now - q.Expiry
			expired := q.Expiry > 0 && cutoff > q.Cutoff && h.writes.expired(q.ID, cutoff)
			if !expired && aborts[i] == 0 {
				continue
			}
			r := format.Retain{Queue: q.ID, Cutoff: cutoff, Generation: q.OptionGen, Aborts: aborts[i]}
			s.buf.AddRetain(&r)
			asked = append(asked, r)
		}
	}
	invariants.Failpoint(failRetainAsked)
	if !h.commit(s) {
		return false
	}
	items := s.items()
	for i := range asked {
		// One that the options overtook is asked again: an idle queue would keep its messages for ever.
		if items[i].Code == format.CodeOK {
			h.writes.proposed(asked[i].Queue, asked[i].Cutoff)
		}
	}
	return room == 0 && !n.closing()
}

// trimBatch bounds the partitions of one Trim command.
const trimBatch = 1000

// trimmer collects completed retention during a sweep (S-ret-3): messages older than the setting that
// every consumer group's cursor has passed.
type trimmer struct {
	h     *house
	queue machine.Queue
	items []format.TrimItem
	// starts are log starts as time retention moved them, of a queue that bounds its partitions.
	starts []format.TrimItem
	// large are surpluses of partitions that RetentionBytes bounds.
	large []format.TrimItem
}

// bounded makes room in a partition that maxSize bounds: what time retention removed counts until the
// state knows the log start.
func (t *trimmer) bounded(part *partView) {
	o := &t.queue.Options
	if o.Set&format.OptMaxSize == 0 || o.MaxSize <= 0 || part.cutoff == 0 {
		return
	}
	start, err := t.h.n.logStart(part)
	if err != nil {
		t.h.n.event("retention", err)
		return
	}
	if start <= part.start {
		return
	}
	if t.starts = append(t.starts, format.TrimItem{Partition: part.id, Upto: start}); len(t.starts) == trimBatch {
		t.flush()
	}
}

// look judges one partition; slowest is the lowest cursor of the queue's groups.
func (t *trimmer) look(part *partView, slowest format.Offset) {
	if t.queue.CompletedRetention == 0 || slowest <= part.start {
		return
	}
	n := t.h.n
	_, now := n.stamp.now()
	at, err := n.firstAt(part, part.start, now-t.queue.CompletedRetention)
	if err != nil {
		n.event("retention", err)
		return
	}
	upto := slowest
	if at.found {
		upto = min(upto, at.offset)
	}
	// Whole frames only (S-ret-7): up to the base of the frame that holds the first kept message.
	if upto < part.next {
		row, ok, err := n.rows.At(part.id, upto, part.newest)
		if err != nil || !ok {
			return
		}
		upto = min(upto, row.Base)
	}
	if upto <= part.start {
		return
	}
	if t.items = append(t.items, format.TrimItem{Partition: part.id, Upto: upto}); len(t.items) == trimBatch {
		t.flush()
	}
}

func (t *trimmer) flush() {
	s := newSubmission(consumption)
	if len(t.items) > 0 {
		s.buf.AddTrim(&format.Trim{Queue: t.queue.ID, Completed: true, Generation: t.queue.GroupGen, Items: t.items})
	}
	if len(t.starts) > 0 {
		s.buf.AddTrim(&format.Trim{Queue: t.queue.ID, Items: t.starts})
	}
	if len(t.large) > 0 {
		s.buf.AddTrim(&format.Trim{Queue: t.queue.ID, Bounded: true, Generation: t.queue.OptionGen, Items: t.large})
	}
	invariants.Failpoint(failTrimAsked)
	t.h.commit(s)
	t.items, t.starts, t.large = nil, nil, nil
}
