package ephemeral

// group is a consumer group of a queue. It reads the partitions it polled, and all of them once it polled without naming
// one.
//
// INVARIANT: ready counts what can be handed out, over its cursors, and readyList holds the cursors that have any, the
// longest waiting first (checkStore).
type group struct {
	queue   *queue
	name    string // "" is queue mode
	all     bool
	cursors map[string]*cursor

	ready     int64
	readyList list[*cursor]
	since     int64 // when ready became more than 0, or was last taken from
	waiters   list[*waiter]
	parked    int // waiters, those of its cursors included
	idle      link[*group]
}

// cursor is how far a group got on a partition.
//
// INVARIANT: every message of the partition from next on was never handed out to the group, and behind counts them;
// held has what was handed out and is not settled. A delivery is in again iff it waits for redelivery, in the due heap
// iff it is leased.
type cursor struct {
	group   *group
	part    *partition
	next    *message
	behind  int64
	held    map[uint64]*delivery
	again   heap[*delivery]
	leased  int    // deliveries under a live lease
	skipped uint64 // messages dropped before the group settled them
	since   int64  // as the group's

	place   link[*cursor] // in the group's readyList
	waiters list[*waiter] // pops that named this partition
	idle    link[*cursor] // in idlePins, while the group does not read everything
}

// delivery is one message handed out to one group.
type delivery struct {
	m *message
	c *cursor
	// failed counts the deliveries that ended without an ack; turn tells apart the times it was handed out.
	failed, turn uint32
	// settles says that nobody will ack: it is settled when it is known to have arrived, or its lease ends.
	settles bool
	gone    bool
	lease   node[any] // in the due heap
	back    node[*delivery]
}

// ready counts what can be handed out.
func (c *cursor) ready() int64 { return c.behind + int64(len(c.again.items)) }

// ensureGroup finds or makes a group.
func (s *Store) ensureGroup(q *queue, name string) *group {
	g := q.groups[name]
	if g == nil {
		g = &group{queue: q, name: name, cursors: map[string]*cursor{}}
		g.idle.of = g
		q.groups[name] = g
		s.charge(groupCost + int64(len(name)))
	}
	return g
}

// readAll gives a group a cursor on every partition.
func (s *Store) readAll(g *group) {
	if g.all {
		return
	}
	g.all = true
	g.queue.everywhere = append(g.queue.everywhere, g)
	for _, c := range g.cursors {
		s.idlePins.remove(&c.idle)
	}
	// Partitions with messages first, the one that waits longest ahead: that is their order in readyList.
	for m := g.queue.oldest; m != nil; m = m.newer {
		if g.cursors[m.part.name] == nil {
			s.newCursor(g, m.part)
		}
	}
	for _, p := range g.queue.parts {
		if g.cursors[p.name] == nil {
			s.newCursor(g, p)
		}
	}
}

// newCursor starts a group on a partition, at the oldest message that is there.
func (s *Store) newCursor(g *group, p *partition) *cursor {
	c := &cursor{group: g, part: p, next: p.head}
	c.place.of, c.idle.of = c, c
	for m := p.head; m != nil; m = m.next {
		m.left++
		c.behind++
	}
	g.cursors[p.name] = c
	p.cursors = append(p.cursors, c)
	s.charge(cursorCost)
	s.changed(c, c.behind)
	return c
}

// dropCursor forgets where a group is on a partition. What it had not settled goes if no other group wants it, unless
// there is none at all: then the next group to come finds it.
func (s *Store) dropCursor(c *cursor) {
	g, p := c.group, c.part
	for i, o := range p.cursors {
		if o == c {
			last := len(p.cursors) - 1
			p.cursors[i], p.cursors[last] = p.cursors[last], nil
			p.cursors = p.cursors[:last]
			break
		}
	}
	g.ready -= c.ready()
	g.readyList.remove(&c.place)
	s.idlePins.remove(&c.idle)
	delete(g.cursors, p.name)
	s.charge(-cursorCost)
	for _, d := range c.held {
		s.leaseEnd(d)
		d.gone = true
		s.charge(-deliveryCost)
		s.unwant(d.m)
	}
	for m := c.next; m != nil; {
		after := m.next
		s.unwant(m)
		m = after
	}
	c.held, c.next, c.behind, c.again.items = nil, nil, 0, nil
}

// unwant takes one reader off a message.
func (s *Store) unwant(m *message) {
	if m.left--; m.left == 0 && len(m.part.cursors) > 0 {
		s.forget(m)
	}
}

// dropGroup forgets a group.
func (s *Store) dropGroup(g *group) {
	for _, c := range g.cursors {
		s.dropCursor(c)
	}
	q := g.queue
	for i, o := range q.everywhere {
		if o == g {
			q.everywhere = append(q.everywhere[:i], q.everywhere[i+1:]...)
			break
		}
	}
	s.idleGroups.remove(&g.idle)
	delete(q.groups, g.name)
	s.charge(-groupCost - int64(len(g.name)))
}

// changed notes that a cursor has by more, or by fewer, to hand out.
func (s *Store) changed(c *cursor, by int64) {
	g := c.group
	if by > 0 && g.ready == 0 {
		g.since = s.now
	}
	if by > 0 && c.ready() == by {
		c.since = s.now
	}
	g.ready += by
	switch has := c.ready() > 0; {
	case has && !c.place.in:
		g.readyList.push(&c.place)
	case !has:
		g.readyList.remove(&c.place)
	}
}

// release takes a message away from a cursor without settling anything; false when the group had settled it.
func (s *Store) release(c *cursor, m *message) bool {
	if d := c.held[m.n]; d != nil {
		waited := d.back.in()
		s.drop(d)
		if waited {
			s.changed(c, -1)
		}
		return true
	}
	if c.next == nil || m.n < c.next.n {
		return false
	}
	// Never handed out: the oldest of a queue is the oldest of its partition.
	c.next = m.next
	c.behind--
	s.changed(c, -1)
	return true
}

// drop forgets a delivery; what it says about the message is the caller's affair.
func (s *Store) drop(d *delivery) {
	s.leaseEnd(d)
	d.c.again.remove(&d.back)
	delete(d.c.held, d.m.n)
	d.gone = true
	s.charge(-deliveryCost)
}

// detach takes a message away from every cursor, uncounted.
func (s *Store) detach(m *message) {
	for _, c := range m.part.cursors {
		s.release(c, m)
	}
}
