package rows

import (
	"cmp"
	"slices"

	"queen/engine/format"
	"queen/engine/invariants"
)

var failReplaced = invariants.Register("rows.replace.run-replaced")

// Moved says where the frame of a row lies now: a stored frame of a bulk segment. Everything else of the
// row stays as it is.
type Moved struct {
	Partition format.PartitionID
	Base      format.Offset
	Segment   format.SegmentID
	Pos       uint32
	// Origin is the segment of the commit stream in which the frame was born: the row is in the run that
	// covers it.
	Origin format.SegmentID
}

// ReplaceSegments rewrites the index after the live frames of segments were copied elsewhere: rows
// that lie in one of gone are led to where moved says, by partition and base, or dropped when it says
// nothing. moved comes in any order and is sorted. Rows of segments that are not live are dropped on the
// way; nil takes all for live. Each run is replaced as a whole; when ReplaceSegments returns nil all are
// durable and no row leads to gone any more. Until then look-ups may lead to the old copy or the new one,
// so both stay. It may be repeated after an error.
func (x *Runs) ReplaceSegments(gone []format.SegmentID, moved []Moved, live func(format.SegmentID) bool) error {
	x.background.Lock()
	defer x.background.Unlock()
	slices.SortFunc(moved, func(a, b Moved) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Base, b.Base))
	})
	e := edit{gone: gone, moved: moved, live: live}
	l := x.acquire()
	defer l.release()
	for _, old := range l.runs {
		if slices.ContainsFunc(old.census.segments, e.isGone) {
			if err := x.replaceBy(old, &e); err != nil {
				return err
			}
		}
	}
	return nil
}

// Thin rewrites one run of which at least half of the segments are not live, without their rows, and
// reports that there may be another. Errors as of ReplaceSegments.
func (x *Runs) Thin(live func(format.SegmentID) bool) (again bool, err error) {
	x.background.Lock()
	defer x.background.Unlock()
	l := x.acquire()
	defer l.release()
	for _, r := range l.runs {
		dead := 0
		for _, s := range r.census.segments {
			if !live(s) {
				dead++
			}
		}
		if dead > 0 && 2*dead >= len(r.census.segments) {
			return true, x.replaceBy(r, &edit{live: live})
		}
	}
	return false, nil
}

// edit is what happens to rows while their run is written anew.
type edit struct {
	gone  []format.SegmentID
	moved []Moved  // sorted
	edits []Edited // sorted
	live  func(format.SegmentID) bool
}

func (e *edit) isGone(s format.SegmentID) bool { return slices.Contains(e.gone, s) }

func (e *edit) isLive(s format.SegmentID) bool { return !e.isGone(s) && (e.live == nil || e.live(s)) }

// row applies the edit to one row; false drops it.
func (e *edit) row(r *format.Row) bool {
	if !e.isGone(r.Segment) {
		return e.isLive(r.Segment) && e.edited(r)
	}
	i, found := slices.BinarySearchFunc(e.moved, r, func(a Moved, b *format.Row) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Base, b.Base))
	})
	if found {
		r.Segment, r.Pos, r.EntryOffset = e.moved[i].Segment, e.moved[i].Pos, 0
	}
	return found
}

// census of a run after the edit.
func (e *edit) census(old *run) census {
	c := census{numbers: old.census.numbers}
	last := format.SegmentID(0)
	for i := range e.moved {
		m := &e.moved[i]
		if o := m.Origin.Number(); m.Segment != last && old.first <= o && o <= old.last {
			last = m.Segment
			c.addSegment(last)
		}
	}
	for i := range e.edits {
		if s := e.edits[i].Segment; s != 0 && s != last {
			last = s
			c.addSegment(s)
		}
	}
	for _, s := range old.census.segments {
		if e.isLive(s) {
			c.addSegment(s)
		}
	}
	return c
}

// replaceBy puts what the edit makes of a run in its place.
func (x *Runs) replaceBy(old *run, e *edit) error {
	x.cancelMerge(func(r *run) bool { return r == old })
	r, err := x.replace(old, e)
	if err != nil {
		return err
	}
	x.swap(func(runs []*run, lost []Gap) ([]*run, []Gap) {
		runs[slices.Index(runs, old)] = r
		return runs, lost
	})
	invariants.Failpoint(failReplaced)
	return nil
}

// replace writes the run anew over its own name.
func (x *Runs) replace(old *run, e *edit) (*run, error) {
	c := e.census(old)
	w, err := x.create(old.first, old.last, &c, old.file.Trailer.Low)
	if err != nil {
		return nil, err
	}
	next := x.source(old)
	var r format.Row
	var pid format.PartitionID
	var older uint64
	for {
		ok, err := next(&r)
		if err != nil {
			return nil, w.abort(err)
		}
		if !ok {
			return w.finish()
		}
		// The way back from the partition's first row goes to the first one that is left.
		if r.Partition != pid {
			pid, older = r.Partition, old.backTo(&r)
		}
		if !e.row(&r) {
			continue
		}
		if err := w.add(&r, older); err != nil {
			return nil, w.abort(err)
		}
	}
}
