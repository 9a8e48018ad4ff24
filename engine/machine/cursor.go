package machine

import (
	"encoding/binary"

	"queen/engine/format"
)

// cursorOf finds the cursor of a group on a partition. A record of an older generation counts as
// missing, and so does an unused one found under another start: live is false and the record may be
// used again.
//
// The first cursor of a partition hangs on its row, so that a partition read by one group costs no
// index place; further ones are found through the index, however many groups there are.
func (m *Machine) cursorOf(ph handle, g *group) (h handle, live bool) {
	h = m.parts.Get(ph).cursors
	if h == 0 {
		return 0, false
	}
	c := m.cursors.Get(h)
	if c.group != g.id {
		hash := m.cursorHash(ph, g.id)
		h = m.cursorIndex.Find(hash, func(h handle) bool {
			c := m.cursors.Get(h)
			return c.part == ph && c.group == g.id
		})
		if h == 0 {
			return 0, false
		}
		c = m.cursors.Get(h)
	}
	return h, c.gen == g.gen && (!c.unused() || c.flags>>cursorStartShift == g.startGen)
}

// unused says that the record only remembers where the registration starts.
func (c *cursorRec) unused() bool { return c.flags&cursorUnused != 0 }

// leaderEpoch is what was committed beside the position, NoLeaderEpoch when nothing was or the cursor moved since.
func (c *cursorRec) leaderEpoch() int32 {
	if c.unused() {
		return format.NoLeaderEpoch
	}
	return int32(c.flags>>cursorStartShift) - 1
}

// setEpoch keeps a leader epoch beside the position of a cursor in use; one too large to be kept counts as none.
func (c *cursorRec) setEpoch(epoch int32) {
	if c.unused() {
		return
	}
	c.flags &= 1<<cursorStartShift - 1
	if epoch >= 0 && epoch < maxStartGen {
		c.flags |= uint32(epoch+1) << cursorStartShift
	}
}

func (m *Machine) cursorHash(ph handle, group uint32) uint64 {
	var key [8]byte
	binary.LittleEndian.PutUint32(key[:], uint32(ph))
	binary.LittleEndian.PutUint32(key[4:], group)
	return m.cursorIndex.Hash(key[:])
}

// makeCursor gives g a cursor on a partition at next, using a record of an older generation again.
// 0 means that a bound is reached.
func (m *Machine) makeCursor(ph handle, g *group, next format.Offset) handle {
	h, live := m.cursorOf(ph, g)
	if live {
		return h
	}
	if h != 0 {
		if m.cursors.Get(h).gen == g.gen { // unused, of an older start
			m.dequeue(g, h)
			g.cursors--
		}
		m.freeLease(m.cursors.Get(h).lease)
		m.dropMetadata(h)
		c := m.cursors.Touch(h)
		*c = cursorRec{part: c.part, group: c.group, chain: c.chain}
	} else if h = m.linkCursor(ph, g.id); h == 0 {
		return 0
	}
	c := m.cursors.Touch(h)
	c.gen, c.next = g.gen, next
	g.cursors++
	m.soilGroup(g)
	return h
}

// linkCursor allocates a record and hangs it on its partition: alone on the row, or behind the first.
func (m *Machine) linkCursor(ph handle, group uint32) handle {
	h, c := m.cursors.Alloc()
	if h == 0 {
		return 0
	}
	c.part, c.group = ph, group
	first := m.parts.Get(ph).cursors
	if first == 0 {
		m.parts.Touch(ph).cursors = h
		return h
	}
	f := m.cursors.Touch(first)
	c.chain, f.chain = f.chain, h
	m.cursorIndex.Insert(m.cursorHash(ph, group), h)
	return h
}

// freeCursor removes a cursor with its lease, of whatever generation.
func (m *Machine) freeCursor(h handle) {
	m.dropMetadata(h)
	c := *m.cursors.Get(h)
	m.freeLease(c.lease)
	if g := m.groups[c.group]; g != nil && g.gen == c.gen {
		m.dequeue(g, h)
		g.cursors--
		m.soilGroup(g)
	}
	if first := m.parts.Get(c.part).cursors; first == h {
		m.parts.Touch(c.part).cursors = c.chain
		if c.chain != 0 {
			m.cursorIndex.Delete(m.cursorHash(c.part, m.cursors.Get(c.chain).group), c.chain)
		}
	} else {
		m.cursorIndex.Delete(m.cursorHash(c.part, c.group), h)
		at := first
		for m.cursors.Get(at).chain != h {
			at = m.cursors.Get(at).chain
		}
		m.cursors.Touch(at).chain = c.chain
	}
	m.cursors.Free(h)
}

// groupOf returns the group a cursor counts for, nil when it is of a deleted group or an older generation.
func (m *Machine) groupOf(c *cursorRec) *group {
	if g := m.groups[c.group]; g != nil && g.gen == c.gen {
		return g
	}
	return nil
}

// enqueue puts a cursor at the end of its group's FIFO, as claimable from now on.
func (m *Machine) enqueue(g *group, h handle) {
	if m.cursors.Get(h).flags&cursorQueued != 0 {
		return
	}
	c := m.cursors.Touch(h)
	c.flags |= cursorQueued
	c.stamp = g.queue.journal.End()
	if c.fifoPrev = g.fifoTail; c.fifoPrev != 0 {
		m.cursors.Touch(c.fifoPrev).fifoSucc = h
	} else {
		g.fifoHead = h
	}
	g.fifoTail = h
	g.fifoLen++
	m.soilGroup(g)
	m.touchReady(g, c.part)
}

// handBackLooks bounds how far a cursor that comes back is moved behind older ones.
const handBackLooks = 256

// enqueueAgain puts a cursor back where it was before its claim: with its old stamp, behind those that
// have been claimable longer and in front of all others, its equals among them (S-pop-10). What was
// claimed lately is older than nearly all that wait, so the place is near the head; among more than
// handBackLooks older ones that came back as well it is only near its turn.
func (m *Machine) enqueueAgain(g *group, h handle, stamp uint64) {
	if m.cursors.Get(h).flags&cursorQueued != 0 {
		return
	}
	prev, succ := handle(0), g.fifoHead
	for looks := 0; succ != 0 && m.cursors.Get(succ).stamp < stamp && looks < handBackLooks; looks++ {
		prev, succ = succ, m.cursors.Get(succ).fifoSucc
	}
	c := m.cursors.Touch(h)
	c.flags |= cursorQueued
	c.stamp, c.fifoPrev, c.fifoSucc = stamp, prev, succ
	if prev != 0 {
		m.cursors.Touch(prev).fifoSucc = h
	} else {
		g.fifoHead = h
	}
	if succ != 0 {
		m.cursors.Touch(succ).fifoPrev = h
	} else {
		g.fifoTail = h
	}
	g.fifoLen++
	m.soilGroup(g)
	m.touchReady(g, c.part)
}

// dequeue takes a cursor out of the FIFO if it is there.
func (m *Machine) dequeue(g *group, h handle) {
	if m.cursors.Get(h).flags&cursorQueued == 0 {
		return
	}
	c := m.cursors.Touch(h)
	if c.fifoPrev != 0 {
		m.cursors.Touch(c.fifoPrev).fifoSucc = c.fifoSucc
	} else {
		g.fifoHead = c.fifoSucc
	}
	if c.fifoSucc != 0 {
		m.cursors.Touch(c.fifoSucc).fifoPrev = c.fifoPrev
	} else {
		g.fifoTail = c.fifoPrev
	}
	c.fifoPrev, c.fifoSucc, c.flags, c.stamp = 0, 0, c.flags&^cursorQueued, 0
	g.fifoLen--
	m.soilGroup(g)
}

// settle queues a cursor that has deliverable messages and is neither leased nor held back. It runs
// after everything that may have made a partition claimable for one group alone.
func (m *Machine) settle(g *group, h handle) {
	c := m.cursors.Get(h)
	m.judge(g.queue, c.part)
	if c.flags&cursorQueued == 0 && !m.heldBack(c) && m.claimable(g.queue, c) {
		m.enqueue(g, h)
	}
}

// heldBack says that a live lease or a back-off stands before the cursor.
func (m *Machine) heldBack(c *cursorRec) bool {
	if c.lease == 0 {
		return false
	}
	l := m.leases.Get(c.lease)
	return l.live(m.t) || l.notBefore > m.t
}

// claimable says that something deliverable lies at or after the cursor.
func (m *Machine) claimable(q *queue, c *cursorRec) bool {
	p := m.parts.Get(c.part)
	return max(c.next, m.logStart(p)) < m.visible(q, c.part) && !emptied(q, p)
}
