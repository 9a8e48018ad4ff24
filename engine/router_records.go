package engine

import (
	"context"

	"queen/engine/format"
)

// routedRecords implements Records: each call is that of the node that the caller's tenant is on.
type routedRecords struct{ r *Router }

// Records implements Engine.
func (r *Router) Records() Records { return routedRecords{r} }

// Leader implements Records: groups have leaders and epochs of their own.
func (x routedRecords) Leader(c Caller) (format.Replica, format.Term) {
	return x.r.near(c.Tenant).Records().Leader(c)
}

// GroupRowAt implements Records. Whoever has read a row has brought the tenant's group into memory.
func (x routedRecords) GroupRowAt(c Caller, group string) format.Place {
	return x.r.near(c.Tenant).Records().GroupRowAt(c, group)
}

// GroupTenants implements Records: a tenant is in one group.
func (x routedRecords) GroupTenants() (all []format.Tenant) {
	for _, n := range x.r.groups {
		all = append(all, n.Records().GroupTenants()...)
	}
	return all
}

func (x routedRecords) Produce(ctx context.Context, c Caller, batches []RecordBatch) ([]Produced, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return nil, err
	}
	return n.Records().Produce(ctx, c, batches)
}

func (x routedRecords) Fetch(ctx context.Context, c Caller, at []FetchAt, maxBytes int) ([]Fetched, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return nil, err
	}
	return n.Records().Fetch(ctx, c, at, maxBytes)
}

func (x routedRecords) RecordOffsets(ctx context.Context, c Caller, q []RecordOffsetQuery) ([]RecordOffset, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return nil, err
	}
	return n.Records().RecordOffsets(ctx, c, q)
}

func (x routedRecords) DeleteRecords(ctx context.Context, c Caller, at []FetchAt) ([]RecordOffset, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return nil, err
	}
	return n.Records().DeleteRecords(ctx, c, at)
}

func (x routedRecords) InitProducer(ctx context.Context, c Caller, p ProducerInit) (ProducerIdentity, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return ProducerIdentity{}, err
	}
	return n.Records().InitProducer(ctx, c, p)
}

func (x routedRecords) AddToTxn(ctx context.Context, c Caller, p ProducerRef, parts []PartitionRef) error {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return err
	}
	return n.Records().AddToTxn(ctx, c, p, parts)
}

func (x routedRecords) EndTxn(ctx context.Context, c Caller, e TxnEnd) (ProducerIdentity, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return ProducerIdentity{}, err
	}
	return n.Records().EndTxn(ctx, c, e)
}

func (x routedRecords) Transactions(ctx context.Context, c Caller, after string, limit int) ([]TxnInfo, string, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return nil, "", err
	}
	return n.Records().Transactions(ctx, c, after, limit)
}

func (x routedRecords) Transaction(ctx context.Context, c Caller, id string) (TxnInfo, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return TxnInfo{}, err
	}
	return n.Records().Transaction(ctx, c, id)
}

func (x routedRecords) Producers(ctx context.Context, c Caller, p PartitionRef) ([]ProducerState, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return nil, err
	}
	return n.Records().Producers(ctx, c, p)
}

func (x routedRecords) CommitOffsets(ctx context.Context, c Caller, g GroupCommit) ([]*Error, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return nil, err
	}
	return n.Records().CommitOffsets(ctx, c, g)
}

func (x routedRecords) Committed(ctx context.Context, c Caller, group string, refs []PartitionRef) ([]GroupOffset, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return nil, err
	}
	return n.Records().Committed(ctx, c, group, refs)
}

func (x routedRecords) GroupRow(ctx context.Context, c Caller, group string) (GroupRow, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return GroupRow{}, err
	}
	return n.Records().GroupRow(ctx, c, group)
}

func (x routedRecords) GroupRows(ctx context.Context, c Caller, after string, limit int) ([]GroupRow, string, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return nil, "", err
	}
	return n.Records().GroupRows(ctx, c, after, limit)
}

func (x routedRecords) SetGroupRow(ctx context.Context, c Caller, r GroupRow) (format.Place, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return format.Place{}, err
	}
	return n.Records().SetGroupRow(ctx, c, r)
}
