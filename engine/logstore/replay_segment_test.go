package logstore

import (
	"bytes"
	"errors"
	"testing"

	"queen/engine/format"
	"queen/engine/vfs"
)

// gapLog is a log of several segments of which every entry has an outcome, with a floor behind them all.
func gapLog(t *testing.T, o Options, entries, scale int) (s *Store, want [][]byte) {
	s = mustOpen(t, o)
	for i := 1; i <= entries; i++ {
		size := 9000 * scale
		if i%5 == 0 {
			size = 21000 * scale
		}
		data := encoded(300, size, uint64(i))
		save := Save{Group: 1, Replica: 1, Entries: []Entry{entry(format.Index(i), 1, data)}, Commit: format.Index(i)}
		if i > 1 {
			save.Outcomes = []Outcome{outcome(t, format.Index(i-1), format.Index(i-1), 1)}
		}
		if err := s.Append(&save); err != nil {
			t.Fatal(err)
		}
		want = append(want, data)
	}
	if err := s.Append(&Save{Group: 1, Replica: 1, Floor: format.Index(entries)}); err != nil {
		t.Fatal(err)
	}
	return s, want
}

// walkSegments shows every entry of every segment but the newest and returns how many had an outcome.
func walkSegments(t *testing.T, s *Store, want [][]byte) (outcomes int) {
	t.Helper()
	all := s.Segments()
	for _, g := range all[:len(all)-1] {
		if len(g.Groups) == 0 {
			continue
		}
		next := g.Groups[0].First()
		err := s.ReplaySegment(1, g.Segment, func(v View) error {
			e, err := format.ParseEntryHead(v.Head)
			if err != nil {
				return err
			}
			if v.Index != next || v.Pos.Segment != g.Segment || !bytes.Equal(v.Head[:e.PayloadBase], want[v.Index-1][:e.PayloadBase]) {
				t.Fatalf("segment %d: entry %d at %v, want %d", g.Segment, v.Index, v.Pos, next)
			}
			if v.Outcome != nil {
				outcomes++
			}
			next++
			return nil
		})
		if err != nil || next != g.Groups[0].Last()+1 {
			t.Fatalf("segment %d: came to %d of %d: %v", g.Segment, next-1, g.Groups[0].Last(), err)
		}
	}
	return outcomes
}

// TestGaps: segments between others are reclaimed; the log opens, goes on, and those left can be walked
// one by one. The newest sealed one may go as well, and the log's end does not depend on it.
func TestGaps(t *testing.T) {
	for n, clean := range []bool{true, false, false} {
		mem := vfs.NewMem()
		o, scale := testOptions(mem), 1
		if n == 2 { // entries in fragments
			if testing.Short() {
				break
			}
			o.SegmentBytes, o.ExtentBytes, o.SaverBytes, scale = 8<<20, 2<<20, 1<<20, 100
		}
		s, want := gapLog(t, o, 60, scale)
		all := s.Segments()
		if n := walkSegments(t, s, want); n != min(len(want)-1, int(all[len(all)-2].Groups[0].Last())) {
			t.Fatalf("%d outcomes, entries up to %d are sealed", n, all[len(all)-2].Groups[0].Last())
		}
		if len(all) < 6 {
			t.Fatalf("%d segments", len(all))
		}
		gone := map[uint32]bool{2: true, 3: true, all[len(all)-2].Segment: true}
		for seq := range gone {
			if err := s.Reclaim(seq); err != nil {
				t.Fatal(err)
			}
		}
		o.Reclaimed = func(seq uint32) bool { return gone[seq] }
		o.Closed = func(seq uint32) bool { return seq < all[len(all)-1].Segment }
		if clean {
			_ = s.Close()
		} else {
			o.FS = mem.Crash(vfs.KeepAll())
			_ = s.Close()
		}
		for range 2 {
			s = mustOpen(t, o)
			walkSegments(t, s, want)
			next := format.Index(len(want) + 1)
			data := encoded(30, 3000, uint64(next))
			if err := s.Append(&Save{Group: 1, Replica: 1, Entries: []Entry{entry(next, 1, data)}}); err != nil {
				t.Fatal(err)
			}
			want = append(want, data)
			_ = s.Close()
		}
		o.Reclaimed = nil
		var rot *CorruptionError
		if _, err := Open(o); !errors.As(err, &rot) {
			t.Fatalf("opened over a gap that nobody knows of: %v", err)
		}
	}
}
