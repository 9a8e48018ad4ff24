package checkpoint_test

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"testing"

	"queen/engine/checkpoint"
	"queen/engine/format"
	"queen/engine/vfs"
)

const dir = "/data"

func newFS(t testing.TB) *vfs.Mem {
	t.Helper()
	fs := vfs.NewMem()
	if err := vfs.MkdirAllSync(fs, dir); err != nil {
		t.Fatal(err)
	}
	return fs
}

// sample makes rows of all lengths, some across the border of a chunk.
func sample(n, each int) []checkpoint.Row {
	rows := make([]checkpoint.Row, n)
	for i := range rows {
		b := bytes.Repeat([]byte{byte(i), byte(i >> 8), 0x5a}, i%7*each/3)
		rows[i] = checkpoint.Row{Section: uint8(1 + i%8), Key: uint64(i) * 0x1_0000_0001, Bytes: b}
	}
	return rows
}

func write(fs vfs.FS, mark, parent uint64, rows []checkpoint.Row) (format.ManifestFile, error) {
	h := format.CheckpointHead{Kind: format.CheckpointBase, Group: 1, Mark: mark, Index: format.Index(10 * mark), Parent: parent}
	if parent != 0 {
		h.Kind = format.CheckpointDelta
	}
	h.Number = checkpoint.Number(mark, h.Kind)
	w, err := checkpoint.Create(fs, dir, h)
	if err != nil {
		return format.ManifestFile{}, err
	}
	for _, r := range rows {
		if err := w.Row(r); err != nil {
			return format.ManifestFile{}, err
		}
	}
	return w.Finish()
}

func load(fs vfs.FS, f format.ManifestFile) ([]checkpoint.Row, error) {
	var got []checkpoint.Row
	_, err := checkpoint.Load(fs, dir, f, func(r checkpoint.Row) error {
		r.Bytes = slices.Clone(r.Bytes)
		got = append(got, r)
		return nil
	})
	return got, err
}

func equal(a, b []checkpoint.Row) bool {
	return slices.EqualFunc(a, b, func(x, y checkpoint.Row) bool {
		return x.Section == y.Section && x.Key == y.Key && bytes.Equal(x.Bytes, y.Bytes)
	})
}

// What was written is what Load hands out, also when rows cross chunks or a chunk ends with a row.
func TestRoundTrip(t *testing.T) {
	fs := newFS(t)
	exact := []checkpoint.Row{{Section: 3, Key: 1, Bytes: make([]byte, format.ChunkBody-5)}, {Section: 4, Key: 2, Bytes: []byte("x")}}
	for i, rows := range [][]checkpoint.Row{nil, sample(3, 9), sample(4000, 900), exact} {
		f, err := write(fs, uint64(i+1), 0, rows)
		if err != nil {
			t.Fatal(err)
		}
		got, err := load(fs, f)
		if err != nil || !equal(rows, got) {
			t.Fatalf("case %d: %d rows, want %d, err %v", i, len(got), len(rows), err)
		}
	}
}

// A flipped bit anywhere, a shorter file, another file of the same name and a missing one are all a
// CorruptionError that names the file.
func TestDamageIsNamed(t *testing.T) {
	fs := newFS(t)
	f, err := write(fs, 7, 0, sample(300, 90))
	if err != nil {
		t.Fatal(err)
	}
	name := path.Join(dir, checkpoint.FileName(f.Number))
	var ce *checkpoint.CorruptionError
	step := max(int64(f.Size)/400, 1)
	for pos := int64(0); pos < int64(f.Size); pos += step {
		if err := fs.FlipBit(name, pos, uint(pos%8)); err != nil {
			t.Fatal(err)
		}
		if _, err := load(fs, f); !errors.As(err, &ce) || ce.File != name {
			t.Fatalf("bit flipped at %d: %v", pos, err)
		}
		if err := fs.FlipBit(name, pos, uint(pos%8)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := load(fs, f); err != nil {
		t.Fatalf("healed: %v", err)
	}
	other := f
	if _, err := write(fs, 7, 0, sample(300, 91)); err != nil {
		t.Fatal(err)
	}
	if _, err := load(fs, other); !errors.As(err, &ce) {
		t.Fatalf("another file under the name: %v", err)
	}
	if err := fs.Remove(name); err != nil {
		t.Fatal(err)
	}
	if _, err := load(fs, f); !errors.As(err, &ce) {
		t.Fatalf("no file: %v", err)
	}
}

// After a crash at any operation the name holds a whole file or none.
func TestWriteCrash(t *testing.T) {
	rows := sample(50, 50)
	for n := int64(1); ; n++ {
		fs := newFS(t)
		fs.PowerOffAt(n)
		f, err := write(fs, 3, 0, rows)
		if err == nil && !fs.PoweredOff() {
			if n < 6 {
				t.Fatalf("only %d operations", n)
			}
			return
		}
		for _, policy := range []vfs.CrashPolicy{vfs.DropUnsynced(), vfs.KeepAll(), vfs.RandomSubset(uint64(n))} {
			disk := fs.Crash(policy)
			if f, err = whole(t, rows); err != nil {
				t.Fatal(err)
			}
			if _, err := disk.Stat(path.Join(dir, checkpoint.FileName(f.Number))); err != nil {
				continue
			}
			if got, err := load(disk, f); err != nil || !equal(got, rows) {
				t.Fatalf("operation %d: a name with half a file: %v", n, err)
			}
		}
	}
}

func whole(t *testing.T, rows []checkpoint.Row) (format.ManifestFile, error) {
	return write(newFS(t), 3, 0, rows)
}

func line(mark, parent uint64) format.ManifestFile {
	kind := format.CheckpointDelta
	if parent == 0 {
		kind = format.CheckpointBase
	}
	return format.ManifestFile{Kind: format.FileCheckpoint, Number: checkpoint.Number(mark, kind), First: parent}
}

// Each base that is kept begins a chain to every later position.
func TestChains(t *testing.T) {
	base, delta := format.CheckpointBase, format.CheckpointDelta
	n := checkpoint.Number
	files := []format.ManifestFile{
		line(2, 0), line(4, n(2, base)), line(5, n(4, delta)), line(9, n(5, delta)), line(9, 0), line(11, n(9, delta)),
	}
	names := func(mark uint64) (out string) {
		for _, c := range checkpoint.Chains(files, mark) {
			for _, f := range c {
				out += checkpoint.FileName(f.Number)[10:] + " "
			}
			out += "| "
		}
		return out
	}
	for _, c := range []struct {
		mark uint64
		want string
	}{
		{2, "0002.base | "}, {4, "0002.base 0004.delta | "}, {3, ""},
		{9, "0009.base | 0002.base 0004.delta 0005.delta 0009.delta | "},
		{11, "0009.base 0011.delta | 0002.base 0004.delta 0005.delta 0009.delta 0011.delta | "},
	} {
		if got := names(c.mark); got != c.want {
			t.Errorf("mark %d: %q want %q", c.mark, got, c.want)
		}
	}
}

// A crash at any operation leaves the generation before or the new one.
func TestManifestCrash(t *testing.T) {
	m := format.Manifest{Boot: 1}
	for n := int64(1); ; n++ {
		fs := newFS(t)
		m := m
		for range 3 {
			if err := checkpoint.WriteManifest(fs, dir, &m); err != nil {
				t.Fatal(err)
			}
		}
		fs.PowerOffAt(n)
		m.Boot = 2
		err := checkpoint.WriteManifest(fs, dir, &m)
		if err == nil && !fs.PoweredOff() {
			return
		}
		for seed := range uint64(8) {
			found, err := checkpoint.ReadManifest(fs.Crash(vfs.RandomSubset(seed)), dir)
			if err != nil || found.Manifest == nil || found.Manifest.Generation < 3 {
				t.Fatalf("operation %d seed %d: %+v, %v", n, seed, found, err)
			}
			if (found.Manifest.Generation == 4) != (found.Manifest.Boot == 2) {
				t.Fatalf("operation %d: mixed generations", n)
			}
		}
	}
}

// Rot in one file is reported and leaves the other; rot in both leaves none.
func TestManifestRot(t *testing.T) {
	fs := newFS(t)
	m := format.Manifest{}
	for range 2 {
		if err := checkpoint.WriteManifest(fs, dir, &m); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []uint64{1, 0} {
		if err := fs.FlipBit(path.Join(dir, format.ManifestName(uint64(i))), 20, 3); err != nil {
			t.Fatal(err)
		}
		found, err := checkpoint.ReadManifest(fs, dir)
		if err != nil || len(found.Damaged) != i+1 || (found.Manifest == nil) != (want == 0) {
			t.Fatalf("%d files damaged: %+v, %v", i+1, found, err)
		}
		if want != 0 && found.Manifest.Generation != want {
			t.Fatalf("generation %d, want %d", found.Manifest.Generation, want)
		}
	}
}

// Sweep removes what the manifest does not list, and nothing of other kinds.
func TestSweep(t *testing.T) {
	fs := newFS(t)
	keep, err := write(fs, 1, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := write(fs, 2, keep.Number, nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ckp-0000000009.base.tmp", "ckp-x.base", "seg-0000000001.dat"} {
		if err := vfs.WriteFileSync(fs, path.Join(dir, name), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	gone, err := checkpoint.Sweep(fs, dir, []format.ManifestFile{keep})
	if err != nil || gone != 2 {
		t.Fatalf("%d files gone, %v", gone, err)
	}
	names, _ := fs.List(dir)
	if got := fmt.Sprint(names); got != "[ckp-0000000001.base ckp-x.base seg-0000000001.dat]" {
		t.Fatal(got)
	}
}

// No bytes of a file make the reader panic or believe a length.
func FuzzLoad(f *testing.F) {
	fs := newFS(f)
	line, err := write(fs, 5, 0, sample(20, 20))
	if err != nil {
		f.Fatal(err)
	}
	name := path.Join(dir, checkpoint.FileName(line.Number))
	whole, err := vfs.ReadFile(fs, name, 1<<30)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole[format.BlockSize+format.ChunkHeadSize:])
	f.Add([]byte{1, 0x80})
	f.Add([]byte{1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, stream []byte) {
		if len(stream) > format.ChunkBody {
			return
		}
		// The stream inside valid checksums, so that the row decoder sees it.
		h, err := format.ParseCheckpointHead(whole[:format.BlockSize])
		if err != nil {
			t.Fatal(err)
		}
		chunk := append(make([]byte, format.ChunkHeadSize), stream...)
		file := append(slices.Clone(whole[:format.BlockSize]), h.FinishChunk(chunk, 0, true)...)
		if err := vfs.WriteFileSync(fs, name, file); err != nil {
			t.Fatal(err)
		}
		l := line
		l.Size = uint64(len(file))
		_, _ = load(fs, l)
	})
}
