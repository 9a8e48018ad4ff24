package clock

import (
	"time"
)

// Clock tells the time and waits.
type Clock interface {
	// Now is the wall time in microseconds since 1970-01-01 UTC. It may jump in either direction.
	Now() int64

	// Mono is the time since an arbitrary start in microseconds. It never falls and does not know about wall jumps;
	// it does not count time during which the machine is suspended.
	Mono() int64

	// NewTimer returns a timer that sends once on its channel when d of mono time has passed; at once if d <= 0.
	NewTimer(d time.Duration) Timer

	// AfterFunc runs f once when d of mono time has passed: in its own goroutine on Real, inside the advancing call
	// on Fake. The returned timer's channel is nil.
	AfterFunc(d time.Duration, f func()) Timer
}

// Timer is one armed wait. Timers that are no longer needed are stopped, so that a fake clock's count of armed
// timers means something.
type Timer interface {
	// C receives one value when the timer fires. It is never closed.
	C() <-chan struct{}

	// Stop disarms the timer. It returns false if it had fired or was stopped before. After Stop nothing arrives on
	// C that was not there before.
	Stop() bool

	// Reset arms the timer anew for d from now, dropping a fired value that nobody took. It returns what Stop would
	// have.
	Reset(d time.Duration) bool
}
