package procfs

import (
	"os"
	"path/filepath"
	"testing"
)

func TestSelf(t *testing.T) {
	u, err := Self().Usage()
	if err != nil {
		t.Fatal(err)
	}
	if u.RSS < 1<<20 || u.FDs < 3 || u.Threads < 1 {
		t.Errorf("%+v", u)
	}
	if n, err := Self().Switches(); err != nil || n < 1 {
		t.Errorf("%d switches of a process that has read files: %v", n, err)
	}
}

// TestDisk writes and flushes a file where there is a device to count at: both counters move.
func TestDisk(t *testing.T) {
	dir := t.TempDir()
	d, err := DiskOf(dir)
	if err != nil {
		t.Skip(err)
	}
	before, err := d.Counters()
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, "f1"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(make([]byte, 8192)); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	after, err := d.Counters()
	if err != nil {
		t.Fatal(err)
	}
	if u, err := Self().Usage(); err != nil || u.Written < 8192 {
		t.Errorf("a process that has flushed 8 KiB wrote %d bytes: %v", u.Written, err)
	}
	if n := after.Sub(before); n.Writes == 0 || n.WriteBytes < 8192 {
		t.Errorf("a flushed file of 8 KiB counts as %+v", n)
	}
}

// TestMeter: of several processes the sum is read.
func TestMeter(t *testing.T) {
	one, err := NewMeter(".", Self())
	if err != nil {
		t.Fatal(err)
	}
	three, err := NewMeter(".", Self(), Self(), Self())
	if err != nil {
		t.Fatal(err)
	}
	before := one.Read().Usage
	sum := three.Read().Usage
	after := one.Read().Usage
	if sum.CPU < 3*before.CPU || sum.CPU > 3*after.CPU || sum.Threads < 3 || sum.FDs < 3*3 || sum.RSS < 3<<20 {
		t.Errorf("%+v of three, %+v and %+v of one", sum, before, after)
	}
	if _, err := NewMeter(".", Self(), Process(-1)); err == nil {
		t.Error("a process that is not there is watched")
	}
}

func TestDirBytes(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"seg-001.dat", "seg-002.dat", "keyed/table-1"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, make([]byte, 10_000), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	total, kinds, err := DirBytes(dir)
	if err != nil {
		t.Fatal(err)
	}
	if total != kinds["seg-"]+kinds["keyed/table-"] || kinds["seg-"] != 2*kinds["keyed/table-"] {
		t.Errorf("%d in all, %v", total, kinds)
	}
}
