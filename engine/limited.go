package engine

import (
	"context"
	"errors"
	"strconv"
	"time"

	"queen/engine/auth"
)

// Limit holds the callers of an engine to the plans of their tenants, for every frontend alike: sizes, queues and
// partitions, waiting pops, and the rate of messages. A call over a plan is refused as a whole before anything of it is
// carried out, and a refused call takes nothing from a rate. A nil q limits nothing.
//
// Caps on queues and partitions are looked at before the call: calls that create some at the same moment may pass
// together, so a cap can be exceeded by as many as there are at once. Only pushes, pops, seeks and configure calls are
// looked at; the target of a timer or a redrive comes into being whatever the cap.
func Limit(e Engine, q *auth.Quotas) Engine {
	if q == nil {
		return e
	}
	return &limited{Engine: e, q: q}
}

type limited struct {
	Engine
	q *auth.Quotas
}

// errCap refuses what is over a cap.
func errCap(b auth.Bound, limit int64) *Error {
	return &Error{Code: CodeQuotaExceeded, Field: b.String(), Limit: strconv.FormatInt(limit, 10),
		Message: "the tenant's plan allows " + strconv.FormatInt(limit, 10) + " " + b.String()}
}

// errRate refuses what is over a rate.
func errRate(b auth.Bucket, after time.Duration) *Error {
	return &Error{Code: CodeRateLimited, RetryAfter: after, Field: b.String(), Message: "the tenant's plan allows fewer " + b.String() + " a second"}
}

// Do implements Engine.
func (l *limited) Do(ctx context.Context, c Caller, b Batch) ([]Result, error) {
	t := auth.Tenant(c.Tenant)
	plan := l.q.Plan(t)
	if plan == (auth.Plan{}) {
		return l.Engine.Do(ctx, c, b)
	}
	messages, err := l.sizes(&plan, b)
	if err != nil {
		return nil, err
	}
	if err := l.creations(ctx, c, &plan, b); err != nil {
		return nil, err
	}
	if ok, after := l.q.Take(t, auth.Messages, messages); !ok {
		return nil, errRate(auth.Messages, after)
	}
	return l.Engine.Do(ctx, c, b)
}

// sizes counts the messages of a batch and holds them to the plan.
func (l *limited) sizes(plan *auth.Plan, b Batch) (messages int, err error) {
	for _, op := range b.Ops {
		a, ok := op.(*Append)
		if !ok {
			continue
		}
		messages += len(a.Messages)
		for i := range a.Messages {
			if plan.PayloadBytes > 0 && int64(len(a.Messages[i].Payload)) > plan.PayloadBytes && l.q.Exceeds(plan, auth.BoundPayload) {
				return 0, errCap(auth.BoundPayload, plan.PayloadBytes)
			}
		}
	}
	if plan.BatchItems > 0 && messages > plan.BatchItems && l.q.Exceeds(plan, auth.BoundBatch) {
		return 0, errCap(auth.BoundBatch, int64(plan.BatchItems))
	}
	return messages, nil
}

// creations holds new queues and partitions of a batch to the plan.
func (l *limited) creations(ctx context.Context, c Caller, plan *auth.Plan, b Batch) error {
	if plan.Queues == 0 && plan.PartitionsPerQueue == 0 {
		return nil
	}
	n := newcomers{queues: map[string]bool{}, lanes: map[PartitionRef]bool{}, lanesOf: map[string]int{}}
	for _, op := range b.Ops {
		var err error
		switch op := op.(type) {
		case *Append:
			err = l.add(ctx, c, &n, PartitionRef{op.Queue, op.Partition}, true)
		case *SetOffset:
			err = l.add(ctx, c, &n, PartitionRef{Queue: op.Queue}, false)
		}
		if err != nil {
			return err
		}
	}
	return l.judge(ctx, c, plan, &n)
}

// newcomers are the queues and partitions that a call would create.
type newcomers struct {
	queues  map[string]bool
	lanes   map[PartitionRef]bool
	lanesOf map[string]int // of a queue
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

func (l *limited) judge(ctx context.Context, c Caller, plan *auth.Plan, n *newcomers) error {
	if plan.Queues > 0 && len(n.queues) > 0 {
		have, err := l.countQueues(ctx, c, plan.Queues)
		if err != nil {
			return err
		}
		if have+len(n.queues) > plan.Queues && l.q.Exceeds(plan, auth.BoundQueues) {
			return errCap(auth.BoundQueues, int64(plan.Queues))
		}
	}
	if plan.PartitionsPerQueue == 0 {
		return nil
	}
	for queue, more := range n.lanesOf {
		have := uint64(0)
		info, err := l.Engine.Catalog().Queue(ctx, c, queue)
		switch {
		case err == nil:
			have = info.Partitions
		case !errors.Is(err, &Error{Code: CodeUnknownQueue}):
			return err
		}
		if have+uint64(more) > uint64(plan.PartitionsPerQueue) && l.q.Exceeds(plan, auth.BoundPartitions) {
			return errCap(auth.BoundPartitions, int64(plan.PartitionsPerQueue))
		}
	}
	return nil
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

// queue holds the creation of one queue to the plan.
func (l *limited) queue(ctx context.Context, c Caller, queue string) error {
	plan := l.q.Plan(auth.Tenant(c.Tenant))
	if plan.Queues == 0 {
		return nil
	}
	n := newcomers{queues: map[string]bool{}}
	if err := l.add(ctx, c, &n, PartitionRef{Queue: queue}, false); err != nil {
		return err
	}
	return l.judge(ctx, c, &plan, &n)
}

// Pop implements Engine. A pop that is ready to wait counts as waiting until it returns. One of a queue that is not
// there creates it.
func (l *limited) Pop(ctx context.Context, c Caller, r PopRequest) (*Delivery, error) {
	t := auth.Tenant(c.Tenant)
	if !r.Scope.Discovery {
		if err := l.queue(ctx, c, r.Scope.Queue); err != nil {
			return nil, err
		}
	}
	if r.Wait <= 0 || r.Scope.Discovery {
		return l.Engine.Pop(ctx, c, r)
	}
	if !l.q.Park(t) {
		return nil, errCap(auth.BoundParked, int64(l.q.Plan(t).ParkedPops))
	}
	defer l.q.Unpark(t)
	return l.Engine.Pop(ctx, c, r)
}

// Catalog implements Engine.
func (l *limited) Catalog() Catalog { return limitedCatalog{l.Engine.Catalog(), l} }

type limitedCatalog struct {
	Catalog
	l *limited
}

// Configure implements Catalog.
func (c limitedCatalog) Configure(ctx context.Context, who Caller, r ConfigureRequest) (QueueInfo, error) {
	if err := c.l.queue(ctx, who, r.Queue); err != nil {
		return QueueInfo{}, err
	}
	return c.Catalog.Configure(ctx, who, r)
}
