package engine

import (
	"context"
	"strconv"
	"time"

	"queen/engine/auth"
)

// Limit holds the callers of an engine to the plans of their tenants, for every frontend alike: sizes, queues and
// partitions, waiting pops, and the rate of messages. A call over a plan is refused as a whole before anything of it is
// carried out, and a refused call takes nothing from a rate. A nil q limits nothing.
//
// Caps on queues and partitions are looked at before the call, together with what other calls of this node are about to
// create. Several nodes of a cluster may create at the same moment: a cap can be exceeded by as many as there are nodes.
// Pushes, pops, seeks, positions, redrives into another queue and configure calls are looked at; the target of a timer
// comes into being whatever the cap. Jobs that move dead letters wait for the rate of messages.
func Limit(e Engine, q *auth.Quotas) Engine {
	if q == nil {
		return e
	}
	if s, ok := e.(interface{ setQuotas(*auth.Quotas) }); ok {
		s.setQuotas(q)
	}
	return &limited{Engine: e, q: q}
}

type limited struct {
	Engine
	q      *auth.Quotas
	makers makers
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
	made, err := l.hold(ctx, c, &plan, func(n *newcomers) error { return l.ofBatch(ctx, c, n, b) })
	if err != nil {
		return nil, err
	}
	defer made()
	if ok, after := l.q.Take(t, auth.Messages, messages); !ok {
		return nil, errRate(auth.Messages, after)
	}
	return l.Engine.Do(ctx, c, b)
}

// sizes counts the messages of a batch and holds them to the plan. One that is moved counts as one.
func (l *limited) sizes(plan *auth.Plan, b Batch) (messages int, err error) {
	for _, op := range b.Ops {
		a, ok := op.(*Append)
		if !ok {
			if _, ok := op.(*Redrive); ok {
				messages++
			}
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

// Pop implements Engine. A pop that is ready to wait counts as waiting until it returns. One of a queue that is not
// there creates it.
func (l *limited) Pop(ctx context.Context, c Caller, r PopRequest) (*Delivery, error) {
	t := auth.Tenant(c.Tenant)
	if d, done, err := l.firstPop(ctx, c, r); done || err != nil {
		return d, err
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
	plan := c.l.q.Plan(auth.Tenant(who.Tenant))
	made, err := c.l.hold(ctx, who, &plan, func(n *newcomers) error {
		return c.l.add(ctx, who, n, PartitionRef{Queue: r.Queue}, false)
	})
	if err != nil {
		return QueueInfo{}, err
	}
	defer made()
	return c.Catalog.Configure(ctx, who, r)
}
