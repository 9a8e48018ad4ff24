package machine

import "queen/engine/format"

// applyRetain declares every frame of a queue created before the cutoff gone, in constant time
// (S-ret-2, S-ret-4 to 7), and forgets some of the aborted ranges that went with them: rows that are left take of the room
// that transactions share, and other commands drop them only where something happens. It is stale when the options changed
// since it was proposed.
func (m *Machine) applyRetain(c *format.Retain, n *format.CountResult) format.Code {
	q := m.liveQueue(c.Queue)
	if q == nil {
		return format.CodeUnknownQueue
	}
	expiry := q.expiry()
	if c.Generation != q.optGen || expiry == 0 || c.Cutoff > m.w-expiry {
		return format.CodeStaleEvidence
	}
	n.Existed = true
	if c.Cutoff > q.cutoff {
		q.cutoff = c.Cutoff
		n.Rows = 1
		m.soilQueue(q)
		m.touch(Touched{Queue: c.Queue, Reason: TouchedStart})
	}
	m.forgetAborts(q, c.Aborts)
	return format.CodeOK
}

// applyTrim raises explicit log starts. Completed ones rest on the groups' progress and are stale
// when a registration, a backward seek or a deletion came between; bounded ones rest on the options.
func (m *Machine) applyTrim(c *format.Trim, n *format.CountResult) format.Code {
	q := m.liveQueue(c.Queue)
	if q == nil {
		return format.CodeUnknownQueue
	}
	if c.Completed && c.Generation != q.groupGen || c.Bounded && c.Generation != q.optGen {
		return format.CodeStaleEvidence
	}
	n.Existed = true
	for _, item := range c.Items {
		ph, p := m.partByID(item.Partition)
		if p == nil || p.queue != q.id {
			continue
		}
		upto := min(item.Upto, p.next)
		if upto <= m.logStart(p) {
			continue
		}
		s := m.touchSide(ph)
		if s == nil {
			return format.CodeLimit
		}
		s.trim = upto
		m.dropAborts(q, ph)
		n.Rows++
		m.touchPart(p, TouchedStart)
	}
	return format.CodeOK
}

// liveQueue finds a queue by id.
func (m *Machine) liveQueue(id format.QueueID) *queue {
	if id > maxCatalog {
		return nil
	}
	if q := m.queues[uint32(id)]; q != nil && !q.dead {
		return q
	}
	return nil
}
