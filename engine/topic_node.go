package engine

import (
	"context"
	"strconv"

	"queen/engine/format"
	"queen/engine/machine"
)

// topicInfo is what is known of a queue without counting. The state lock is held.
func (n *Node) topicInfo(q *machine.Queue) QueueInfo {
	return QueueInfo{ID: q.ID, Name: q.Name, CreatedAt: q.Created, Options: q.Options, Partitions: q.Partitions,
		DeadLetters: q.DeadLetters, Topic: n.state.m.Topic(q.ID), Width: q.Width, Hidden: q.Unnumbered}
}

// Topic implements Catalog.
func (c catalog) Topic(ctx context.Context, who Caller, queue string) (QueueInfo, error) {
	return c.oneTopic(ctx, func(m *machine.Machine) (machine.Queue, bool) { return m.QueueByName(who.Tenant, queue) })
}

// TopicByID implements Catalog.
func (c catalog) TopicByID(ctx context.Context, who Caller, id format.UUID) (QueueInfo, error) {
	return c.oneTopic(ctx, func(m *machine.Machine) (machine.Queue, bool) { return m.QueueByTopic(who.Tenant, id) })
}

// CatchUp implements Catalog.
func (c catalog) CatchUp(ctx context.Context, _ Caller) error {
	if !c.n.mayLag() {
		return nil
	}
	if err := c.n.catchUp(ctx); err != nil {
		return err
	}
	return nil
}

// oneTopic looks for a queue. Before a node of a cluster says that there is none it catches up: another node may have
// told the caller of it.
func (c catalog) oneTopic(ctx context.Context, find func(m *machine.Machine) (machine.Queue, bool)) (QueueInfo, error) {
	look := func() (QueueInfo, bool) {
		c.n.state.RLock()
		defer c.n.state.RUnlock()
		q, ok := find(c.n.state.m)
		if !ok {
			return QueueInfo{}, false
		}
		return c.n.topicInfo(&q), true
	}
	info, ok := look()
	if !ok && c.n.cluster != nil {
		if err := c.n.catchUp(ctx); err != nil {
			return QueueInfo{}, err
		}
		info, ok = look()
	}
	if !ok {
		return QueueInfo{}, errOfCode(format.CodeUnknownQueue)
	}
	return info, nil
}

// Topics implements Catalog.
func (c catalog) Topics(ctx context.Context, who Caller, p Page) ([]QueueInfo, string, error) {
	after, limit, err := p.parse(1000)
	if err != nil {
		return nil, "", err
	}
	if c.n.mayLag() {
		if err := c.n.catchUp(ctx); err != nil {
			return nil, "", err
		}
	}
	c.n.state.RLock()
	defer c.n.state.RUnlock()
	page := c.n.state.m.Queues(who.Tenant, false, format.QueueID(after), limit)
	rows := make([]QueueInfo, len(page))
	for i := range page {
		rows[i] = c.n.topicInfo(&page[i])
	}
	next := ""
	if len(page) == limit {
		next = strconv.FormatUint(uint64(page[limit-1].ID), 10)
	}
	return rows, next, nil
}

// TopicsGeneration implements Catalog. It costs a look at memory.
func (c catalog) TopicsGeneration() uint64 {
	c.n.state.RLock()
	defer c.n.state.RUnlock()
	return c.n.state.m.TopicsGeneration()
}
