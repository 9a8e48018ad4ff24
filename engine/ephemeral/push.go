package ephemeral

import (
	"bytes"
	"fmt"
	"time"

	"queen/engine/format"
)

// MaxBatch bounds the messages of one push and of one pop (S-eph-12).
const MaxBatch = 10_000

// PushRequest appends payloads to a partition.
type PushRequest struct {
	Queue, Partition string
	Payloads         [][]byte // copied
	// Admit asks what the Store does not know, the tenant's plan: after the queue's bounds and before the node's. nil
	// means yes. It must be quick and must not call the Store; its error is returned as it is.
	Admit func() error
}

// Push appends payloads to a partition, all or none, and hands them to pops that wait. It brings the queue into being
// when there is none; pushing nothing changes nothing. Bounds are asked in the order queue, tenant, node (S-eph-7):
// QueueFull, then what Admit says, then NoRoom.
func (s *Store) Push(t format.Tenant, r PushRequest) error {
	if err := checkName("queue", r.Queue, false); err != nil {
		return err
	}
	if err := checkName("partition", r.Partition, false); err != nil {
		return err
	}
	if len(r.Payloads) > MaxBatch {
		return bad("messages", "10000", "more than 10000 messages in one push")
	}
	p := push{s: s, queue: r.Queue, partition: r.Partition, ask: r.Admit, kept: make([][]byte, len(r.Payloads))}
	for i := range r.Payloads {
		p.kept[i] = bytes.Clone(r.Payloads[i])
		p.bytes += int64(len(r.Payloads[i]))
	}
	declared := s.enter(t, r.Queue)
	defer s.end()
	if err := s.usable(); err != nil || len(r.Payloads) == 0 {
		return orNil(err)
	}
	if err := p.admit(t, declared); err != nil {
		return err
	}
	p.commit(s.tenantOf(t), declared)
	return nil
}

// orNil keeps a nil *Error from becoming an error.
func orNil(err *Error) error {
	if err == nil {
		return nil
	}
	return err
}

// push is one Push under way.
type push struct {
	s                *Store
	queue, partition string
	kept             [][]byte // what will be appended
	bytes            int64    // of kept
	skipped          int      // the oldest of the push itself, that DropOldest would drop at once
	evict            int      // the oldest of the queue, that DropOldest drops
	ask              func() error
}

// admit asks every bound, in order, and changes nothing but idle queues that have to go for it.
func (p *push) admit(t format.Tenant, d Declared) error {
	s := p.s
	q := s.find(t, p.queue)
	settings := &d.Settings
	switch {
	case q != nil && q.generation >= d.Generation:
		settings = &q.settings
	case !d.Found:
		*settings = DefaultSettings()
	}
	freed, err := p.fit(q, settings)
	if err != nil {
		return err
	}
	need := p.need(q) - freed
	if q != nil {
		// Not to be reclaimed under our hands, and back among the idle if the push is refused.
		s.idleQueues.remove(&q.idle)
		defer s.rest(q)
	}
	if p.ask != nil {
		if err := p.ask(); err != nil {
			return err
		}
	}
	if !s.reclaim(need, s.o.MaxBytes) {
		return noRoom(s.o.MaxBytes)
	}
	return nil
}

func noRoom(limit int64) *Error {
	return &Error{Reason: NoRoom, Limit: fmt.Sprint(limit), RetryAfter: time.Second,
		Message: fmt.Sprintf("the node's memory for ephemeral queues, %d bytes, is used up", limit)}
}

// fit asks the queue's bounds. freed is what dropping makes room for.
func (p *push) fit(q *queue, set *Settings) (freed int64, err error) {
	depth, size := int64(0), int64(0)
	if q != nil {
		depth, size = q.depth, q.bytes
	}
	n := int64(len(p.kept))
	if depth+n <= set.MaxLength && size+p.bytes <= set.MaxBytes {
		return 0, nil
	}
	full := &Error{Reason: QueueFull, RetryAfter: time.Second, Message: fmt.Sprintf(
		"the queue holds at most %d messages and %d bytes", set.MaxLength, set.MaxBytes)}
	if set.Policy != DropOldest {
		return 0, full
	}
	for n > set.MaxLength || p.bytes > set.MaxBytes {
		p.bytes -= int64(len(p.kept[p.skipped]))
		p.skipped++
		if n--; n == 0 {
			return 0, full // not even the last one fits
		}
	}
	p.kept = p.kept[p.skipped:]
	// What of the push itself has no room is younger than everything in the queue.
	for m := q.oldestOf(); m != nil && (p.skipped > 0 || depth+n > set.MaxLength || size+p.bytes > set.MaxBytes); m = m.newer {
		depth, size, freed = depth-1, size-int64(len(m.payload)), freed+m.cost()
		p.evict++
	}
	return freed, nil
}

func (q *queue) oldestOf() *message {
	if q == nil {
		return nil
	}
	return q.oldest
}

// need is what the push adds to the bytes of the node.
func (p *push) need(q *queue) int64 {
	need := p.bytes + int64(len(p.kept))*messageCost
	if q == nil {
		return need + queueCost + int64(len(p.queue)) + partitionCost + int64(len(p.partition))
	}
	if q.parts[p.partition] == nil {
		need += partitionCost + int64(len(p.partition)) + int64(len(q.everywhere))*cursorCost
	}
	return need
}

// commit carries out what was admitted.
func (p *push) commit(t *tenant, d Declared) {
	s := p.s
	q := s.ensureQueue(t, p.queue, d)
	s.idleQueues.remove(&q.idle)
	for range p.evict {
		s.dropOldest(q, false)
	}
	q.drops.Bounds += uint64(p.skipped)
	s.counts.Dropped.Bounds += uint64(p.skipped)
	part := s.ensurePartition(q, p.partition)
	var first *message
	for _, payload := range p.kept {
		if m := s.add(part, payload); first == nil {
			first = m
		}
	}
	s.counts.Pushed += uint64(len(p.kept) + p.skipped)
	for _, c := range part.cursors {
		if c.next == nil {
			c.next = first
		}
		c.behind += int64(len(p.kept))
		s.changed(c, int64(len(p.kept)))
	}
	for _, c := range part.cursors {
		s.offer(c)
	}
	s.rest(q)
}
