package engine

import (
	"sync"

	"queen/engine/clock"
	"queen/engine/format"
)

const (
	// stepMicros is the wall clock step above which W does not follow at once.
	stepMicros = 60e6
	// slewPart bounds how much faster or slower than monotonic time W runs: one part in slewPart.
	slewPart = 20
)

// stamper makes the two stamps of an entry (engine design section 4). T is the state's T plus
// monotonic time; W runs at monotonic rate, slewed by at most 5 % towards the wall clock, jumps
// forward only after the wall has been more than 60 s ahead for 60 s, and never falls.
type stamper struct {
	clock clock.Clock

	mu struct {
		sync.Mutex
		mono       int64 // reading at the last stamp
		t          format.Mono
		w          format.Wall
		aheadSince int64 // mono reading since which the wall is more than a step ahead; 0 when it is not
		behind     bool
		taken      int64 // mono reading at the last entry of another node; 0 before the first
		fuse       uint64
		epoch      format.Term
	}
}

// newStamper continues from the state's stamps; W starts at the wall clock if that is later.
func newStamper(c clock.Clock, t format.Mono, w format.Wall) *stamper {
	s := &stamper{clock: c}
	s.mu.mono = c.Mono()
	s.mu.t = t
	s.mu.w = max(w, format.Wall(c.Now()))
	return s
}

// take continues from the stamps of the newest entry of another node. W goes on at the rate of this node's clock
// if it was followed until lately, else it is the wall clock's if that is later.
func (s *stamper) take(t format.Mono, w format.Wall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance()
	if s.mu.taken == 0 || s.mu.mono-s.mu.taken > stepMicros {
		w = max(w, format.Wall(s.clock.Now()))
	} else {
		w = max(w, s.mu.w)
	}
	s.mu.t, s.mu.w = t, w
}

// follow takes over the stamps of an entry that another node proposed and apply accepted, so that this node's times are
// estimates of its leader's. One of an epoch that is not later than the newest this node has begun to lead changes nothing:
// this node's own stamps may be ahead of it.
func (s *stamper) follow(h format.EntryHeader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.Epoch <= s.mu.epoch {
		return
	}
	s.mu.mono = max(s.mu.mono, s.clock.Mono())
	s.mu.t, s.mu.w = h.T, h.W
	s.mu.taken = max(s.mu.mono, 1)
}

// lead starts an epoch: fuse numbers begin anew. It refuses one that is earlier than another that was started.
func (s *stamper) lead(epoch format.Term) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.epoch < epoch {
		s.mu.epoch, s.mu.fuse = epoch, 0
	}
	return s.mu.epoch == epoch
}

// next is the header of the next entry.
func (s *stamper) next() format.EntryHeader {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance()
	s.mu.fuse++
	return format.EntryHeader{Epoch: s.mu.epoch, T: s.mu.t, W: s.mu.w, Fuse: s.mu.fuse}
}

// now reads both clocks as the next entry would stamp them.
func (s *stamper) now() (format.Mono, format.Wall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance()
	return s.mu.t, s.mu.w
}

// nowFuse is the calendar time, and the number of the newest entry that may bear an earlier one.
func (s *stamper) nowFuse() (format.Wall, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance()
	return s.mu.w, s.mu.fuse
}

// step describes a wall clock that W does not follow, "" when there is none.
func (s *stamper) step() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance()
	switch {
	case s.mu.aheadSince != 0:
		return "the wall clock stepped ahead by more than a minute; followed once it has lasted a minute"
	case s.mu.behind:
		return "the wall clock is more than a minute behind the log's time; slewing"
	}
	return ""
}

func (s *stamper) advance() {
	mono := s.clock.Mono()
	dm := max(mono-s.mu.mono, 0)
	s.mu.mono += dm
	s.mu.t += format.Mono(dm)
	diff := s.clock.Now() - (int64(s.mu.w) + dm)
	s.mu.behind = diff < -stepMicros
	switch {
	case diff > stepMicros && s.mu.aheadSince == 0:
		s.mu.aheadSince = mono
	case diff > stepMicros && mono-s.mu.aheadSince >= stepMicros:
		s.mu.w += format.Wall(dm + diff)
		s.mu.aheadSince = 0
		return
	case diff <= stepMicros:
		s.mu.aheadSince = 0
	}
	slew := dm / slewPart
	s.mu.w += format.Wall(dm + min(max(diff, -slew), slew))
}
