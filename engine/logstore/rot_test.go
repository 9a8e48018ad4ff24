package logstore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"testing"
	"time"

	"queen/engine/format"
	"queen/engine/vfs"
)

// readAll returns a file's bytes.
func readAll(t testing.TB, fs vfs.FS, name string) []byte {
	t.Helper()
	b, err := vfs.ReadFile(fs, name, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// overwrite changes a part of a file, durably.
func overwrite(t testing.TB, fs vfs.FS, name string, pos int64, b []byte) {
	t.Helper()
	f, err := fs.Open(name, vfs.Write)
	if err == nil {
		_, err = f.WriteAt(b, pos)
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}

// tornCase is a log whose last extent is known byte for byte.
type tornCase struct {
	o             Options
	before        *vfs.Mem // without the extent
	name          string   // of the segment
	pos           int64
	extent        []byte
	without, with *model
}

// newTornCase fills segments and reclaims them, so that the last extent goes onto a recycled file with old
// extents in it.
func newTornCase(t *testing.T, segmentBytes int64, last int) *tornCase {
	fs := vfs.NewMem()
	c := &tornCase{o: testOptions(fs)}
	c.o.SegmentBytes, c.o.BeaconEvery = segmentBytes, time.Hour // the beacon knows nothing of the last extent
	s := mustOpen(t, c.o)
	m := newModel()
	index := format.Index(0)
	put := func(size int) *Save {
		index++
		v := &Save{Group: 1, Replica: 1, Entries: []Entry{entry(index, 1, encoded(30, size, uint64(index)))}, Floor: index - 1}
		if err := s.Append(v); err != nil {
			t.Fatal(err)
		}
		m.apply(v)
		return v
	}
	newest := func() SegmentInfo { return s.Segments()[len(s.Segments())-1] }
	for newest().Segment < 4 || newest().Used < segmentBytes/3 {
		put(int(segmentBytes / 11))
		if err := reclaimOldest(s); err != nil {
			t.Fatal(err)
		}
	}
	c.before, c.without = fs.Crash(vfs.KeepAll()), m.clone()
	in := newest()
	put(last)
	c.with = m
	c.name = path.Join(c.o.Dir, format.SegmentID(in.Segment).FileName())
	after := newest()
	if after.Segment != in.Segment {
		t.Fatal("the last extent is in another segment")
	}
	c.pos, c.extent = in.Used, readAll(t, fs, c.name)[in.Used:after.Used]
	_ = s.Close()
	return c
}

// open opens a log of which the extent is torn so, and returns what it holds: 0 without the extent, 1 with
// it.
func (c *tornCase) open(t *testing.T, torn []byte) int {
	t.Helper()
	fs := c.before.Crash(vfs.KeepAll())
	overwrite(t, fs, c.name, c.pos, torn)
	o := c.o
	o.FS = fs
	s, err := Open(o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	defer s.Close()
	if c.with.differs(s, true) == "" {
		return 1
	}
	if diff := c.without.differs(s, true); diff != "" {
		t.Fatalf("neither with nor without the extent: %s", diff)
	}
	return 0
}

// TestTornExtent cuts the last extent at every byte, and a large one at every sector, with zeroes, noise
// or the old data of a recycled file behind: it is there as a whole or not at all, and what came before is
// untouched.
func TestTornExtent(t *testing.T) {
	for _, size := range []struct {
		segment int64
		last    int
		step    int
	}{{64 << 10, 3000, 1}, {64 << 10, 7000, 61}, {8 << 20, 900 << 10, 512 * 9}} {
		if testing.Short() {
			size.step = 11*size.step + size.step%512
		}
		c := newTornCase(t, size.segment, size.last)
		old := readAll(t, c.before, c.name)[c.pos:][:len(c.extent)]
		r := rand.New(rand.NewPCG(1, 2))
		whole := 0
		for cut := 0; cut <= len(c.extent); cut += size.step {
			torn := make([]byte, len(c.extent))
			switch cut / size.step % 3 {
			case 0:
				copy(torn, old)
			case 1:
				for i := range torn {
					torn[i] = byte(r.Uint32())
				}
			}
			copy(torn, c.extent[:cut])
			got, want := c.open(t, torn), 0
			if string(torn) == string(c.extent) {
				want = 1
				whole++
			}
			if got != want {
				t.Fatalf("extent of %d bytes cut at %d: %d, want %d", len(c.extent), cut, got, want)
			}
		}
		// Any choice of sectors: the extent counts only if all are there.
		for range 60 {
			torn := append([]byte(nil), old...)
			for at := 0; at < len(torn); at += 512 {
				if r.IntN(2) == 0 {
					copy(torn[at:at+512], c.extent[at:])
				}
			}
			if got := c.open(t, torn); got != 0 && string(torn) != string(c.extent) {
				t.Fatal("an extent with missing sectors was taken")
			}
		}
		if c.open(t, c.extent) != 1 {
			t.Fatal("the whole extent was not taken")
		}
	}
}

// TestRot flips one bit in every part of every file, of a log that was stopped in order and of one that
// crashed: the damage is named when the log is opened or verified, and no entry is served with wrong bytes
// unnoticed.
func TestRot(t *testing.T) {
	for _, clean := range []bool{true, false} {
		fs := vfs.NewMem()
		o := testOptions(fs)
		o.SegmentBytes, o.BeaconEvery, o.TailBytes = 64<<10, time.Nanosecond, -1
		g := newGenerator(9, 2, 2500, 6)
		g.noWild = true
		s := mustOpen(t, o)
		for len(s.Segments()) < 4 {
			if err := s.Append(g.next()); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Append(g.next()); err != nil {
			t.Fatal(err)
		}
		infos := s.Segments()
		settle(t, s)
		image := fs.Crash(vfs.KeepAll())
		if clean {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			image = fs
			infos[len(infos)-1].Sealed = true
		}
		r := rand.New(rand.NewPCG(4, 4))
		counts := map[string]int{}
		for _, in := range infos {
			for _, pos := range rotPositions(r, in) {
				what := rotOne(t, image, o, g.m, in, pos, uint(r.IntN(8)))
				counts[what]++
			}
		}
		t.Logf("clean %v: %v", clean, counts)
		if counts["unnoticed"] > 0 || counts["open"] == 0 || counts["verify"] == 0 && clean {
			t.Fatalf("%v", counts)
		}
	}
}

// rotPositions draws positions in block 0, in every extent and in the footer.
func rotPositions(r *rand.Rand, in SegmentInfo) []int64 {
	all := []int64{0, 9, 20, 60, 4000, 4095}
	for p := int64(4096); p < in.Used; p += 4096 {
		all = append(all, p+r.Int64N(64), p+64+r.Int64N(40), p+r.Int64N(4096), p+r.Int64N(4096))
	}
	if in.Sealed {
		all = append(all, in.Bytes-4096+r.Int64N(80), in.Bytes-8192+r.Int64N(64), in.Bytes-12288+r.Int64N(12))
	}
	return all
}

// rotOne flips a bit and tells how it was noticed.
func rotOne(t *testing.T, image *vfs.Mem, o Options, m *model, in SegmentInfo, pos int64, bit uint) string {
	fs := image.Crash(vfs.KeepAll())
	if err := fs.FlipBit(path.Join(o.Dir, format.SegmentID(in.Segment).FileName()), pos, bit); err != nil {
		t.Fatal(err)
	}
	o.FS = fs
	s, err := Open(o)
	var rot *CorruptionError
	if err != nil {
		if !errors.As(err, &rot) || !strings.Contains(rot.File, fmt.Sprint(in.Segment)) {
			t.Fatalf("segment %d position %d: open: %v", in.Segment, pos, err)
		}
		return "open"
	}
	defer s.Close()
	if err := s.Verify(in.Segment); err != nil {
		if !errors.As(err, &rot) {
			t.Fatalf("segment %d position %d: verify: %v", in.Segment, pos, err)
		}
		return "verify"
	}
	if diff := m.differs(s, true); diff != "" {
		t.Errorf("segment %d position %d (used %d, sealed %v): %s", in.Segment, pos, in.Used, in.Sealed, diff)
		return "unnoticed"
	}
	return "no effect"
}

// TestLostAndSwappedFiles removes, empties, shortens, exchanges and doubles segment files.
func TestLostAndSwappedFiles(t *testing.T) {
	fs := vfs.NewMem()
	o := testOptions(fs)
	o.SegmentBytes = 64 << 10
	sc := &scenario{o: o}
	g := newGenerator(2, 2, 2500, 6)
	g.noWild = true
	s := mustOpen(t, o)
	for len(s.Segments()) < 5 {
		if err := s.Append(g.next()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	name := func(n int) string { return path.Join(o.Dir, format.SegmentID(n).FileName()) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for what, damage := range map[string]func(fs *vfs.Mem){
		"middle removed": func(fs *vfs.Mem) { must(fs.Remove(name(3))) },
		"newest removed": func(fs *vfs.Mem) { must(fs.Remove(name(5))) },
		"all removed": func(fs *vfs.Mem) {
			for n := 1; n <= 5; n++ {
				must(fs.Remove(name(n)))
			}
		},
		"emptied":   func(fs *vfs.Mem) { truncate(t, fs, name(2), 0) },
		"shortened": func(fs *vfs.Mem) { truncate(t, fs, name(5), 40<<10) },
		"two exchanged": func(fs *vfs.Mem) {
			must(fs.Rename(name(2), "/log/x"))
			must(fs.Rename(name(3), name(2)))
			must(fs.Rename("/log/x", name(3)))
		},
		"doubled":         func(fs *vfs.Mem) { overwrite(t, fs, name(4), 0, readAll(t, fs, name(3))) },
		"a stale extent":  func(fs *vfs.Mem) { overwrite(t, fs, name(4), 8192, readAll(t, fs, name(3))[8192:12288]) },
		"a block of zero": func(fs *vfs.Mem) { overwrite(t, fs, name(4), 8192, make([]byte, 4096)) },
	} {
		damaged := fs.Crash(vfs.KeepAll())
		damage(damaged)
		one := sc.o
		one.FS = damaged
		s, err := Open(one)
		var rot *CorruptionError
		if err == nil {
			err = s.Verify(4)
			_ = s.Close()
		}
		if !errors.As(err, &rot) {
			t.Errorf("%s: %v", what, err)
			continue
		}
		t.Logf("%s: %v", what, err)
	}
}

func truncate(t *testing.T, fs vfs.FS, name string, size int64) {
	f, err := fs.Open(name, vfs.Write)
	if err == nil {
		err = f.Truncate(size)
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}
