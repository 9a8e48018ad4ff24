package lossyfs

import (
	"sync"
	"time"
)

// stall holds up flushes, as a disk does that is busy with something else.
type stall struct {
	mu    sync.Mutex
	delay time.Duration
	over  chan struct{} // closed when the delay ends
	held  int           // flushes held up since the delay was set
	first time.Time     // when the first of them came
	most  time.Duration // how long it was held, once that is known
}

// wait holds a flush up for as long as the delay says, or until it ends.
func (s *stall) wait() {
	s.mu.Lock()
	d, over := s.delay, s.over
	if d == 0 {
		s.mu.Unlock()
		return
	}
	if s.held++; s.held == 1 {
		s.first = time.Now()
	}
	s.mu.Unlock()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-over:
	}
}

// end lets go what is held up.
func (s *stall) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked()
}

func (s *stall) endLocked() {
	if s.delay == 0 {
		return
	}
	if s.held > 0 {
		s.most = min(time.Since(s.first), s.delay)
	}
	s.delay = 0
	close(s.over)
}

// set begins a new delay, 0 is none, and says what the one before held up.
func (s *stall) set(d time.Duration) (held int, longest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked()
	held, longest = s.held, s.most
	s.held, s.most = 0, 0
	if s.delay = d; d > 0 {
		s.over = make(chan struct{})
	}
	return held, longest
}
