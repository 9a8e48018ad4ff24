package machine

import "queen/engine/format"

// applySetOffset moves one cursor, making it when absent: live leases end, failures and deliveries
// are forgotten (S-seek-1). With Create it makes partition and registration as well (S-txn-18).
func (m *Machine) applySetOffset(c *format.SetOffset, n *format.CountResult) format.Code {
	q := m.queueBy(c.Tenant, c.Queue)
	if q == nil {
		return format.CodeUnknownQueue
	}
	if c.Create {
		if code := m.makePosition(c, q); code != format.CodeOK {
			return code
		}
	}
	ph := m.partByName(q, c.Partition)
	if ph == 0 {
		return format.CodeUnknownPartition
	}
	g := q.groupBy(c.Group)
	if g == nil {
		return format.CodeUnknownGroup
	}
	n.Rows, n.Existed = 1, true
	if c.Forget {
		m.forget(q, g, ph)
		return format.CodeOK
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
	m.putCursor(g, ch, to, format.NoLeaderEpoch, &format.PositionRow{Metadata: c.Metadata})
	return format.CodeOK
}

// putCursor makes a cursor stand at to: its lease ends, and what was said with the old position is forgotten.
func (m *Machine) putCursor(g *group, ch handle, to format.Offset, epoch int32, said *format.PositionRow) {
	m.dequeue(g, ch)
	m.freeLease(m.cursors.Get(ch).lease)
	if to < m.cursors.Get(ch).next {
		m.groupsChanged(g.queue) // evidence that messages are completed no longer holds
	}
	cur := m.cursors.Touch(ch)
	cur.next, cur.flags = to, cur.flags&(cursorQueued|cursorMetadata)
	cur.setEpoch(epoch)
	m.setPositionRow(ch, said)
	m.judge(g.queue, m.cursors.Get(ch).part)
	m.settle(g, ch)
}

// positionRoom says that what a SetOffset makes new fits, n times over. It only reads.
func (m *Machine) positionRoom(c *format.SetOffset, q *queue, n int) format.Code {
	if format.TenantNameBytes+len(q.name)+max(len(c.Partition), len(c.Group)) > format.NameBudget ||
		m.names.Room(len(c.Partition)) < n || !m.keyRoom(n, 0) {
		return format.CodeLimit
	}
	return format.CodeOK
}

// makePosition creates the partition and the registration that a position names.
func (m *Machine) makePosition(c *format.SetOffset, q *queue) format.Code {
	if code := m.positionRoom(c, q, 1); code != format.CodeOK {
		return code
	}
	if m.partByName(q, c.Partition) == 0 {
		if h, _ := m.createPart(q, c.Partition); h == 0 {
			return format.CodeLimit
		}
	}
	g, created := m.ensureGroup(q, c.Group, c.Start, 0, false)
	if g == nil {
		return format.CodeLimit
	}
	if created {
		m.touchGroup(g)
	}
	return format.CodeOK
}

// forget takes a cursor away, and lets every group look at the partition again: this one begins anew.
func (m *Machine) forget(q *queue, g *group, ph handle) {
	if ch, live := m.cursorOf(ph, g); live {
		m.freeCursor(ch)
		g.forgot = true
		m.soilGroup(g)
		m.groupsChanged(q)
		m.announce(q, ph, 0, false)
		m.touchPart(m.parts.Get(ph), TouchedReady)
	}
}

// setPositionRow keeps what was said with a position, or drops what was said before.
func (m *Machine) setPositionRow(ch handle, said *format.PositionRow) {
	c := m.cursors.Get(ch)
	if len(said.Metadata) == 0 && said.Asked == said.At {
		m.dropMetadata(ch)
		return
	}
	at := m.positionAt(m.parts.Get(c.part).id, c.group)
	if at.h == 0 && !m.keyRoom(1, 0) {
		return
	}
	m.write(at, said.Append(m.scratch.row[:at.size]), keyRec{})
	m.cursors.Touch(ch).flags |= cursorMetadata
}

func (m *Machine) dropMetadata(ch handle) {
	c := m.cursors.Get(ch)
	if c.flags&cursorMetadata == 0 {
		return
	}
	m.remove(m.positionAt(m.parts.Get(c.part).id, c.group))
	m.cursors.Touch(ch).flags &^= cursorMetadata
}

// applyRegister stores where a consumer group starts on a queue. Plain: only when it is new (S-sub-1).
// Reset: a seek of the whole group (S-seek-1), which makes all its cursors and leases missing.
// OnlyMissing: where not yet touched partitions start; no cursor moves (S-grp-6).
func (m *Machine) applyRegister(c *format.Register, n *format.CountResult) format.Code {
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
		if g, _ = m.ensureGroup(q, c.Group, c.Start, c.From, c.Conflate); g == nil {
			return format.CodeLimit
		}
		if c.Reset {
			m.begin(g, c.Start, c.From) // a seek says where queue mode starts, too
			g.sought = true
		}
		n.Rows = q.parts
	case c.Reset:
		if g.gen == maxCatalog || g.startGen == maxStartGen {
			return format.CodeLimit
		}
		m.resetGroup(g)
		m.begin(g, c.Start, c.From)
		g.sought, g.undecided = true, false
		m.groupsChanged(q)
		n.Rows = q.parts
	case c.OnlyMissing:
		if g.startGen == maxStartGen {
			return format.CodeLimit
		}
		g.startGen++
		g.start, g.from, g.at, g.atW, g.undecided = c.Start, c.From, m.place, m.w, false
		m.startCircle(g)
		m.groupsChanged(q)
		n.Rows = 1
	case g.undecided:
		m.decide(g, c.Start, c.From)
	default:
		return format.CodeOK
	}
	m.touchGroup(g)
	return format.CodeOK
}
