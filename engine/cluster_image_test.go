package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"path"
	"runtime"
	"testing"
	"time"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/format"
	"queen/engine/invariants"
	"queen/engine/vfs"
)

// pictured is a node with frames in bulk segments, in closed and in open ones, whose newest checkpoint covers all messages; and an
// image of it.
func pictured(t *testing.T, keyed string) (m *mixed, image []byte, target engine.PullTarget, before map[string]shot) {
	m = newMixed(t, 5)
	m.config = func(c *engine.Config) { c.KeyedDir = keyed }
	m.open()
	m.declare()
	for range 4 {
		m.fill(10 * time.Second)
	}
	m.works(12)
	m.fill(time.Second)
	if keyed != "" {
		for i := range 30 {
			op := &engine.KV{Namespace: "n", Key: fmt.Sprint("k", i), Kind: engine.KVPut, Value: []byte(fmt.Sprint(i))}
			if out, err := m.node.Do(t.Context(), someone, engine.Batch{Ops: []engine.Op{op}}); err != nil || out[0].Err != nil {
				t.Fatal(err, out)
			}
		}
	}
	m.close() // with a last checkpoint
	m.open()
	before = m.shoot()
	var b bytes.Buffer
	var base, end format.Index
	done := make(chan error)
	go func() {
		im, err := m.node.Image(t.Context())
		if err == nil {
			defer im.Close()
			base, end = im.Base()
			err = im.WriteTo(t.Context(), &b)
		}
		done <- err
	}()
	for waits := true; waits; { // it paces itself
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			waits = false
		default:
			m.clock.AdvanceMono(time.Millisecond)
			runtime.Gosched()
		}
	}
	if base == 0 || end <= base {
		t.Fatalf("the log is shown from %d to %d", base, end)
	}
	record := &format.Snapshot{Group: 1, Replica: 1, Index: base, Term: 1, OnDisk: base, Dummy: true, ConfigChange: 1,
		Members: []format.Member{{Role: format.MemberVoter, Replica: 1, Address: "h:1"}}}
	return m, b.Bytes(), engine.PullTarget{Group: 1, Replica: 1, Record: record}, before
}

// at is the same queues on another disk.
func (m *mixed) at(fs *vfs.Mem, keyed string) *mixed {
	o := &mixed{rig: &rig{t: m.t, fs: fs, clock: clock.NewFake(m.clock.Now()), seed: 900, pushed: map[string][]string{}}, rng: rand.New(rand.NewPCG(1, 1))}
	o.config = func(c *engine.Config) { quietConfig(c); c.KeyedDir = keyed }
	return o
}

func (m *mixed) pull(image []byte, target engine.PullTarget) error {
	cfg := eagerConfig(m.fs, m.clock, m.seed)
	m.config(&cfg)
	lock, err := engine.LockDir(cfg)
	if err != nil {
		return err
	}
	defer lock.Close()
	return engine.ReadImage(context.Background(), cfg, target, bytes.NewReader(image))
}

// TestImage: a node that is made of an image of another one has every message under its offset, id and time, the keys, and takes
// repeats for what they are; it goes on, is stopped, and starts again.
func TestImage(t *testing.T) {
	for _, keyed := range []bool{false, true} {
		t.Run(fmt.Sprint("keyed ", keyed), func(t *testing.T) {
			from, to := "", ""
			if keyed {
				from, to = path.Join(t.TempDir(), "keyed"), path.Join(t.TempDir(), "keyed")
			}
			m, image, target, before := pictured(t, from)
			if _, bulk, _ := m.diskOf(); bulk == 0 {
				t.Fatal("nothing was relocated")
			}
			ids := m.ids
			o := m.at(vfs.NewMem(), to)
			if err := o.pull(image, target); err != nil {
				t.Fatal(err)
			}
			o.open()
			o.same("pulled", before)
			for i := range 3 {
				o.ids = ids
				o.fill(time.Second)
				o.same(fmt.Sprint("pushed to ", i), before)
				o.works(3)
				o.same(fmt.Sprint("worked on ", i), before)
				o.close()
				o.open()
				o.same(fmt.Sprint("started again ", i), before)
			}
			o.close()
			m.close()
		})
	}
}

// TestImageDamaged: an image of which a bit is wrong, or the end missing, is refused, and what was there stays.
func TestImageDamaged(t *testing.T) {
	m, image, target, _ := pictured(t, "")
	m.close()
	r := rand.New(rand.NewPCG(3, 4))
	o := m.at(vfs.NewMem(), "")
	o.open()
	o.mustPush("a", "what was there")
	o.close()
	for i := range 60 {
		bad := bytes.Clone(image)
		if at := r.IntN(len(bad)); i%2 == 0 {
			bad[at] ^= 1 << r.IntN(8)
		} else {
			bad = bad[:at]
		}
		if err := o.pull(bad, target); err == nil {
			t.Fatalf("image %d was taken", i)
		}
	}
	o.open()
	if err := o.check(0); err != nil {
		t.Fatal(err)
	}
	o.close()
	if names := o.files(func(name string) bool { return name == "pull" }); len(names) != 0 {
		t.Error("what came of an image is still there")
	}
}

// TestImageCrash: the power fails at any operation while an image is read and put in its place: the node that opens then is the one
// before or the one of the image, as a whole.
func TestImageCrash(t *testing.T) {
	m, image, target, before := pictured(t, "")
	m.close()
	old := m.at(vfs.NewMem(), "")
	old.open()
	old.mustPush("a", "what was there")
	old.close()
	run := func(at int64, policy vfs.CrashPolicy) (pulled, whole bool) {
		o := m.at(old.fs.Crash(vfs.KeepAll()), "")
		o.pushed["a"] = []string{"what was there"}
		o.fs.PowerOffAt(at)
		err := o.pull(image, target)
		o.fs = o.fs.Crash(policy)
		o.open()
		defer o.node.Kill()
		st, _ := o.node.LogReplica()
		if pulled = st.Snapshot != nil; pulled {
			o.same(fmt.Sprint("crash at ", at), before)
		} else if err := o.check(0); err != nil {
			t.Fatalf("crash at %d: %v", at, err)
		}
		if err == nil && !pulled {
			t.Fatalf("crash at %d: the pull was reported done and is gone", at)
		}
		return pulled, err == nil
	}
	was := false
	for at := int64(1); ; at++ {
		pulled, whole := run(at, []vfs.CrashPolicy{vfs.DropUnsynced(), vfs.KeepAll(), vfs.RandomSubset(uint64(at))}[at%3])
		was = was || pulled
		if whole {
			break
		}
		if testing.Short() {
			at += 6
		}
	}
	if !was {
		t.Error("no crash left the image")
	}
}

// TestImageCrashTwice: the power fails right after an image counts, and again at any operation of the start that puts it in its
// place.
func TestImageCrashTwice(t *testing.T) {
	m, image, target, before := pictured(t, "")
	m.close()
	old := m.at(vfs.NewMem(), "")
	old.open()
	old.mustPush("a", "what was there")
	old.close()
	disarm := invariants.ArmFunc("engine.pull.marked", 1, func() { old.fs.PowerOffAt(1) })
	err := old.pull(image, target)
	disarm()
	if err == nil {
		t.Fatal("the power did not fail")
	}
	marked := old.fs.Crash(vfs.DropUnsynced())
	for at := int64(1); ; at++ {
		o := m.at(marked.Crash(vfs.KeepAll()), "")
		cfg := eagerConfig(o.fs, o.clock, o.seed)
		o.config(&cfg)
		ops := o.fs.Ops()
		o.fs.PowerOffAt(at)
		log, lock, err := engine.OpenLog(cfg)
		if err == nil {
			log.Kill()
			lock.Close()
		}
		o.fs = o.fs.Crash([]vfs.CrashPolicy{vfs.DropUnsynced(), vfs.KeepAll(), vfs.RandomSubset(uint64(at))}[at%3])
		o.open()
		o.same(fmt.Sprint("second crash at ", at), before)
		o.node.Kill()
		if err == nil {
			if at < 10 {
				t.Errorf("the start made %d operations", o.fs.Ops()-ops)
			}
			return
		}
	}
}
