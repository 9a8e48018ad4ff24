package rows

import (
	"errors"
	"flag"
	"fmt"
	"testing"

	"queen/engine/format"
	"queen/engine/vfs"
	"queen/engine/vfs/errorfs"
)

var everyFault = flag.Bool("every-fault", false, "crash and fail at every operation, not at some")

const faultSteps = 60

// run does steps until one fails.
func (h *harness) run(steps int) error {
	for i := range steps {
		if err := h.step(); err != nil {
			return err
		}
		for range 3 {
			if err := h.check(h.x); err != nil {
				return fmt.Errorf("step %d: %w", i, err)
			}
		}
	}
	return nil
}

// seeds is how many seeds a test plays, half of them with -short.
func seeds(n uint64) uint64 {
	if testing.Short() {
		return n / 2
	}
	return n
}

// stride spreads about want faults over n places.
func stride(n, want int64) int64 {
	switch {
	case *everyFault:
		return 1
	case testing.Short():
		want = max(1, want/4)
	}
	return max(1, n/want)
}

// TestCrashes: the power fails at any write, flush or rename. What was closed is there afterwards, as
// the old files or the new ones, and the index goes on.
func TestCrashes(t *testing.T) {
	for seed := range seeds(2) {
		fs := vfs.NewMem()
		h := newHarness(t, fs, seed)
		before := fs.Ops()
		if err := h.run(faultSteps); err != nil {
			t.Fatal(err)
		}
		total := fs.Ops() - before
		if total < 80 {
			t.Fatalf("only %d operations", total)
		}
		step := stride(total, 16)
		for n := int64(1); n <= total; n += step {
			for k, policy := range []vfs.CrashPolicy{vfs.DropUnsynced(), vfs.KeepAll(), vfs.RandomSubset(uint64(n))} {
				if err := crashAt(t, seed, n, policy); err != nil {
					t.Fatalf("seed %d, power off at %d, policy %d: %v", seed, n, k, err)
				}
			}
		}
	}
}

func crashAt(t *testing.T, seed uint64, n int64, policy vfs.CrashPolicy) error {
	fs := vfs.NewMem()
	h := newHarness(t, fs, seed)
	fs.PowerOffAt(n)
	if err := h.run(faultSteps); err == nil || !fs.PoweredOff() {
		return fmt.Errorf("no crash: %v", err)
	}
	h.fs = fs.Crash(policy)
	if err := h.open(); err != nil {
		return err
	}
	for range 30 {
		if err := h.check(h.x); err != nil {
			return err
		}
	}
	if err := h.finishRelocation(); err != nil {
		return err
	}
	return h.run(25)
}

// TestErrors: any one call fails. Nothing is answered wrongly, and the same call does it again.
func TestErrors(t *testing.T) {
	fs := errorfs.New(vfs.NewMem())
	h := newHarness(t, fs, 1)
	before := fs.Calls()
	if err := h.run(faultSteps); err != nil {
		t.Fatal(err)
	}
	total := fs.Calls() - before
	for n := int64(1); n <= total; n += stride(total, 60) {
		fs := errorfs.New(vfs.NewMem())
		h := newHarness(t, fs, 1)
		fs.Inject(errorfs.Rule{Nth: n, After: n%3 == 0, Short: int(n % 2 * 4096)})
		failed := 0
		for i := range faultSteps {
			err := h.run(1)
			if err == nil {
				continue
			}
			if failed++; !errors.Is(err, errorfs.ErrInjected) || failed > 1 {
				t.Fatalf("call %d fails, step %d: %v", n, i, err)
			}
			// A restart that failed has no index; everything else is good to go on.
			if err := h.again(); err != nil {
				t.Fatalf("call %d fails, after step %d: %v", n, i, err)
			}
		}
	}
}

// again restarts where a failed restart left nothing, and finishes what was begun.
func (h *harness) again() error {
	if h.down {
		if err := h.open(); err != nil {
			return err
		}
	}
	if err := h.finishRelocation(); err != nil {
		return err
	}
	for range 20 {
		if err := h.check(h.x); err != nil {
			return err
		}
	}
	return nil
}

// rotStride is how far the flipped bits are apart at most.
func rotStride() int64 {
	switch {
	case *everyFault:
		return 1
	case testing.Short():
		return 700
	}
	return 110
}

// TestRot: one bit of a run file is different. Every answer is right or a *DamageError that names the
// file; a rebuild of its range brings everything back.
func TestRot(t *testing.T) {
	fs := vfs.NewMem()
	h := newHarness(t, fs, 3)
	for range 4 {
		h.add(300)
		if err := h.close(); err != nil {
			t.Fatal(err)
		}
	}
	for {
		again, err := h.runs.Merge()
		if err != nil {
			t.Fatal(err)
		}
		if !again {
			break
		}
	}
	h.runs.Shut()
	names, err := fs.List("/index")
	if err != nil {
		t.Fatal(err)
	}
	damaged, seen := 0, 0
	for _, name := range names {
		info, err := fs.Stat("/index/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for pos := int64(h.rng.IntN(64)); pos < info.Size; pos += 1 + int64(h.rng.IntN(int(rotStride()))) {
			bad := fs.Crash(vfs.KeepAll())
			if err := bad.FlipBit("/index/"+name, pos, uint(h.rng.IntN(8))); err != nil {
				t.Fatal(err)
			}
			h.fs = bad
			named, err := h.rotten(t, name)
			if err != nil {
				t.Fatalf("%s, byte %d: %v", name, pos, err)
			}
			seen++
			if named {
				damaged++
			}
		}
	}
	// Zeros between and behind the packed rows are under the checksum too: nothing goes unnoticed.
	if damaged != seen || seen < 100 {
		t.Fatalf("%d of %d flips were found", damaged, seen)
	}
}

// rotten looks at everything in a damaged index, and reports whether the damage was met.
func (h *harness) rotten(t *testing.T, name string) (named bool, err error) {
	t.Helper()
	var d *DamageError
	h.runs, err = Open(h.options())
	if err != nil {
		return false, err
	}
	defer func() { h.runs.Shut() }()
	lost := h.runs.Lost()
	for _, g := range lost {
		if !errors.As(g.Err, &d) || d.File != name {
			return false, fmt.Errorf("lost: %v", g.Err)
		}
	}
	h.x = map[format.RaftGroup]*Index{1: h.runs.Index(1), 2: h.runs.Index(2)}
	if len(lost) > 0 {
		return true, nil
	}
	for pid, chain := range h.chains {
		from := format.Offset(0)
		for from < h.next[pid] {
			row, ok, err := h.x[pid.RaftGroup()].At(pid, from, chain[len(chain)-1])
			if err != nil {
				if !errors.As(err, &d) || d.File != name {
					return false, err
				}
				named = true
				break
			}
			if !ok {
				return false, fmt.Errorf("partition %d offset %d is not there", pid, from)
			}
			if err := same(&row, h.model.at(pid, from, chain[len(chain)-1]), from); err != nil {
				return false, err
			}
			from = row.End()
		}
	}
	return named, nil
}

// TestExchangedBlock: a block with a good checksum in the place of another is damage.
func TestExchangedBlock(t *testing.T) {
	fs := vfs.NewMem()
	h := newHarness(t, fs, 5)
	h.add(3000)
	if err := h.close(); err != nil {
		t.Fatal(err)
	}
	h.runs.Shut()
	f, err := fs.Open("/index/"+runName(h.closed, h.closed), vfs.Write)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var a, b [format.BlockSize]byte
	for i, p := range [][]byte{a[:], b[:]} {
		if _, err := f.ReadAt(p, int64(2+i)*format.BlockSize); err != nil {
			t.Fatal(err)
		}
	}
	for i, p := range [][]byte{b[:], a[:]} {
		if _, err := f.WriteAt(p, int64(2+i)*format.BlockSize); err != nil {
			t.Fatal(err)
		}
	}
	named, err := h.rotten(t, runName(h.closed, h.closed))
	if err != nil || !named {
		t.Fatal(named, err)
	}
}

// TestLost: a run file is gone. Look-ups that need it fail, others do not; a rebuild of the gap from
// several segments, of two copies the later, brings it back.
func TestLost(t *testing.T) {
	fs := vfs.NewMem()
	h := newHarness(t, fs, 6)
	for range 5 {
		h.add(200)
		if err := h.close(); err != nil {
			t.Fatal(err)
		}
	}
	h.runs.Shut()
	gone := h.closed / 2
	if err := fs.Remove("/index/" + runName(gone, gone)); err != nil {
		t.Fatal(err)
	}
	var err error
	if h.runs, err = Open(h.options()); err != nil {
		t.Fatal(err)
	}
	lost := h.runs.Lost()
	if len(lost) != 1 || lost[0].First != gone || lost[0].Last != gone {
		t.Fatal(lost)
	}
	h.x = map[format.RaftGroup]*Index{1: h.runs.Index(1), 2: h.runs.Index(2)}
	failed := 0
	for range 400 {
		var d *DamageError
		switch err := h.check(h.x); {
		case err == nil:
		case errors.As(err, &d) && d.First == gone:
			failed++
		default:
			t.Fatal(err)
		}
	}
	if failed == 0 || failed == 400 {
		t.Fatalf("%d of 400 look-ups failed", failed)
	}
	b, err := h.runs.Rebuild(gone, gone)
	if err != nil {
		t.Fatal(err)
	}
	for _, frames := range h.frames {
		var rows, stale []Row
		for i := range frames {
			if r := frames[i].Row; r.Segment == gone {
				rows = append(rows, r)
				r.Pos, r.Number = r.Pos+8, 0
				stale = append(stale, r)
			}
		}
		for _, copies := range [][]Row{stale, rows} {
			if err := b.Add(copies); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := b.Finish(); err != nil {
		t.Fatal(err)
	}
	for range 400 {
		if err := h.check(h.x); err != nil {
			t.Fatal(err)
		}
	}
	if len(h.runs.Lost()) != 0 {
		t.Fatal(h.runs.Lost())
	}
}
