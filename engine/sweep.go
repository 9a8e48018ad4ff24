package engine

import (
	"slices"
	"sync"
	"time"

	"queen/engine/format"
	"queen/engine/machine"
)

// lagTable is the result of the last lag sweep: what groups have before them. It is counted in the
// background, throttled, never in apply; every answer carries its time.
type lagTable struct {
	mu     sync.Mutex
	queues map[format.QueueID]*queueLag
}

// queueLag is one queue's figures as of a sweep.
type queueLag struct {
	at                            format.Wall
	messages, pending, processing uint64
	groups                        map[string]*groupLag
}

type groupLag struct {
	lag, partitions, leases uint64
	oldest                  format.Wall // createdAt bound of the oldest message behind the cursor; 0 none
}

const (
	// sweepPage is how many partitions are read under one hold of the state lock, sweepCursors how many cursors at
	// most unless a queue has more groups.
	sweepPage    = 512
	sweepCursors = 4096
	// sweepShare bounds the sweep's part of the time: after a sweep of d, which is paced as all background work, it
	// rests sweepShare x d. Without the pace a sweep over 10,000 busy partitions took a processor for 1.4 s.
	sweepShare = 4
)

// sweepLoop counts lag, applies completed retention and removes idle empty partitions.
func (h *house) sweepLoop() {
	defer h.done.Done()
	n := h.n
	timer := n.cfg.Clock.NewTimer(n.cfg.SweepEvery)
	defer timer.Stop()
	for {
		select {
		case <-timer.C():
		case <-n.stopping:
			return
		}
		began := n.cfg.Clock.Mono()
		h.sweep(n.files.duty.rest)
		took := time.Duration(n.cfg.Clock.Mono()-began) * time.Microsecond
		timer.Reset(max(n.cfg.SweepEvery, sweepShare*took))
	}
}

// Sweep runs one lag sweep now, for tests and for callers that need fresh figures.
func (n *Node) Sweep() { n.house.sweep(func() {}) }

// sweep calls pace between two partitions, with no lock held.
func (h *house) sweep(pace func()) {
	n := h.n
	seen := map[format.QueueID]*queueLag{}
	var swept sweptPage
	h.sizes.begin()
	for after := format.QueueID(0); ; {
		n.state.RLock()
		page := n.state.m.Queues(format.Tenant{}, true, after, 64)
		n.state.RUnlock()
		if len(page) == 0 {
			break
		}
		for i := range page {
			after = page[i].ID
			if n.closing() {
				return
			}
			seen[after] = h.sweepQueue(&page[i], &swept, pace)
		}
	}
	h.sizes.end()
	h.lag.mu.Lock()
	h.lag.queues = seen
	h.lag.mu.Unlock()
}

func (h *house) sweepQueue(q *machine.Queue, page *sweptPage, pace func()) *queueLag {
	n := h.n
	out := &queueLag{groups: map[string]*groupLag{}}
	_, out.at = n.stamp.now()
	trim := trimmer{h: h, queue: *q}
	for after := format.PartitionID(0); !n.closing(); {
		n.state.RLock()
		groups := n.state.m.Groups(q.ID)
		next := page.read(n.state.m, q, groups, after)
		n.state.RUnlock()
		for i := range page.parts {
			s := &page.parts[i]
			out.count(s, groups)
			if n.leading() { // what goes is the leader's to propose, and looked up in files
				if len(groups) > 0 && s.allKnown {
					trim.look(&s.part, s.slowest)
				}
				trim.bounded(&s.part)
				trim.sized(&s.part)
				h.cleanup(s, q)
			}
			pace()
		}
		if next == 0 {
			break
		}
		after = next
	}
	trim.flush()
	return out
}

// sweptPage is what is read under one hold of the lock. Its memory is used for every page of a sweep: the sweep runs for
// ever, also over a million partitions where nothing happens.
type sweptPage struct {
	rows    []machine.Partition
	parts   []sweptPartition
	cursors []machine.Cursor
}

// read takes the partitions behind after; it returns where to go on, 0 at the end.
func (p *sweptPage) read(m *machine.Machine, q *machine.Queue, groups []machine.Group, after format.PartitionID) (next format.PartitionID) {
	limit := max(1, min(sweepPage, sweepCursors/max(1, len(groups))))
	p.rows, next = m.UnnamedPartitions(p.rows[:0], q.ID, after, limit)
	p.parts = p.parts[:0]
	p.cursors = slices.Grow(p.cursors[:0], len(p.rows)*len(groups))
	for i := range p.rows {
		from := len(p.cursors)
		p.cursors = p.cursors[:from+len(groups)]
		p.parts = append(p.parts, sweepInto(p.cursors[from:], m, newPartView(p.rows[i], q), groups))
	}
	return next
}

// sweptPartition is one partition as every group sees it, at one instant.
type sweptPartition struct {
	part     partView
	cursors  []machine.Cursor // one per group
	slowest  format.Offset
	allKnown bool
	leased   uint64
}

func sweepOne(m *machine.Machine, part partView, groups []machine.Group) sweptPartition {
	return sweepInto(make([]machine.Cursor, len(groups)), m, part, groups)
}

// sweepInto is sweepOne with memory for the cursors.
func sweepInto(cursors []machine.Cursor, m *machine.Machine, part partView, groups []machine.Group) sweptPartition {
	s := sweptPartition{part: part, slowest: part.tail(), allKnown: true, cursors: cursors}
	for g := range groups {
		c, ok := m.CursorOf(part.id, groups[g].ID)
		s.cursors[g] = c
		if !ok || !c.Known {
			s.allKnown = false
			continue
		}
		s.slowest = min(s.slowest, c.Next)
		if !c.Lease.ID.IsZero() && c.Lease.End > c.Next {
			s.leased += uint64(c.Lease.End - c.Next)
		}
	}
	return s
}

func (l *queueLag) count(s *sweptPartition, groups []machine.Group) {
	start := s.part.start
	if s.part.Empty {
		start = s.part.tail()
	}
	l.messages += uint64(s.part.tail() - start)
	if len(groups) == 0 {
		l.pending += uint64(s.part.tail() - start)
		return
	}
	l.pending += uint64(s.part.tail() - min(max(s.slowest, start), s.part.tail()))
	l.processing += s.leased
	for g := range groups {
		c := &s.cursors[g]
		gl := l.groups[groups[g].Name]
		if gl == nil {
			gl = &groupLag{}
			l.groups[groups[g].Name] = gl
		}
		if !c.Lease.ID.IsZero() {
			gl.leases++
		}
		next := max(c.Next, start)
		if !c.Known || next >= s.part.tail() {
			continue
		}
		gl.lag += uint64(s.part.tail() - next)
		gl.partitions++
		if gl.oldest == 0 || s.part.lastW < gl.oldest {
			gl.oldest = s.part.lastW
		}
	}
}

// cleanup removes a partition that holds nothing and was not written for the configured time
// (S-ret-10). Decimal names that Kafka may know keep their offsets: they stay.
func (h *house) cleanup(s *sweptPartition, q *machine.Queue) {
	n := h.n
	age := n.cfg.PartitionCleanup
	_, now := n.stamp.now()
	empty := s.part.Empty || s.part.start == s.part.next
	used := max(s.part.lastW, s.part.Created) // a position makes partitions that nobody wrote to
	if age < 0 || !empty || s.part.DeadLetters || s.leased > 0 || now-used < format.Wall(age.Microseconds()) {
		return
	}
	named, ok := n.partByID(q.Tenant, s.part.id)
	if !ok {
		return
	}
	if _, numbered := format.PartitionNumber(named.name); numbered && (q.Kafka || q.Options.KafkaPartitions > 0) {
		return
	}
	sub := newSubmission(consumption)
	sub.buf.AddDelete(&format.Delete{What: format.DeletePartition, Tenant: q.Tenant, Queue: []byte(q.Name),
		Name: []byte(named.name), Partition: s.part.id, Offset: s.part.next})
	h.commit(sub)
}

// of reads the figures of a queue; nil when no sweep counted it yet.
func (l *lagTable) of(id format.QueueID) *queueLag {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queues[id]
}
