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

// NewestRow is the number of a partition's newest row, 0 when nothing was stored, of any tenant.
func (m *Machine) NewestRow(id format.PartitionID) (row uint64, ok bool) {
	_, p := m.partByID(id)
	if p == nil {
		return 0, false
	}
	return p.row, true
}

// LeasedRanges yields what consumer groups hold under leases, of all tenants, until yield answers false.
func (m *Machine) LeasedRanges(yield func(part format.PartitionID, next, end format.Offset) bool) {
	for h := m.leases.Next(0); h != 0; h = m.leases.Next(h) {
		if !m.held(h) {
			continue
		}
		if l := m.leaseView(h); !yield(l.Partition, l.Next, l.End) {
			return
		}
	}
}

// DeadAddresses yields the messages that dead letters point to, of all tenants, until yield answers false. Those of
// timers point to none.
func (m *Machine) DeadAddresses(yield func(part format.PartitionID, at format.Offset) bool) {
	m.deadByAddr.Ascend(func(a deadAddr) bool { return a.offset >= format.TimerOffset || yield(a.part, a.offset) })
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

// PartitionLookup finds partitions of one queue by their names, several at a time: each costs three cache misses one
// after the other, and those of different names can wait together.
type PartitionLookup struct {
	Names [][]byte
	IDs   []format.PartitionID // of the names; 0 for one that does not exist

	hashes []uint64
	parts  []handle
	read   uint64 // so that reads ahead are not optimised away
}

// Emptied is a new look-up with l's memory, of which it keeps no name.
func (l *PartitionLookup) Emptied() PartitionLookup {
	clear(l.Names[:cap(l.Names)])
	return PartitionLookup{Names: l.Names[:0], IDs: l.IDs[:0], hashes: l.hashes[:0], parts: l.parts[:0]}
}

// FindPartitions fills l.IDs for l.Names. l belongs to the caller, and so does its memory afterwards.
func (m *Machine) FindPartitions(queue format.QueueID, l *PartitionLookup) {
	l.IDs = append(l.IDs[:0], make([]format.PartitionID, len(l.Names))...)
	q := m.liveQueue(queue)
	if q == nil {
		return
	}
	l.hashes, l.parts = l.hashes[:0], l.parts[:0]
	for _, name := range l.Names {
		l.hashes = append(l.hashes, m.nameHash(q.id, name))
	}
	for _, hash := range l.hashes {
		l.parts = append(l.parts, m.nameIndex.Guess(hash))
	}
	for _, h := range l.parts {
		if h != 0 {
			l.read += uint64(m.parts.Get(h).name)
		}
	}
	for _, h := range l.parts {
		if h != 0 {
			l.read += uint64(len(m.names.Get(m.parts.Get(h).name)))
		}
	}
	for i, name := range l.Names {
		if h := m.partByHash(q, name, l.hashes[i]); h != 0 {
			l.IDs[i] = m.parts.Get(h).id
		}
	}
}
