package engine

import (
	"runtime"
	"testing"
	"time"

	"queen/engine/clock"
	"queen/engine/format"
	"queen/engine/logstore"
	"queen/engine/vfs"
)

// TestStampsOfEpochs: a stamper begins no epoch that is earlier than another, and what it has begun to lead is not led
// back by entries of earlier ones.
func TestStampsOfEpochs(t *testing.T) {
	s := newStamper(clock.NewFake(1_700_000_000_000_000), 100, 0, nil)
	s.follow(format.EntryHeader{Epoch: 4, T: 50, W: 7})
	if at, _ := s.now(); at != 50 {
		t.Fatal("the leader's time was not taken over", at)
	}
	for range 2 { // a Term may be proposed again
		if !s.lead(5) {
			t.Fatal("an epoch was refused")
		}
	}
	first := s.next()
	if s.lead(4) {
		t.Error("an epoch that is over was begun")
	}
	s.follow(format.EntryHeader{Epoch: 4, T: 10})
	s.follow(format.EntryHeader{Epoch: 5, T: 10})
	if h := s.next(); h.Epoch != 5 || h.Fuse != first.Fuse+1 || h.T < first.T {
		t.Errorf("%+v after %+v", h, first)
	}
	s.follow(format.EntryHeader{Epoch: 6, T: 20})
	if at, _ := s.now(); at != 20 {
		t.Error("the next leader's time was not taken over", at)
	}
}

// follower is a replicated sequencer that is never asked anything.
type follower struct{ Replicated }

func (follower) Self() format.Replica { return 2 }

// TestRefusedEntriesMoveNoClock: the times of an entry of another node are taken over when apply has accepted it.
func TestRefusedEntriesMoveNoClock(t *testing.T) {
	n, err := OpenLocal(Config{FS: vfs.NewMem(), Clock: clock.NewFake(1_700_000_000_000_000), Rand: clock.NewFakeRand(1), Dir: "data",
		SegmentBytes: 1 << 20, PoolReady: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Close(t.Context()); err != nil { // apply is the test's from now on, and so is what its goroutines look at
		t.Fatal(err)
	}
	n.cluster = newCluster(n, follower{})
	before, w := n.stamp.now()
	term := n.state.m.Epoch()
	apply := func(h format.EntryHeader) {
		t.Helper()
		sub := newSubmission(consumption)
		sub.buf.AddTerm(&format.TermCmd{Epoch: h.Epoch})
		var e format.EntryBuilder
		e.Begin(h)
		e.Add(sub.buf)
		c := Committed{Index: n.state.m.Applied() + 1, Data: e.Head(nil), Pos: logstore.EntryPos{Segment: 1, Pos: 4160}}
		if _, err := n.Apply(c); err != nil {
			t.Fatal(err)
		}
	}
	n.stamp.mu.epoch = 0 // this node has led nothing: what it is told counts
	apply(format.EntryHeader{Epoch: term + 2, T: before + 1000, W: w})
	if at, _ := n.stamp.now(); at != before+1000 || n.state.m.Epoch() != term+2 {
		t.Fatalf("an accepted entry: time %d, before it %d", at, before)
	}
	for _, h := range []format.EntryHeader{{Epoch: term + 1, T: before + 1<<40, W: w}, {Epoch: term + 3, T: before, W: w}} {
		apply(h) // of an epoch that is over; stamped earlier than what is applied
		if at, _ := n.stamp.now(); at != before+1000 || n.state.m.Epoch() != term+2 {
			t.Errorf("a refused entry %+v: time %d, epoch %d", h, at, n.state.m.Epoch())
		}
	}
}

const (
	aMinute = format.Wall(60_000_000)
	aDay    = 24 * 60 * aMinute
)

// stampsOf is a stamper of a cluster whose state's calendar time is w, which was followed when that was, and the voters' median.
func stampsOf(c *clock.Fake, w format.Wall) (s *stamper, median *format.Wall) {
	median = new(format.Wall)
	s = newStamper(c, 0, w, func() (format.Wall, bool) { return *median, *median != 0 })
	s.follow(format.EntryHeader{Epoch: 4, T: 1, W: w})
	return s, median
}

// near holds a calendar time to be another one, give or take what a clock may be slewed in two minutes.
func near(t *testing.T, got, want format.Wall) {
	t.Helper()
	if d := got - want; d < -6_000_000-1 || d > 6_000_000+1 {
		t.Fatalf("the calendar time is %v off", time.Duration(d)*time.Microsecond)
	}
}

// TestOneClockMovesNoCluster: a node whose clock is a day ahead is elected in a cluster that has been idle for a while, and leads for
// a while. The calendar time goes on as the others' clocks do, or at monotonic rate where they are not known: nothing expires
// early and no timer fires early. The node says that its clock is off.
func TestOneClockMovesNoCluster(t *testing.T) {
	for _, known := range []bool{false, true} {
		c := clock.NewFake(1_700_000_000_000_000)
		began := format.Wall(c.Now())
		s, median := stampsOf(c, began)
		c.JumpWall(24 * time.Hour)
		c.Advance(2 * time.Minute)
		if known {
			*median = began + 2*aMinute
		}
		if _, w := s.now(); w > began+3*aMinute { // what readers and timers look at, also while it follows
			t.Fatalf("the clock of a node that follows jumped by %v", time.Duration(w-began)*time.Microsecond)
		}
		if s.unsure(began) == known {
			t.Fatal("the others' clocks are needed as long as they are not known", known)
		}
		s.lead(5)
		s.take(1, began)
		near(t, s.next().W, began+2*aMinute)
		for range 120 { // asked each second
			c.Advance(time.Second)
			if known {
				*median += 1_000_000
			}
			s.next()
		}
		near(t, s.next().W, began+4*aMinute)
		if s.step() == "" {
			t.Error("nobody is told that the clock is off")
		}
		c.JumpWall(-24 * time.Hour)
		if s.next(); s.step() != "" {
			t.Error(s.step())
		}
	}
}

// TestAllClocksMoveACluster: where the median of the voters' clocks is ahead as well, as after all nodes were down, the calendar
// time follows at the Term, and while a node leads at once.
func TestAllClocksMoveACluster(t *testing.T) {
	c := clock.NewFake(1_700_000_000_000_000)
	began := format.Wall(c.Now())
	s := newStamper(c, 0, began-aDay, func() (format.Wall, bool) { return format.Wall(c.Now()), true })
	s.lead(5)
	s.take(1, began-aDay)
	near(t, s.next().W, began)
	c.JumpWall(time.Hour)
	c.Advance(2 * time.Second)
	near(t, s.next().W, began+60*aMinute)

	// Elected while the clocks are not known, as before the first round of the census.
	c = clock.NewFake(1_700_000_000_000_000)
	began = format.Wall(c.Now())
	s, median := stampsOf(c, began-aDay)
	c.Advance(2 * time.Minute)
	s.lead(5)
	s.take(1, began-aDay)
	near(t, s.next().W, began-aDay+2*aMinute)
	*median = format.Wall(c.Now())
	c.Advance(time.Second)
	near(t, s.next().W, began+2*aMinute)
	if s.step() != "" {
		t.Error(s.step())
	}
}

// TestClockBehindTheVoters: a clock that is behind by more than a step slows nothing down where the voters' clocks are as the calendar
// time is.
func TestClockBehindTheVoters(t *testing.T) {
	c := clock.NewFake(1_700_000_000_000_000)
	began := format.Wall(c.Now())
	s, median := stampsOf(c, began)
	s.lead(5)
	c.JumpWall(-24 * time.Hour)
	for range 100 {
		c.Advance(time.Second)
		*median = began + format.Wall(c.Mono())
		s.next()
	}
	if _, w := s.now(); w < began+99_000_000 || w > began+101_000_000 {
		t.Errorf("after 100 s it is %v later", time.Duration(w-began)*time.Microsecond)
	}
}

// TestStartedWithAClockAhead: a node that starts with a clock that is a day ahead, and has heard no other one yet, neither shows nor
// stamps that time.
func TestStartedWithAClockAhead(t *testing.T) {
	c := clock.NewFake(1_700_000_000_000_000)
	began := format.Wall(c.Now()) - aDay
	s := newStamper(c, 0, began, func() (format.Wall, bool) { return 0, false })
	_, w := s.now()
	near(t, w, began)
	s.lead(5)
	s.take(1, began)
	near(t, s.next().W, began)
}

// TestFreshClusterTakesItsFirstClock: a cluster without a history begins with the clock of who leads first.
func TestFreshClusterTakesItsFirstClock(t *testing.T) {
	c := clock.NewFake(1_700_000_000_000_000)
	s := newStamper(c, 0, 0, func() (format.Wall, bool) { return 0, false })
	if s.unsure(0) {
		t.Error("it waits for clocks")
	}
	s.lead(5)
	s.take(0, 0)
	near(t, s.next().W, 1_700_000_000_000_000)
}

// TestElectedBeforeTheClocksAreKnown: who is elected and needs the voters' clocks waits for them for a moment, and leads without them
// after that, or gives up when another one was elected.
func TestElectedBeforeTheClocksAreKnown(t *testing.T) {
	c := clock.NewFake(1_700_000_000_000_000)
	n, s := solo(t, c, nil)
	began := n.wall()
	c.JumpWall(24 * time.Hour)
	c.AdvanceMono(2 * time.Minute) // so long ago was the last entry of another node
	elected := func(epoch format.Term) chan bool {
		n.Follow(0, epoch)
		leads := make(chan bool, 1)
		go func() {
			n.Lead(epoch)
			leads <- n.leading()
		}()
		return leads
	}
	waits := func() {
		for !n.stamp.unsure(began) {
			c.WaitArmed(1)
		}
	}
	leads := elected(4)
	waits()
	n.Follow(0, 5)
	if <-leads {
		t.Error("it leads though another one was elected")
	}
	leads = elected(6)
	waits()
	s.median.Store(int64(began + 2*aMinute))
	for len(leads) == 0 {
		c.AdvanceMono(clockEvery)
		runtime.Gosched()
	}
	if !<-leads {
		t.Error("it does not lead though the clocks are known")
	}
	ran := func() {
		t.Helper()
		if w := n.wall(); w > began+format.Wall(c.Mono()+c.Mono()/slewPart) {
			t.Errorf("the calendar time jumped by %v", time.Duration(w-began)*time.Microsecond)
		}
	}
	ran()
	s.median.Store(0)
	c.AdvanceMono(2 * time.Minute)
	leads = elected(8)
	for len(leads) == 0 {
		c.AdvanceMono(clockEvery)
		runtime.Gosched()
	}
	if !<-leads {
		t.Error("it does not lead without the clocks")
	}
	ran()
}

// TestTermOfAnEpochThatIsOver: who was elected and then overtaken by a later election proposes no Term any more, and leaves
// the clock and the numbers of the later epoch alone. A proposal would panic: the sequencer has none.
func TestTermOfAnEpochThatIsOver(t *testing.T) {
	n, err := OpenLocal(Config{FS: vfs.NewMem(), Clock: clock.NewFake(1_700_000_000_000_000), Rand: clock.NewFakeRand(1), Dir: "data",
		SegmentBytes: 1 << 20, PoolReady: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Close(t.Context()); err != nil { // its goroutines look at what is set below
		t.Fatal(err)
	}
	n.seq = follower{}
	n.cluster = newCluster(n, follower{})
	n.cluster.setRole(0, 9)
	n.stamp.lead(9)
	first := n.stamp.next()
	if n.cluster.commitTerm(8) {
		t.Error("the Term of an epoch that is over was committed")
	}
	if h := n.stamp.next(); h.Epoch != 9 || h.Fuse != first.Fuse+1 {
		t.Errorf("%+v after %+v", h, first)
	}
	n.cluster.setRole(0, 7) // as if the role came late: the stamps know better
	if n.cluster.commitTerm(7) {
		t.Error("the Term of an epoch below the newest was committed")
	}
}
