package enginetest

import (
	"queen/engine/format"
)

// reveal lets through what delay and window held back. A window holds everything until the partition
// has been quiet for N seconds or its oldest hidden message has waited 10 N (S-vis-2, S-vis-3); a
// delay holds each message for its time. Both holds apply and the later one decides (S-cfg-9).
func (s *state) reveal(p *part) {
	n, delay := p.q.opts.WindowBuffer, seconds(p.q.opts.DelayedProcessing)
	for p.revealed < p.end() {
		first := p.msgs[p.revealed].rec.CreatedAt
		if n > 0 && s.w < min(p.lastWrite+seconds(n), first+seconds(10*n)) {
			return
		}
		if s.w < first+delay {
			return
		}
		p.revealed++
		for p.revealed < p.end() && s.w >= p.msgs[p.revealed].rec.CreatedAt+delay {
			p.revealed++
		}
	}
}

// revealDue is when the first hidden message of p comes through.
func (p *part) revealDue() format.Wall {
	first := p.msgs[p.revealed].rec.CreatedAt
	due := first + seconds(p.q.opts.DelayedProcessing)
	if n := p.q.opts.WindowBuffer; n > 0 {
		due = max(due, min(p.lastWrite+seconds(n), first+seconds(10*n)))
	}
	return due
}

// visible is one past the last offset that a pop may see: what is hidden is always a suffix. A longer
// delay applies to what is stored already (S-cfg-6); what a window let through stays so.
func (s *state) visible(p *part) format.Offset {
	s.reveal(p)
	end, delay := p.revealed, seconds(p.q.opts.DelayedProcessing)
	for end > p.start && s.w < p.msgs[end-1].rec.CreatedAt+delay {
		end--
	}
	return end
}

// expired says that a message's time to live is over (acts only where configured).
func (s *state) expired(p *part, o format.Offset) bool {
	opts := &p.q.opts
	return opts.Set&format.OptTTL != 0 && opts.TTL > 0 && s.w >= p.msgs[o].rec.CreatedAt+seconds(opts.TTL)
}

// passes says that a group is not handed a message that is there: its time to live is over, or it is another group's.
func (s *state) passes(g *group, p *part, o format.Offset) bool {
	only := p.msgs[o].only
	return s.expired(p, o) || only != "" && only != g.name
}

// live is the lease that blocks (p, g) now, nil when none does.
func (s *state) live(c *cursor) *lease {
	if c.lease != nil && s.t >= c.lease.expiry {
		c.lease = nil
		s.stats.Expired++
	}
	return c.lease
}

// span is what a pop of g could claim on p now: [from, to), empty when nothing. Messages that the group
// passes lead nowhere: from is the first that it does not.
func (s *state) span(g *group, p *part) (from, to format.Offset) {
	c := g.cursor(p)
	if s.live(c) != nil || s.t < c.backoff {
		return 0, 0
	}
	from, to = g.next(p), s.visible(p)
	for from < to && s.passes(g, p, from) {
		from++
	}
	if from >= to {
		return 0, 0
	}
	return from, to
}

// refresh notes since when each (partition, group) of a queue is claimable (S-pop-10). It runs
// before and after everything that can change it. exact is true after an operation that made a
// partition claimable by itself: then the order of two such moments is known.
func (s *state) refresh(q *queue, exact bool) {
	for _, g := range q.groups {
		for _, p := range q.parts {
			c := g.cursor(p)
			from, to := s.span(g, p)
			switch {
			case from == to:
				c.ready = 0
			case c.ready == 0:
				c.ready, c.exact, c.passed = s.tick(), exact && g.walked, 0
			}
		}
	}
}

func (s *state) refreshAll() {
	for _, q := range s.queues {
		s.refresh(q, false)
	}
}

// advance moves both clocks and notices what time alone made claimable or removed.
func (s *state) advance(t format.Mono, w format.Wall) {
	s.t, s.w = max(s.t, t), max(s.w, w)
	s.retain()
	s.kvSweep()
	s.fireDue()
	s.refreshAll()
}
