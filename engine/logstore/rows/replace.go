package rows

import (
	"cmp"
	"fmt"
	"slices"

	"queen/engine/format"
)

// ReplaceSegments rewrites the index after the live frames of segments were copied elsewhere: rows
// that lie in one of gone are replaced by the row of moved with the same partition and base, or
// dropped when there is none. moved comes in any order and is sorted. Each run is replaced as a whole;
// when ReplaceSegments returns nil all are durable and no row leads to gone any more. Until then
// look-ups may lead to the old copy or the new one, so both stay. It may be repeated after an error.
func (x *Runs) ReplaceSegments(gone []format.SegmentID, moved []Row) error {
	x.background.Lock()
	defer x.background.Unlock()
	slices.SortFunc(moved, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Base, b.Base))
	})
	copies := make([]format.Row, 0, len(moved))
	for i := range moved {
		var err error
		if copies, err = moved[i].appendFormat(copies); err != nil {
			return err
		}
	}
	l := x.acquire()
	defer l.release()
	for _, old := range l.runs {
		if !slices.ContainsFunc(old.census.segments, func(s format.SegmentID) bool { return slices.Contains(gone, s) }) {
			continue
		}
		r, err := x.replace(old, gone, copies)
		if err != nil {
			return err
		}
		x.swap(func(runs []*run, lost []Gap) ([]*run, []Gap) {
			runs[slices.Index(runs, old)] = r
			return runs, lost
		})
	}
	return nil
}

// replace writes the run anew over its own name.
func (x *Runs) replace(old *run, gone []format.SegmentID, copies []format.Row) (*run, error) {
	c := census{numbers: old.census.numbers}
	for _, s := range old.census.segments {
		if !slices.Contains(gone, s) {
			c.addSegment(s)
		}
	}
	for i := range copies {
		c.addSegment(copies[i].Segment)
	}
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
		if slices.Contains(gone, r.Segment) {
			i, found := slices.BinarySearchFunc(copies, &r, func(a format.Row, b *format.Row) int {
				return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Base, b.Base))
			})
			if !found {
				continue
			}
			r = copies[i]
		}
		if err := w.add(&r, older); err != nil {
			return nil, w.abort(err)
		}
	}
}

// Forget removes the runs, and forgets the gaps, none of whose segments is live any more. Rows of
// reclaimed segments in other runs stay: whether a message is retained is not judged here.
func (x *Runs) Forget(live func(s format.SegmentID) bool) error {
	x.background.Lock()
	defer x.background.Unlock()
	l := x.acquire()
	defer l.release()
	var dead []*run
	for _, r := range l.runs {
		if !slices.ContainsFunc(r.census.segments, live) {
			dead = append(dead, r)
		}
	}
	if err := x.remove(dead); err != nil {
		return err
	}
	x.swap(func(runs []*run, lost []Gap) ([]*run, []Gap) {
		runs = slices.DeleteFunc(runs, func(r *run) bool { return slices.Contains(dead, r) })
		return runs, slices.DeleteFunc(lost, func(g Gap) bool { return !g.live(live) })
	})
	return nil
}

func (g *Gap) live(live func(s format.SegmentID) bool) bool {
	for n := uint64(g.First); n <= uint64(g.Last); n++ {
		if live(format.SegmentID(n)) {
			return true
		}
	}
	return false
}

// inside reports whether the range lies in first..last; err when it does so in part.
func inside(name string, a, b, first, last uint32) (bool, error) {
	if b < first || a > last {
		return false, nil
	}
	if a < first || b > last {
		return false, fmt.Errorf("rows: %s reaches beyond %d to %d", name, first, last)
	}
	return true, nil
}
