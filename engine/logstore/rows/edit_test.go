package rows

import (
	"errors"
	"testing"

	"queen/engine/format"
	"queen/engine/vfs"
	"queen/engine/vfs/errorfs"
)

// editor edits single rows of a harness.
type editor struct {
	*harness
	origin map[[2]uint64]format.SegmentID // of frames that were edited, by raft group and number
}

// edit moves or drops about a tenth of the rows in files.
func (e *editor) edit() error {
	e.bulk++
	to := format.BulkBit | format.SegmentID(e.bulk)
	var edits []Edited
	for _, g := range []format.RaftGroup{1, 2} {
		frames := e.frames[g]
		for i := range frames {
			f := &frames[i]
			if f.gone || f.Refused != nil || f.Segment > e.closed && f.Segment < 1<<31 || e.rng.IntN(10) > 0 {
				continue
			}
			key := [2]uint64{uint64(g), f.Number}
			if e.origin[key] == 0 {
				e.origin[key] = format.SegmentID(f.Segment)
			}
			d := Edited{Partition: f.Partition, Base: f.Base, From: format.SegmentID(f.Segment), FromPos: f.Pos, Origin: e.origin[key]}
			switch e.rng.IntN(4) {
			case 0: // the row leads elsewhere: nothing happens
				d.FromPos += 8
				d.Drop = true
			case 1:
				d.Drop, f.gone = true, true
			default:
				d.Segment, d.Pos, d.Length = to, 8*e.rng.Uint32N(1000), e.rng.Uint32N(9000)
				f.Segment, f.Pos, f.Off, f.Len, f.Flags = uint32(to), d.Pos, 0, d.Length, f.Flags|Compacted
			}
			edits = append(edits, d)
		}
	}
	e.rng.Shuffle(len(edits), func(i, j int) { edits[i], edits[j] = edits[j], edits[i] })
	if err := e.runs.EditRows(edits, nil); err != nil {
		return err
	}
	return e.runs.EditRows(edits, nil) // again: nothing more happens
}

// TestEditRows: rows that are moved one by one, with other lengths, or dropped from the middle of a partition, are found
// as a plain list tells, whatever is merged, closed and opened again between.
func TestEditRows(t *testing.T) {
	for seed := range seeds(4) {
		e := &editor{harness: newHarness(t, vfs.NewMem(), seed), origin: map[[2]uint64]format.SegmentID{}}
		for i := range 300 {
			var err error
			switch k := e.rng.IntN(100); {
			case k < 55:
				e.add(1 + e.rng.IntN(40))
			case k < 75:
				err = e.close()
			case k < 85:
				_, err = e.runs.Merge()
			case k < 95:
				err = e.edit()
			default:
				e.runs.Shut()
				err = e.open()
			}
			for range 6 {
				if err == nil {
					err = e.check(e.x)
				}
			}
			if err != nil {
				t.Fatalf("seed %d step %d: %v", seed, i, err)
			}
			e.checkCensus(t)
		}
		e.runs.Shut()
	}
}

// TestEditRowsInOrder: the runs of older segments are replaced before those of newer ones, and an edit that was cut short is
// finished when it is repeated: what is newer never goes before what is older.
func TestEditRowsInOrder(t *testing.T) {
	faulty := errorfs.New(vfs.NewMem())
	h := newHarness(t, faulty, 5)
	defer func() { h.runs.Shut() }()
	var edits []Edited
	for n := range uint32(4) {
		h.add(30)
		h.segment++
		if err := h.runs.Close(n + 1); err != nil {
			t.Fatal(err)
		}
	}
	for _, frames := range h.frames {
		for i := range frames {
			if f := &frames[i]; f.Refused == nil {
				edits = append(edits, Edited{Partition: f.Partition, Base: f.Base, From: format.SegmentID(f.Segment), FromPos: f.Pos,
					Origin: format.SegmentID(f.Segment), Drop: true})
			}
		}
	}
	whole := func() (n [4]int) {
		err := h.runs.WalkAll(func(format.SegmentID) bool { return true }, func(r *Row) error {
			if r.Refused == nil {
				n[r.Segment-1]++
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := whole()
	faulty.Inject(errorfs.Rule{Match: errorfs.All(errorfs.Kinds(vfs.OpCreate), errorfs.Base("seg-*3.pidx*")), Nth: 1, Err: vfs.ErrNoSpace})
	if err := h.runs.EditRows(edits, nil); !errors.Is(err, vfs.ErrNoSpace) {
		t.Fatal(err)
	}
	if got, want := whole(), [4]int{0, 0, before[2], before[3]}; got != want || before[0] == 0 || before[3] == 0 {
		t.Fatalf("%v, want %v of %v", got, want, before)
	}
	if err := h.runs.EditRows(edits, nil); err != nil || whole() != [4]int{} {
		t.Fatal(err, whole())
	}
}

// TestCloseAgain: rows that are made again in memory though files hold them, since something else of their segments was lost,
// leave it when a segment is closed: the files, where they were edited since, tell where they are, and no later file holds
// them as well.
func TestCloseAgain(t *testing.T) {
	h := newHarness(t, vfs.NewMem(), 8)
	e := &editor{harness: h, origin: map[[2]uint64]format.SegmentID{}}
	defer func() { h.runs.Shut() }()
	for n := range uint32(5) {
		h.add(60)
		h.segment++
		if err := h.runs.Close(n + 1); err != nil {
			t.Fatal(err)
		}
		h.closed = n + 1
	}
	log := map[format.RaftGroup][]Row{}
	for g, frames := range h.frames {
		for i := range frames {
			log[g] = append(log[g], frames[i].Row)
		}
	}
	if err := e.edit(); err != nil {
		t.Fatal(err)
	}
	h.add(60)
	h.runs.Shut()
	var err error
	if h.runs, err = Open(h.options()); err != nil {
		t.Fatal(err)
	}
	for g, frames := range h.frames {
		h.x[g] = New(1)
		h.x[g].runs = h.runs
		h.runs.mu.indexes[g] = h.x[g]
		h.x[g].Recover(log[g])
		for i := range frames {
			if frames[i].Segment == h.segment {
				h.x[g].Recover([]Row{frames[i].Row})
			}
		}
	}
	for _, segment := range []uint32{4, 6} { // the fourth had lost its sidecar, the sixth is new
		if err := h.runs.Close(segment); err != nil {
			t.Fatal(err)
		}
	}
	h.closed, h.segment = 6, 7
	for range 2000 {
		if err := h.check(h.x); err != nil {
			t.Fatal(err)
		}
	}
	rows := 0
	err = h.runs.WalkAll(func(format.SegmentID) bool { return true }, func(r *Row) error {
		if r.From == 0 {
			rows++
		}
		return nil
	})
	want := 0
	for _, frames := range h.frames {
		for i := range frames {
			if !frames[i].gone {
				want++
			}
		}
	}
	if err != nil || rows != want {
		t.Fatalf("%d frames in files, want %d, %v", rows, want, err)
	}
}
