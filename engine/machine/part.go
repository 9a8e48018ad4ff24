package machine

import (
	"encoding/binary"
	"math/bits"

	"queen/engine/format"
)

// partByName finds a partition of a queue.
func (m *Machine) partByName(q *queue, name []byte) handle {
	return m.partByHash(q, name, m.nameHash(q.id, name))
}

// partByHash is partByName with the name's hash.
func (m *Machine) partByHash(q *queue, name []byte, hash uint64) handle {
	return m.nameIndex.Find(hash, func(h handle) bool {
		p := m.parts.Get(h)
		return p.queue == q.id && string(m.names.Get(p.name)) == string(name)
	})
}

// partByID finds a partition of a live queue.
func (m *Machine) partByID(id format.PartitionID) (handle, *partRec) {
	h := m.idIndex.Find(m.idHash(id), func(h handle) bool { return m.parts.Get(h).id == id })
	if h == 0 {
		return 0, nil
	}
	p := m.parts.Get(h)
	if m.queues[p.queue].dead {
		return 0, nil
	}
	return h, p
}

// nameHash spreads (queue, name). Names alone are hashed under the seed; the queue is mixed in.
func (m *Machine) nameHash(queue uint32, name []byte) uint64 {
	hi, lo := bits.Mul64(m.nameIndex.Hash(name)^uint64(queue)*0x9e3779b97f4a7c15, 0xd6e8feb86659fd93)
	return hi ^ lo
}

func (m *Machine) idHash(id format.PartitionID) uint64 {
	var key [8]byte
	binary.LittleEndian.PutUint64(key[:], uint64(id))
	return m.idIndex.Hash(key[:])
}

// maxPartitions bounds the counter of PartitionID, which leaves six bits for the raft group.
const maxPartitions = 1<<47 - 1

// createPart adds a partition at the end of the queue's list. 0 means that a bound is reached.
func (m *Machine) createPart(q *queue, name []byte) (handle, *partRec) {
	if format.TenantNameBytes+len(q.name)+len(name) > format.NameBudget || m.header.partitions == maxPartitions {
		return 0, nil
	}
	ref, err := m.names.Put(name)
	if err != nil {
		return 0, nil
	}
	h, p := m.parts.Alloc()
	if h == 0 {
		m.names.Free(ref)
		return 0, nil
	}
	m.header.partitions++
	p.id = format.PartitionID(m.header.partitions<<6) | format.PartitionID(m.group)
	p.queue, p.name = q.id, ref
	p.birth, p.birthOrd, p.bornW = m.place.Index, m.place.Ordinal, m.w
	if p.prev = q.last; p.prev != 0 {
		m.parts.Touch(p.prev).succ = h
	} else {
		q.first = h
	}
	q.last = h
	q.parts++
	if q.count(name) {
		m.topicsGen++
	}
	m.indexPart(h, p)
	m.soilQueue(q)
	return h, p
}

// count takes a partition's name into what Kafka clients see of the queue; wider says that its width rose.
func (q *queue) count(name []byte) (wider bool) {
	n, decimal := format.PartitionNumber(name)
	if !decimal {
		q.hidden++
		return false
	}
	wider = n+1 > q.width
	q.width = max(q.width, n+1)
	return wider
}

func (m *Machine) indexPart(h handle, p *partRec) {
	m.nameIndex.Insert(m.nameHash(p.queue, m.names.Get(p.name)), h)
	m.idIndex.Insert(m.idHash(p.id), h)
}

// freePart removes a partition with everything that hangs on it.
func (m *Machine) freePart(q *queue, h handle) {
	p := m.parts.Get(h)
	for p.cursors != 0 {
		m.freeCursor(p.cursors)
	}
	m.freeSide(h)
	m.freeKafka(h)
	for {
		d := m.firstDeadOf(p.id)
		if d == 0 {
			break
		}
		m.freeDead(d)
	}
	name := m.names.Get(p.name)
	if _, decimal := format.PartitionNumber(name); !decimal {
		q.hidden--
	}
	m.nameIndex.Delete(m.nameHash(p.queue, name), h)
	m.idIndex.Delete(m.idHash(p.id), h)
	m.names.Free(p.name)
	for _, g := range q.order {
		// A circle that stands here goes on after the neighbour before.
		if g.circle.handle == h {
			g.circle.handle = p.prev
			m.soilGroup(g)
		}
	}
	if p.prev != 0 {
		m.parts.Touch(p.prev).succ = p.succ
	} else {
		q.first = p.succ
	}
	if p.succ != 0 {
		m.parts.Touch(p.succ).prev = p.prev
	} else {
		q.last = p.prev
	}
	q.parts--
	m.soilQueue(q)
	m.parts.Free(h)
}

// sideOf returns the partition's side record, nil while it has none.
func (m *Machine) sideOf(p *partRec) *sideRec {
	if p.side == 0 {
		return nil
	}
	return m.sides.Get(p.side)
}

// touchSide returns the side record for writing, making it when absent. nil means that a bound is reached.
func (m *Machine) touchSide(h handle) *sideRec {
	p := m.parts.Get(h)
	if p.side != 0 {
		return m.sides.Touch(p.side)
	}
	sh, s := m.sides.Alloc()
	if sh == 0 {
		return nil
	}
	s.part = h
	m.parts.Touch(h).side = sh
	return s
}

func (m *Machine) freeSide(h handle) {
	p := m.parts.Touch(h)
	if p.side == 0 {
		return
	}
	m.holds.Cancel(p.side, 0)
	m.unask(p.side, m.sides.Touch(p.side))
	m.sides.Free(p.side)
	p.side = 0
}

// logStart is the explicit log start; what time retention removed above it only the log knows.
func (m *Machine) logStart(p *partRec) format.Offset {
	if s := m.sideOf(p); s != nil {
		return s.trim
	}
	return 0
}

// emptied says that time retention removed every message of the partition.
func emptied(q *queue, p *partRec) bool { return p.lastW < q.cutoff }
