package rows

import (
	"slices"
	"testing"

	"queen/engine/format"
	"queen/engine/vfs"
)

// rowsPerSegment counts the rows that files hold.
func rowsPerSegment(t *testing.T, x *Runs) map[format.SegmentID]int {
	t.Helper()
	n := map[format.SegmentID]int{}
	err := x.WalkAll(func(format.SegmentID) bool { return true }, func(r *Row) error {
		n[format.SegmentID(r.Segment)]++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestThin: rows of segments that are gone leave the runs that others hold, when half of what a run names is
// gone or the run is written anyway; runs of which little is left become one.
func TestThin(t *testing.T) {
	h := newHarness(t, vfs.NewMem(), 5)
	defer func() { h.runs.Shut() }()
	for range 27 {
		h.add(50)
		h.segment++
		if err := h.runs.Close(h.segment - 1); err != nil {
			t.Fatal(err)
		}
		h.closed = h.segment - 1
	}
	for again := true; again; {
		var err error
		if again, err = h.runs.Merge(); err != nil {
			t.Fatal(err)
		}
	}
	if files := h.runs.Files(); len(files) != 1 || files[0].Last != 27 {
		t.Fatalf("27 small segments are covered by %v", files)
	}
	live := func(s format.SegmentID) bool { return s%9 == 0 || s == 25 || s.IsBulk() }
	for steps := 0; ; steps++ {
		again, err := h.runs.Thin(live)
		if err != nil {
			t.Fatal(err)
		}
		if !again {
			if steps != 1 {
				t.Fatalf("%d steps", steps)
			}
			break
		}
	}
	want := map[format.SegmentID]int{9: 50, 18: 50, 25: 50, 27: 50}
	if n := rowsPerSegment(t, h.runs); !equalCounts(n, want) || !slices.Equal(h.runs.Segments(), []format.SegmentID{9, 18, 25, 27}) {
		t.Fatalf("rows %v of %v", n, h.runs.Segments())
	}
	// 18 moves, 25 is gone by now: the run is written anyway.
	var moved []Moved
	for _, frames := range h.frames {
		for i := range frames {
			if frames[i].Segment == 18 {
				moved = append(moved, movedTo(&frames[i].Row, format.BulkBit|4, 8)...)
			}
		}
	}
	err := h.runs.ReplaceSegments([]format.SegmentID{18}, moved, func(s format.SegmentID) bool { return s != 25 })
	want = map[format.SegmentID]int{9: 50, 27: 50, format.BulkBit | 4: 50}
	if n := rowsPerSegment(t, h.runs); err != nil || !equalCounts(n, want) {
		t.Fatalf("rows %v: %v", n, err)
	}
	row := moved[0]
	r, ok, err := h.x[row.Partition.RaftGroup()].Again(&Row{Partition: row.Partition, Base: row.Base})
	if err != nil || !ok || r.Segment != uint32(format.BulkBit|4) || r.Pos != 8 || r.Off != 0 {
		t.Fatalf("%+v %v %v", r, ok, err)
	}
	if _, ok, err := h.x[1].Again(&Row{Partition: 65, Base: 1 << 40}); ok || err != nil {
		t.Fatal(ok, err)
	}
}

func equalCounts(a, b map[format.SegmentID]int) bool {
	for s, n := range a {
		if b[s] != n {
			return false
		}
	}
	return len(a) == len(b)
}
