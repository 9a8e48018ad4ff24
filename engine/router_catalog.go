package engine

import (
	"context"

	"queen/engine/format"
)

// routedCatalog implements Catalog: each call is that of the node that the caller's tenant is on.
type routedCatalog struct{ r *Router }

// Catalog implements Engine.
func (r *Router) Catalog() Catalog { return routedCatalog{r} }

// TopicsGeneration implements Catalog. Each part only grows, so the sum changes when any does.
func (x routedCatalog) TopicsGeneration() (sum uint64) {
	for _, n := range x.r.groups {
		sum += n.Catalog().TopicsGeneration()
	}
	return sum
}

func (x routedCatalog) CatchUp(ctx context.Context, c Caller) error {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return err
	}
	return n.Catalog().CatchUp(ctx, c)
}

func (x routedCatalog) Configure(ctx context.Context, c Caller, r ConfigureRequest) (QueueInfo, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return QueueInfo{}, err
	}
	return n.Catalog().Configure(ctx, c, r)
}

func (x routedCatalog) DeleteQueue(ctx context.Context, c Caller, queue string) (bool, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return false, err
	}
	return n.Catalog().DeleteQueue(ctx, c, queue)
}

func (x routedCatalog) DeleteLife(ctx context.Context, c Caller, queue string, life format.QueueID) (bool, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return false, err
	}
	return n.Catalog().DeleteLife(ctx, c, queue, life)
}

func (x routedCatalog) DeleteGroup(ctx context.Context, c Caller, group, queue string, all, keepRegistration bool) (uint64, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return 0, err
	}
	return n.Catalog().DeleteGroup(ctx, c, group, queue, all, keepRegistration)
}

func (x routedCatalog) SetSubscription(ctx context.Context, c Caller, group string, from format.Wall) (uint64, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return 0, err
	}
	return n.Catalog().SetSubscription(ctx, c, group, from)
}

func (x routedCatalog) Queue(ctx context.Context, c Caller, queue string) (QueueInfo, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return QueueInfo{}, err
	}
	return n.Catalog().Queue(ctx, c, queue)
}

func (x routedCatalog) Queues(ctx context.Context, c Caller, p Page) ([]QueueInfo, string, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return nil, "", err
	}
	return n.Catalog().Queues(ctx, c, p)
}

func (x routedCatalog) Topic(ctx context.Context, c Caller, queue string) (QueueInfo, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return QueueInfo{}, err
	}
	return n.Catalog().Topic(ctx, c, queue)
}

func (x routedCatalog) TopicByID(ctx context.Context, c Caller, id format.UUID) (QueueInfo, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return QueueInfo{}, err
	}
	return n.Catalog().TopicByID(ctx, c, id)
}

func (x routedCatalog) Topics(ctx context.Context, c Caller, p Page) ([]QueueInfo, string, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return nil, "", err
	}
	return n.Catalog().Topics(ctx, c, p)
}

func (x routedCatalog) Partition(ctx context.Context, c Caller, queue, partition string) (PartitionInfo, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return PartitionInfo{}, err
	}
	return n.Catalog().Partition(ctx, c, queue, partition)
}

func (x routedCatalog) PartitionByID(ctx context.Context, c Caller, id format.PartitionID) (PartitionInfo, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return PartitionInfo{}, err
	}
	return n.Catalog().PartitionByID(ctx, c, id)
}

func (x routedCatalog) Partitions(ctx context.Context, c Caller, queue string, since format.Wall, p Page) ([]PartitionInfo, string, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return nil, "", err
	}
	return n.Catalog().Partitions(ctx, c, queue, since, p)
}

func (x routedCatalog) Groups(ctx context.Context, c Caller) ([]GroupInfo, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return nil, err
	}
	return n.Catalog().Groups(ctx, c)
}

func (x routedCatalog) GroupPartitions(ctx context.Context, c Caller, group, queue string, p Page) ([]GroupPartition, string, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return nil, "", err
	}
	return n.Catalog().GroupPartitions(ctx, c, group, queue, p)
}

func (x routedCatalog) DeadLetters(ctx context.Context, c Caller, f DeadLetterFilter) ([]DeadLetter, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return nil, err
	}
	return n.Catalog().DeadLetters(ctx, c, f)
}

func (x routedCatalog) DeleteDeadLetters(ctx context.Context, c Caller, id format.PartitionID, transactionID string) (uint64, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return 0, err
	}
	return n.Catalog().DeleteDeadLetters(ctx, c, id, transactionID)
}

func (x routedCatalog) Purge(ctx context.Context, c Caller, queue string, group *string) (uint64, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return 0, err
	}
	return n.Catalog().Purge(ctx, c, queue, group)
}
