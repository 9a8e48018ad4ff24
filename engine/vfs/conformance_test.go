//go:build linux

// Every implementation and wrapper passes the same suite: it is the executable form of the comments in vfs.go, as
// far as a running process can see them. What only a crash can see is tested on Mem (mem_crash_test.go).
package vfs_test

import (
	"bytes"
	"errors"
	"io"
	iofs "io/fs"
	"math/rand/v2"
	"path"
	"slices"
	"testing"

	"queen/engine/vfs"
	"queen/engine/vfs/errorfs"
)

func TestConformance(t *testing.T) {
	implementations := []struct {
		name string
		open func(t *testing.T) (fs vfs.FS, dir string)
	}{
		{"mem", func(t *testing.T) (vfs.FS, string) { return vfs.NewMem(), "/" }},
		{"os-direct-dsync", osIn(vfs.ModeDirectDSync)},
		{"os-direct-fdatasync", osIn(vfs.ModeDirectSync)},
		{"os-buffered", osIn(vfs.ModeBufferedSync)},
		{"logging", func(t *testing.T) (vfs.FS, string) {
			return vfs.NewLogging(vfs.NewMem(), true, func(string) {}), "/"
		}},
		{"errorfs", func(t *testing.T) (vfs.FS, string) { return errorfs.New(vfs.NewMem()), "/" }},
	}
	for _, impl := range implementations {
		t.Run(impl.name, func(t *testing.T) {
			for _, c := range conformance {
				t.Run(c.name, func(t *testing.T) {
					fs, dir := impl.open(t)
					c.run(t, fs, func(name string) string { return path.Join(dir, name) })
				})
			}
		})
	}
}

func osIn(mode vfs.Mode) func(t *testing.T) (vfs.FS, string) {
	return func(t *testing.T) (vfs.FS, string) {
		return vfs.NewOS(vfs.OSOptions{BestMode: mode}), t.TempDir()
	}
}

// in turns a short name into a path below the test's directory.
type in func(name string) string

var conformance = []struct {
	name string
	run  func(t *testing.T, fs vfs.FS, in in)
}{
	{"open flags", testOpenFlags},
	{"read and write", testReadWrite},
	{"direct reads at any offset", testDirectReads},
	{"direct writes must be aligned", testDirectWrites},
	{"truncate and preallocate", testReshape},
	{"names", testNames},
	{"open file survives remove and rename", testOpenSurvives},
	{"directories", testDirectories},
	{"lock", testLock},
	{"free", testFree},
	{"helpers", testHelpers},
	{"random against bytes", testRandomAgainstBytes},
}

func testOpenFlags(t *testing.T, fs vfs.FS, in in) {
	_, err := fs.Open(in("a"), vfs.ReadOnly)
	wantIs(t, err, iofs.ErrNotExist)
	_, err = fs.Open(in("a"), vfs.Write)
	wantIs(t, err, iofs.ErrNotExist)
	_, err = fs.Open(in("none/a"), vfs.Create)
	wantIs(t, err, iofs.ErrNotExist)

	f := must(fs.Open(in("a"), vfs.Create|vfs.Exclusive))(t)
	write(t, f, "hello", 0)
	if f.Name() != in("a") {
		t.Errorf("name %q, want %q", f.Name(), in("a"))
	}
	ok(t, f.Close())
	if err := f.Close(); !errors.Is(err, iofs.ErrClosed) {
		t.Errorf("second close: %v", err)
	}
	if _, err := f.ReadAt(make([]byte, 1), 0); !errors.Is(err, iofs.ErrClosed) {
		t.Errorf("read of a closed file: %v", err)
	}
	_, err = fs.Open(in("a"), vfs.Create|vfs.Exclusive)
	wantIs(t, err, iofs.ErrExist)

	f = must(fs.Open(in("a"), vfs.ReadOnly))(t)
	if _, err := f.WriteAt([]byte("x"), 0); err == nil {
		t.Error("a read-only file took a write")
	}
	if err := f.WriteAtSync([]byte("x"), 0); err == nil {
		t.Error("a read-only file took a synced write")
	}
	ok(t, f.Close())
	f = must(fs.Open(in("a"), vfs.Create))(t)
	wantContent(t, fs, in("a"), "hello")
	ok(t, f.Close())
	f = must(fs.Open(in("a"), vfs.Write|vfs.Truncate))(t)
	wantContent(t, fs, in("a"), "")
	ok(t, f.Close())
	ok(t, fs.MkdirAll(in("d")))
	if _, err := fs.Open(in("d"), vfs.ReadOnly); err == nil {
		t.Error("a directory was opened as a file")
	}
}

func testReadWrite(t *testing.T, fs vfs.FS, in in) {
	f := must(vfs.OpenNew(fs, in("a")))(t)
	defer f.Close()
	write(t, f, "hello", 3)
	ok(t, f.WriteAtSync([]byte("HE"), 3))
	wantContent(t, fs, in("a"), "\x00\x00\x00HEllo")
	ok(t, f.WriteAtSync(nil, 100))
	wantSize(t, f, 8)
	p := make([]byte, 10)
	if n, err := f.ReadAt(p, 5); n != 3 || err != io.EOF || string(p[:n]) != "llo" {
		t.Errorf("read over the end: %d %v %q", n, err, p[:n])
	}
	if n, err := f.ReadAt(p[:3], 5); n != 3 || err != nil {
		t.Errorf("read up to the end: %d %v", n, err)
	}
	if n, err := f.ReadAt(p, 8); n != 0 || err != io.EOF {
		t.Errorf("read at the end: %d %v", n, err)
	}
	if _, err := f.ReadAt(p, -1); err == nil {
		t.Error("a read before the start")
	}
	if _, err := f.WriteAt(p, -1); err == nil {
		t.Error("a write before the start")
	}
	ok(t, f.Sync())
}

func testDirectReads(t *testing.T, fs vfs.FS, in in) {
	content := pattern(3*vfs.BlockSize + 100)
	ok(t, vfs.WriteFileSync(fs, in("a"), content))
	f := must(fs.Open(in("a"), vfs.Direct))(t)
	defer f.Close()
	t.Logf("mode %s", f.Mode())
	edges := []int{0, 1, 511, 512, vfs.BlockSize - 1, vfs.BlockSize, vfs.BlockSize + 1, 2 * vfs.BlockSize,
		3*vfs.BlockSize - 1, 3 * vfs.BlockSize, len(content) - 1, len(content), len(content) + 1,
		4 * vfs.BlockSize, 5 * vfs.BlockSize}
	for _, memory := range []int{0, 1} {
		buf := vfs.AlignedBuffer(8 * vfs.BlockSize)[memory:]
		for _, from := range edges {
			for _, to := range edges {
				if to < from {
					continue
				}
				p := buf[:to-from]
				n, err := f.ReadAt(p, int64(from))
				want := content[min(from, len(content)):min(to, len(content))]
				if !bytes.Equal(p[:n], want) || (err == io.EOF) != (n < len(p)) || (err != nil && err != io.EOF) {
					t.Fatalf("read [%d,%d) memory+%d: %d bytes, %v", from, to, memory, n, err)
				}
			}
		}
	}
	large := pattern(1<<20 + 17) // larger than any bounce buffer
	ok(t, vfs.WriteFileSync(fs, in("large"), large))
	g := must(fs.Open(in("large"), vfs.Direct))(t)
	defer g.Close()
	p := make([]byte, 1<<20)
	if n, err := g.ReadAt(p, 17); n != len(p) || err != nil || !bytes.Equal(p, large[17:]) {
		t.Errorf("large read: %d %v", n, err)
	}
}

func testDirectWrites(t *testing.T, fs vfs.FS, in in) {
	f := must(fs.Open(in("a"), vfs.Create|vfs.Direct))(t)
	defer f.Close()
	t.Logf("mode %s", f.Mode())
	block := vfs.AlignedBuffer(vfs.BlockSize)
	wantIs(t, f.WriteAtSync(block[:512], 0), vfs.ErrUnaligned)
	wantIs(t, f.WriteAtSync(block, 512), vfs.ErrUnaligned)
	_, err := f.WriteAt(block[:1], 0)
	wantIs(t, err, vfs.ErrUnaligned)
	wantSize(t, f, 0)

	unaligned := vfs.AlignedBuffer(1<<20 + vfs.BlockSize)[1:]
	copy(unaligned, pattern(len(unaligned)))
	ok(t, f.WriteAtSync(unaligned[:1<<20], 0))
	ok(t, f.WriteAtSync(unaligned[:vfs.BlockSize], 1<<20))
	copy(block, "second")
	ok(t, f.WriteAtSync(block, vfs.BlockSize))
	if n, err := f.WriteAt(block, 2*vfs.BlockSize); n != len(block) || err != nil {
		t.Fatalf("write: %d %v", n, err)
	}
	ok(t, f.Sync())
	want := append(pattern(1<<20), pattern(vfs.BlockSize)...)
	copy(want[vfs.BlockSize:], block)
	copy(want[2*vfs.BlockSize:], block)
	// Through another file that is not direct: completed direct writes are seen by it.
	if got := must(vfs.ReadFile(fs, in("a"), 2<<20))(t); !bytes.Equal(got, want) {
		t.Error("content differs")
	}
	copy(block, "third")
	ok(t, f.WriteAtSync(block, 0))
	copy(want, block)
	if got := must(vfs.ReadFile(fs, in("a"), 2<<20))(t); !bytes.Equal(got, want) {
		t.Error("a cached read does not see a direct write")
	}
}

func testReshape(t *testing.T, fs vfs.FS, in in) {
	f := must(vfs.OpenNew(fs, in("a")))(t)
	defer f.Close()
	write(t, f, "0123456789", 0)
	ok(t, f.Truncate(4))
	ok(t, f.Truncate(6))
	wantContent(t, fs, in("a"), "0123\x00\x00")
	switch err := f.Preallocate(vfs.BlockSize); {
	case errors.Is(err, errors.ErrUnsupported):
		t.Skip("this file system can not preallocate")
	default:
		ok(t, err)
	}
	wantSize(t, f, vfs.BlockSize)
	ok(t, f.Preallocate(10))
	wantSize(t, f, vfs.BlockSize)
	wantContent(t, fs, in("a"), "0123"+string(make([]byte, vfs.BlockSize-4)))
	if err := f.Truncate(-1); err == nil {
		t.Error("a negative size")
	}
}

func testNames(t *testing.T, fs vfs.FS, in in) {
	for _, name := range []string{"a", "b"} {
		ok(t, vfs.WriteFileSync(fs, in(name), []byte("in "+name)))
	}
	ok(t, fs.Rename(in("a"), in("b")))
	wantContent(t, fs, in("b"), "in a")
	wantIs(t, fs.Rename(in("a"), in("c")), iofs.ErrNotExist)
	ok(t, fs.Link(in("b"), in("c")))
	wantIs(t, fs.Link(in("b"), in("c")), iofs.ErrExist)
	wantIs(t, fs.Link(in("none"), in("d")), iofs.ErrNotExist)
	ok(t, fs.Remove(in("b")))
	wantIs(t, fs.Remove(in("b")), iofs.ErrNotExist)
	wantContent(t, fs, in("c"), "in a")
	ok(t, fs.Rename(in("c"), in("c")))
	wantList(t, fs, in("."), "c")
	wantIs(t, fs.Rename(in("c"), in("none/c")), iofs.ErrNotExist)
	wantIs(t, fs.Link(in("c"), in("none/c")), iofs.ErrNotExist)
	info := must(fs.Stat(in("c")))(t)
	if info != (vfs.Info{Size: 4}) {
		t.Errorf("stat: %+v", info)
	}
	_, err := fs.Stat(in("b"))
	wantIs(t, err, iofs.ErrNotExist)
}

func testOpenSurvives(t *testing.T, fs vfs.FS, in in) {
	f := must(vfs.OpenNew(fs, in("a")))(t)
	defer f.Close()
	write(t, f, "one", 0)
	ok(t, fs.Rename(in("a"), in("b")))
	write(t, f, "two", 0)
	wantContent(t, fs, in("b"), "two")
	ok(t, fs.Remove(in("b")))
	write(t, f, "three", 0)
	p := make([]byte, 5)
	if _, err := f.ReadAt(p, 0); err != nil || string(p) != "three" {
		t.Errorf("a removed file: %q %v", p, err)
	}
	ok(t, f.Sync())
}

func testDirectories(t *testing.T, fs vfs.FS, in in) {
	ok(t, fs.MkdirAll(in("x/y/z")))
	ok(t, fs.MkdirAll(in("x/y")))
	ok(t, vfs.WriteFileSync(fs, in("x/y/f"), nil))
	wantList(t, fs, in("x"), "y")
	wantList(t, fs, in("x/y"), "f", "z")
	wantList(t, fs, in("x/y/z"))
	if info := must(fs.Stat(in("x/y")))(t); info != (vfs.Info{Dir: true}) {
		t.Errorf("stat of a directory: %+v", info)
	}
	_, err := fs.List(in("none"))
	wantIs(t, err, iofs.ErrNotExist)
	wantIs(t, fs.SyncDir(in("none")), iofs.ErrNotExist)
	for what, err := range map[string]error{
		"removing a full directory": fs.Remove(in("x/y")),
		"renaming a directory":      fs.Rename(in("x/y/z"), in("w")),
		"renaming onto a directory": fs.Rename(in("x/y/f"), in("x/y/z")),
		"linking a directory":       fs.Link(in("x/y/z"), in("w")),
		"mkdir below a file":        fs.MkdirAll(in("x/y/f/g")),
		"sync-dir of a file":        fs.SyncDir(in("x/y/f")),
		"create below a file":       openError(fs, in("x/y/f/g"), vfs.Create),
	} {
		if err == nil {
			t.Errorf("%s succeeded", what)
		}
	}
	ok(t, fs.Remove(in("x/y/z")))
	wantList(t, fs, in("x/y"), "f")
	ok(t, fs.SyncDir(in("x/y")))
}

func testLock(t *testing.T, fs vfs.FS, in in) {
	lock := must(fs.Lock(in("LOCK")))(t)
	_, err := fs.Lock(in("LOCK"))
	wantIs(t, err, vfs.ErrLocked)
	var locked *vfs.LockedError
	if !errors.As(err, &locked) || locked.Holder == "" || locked.Holder == "unknown" || locked.Name != in("LOCK") {
		t.Errorf("lock error %#v", err)
	}
	other := must(fs.Lock(in("OTHER")))(t)
	ok(t, other.Close())
	ok(t, lock.Close())
	lock = must(fs.Lock(in("LOCK")))(t)
	ok(t, lock.Close())
	_, err = fs.Lock(in("none/LOCK"))
	wantIs(t, err, iofs.ErrNotExist)
}

func testFree(t *testing.T, fs vfs.FS, in in) {
	space := must(fs.Free(in(".")))(t)
	if space.Total <= 0 || space.Available <= 0 || space.Available > space.Total {
		t.Errorf("space %+v", space)
	}
	_, err := fs.Free(in("none"))
	wantIs(t, err, iofs.ErrNotExist)
}

func testHelpers(t *testing.T, fs vfs.FS, in in) {
	ok(t, vfs.MkdirAllSync(fs, in("p/q")))
	ok(t, vfs.WriteFileSync(fs, in("p/q/f"), []byte("long content")))
	ok(t, vfs.WriteFileSync(fs, in("p/q/f"), []byte("short")))
	wantContent(t, fs, in("p/q/f"), "short")
	wantList(t, fs, in("p/q"), "f")
	if _, err := vfs.ReadFile(fs, in("p/q/f"), 4); err == nil {
		t.Error("a file above the limit was read")
	}
}

// testRandomAgainstBytes runs writes, cuts and reads of all alignments against a byte slice.
func testRandomAgainstBytes(t *testing.T, fs vfs.FS, in in) {
	rng := rand.New(rand.NewPCG(1, 2))
	f := must(vfs.OpenNew(fs, in("a")))(t)
	defer f.Close()
	var model []byte
	for range 300 {
		off, n := rng.IntN(5*vfs.BlockSize), rng.IntN(3*vfs.BlockSize)
		switch rng.IntN(6) {
		case 0:
			model = append(model[:min(off, len(model))], make([]byte, max(0, off-len(model)))...)
			ok(t, f.Truncate(int64(off)))
		case 1, 2, 3:
			p := make([]byte, n)
			for i := range p {
				p[i] = byte(rng.Uint32())
			}
			if n > 0 {
				model = append(model, make([]byte, max(0, off+n-len(model)))...)
				copy(model[off:], p)
			}
			if rng.IntN(4) == 0 {
				ok(t, f.WriteAtSync(p, int64(off)))
			} else if _, err := f.WriteAt(p, int64(off)); err != nil {
				t.Fatal(err)
			}
		default:
			p := make([]byte, n)
			got, err := f.ReadAt(p, int64(off))
			want := model[min(off, len(model)):min(off+n, len(model))]
			if !bytes.Equal(p[:got], want) || (err == io.EOF) != (got < n) {
				t.Fatalf("read [%d,+%d) of %d: %d bytes, %v", off, n, len(model), got, err)
			}
		}
		wantSize(t, f, int64(len(model)))
	}
	wantContent(t, fs, in("a"), string(model))
}

func pattern(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i*7 + i>>8)
	}
	return p
}

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		ok(t, err)
		return v
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantIs(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
}

func openError(fs vfs.FS, name string, flags vfs.Flags) error {
	f, err := fs.Open(name, flags)
	if err == nil {
		f.Close()
	}
	return err
}

func write(t *testing.T, f vfs.File, text string, off int64) {
	t.Helper()
	if n, err := f.WriteAt([]byte(text), off); n != len(text) || err != nil {
		t.Fatalf("write: %d %v", n, err)
	}
}

func wantSize(t *testing.T, f vfs.File, want int64) {
	t.Helper()
	if size := must(f.Size())(t); size != want {
		t.Fatalf("size %d, want %d", size, want)
	}
}

func wantContent(t *testing.T, fs vfs.FS, name, want string) {
	t.Helper()
	if got := must(vfs.ReadFile(fs, name, 1<<20))(t); string(got) != want {
		t.Errorf("%s holds %.60q, want %.60q", name, got, want)
	}
}

func wantList(t *testing.T, fs vfs.FS, dir string, want ...string) {
	t.Helper()
	if got := must(fs.List(dir))(t); !slices.Equal(got, want) {
		t.Errorf("%s lists %q, want %q", dir, got, want)
	}
}
