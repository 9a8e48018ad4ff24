package machine

import "queen/engine/format"

// applyGroup applies what a coordinator does: it keeps a row of a consumer group, and commits positions while the row is
// the one that it wrote last. Whoever took the group over has written the row, which fences whoever had it.
func (m *Machine) applyGroup(c *format.Group, res *format.GroupResult) format.Code {
	row, found := m.admins.tree.Get(&admin{tenant: c.Tenant, kind: format.AdminGroup, name: string(c.Name)})
	at := format.Place{}
	if res.Existed = found; found {
		at = row.at
	}
	if c.Guarded && c.At != at {
		return format.CodeGone
	}
	n := format.CountResult{}
	code := format.CodeOK
	switch c.Op {
	case format.GroupSet:
		code = m.setAdmin(&format.Admin{Tenant: c.Tenant, Row: format.AdminGroup, Name: c.Name, Value: c.Value}, &n)
	case format.GroupDelete:
		m.deleteEverywhere(&format.Delete{What: format.DeleteGroup, Tenant: c.Tenant, Name: c.Name, AllQueues: true}, &n)
		m.dropGroupRow(c.Tenant, c.Name, &n)
	default:
		m.commitPositions(c, res)
		return code
	}
	res.Rows = n.Rows
	return code
}

// GroupTenants lists the tenants that have rows of consumer groups, in no order.
func (m *Machine) GroupTenants() (all []format.Tenant) {
	for lot := range m.admins.use {
		if lot.groups {
			all = append(all, lot.tenant)
		}
	}
	return all
}

// dropGroupRow removes what a coordinator keeps of a consumer group that is deleted.
func (m *Machine) dropGroupRow(t format.Tenant, name []byte, n *format.CountResult) {
	row, found := m.admins.tree.Get(&admin{tenant: t, kind: format.AdminGroup, name: string(name)})
	if !found {
		return
	}
	m.admins.drop(row)
	m.soilAdmin(row)
	n.Rows++
	n.Existed = true
}

// commitPositions sets each position that can be set, and tells why others can not.
func (m *Machine) commitPositions(c *format.Group, res *format.GroupResult) {
	for i := range c.Positions {
		if code := m.commitPosition(c.Tenant, c.Name, &c.Positions[i]); code != format.CodeOK {
			res.Refused = append(res.Refused, format.PositionRefusal{At: uint32(i), Code: code})
			continue
		}
		res.Rows++
	}
}

// commitPosition sets one position. An offset outside of what the partition holds puts the cursor at the nearest that is
// inside, and is remembered, since whoever committed it asks for it again. It says nothing about other partitions: of a
// group that it makes the first pop decides where those start (S-sub-1).
func (m *Machine) commitPosition(t format.Tenant, name []byte, p *format.Position) format.Code {
	c := format.SetOffset{Tenant: t, Queue: p.Queue, Partition: p.Partition, Group: name}
	q := m.queueBy(t, p.Queue)
	if q == nil {
		return format.CodeUnknownQueue
	}
	if code := m.makePosition(&c, q); code != format.CodeOK {
		return code
	}
	ph, g := m.partByName(q, p.Partition), q.groupBy(name)
	part := m.parts.Get(ph)
	to := min(max(p.To, m.logStart(part)), part.next)
	ch := m.makeCursor(ph, g, to)
	if ch == 0 {
		return format.CodeLimit
	}
	said := format.PositionRow{Metadata: p.Metadata}
	if to != p.To {
		said.Asked, said.At = p.To, to
	}
	m.putCursor(g, ch, to, p.LeaderEpoch, &said)
	return format.CodeOK
}

// GroupRow finds what a coordinator keeps of a consumer group.
func (m *Machine) GroupRow(t format.Tenant, name string) (AdminRow, bool) {
	return m.AdminRow(t, format.AdminGroup, name)
}

// Committed is where a consumer group stands on a partition, as it was committed or acked.
type Committed struct {
	Partition   format.PartitionID
	Name        string // of the partition
	Offset      format.Offset
	LeaderEpoch int32
	// Key is the store key, family included, of what was said with the position; nil when nothing was.
	Key  []byte
	Head KeyHead
}

// Committed finds the position of a consumer group on a partition; false when it never settled anything there.
func (m *Machine) Committed(t format.Tenant, queue, partition, group string) (Committed, bool) {
	q := m.queueBy(t, []byte(queue))
	if q == nil {
		return Committed{}, false
	}
	g, ph := q.groupBy([]byte(group)), m.partByName(q, []byte(partition))
	if g == nil || ph == 0 {
		return Committed{}, false
	}
	return m.committedAt(g, ph)
}

func (m *Machine) committedAt(g *group, ph handle) (Committed, bool) {
	ch, live := m.cursorOf(ph, g)
	if !live || m.cursors.Get(ch).unused() {
		return Committed{}, false
	}
	c, p := m.cursors.Get(ch), m.parts.Get(ph)
	v := Committed{Partition: p.id, Offset: c.next, LeaderEpoch: c.leaderEpoch()}
	if c.flags&cursorMetadata != 0 {
		v.Key = format.AppendPositionKey([]byte{FamilyPosition}, p.id, format.ConsumerID(g.id))
		if h := m.keyHandle(v.Key); h != 0 {
			v.Head = m.headOf(h)
		}
	}
	return v, true
}

// CommittedPage lists positions of a consumer group on one queue, by partition above after: at most limit of them, and at
// most look partitions are looked at. next is 0 at the end, else where to go on.
func (m *Machine) CommittedPage(queue format.QueueID, group string, after format.PartitionID, limit, look int) (rows []Committed, next format.PartitionID) {
	q := m.queues[uint32(queue)]
	if q == nil || q.dead {
		return nil, 0
	}
	g := q.groupBy([]byte(group))
	if g == nil || g.cursors == 0 {
		return nil, 0
	}
	for h := m.pageStart(q, after); h != 0; h = m.parts.Get(h).succ {
		p := m.parts.Get(h)
		if limit == 0 || look == 0 {
			return rows, after
		}
		look--
		after = p.id
		if row, ok := m.committedAt(g, h); ok {
			row.Name = string(m.names.Get(p.name))
			rows = append(rows, row)
			limit--
		}
	}
	return rows, 0
}

// QueuesOfGroup lists the queues on which a consumer group is registered.
func (m *Machine) QueuesOfGroup(t format.Tenant, group string) []Queue {
	var out []Queue
	for _, id := range m.queueIDs {
		if q := m.queues[id]; !q.dead && q.tenant == t && q.groupBy([]byte(group)) != nil {
			out = append(out, q.view())
		}
	}
	return out
}
