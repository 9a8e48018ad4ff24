package enginetest

import "queen/engine/format"

// retain removes what retention may remove now. The model does it at once; an engine may be late
// (S-ret-5), never early (S-ret-7).
func (s *state) retain() {
	if s.lazyRetention {
		return
	}
	for _, q := range s.queues {
		for _, p := range q.parts {
			if to := s.removable(p); to > p.start {
				s.trim(p, to)
			}
		}
	}
}

func (s *state) trim(p *part, to format.Offset) {
	p.start = to
	p.revealed = max(p.revealed, to)
	s.note(p)
}

// removable is the log start that the options allow: everything older than the cutoffs is below it.
func (s *state) removable(p *part) format.Offset {
	o := &p.q.opts
	start := p.start
	if o.RetentionEnabled && o.RetentionSeconds > 0 { // S-ret-2
		start = max(start, p.firstAt(s.w-seconds(o.RetentionSeconds)))
	}
	if o.MaxWaitTimeSeconds > 0 { // S-ret-4
		start = max(start, p.firstAt(s.w-seconds(o.MaxWaitTimeSeconds)))
	}
	if o.Set&format.OptTTL != 0 && o.TTL > 0 {
		start = max(start, p.firstAt(s.w-seconds(o.TTL)))
	}
	if o.RetentionEnabled && o.CompletedRetentionSeconds > 0 && len(p.q.groups) > 0 { // S-ret-3
		to := p.firstAt(s.w - seconds(o.CompletedRetentionSeconds))
		for _, g := range p.q.groups {
			to = min(to, g.next(p))
		}
		for to > start && to < p.end() && p.msgs[to].frame == p.msgs[to-1].frame {
			to-- // whole pushes only (S-ret-7)
		}
		start = max(start, to)
	}
	return start
}
