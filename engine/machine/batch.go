package machine

import (
	"math"

	"queen/engine/format"
)

// Record batches are frames of their own kind: stored as they were produced, whole or not at all, into queues that are
// there. Their records count as messages without a caller's id.

// checkBatch says whether a record batch is refused, and marks its queue as one that Kafka clients write.
func (m *Machine) checkBatch(a *format.Append, q *queue, ph handle) format.Code {
	switch {
	case q == nil:
		return format.CodeUnknownQueue
	case a.Batch.Idempotent:
		return format.CodeNotBuilt
	case uint64(a.Count) > m.roomAt(q, ph):
		return format.CodeFull
	}
	if !q.kafka {
		q.kafka = true
		m.soilQueue(q)
	}
	return format.CodeOK
}

// roomAt is how many messages maxSize lets into a partition, 0 for one that is not there yet. It only reads.
func (m *Machine) roomAt(q *queue, ph handle) uint64 {
	if ph != 0 {
		return m.roomOf(q, m.parts.Get(ph))
	}
	if bound := q.maxSize(); bound > 0 {
		return uint64(bound)
	}
	return math.MaxUint64
}
