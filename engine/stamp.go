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
	// votersEvery is how often the voters' clocks are asked for at most; a tenth of it while they are not known.
	votersEvery = 1e6
	// sureMicros is how far ahead of W a clock may be that is not worth a wait for others'.
	sureMicros = 1e6
)

// stamper makes the two stamps of an entry (engine design section 4). T is the state's T plus
// monotonic time; W runs at monotonic rate, slewed by at most 5 % towards the wall clock, jumps
// forward only after the wall has been more than 60 s ahead for 60 s, and never falls.
//
// In a cluster a node's own clock does not make W jump: whoever leads stamps for all, and a clock that is a day ahead would
// end what others keep for twelve hours. Where it is off by more than 60 s the median of the voters' clocks is the
// wall, and W jumps when that is ahead too. While it is not known W runs at monotonic rate.
type stamper struct {
	clock  clock.Clock
	voters func() (format.Wall, bool) // the median of the voters' clocks, if it is known; nil for a single node

	mu struct {
		sync.Mutex
		mono       int64 // reading at the last stamp
		t          format.Mono
		w          format.Wall
		aheadSince int64 // mono reading since which the wall is more than a step ahead; 0 when it is not
		behind     bool
		asked      int64 // mono reading at which the voters' clocks were asked for; 0 before the first time
		offset     int64 // of the median from mono, if known
		known      bool
		taken      int64 // mono reading at the last entry of another node; 0 before the first
		fuse       uint64
		epoch      format.Term
	}
}

// newStamper continues from the state's stamps. W starts at the wall clock if that is later, in a cluster that has a history
// where it was. voters is nil for a single node.
func newStamper(c clock.Clock, t format.Mono, w format.Wall, voters func() (format.Wall, bool)) *stamper {
	s := &stamper{clock: c, voters: voters}
	s.mu.mono = c.Mono()
	s.mu.t, s.mu.w = t, w
	if voters == nil || w == 0 {
		s.mu.w = max(w, format.Wall(c.Now()))
	}
	return s
}

// unsure reports that take would take the voters' clocks for the wall, and they are not known: this node's own is ahead of
// what it last followed, and that was a while ago.
func (s *stamper) unsure(w format.Wall) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance()
	if s.voters == nil || w == 0 || !s.strayed() || s.clock.Now()-int64(max(w, s.mu.w)) < sureMicros {
		return false
	}
	_, known := s.median()
	return !known
}

// strayed reports that no other node was followed lately.
func (s *stamper) strayed() bool { return s.mu.taken == 0 || s.mu.mono-s.mu.taken > stepMicros }

// take continues from the stamps of the newest entry of another node. W goes on at the rate of this node's clock
// if it was followed until lately, else it is the wall clock's if that is later: in a cluster the voters' if it is known, and
// where it is not W does not jump.
func (s *stamper) take(t format.Mono, w format.Wall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance()
	wall, known := format.Wall(s.clock.Now()), true
	if s.voters != nil && w != 0 {
		wall, known = s.median()
	}
	if w = max(w, s.mu.w); known && s.strayed() {
		w = max(w, wall)
	}
	s.mu.t, s.mu.w = t, w
}

// median is that of the voters' clocks now.
func (s *stamper) median() (wall format.Wall, known bool) {
	every := int64(votersEvery)
	if !s.mu.known {
		every /= 10
	}
	if s.mu.asked == 0 || s.mu.mono-s.mu.asked >= every {
		wall, known = s.voters()
		s.mu.asked, s.mu.offset, s.mu.known = max(s.mu.mono, 1), int64(wall)-s.mu.mono, known
	}
	return format.Wall(s.mu.mono + s.mu.offset), s.mu.known
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
	case s.mu.aheadSince != 0 && s.voters != nil && s.mu.known:
		return "the wall clock is ahead of those of the other nodes by more than a minute; not followed"
	case s.mu.aheadSince != 0 && s.voters != nil:
		return "the wall clock stepped ahead by more than a minute; followed once the other nodes' clocks are known to agree"
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
	if s.voters != nil && (diff > stepMicros || s.mu.behind) {
		s.advanceBy(dm, diff > stepMicros)
		return
	}
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

// advanceBy is advance by the voters' clocks, this node's own being ahead of W, or behind it, by more than a step.
func (s *stamper) advanceBy(dm int64, ahead bool) {
	switch {
	case !ahead:
		s.mu.aheadSince = 0
	case s.mu.aheadSince == 0:
		s.mu.aheadSince = max(s.mu.mono, 1)
	}
	diff, slew := int64(0), dm/slewPart
	if wall, known := s.median(); known {
		diff = int64(wall-s.mu.w) - dm
	}
	if diff > stepMicros { // they agree
		s.mu.aheadSince, slew = 0, diff
	}
	s.mu.w += format.Wall(dm + min(max(diff, -slew), slew))
}
