package ephemeral

// queue is one queue of one tenant.
//
// INVARIANT: oldest..newest are its messages in the order of their pushes, over all partitions; depth and bytes count
// them (checkStore). An implicit queue is in idleQueues iff it is empty and nobody is parked on it.
type queue struct {
	tenant   *tenant
	name     string
	declared bool
	settings Settings
	// generation of the declarations that declared and settings were read at.
	generation uint64

	parts  map[string]*partition
	groups map[string]*group
	// everywhere are the groups that read every partition, also those to come.
	everywhere     []*group
	oldest, newest *message
	depth          int64
	bytes          int64 // of payloads
	parked         int
	drops          Drops
	idle           link[*queue]
	ttl            node[any] // when the oldest message is too old
}

// partition is one ordered lane of a queue.
//
// INVARIANT: head..tail are its messages, numbers ascending; next is above them all.
type partition struct {
	queue      *queue
	name       string
	head, tail *message
	count      int64
	bytes      int64
	next       uint64 // number of the next message
	cursors    []*cursor
	idle       link[*partition]
}

// message is one message, stored once. payload is its own memory.
type message struct {
	n       uint64
	at      int64 // mono time of its push
	payload []byte
	part    *partition
	// left counts the cursors of the partition that have not settled it. One that nobody reads stays.
	left                     int
	prev, next, older, newer *message
}

func (m *message) cost() int64 { return messageCost + int64(len(m.payload)) }

// ensureQueue finds or makes a queue; settings shape a new one, and a declaration of a later generation an old one.
func (s *Store) ensureQueue(t *tenant, name string, d Declared) *queue {
	q := t.queues[name]
	if q == nil {
		q = &queue{tenant: t, name: name, settings: DefaultSettings(), parts: map[string]*partition{},
			groups: map[string]*group{}}
		q.idle.of, q.ttl.of, q.ttl.rank = q, q, rankAge
		t.queues[name] = q
		s.queues++
		s.charge(queueCost + int64(len(name)))
		q.generation = d.Generation
		q.declare(d)
		return q
	}
	if d.Generation > q.generation {
		q.generation = d.Generation
		q.declare(d)
		s.settingsChanged(q)
	}
	return q
}

func (q *queue) declare(d Declared) {
	q.declared, q.settings = d.Found, DefaultSettings()
	if d.Found {
		q.settings = d.Settings
	}
}

// dropQueue forgets a queue with everything in it. Parked pops get their empty answer: they would wait on nothing.
func (s *Store) dropQueue(q *queue) {
	s.endParkedOf(q)
	for q.oldest != nil {
		s.detach(q.oldest)
		s.forget(q.oldest)
	}
	for _, g := range q.groups {
		s.dropGroup(g)
	}
	for _, p := range q.parts {
		s.dropPartition(p)
	}
	s.due.remove(&q.ttl)
	s.idleQueues.remove(&q.idle)
	delete(q.tenant.queues, q.name)
	s.queues--
	s.charge(-queueCost - int64(len(q.name)))
	if len(q.tenant.queues) == 0 {
		delete(s.tenants, q.tenant.id)
	}
}

// rest puts a queue among the idle ones, or takes it out, as it is now.
func (s *Store) rest(q *queue) {
	if q.declared || q.depth > 0 || q.parked > 0 {
		s.idleQueues.remove(&q.idle)
		return
	}
	s.idleQueues.touch(&q.idle, s.now)
}

// ensurePartition finds or makes a partition; the groups that read everything get a cursor on a new one.
func (s *Store) ensurePartition(q *queue, name string) *partition {
	p := q.parts[name]
	if p == nil {
		p = &partition{queue: q, name: name, next: s.floor}
		p.idle.of = p
		q.parts[name] = p
		s.charge(partitionCost + int64(len(name)))
		for _, g := range q.everywhere {
			s.newCursor(g, p)
		}
	}
	s.idleParts.touch(&p.idle, s.now)
	return p
}

// dropPartition forgets an empty partition and the cursors on it.
func (s *Store) dropPartition(p *partition) {
	for len(p.cursors) > 0 {
		s.dropCursor(p.cursors[len(p.cursors)-1])
	}
	s.floor = max(s.floor, p.next)
	s.idleParts.remove(&p.idle)
	delete(p.queue.parts, p.name)
	s.charge(-partitionCost - int64(len(p.name)))
}

// add appends a message that was admitted.
func (s *Store) add(p *partition, payload []byte) *message {
	q := p.queue
	m := &message{n: p.next, at: s.now, payload: payload, part: p, left: len(p.cursors), prev: p.tail, older: q.newest}
	p.next++
	if m.prev != nil {
		m.prev.next = m
	} else {
		p.head = m
	}
	if m.older != nil {
		m.older.newer = m
	} else {
		q.oldest = m
		s.ageFrom(q)
	}
	p.tail, q.newest = m, m
	p.count++
	p.bytes += int64(len(payload))
	q.depth++
	q.bytes += int64(len(payload))
	s.charge(m.cost())
	return m
}

// forget takes a message out of its lists; no cursor may know it any more.
func (s *Store) forget(m *message) {
	p, q := m.part, m.part.queue
	if m.prev != nil {
		m.prev.next = m.next
	} else {
		p.head = m.next
	}
	if m.next != nil {
		m.next.prev = m.prev
	} else {
		p.tail = m.prev
	}
	if m.newer != nil {
		m.newer.older = m.older
	} else {
		q.newest = m.older
	}
	if m.older != nil {
		m.older.newer = m.newer
	} else {
		q.oldest = m.newer
		s.ageFrom(q)
	}
	p.count--
	p.bytes -= int64(len(m.payload))
	q.depth--
	q.bytes -= int64(len(m.payload))
	s.charge(-m.cost())
	if q.depth == 0 {
		s.rest(q)
	}
}

// ageFrom notes when the oldest message of a queue is too old.
func (s *Store) ageFrom(q *queue) {
	if q.oldest == nil || q.settings.TTLSeconds == 0 {
		s.due.remove(&q.ttl)
		return
	}
	s.due.set(&q.ttl, q.oldest.at+q.settings.ttl())
}

// dropOldest drops the queue's oldest message, whoever holds it: their acks find nothing.
func (s *Store) dropOldest(q *queue, forAge bool) {
	m := q.oldest
	for _, c := range m.part.cursors {
		if s.release(c, m) {
			c.skipped++
		}
	}
	s.forget(m)
	if forAge {
		q.drops.TTL++
		s.counts.Dropped.TTL++
	} else {
		q.drops.Bounds++
		s.counts.Dropped.Bounds++
	}
}

// settingsChanged lets new settings act on what is there. Bounds act at the next push.
func (s *Store) settingsChanged(q *queue) {
	s.ageFrom(q)
	s.rest(q)
	for _, g := range q.groups {
		for e := g.readyList.front; e != nil; {
			after := e.next
			s.offer(e.of)
			e = after
		}
	}
}
