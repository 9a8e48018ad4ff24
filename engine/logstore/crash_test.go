package logstore

import (
	"errors"
	"flag"
	"fmt"
	"testing"
	"time"

	"queen/engine/vfs"
)

var crashSaves = flag.Int("crash-saves", 60, "saves of the crash scenarios")

// stride is how far the failures of the scenarios are apart: with -short, which is for the race detector, one in seven is tried.
func stride() int64 {
	if testing.Short() {
		return 7
	}
	return 1
}

// scenario is a list of saves that is done in the same way again and again, each time with a failure
// somewhere else.
type scenario struct {
	saves []*Save
	o     Options
}

// newScenario makes legal saves for groups replicas. Saves are larger than what a saver gets into one
// extent, so that many span several; segments are small, so that overwrites cross seals.
func newScenario(seed uint64, groups, saves int) *scenario {
	g := newGenerator(seed, groups, 2500, 8)
	sc := &scenario{o: testOptions(nil)}
	sc.o.SegmentBytes, sc.o.ExtentBytes, sc.o.SaverBytes = 96<<10, 8<<10, 2048
	sc.o.TailBytes, sc.o.BeaconEvery = 16<<10, time.Nanosecond
	for range saves {
		sc.saves = append(sc.saves, g.next())
	}
	return sc
}

// run appends the saves to a store over fs, with a clean stop in the middle, and returns how many were
// acknowledged.
func (sc *scenario) run(fs vfs.FS) (acked int, err error) {
	o := sc.o
	o.FS = fs
	s, err := Open(o)
	if err != nil {
		return 0, err
	}
	for i, v := range sc.saves {
		if i == len(sc.saves)*2/3 {
			if err := s.Close(); err != nil {
				return i, err
			}
			if s, err = Open(o); err != nil {
				return i, err
			}
		}
		if i%10 == 9 {
			_ = reclaimOldest(s)
		}
		if err := s.Append(v); err != nil {
			_ = s.Close()
			return i, err
		}
	}
	return len(sc.saves), s.Close()
}

func reclaimOldest(s *Store) error {
	for _, in := range s.Segments() {
		if !in.Sealed {
			return nil
		}
		if err := s.Reclaim(in.Segment); err != nil {
			return err
		}
	}
	return nil
}

// legal returns the models a crash may leave: everything acknowledged, and any prefix of the records of
// the save in flight.
func (sc *scenario) legal(acked int) []*model {
	m := newModel()
	for _, v := range sc.saves[:acked] {
		m.apply(v)
	}
	all := []*model{m}
	if acked < len(sc.saves) {
		for _, step := range steps(sc.saves[acked]) {
			m = m.clone()
			step(m)
			all = append(all, m)
		}
	}
	return all
}

// check opens what a crash left and compares it, goes on with it, and crashes once more.
func (sc *scenario) check(fs *vfs.Mem, acked int) error {
	o := sc.o
	o.FS = fs
	s, err := Open(o)
	if err != nil {
		return err
	}
	var found *model
	diffs := ""
	for _, m := range sc.legal(acked) {
		diff := m.differs(s, true)
		if diff == "" {
			found = m
			break
		}
		diffs += "\n  " + diff
	}
	if found == nil {
		return fmt.Errorf("with %d acknowledged the store is in none of the legal states:%s", acked, diffs)
	}
	found.takeCommits(s)
	g := newGenerator(uint64(acked), 0, 500, 3)
	g.m = found
	for k := range found.replicas {
		g.keys = append(g.keys, k)
	}
	for range 4 {
		if len(g.keys) > 0 {
			if err := s.Append(g.next()); err != nil {
				return fmt.Errorf("append after recovery: %w", err)
			}
		}
	}
	o.FS = fs.Crash(vfs.DropUnsynced())
	_ = s.Close()
	if s, err = Open(o); err != nil {
		return fmt.Errorf("second open: %w", err)
	}
	defer s.Close()
	if diff := found.differs(s, true); diff != "" {
		return fmt.Errorf("after the second crash: %s", diff)
	}
	return nil
}

// TestCrashAtEveryOperation cuts the power at every write, flush, rename and directory flush of a scenario
// with two groups, overwrites across seals, saves of several extents, a clean stop and reclaim, and opens
// what the disk may hold.
func TestCrashAtEveryOperation(t *testing.T) {
	sc := newScenario(11, 2, *crashSaves)
	for n := int64(1); ; n += stride() {
		fs := vfs.NewMem()
		fs.PowerOffAt(n)
		acked, err := sc.run(fs)
		if err == nil && !fs.PoweredOff() {
			t.Logf("up to %d operations", n-1)
			break
		}
		policies := []vfs.CrashPolicy{
			vfs.DropUnsynced(), vfs.KeepAll(), vfs.RandomSubset(uint64(n)), vfs.RandomSubset(uint64(n) + 1<<20),
		}
		for p, policy := range policies {
			if err := sc.check(fs.Crash(policy), acked); err != nil {
				t.Fatalf("power off at operation %d, policy %d: %v", n, p, err)
			}
		}
	}
}

// TestReloadAtEveryWrite opens the directory of a living store after every save: two groups, overwrites
// across seals.
func TestReloadAtEveryWrite(t *testing.T) {
	sc := newScenario(5, 2, 3**crashSaves)
	if testing.Short() {
		sc.saves = sc.saves[:2**crashSaves]
	}
	fs := vfs.NewMem()
	o := sc.o
	o.FS = fs
	s := mustOpen(t, o)
	defer s.Close()
	m := newModel()
	for i, v := range sc.saves {
		if err := s.Append(v); err != nil {
			t.Fatal(err)
		}
		m.apply(v)
		other := o
		other.FS = fs.Crash(vfs.DropUnsynced())
		r, err := Open(other)
		if err != nil {
			t.Fatalf("save %d: %v", i, err)
		}
		if diff := m.differs(r, true); diff != "" {
			t.Fatalf("save %d: %s", i, diff)
		}
		if diff := m.differs(s, false); diff != "" {
			t.Fatalf("save %d: %s", i, diff)
		}
		_ = r.Close()
	}
	if n := len(s.Segments()); n < 5 {
		t.Fatalf("only %d segments", n)
	}
}

// TestErrorAtEveryCall fails every mutating call of a scenario once and lets later ones succeed: what was
// acknowledged stays, the store that failed stays failed, and nothing is tried again.
func TestErrorAtEveryCall(t *testing.T) {
	sc := newScenario(23, 2, *crashSaves)
	injected := errors.New("injected")
	for n := int64(1); ; n += stride() {
		fs := vfs.NewMem()
		count, fatal := int64(0), 0
		fs.SetHook(func(vfs.Op) error {
			if count++; count == n {
				return injected
			}
			return nil
		})
		one := *sc
		one.o.Fatal = func(error) { fatal++ }
		acked, err := one.run(fs)
		if count < n {
			t.Logf("up to %d calls", n-1)
			break
		}
		if err == nil && acked < len(sc.saves) || fatal > 1 {
			t.Fatalf("call %d: %d acknowledged, %d times fatal: %v", n, acked, fatal, err)
		}
		fs.SetHook(nil)
		for _, policy := range []vfs.CrashPolicy{vfs.DropUnsynced(), vfs.KeepAll()} {
			if err := sc.check(fs.Crash(policy), acked); err != nil {
				t.Fatalf("call %d failed: %v", n, err)
			}
		}
	}
}
