package logstore

import (
	"bytes"
	"errors"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"queen/engine/clock"
	"queen/engine/format"
	"queen/engine/vfs"
)

func bulkFrame(i int, size int) *format.StoredFrame {
	f := bytes.Repeat([]byte{byte(i), 7}, size/2)
	v := &format.StoredFrame{
		Group: 1, Replica: 1, Index: format.Index(i), Term: 1, Partition: 65, Base: format.Offset(i), W: 5, Frame: f,
		Origin: format.SegmentID(3 + i/4), Count: 9, Flags: format.RowNative,
	}
	if i%3 == 0 {
		v.Flags |= format.RowPartial
		v.Refused = []byte{byte(i), 0}
	}
	return v
}

// writeBulk writes frames of many sizes until one does not fit, and returns where they are.
func writeBulk(s *Store, sizes []int) (frames []*format.StoredFrame, placed []EntryPos, err error) {
	w, err := s.NewBulk(BulkOptions{Number: 1, Replaces: []format.SegmentID{format.BulkBit | 9}})
	if err != nil {
		return nil, nil, err
	}
	for i := 1; ; i++ {
		f := bulkFrame(i/2+1, sizes[i%len(sizes)]) // two frames of each entry
		pos, err := w.Add(f)
		if errors.Is(err, ErrTooLarge) {
			break
		}
		if err != nil {
			w.Abort()
			return nil, nil, err
		}
		frames, placed = append(frames, f), append(placed, pos)
	}
	return frames, placed, w.Finish()
}

func checkBulk(t *testing.T, s *Store, frames []*format.StoredFrame, placed []EntryPos) {
	t.Helper()
	for i, f := range frames {
		got, err := s.ReadAt(placed[i], 0, AllBytes, nil)
		if err != nil || !bytes.Equal(got, f.Frame) {
			t.Fatalf("frame %d: %d bytes, want %d: %v", i, len(got), len(f.Frame), err)
		}
		v, _, err := s.ReadFrame(placed[i], 0, uint32(len(f.Frame)), []byte("before"))
		if err != nil || !reflect.DeepEqual(&v, f) {
			t.Fatalf("frame %d: %+v, want %+v: %v", i, v, f, err)
		}
	}
	if len(frames) < 2 {
		t.Fatal("too few frames to prove anything")
	}
	checkWalk(t, s, frames, placed)
	if err := s.Verify(placed[0].Segment); err != nil {
		t.Fatal(err)
	}
}

// checkWalk walks the segment and looks at its list of what it replaces.
func checkWalk(t *testing.T, s *Store, frames []*format.StoredFrame, placed []EntryPos) {
	t.Helper()
	n, replaces := 0, map[format.SegmentID]bool{format.BulkBit | 9: true}
	err := s.WalkFrames(placed[0].Segment, func(pos EntryPos, length uint32, v *format.StoredFrame) error {
		want := *frames[n]
		want.Frame = nil
		if pos != placed[n] || int(length) != len(frames[n].Frame) || !reflect.DeepEqual(*v, want) {
			t.Fatalf("frame %d: %d bytes at %v: %+v, want %+v", n, length, pos, v, want)
		}
		replaces[v.Origin] = true
		n++
		return nil
	})
	if err != nil || n != len(frames) {
		t.Fatalf("walked over %d of %d frames: %v", n, len(frames), err)
	}
	if got := s.Bulks()[0].Replaces; !slices.Equal(got, slices.Sorted(maps.Keys(replaces))) {
		t.Fatalf("replaces %v, want %v", got, replaces)
	}
}

// TestBulkWithoutFooter: a segment whose footer is bad is refused when it was finished for all that is
// known, and removed when nothing says that it was.
func TestBulkWithoutFooter(t *testing.T) {
	mem := vfs.NewMem()
	o := testOptions(mem)
	s := mustOpen(t, o)
	if _, _, err := writeBulk(s, []int{500}); err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	name := "/log/" + (format.BulkBit | 1).FileName()
	info, err := mem.Stat(name)
	if err == nil {
		err = mem.FlipBit(name, info.Size-100, 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	var rot *CorruptionError
	for _, needed := range []func(uint32) bool{nil, func(s uint32) bool { return s == uint32(format.BulkBit|1) }} {
		o.BulkNeeded = needed
		if _, err := Open(o); !errors.As(err, &rot) || rot.File != name {
			t.Fatal(err)
		}
	}
	o.BulkNeeded = func(uint32) bool { return false }
	s = mustOpen(t, o)
	defer s.Close()
	if _, err := mem.Stat(name); err == nil || len(s.Bulks()) > 0 {
		t.Fatal("the segment that was never finished is there")
	}
}

// TestBulk fills a bulk segment to its end with small frames, and one with frames in fragments, and reads
// them before and after opening again. Reclaim removes it.
func TestBulk(t *testing.T) {
	for _, c := range []struct {
		segment int64
		sizes   []int
	}{{256 << 10, []int{100, 9000, 4000, 30}}, {16 << 20, []int{3 << 20, 100, 2 << 20}}} {
		if testing.Short() && c.segment > 1<<20 {
			continue
		}
		mem := vfs.NewMem()
		o := testOptions(mem)
		o.SegmentBytes = c.segment
		s := mustOpen(t, o)
		frames, placed, err := writeBulk(s, c.sizes)
		if err != nil {
			t.Fatal(err)
		}
		checkBulk(t, s, frames, placed)
		if _, err := s.NewBulk(BulkOptions{Number: 1}); !errors.Is(err, ErrInvalid) {
			t.Fatalf("a number twice: %v", err)
		}
		_ = s.Close()
		s = mustOpen(t, o)
		checkBulk(t, s, frames, placed)
		if err := s.Reclaim(placed[0].Segment); err != nil {
			t.Fatal(err)
		}
		if _, err := s.ReadAt(placed[0], 0, 1, nil); !errors.Is(err, ErrReclaimed) {
			t.Fatal(err)
		}
		_ = s.Close()
		s = mustOpen(t, o)
		if n := len(s.Bulks()); n != 0 {
			t.Fatalf("%d bulk segments", n)
		}
		_ = s.Close()
	}
}

// TestBulkCrashAtEveryOperation cuts the power while a bulk segment is written: afterwards it is there as
// a whole or not at all, and leaves no file behind.
func TestBulkCrashAtEveryOperation(t *testing.T) {
	for n := int64(1); ; n++ {
		mem := vfs.NewMem()
		o := testOptions(mem)
		s := mustOpen(t, o)
		mem.PowerOffAt(n)
		frames, placed, err := writeBulk(s, []int{3000, 800})
		finished, off := err == nil, mem.PoweredOff()
		for _, policy := range []vfs.CrashPolicy{vfs.DropUnsynced(), vfs.KeepAll(), vfs.RandomSubset(uint64(n))} {
			after := mem.Crash(policy)
			o.FS = after
			r := mustOpen(t, o)
			switch bulks := r.Bulks(); {
			case finished && len(bulks) != 1:
				t.Fatalf("operation %d: the finished segment is lost", n)
			case len(bulks) == 1 && len(frames) > 0:
				checkBulk(t, r, frames, placed)
			case len(bulks) == 0:
				if names, _ := after.List("/log"); len(names) != 4 {
					t.Fatalf("operation %d: files %v", n, names)
				}
			}
			_ = r.Close()
		}
		_ = s.Close()
		if !off {
			return
		}
	}
}

// TestBulkPace checks that the writer waits for its rate.
func TestBulkPace(t *testing.T) {
	o := testOptions(vfs.NewMem())
	fake := clock.NewFake(0)
	o.Clock = fake
	s := mustOpen(t, o)
	defer s.Close()
	w, err := s.NewBulk(BulkOptions{Number: 3, BytesPerSecond: 1000})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, err := w.Add(bulkFrame(1, 3000))
		if err == nil {
			err = w.Finish()
		}
		done <- err
	}()
	fake.WaitArmed(1) // 4 KiB at 1,000 bytes a second
	fake.Advance(4095 * time.Millisecond)
	select {
	case err := <-done:
		t.Fatalf("did not wait: %v", err)
	default:
	}
	fake.Advance(2 * time.Millisecond)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
