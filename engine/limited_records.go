package engine

import (
	"context"

	"queen/engine/auth"
	"queen/engine/batch"
)

// Records implements Engine.
func (l *limited) Records() Records { return limitedRecords{l.Engine.Records(), l} }

// limitedRecords holds what writes record batches to the tenant's plan: records count as messages.
type limitedRecords struct {
	Records
	l *limited
}

// Produce implements Records.
func (r limitedRecords) Produce(ctx context.Context, c Caller, batches []RecordBatch) ([]Produced, error) {
	t := auth.Tenant(c.Tenant)
	plan := r.l.q.Plan(t)
	if plan == (auth.Plan{}) {
		return r.Records.Produce(ctx, c, batches)
	}
	messages, err := r.sizes(&plan, batches)
	if err != nil {
		return nil, err
	}
	refs := make([]PartitionRef, len(batches))
	for i := range batches {
		refs[i] = PartitionRef{batches[i].Queue, batches[i].Partition}
	}
	made, err := r.hold(ctx, c, &plan, refs)
	if err != nil {
		return nil, err
	}
	defer made()
	if ok, after := r.l.q.Take(t, auth.Messages, messages); !ok {
		return nil, errRate(auth.Messages, after)
	}
	return r.Records.Produce(ctx, c, batches)
}

// sizes counts the records of batches and holds them to the plan. What one record takes is known on average only: a
// batch is too large when its records can not all be small enough.
func (r limitedRecords) sizes(plan *auth.Plan, batches []RecordBatch) (messages int, err error) {
	for i := range batches {
		h, bad := batch.ParseHeader(batches[i].Batch)
		if bad != nil || h.Count <= 0 {
			continue // refused behind
		}
		messages += int(h.Count)
		least := int64(len(batches[i].Batch)-batch.HeaderBytes) / int64(h.Count)
		if plan.PayloadBytes > 0 && least > plan.PayloadBytes && r.l.q.Exceeds(plan, auth.BoundPayload) {
			return 0, errCap(auth.BoundPayload, plan.PayloadBytes)
		}
	}
	if plan.BatchItems > 0 && messages > plan.BatchItems && r.l.q.Exceeds(plan, auth.BoundBatch) {
		return 0, errCap(auth.BoundBatch, int64(plan.BatchItems))
	}
	return messages, nil
}

// hold holds new partitions to the plan; queues do not come into being here.
func (r limitedRecords) hold(ctx context.Context, c Caller, plan *auth.Plan, refs []PartitionRef) (made func(), err error) {
	if plan.PartitionsPerQueue == 0 {
		return func() {}, nil
	}
	return r.l.hold(ctx, c, plan, func(n *newcomers) error {
		for _, ref := range refs {
			if err := r.l.add(ctx, c, n, ref, true); err != nil {
				return err
			}
		}
		for queue := range n.queues {
			n.forget(queue)
		}
		return nil
	})
}

// AddToTxn implements Records.
func (r limitedRecords) AddToTxn(ctx context.Context, c Caller, p ProducerRef, parts []PartitionRef) error {
	plan := r.l.q.Plan(auth.Tenant(c.Tenant))
	made, err := r.hold(ctx, c, &plan, parts)
	if err != nil {
		return err
	}
	defer made()
	return r.Records.AddToTxn(ctx, c, p, parts)
}

// CommitOffsets implements Records. A position makes its partition when it is not there.
func (r limitedRecords) CommitOffsets(ctx context.Context, c Caller, g GroupCommit) ([]*Error, error) {
	plan := r.l.q.Plan(auth.Tenant(c.Tenant))
	refs := make([]PartitionRef, len(g.Positions))
	for i := range refs {
		refs[i] = PartitionRef{g.Positions[i].Queue, g.Positions[i].Partition}
	}
	made, err := r.hold(ctx, c, &plan, refs)
	if err != nil {
		return nil, err
	}
	defer made()
	return r.Records.CommitOffsets(ctx, c, g)
}
