package machine

import "queen/engine/format"

// applySetOffset moves one cursor, making it when absent: live leases end, failures and deliveries
// are forgotten (S-seek-1).
func (m *Machine) applySetOffset(c *format.SetOffset, n *format.CountResult) format.Code {
	q := m.queueBy(c.Tenant, c.Queue)
	if q == nil {
		return format.CodeUnknownQueue
	}
	ph := m.partByName(q, c.Partition)
	if ph == 0 {
		return format.CodeUnknownPartition
	}
	g := q.groupBy(c.Group)
	if g == nil {
		return format.CodeUnknownGroup
	}
	p := m.parts.Get(ph)
	to := p.next
	if !c.ToEnd {
		to = min(max(c.To, m.logStart(p)), p.next)
	}
	ch := m.makeCursor(ph, g, to)
	if ch == 0 {
		return format.CodeLimit
	}
	m.dequeue(g, ch)
	m.freeLease(m.cursors.Get(ch).lease)
	if to < m.cursors.Get(ch).next {
		m.groupsChanged(q) // evidence that messages are completed no longer holds
	}
	cur := m.cursors.Touch(ch)
	cur.next, cur.flags = to, cur.flags&cursorQueued
	m.judge(q, ph)
	m.settle(g, ch)
	n.Rows, n.Existed = 1, true
	return format.CodeOK
}

// applyRegister stores where a consumer group starts on a queue. Plain: only when it is new (S-sub-1).
// Reset: a seek of the whole group (S-seek-1), which makes all its cursors and leases missing.
// OnlyMissing: where not yet touched partitions start; no cursor moves (S-grp-6).
func (m *Machine) applyRegister(c *format.Register, n *format.CountResult) format.Code {
	if c.Conflate {
		return format.CodeNotBuilt
	}
	if c.Start == 0 || c.Reset && c.OnlyMissing {
		return format.CodeMalformed
	}
	q := m.queueBy(c.Tenant, c.Queue)
	if q == nil && (c.Reset || c.OnlyMissing) {
		return format.CodeUnknownQueue
	}
	if q == nil {
		if q, _ = m.ensureQueue(c.Tenant, c.Queue, byPop); q == nil {
			return format.CodeLimit
		}
	}
	g := q.groupBy(c.Group)
	if g == nil && c.OnlyMissing {
		return format.CodeUnknownGroup
	}
	n.Existed = g != nil
	switch {
	case g == nil:
		if g, _ = m.ensureGroup(q, c.Group, c.Start, c.From); g == nil {
			return format.CodeLimit
		}
		if c.Reset {
			m.begin(g, c.Start, c.From) // a seek says where queue mode starts, too
		}
		n.Rows = q.parts
	case c.Reset:
		if g.gen == maxCatalog || g.startGen == maxStartGen {
			return format.CodeLimit
		}
		m.resetGroup(g)
		m.begin(g, c.Start, c.From)
		m.groupsChanged(q)
		n.Rows = q.parts
	case c.OnlyMissing:
		if g.startGen == maxStartGen {
			return format.CodeLimit
		}
		g.startGen++
		g.start, g.from, g.at, g.atW = c.Start, c.From, m.place, m.w
		m.startCircle(g)
		m.groupsChanged(q)
		n.Rows = 1
	default:
		return format.CodeOK
	}
	m.touchGroup(g)
	return format.CodeOK
}
