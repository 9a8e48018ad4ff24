package vfs_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/datadriven"

	"queen/engine/vfs"
)

// TestMem runs the scripts in testdata/mem. Each line of a command's input is one operation on one Mem; crash
// commands show what a disk would hold, without changing it, or continue on that disk with "crash-to".
func TestMem(t *testing.T) {
	datadriven.Walk(t, "testdata/mem", func(t *testing.T, path string) {
		s := &script{m: vfs.NewMem(), files: map[string]vfs.File{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "new":
				s.m, s.files = vfs.NewMem(), map[string]vfs.File{}
				return ""
			case "do":
				return s.do(d.Input)
			case "show":
				return show(s.m)
			case "crash":
				return show(s.m.Crash(policyOf(d)))
			case "crash-to":
				s.m, s.files = s.m.Crash(policyOf(d)), map[string]vfs.File{}
				return show(s.m)
			case "outcomes":
				return outcomes(s.m)
			}
			d.Fatalf(t, "unknown command %s", d.Cmd)
			return ""
		})
	})
}

func policyOf(d *datadriven.TestData) vfs.CrashPolicy {
	if d.HasArg("keep") {
		return vfs.KeepAll()
	}
	return vfs.DropUnsynced()
}

// outcomes lists every different disk that 400 random crashes leave, in order of appearance sorted by text.
func outcomes(m *vfs.Mem) string {
	seen := map[string]bool{}
	for seed := range uint64(400) {
		seen[strings.ReplaceAll(strings.TrimSpace(show(m.Crash(vfs.RandomSubset(seed)))), "\n", " | ")] = true
	}
	return strings.Join(sorted(seen), "\n")
}

type script struct {
	m     *vfs.Mem
	files map[string]vfs.File
}

func (s *script) do(input string) string {
	var out strings.Builder
	for line := range strings.Lines(input) {
		if err := s.one(strings.Fields(line)); err != nil {
			fmt.Fprintf(&out, "%s: %v\n", strings.TrimSpace(line), err)
		}
	}
	return out.String()
}

func (s *script) one(w []string) error {
	switch w[0] {
	case "open":
		f, err := vfs.OpenNew(s.m, w[1])
		if err == nil {
			s.files[w[1]] = f
		}
		return err
	case "reopen":
		f, err := s.m.Open(w[1], vfs.Write)
		if err == nil {
			s.files[w[1]] = f
		}
		return err
	case "rename":
		return s.m.Rename(w[1], w[2])
	case "link":
		return s.m.Link(w[1], w[2])
	case "remove":
		return s.m.Remove(w[1])
	case "mkdir":
		return s.m.MkdirAll(w[1])
	case "sync-dir":
		return s.m.SyncDir(w[1])
	case "capacity":
		s.m.SetCapacity(number(w[1]))
		return nil
	case "fail-next":
		armed := true
		s.m.SetHook(func(op vfs.Op) error {
			if armed && op.Kind.String() == w[1] {
				armed = false
				return errors.New("injected")
			}
			return nil
		})
		return nil
	}
	f := s.files[w[1]]
	switch w[0] {
	case "write": // name off letter length
		_, err := f.WriteAt([]byte(strings.Repeat(w[3], int(number(w[4])))), number(w[2]))
		return err
	case "write-sync":
		return f.WriteAtSync([]byte(strings.Repeat(w[3], int(number(w[4])))), number(w[2]))
	case "sync":
		return f.Sync()
	case "truncate":
		return f.Truncate(number(w[2]))
	case "preallocate":
		return f.Preallocate(number(w[2]))
	case "close":
		return f.Close()
	}
	return fmt.Errorf("unknown operation %q", w[0])
}

func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// show lists all names with their content as runs, "a*512 .*100": a dot is a zero byte.
func show(fs vfs.FS) string {
	var out strings.Builder
	var walk func(dir string)
	walk = func(dir string) {
		names, err := fs.List(dir)
		if err != nil {
			fmt.Fprintf(&out, "%v\n", err)
			return
		}
		for _, name := range names {
			p := strings.TrimSuffix(dir, "/") + "/" + name
			if info, _ := fs.Stat(p); info.Dir {
				fmt.Fprintf(&out, "%s/\n", p)
				walk(p)
				continue
			}
			content, err := vfs.ReadFile(fs, p, 1<<20)
			if err != nil {
				fmt.Fprintf(&out, "%v\n", err)
				continue
			}
			fmt.Fprintf(&out, "%s:%s\n", p, runs(content))
		}
	}
	walk("/")
	if out.Len() == 0 {
		return "empty\n"
	}
	return out.String()
}

func runs(content []byte) string {
	var out strings.Builder
	for i := 0; i < len(content); {
		j := i
		for j < len(content) && content[j] == content[i] {
			j++
		}
		c := content[i]
		if c == 0 {
			c = '.'
		}
		fmt.Fprintf(&out, " %c*%d", c, j-i)
		i = j
	}
	return out.String()
}

func TestMemPowerOff(t *testing.T) {
	m := vfs.NewMem()
	f := must(vfs.OpenNew(m, "a"))(t)
	ok(t, m.SyncDir("/"))
	if m.Ops() != 2 {
		t.Fatalf("%d operations, want create and sync-dir", m.Ops())
	}
	m.PowerOffAt(3)
	write(t, f, "x", 0)
	ok(t, f.Sync())
	if m.PoweredOff() {
		t.Fatal("too early")
	}
	_, err := f.WriteAt([]byte("y"), 0)
	wantIs(t, err, vfs.ErrPowerOff)
	if !m.PoweredOff() {
		t.Fatal("the power is still on")
	}
	_, readErr := f.ReadAt(make([]byte, 1), 0)
	_, sizeErr := f.Size()
	_, openErr := m.Open("a", vfs.ReadOnly)
	_, createErr := m.Open("b", vfs.Create)
	_, lockErr := m.Lock("LOCK")
	_, listErr := m.List("/")
	_, statErr := m.Stat("/")
	_, freeErr := m.Free("/")
	for _, err := range []error{readErr, sizeErr, openErr, createErr, lockErr, listErr, statErr, freeErr,
		f.Sync(), f.WriteAtSync([]byte("y"), 0), f.Truncate(0), f.Preallocate(9), m.Rename("a", "b"), m.Link("a", "b"),
		m.Remove("a"), m.MkdirAll("d"), m.SyncDir("/")} {
		wantIs(t, err, vfs.ErrPowerOff)
	}
	ok(t, f.Close())
	wantContent(t, m.Crash(vfs.KeepAll()), "a", "x")
	wantContent(t, m.Crash(vfs.DropUnsynced()), "a", "x")
}

// A hook sees every mutating operation before it happens and can look at the disk of that moment.
func TestMemHook(t *testing.T) {
	m := vfs.NewMem()
	var ops, disks []string
	m.SetHook(func(op vfs.Op) error {
		ops = append(ops, op.String())
		disks = append(disks, strings.TrimSpace(show(m.Crash(vfs.KeepAll()))))
		return nil
	})
	ok(t, vfs.MkdirAllSync(m, "d"))
	f := must(vfs.OpenNew(m, "d/a"))(t)
	write(t, f, "ab", 1)
	ok(t, f.WriteAtSync([]byte("c"), 0))
	ok(t, f.Sync())
	ok(t, f.Truncate(2))
	ok(t, f.Preallocate(4))
	must(m.Open("d/a", vfs.Truncate))(t).Close()
	f.Close()
	ok(t, m.Link("d/a", "d/b"))
	ok(t, m.Rename("d/b", "d/c"))
	ok(t, m.Remove("d/c"))
	want := []string{"mkdir-all: d", "sync-dir: .", "create: d/a", "write: d/a [1,+2]", "write-sync: d/a [0,+1]",
		"persist: d/a [0,+1]", "sync: d/a", "truncate: d/a 2", "preallocate: d/a 4",
		"truncate: d/a 0", "link: d/a -> d/b",
		"rename: d/b -> d/c", "remove: d/c"}
	if got := strings.Join(ops, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("operations:\n%s", got)
	}
	if disks[0] != "empty" || disks[5] != "/d/\n/d/a: c*1 a*1 b*1" || disks[8] != "/d/\n/d/a: c*1 a*1" {
		t.Errorf("disks: %q", disks)
	}
	if m.Ops() != int64(len(want)) {
		t.Errorf("%d counted, %d seen", m.Ops(), len(want))
	}
}

func TestMemCapacity(t *testing.T) {
	m := vfs.NewMem()
	m.SetCapacity(3 * vfs.BlockSize)
	f := must(vfs.OpenNew(m, "a"))(t)
	write(t, f, "x", vfs.BlockSize) // one block; a hole before it
	ok(t, f.Preallocate(2*vfs.BlockSize))
	if s := must(m.Free("/"))(t); s != (vfs.Space{Total: 3 * vfs.BlockSize, Available: vfs.BlockSize}) {
		t.Fatalf("space %+v", s)
	}
	if _, err := f.WriteAt(make([]byte, 2*vfs.BlockSize), 2*vfs.BlockSize); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("write beyond the limit: %v", err)
	}
	wantSize(t, f, 2*vfs.BlockSize)
	wantIs(t, f.Preallocate(4*vfs.BlockSize), vfs.ErrNoSpace)
	wantIs(t, f.WriteAtSync(make([]byte, 2*vfs.BlockSize), 2*vfs.BlockSize), vfs.ErrNoSpace)
	ok(t, f.WriteAtSync(make([]byte, 2*vfs.BlockSize), 0)) // preallocated space is always there
	g := must(vfs.OpenNew(m, "b"))(t)
	write(t, g, "y", 0)
	_, err := g.WriteAt([]byte("y"), vfs.BlockSize)
	wantIs(t, err, vfs.ErrNoSpace)

	available := func() int64 { return must(m.Free("/"))(t).Available }
	ok(t, m.Link("a", "c"))
	ok(t, m.Remove("a"))
	ok(t, m.Remove("c"))
	if available() != 0 {
		t.Error("space of an open file was given back")
	}
	f.Close()
	if available() != 2*vfs.BlockSize {
		t.Errorf("%d available after remove and close", available())
	}
	ok(t, g.Truncate(0))
	if available() != 3*vfs.BlockSize {
		t.Errorf("%d available after truncate", available())
	}
	write(t, g, "z", 0)
	ok(t, m.SyncDir("/"))
	ok(t, g.Sync())
	crashed := m.Crash(vfs.DropUnsynced())
	if s := must(crashed.Free("/"))(t); s.Available != 2*vfs.BlockSize {
		t.Errorf("after a crash: %+v", s)
	}
}

func TestMemFlipBit(t *testing.T) {
	m := vfs.NewMem()
	f := must(vfs.OpenNew(m, "a"))(t)
	write(t, f, "AA", 0)
	ok(t, f.Sync())
	write(t, f, "B", 1)
	ok(t, m.SyncDir("/"))
	ok(t, m.FlipBit("a", 0, 1))
	ok(t, m.FlipBit("a", 1, 0))
	wantContent(t, m, "a", "CC")
	wantContent(t, m.Crash(vfs.DropUnsynced()), "a", "C@")
	if m.FlipBit("a", 2, 0) == nil || m.FlipBit("a", 0, 8) == nil || m.FlipBit("b", 0, 0) == nil {
		t.Error("a bit that does not exist was flipped")
	}
}
