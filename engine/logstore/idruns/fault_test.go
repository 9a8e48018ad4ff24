package idruns

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"testing"

	"queen/engine/format"
	"queen/engine/vfs"
	"queen/engine/vfs/errorfs"
)

var everyFault = flag.Bool("every-fault", false, "crash and fail at every operation, not at some")

func stride(n, want int64) int64 {
	switch {
	case *everyFault:
		return 1
	case testing.Short():
		want = max(1, want/4)
	}
	return max(1, n/want)
}

// life is a set with its history, and what a checkpoint would list at each mark.
type life struct {
	*history
	fs    vfs.FS
	s     *Set
	added [][]format.IDRow
	marks []Mark
	lists [][]format.ManifestFile // after each mark
}

func (l *life) open(kept int) (err error) {
	var files []format.ManifestFile
	if kept > 0 {
		files = l.lists[kept-1]
	}
	l.s, err = Open(Options{FS: l.fs, Dir: "/ids", Group: 5, Files: files, ClearTo: uint64(kept), CacheBytes: 64 << 10})
	return err
}

func newLife(t *testing.T, fs vfs.FS, seed uint64) *life {
	t.Helper()
	if err := vfs.MkdirAllSync(fs, "/ids"); err != nil {
		t.Fatal(err)
	}
	l := &life{history: newHistory(seed), fs: fs}
	if err := l.open(0); err != nil {
		t.Fatal(err)
	}
	return l
}

// live adds chunks, works ahead, and keeps the files of every tenth mark; each call may fail and is
// then made again by retry.
func (l *life) live(marks int, retry func(error) error) error {
	try := func(call func() error) error {
		err := call()
		if err != nil {
			if err = retry(err); err == nil {
				err = call()
			}
		}
		return err
	}
	for range marks {
		rows := l.chunk()
		l.added, l.marks = append(l.added, rows), append(l.marks, l.mark)
		if err := try(func() error { return l.s.Add(l.mark, Slice(rows)) }); err != nil {
			return err
		}
		l.lists = append(l.lists, l.s.Files())
		for range 3 {
			if err := try(func() error { _, err := l.s.Step(200); return err }); err != nil {
				return err
			}
		}
		if len(l.marks)%10 == 0 {
			if err := try(func() error { return l.s.Discard(l.lists[len(l.lists)-1]) }); err != nil {
				return err
			}
		}
		if err := try(func() error { return l.check(l.s, l.s.ClearTo()) }); err != nil {
			return err
		}
	}
	return nil
}

func giveUp(err error) error { return err }

// TestCrashes: the power fails at any operation. The files listed at the newest kept mark are whole,
// and replaying the chunks since gives the files that a set without a crash has.
func TestCrashes(t *testing.T) {
	const marks = 45
	fs := vfs.NewMem()
	whole := newLife(t, fs, 1)
	before := fs.Ops()
	if err := whole.live(marks, giveUp); err != nil {
		t.Fatal(err)
	}
	total := fs.Ops() - before
	for n := int64(1); n <= total; n += stride(total, 20) {
		for k, policy := range []vfs.CrashPolicy{vfs.DropUnsynced(), vfs.KeepAll(), vfs.RandomSubset(uint64(n))} {
			fs := vfs.NewMem()
			l := newLife(t, fs, 1)
			fs.PowerOffAt(n)
			if err := l.live(marks, giveUp); err == nil {
				t.Fatal("no crash")
			}
			l.fs = fs.Crash(policy)
			if err := l.after(whole); err != nil {
				t.Fatalf("power off at %d, policy %d: %v", n, k, err)
			}
		}
	}
}

// after restarts from the newest list that was kept before the crash, replays, and compares.
func (l *life) after(whole *life) error {
	kept := len(l.lists) / 10 * 10
	if err := l.open(kept); err != nil {
		return err
	}
	if damaged := l.s.Damaged(); len(damaged) > 0 {
		return errors.Join(damaged...)
	}
	for i := kept - kept%ChunkGroup; i < len(whole.marks); i++ {
		if err := l.s.Add(whole.marks[i], Slice(whole.added[i])); err != nil {
			return err
		}
		if !slices.Equal(l.s.Files(), whole.lists[i]) {
			return fmt.Errorf("mark %d: %v, want %v", i+1, l.s.Files(), whole.lists[i])
		}
		if _, err := l.s.Step(300); err != nil {
			return err
		}
	}
	defer l.s.Close()
	return whole.check(l.s, l.s.ClearTo())
}

// TestErrors: any one call fails. Made again it goes on, with the same files in the end.
func TestErrors(t *testing.T) {
	const marks = 40
	fs := errorfs.New(vfs.NewMem())
	whole := newLife(t, fs, 2)
	before := fs.Calls()
	if err := whole.live(marks, giveUp); err != nil {
		t.Fatal(err)
	}
	total := fs.Calls() - before
	if err := whole.twoMore(); err != nil {
		t.Fatal(err)
	}
	for n := int64(1); n <= total; n += stride(total, 60) {
		fs := errorfs.New(vfs.NewMem())
		l := newLife(t, fs, 2)
		fs.Inject(errorfs.Rule{Nth: n, After: n%3 == 0, Short: int(n % 2 * 4096)})
		err := l.live(marks, func(err error) error {
			if !errors.Is(err, errorfs.ErrInjected) {
				return err
			}
			// What could not be read counts as damaged until somebody says it is repaired.
			var d *DamageError
			if errors.As(err, &d) {
				if err := l.s.Repair(d.First, d.Last); err != nil {
					return err
				}
			}
			return nil
		})
		for _, d := range l.s.Damaged() {
			e := d.(*DamageError)
			err = errors.Join(err, l.s.Repair(e.First, e.Last))
		}
		if err != nil {
			t.Fatalf("call %d fails: %v", n, err)
		}
		if err := l.twoMore(); err != nil {
			t.Fatalf("call %d fails: %v", n, err)
		}
		if !slices.Equal(l.s.Files(), whole.s.Files()) {
			t.Fatalf("call %d fails: %v, want %v", n, l.s.Files(), whole.s.Files())
		}
		l.s.Close()
	}
}

// twoMore adds a group or more of marks without ids. What was held up by a damaged run is merged then.
func (l *life) twoMore() error {
	for range 2 * ChunkGroup {
		l.mark.Number, l.mark.W, l.mark.Horizon = l.mark.Number+1, l.mark.W+10, l.mark.Horizon+10
		if err := l.s.Add(l.mark, nil); err != nil {
			return err
		}
	}
	return nil
}

// TestRot: one bit of a run is different. Look-ups are right or fail naming the file; chunks go on
// being added; with the file as it was, Repair brings everything back.
func TestRot(t *testing.T) {
	fs := vfs.NewMem()
	l := newLife(t, fs, 4)
	if err := l.live(36, giveUp); err != nil {
		t.Fatal(err)
	}
	l.s.Close()
	list := l.lists[len(l.lists)-1]
	found, flips := 0, 60
	if testing.Short() {
		flips = 15
	}
	for i := 0; i < flips; i++ {
		bad := fs.Crash(vfs.KeepAll())
		f := list[l.rng.IntN(len(list))]
		name := runName(5, f.First, f.Last)
		if err := bad.FlipBit("/ids/"+name, l.rng.Int64N(int64(f.Size)), uint(l.rng.IntN(8))); err != nil {
			t.Fatal(err)
		}
		l.fs = bad
		if err := l.open(len(l.lists)); err != nil {
			t.Fatal(err)
		}
		damage := l.everything(name)
		if damage != nil {
			found++
		}
		for m, k := l.mark, 0; k < 20; k++ { // merges meet the damage
			m.Number, m.W = m.Number+1, m.W+10
			m.Horizon = m.W - 600
			row := format.IDRow{Partition: 69, Hash: format.IDHash{255, byte(k)}, Offset: 1 << 40, W: m.W}
			if err := l.s.Add(m, Slice{row}); err != nil {
				t.Fatalf("%s: add: %v", name, err)
			}
		}
		for _, d := range l.s.Damaged() {
			var e *DamageError
			if !errors.As(d, &e) || e.File != name {
				t.Fatalf("%s: %v", name, d)
			}
			damage = e
		}
		if damage == nil {
			t.Fatalf("%s: nobody noticed", name)
		}
		if err := l.repair(fs, bad, damage); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		l.s.Close()
	}
	if found == 0 {
		t.Fatal("no look-up met the damage")
	}
}

// everything looks every id up, and returns the damage met. Wrong answers panic.
func (l *life) everything(name string) (damage *DamageError) {
	for _, k := range l.keys {
		row, found, err := l.s.Probe(k.Partition, k.Hash)
		if err != nil {
			if !errors.As(err, &damage) || damage.File != name {
				panic(err)
			}
			continue
		}
		want := l.rows[k][len(l.rows[k])-1]
		if found && row != want || !found && want.W >= l.gone {
			panic(fmt.Sprint(k, row, found, want))
		}
	}
	return damage
}

// repair puts the good file back.
func (l *life) repair(good, bad *vfs.Mem, damage *DamageError) error {
	b, err := vfs.ReadFile(good, "/ids/"+damage.File, 1<<20)
	if err != nil {
		return err
	}
	// The damaged bytes themselves are refused.
	if err := l.s.Repair(damage.First, damage.Last); err == nil {
		return errors.New("damage was taken for good")
	}
	if err := vfs.WriteFileSync(bad, "/ids/"+damage.File, b); err != nil {
		return err
	}
	if err := l.s.Repair(damage.First, damage.Last); err != nil {
		return err
	}
	if d := l.s.Damaged(); len(d) > 0 {
		return errors.Join(d...)
	}
	if d := l.everything(damage.File); d != nil {
		return d
	}
	return nil
}

// TestOrder: chunks come without gap; one that is held is passed over.
func TestOrder(t *testing.T) {
	l := newLife(t, vfs.NewMem(), 5)
	if err := l.live(5, giveUp); err != nil {
		t.Fatal(err)
	}
	if err := l.s.Add(Mark{Number: 7}, nil); !errors.Is(err, ErrOrder) {
		t.Fatal(err)
	}
	if err := l.s.Add(l.marks[4], Slice(l.added[4])); err != nil || len(l.s.pend) != 1 {
		t.Fatal("a chunk that waits was taken twice", err)
	}
	if err := l.s.Add(l.marks[2], Slice(l.added[2])); err != nil || l.s.ClearTo() != 4 {
		t.Fatal(err, l.s.ClearTo())
	}
}
