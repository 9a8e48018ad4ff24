package enginetest

import (
	"time"

	"queen/engine/clock"
	"queen/engine/format"
)

// W follows the wall clock at 0.95 to 1.05 of monotonic speed, never falls, and jumps ahead only to
// a wall that has been more than a minute ahead for a minute (engine design section 4; S-clk-2).
const (
	slewPart  = 20
	stepAhead = 60e6
)

// stamp turns a clock into the two times of the rules.
type stamp struct {
	mono  int64
	t     format.Mono
	w     int64
	ahead int64 // mono time since which the wall is a step ahead, -1 while it is not
}

func newStamp(c clock.Clock) stamp {
	return stamp{mono: c.Mono(), w: c.Now(), ahead: -1}
}

func (s *stamp) read(c clock.Clock) (format.Mono, format.Wall) {
	mono, wall := c.Mono(), c.Now()
	d := mono - s.mono
	s.mono = mono
	s.t += format.Mono(d)
	switch {
	case wall-s.w-d <= stepAhead:
		s.ahead = -1
	case s.ahead < 0:
		s.ahead = mono
	}
	if s.ahead >= 0 && mono-s.ahead >= stepAhead {
		s.w, s.ahead = wall, -1
		return s.t, format.Wall(s.w)
	}
	s.w = min(max(wall, s.w+d-d/slewPart), s.w+d+d/slewPart)
	return s.t, format.Wall(s.w)
}

// nextDue is how long until a lease, a back-off, a delay or a window ends. W may run a twentieth
// fast: what is due by it is looked at that much earlier, and again when that was too early.
func (s *state) nextDue() (time.Duration, bool) {
	best := int64(-1)
	at := func(d int64) {
		if d > 0 && (best < 0 || d < best) {
			best = d
		}
	}
	for _, q := range s.queues {
		delay := seconds(q.opts.DelayedProcessing)
		for _, p := range q.parts {
			if o := s.visible(p); o < p.revealed {
				at(int64(p.msgs[o].rec.CreatedAt + delay - s.w))
			} else if p.revealed < p.end() {
				at(int64(p.revealDue() - s.w))
			}
		}
		for _, g := range q.groups {
			for _, p := range q.parts {
				c := g.cursor(p)
				at(int64(c.backoff - s.t))
				if c.lease != nil {
					at(int64(c.lease.expiry - s.t))
				}
			}
		}
	}
	for _, row := range s.keyed.timers {
		if !row.paused {
			at(int64(row.due - s.w))
		}
	}
	for _, row := range s.keyed.kv {
		at(int64(row.expires - s.w))
	}
	if best < 0 {
		return 0, false
	}
	return time.Duration(max(best-best/slewPart, 1)) * time.Microsecond, true
}

// restart is what stopping and starting does to a clock of the log: W goes on from the wall clock if
// that is later (engine design section 4).
func (s *stamp) restart(c clock.Clock) {
	s.read(c)
	s.w, s.ahead = max(s.w, c.Now()), -1
}
