package ephemeral

import "fmt"

// checkStore walks everything and checks what the INVARIANT lines of this package promise.
func checkStore(s *Store) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	total, queues, parked := int64(0), 0, 0
	for id, t := range s.tenants {
		if t.id != id || len(t.queues) == 0 {
			return fmt.Errorf("tenant %s is kept for nothing", id)
		}
		for name, q := range t.queues {
			if q.name != name || q.tenant != t {
				return fmt.Errorf("queue %q is filed wrongly", name)
			}
			bytes, err := checkQueue(s, q)
			if err != nil {
				return fmt.Errorf("queue %q: %w", name, err)
			}
			total += bytes
			queues++
			parked += q.parked
		}
	}
	if total != s.bytes || queues != s.queues || parked != s.parked {
		return fmt.Errorf("%d bytes, %d queues, %d parked; counted %d, %d, %d", total, queues, parked, s.bytes, s.queues, s.parked)
	}
	for i, n := range s.due.items {
		if n.at != i+1 || i > 0 && s.due.items[(i-1)/2].key > n.key {
			return fmt.Errorf("due heap broken at %d", i)
		}
	}
	for _, err := range []error{checkOrder(&s.idleQueues), checkOrder(&s.idleParts), checkOrder(&s.idleGroups), checkOrder(&s.idlePins)} {
		if err != nil {
			return err
		}
	}
	if at, ok := s.nextDue(); ok && !s.closed && (s.armed == 0 || s.armed > at) {
		return fmt.Errorf("something is due at %d, the timer is armed for %d", at, s.armed)
	}
	return nil
}

func checkOrder[T any](l *list[T]) error {
	n := 0
	for e := l.front; e != nil; e = e.next {
		if n++; e.next != nil && e.next.when < e.when || e.next == nil && l.back != e {
			return fmt.Errorf("an idle list is out of order, or ends elsewhere")
		}
	}
	if n != l.n {
		return fmt.Errorf("a list of %d counts %d", n, l.n)
	}
	return nil
}

func checkQueue(s *Store, q *queue) (bytes int64, err error) {
	bytes = queueCost + int64(len(q.name)) + int64(q.parked)*waiterCost
	depth, payload, parked := int64(0), int64(0), 0
	for m, last := q.oldest, (*message)(nil); m != nil || last != q.newest; last, m = m, m.newer {
		if m == nil || m.older != last || last != nil && last.at > m.at || m.part.queue != q || q.parts[m.part.name] != m.part {
			return 0, fmt.Errorf("messages are out of order")
		}
		depth++
		payload += int64(len(m.payload))
		bytes += m.cost()
	}
	for name, p := range q.parts {
		bytes += partitionCost + int64(len(name)) + int64(len(p.cursors))*cursorCost
		if err := checkPart(p); err != nil {
			return 0, fmt.Errorf("partition %q: %w", name, err)
		}
	}
	for name, g := range q.groups {
		bytes += groupCost + int64(len(name))
		held, err := checkGroup(s, g)
		if err != nil {
			return 0, fmt.Errorf("group %q: %w", name, err)
		}
		bytes += int64(held) * deliveryCost
		parked += g.parked
	}
	if depth != q.depth || payload != q.bytes || parked != q.parked {
		return 0, fmt.Errorf("%d messages, %d bytes, %d parked; counted %d, %d, %d", depth, payload, parked, q.depth, q.bytes, q.parked)
	}
	if q.idle.in != (!q.declared && depth == 0 && parked == 0) {
		return 0, fmt.Errorf("idle %v with %d messages, %d parked", q.idle.in, depth, parked)
	}
	if q.ttl.in() != (q.oldest != nil && q.settings.TTLSeconds > 0) || q.ttl.in() && q.ttl.key != q.oldest.at+q.settings.ttl() {
		return 0, fmt.Errorf("age: %+v", q.ttl)
	}
	return bytes, nil
}

func checkPart(p *partition) error {
	count, bytes := int64(0), int64(0)
	for m, last := p.head, (*message)(nil); m != nil || last != p.tail; last, m = m, m.next {
		if m == nil || m.prev != last || last != nil && last.n >= m.n || m.n >= p.next || m.part != p {
			return fmt.Errorf("messages are out of order")
		}
		left := 0
		for _, c := range p.cursors {
			if c.held[m.n] != nil || c.next != nil && m.n >= c.next.n {
				left++
			}
		}
		if left != m.left || left == 0 && len(p.cursors) > 0 {
			return fmt.Errorf("message %d is wanted by %d of %d, counted %d", m.n, left, len(p.cursors), m.left)
		}
		count++
		bytes += int64(len(m.payload))
	}
	if count != p.count || bytes != p.bytes || !p.idle.in {
		return fmt.Errorf("%d messages of %d bytes, counted %d, %d; idle %v", count, bytes, p.count, p.bytes, p.idle.in)
	}
	return nil
}

func checkGroup(s *Store, g *group) (held int, err error) {
	ready, parked := int64(0), g.waiters.n
	for name, c := range g.cursors {
		found := false
		for _, o := range c.part.cursors {
			found = found || o == c
		}
		if c.group != g || c.part.name != name || g.queue.parts[name] != c.part || !found {
			return 0, fmt.Errorf("cursor on %q is filed wrongly", name)
		}
		behind, leased := int64(0), 0
		for m := c.next; m != nil; m = m.next {
			behind++
		}
		for n, d := range c.held {
			if d.m.n != n || d.gone || d.c != c || d.lease.in() == d.back.in() || d.m.part != c.part {
				return 0, fmt.Errorf("delivery %d of %q: leased %v, waits %v, gone %v", n, name, d.lease.in(), d.back.in(), d.gone)
			}
			if d.lease.in() {
				leased++
			}
		}
		if behind != c.behind || leased != c.leased || len(c.held)-leased != len(c.again.items) || c.place.in != (c.ready() > 0) {
			return 0, fmt.Errorf("cursor on %q: %d behind, %d leased; counted %d, %d; ready %v", name, behind, leased, c.behind,
				c.leased, c.place.in)
		}
		if c.idle.in != (!g.all && c.waiters.n == 0) {
			return 0, fmt.Errorf("cursor on %q is idle: %v", name, c.idle.in)
		}
		ready += c.ready()
		parked += c.waiters.n
		held += len(c.held)
	}
	if ready != g.ready || parked != g.parked || g.idle.in != (g.all && parked == 0) {
		return 0, fmt.Errorf("%d ready, %d parked; counted %d, %d; idle %v", ready, parked, g.ready, g.parked, g.idle.in)
	}
	if ready > 0 && g.waiters.n > 0 && g.queue.settings.Window.Millis == 0 && s.roomToDeliver() {
		return 0, fmt.Errorf("%d are ready and %d wait", ready, g.waiters.n)
	}
	if g.all && len(g.cursors) != len(g.queue.parts) || len(g.cursors) == 0 && !g.all {
		return 0, fmt.Errorf("%d cursors on %d partitions", len(g.cursors), len(g.queue.parts))
	}
	return held, nil
}
