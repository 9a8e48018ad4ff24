package groups

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"queen/engine/clock"
)

// timer calls fn once its time has come. It may be set again at any time, also by fn.
type timer struct {
	at    int64 // monotonic microseconds
	index int   // in the heap, -1 outside
	fn    func()
}

func newTimer(fn func()) *timer { return &timer{index: -1, fn: fn} }

// timers is a heap of what has to happen, by time.
type timers struct {
	clock clock.Clock
	mu    sync.Mutex
	due   timerHeap
	// wake is told when the first timer changes.
	wake chan struct{}
}

func newTimers(c clock.Clock) *timers { return &timers{clock: c, wake: make(chan struct{}, 1)} }

// set makes t fire after d.
func (s *timers) set(t *timer, d time.Duration) { s.setAt(t, s.clock.Mono()+d.Microseconds()) }

func (s *timers) setAt(t *timer, at int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
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

// stop keeps t from firing, unless it is about to.
func (s *timers) stop(t *timer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.index >= 0 {
		heap.Remove(&s.due, t.index)
	}
}

// pop takes out the first timer that is due.
func (s *timers) pop() *timer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.due) == 0 || s.due[0].at > s.clock.Mono() {
		return nil
	}
	return heap.Pop(&s.due).(*timer)
}

// fire calls what is due.
func (s *timers) fire() {
	for t := s.pop(); t != nil; t = s.pop() {
		t.fn()
	}
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

// run fires timers until ctx ends.
func (s *timers) run(ctx context.Context) {
	t := s.clock.NewTimer(s.untilNext())
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C():
		case <-s.wake:
		}
		s.fire()
		t.Reset(s.untilNext())
	}
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
