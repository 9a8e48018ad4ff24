package engine

import (
	"context"

	"queen/engine/format"
)

// routedInspect implements Inspect: each call but Stats is that of the node that the caller's tenant is on.
type routedInspect struct{ r *Router }

// Inspect implements Engine.
func (r *Router) Inspect() Inspect { return routedInspect{r} }

func (x routedInspect) Message(ctx context.Context, c Caller, id format.PartitionID, transactionID string) (MessageDetail, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return MessageDetail{}, err
	}
	return n.Inspect().Message(ctx, c, id, transactionID)
}

func (x routedInspect) Messages(ctx context.Context, c Caller, f MessageFilter) ([]MessageDetail, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return nil, err
	}
	return n.Inspect().Messages(ctx, c, f)
}

func (x routedInspect) Depth(ctx context.Context, c Caller, queue, group string) (Depth, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return Depth{}, err
	}
	return n.Inspect().Depth(ctx, c, queue, group)
}

func (x routedInspect) PartitionSize(ctx context.Context, c Caller, queue, partition string, keep uint64) (PartitionSize, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return PartitionSize{}, err
	}
	return n.Inspect().PartitionSize(ctx, c, queue, partition, keep)
}

func (x routedInspect) TopLag(ctx context.Context, c Caller, queue string, limit int) ([]LagRow, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return nil, err
	}
	return n.Inspect().TopLag(ctx, c, queue, limit)
}

func (x routedInspect) Leases(ctx context.Context, c Caller, limit int) ([]LeaseRow, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return nil, err
	}
	return n.Inspect().Leases(ctx, c, limit)
}

func (x routedInspect) Lease(ctx context.Context, c Caller, lease string, p format.PartitionID) (LeaseRow, bool, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return LeaseRow{}, false, err
	}
	return n.Inspect().Lease(ctx, c, lease, p)
}

func (x routedInspect) Overview(ctx context.Context, c Caller) (Overview, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return Overview{}, err
	}
	return n.Inspect().Overview(ctx, c)
}
