package clock

import (
	"sync"
	"time"
)

// Real returns the system's clock. Its mono time starts near zero at this call.
func Real() Clock { return &realClock{start: time.Now()} }

type realClock struct {
	start time.Time // carries the runtime's monotonic reading
}

func (c *realClock) Now() int64  { return time.Now().UnixMicro() }
func (c *realClock) Mono() int64 { return time.Since(c.start).Microseconds() }

func (c *realClock) NewTimer(d time.Duration) Timer {
	t := &realTimer{c: make(chan struct{}, 1)}
	t.fire = func() { t.c <- struct{}{} }
	t.arm(d)
	return t
}

func (c *realClock) AfterFunc(d time.Duration, f func()) Timer {
	t := &realTimer{fire: f}
	t.arm(d)
	return t
}

// realTimer wraps time.AfterFunc with a generation, because a system timer's function may already be running when
// Stop is called: what runs for an old generation does nothing, and this is decided under the lock.
type realTimer struct {
	c    chan struct{} // nil for AfterFunc
	fire func()

	mu    sync.Mutex
	gen   uint64
	armed bool
	t     *time.Timer
}

func (t *realTimer) C() <-chan struct{} { return t.c }

func (t *realTimer) arm(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.armLocked(d)
}

func (t *realTimer) armLocked(d time.Duration) {
	t.gen++
	t.armed = true
	gen := t.gen
	t.t = time.AfterFunc(d, func() { t.run(gen) })
}

func (t *realTimer) run(gen uint64) {
	t.mu.Lock()
	if !t.armed || t.gen != gen {
		t.mu.Unlock()
		return
	}
	t.armed = false
	if t.c != nil {
		t.fire() // cannot block: the channel has room for the one value of this arming
		t.mu.Unlock()
		return
	}
	t.mu.Unlock()
	t.fire()
}

func (t *realTimer) Stop() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stopLocked()
}

func (t *realTimer) stopLocked() bool {
	was := t.armed
	t.armed = false
	t.t.Stop()
	return was
}

func (t *realTimer) Reset(d time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.stopLocked()
	if t.c != nil {
		select {
		case <-t.c:
		default:
		}
	}
	t.armLocked(d)
	return was
}
