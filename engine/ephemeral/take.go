package ephemeral

import "strconv"

// Message is one message as it is handed out.
type Message struct {
	ID        string
	Partition string
	// Payload is shared and never changes: do not write to it.
	Payload []byte
	// Failed counts the deliveries before this one that ended without an ack.
	Failed uint32
}

// Delivery is what a pop got. It must end in exactly one of Delivered and Abandon.
type Delivery struct {
	Messages []Message
	store    *Store
	turns    []turn
	settles  bool
}

// turn is one handing-out of a delivery: what happens later counts only while it is still that one.
type turn struct {
	d    *delivery
	turn uint32
}

// current reports whether the message is still leased by this handing-out.
func (t turn) current() bool { return !t.d.gone && t.d.turn == t.turn && t.d.lease.in() }

// Delivered says that the answer left: messages of a commit-on-delivery pop are settled now.
func (d *Delivery) Delivered() {
	if !d.settles {
		return
	}
	s := d.store
	s.begin()
	defer s.end()
	for _, t := range d.turns {
		if t.current() {
			s.settle(t.d)
		}
	}
}

// Abandon says that nobody got the answer: what is still leased by it is handed out again, at once and uncounted.
func (d *Delivery) Abandon() {
	s := d.store
	s.begin()
	defer s.end()
	for _, t := range d.turns {
		if t.current() {
			s.leaseEnd(t.d)
			s.wait(t.d)
		}
	}
	s.wakeAll(d.turns)
}

// take hands out up to batch messages: of one cursor, or of a group's cursors in turn. It allocates the answer.
func (s *Store) take(g *group, only *cursor, batch int, settles bool) *Delivery {
	ready := g.ready
	if only != nil {
		ready = only.ready()
	}
	n := int(min(int64(batch), ready))
	d := &Delivery{store: s, settles: settles, Messages: make([]Message, 0, n), turns: make([]turn, 0, n)}
	for len(d.turns) < n && s.roomToDeliver() {
		c := only
		if c == nil {
			c = g.readyList.front.of
		}
		s.takeFrom(c, n-len(d.turns), settles, d)
		if c.place.in { // the next pop begins with another partition
			g.readyList.remove(&c.place)
			g.readyList.push(&c.place)
		}
	}
	if len(d.turns) == 0 {
		return nil
	}
	if only == nil {
		g.since = s.now
	}
	s.counts.Delivered += uint64(len(d.turns))
	return d
}

// takeFrom hands out up to n messages of a cursor: first what came back, then what is new.
func (s *Store) takeFrom(c *cursor, n int, settles bool, out *Delivery) {
	expiry := s.now + c.part.queue.settings.lease()
	for ; n > 0 && c.ready() > 0; n-- {
		var d *delivery
		if first := c.again.first(); first != nil {
			d = first.of
			c.again.remove(first)
		} else {
			if !s.roomToDeliver() {
				break
			}
			d = s.handOut(c)
		}
		d.turn++
		d.settles = settles
		s.due.set(&d.lease, expiry)
		c.leased++
		out.turns = append(out.turns, turn{d, d.turn})
		out.Messages = append(out.Messages, Message{ID: s.idOf(d.m), Partition: c.part.name, Payload: d.m.payload,
			Failed: d.failed})
		s.changed(c, -1)
	}
	c.since = s.now
}

// handOut takes the next message that a cursor never handed out.
func (s *Store) handOut(c *cursor) *delivery {
	d := &delivery{m: c.next, c: c}
	d.lease.of, d.back.of = d, d
	if c.held == nil {
		c.held = map[uint64]*delivery{}
	}
	c.held[d.m.n] = d
	c.next = d.m.next
	c.behind--
	s.charge(deliveryCost)
	return d
}

// leaseEnd ends a lease, if there is one.
func (s *Store) leaseEnd(d *delivery) {
	if d.lease.in() {
		s.due.remove(&d.lease)
		d.c.leased--
	}
}

// roomToDeliver bounds the memory of what is handed out; see Options.MaxBytes.
func (s *Store) roomToDeliver() bool { return s.bytes+deliveryCost <= s.o.MaxBytes+s.o.MaxBytes/2 }

// idOf is the message's id: opaque to clients, and of this life of the node only.
func (s *Store) idOf(m *message) string {
	b := make([]byte, 0, len(s.prefix)+len(m.part.name)+21)
	b = append(append(append(b, s.prefix...), m.part.name...), ':')
	return string(strconv.AppendUint(b, m.n, 10))
}
