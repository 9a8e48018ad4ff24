package logstore

import (
	"errors"
	"path"
	"runtime"
	"slices"
	"testing"
	"time"

	"queen/engine/format"
	"queen/engine/vfs"
)

// tailCase is a crashed log of a few extents in one segment, the model after each of them, and where each
// begins.
type tailCase struct {
	o      Options
	fs     *vfs.Mem
	name   string
	starts []int64
	states []*model // states[i]: before extent i
}

func newTailCase(t *testing.T, extents int) *tailCase {
	c := &tailCase{fs: vfs.NewMem()}
	c.o = testOptions(c.fs)
	c.o.BeaconEvery = time.Nanosecond
	c.name = path.Join(c.o.Dir, format.SegmentID(1).FileName())
	s := mustOpen(t, c.o)
	m := newModel()
	for i := range extents {
		c.starts, c.states = append(c.starts, s.Segments()[0].Used), append(c.states, m.clone())
		v := &Save{Group: 1, Replica: 1, Entries: []Entry{entry(format.Index(i+1), 1, encoded(20, 3000, uint64(i)))}}
		if err := s.Append(v); err != nil {
			t.Fatal(err)
		}
		m.apply(v)
	}
	c.states = append(c.states, m)
	settle(t, s)
	c.fs = c.fs.Crash(vfs.KeepAll())
	_ = s.Close()
	return c
}

// settle returns when the writer is done with everything before, the beacon included: it asks for what
// must be refused.
func settle(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Append(&Save{Group: 63, Replica: 1, Entries: []Entry{entry(1, 1, nil)}, Snapshot: &format.Snapshot{
		Group: 63, Replica: 1, Index: 9}, Install: true}); !errors.Is(err, ErrGap) {
		t.Fatal(err)
	}
}

func (c *tailCase) open(fs *vfs.Mem) (*Store, error) {
	o := c.o
	o.FS = fs
	return Open(o)
}

// TestBadExtentBeforeAGoodOne damages extents of the segment that was being written, with the beacon lost:
// only the last one may be taken for a torn write, the others are rot; nothing is truncated.
func TestBadExtentBeforeAGoodOne(t *testing.T) {
	c := newTailCase(t, 6)
	for i, start := range c.starts {
		for _, at := range []int64{20, 64, 2000, 3500} {
			fs := c.fs.Crash(vfs.KeepAll())
			if err := fs.Remove(path.Join(c.o.Dir, beaconName)); err != nil {
				t.Fatal(err)
			}
			if err := fs.FlipBit(c.name, start+at, 3); err != nil {
				t.Fatal(err)
			}
			s, err := c.open(fs)
			var rot *CorruptionError
			switch {
			case i < len(c.starts)-1:
				if !errors.As(err, &rot) || rot.Pos != start {
					t.Fatalf("extent %d at %d: %v", i, at, err)
				}
			case err != nil:
				t.Fatalf("last extent: %v", err)
			default:
				if diff := c.states[i].differs(s, true); diff != "" {
					t.Fatalf("last extent: %s", diff)
				}
			}
			if err == nil {
				_ = s.Close()
			}
		}
	}
}

// TestBeaconProvesTheLastExtent damages the last extent while the beacon counts it.
func TestBeaconProvesTheLastExtent(t *testing.T) {
	c := newTailCase(t, 4)
	for _, at := range []int64{0, 70, 3000} {
		fs := c.fs.Crash(vfs.KeepAll())
		if err := fs.FlipBit(c.name, c.starts[3]+at, 0); err != nil {
			t.Fatal(err)
		}
		var rot *CorruptionError
		if _, err := c.open(fs); !errors.As(err, &rot) || rot.Pos != c.starts[3] {
			t.Fatalf("at %d: %v", at, err)
		}
	}
}

// TestProven refuses a log that ends below what a checkpoint or a peer knows.
func TestProven(t *testing.T) {
	c := newTailCase(t, 4)
	for proven, want := range map[format.Index]bool{3: true, 4: true, 5: false} {
		c.o.Proven = map[format.RaftGroup]format.Index{1: proven}
		s, err := c.open(c.fs.Crash(vfs.KeepAll()))
		var rot *CorruptionError
		if want != (err == nil) || !want && !errors.As(err, &rot) {
			t.Fatalf("proven %d: %v", proven, err)
		}
		if err == nil {
			_ = s.Close()
		}
	}
}

// TestStaleExtent puts an extent that was written once at this very place, and dropped, back under a log
// that went another way: number, nonce and predecessor are right, and only the chain tells.
func TestStaleExtent(t *testing.T) {
	c := newTailCase(t, 2)
	branch := func(seed uint64) *vfs.Mem {
		fs := c.fs.Crash(vfs.KeepAll())
		s, err := c.open(fs)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			e := entry(format.Index(i+3), 1, encoded(20, 3000, seed+uint64(i)))
			if err := s.Append(&Save{Group: 1, Replica: 1, Entries: []Entry{e}}); err != nil {
				t.Fatal(err)
			}
		}
		out := fs.Crash(vfs.KeepAll())
		_ = s.Close()
		return out
	}
	a, b := branch(100), branch(200)
	from := c.starts[1] + (c.starts[1] - c.starts[0])
	third := readAll(t, a, c.name)[from : from+4096]
	if slices.Equal(third, readAll(t, b, c.name)[from:from+4096]) {
		t.Fatal("the branches are equal")
	}
	overwrite(t, b, c.name, from, third)
	var rot *CorruptionError
	if _, err := c.open(b); !errors.As(err, &rot) {
		t.Fatalf("stale extent: %v", err)
	}
}

// TestForgedExtentInPayload tears an extent whose payload holds the image of a later extent: a producer
// that knows the format can not make the node take a torn write for rot, since it does not know the nonce.
func TestForgedExtentInPayload(t *testing.T) {
	fs := vfs.NewMem()
	o := testOptions(fs)
	o.BeaconEvery = time.Hour
	s := mustOpen(t, o)
	forged := make([]byte, 3*4096)
	for at := range 2 {
		block := make([]byte, 4096)
		head := format.ExtentHead{Segment: 1, Number: uint32(2 + at), Nonce: 1, Previous: 5}
		copy(block, format.FinishExtent(make([]byte, format.ExtentHeadSize, 4096), &head))
		copy(forged[at*4096:], block)
	}
	data := encoded(0, 0, 1)
	// The record starts at 4096+64; the image must lie on a block boundary.
	pad := 4096 - format.ExtentHeadSize - format.RecordHeadSize - len(data)
	data = append(append(data, make([]byte, pad)...), forged...)
	if err := s.Append(&Save{Group: 1, Replica: 1, Entries: []Entry{entry(1, 1, data)}}); err != nil {
		t.Fatal(err)
	}
	settle(t, s)
	torn := fs.Crash(vfs.KeepAll())
	_ = s.Close()
	name := path.Join(o.Dir, format.SegmentID(1).FileName())
	if _, err := format.ParseExtentHead(readAll(t, torn, name)[8192:]); err != nil {
		t.Fatalf("the image is not on a block boundary: %v", err)
	}
	overwrite(t, torn, name, 4096, make([]byte, 512)) // the first sector did not reach the disk
	o.FS = torn
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if n := len(s.Replicas()); n != 0 {
		t.Fatalf("%d replicas", n)
	}
}

// TestTailIsFlushedBeforeItIsServed lets the process die between an extent's write and its flush: the next
// process sees the extent, and what it shows must survive a power cut that follows at once.
func TestTailIsFlushedBeforeItIsServed(t *testing.T) {
	c := newTailCase(t, 2)
	fs := c.fs
	s, err := c.open(fs)
	if err != nil {
		t.Fatal(err)
	}
	died := make(chan struct{})
	fs.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpPersist && op.Name == c.name {
			close(died)
			runtime.Goexit()
		}
		return nil
	})
	go s.Append(&Save{Group: 1, Replica: 1, Entries: []Entry{entry(3, 1, encoded(9, 100, 3))}})
	<-died
	fs.SetHook(nil)
	if s, err = c.open(fs); err != nil {
		t.Fatal(err)
	}
	seen, _ := s.Replica(1, 1)
	after := fs.Crash(vfs.DropUnsynced())
	_ = s.Close()
	if s, err = c.open(after); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if st, _ := s.Replica(1, 1); seen.Last != 3 || st.Last != seen.Last {
		t.Fatalf("entry %d was shown, the disk ends at %d", seen.Last, st.Last)
	}
}
