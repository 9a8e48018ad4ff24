package machine

import (
	"slices"

	"queen/engine/format"
)

// applyDelete removes a queue, a consumer group, a partition or the dead letters of a message. What
// was many rows is freed by Sweep; that it is gone holds at once.
func (m *Machine) applyDelete(c *format.Delete, n *format.CountResult) format.Code {
	if c.Guarded && c.What != format.DeleteQueue {
		return format.CodeMalformed
	}
	switch c.What {
	case format.DeleteQueue:
		return m.deleteQueue(c, n)
	case format.DeleteGroup:
		return m.deleteGroups(c, n)
	case format.DeletePartition:
		return m.deletePart(c, n)
	case format.DeleteDeadLetter:
		return m.deleteDeadAt(c, n)
	}
	return format.CodeMalformed
}

// deleteQueue marks a queue dead: its name and every id of it are unknown from now on (S-cfg-8).
func (m *Machine) deleteQueue(c *format.Delete, n *format.CountResult) format.Code {
	q := m.queueBy(c.Tenant, c.Queue)
	if q == nil {
		return format.CodeUnknownQueue
	}
	if c.Guarded && format.QueueID(q.id) != c.Life {
		return format.CodeGone
	}
	n.Existed, n.Rows = true, q.parts
	q.dead = true
	m.topicsGen++
	delete(m.byName, queueKey{q.tenant, q.name})
	for _, g := range slices.Clone(q.order) {
		m.dropGroup(g)
	}
	m.addTask(&task{kind: sweepQueue, queue: q.id})
	m.soilQueue(q)
	m.touch(Touched{Queue: format.QueueID(q.id), Reason: TouchedGone})
	return format.CodeOK
}

// deleteGroups forgets a consumer group on one queue or on all of the tenant's (S-seek-5).
func (m *Machine) deleteGroups(c *format.Delete, n *format.CountResult) format.Code {
	if !c.AllQueues {
		q := m.queueBy(c.Tenant, c.Queue)
		if q == nil {
			return format.CodeUnknownQueue
		}
		m.deleteGroup(q, c, n)
		return format.CodeOK
	}
	m.deleteEverywhere(c, n)
	if !c.KeepRegistration {
		m.dropGroupRow(c.Tenant, c.Name, n)
	}
	return format.CodeOK
}

func (m *Machine) deleteEverywhere(c *format.Delete, n *format.CountResult) {
	for _, id := range m.queueIDs {
		if q := m.queues[id]; !q.dead && q.tenant == c.Tenant {
			m.deleteGroup(q, c, n)
		}
	}
}

func (m *Machine) deleteGroup(q *queue, c *format.Delete, n *format.CountResult) {
	g := q.groupBy(c.Name)
	if g == nil {
		return
	}
	n.Existed = true
	if n.Rows += g.cursors; g.sought {
		n.Rows += q.parts - min(g.cursors, q.parts)
	}
	g.sought = false
	if c.KeepRegistration && g.gen < maxCatalog && g.startGen < maxStartGen {
		// The cursors go, where it starts stays: everything has to be looked at again.
		m.resetGroup(g)
		m.startCircle(g)
	} else {
		m.dropGroup(g)
		m.addTask(&task{kind: sweepGroup, queue: q.id, group: g.id})
	}
	m.groupsChanged(q)
	m.touchGroup(g)
}

// deletePart removes an idle partition. The proposer names the next offset it saw: anything that came
// since, a dead letter or a live lease makes the proposal stale (S-ret-10).
func (m *Machine) deletePart(c *format.Delete, n *format.CountResult) format.Code {
	ph, p := m.partByID(c.Partition)
	if p == nil || m.queues[p.queue].tenant != c.Tenant {
		return format.CodeUnknownPartition
	}
	if c.Offset != p.next || m.firstDeadOf(p.id) != 0 || p.flags&partOpen != 0 {
		return format.CodeStaleEvidence
	}
	for ch := p.cursors; ch != 0; ch = m.cursors.Get(ch).chain {
		cur := m.cursors.Get(ch)
		if cur.lease != 0 && m.held(cur.lease) {
			return format.CodeStaleEvidence
		}
	}
	n.Existed, n.Rows = true, 1
	m.touchPart(p, TouchedGone)
	m.freePart(m.queues[p.queue], ph)
	return format.CodeOK
}
