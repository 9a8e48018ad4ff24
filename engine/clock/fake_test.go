package clock_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"queen/engine/clock"
)

const start = int64(1_700_000_000_000_000)

func TestFakeMovesWallAndMonoApart(t *testing.T) {
	f := clock.NewFake(start)
	want := func(wall, mono int64) {
		t.Helper()
		if f.Now() != start+wall || f.Mono() != mono {
			t.Fatalf("wall %d, mono %d; want %d, %d", f.Now()-start, f.Mono(), wall, mono)
		}
	}
	want(0, 0)
	f.Advance(time.Millisecond)
	want(1000, 1000)
	f.AdvanceMono(time.Millisecond)
	want(1000, 2000)
	f.JumpWall(-time.Second)
	want(-999_000, 2000)
	f.JumpWall(time.Hour)
	want(-999_000+3_600_000_000, 2000)
	defer func() {
		if recover() == nil {
			t.Error("mono time fell")
		}
	}()
	f.Advance(-1)
}

// Timers fire in the order of (due, arming), at their due times, including those armed by a firing function, and a
// wall jump fires none.
func TestFakeFiresInOrder(t *testing.T) {
	f := clock.NewFake(start)
	var fired []string
	note := func(name string) func() {
		return func() { fired = append(fired, fmt.Sprintf("%s@%d/%d", name, f.Mono(), f.Now()-start)) }
	}
	f.AfterFunc(30*time.Microsecond, note("c"))
	f.AfterFunc(10*time.Microsecond, note("a"))
	f.AfterFunc(30*time.Microsecond, note("d"))
	f.AfterFunc(20*time.Microsecond, func() {
		note("b")()
		f.AfterFunc(5*time.Microsecond, note("b+5"))
		f.AfterFunc(0, note("b+0"))
		f.AfterFunc(100*time.Microsecond, note("late"))
	})
	stopped := f.AfterFunc(15*time.Microsecond, note("stopped"))
	f.JumpWall(time.Hour)
	f.JumpWall(-time.Hour)
	if len(fired) != 0 || f.Armed() != 5 {
		t.Fatalf("fired %v, %d armed", fired, f.Armed())
	}
	if !stopped.Stop() || stopped.Stop() {
		t.Error("Stop must say true once")
	}
	if due, ok := f.NextDue(); !ok || due != 10 {
		t.Errorf("next due %d %v", due, ok)
	}
	f.Advance(40 * time.Microsecond)
	want := []string{"a@10/10", "b@20/20", "b+0@20/20", "b+5@25/25", "c@30/30", "d@30/30"}
	if !slices.Equal(fired, want) {
		t.Errorf("fired %v, want %v", fired, want)
	}
	if f.Armed() != 1 || f.Mono() != 40 {
		t.Errorf("%d armed at %d", f.Armed(), f.Mono())
	}
}

// A firing function that stops another timer due at the same moment wins.
func TestFakeStopDuringFire(t *testing.T) {
	f := clock.NewFake(start)
	var second clock.Timer
	f.AfterFunc(time.Millisecond, func() { second.Stop() })
	second = f.AfterFunc(time.Millisecond, func() { t.Error("a stopped timer fired") })
	f.Advance(time.Second)
	if _, ok := f.NextDue(); ok {
		t.Error("something is armed")
	}
}

// The same timer behaviour on both clocks, as far as it does not depend on how long anything takes.
func TestTimers(t *testing.T) {
	fake := clock.NewFake(start)
	for name, c := range map[string]struct {
		clock clock.Clock
		pass  func() // lets due timers fire; on the real clock receiving waits for it
	}{
		"fake": {fake, func() { fake.Advance(time.Millisecond) }},
		"real": {clock.Real(), func() {}},
	} {
		t.Run(name, func(t *testing.T) {
			timer := c.clock.NewTimer(time.Microsecond)
			c.pass()
			<-timer.C()
			if timer.Stop() {
				t.Error("Stop of a fired timer says true")
			}
			if timer.Reset(time.Hour) {
				t.Error("Reset of a fired timer says true")
			}
			if !timer.Reset(0) {
				t.Error("Reset of an armed timer says false")
			}
			c.pass()
			<-timer.C()
			timer.Reset(time.Hour)
			if !timer.Stop() || timer.Stop() {
				t.Error("Stop must say true once")
			}
			select {
			case <-timer.C():
				t.Error("a stopped timer sent")
			default:
			}
			done := make(chan struct{})
			after := c.clock.AfterFunc(0, func() { close(done) })
			<-done
			if after.Stop() || after.C() != nil {
				t.Error("AfterFunc has fired and has no channel")
			}
		})
	}
}

// Reset drops a value that nobody took.
func TestResetDropsOldValue(t *testing.T) {
	f := clock.NewFake(start)
	timer := f.NewTimer(time.Microsecond)
	f.Advance(time.Millisecond)
	timer.Reset(time.Hour)
	select {
	case <-timer.C():
		t.Error("the old value is still there")
	default:
	}
	f.Advance(time.Hour)
	<-timer.C()
}

// WaitArmed lets a test follow goroutines into their waits: no sleeping, no polling.
func TestWaitArmed(t *testing.T) {
	f := clock.NewFake(start)
	const waiters = 20
	var wg sync.WaitGroup
	for i := range waiters {
		wg.Go(func() { <-f.NewTimer(time.Duration(i+1) * time.Millisecond).C() })
	}
	f.WaitArmed(waiters)
	f.Advance(waiters * time.Millisecond)
	wg.Wait()
	if f.Armed() != 0 {
		t.Errorf("%d armed", f.Armed())
	}
}

func TestReal(t *testing.T) {
	c := clock.Real()
	before, mono := time.Now().UnixMicro(), c.Mono()
	if now := c.Now(); now < before-60_000_000 || now > before+60_000_000 {
		t.Errorf("wall %d is not microseconds since 1970 (%d)", now, before)
	}
	<-c.NewTimer(2 * time.Millisecond).C()
	if passed := c.Mono() - mono; passed < 2000 {
		t.Errorf("%d us passed in a wait of 2 ms", passed)
	}
}

func TestRand(t *testing.T) {
	a, b, other := clock.NewFakeRand(7), clock.NewFakeRand(7), clock.NewFakeRand(8)
	var p, q [37]byte
	a.Fill(p[:])
	b.Fill(q[:])
	if p != q || a.Uint64() != b.Uint64() {
		t.Error("the same seed gives different bytes")
	}
	other.Fill(q[:])
	if p == q {
		t.Error("different seeds give the same bytes")
	}
	real := clock.RealRand()
	real.Fill(p[:])
	real.Fill(q[:])
	if first, second := real.Uint64(), real.Uint64(); p == q || first == second {
		t.Error("the system's source repeats itself")
	}
}
