package errorfs_test

import (
	"errors"
	"io"
	"syscall"
	"testing"

	"queen/engine/vfs"
	"queen/engine/vfs/errorfs"
)

// TestEveryCallFails fails each call of replacing a file in turn, before and after it took effect. The call must
// report it, and the name must hold the old content or the new one, now and after the hardest crash.
func TestEveryCallFails(t *testing.T) {
	const before, after = "before", "after it"
	prepare := func() (*vfs.Mem, *errorfs.FS) {
		m := vfs.NewMem()
		check(t, vfs.WriteFileSync(m, "f", []byte(before)))
		return m, errorfs.New(m)
	}
	_, fs := prepare()
	check(t, vfs.WriteFileSync(fs, "f", []byte(after)))
	calls := fs.Calls()
	if calls != 6 {
		t.Fatalf("%d calls, want create, write, sync, close, rename, sync-dir", calls)
	}
	for _, late := range []bool{false, true} {
		for n := int64(1); n <= calls; n++ {
			m, fs := prepare()
			fs.Inject(errorfs.Rule{Nth: n, After: late})
			if err := vfs.WriteFileSync(fs, "f", []byte(after)); !errors.Is(err, errorfs.ErrInjected) {
				t.Fatalf("call %d failed and the result is %v", n, err)
			}
			for _, disk := range []*vfs.Mem{m, m.Crash(vfs.DropUnsynced())} {
				got, err := vfs.ReadFile(disk, "f", 100)
				check(t, err)
				if s := string(got); s != before && s != after {
					t.Fatalf("call %d: %q", n, s)
				}
			}
		}
	}
}

func TestRules(t *testing.T) {
	fs := errorfs.New(vfs.NewMem())
	remove := fs.Inject(errorfs.Rule{
		Match: errorfs.All(errorfs.Kinds(vfs.OpWrite, vfs.OpSync), errorfs.Base("*.dat")),
		Nth:   2, Err: syscall.EIO,
	})
	f, g := open(t, fs, "a.dat"), open(t, fs, "b.idx")
	check(t, g.Sync())
	check(t, f.Sync())
	check(t, g.Sync())
	if err := f.Sync(); !errors.Is(err, syscall.EIO) {
		t.Fatalf("the second matching call: %v", err)
	}
	check(t, f.Sync())
	remove()
	removeAll := fs.Inject(errorfs.Rule{Match: errorfs.Base("new")})
	for range 2 {
		if err := fs.Rename("a.dat", "new"); !errors.Is(err, errorfs.ErrInjected) {
			t.Fatalf("a rename to a matching name: %v", err)
		}
	}
	removeAll()
	check(t, fs.Rename("a.dat", "new"))
	fs.Inject(errorfs.Rule{Match: errorfs.Mutating()})
	if _, err := fs.Stat("new"); err != nil {
		t.Fatal(err)
	}
	if err := fs.Remove("new"); err == nil {
		t.Fatal("a mutating call passed")
	}
	for kind, want := range map[vfs.OpKind]int64{vfs.OpSync: 5, vfs.OpCreate: 2, vfs.OpRename: 3} {
		if got := fs.Count(kind); got != want {
			t.Errorf("%s was counted %d times, want %d", kind, got, want)
		}
	}
}

// A flush that fails once and then succeeds has not made durable what the failed one should have.
func TestFlushFailsOnce(t *testing.T) {
	m := vfs.NewMem()
	fs := errorfs.New(m)
	f := open(t, fs, "a")
	check(t, fs.SyncDir("/"))
	fs.Inject(errorfs.Rule{Match: errorfs.Kinds(vfs.OpSync), Nth: 1})
	writeAt(t, f, "lost", 0)
	if err := f.Sync(); !errors.Is(err, errorfs.ErrInjected) {
		t.Fatal(err)
	}
	check(t, f.Sync())
	content(t, m, "a", "lost")
	content(t, m.Crash(vfs.DropUnsynced()), "a", "")
}

// The flush took place and its answer got lost: the bytes are durable although the caller was told otherwise.
func TestFlushFailsAfter(t *testing.T) {
	m := vfs.NewMem()
	fs := errorfs.New(m)
	f := open(t, fs, "a")
	check(t, fs.SyncDir("/"))
	fs.Inject(errorfs.Rule{Match: errorfs.Kinds(vfs.OpSync, vfs.OpWriteSync), After: true})
	writeAt(t, f, "kept", 0)
	if err := f.Sync(); !errors.Is(err, errorfs.ErrInjected) {
		t.Fatal(err)
	}
	if err := f.WriteAtSync([]byte("!"), 4); !errors.Is(err, errorfs.ErrInjected) {
		t.Fatal(err)
	}
	content(t, m.Crash(vfs.DropUnsynced()), "a", "kept!")
}

func TestShortWrites(t *testing.T) {
	m := vfs.NewMem()
	fs := errorfs.New(m)
	f := open(t, fs, "a")
	check(t, fs.SyncDir("/"))
	remove := fs.Inject(errorfs.Rule{
		Match: errorfs.Kinds(vfs.OpWrite, vfs.OpWriteSync), Short: 3, Err: io.ErrShortWrite,
	})
	if n, err := f.WriteAt([]byte("abcdef"), 0); n != 3 || !errors.Is(err, io.ErrShortWrite) {
		t.Fatalf("%d %v", n, err)
	}
	if err := f.WriteAtSync([]byte("xyzxyz"), 3); !errors.Is(err, io.ErrShortWrite) {
		t.Fatal(err)
	}
	content(t, m, "a", "abcxyz")
	content(t, m.Crash(vfs.DropUnsynced()), "a", "")
	remove()

	d, err := fs.Open("d", vfs.Create|vfs.Direct)
	check(t, err)
	fs.Inject(errorfs.Rule{Match: errorfs.Kinds(vfs.OpWrite), Short: vfs.BlockSize + 5})
	n, err := d.WriteAt(make([]byte, 2*vfs.BlockSize), 0)
	if n != vfs.BlockSize || !errors.Is(err, errorfs.ErrInjected) {
		t.Fatalf("%d %v", n, err)
	}
}

func TestDamage(t *testing.T) {
	fs := errorfs.New(vfs.NewMem())
	f := open(t, fs, "a")
	writeAt(t, f, "AAAAAAAA", 0)
	read := func(off, n int) string {
		p := make([]byte, n)
		if _, err := f.ReadAt(p, int64(off)); err != nil {
			return err.Error()
		}
		return string(p)
	}
	fs.FlipBit("a", 2, 1)
	fs.FailRead("a", 5, 7, nil)
	for _, c := range []struct {
		off, n int
		want   string
	}{{0, 5, "AACAA"}, {2, 1, "C"}, {3, 2, "AA"}, {7, 1, "A"}, {4, 2, "read a: input/output error"},
		{6, 2, "read a: input/output error"}} {
		if got := read(c.off, c.n); got != c.want {
			t.Errorf("read [%d,+%d): %q, want %q", c.off, c.n, got, c.want)
		}
	}
	fs.Heal()
	if got := read(0, 8); got != "AAAAAAAA" {
		t.Errorf("healed: %q", got)
	}
	fs.Inject(errorfs.Rule{Match: errorfs.Kinds(vfs.OpRead), Nth: 2})
	if read(0, 1) != "A" || read(0, 1) != "read a: errorfs: injected" || read(0, 1) != "A" {
		t.Error("the second read, and only it, should have failed")
	}
}

func open(t *testing.T, fs vfs.FS, name string) vfs.File {
	t.Helper()
	f, err := vfs.OpenNew(fs, name)
	check(t, err)
	return f
}

func writeAt(t *testing.T, f vfs.File, text string, off int64) {
	t.Helper()
	_, err := f.WriteAt([]byte(text), off)
	check(t, err)
}

func content(t *testing.T, fs vfs.FS, name, want string) {
	t.Helper()
	got, err := vfs.ReadFile(fs, name, 1<<20)
	check(t, err)
	if string(got) != want {
		t.Errorf("%s holds %q, want %q", name, got, want)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
