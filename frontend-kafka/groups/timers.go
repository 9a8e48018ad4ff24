package groups

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"queen/engine/clock"
)

// timer calls fn once its time has come. It may be set again at any time, also by fn. Its fields are guarded by timers.mu.
type timer struct {
	at    int64 // monotonic microseconds
	index int   // in the heap, -1 outside
	due   bool  // taken out of the heap, and neither called, set nor stopped since
	lane  *lane
	fn    func()
}

// lane calls the timers of one group that are due, one after the other. Groups have lanes of their own, so that one whose
// row takes long to write delays nobody's sessions but its own. Guarded by timers.mu.
type lane struct {
	due     []*timer
	running bool
}

// timers is a heap of what has to happen, by time.
type timers struct {
	clock clock.Clock
	mu    sync.Mutex
	due   timerHeap
	ended bool
	// wake is told when the first timer changes.
	wake chan struct{}
}

func newTimers(c clock.Clock) *timers { return &timers{clock: c, wake: make(chan struct{}, 1)} }

// set makes t fire after d.
func (s *timers) set(t *timer, d time.Duration) { s.setAt(t, s.clock.Mono()+d.Microseconds()) }

func (s *timers) setAt(t *timer, at int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setLocked(t, at)
}

// notAfter makes t fire at a time, unless it fires before.
func (s *timers) notAfter(t *timer, at int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.index < 0 || t.at > at {
		s.setLocked(t, at)
	}
}

func (s *timers) setLocked(t *timer, at int64) {
	t.due = false
	if t.at = at; t.index >= 0 {
		heap.Fix(&s.due, t.index)
	} else {
		heap.Push(&s.due, t)
	}
	if s.due[0] == t {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// stop keeps t from firing.
func (s *timers) stop(t *timer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.due = false; t.index >= 0 {
		heap.Remove(&s.due, t.index)
	}
}

// claim tells whether t is still to be called, which it then is not any more.
func (s *timers) claim(t *timer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := t.due
	t.due = false
	return was
}

// pop puts the first timer that is due into its lane. It returns the lane if nobody empties it yet; false when nothing is due.
func (s *timers) pop() (idle *lane, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.due) == 0 || s.due[0].at > s.clock.Mono() {
		return nil, false
	}
	t := heap.Pop(&s.due).(*timer)
	t.due = true
	l := t.lane
	if l.due = append(l.due, t); l.running {
		return nil, true
	}
	l.running = true
	return l, true
}

// fire calls what is due, each lane by way of spawn.
func (s *timers) fire(spawn func(func())) {
	for l, ok := s.pop(); ok; l, ok = s.pop() {
		if l != nil {
			spawn(func() { s.empty(l) })
		}
	}
}

// empty calls what waits in a lane.
func (s *timers) empty(l *lane) {
	for t := s.next(l); t != nil; t = s.next(l) {
		t.fn()
	}
}

func (s *timers) next(l *lane) *timer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(l.due) == 0 || s.ended {
		l.running = false
		return nil
	}
	t := l.due[0]
	l.due = l.due[1:]
	return t
}

// untilNext is how long nothing is due.
func (s *timers) untilNext() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.due) == 0 {
		return time.Hour
	}
	return time.Duration(max(s.due[0].at-s.clock.Mono(), 0)) * time.Microsecond
}

// run fires timers until ctx ends; it returns when none is being called any more.
func (s *timers) run(ctx context.Context) {
	var lanes sync.WaitGroup
	defer lanes.Wait()
	defer s.end()
	t := s.clock.NewTimer(s.untilNext())
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C():
		case <-s.wake:
		}
		s.fire(lanes.Go)
		t.Reset(s.untilNext())
	}
}

// end lets lanes call nothing further.
func (s *timers) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
}

type timerHeap []*timer

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *timerHeap) Push(x any) {
	t := x.(*timer)
	t.index = len(*h)
	*h = append(*h, t)
}

func (h *timerHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h, t.index = old[:len(old)-1], -1
	return t
}
