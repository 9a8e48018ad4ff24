// Package clock is the seam through which the engine sees time and randomness: nothing else under engine/ asks the
// system for either.
//
// There are two times. Wall time (Clock.Now) is what a calendar says: it may jump, also backwards, and is data:
// stamps, retention, delays. Mono time (Clock.Mono) only measures how long something took: it never jumps and means
// nothing outside this process. Both are int64 microseconds. All waiting (NewTimer, AfterFunc) follows mono time,
// so that a wall jump fires nothing.
//
// Real is the system's clock. Fake moves only when told, fires timers inside the call that moves it, in the order
// of their due times, and lets a test wait until timers are armed, so that no test needs to sleep. Rand is the
// source of random bytes: the system's (RealRand) or a seeded stream (NewFakeRand).
//
// It deliberately has no tickers, no time zones and no formatting.
//
// Concurrency: everything here may be used by several goroutines at once.
//
// Read Clock and Timer (clock.go) first, then Fake (fake.go).
package clock
