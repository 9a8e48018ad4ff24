package enginetest

import (
	"context"
	"sync/atomic"

	"queen/engine"
	"queen/engine/format"
)

// Topic is Queue: the model has nothing to save.
func (m *modelCatalog) Topic(ctx context.Context, c engine.Caller, queue string) (engine.QueueInfo, error) {
	return m.Queue(ctx, c, queue)
}

// Topics is Queues.
func (m *modelCatalog) Topics(ctx context.Context, c engine.Caller, p engine.Page) (rows []engine.QueueInfo, next string, err error) {
	return m.Queues(ctx, c, p)
}

// TopicByID looks through the tenant's queues.
func (m *modelCatalog) TopicByID(_ context.Context, c engine.Caller, id format.UUID) (info engine.QueueInfo, err error) {
	err = m.model().with(func(s *state) error {
		for _, q := range s.queues {
			if q.tenant == c.Tenant && topicOf(q) == id {
				info = s.queueInfo(q)
				return nil
			}
		}
		return fail(engine.CodeUnknownQueue, "no such queue")
	})
	return info, err
}

func topicOf(q *queue) format.UUID { return format.TopicID(format.UUID{}, 1, q.id) }

// numbered says what Kafka clients see of a queue's partitions.
func (q *queue) numbered(info *engine.QueueInfo) {
	info.Topic = topicOf(q)
	for _, p := range q.parts {
		if n, ok := format.PartitionNumber(p.name); ok {
			info.Width = max(info.Width, n+1)
		} else {
			info.Hidden++
		}
	}
}

// looks counts calls of TopicsGeneration.
var looks atomic.Uint64

// TopicsGeneration implements engine.Catalog. The model does not tell changes apart: every look finds a new one.
func (m *modelCatalog) TopicsGeneration() uint64 { return looks.Add(1) }
