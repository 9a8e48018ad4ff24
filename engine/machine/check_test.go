package machine

import (
	"fmt"

	"queen/engine/format"
)

// checkState walks the whole state and checks what the INVARIANT lines of this package promise.
func checkState(m *Machine) error {
	seenParts := 0
	for _, id := range m.queueIDs {
		q := m.queues[id]
		n, err := checkQueue(m, q)
		if err != nil {
			return fmt.Errorf("queue %q: %w", q.name, err)
		}
		seenParts += n
	}
	if seenParts != m.parts.Len() {
		return fmt.Errorf("%d partitions in lists, %d rows", seenParts, m.parts.Len())
	}
	if m.nameIndex.Len() != m.parts.Len() || m.idIndex.Len() != m.parts.Len() {
		return fmt.Errorf("index sizes %d, %d, want %d", m.nameIndex.Len(), m.idIndex.Len(), m.parts.Len())
	}
	if err := checkAdmins(&m.admins); err != nil {
		return err
	}
	if err := checkKeys(m); err != nil {
		return err
	}
	if err := checkKafka(m); err != nil {
		return err
	}
	return checkLeases(m)
}

func checkQueue(m *Machine, q *queue) (int, error) {
	n, last := 0, handle(0)
	for h := q.first; h != 0; h = m.parts.Get(h).succ {
		p := m.parts.Get(h)
		if p.queue != q.id || p.prev != last || last != 0 && m.parts.Get(last).id >= p.id {
			return 0, fmt.Errorf("partition list broken at %d", h)
		}
		if m.partByName(q, m.names.Get(p.name)) != h {
			return 0, fmt.Errorf("partition %s is not found by name", pidName(p.id))
		}
		if err := checkSide(m, q, h, p); err != nil {
			return 0, err
		}
		n, last = n+1, h
	}
	if last != q.last || uint64(n) != q.parts {
		return 0, fmt.Errorf("list ends at %d with %d partitions, want %d and %d", last, n, q.last, q.parts)
	}
	dead := uint64(0)
	for h, newer := q.deadNewest, handle(0); h != 0; newer, h = h, m.dead.Get(h).older {
		if m.dead.Get(h).newer != newer || m.deadWithID(m.dead.Get(h).id) != h {
			return 0, fmt.Errorf("dead letters broken at %d", h)
		}
		dead++
	}
	if dead != q.deadCount {
		return 0, fmt.Errorf("%d dead letters, counted %d", dead, q.deadCount)
	}
	for _, g := range q.order {
		if err := checkGroup(m, q, g); err != nil {
			return 0, fmt.Errorf("group %q: %w", g.name, err)
		}
	}
	return n, nil
}

func checkSide(m *Machine, q *queue, h handle, p *partRec) error {
	if p.side == 0 {
		return nil
	}
	s := m.sides.Get(p.side)
	_, timer := m.holds.At(p.side, 0)
	asked := m.asks.Has(askKey{s.due, p.side})
	switch {
	case s.part != h:
		return fmt.Errorf("side record of %s belongs to %d", pidName(p.id), s.part)
	case asked != (s.flags&sideAsk != 0):
		return fmt.Errorf("%s: asked %v, flags %d", pidName(p.id), asked, s.flags)
	case timer != (s.due != 0 && !asked):
		return fmt.Errorf("%s: timer %v, due %d, asked %v", pidName(p.id), timer, s.due, asked)
	case s.hidden != 0 && !q.dead && !timer && !asked:
		return fmt.Errorf("%s hides messages and nobody will look", pidName(p.id))
	case q.holds() && s.holdGen == q.holdGen && s.hidden == 0 && s.visible < p.next:
		return fmt.Errorf("%s: visible %d of %d and nothing hidden", pidName(p.id), s.visible, p.next)
	}
	return nil
}

func checkGroup(m *Machine, q *queue, g *group) error {
	n, last := uint32(0), handle(0)
	inFIFO := map[handle]bool{}
	for h := g.fifoHead; h != 0; h = m.cursors.Get(h).fifoSucc {
		c := m.cursors.Get(h)
		if last != 0 && m.cursors.Get(last).stamp > c.stamp {
			return fmt.Errorf("FIFO: %d, claimable since %d, is behind %d, since %d", h, c.stamp, last, m.cursors.Get(last).stamp)
		}
		if c.fifoPrev != last || c.flags&cursorQueued == 0 || c.group != g.id || c.gen != g.gen {
			return fmt.Errorf("FIFO broken at %d", h)
		}
		if m.heldBack(c) {
			return fmt.Errorf("%s is queued and held back", pidName(m.parts.Get(c.part).id))
		}
		inFIFO[h] = true
		n, last = n+1, h
	}
	if last != g.fifoTail || n != g.fifoLen {
		return fmt.Errorf("FIFO ends at %d with %d, want %d and %d", last, n, g.fifoTail, g.fifoLen)
	}
	cursors, leases := uint64(0), uint64(0)
	for h := q.first; h != 0; h = m.parts.Get(h).succ {
		p := m.parts.Get(h)
		ch, live := m.cursorOf(h, g)
		if ch != 0 && m.cursors.Get(ch).gen == g.gen {
			c := m.cursors.Get(ch)
			cursors++
			if (c.flags&cursorQueued != 0) != inFIFO[ch] {
				return fmt.Errorf("%s: queued flag %d, in FIFO %v", pidName(p.id), c.flags, inFIFO[ch])
			}
			if c.lease != 0 && m.leases.Get(c.lease).flags&leaseLive != 0 {
				leases++
			}
			if c.next > p.next {
				return fmt.Errorf("%s: cursor %d beyond the end %d", pidName(p.id), c.next, p.next)
			}
		}
		if err := checkReachable(m, q, g, h, ch, live, inFIFO); err != nil {
			return fmt.Errorf("%s: %w", pidName(p.id), err)
		}
	}
	if cursors != g.cursors || leases != g.leases {
		return fmt.Errorf("%d cursors and %d leases, counted %d and %d", cursors, leases, g.cursors, g.leases)
	}
	return nil
}

// checkReachable checks that a partition with something to claim will be offered to the group.
func checkReachable(m *Machine, q *queue, g *group, h, ch handle, live bool, inFIFO map[handle]bool) error {
	p := m.parts.Get(h)
	if emptied(q, p) || m.logStart(p) >= p.next {
		return nil
	}
	if live {
		c := m.cursors.Get(ch)
		if !m.claimable(q, c) || m.heldBack(c) || inFIFO[ch] {
			return nil
		}
		if c.lease != 0 {
			if _, timed := m.timers.At(c.lease, 0); timed && m.leases.Get(c.lease).flags&leaseLive != 0 {
				return nil // out of time and about to fire
			}
		}
	} else {
		at, how := startOf(g, p, -1, nil)
		if how == byNobody && g.start == format.StartNew && p.lastW == g.atW {
			return nil // written in the microsecond of the registration: maybe before it
		}
		if how == byState && max(at, m.logStart(p)) >= m.visible(q, h) {
			return nil
		}
		if m.visible(q, h) == 0 {
			return nil
		}
	}
	if p.side != 0 {
		if _, timed := m.holds.At(p.side, 0); timed || m.sides.Get(p.side).flags&sideAsk != 0 {
			return nil // will be announced when it is revealed
		}
	}
	if g.scan < q.journal.Start() || g.circle.on && !g.circle.passed(p.id) {
		return nil
	}
	if p.jpos >= g.scan && p.jpos < q.journal.End() {
		return nil
	}
	return fmt.Errorf("claimable, but neither queued nor in the journal (jpos %d, scan %d, end %d, read %d, kind %d, cursor %v)",
		p.jpos, g.scan, q.journal.End(), q.read, g.start, live)
}

func checkLeases(m *Machine) error {
	live := uint64(0)
	for h := m.leases.Next(0); h != 0; h = m.leases.Next(h) {
		l := m.leases.Get(h)
		c := m.cursors.Get(l.cursor)
		if c.lease != h {
			return fmt.Errorf("lease record %d of cursor %d, which has %d", h, l.cursor, c.lease)
		}
		due, timed := m.timers.At(h, 0)
		want := int64(0)
		switch {
		case l.flags&leaseLive != 0:
			want = int64(l.expiry)
			live++
			found := false
			for at := m.leaseChain(&l.id); at != 0; at = m.leases.Get(at).chain {
				found = found || at == h
			}
			if !found {
				return fmt.Errorf("live lease record %d is not in its chain", h)
			}
		case l.notBefore != 0:
			want = int64(l.notBefore)
		}
		if timed != (want != 0) || due != want {
			return fmt.Errorf("lease record %d: timer %v at %d, want %d", h, timed, due, want)
		}
	}
	if live != m.liveLeases {
		return fmt.Errorf("%d live leases, counted %d", live, m.liveLeases)
	}
	if format.Mono(0) > m.t {
		return fmt.Errorf("T is negative")
	}
	return nil
}
