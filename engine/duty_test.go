package engine

import (
	"testing"
	"time"

	"queen/engine/clock"
)

// TestDuty: work rests in proportion to what it did, not for what it was idle, and not in a node that stops.
func TestDuty(t *testing.T) {
	fake := clock.NewFake(1)
	quit := make(chan struct{})
	d := duty{clock: fake, quit: quit, pause: 3}
	rest := func() <-chan struct{} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			d.rest()
		}()
		return done
	}
	fake.Advance(5 * time.Millisecond)
	<-rest() // not serving yet
	d.on.Store(true)
	fake.Advance(2 * dutyIdle)
	<-rest() // it was idle
	fake.Advance(dutyPiece / 2)
	<-rest() // too little
	fake.Advance(4*time.Millisecond - dutyPiece/2)
	rests := func(want time.Duration) {
		t.Helper()
		done := rest()
		fake.WaitArmed(1)
		if due, _ := fake.NextDue(); due-fake.Mono() != want.Microseconds() {
			t.Fatalf("rests for %d us, want %v", due-fake.Mono(), want)
		}
		fake.Advance(want)
		<-done
	}
	rests(12 * time.Millisecond)
	fake.Advance(dutyIdle - time.Microsecond)
	rests(3 * dutyLong) // a long piece counts as a short one
	d.before = new(duty)
	fake.Advance(4 * time.Millisecond)
	rests(12 * time.Millisecond) // nothing goes before it
	d.before.busy.Store(true)
	fake.Advance(4 * time.Millisecond)
	rests(dutyYield * 12 * time.Millisecond)
	fake.Advance(4 * time.Millisecond)
	done := rest()
	fake.WaitArmed(1)
	close(quit)
	<-done
}
