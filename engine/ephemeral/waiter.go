package ephemeral

import "time"

// waiter is one parked pop.
type waiter struct {
	number   uint64 // order of arrival
	group    *group
	only     *cursor // nil: any partition
	batch    int
	settles  bool
	deadline int64
	alive    func() bool
	answer   chan *Delivery // gets exactly one
	done     bool
	place    link[*waiter]
	due      node[any] // at the deadline, or when its window closes
}

func (w *waiter) ready() int64 {
	if w.only != nil {
		return w.only.ready()
	}
	return w.group.ready
}

// line is where w waits.
func (w *waiter) line() *list[*waiter] {
	if w.only != nil {
		return &w.only.waiters
	}
	return &w.group.waiters
}

// park queues a pop behind those that wait already.
func (s *Store) park(g *group, only *cursor, r *PopRequest) *waiter {
	s.waiters++
	w := &waiter{number: s.waiters, group: g, only: only, batch: r.Batch, settles: r.CommitOnDelivery,
		deadline: s.now + r.Wait.Microseconds(), alive: r.Alive, answer: make(chan *Delivery, 1)}
	w.place.of, w.due.of, w.due.rank = w, w, rankWaiter
	w.line().push(&w.place)
	s.parked++
	g.parked++
	g.queue.parked++
	s.charge(waiterCost)
	s.rest(g.queue)
	s.idleGroups.remove(&g.idle)
	if only != nil {
		s.idlePins.remove(&only.idle)
	}
	s.due.set(&w.due, s.windowEnd(w))
	return w
}

// finish answers a parked pop.
func (s *Store) finish(w *waiter, d *Delivery) {
	w.done = true
	w.line().remove(&w.place)
	s.due.remove(&w.due)
	s.parked--
	w.group.parked--
	w.group.queue.parked--
	s.charge(-waiterCost)
	s.polled(w.group, w.only)
	s.rest(w.group.queue)
	w.answer <- d // has room for the one answer
}

// windowEnd is when a parked pop has to be looked at: at its deadline, or when the window that its first ready message
// opened closes.
func (s *Store) windowEnd(w *waiter) int64 {
	window := w.group.queue.settings.window()
	if window == 0 || w.ready() == 0 {
		return w.deadline
	}
	since := w.group.since
	if w.only != nil {
		since = w.only.since
	}
	return min(w.deadline, since+window)
}

// enough reports whether a waiting pop is to be answered with what is ready.
func (s *Store) enough(g *group, only *cursor, batch int, since int64) bool {
	ready := g.ready
	if only != nil {
		ready = only.ready()
	}
	set := &g.queue.settings
	if ready == 0 || set.Window.Millis == 0 {
		return ready > 0
	}
	want := int64(batch)
	if set.Window.Count > 0 {
		want = min(want, set.Window.Count)
	}
	return ready >= want || s.now >= since+set.window()
}

// offer hands what a cursor has to the pops that wait for it, the longest waiting first, as many as there is something
// for: nobody is woken to find nothing (S-poll, one per ready partition at least).
func (s *Store) offer(c *cursor) {
	for c.ready() > 0 {
		first, second := c.waiters.front, c.group.waiters.front
		if first != nil && second != nil && second.of.number < first.of.number {
			first, second = second, first
		}
		if !s.serve(first) && !s.serve(second) {
			return
		}
	}
}

// serve answers a parked pop if there is enough for it; false leaves it parked, or says that there is none.
func (s *Store) serve(e *link[*waiter]) bool {
	if e == nil {
		return false
	}
	w := e.of
	since := w.group.since
	if w.only != nil {
		since = w.only.since
	}
	if !s.enough(w.group, w.only, w.batch, since) {
		s.due.set(&w.due, s.windowEnd(w))
		return false
	}
	if w.alive != nil && !w.alive() {
		s.finish(w, nil) // nobody is there to read: the next one has it
		return true
	}
	d := s.take(w.group, w.only, w.batch, w.settles)
	if d == nil {
		return false // no memory to hand anything out
	}
	s.finish(w, d)
	return true
}

// waiterDue is the deadline of a parked pop, or the end of its window.
func (s *Store) waiterDue(w *waiter) {
	switch {
	case s.now >= w.deadline && w.ready() > 0 && (w.alive == nil || w.alive()):
		s.finish(w, s.take(w.group, w.only, w.batch, w.settles))
	case s.now >= w.deadline:
		s.finish(w, nil)
	case !s.serve(&w.place):
		// The window is over, so it is memory that is short: somebody has to ack first.
		s.due.set(&w.due, min(w.deadline, max(s.windowEnd(w), s.now+shortOfMemory)))
	}
}

// shortOfMemory is how long a parked pop waits that could not be answered for want of memory, microseconds.
const shortOfMemory = 10_000

// polled notes that a group was here.
func (s *Store) polled(g *group, only *cursor) {
	if g.all {
		if g.parked == 0 {
			s.idleGroups.touch(&g.idle, s.now)
		}
		return
	}
	if only != nil && only.waiters.n == 0 {
		s.idlePins.touch(&only.idle, s.now)
	}
}

const idleMicros = int64(IdleAfter / time.Microsecond)
