package engine_test

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/format"
	"queen/engine/vfs"
	"queen/engine/vfs/errorfs"
)

// quietConfig makes no mark but those a test asks for.
func quietConfig(c *engine.Config) { c.MarkBytes, c.MarkEvery = 1<<40, 1000*time.Hour }

// lived is a node that was stopped cleanly after several lives: bases, deltas, closed segments, id
// runs, sidecars and both manifests are there.
func lived(t *testing.T, lives int) *rig {
	r := newRig(t)
	r.open()
	for life := range lives {
		for i := range 24 {
			if err := r.pushID(fmt.Sprint("p", i%5), fmt.Sprintf("%d.%d", life, i), fmt.Sprintf("id-%d-%d", life, i)); err != nil {
				t.Fatal(err)
			}
			if i%6 == 5 {
				r.tick(1500 * time.Millisecond)
			}
		}
		r.close()
		r.open()
	}
	r.close()
	return r
}

// on is the same node's data on another disk, opened there without marks of its own.
func (r *rig) on(fs *vfs.Mem) *rig {
	o := &rig{t: r.t, fs: fs, clock: clock.NewFake(r.clock.Now()), seed: 77, pushed: map[string][]string{}, config: quietConfig}
	for p, all := range r.pushed {
		o.pushed[p] = all
	}
	return o
}

func (r *rig) files(match func(name string) bool) (names []string) {
	all, err := r.fs.List("data")
	if err != nil {
		r.t.Fatal(err)
	}
	for _, name := range all {
		if match(name) {
			names = append(names, name)
		}
	}
	return names
}

// kindOf sorts the files of a data directory.
func kindOf(name string) string {
	switch ext := path.Ext(name); {
	case ext == ".dat":
		return strings.SplitN(name, "-", 2)[0]
	default:
		return ext
	}
}

// TestOneFlippedBit flips a bit in every kind of file of a stopped node: it opens with the very same
// state and messages, or says which file is damaged. It never serves anything else.
func TestOneFlippedBit(t *testing.T) {
	r := lived(t, 5)
	intact := r.on(r.fs.Crash(vfs.KeepAll()))
	intact.open()
	want := intact.node.MarkState()
	intact.close()
	opened, refused := map[string]int{}, map[string]int{}
	for _, name := range r.files(func(name string) bool {
		return kindOf(name) != "pool" && name != "LOCK" && kindOf(name) != "beacon.dat"
	}) {
		info, err := r.fs.Stat("data/" + name)
		if err != nil || info.Size == 0 {
			continue
		}
		for _, pos := range []int64{9, info.Size / 3, info.Size - 3, 4096 + 30, 4096 + 200} {
			if pos >= info.Size || testing.Short() && pos > 4096+30 {
				continue
			}
			o := r.on(r.fs.Crash(vfs.KeepAll()))
			if err := o.fs.FlipBit("data/"+name, pos, 2); err != nil {
				t.Fatal(err)
			}
			kind := kindOf(name)
			err := o.tryOpen()
			if err == nil {
				err = o.check(0)
				if state := o.node.MarkState(); err == nil && state != want {
					t.Fatalf("%s flipped at %d: state %+v want %+v", name, pos, state, want)
				}
				o.close()
			}
			switch {
			case err == nil:
				opened[kind]++
			case strings.Contains(err.Error(), strings.TrimSuffix(name, ".dat")) || strings.Contains(err.Error(), "corrupt"):
				refused[kind]++
			default:
				t.Fatalf("%s flipped at %d: refused without its name: %v", name, pos, err)
			}
		}
	}
	t.Logf("opened %v, refused %v", opened, refused)
	for _, kind := range []string{".base", ".delta", ".pidx", ".hsc", "manifest"} {
		if opened[kind] == 0 || refused[kind] > 0 {
			t.Errorf("%s: opened %d times, refused %d times", kind, opened[kind], refused[kind])
		}
	}
}

// TestDerivedFilesAreMadeAgain deletes derived files, kind by kind and all together: what they said is
// made again from the log, and everything is where it was.
func TestDerivedFilesAreMadeAgain(t *testing.T) {
	r := lived(t, 4)
	intact := r.on(r.fs.Crash(vfs.KeepAll()))
	intact.open()
	want := intact.node.MarkState()
	kinds := []string{".pidx", ".hsc", ".run"}
	log, _ := intact.node.LogSegments()
	for i, s := range log {
		if s.Segment != uint32(i)+1 {
			kinds = kinds[:2] // relocation took some of the log, without which the ids can not be made again
			break
		}
	}
	intact.close()
	for mask := 1; mask < 1<<len(kinds); mask++ {
		o := r.on(r.fs.Crash(vfs.KeepAll()))
		var gone []string
		for i, kind := range kinds {
			if mask>>i&1 == 1 {
				gone = append(gone, o.files(func(name string) bool { return path.Ext(name) == kind })...)
			}
		}
		if len(gone) == 0 {
			t.Fatalf("no files of mask %b", mask)
		}
		for _, name := range gone {
			if err := o.fs.Remove("data/" + name); err != nil {
				t.Fatal(err)
			}
		}
		for life := range 2 {
			if err := o.tryOpen(); err != nil {
				t.Fatalf("without %v, life %d: %v", gone, life, err)
			}
			if err := o.check(0); err != nil {
				t.Fatalf("without %v, life %d: %v", gone, life, err)
			}
			if state := o.node.MarkState(); life == 0 && state != want {
				t.Fatalf("without %v: state %+v want %+v", gone, state, want)
			}
			o.duplicates(0, 24)
			o.close()
		}
	}
}

// duplicates pushes ids of a life again: each is answered with its original.
func (r *rig) duplicates(life, n int) {
	r.t.Helper()
	for i := range n {
		out, err := r.node.Do(r.t.Context(), someone, engine.Batch{Ops: []engine.Op{&engine.Append{Queue: "q", Partition: fmt.Sprint("p", i%5),
			Messages: []engine.Message{{Payload: []byte("again"), TransactionID: fmt.Sprintf("id-%d-%d", life, i)}}}}})
		if err != nil {
			r.t.Fatal(err)
		}
		if m := out[0].Messages[0]; m.Status != engine.Duplicate || int(m.Offset) >= len(r.pushed[fmt.Sprint("p", i%5)]) {
			r.t.Fatalf("id-%d-%d: %+v, want a duplicate", life, i, m)
		}
	}
}

// TestOlderIDs: ids far behind the resident chunks are duplicates still, after restarts and merges of
// their runs too, and become new when the window has passed.
func TestOlderIDs(t *testing.T) {
	r := lived(t, 8)
	r.open()
	for life := range 8 {
		r.duplicates(life, 24)
	}
	r.clock.Advance(2 * time.Hour)
	r.node.Settle()
	if err := r.pushID("p0", "after the window", "id-0-0"); err != nil {
		t.Fatal(err)
	}
	if got := r.pushed["p0"]; got[len(got)-1] != "after the window" {
		t.Fatal("an id outside the window was taken for a duplicate")
	}
	r.close()
}

// TestManifestLost: without a manifest the state is made from the log while that is whole, and refused
// by name when its beginning was reclaimed.
func TestManifestLost(t *testing.T) {
	r := lived(t, 3)
	lose := func(fs *vfs.Mem) {
		for g := range uint64(2) {
			if err := fs.Remove("data/" + format.ManifestName(g)); err != nil {
				t.Fatal(err)
			}
		}
	}
	o := r.on(r.fs.Crash(vfs.KeepAll()))
	lose(o.fs)
	o.open()
	if err := o.check(0); err != nil {
		t.Fatal(err)
	}
	o.close()
	r.expire()
	o = r.on(r.fs.Crash(vfs.KeepAll()))
	lose(o.fs)
	if err := o.tryOpen(); err == nil || !strings.Contains(err.Error(), "manifest") {
		t.Fatalf("opened without manifest over a log without its beginning: %v", err)
	}
}

// expire lets retention take what there is, and lives on until the log's first segments are given
// away.
func (r *rig) expire() {
	r.t.Helper()
	r.open()
	_, err := r.node.Catalog().Configure(r.t.Context(), someone, engine.ConfigureRequest{Queue: "q", Patch: format.QueueOptions{
		Set: format.OptRetentionSeconds | format.OptRetentionEnabled, RetentionSeconds: 5, RetentionEnabled: true}})
	if err != nil {
		r.t.Fatal(err)
	}
	for life := range 12 {
		for i := range 6 {
			r.mustPush("p0", fmt.Sprintf("late %d.%d", life, i))
			r.tick(3 * time.Second)
			r.node.SettleFiles()
		}
		r.close()
		r.open()
	}
	r.close()
}

// TestReclaim: segments in which nothing is retained are given away, oldest first, index files with
// them, and what is retained is read as before; a dead letter keeps its segment.
func TestReclaim(t *testing.T) {
	r := lived(t, 3)
	before := r.files(func(name string) bool { return kindOf(name) == "seg" })
	r.expire()
	o := r.on(r.fs.Crash(vfs.KeepAll()))
	o.open()
	if err := o.check(0); err != nil {
		t.Fatal(err)
	}
	if start, _, err := o.read("p1"); err != nil || start != len(o.pushed["p1"]) {
		t.Fatalf("p1 begins at %d of %d: %v", start, len(o.pushed["p1"]), err)
	}
	first := o.node.FirstSegment()
	o.close()
	if first <= 3 {
		t.Fatalf("the log begins with segment %d still, of %v before", first, before)
	}
	for _, name := range r.files(func(name string) bool { return path.Ext(name) == ".hsc" || path.Ext(name) == ".pidx" }) {
		var n uint32
		if _, err := fmt.Sscanf(name, "seg-%d", &n); err == nil && n < first {
			t.Errorf("%s is left behind", name)
		}
	}
}

// TestErrorAtEveryCall fails the n-th file operation of a kind: what was acknowledged before is there
// after a restart on the healed disk.
func TestErrorAtEveryCall(t *testing.T) {
	for _, kind := range []vfs.OpKind{vfs.OpWrite, vfs.OpSync, vfs.OpRename, vfs.OpSyncDir, vfs.OpCreate, vfs.OpRemove} {
		failed := 0
		step := int64(3)
		if testing.Short() {
			step = 14
		}
		for n := int64(1); n < 60; n += step {
			m := newMortal(t)
			faulty := errorfs.New(m.fs)
			inner := m.config
			m.config = func(c *engine.Config) { inner(c); c.FS = faulty }
			faulty.Inject(errorfs.Rule{Match: errorfs.Kinds(kind), Nth: n, Err: errors.New("injected")})
			if m.run() {
				continue
			}
			failed++
			m.judge(fmt.Sprintf("%v number %d failed", kind, n), func() *vfs.Mem { return m.fs.Crash(vfs.KeepAll()) })
		}
		t.Logf("%v: %d failed", kind, failed)
	}
}
