package machine

import "queen/engine/format"

// QueueOf is the queue of a partition of any tenant; false when either is gone.
func (m *Machine) QueueOf(id format.PartitionID) (format.QueueID, bool) {
	_, p := m.partByID(id)
	if p == nil || m.queues[p.queue] == nil || m.queues[p.queue].dead {
		return 0, false
	}
	return format.QueueID(p.queue), true
}

// Retained says which frames of a partition of any tenant are still there: those with offsets from
// start on that were created at or after cutoff. ok is false when the partition or its queue is gone,
// and nothing is. Dead letters are not looked at.
func (m *Machine) Retained(id format.PartitionID) (start format.Offset, cutoff format.Wall, ok bool) {
	_, p := m.partByID(id)
	if p == nil || m.queues[p.queue] == nil || m.queues[p.queue].dead {
		return 0, 0, false
	}
	return m.logStart(p), m.queues[p.queue].cutoff, true
}

// LongestWindow is the longest dedup window of any queue: ids older than it make no duplicate.
func (m *Machine) LongestWindow() (longest format.Wall) {
	for _, id := range m.queueIDs {
		if q := m.queues[id]; !q.dead {
			longest = max(longest, q.dedup())
		}
	}
	return longest
}

// PartitionID finds a partition of a live queue by its name's bytes, without a copy of the rest.
func (m *Machine) PartitionID(queue format.QueueID, name []byte) (format.PartitionID, bool) {
	q := m.liveQueue(queue)
	if q == nil {
		return 0, false
	}
	h := m.partByName(q, name)
	if h == 0 {
		return 0, false
	}
	return m.parts.Get(h).id, true
}
