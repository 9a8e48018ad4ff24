package ephemeral

import (
	"context"
	"time"

	"queen/engine/format"
)

// MaxWait bounds how long a pop waits (S-eph-12).
const MaxWait = 300 * time.Second

// PopRequest asks for messages of a queue for a consumer group.
type PopRequest struct {
	Queue string
	// Partition is read only when Pinned; otherwise the partition whose messages wait longest goes first.
	Partition string
	Pinned    bool
	// Group "" is queue mode: a group like any other.
	Group string
	// Batch is moved into 1..MaxBatch.
	Batch int
	// Wait parks the pop until there is something, at most MaxWait; 0 or below answers at once.
	Wait time.Duration
	// CommitOnDelivery settles the messages when the answer is known to have left (Delivery.Delivered): at most once.
	CommitOnDelivery bool
	// Alive is asked before messages are given to a pop that waited; nil means yes. It must not block.
	Alive func() bool
}

// Pop hands out messages. Nothing within the wait is (nil, nil). It brings queue, group and a pinned partition into
// being. When ctx ends first, the pop leaves and gets nothing: what was handed to it at that moment goes back.
func (s *Store) Pop(ctx context.Context, t format.Tenant, r PopRequest) (*Delivery, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	r.Batch = min(max(r.Batch, 1), MaxBatch)
	r.Wait = min(r.Wait, MaxWait)
	d, w, err := s.popNow(t, &r)
	if w == nil {
		return d, err
	}
	select {
	case d = <-w.answer:
		return d, nil
	case <-ctx.Done():
		return nil, s.leave(w, ctx.Err())
	}
}

func (r *PopRequest) check() error {
	if err := checkName("queue", r.Queue, false); err != nil {
		return err
	}
	if err := checkName("partition", r.Partition, !r.Pinned); err != nil {
		return err
	}
	return orNil(checkName("group", r.Group, true))
}

// popNow answers, or parks and returns the waiter.
func (s *Store) popNow(t format.Tenant, r *PopRequest) (*Delivery, *waiter, error) {
	declared := s.enter(t, r.Queue)
	defer s.end()
	if err := s.usable(); err != nil {
		return nil, nil, err
	}
	q := s.find(t, r.Queue)
	if q != nil {
		s.idleQueues.remove(&q.idle)
	}
	if err := s.admitPop(q, r); err != nil {
		if q != nil {
			s.rest(q)
		}
		return nil, nil, err
	}
	q = s.ensureQueue(s.tenantOf(t), r.Queue, declared)
	defer s.rest(q)
	g := s.ensureGroup(q, r.Group)
	var only *cursor
	var since int64
	if r.Pinned {
		p := s.ensurePartition(q, r.Partition)
		if only = g.cursors[p.name]; only == nil {
			only = s.newCursor(g, p)
		}
		since = only.since
	} else {
		s.readAll(g)
		since = g.since
	}
	s.polled(g, only)
	ready := g.ready
	if only != nil {
		ready = only.ready()
	}
	switch {
	case r.Wait <= 0 && ready > 0, s.enough(g, only, r.Batch, since):
		return s.take(g, only, r.Batch, r.CommitOnDelivery), nil, nil
	case r.Wait <= 0:
		return nil, nil, nil
	}
	return nil, s.park(g, only, r), nil
}

// admitPop asks the node. Pops may use half as much again as pushes: see Options.MaxBytes.
func (s *Store) admitPop(q *queue, r *PopRequest) error {
	need := int64(0)
	if r.Wait > 0 {
		need = waiterCost
	}
	var g *group
	newPart := r.Pinned
	if q == nil {
		need += queueCost + int64(len(r.Queue))
	} else {
		g = q.groups[r.Group]
		newPart = r.Pinned && q.parts[r.Partition] == nil
	}
	if newPart {
		need += partitionCost + int64(len(r.Partition))
		if q != nil {
			need += int64(len(q.everywhere)) * cursorCost
		}
	}
	switch {
	case g == nil:
		need += groupCost + int64(len(r.Group)) + cursorCost
		if q != nil && !r.Pinned {
			need += int64(len(q.parts)) * cursorCost
		}
	case !r.Pinned && !g.all:
		need += int64(len(q.parts)-len(g.cursors)) * cursorCost
	case r.Pinned && g.cursors[r.Partition] == nil:
		need += cursorCost
	}
	if limit := s.o.MaxBytes + s.o.MaxBytes/2; need > 0 && !s.reclaim(need, limit) {
		return noRoom(limit)
	}
	return nil
}

// leave takes a pop out whose caller is gone; what it was given at the same moment goes back, uncounted.
func (s *Store) leave(w *waiter, cause error) error {
	s.mu.Lock()
	s.now = s.o.Clock.Mono()
	given := w.done
	if !given {
		s.finish(w, nil)
	}
	s.end()
	if given {
		if d := <-w.answer; d != nil {
			d.Abandon()
		}
	}
	return cause
}
