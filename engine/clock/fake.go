package clock

import (
	"slices"
	"sync"
	"time"
)

// Fake is a clock that stands still until a test moves it. Wall and mono time move separately, so that a test can
// stop a node for a day, let the wall jump, or slew it.
//
// Timers fire inside the call that advances mono time, one after the other in the order (due time, order of
// arming). While one fires the clock shows its due time, and what it arms or stops counts at once: a function that
// arms another timer within the same advance sees it fire in the same advance.
type Fake struct {
	mu     sync.Mutex
	armed  sync.Cond // a timer was armed
	wall   int64
	mono   int64
	seq    uint64
	timers []*fakeTimer // armed, sorted by (due, seq)
}

var _ Clock = (*Fake)(nil)

// NewFake returns a fake clock at this wall time (microseconds since 1970) and mono time 0.
func NewFake(wall int64) *Fake {
	f := &Fake{wall: wall}
	f.armed.L = &f.mu
	return f
}

// Now returns the wall time.
func (f *Fake) Now() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wall
}

// Mono returns the mono time.
func (f *Fake) Mono() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mono
}

// Advance moves both times by d and fires what becomes due. A negative d is refused with a panic: mono time never
// falls.
func (f *Fake) Advance(d time.Duration) { f.advance(d, true) }

// AdvanceMono moves only the mono time by d, as if the wall clock stood still, and fires what becomes due.
func (f *Fake) AdvanceMono(d time.Duration) { f.advance(d, false) }

// JumpWall moves only the wall time, in either direction. It fires nothing.
func (f *Fake) JumpWall(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wall += d.Microseconds()
}

// Armed returns how many timers are armed.
func (f *Fake) Armed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.timers)
}

// WaitArmed blocks until at least n timers are armed: the way for a test to know that the goroutines it started
// have reached their waits.
func (f *Fake) WaitArmed(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.timers) < n {
		f.armed.Wait()
	}
}

// NextDue returns the mono time at which the next timer fires, and whether there is one.
func (f *Fake) NextDue() (mono int64, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.timers) == 0 {
		return 0, false
	}
	return f.timers[0].due, true
}

// NewTimer arms a timer with a channel.
func (f *Fake) NewTimer(d time.Duration) Timer {
	return f.newTimer(&fakeTimer{clock: f, c: make(chan struct{}, 1)}, d)
}

// AfterFunc arms a timer that runs fn inside the advancing call, or inside this one if d <= 0.
func (f *Fake) AfterFunc(d time.Duration, fn func()) Timer {
	return f.newTimer(&fakeTimer{clock: f, fn: fn}, d)
}

func (f *Fake) newTimer(t *fakeTimer, d time.Duration) Timer {
	t.Reset(d)
	return t
}

func (f *Fake) advance(d time.Duration, wallToo bool) {
	if d < 0 {
		panic("clock: a fake clock's mono time can not fall")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	target := f.mono + d.Microseconds()
	for len(f.timers) > 0 && f.timers[0].due <= target {
		t := f.timers[0]
		f.moveTo(max(f.mono, t.due), wallToo)
		f.fireLocked(t)
	}
	f.moveTo(max(f.mono, target), wallToo)
}

func (f *Fake) moveTo(mono int64, wallToo bool) {
	if wallToo {
		f.wall += mono - f.mono
	}
	f.mono = mono
}

// fireLocked takes the timer out and fires it. A function runs without the lock, so that it may use the clock.
func (f *Fake) fireLocked(t *fakeTimer) {
	f.dropLocked(t)
	if t.fn == nil {
		t.c <- struct{}{} // has room: Reset drained it and one arming sends once
		return
	}
	f.mu.Unlock()
	defer f.mu.Lock()
	t.fn()
}

func (f *Fake) dropLocked(t *fakeTimer) bool {
	i := slices.Index(f.timers, t)
	if i < 0 {
		return false
	}
	f.timers = slices.Delete(f.timers, i, i+1)
	return true
}

type fakeTimer struct {
	clock *Fake
	c     chan struct{}
	fn    func()
	due   int64
	seq   uint64
}

func (t *fakeTimer) C() <-chan struct{} { return t.c }

func (t *fakeTimer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	return t.clock.dropLocked(t)
}

func (t *fakeTimer) Reset(d time.Duration) bool {
	f := t.clock
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.dropLocked(t)
	if t.c != nil {
		select {
		case <-t.c:
		default:
		}
	}
	f.seq++
	t.seq, t.due = f.seq, f.mono+max(0, d.Microseconds())
	at, _ := slices.BinarySearchFunc(f.timers, t, compareTimers)
	f.timers = slices.Insert(f.timers, at, t)
	f.armed.Broadcast()
	if d <= 0 {
		f.fireLocked(t)
	}
	return was
}

func compareTimers(a, b *fakeTimer) int {
	if a.due != b.due {
		if a.due < b.due {
			return -1
		}
		return 1
	}
	if a.seq < b.seq {
		return -1
	}
	return 1
}
