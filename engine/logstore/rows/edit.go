package rows

import (
	"cmp"
	"slices"

	"queen/engine/format"
)

// Edited says what became of one row: its frame lies elsewhere now, with another length, and holds fewer messages of the
// same offsets; or with Drop nothing is left of it and the row goes.
type Edited struct {
	Partition format.PartitionID
	Base      format.Offset
	// From and FromPos are where the frame was. A row that leads elsewhere is left alone.
	From    format.SegmentID
	FromPos uint32
	// Origin is the segment of the commit stream in which the frame was born, as of Moved.
	Origin format.SegmentID

	Drop    bool
	Segment format.SegmentID
	Pos     uint32
	Length  uint32
}

// EditRows rewrites the runs that hold the rows of edits, which come in any order and are sorted. Rows of segments that
// are not live are dropped on the way; nil takes all for live. Runs are replaced one after the other, the oldest first,
// each as a whole; when EditRows returns nil all are durable. Until then look-ups may lead to the old copy or the new one, so
// both stay. It may be repeated after an error.
func (x *Runs) EditRows(edits []Edited, live func(format.SegmentID) bool) error {
	x.background.Lock()
	defer x.background.Unlock()
	slices.SortFunc(edits, func(a, b Edited) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Base, b.Base))
	})
	l := x.acquire()
	defer l.release()
	for _, old := range l.runs {
		e := edit{live: live}
		for i := range edits {
			if o := edits[i].Origin.Number(); old.first <= o && o <= old.last {
				e.edits = append(e.edits, edits[i])
			}
		}
		if len(e.edits) == 0 {
			continue
		}
		if err := x.replaceBy(old, &e); err != nil {
			return err
		}
	}
	return nil
}

// edited applies the edit of one row, if there is one; false drops it.
func (e *edit) edited(r *format.Row) bool {
	i, found := slices.BinarySearchFunc(e.edits, r, func(a Edited, b *format.Row) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Base, b.Base))
	})
	if !found || r.Segment != e.edits[i].From || r.Pos != e.edits[i].FromPos {
		return true
	}
	if e.edits[i].Drop {
		return false
	}
	r.Segment, r.Pos, r.EntryOffset, r.Length = e.edits[i].Segment, e.edits[i].Pos, 0, e.edits[i].Length
	r.Flags |= format.RowCompacted
	return true
}
