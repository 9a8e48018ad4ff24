package engine

import (
	"errors"
	"fmt"
	"slices"

	"queen/engine/format"
	"queen/engine/logstore"
	"queen/engine/logstore/rows"
)

// openRuns opens the row index files. What has to have an index and is covered by no good file is lost:
// segments that the manifest calls closed, and the origins of frames in bulk segments, which need not be
// there themselves any more.
func (r *restorer) openRuns() error {
	closed := r.f.origins()
	for i := range r.f.manifest.Segments {
		if s := &r.f.manifest.Segments[i]; s.State == format.SegmentClosed && !s.Segment.IsBulk() {
			closed[s.Segment] = true
		}
	}
	o := rows.Options{FS: r.n.cfg.FS, Dir: r.n.cfg.Dir, Files: r.f.manifest.RowRuns, Closed: []uint32{}, Pace: r.f.pause}
	for s := range closed {
		o.Closed = append(o.Closed, uint32(s))
	}
	slices.Sort(o.Closed)
	var err error
	r.f.runs, err = rows.Open(o)
	return err
}

// remakeRuns makes lost index files again from the log.
func (r *restorer) remakeRuns() error {
	lost, last := r.f.runs.Lost(), r.f.runs.Last()
	for _, gap := range lost {
		last = max(last, gap.Last)
	}
	for _, s := range r.n.seq.Log().Segments() {
		// Below what was closed, and nobody recorded that it was, or it was on its way out: segments close
		// in their order, so that it can not be closed behind the others.
		if s.Segment <= last && !r.f.runs.Holds(s.Segment) {
			lost = append(lost, rows.Gap{First: s.Segment, Last: s.Segment, Err: errors.New("its file is gone")})
		}
	}
	for _, gap := range lost {
		if r.f.runs.Holds(gap.First) {
			continue // made again with the one before
		}
		r.n.event("row index lost, made again from the log", fmt.Errorf("segments %d to %d: %w", gap.First, gap.Last, gap.Err))
		if err := r.remakeRun(gap); err != nil {
			return err
		}
	}
	return nil
}

// remakeRun makes the index of a range again: from the segments of it that are there, then from copies of
// their frames in bulk segments, which count.
func (r *restorer) remakeRun(gap rows.Gap) error {
	b, err := r.f.runs.Rebuild(gap.First, gap.Last)
	if err != nil {
		return err
	}
	defer b.Abort()
	inside := func(s uint32) bool { return gap.First <= s && s <= gap.Last }
	for _, s := range r.n.seq.Log().Segments() {
		if !inside(s.Segment) {
			continue
		}
		batch, err := r.rowsOf(&s)
		if err != nil {
			return err
		}
		if err := b.Add(batch); err != nil {
			return err
		}
	}
	for _, s := range r.n.seq.Log().Bulks() {
		if !slices.ContainsFunc(s.Replaces, func(o format.SegmentID) bool { return inside(uint32(o)) }) {
			continue
		}
		batch, err := r.rowsOfBulk(s.Segment, inside)
		if err != nil {
			return err
		}
		if err := b.Add(batch); err != nil {
			return err
		}
	}
	return b.Finish()
}

// rowsOf reads the rows of one closed segment off its entries and their outcomes. Those of its last entries
// lie in the segment after it.
func (r *restorer) rowsOf(s *logstore.SegmentInfo) ([]rows.Row, error) {
	var batch []rows.Row
	for i := range s.Groups {
		g := &s.Groups[i]
		if g.Group != r.n.seq.Group() || g.First() == 0 {
			continue
		}
		w := logWalk{r: r, to: g.Last(), rowsFrom: g.First(), idsFrom: ^format.Index(0), runsFrom: ^format.Index(0)}
		w.dead = !r.f.liveSegments()(format.SegmentID(s.Segment + 1))
		w.emit = func(row rows.Row) { batch = append(batch, row) }
		err := r.n.seq.Log().ReplaySegment(g.Group, s.Segment, func(v logstore.View) error { return w.entry(&v) })
		if err != nil {
			return nil, err
		}
		w.numberHeld(batch)
	}
	return batch, nil
}

// rowsOfBulk reads rows off the frames of a bulk segment whose origin is wanted. Their numbers are not
// known any more, and nothing asks.
func (r *restorer) rowsOfBulk(segment uint32, origin func(uint32) bool) ([]rows.Row, error) {
	var batch []rows.Row
	err := r.n.seq.Log().WalkFrames(segment, func(pos logstore.EntryPos, length uint32, v *format.StoredFrame) error {
		if v.Group == r.n.seq.Group() && origin(uint32(v.Origin)) {
			batch = append(batch, rows.Row{Partition: v.Partition, Base: v.Base, W: v.W, Segment: pos.Segment, Pos: pos.Pos,
				Len: length, Count: v.Count, Kept: v.Kept(), Flags: rows.Flags(v.Flags), Refused: slices.Clone(v.Refused)})
		}
		return nil
	})
	return batch, err
}
