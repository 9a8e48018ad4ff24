package vfs_test

import (
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"queen/engine/vfs"
)

// TestLogging shows the lines; testdata/logging is also the syscall golden of WriteFileSync and MkdirAllSync.
func TestLogging(t *testing.T) {
	datadriven.RunTest(t, "testdata/logging/replace", func(t *testing.T, d *datadriven.TestData) string {
		var lines []string
		fs := vfs.NewLogging(vfs.NewMem(), d.HasArg("reads") || d.Cmd == "all", func(line string) {
			lines = append(lines, line)
		})
		switch d.Cmd {
		case "replace":
			ok(t, vfs.MkdirAllSync(fs, "data/log"))
			ok(t, vfs.WriteFileSync(fs, "data/log/f", []byte("content")))
			must(vfs.ReadFile(fs, "data/log/f", 10))(t)
		case "all":
			everyOperation(t, fs)
		}
		return strings.Join(lines, "\n")
	})
}

func everyOperation(t *testing.T, fs vfs.FS) {
	f := must(fs.Open("a", vfs.Create|vfs.Exclusive))(t)
	_ = openError(fs, "a", vfs.Create|vfs.Exclusive)
	_ = openError(fs, "none", vfs.Write)
	write(t, f, "abc", 5)
	_, _ = f.WriteAt([]byte("x"), -1)
	ok(t, f.WriteAtSync([]byte("abc"), 0))
	_, _ = f.ReadAt(make([]byte, 9), 0)
	ok(t, f.Truncate(3))
	ok(t, f.Preallocate(4096))
	ok(t, f.Sync())
	must(f.Size())(t)
	ok(t, f.Close())
	ok(t, openError(fs, "a", vfs.Create|vfs.Truncate))
	ok(t, fs.Link("a", "b"))
	ok(t, fs.Rename("b", "c"))
	_ = fs.Rename("b", "c")
	ok(t, fs.Remove("c"))
	ok(t, fs.MkdirAll("d"))
	must(fs.List("."))(t)
	must(fs.Stat("a"))(t)
	must(fs.Free("/"))(t)
	ok(t, fs.SyncDir("."))
	lock := must(fs.Lock("L"))(t)
	_, _ = fs.Lock("L")
	ok(t, lock.Close())
}
