package engine_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/invariants"
	"queen/engine/vfs"
	"queen/engine/vfs/errorfs"
)

// ripe is the disk of a node whose log is full of segments to relocate, none of which was yet: queue q
// keeps its messages for ever, between those of queue fire, which are gone.
func ripe(t *testing.T) *rig {
	m := newMixed(t, 77)
	m.config = func(c *engine.Config) { c.RetentionEvery = 1000 * time.Hour } // one pass, which finds nothing
	m.open()
	m.declare()
	for i := range 24 {
		for range 4 {
			m.pushSome("fire", 60_000)
		}
		m.mustPush([]string{"a", "b", "c"}[i%3], fmt.Sprintf("%d %s", i, m.noise(500)))
		m.tick(time.Second)
	}
	for range 14 { // and segments with nothing but fire
		for range 4 {
			m.pushSome("fire", 60_000)
		}
		m.tick(time.Second)
	}
	m.tick(time.Minute)
	for range 6 {
		m.mustPush("a", "more")
		m.tick(3 * time.Second)
		m.node.SettleFiles()
	}
	if _, bulk, oldest := m.diskOf(); bulk > 0 || oldest > 1 {
		t.Fatalf("%d bytes of bulk segments, the log begins with %d", bulk, oldest)
	}
	m.close()
	return m.rig
}

// later is a life of the node on a disk, which may end at any operation.
func (r *rig) later(fs *vfs.Mem) *mortal {
	m := &mortal{rig: &rig{t: r.t, fs: fs, clock: clock.NewFake(r.clock.Now()), seed: 5000, pushed: map[string][]string{}}}
	for p, all := range r.pushed {
		m.pushed[p] = slices.Clone(all)
	}
	m.ctx, m.dead = context.WithCancel(context.Background())
	m.config = func(c *engine.Config) {
		c.Fatal = func(err error) {
			if !errors.Is(err, vfs.ErrPowerOff) {
				m.t.Logf("fatal: %v", err)
			}
			m.dead()
			runtime.Goexit()
		}
	}
	return m
}

// relocate opens the node, lets it relocate what is due while it takes pushes, and stops it.
func (m *mortal) relocate() bool { return m.relocateWith(5) }

// relocateWith is relocate with so many pushes.
func (m *mortal) relocateWith(pushes int) bool {
	return m.runThis(func() error {
		if err := m.reopen(); err != nil {
			return err
		}
		for i := range 5 {
			if i < pushes {
				if err := m.pushTo("b", fmt.Sprint("later ", i)); err != nil {
					return err
				}
			}
			m.clock.Advance(3 * time.Second)
			if err := m.settle(); err != nil {
				return err
			}
			if err := m.orDeath(func() error { m.node.SettleFiles(); return nil }); err != nil {
				return err
			}
		}
		return m.stop()
	})
}

// judgeMoved opens a disk after a crash: everything acknowledged is there, also when every row index is made
// again, and relocation comes to its end.
func (m *mortal) judgeMoved(what string, disk *vfs.Mem) {
	t := m.t
	t.Helper()
	for _, bare := range []bool{false, true} {
		o := m.later(disk.Crash(vfs.KeepAll()))
		if bare {
			for _, name := range o.files(func(name string) bool { return slices.Contains([]string{".pidx", ".run", ".hsc"}, path.Ext(name)) }) {
				if err := o.fs.Remove("data/" + name); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := o.tryOpen(); err != nil {
			t.Fatalf("%s, bare %v: open: %v", what, bare, err)
		}
		if err := o.check(1); err != nil {
			t.Fatalf("%s, bare %v: %v", what, bare, err)
		}
		o.close()
		if !o.relocate() {
			t.Fatalf("%s, bare %v: the node does not live on", what, bare)
		}
		if err := o.tryOpen(); err != nil {
			t.Fatalf("%s, bare %v: open after it lived on: %v", what, bare, err)
		}
		if err := o.check(1); err != nil {
			t.Fatalf("%s, bare %v: after it lived on: %v", what, bare, err)
		}
		if oldest := o.node.FirstSegment(); oldest < 4 {
			t.Fatalf("%s, bare %v: the log begins with %d: relocation does not go on", what, bare, oldest)
		}
		o.close()
		if left := o.files(func(name string) bool { return strings.HasSuffix(name, ".tmp") }); len(left) > 0 {
			t.Fatalf("%s: left behind %v", what, left)
		}
	}
}

// TestRelocationCrashes cuts the power at operations all over a life in which segments are relocated: what
// the disk holds is the old place or the new one of every message.
func TestRelocationCrashes(t *testing.T) {
	r := ripe(t)
	stop := invariants.CountHits()
	whole := r.later(r.fs.Crash(vfs.KeepAll()))
	if !whole.relocate() {
		t.Fatal("the node died")
	}
	stop()
	for _, name := range invariants.Failpoints() {
		for _, part := range []string{"logstore.bulk.", "engine.relocate.", "engine.reclaim.", "rows.replace."} {
			if strings.HasPrefix(name, part) && invariants.Hits(name) == 0 && name != "engine.relocate.rows-thinned" {
				t.Errorf("%s was not passed", name)
			}
		}
	}
	step := *crashStep
	if testing.Short() {
		step *= 5
	}
	points := 0
	for n := int64(1); ; n += step {
		m := r.later(r.fs.Crash(vfs.KeepAll()))
		m.fs.PowerOffAt(n)
		ended := m.relocate()
		if ended && !m.fs.PoweredOff() {
			break
		}
		points++
		for i, policy := range []vfs.CrashPolicy{vfs.DropUnsynced(), vfs.RandomSubset(uint64(n))} {
			m.judgeMoved(fmt.Sprintf("power off at operation %d, policy %d", n, i), m.fs.Crash(policy))
		}
		if m.node != nil {
			go m.node.Kill()
		}
	}
	if points < 5 {
		t.Fatalf("only %d points", points)
	}
	t.Logf("%d points", points)
}

// TestRelocationWithoutSpace: a disk that is full when something of a relocation is written postpones it; the
// node lives on, and everything is where it was or where it went.
func TestRelocationWithoutSpace(t *testing.T) {
	r := ripe(t)
	failed := 0
	for _, where := range []string{"blk-*", "seg-*.pidx*", "rows-*.run*", "manifest-*", "blk-*.hsc*"} {
		for _, kind := range []vfs.OpKind{vfs.OpCreate, vfs.OpWrite, vfs.OpWriteSync} {
			for _, nth := range []int64{1, 2, 4} {
				if testing.Short() && nth != 2 {
					continue
				}
				m := r.later(r.fs.Crash(vfs.KeepAll()))
				faulty := errorfs.New(m.fs)
				hit := false
				faulty.Inject(errorfs.Rule{Match: errorfs.All(errorfs.Kinds(kind), errorfs.Base(where), func(vfs.Op) bool {
					hit = true
					return true
				}), Nth: nth, Err: vfs.ErrNoSpace})
				inner := m.config
				m.config = func(c *engine.Config) { inner(c); c.FS = faulty }
				what := fmt.Sprintf("%v number %d on %s", kind, nth, where)
				if !m.relocate() {
					t.Fatalf("%s: the node died of a full disk", what)
				}
				if hit {
					failed++
					m.judgeMoved(what, m.fs.Crash(vfs.KeepAll()))
				}
			}
		}
	}
	if failed < 12 && !testing.Short() || failed < 4 {
		t.Fatalf("only %d calls failed", failed)
	}
}

// TestReclaimMakesRoom: where copies find no room, what is dead goes all the same and makes some.
func TestReclaimMakesRoom(t *testing.T) {
	r := ripe(t)
	m := r.later(r.fs.Crash(vfs.KeepAll()))
	space, err := m.fs.Free("data")
	if err != nil {
		t.Fatal(err)
	}
	m.fs.SetCapacity(space.Total - space.Available + 1<<19) // not a segment's worth
	if !m.relocateWith(0) {                                 // the disk gate is closed
		t.Fatal("the node died of a full disk")
	}
	m.fs.SetCapacity(0)
	m.judgeMoved("after a full disk", m.fs.Crash(vfs.KeepAll()))
	if err := m.tryOpen(); err != nil {
		t.Fatal(err)
	}
	defer m.close()
	if _, bulks := m.node.LogSegments(); len(bulks) == 0 || m.node.FirstSegment() < 4 {
		t.Fatalf("%d bulk segments, the log begins with %d", len(bulks), m.node.FirstSegment())
	}
}
