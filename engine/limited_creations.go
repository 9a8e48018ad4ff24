package engine

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/semaphore"

	"queen/engine/auth"
	"queen/engine/format"
)

// makers are the calls under way that create queues or partitions of tenants with caps. What they name counts as if it
// were there, so that calls at the same moment do not pass a cap together. A call that fits beside all of them goes
// ahead; one that may not waits until none is under way and counts exactly.
type makers struct {
	once sync.Once
	turn *semaphore.Weighted

	mu     sync.Mutex
	queues map[queueName]int // calls that name it; partitions likewise
	lanes  map[laneName]int
	// of a tenant, and of a queue
	queuesOf map[format.Tenant]int
	lanesOf  map[queueName]int
}

type laneName struct {
	queueName
	partition string
}

// allMakers is the turn of one who counts exactly.
const allMakers = 1 << 20

func (m *makers) start() {
	m.turn = semaphore.NewWeighted(allMakers)
	m.queues, m.lanes = map[queueName]int{}, map[laneName]int{}
	m.queuesOf, m.lanesOf = map[format.Tenant]int{}, map[queueName]int{}
}

// reserve counts what a call is about to create and returns what all calls are together: queues of the tenant, and
// partitions of each queue that the call names.
func (m *makers) reserve(t format.Tenant, n *newcomers) (all newcomers) {
	all = newcomers{lanesOf: map[string]int{}}
	m.mu.Lock()
	defer m.mu.Unlock()
	for q := range n.queues {
		k := queueName{t, q}
		if m.queues[k]++; m.queues[k] == 1 {
			m.queuesOf[t]++
		}
	}
	for ref := range n.lanes {
		k := laneName{queueName{t, ref.Queue}, ref.Partition}
		if m.lanes[k]++; m.lanes[k] == 1 {
			m.lanesOf[k.queueName]++
		}
	}
	all.queuesMade = m.queuesOf[t]
	for q := range n.lanesOf {
		all.lanesOf[q] = m.lanesOf[queueName{t, q}]
	}
	return all
}

// free ends what reserve counted.
func (m *makers) free(t format.Tenant, n *newcomers) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for q := range n.queues {
		k := queueName{t, q}
		if m.queues[k]--; m.queues[k] > 0 {
			continue
		}
		delete(m.queues, k)
		if m.queuesOf[t]--; m.queuesOf[t] == 0 {
			delete(m.queuesOf, t)
		}
	}
	for ref := range n.lanes {
		k := laneName{queueName{t, ref.Queue}, ref.Partition}
		if m.lanes[k]--; m.lanes[k] > 0 {
			continue
		}
		delete(m.lanes, k)
		if m.lanesOf[k.queueName]--; m.lanesOf[k.queueName] == 0 {
			delete(m.lanesOf, k.queueName)
		}
	}
}

// hold holds what a call would create to the plan; made is called when the call is over.
func (l *limited) hold(ctx context.Context, c Caller, plan *auth.Plan, collect func(*newcomers) error) (made func(), err error) {
	none := func() {}
	if plan.Queues == 0 && plan.PartitionsPerQueue == 0 {
		return none, nil
	}
	n := newNewcomers()
	if err := collect(&n); err != nil || n.none() {
		return none, err
	}
	m := &l.makers
	m.once.Do(m.start)
	if err := m.turn.Acquire(ctx, 1); err != nil {
		return nil, errContext(ctx, OutcomeNone)
	}
	all := m.reserve(c.Tenant, &n)
	made = func() {
		m.free(c.Tenant, &n)
		m.turn.Release(1)
	}
	over, err := l.over(ctx, c, plan, &all)
	if err == nil && over == nil {
		return made, nil
	}
	made()
	if err != nil {
		return nil, err
	}
	if err := m.turn.Acquire(ctx, allMakers); err != nil {
		return nil, errContext(ctx, OutcomeNone)
	}
	made = func() { m.turn.Release(allMakers) }
	n = newNewcomers()
	if err = collect(&n); err == nil {
		err = l.judge(ctx, c, plan, &n)
	}
	if err != nil {
		made()
		return nil, err
	}
	return made, nil
}

// ofBatch notes what a batch would create.
func (l *limited) ofBatch(ctx context.Context, c Caller, n *newcomers, b Batch) (err error) {
	for _, op := range b.Ops {
		switch op := op.(type) {
		case *Append:
			err = l.add(ctx, c, n, PartitionRef{op.Queue, op.Partition}, true)
		case *CommitOffset: // its queue has to be there
			if err = l.add(ctx, c, n, PartitionRef{op.Queue, op.Partition}, true); n.queues[op.Queue] {
				n.forget(op.Queue)
			}
		case *SetOffset:
			err = l.add(ctx, c, n, PartitionRef{Queue: op.Queue}, false)
		case *Redrive:
			if op.ToOther {
				err = l.add(ctx, c, n, PartitionRef{op.Queue, op.Partition}, op.ToPart)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// firstPop carries out a pop of a queue that is not there, which creates it, without waiting; done says that its answer is
// the pop's.
func (l *limited) firstPop(ctx context.Context, c Caller, r PopRequest) (d *Delivery, done bool, err error) {
	plan := l.q.Plan(auth.Tenant(c.Tenant))
	if r.Scope.Discovery || plan.Queues == 0 {
		return nil, false, nil
	}
	fresh := false
	made, err := l.hold(ctx, c, &plan, func(n *newcomers) error {
		err := l.add(ctx, c, n, PartitionRef{Queue: r.Scope.Queue}, false)
		fresh = !n.none()
		return err
	})
	if err != nil {
		return nil, false, err
	}
	defer made()
	if !fresh {
		return nil, false, nil
	}
	now := r
	now.Wait = 0
	if d, err = l.Engine.Pop(ctx, c, now); err != nil || d != nil && len(d.Claims) > 0 || r.Wait <= 0 {
		return d, true, err
	}
	if d != nil {
		d.Abandon()
	}
	return nil, false, nil
}

// newcomers are the queues and partitions that a call would create.
type newcomers struct {
	queues  map[string]bool
	lanes   map[PartitionRef]bool
	lanesOf map[string]int // of a queue
	// queuesMade counts queues where they are not listed.
	queuesMade int
}

func newNewcomers() newcomers {
	return newcomers{queues: map[string]bool{}, lanes: map[PartitionRef]bool{}, lanesOf: map[string]int{}}
}

func (n *newcomers) none() bool { return len(n.queues) == 0 && len(n.lanes) == 0 }

// forget leaves a queue out, which the call does not create.
func (n *newcomers) forget(queue string) {
	delete(n.queues, queue)
	delete(n.lanesOf, queue)
	for ref := range n.lanes {
		if ref.Queue == queue {
			delete(n.lanes, ref)
		}
	}
}

// add notes what is not there yet.
func (l *limited) add(ctx context.Context, c Caller, n *newcomers, at PartitionRef, partition bool) error {
	if n.lanes[at] || !partition && n.queues[at.Queue] {
		return nil
	}
	_, err := l.Engine.Catalog().Partition(ctx, c, at.Queue, at.Partition)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, &Error{Code: CodeUnknownQueue}):
		n.queues[at.Queue] = true
	case !errors.Is(err, &Error{Code: CodeUnknownPartition}):
		return err
	}
	if partition {
		n.lanes[at] = true
		n.lanesOf[at.Queue]++
	}
	return nil
}

// judge refuses what is over a cap, unless the plan only looks on.
func (l *limited) judge(ctx context.Context, c Caller, plan *auth.Plan, n *newcomers) error {
	bound, err := l.over(ctx, c, plan, n)
	if err != nil || bound == nil || !l.q.Exceeds(plan, *bound) {
		return err
	}
	if *bound == auth.BoundQueues {
		return errCap(*bound, int64(plan.Queues))
	}
	return errCap(*bound, int64(plan.PartitionsPerQueue))
}

// over names a cap that newcomers do not fit under; nil when they do.
func (l *limited) over(ctx context.Context, c Caller, plan *auth.Plan, n *newcomers) (bound *auth.Bound, err error) {
	queues, lanes := auth.BoundQueues, auth.BoundPartitions
	if more := len(n.queues) + n.queuesMade; plan.Queues > 0 && more > 0 {
		have, err := l.countQueues(ctx, c, plan.Queues)
		if err != nil {
			return nil, err
		}
		if have+more > plan.Queues {
			return &queues, nil
		}
	}
	if plan.PartitionsPerQueue == 0 {
		return nil, nil
	}
	for queue, more := range n.lanesOf {
		have := uint64(0)
		info, err := l.Engine.Catalog().Queue(ctx, c, queue)
		switch {
		case err == nil:
			have = info.Partitions
		case !errors.Is(err, &Error{Code: CodeUnknownQueue}):
			return nil, err
		}
		if have+uint64(more) > uint64(plan.PartitionsPerQueue) {
			return &lanes, nil
		}
	}
	return nil, nil
}

// countQueues counts the queues of a tenant, up to most.
func (l *limited) countQueues(ctx context.Context, c Caller, most int) (n int, err error) {
	page := Page{Limit: min(most, 1000)}
	for n < most {
		rows, next, err := l.Engine.Catalog().Queues(ctx, c, page)
		if n += len(rows); err != nil || next == "" {
			return n, err
		}
		page.After = next
	}
	return n, nil
}
