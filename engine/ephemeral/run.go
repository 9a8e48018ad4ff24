package ephemeral

import "time"

// run does what is due: leases that ended, messages that are too old, pops whose time is over, and what was idle for
// long enough. It is called first in every call and by the timer, and does nothing twice.
func (s *Store) run() {
	s.runDue()
	s.runIdle()
}

// What falls due in the same microsecond is taken in this order: leases end, then messages are too old, then pops end.
const (
	rankAge    = 1
	rankWaiter = 2
)

// runDue ends leases and ages first, offers what came back next, and looks at parked pops last: a pop whose time ends at
// the same moment still gets it.
func (s *Store) runDue() {
	var pops []*waiter
	var back []turn
	for first := s.due.first(); first != nil && first.key <= s.now; first = s.due.first() {
		switch of := first.of.(type) {
		case *delivery:
			s.leaseEnd(of)
			if of.settles {
				s.settle(of)
				break
			}
			s.fail(of)
			back = append(back, turn{d: of})
		case *queue:
			for of.oldest != nil && of.oldest.at+of.settings.ttl() <= s.now {
				s.dropOldest(of, true)
			}
		case *waiter:
			s.due.remove(first)
			pops = append(pops, of)
		}
	}
	s.wakeAll(back)
	for _, w := range pops {
		if !w.done {
			s.waiterDue(w)
		}
	}
}

// runIdle forgets what was idle for IdleAfter.
func (s *Store) runIdle() {
	for e := s.idleQueues.front; e != nil && e.when+idleMicros <= s.now; e = s.idleQueues.front {
		s.dropQueue(e.of)
		s.counts.Collected++
	}
	for e := s.idlePins.front; e != nil && e.when+idleMicros <= s.now; e = s.idlePins.front {
		s.pinIdle(e.of)
	}
	for e := s.idleGroups.front; e != nil && e.when+idleMicros <= s.now; e = s.idleGroups.front {
		s.groupIdle(e.of)
	}
	for e := s.idleParts.front; e != nil && e.when+idleMicros <= s.now; e = s.idleParts.front {
		s.partIdle(e.of)
	}
}

// pinIdle forgets where a group is on a partition that it named and no longer polls.
func (s *Store) pinIdle(c *cursor) {
	if c.waiters.n > 0 || c.leased > 0 {
		s.idlePins.touch(&c.idle, s.now)
		return
	}
	g := c.group
	s.dropCursor(c)
	if len(g.cursors) == 0 {
		s.dropGroup(g)
	}
}

// groupIdle forgets a group that nobody polls: what only it wanted would be kept for ever.
func (s *Store) groupIdle(g *group) {
	busy := g.parked > 0
	for _, c := range g.cursors {
		busy = busy || c.leased > 0
	}
	if busy {
		s.idleGroups.touch(&g.idle, s.now)
		return
	}
	s.dropGroup(g)
}

// partIdle forgets a partition that is empty and that no group named.
func (s *Store) partIdle(p *partition) {
	busy := p.count > 0
	for _, c := range p.cursors {
		busy = busy || !c.group.all || c.waiters.n > 0
	}
	if busy {
		s.idleParts.touch(&p.idle, s.now)
		return
	}
	s.dropPartition(p)
}

// reclaim forgets idle implicit queues before their time, the longest idle first, until need bytes fit below limit.
func (s *Store) reclaim(need, limit int64) bool {
	for s.bytes+need > limit && s.idleQueues.front != nil {
		s.dropQueue(s.idleQueues.front.of)
		s.counts.Collected++
	}
	return s.bytes+need <= limit
}

// next is when something falls due; false when nothing ever does.
func (s *Store) nextDue() (at int64, ok bool) {
	at = 1<<63 - 1
	if first := s.due.first(); first != nil {
		at, ok = first.key, true
	}
	idle := func(in bool, when int64) {
		if in {
			at, ok = min(at, when+idleMicros), true
		}
	}
	if e := s.idleQueues.front; e != nil {
		idle(true, e.when)
	}
	if e := s.idleParts.front; e != nil {
		idle(true, e.when)
	}
	if e := s.idleGroups.front; e != nil {
		idle(true, e.when)
	}
	if e := s.idlePins.front; e != nil {
		idle(true, e.when)
	}
	return at, ok
}

// arm sets the one timer to what falls due next. One that is armed for earlier is left: it fires, finds nothing and is
// set anew, which is cheaper than moving it at every ack.
func (s *Store) arm() {
	at, ok := s.nextDue()
	if !ok || s.closed || s.armed != 0 && s.armed <= at {
		return
	}
	s.armed = at
	wait := time.Duration(max(at-s.now, 1)) * time.Microsecond
	if s.timer == nil {
		s.timer = s.o.Clock.AfterFunc(wait, s.fire)
		return
	}
	s.timer.Reset(wait)
}

// fire is the timer's function.
func (s *Store) fire() {
	s.mu.Lock()
	s.armed = 0
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.now = s.o.Clock.Mono()
	s.run()
	s.end()
}
