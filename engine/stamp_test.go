package engine

import (
	"testing"

	"queen/engine/clock"
	"queen/engine/format"
	"queen/engine/logstore"
	"queen/engine/vfs"
)

// TestStampsOfEpochs: a stamper begins no epoch that is earlier than another, and what it has begun to lead is not led
// back by entries of earlier ones.
func TestStampsOfEpochs(t *testing.T) {
	s := newStamper(clock.NewFake(1_700_000_000_000_000), 100, 0)
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
	n.cluster.setRole(0, 9, 0)
	n.stamp.lead(9)
	first := n.stamp.next()
	if n.cluster.commitTerm(8) {
		t.Error("the Term of an epoch that is over was committed")
	}
	if h := n.stamp.next(); h.Epoch != 9 || h.Fuse != first.Fuse+1 {
		t.Errorf("%+v after %+v", h, first)
	}
	n.cluster.setRole(0, 7, 0) // as if the role came late: the stamps know better
	if n.cluster.commitTerm(7) {
		t.Error("the Term of an epoch below the newest was committed")
	}
}
