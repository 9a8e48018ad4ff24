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
func (c catalog) Topic(_ context.Context, who Caller, queue string) (QueueInfo, error) {
	c.n.state.RLock()
	defer c.n.state.RUnlock()
	q, ok := c.n.state.m.QueueByName(who.Tenant, queue)
	if !ok {
		return QueueInfo{}, errOfCode(format.CodeUnknownQueue)
	}
	return c.n.topicInfo(&q), nil
}

// TopicByID implements Catalog.
func (c catalog) TopicByID(_ context.Context, who Caller, id format.UUID) (QueueInfo, error) {
	c.n.state.RLock()
	defer c.n.state.RUnlock()
	q, ok := c.n.state.m.QueueByTopic(who.Tenant, id)
	if !ok {
		return QueueInfo{}, errOfCode(format.CodeUnknownQueue)
	}
	return c.n.topicInfo(&q), nil
}

// Topics implements Catalog.
func (c catalog) Topics(_ context.Context, who Caller, p Page) ([]QueueInfo, string, error) {
	after, limit, err := p.parse(1000)
	if err != nil {
		return nil, "", err
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
