package engine

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"queen/engine/format"
	"queen/engine/logstore"
	"queen/engine/logstore/rows"
	"queen/sidecar"
)

// copier copies the live frames of some segments into bulk segments, one class after the other.
type copier struct {
	v       *mover
	r       *relocated
	sources []*measured

	slice []movingFrame // frames that are copied together
	out   *bulkOutput
}

// movingFrame is a live frame: its rows, and the class it goes to.
type movingFrame struct {
	row   rows.Row
	more  []rows.Row // of a frame that files split
	class endClass
	queue format.QueueID
}

// sliceFrames bounds the frames that are held in memory at a time, and with it a bulk segment's least
// number of frames: more frames of one class come in several segments.
const sliceFrames = 1 << 16

// run copies, and fills in what was moved. When a source can not be read nothing has moved: the plan
// rested on it, and the next pass makes another one around that segment.
func (c *copier) run() error {
	err := c.copyAll()
	if err == nil {
		for _, m := range c.sources {
			c.r.gone = append(c.r.gone, format.SegmentID(m.segment))
		}
		c.r.orphans = nil
		return nil
	}
	c.r.moved = nil
	var unreadable *unreadableError
	if errors.As(err, &unreadable) {
		c.v.block(unreadable.segment, err)
		c.r.after, c.r.empty, c.r.more = nil, nil, true
		return nil
	}
	return err
}

// copyAll copies every live frame of the sources.
func (c *copier) copyAll() error {
	in := func(s format.SegmentID) bool {
		return slices.ContainsFunc(c.sources, func(m *measured) bool { return m.segment == uint32(s) })
	}
	j := judge{n: c.v.n}
	err := c.v.n.files.runs.WalkAll(in, func(r *rows.Row) error {
		if err := c.v.pacer.spend(rowCost); err != nil {
			return err
		}
		d := j.frame(r)
		if !d.live {
			return nil
		}
		if k := len(c.slice); k > 0 && sameFrame(&c.slice[k-1].row, r) {
			c.slice[k-1].more = append(c.slice[k-1].more, *r)
			return nil
		}
		if len(c.slice) == sliceFrames {
			if err := c.copySlice(); err != nil {
				return err
			}
		}
		c.slice = append(c.slice, movingFrame{row: *r, class: d.class, queue: d.queue})
		return nil
	})
	if err == nil {
		err = c.copySlice()
	}
	return err
}

// unreadableError is about a frame that can not be copied as it stands.
type unreadableError struct {
	segment uint32
	err     error
}

func (e *unreadableError) Error() string { return fmt.Sprintf("segment %d: %v", e.segment, e.err) }

func (e *unreadableError) Unwrap() error { return e.err }

// copySlice copies the frames that were collected.
func (c *copier) copySlice() error {
	byClass := map[endClass][]*movingFrame{}
	for i := range c.slice {
		f := &c.slice[i]
		byClass[f.class] = append(byClass[f.class], f)
	}
	for _, k := range slices.Sorted(maps.Keys(byClass)) {
		if err := c.copyClass(byClass[k]); err != nil {
			c.out.abort()
			return err
		}
	}
	c.slice = c.slice[:0]
	return nil
}

// copyClass copies frames of one class in the order of their entries, which is that of places in the commit
// stream and in each bulk segment.
func (c *copier) copyClass(frames []*movingFrame) error {
	slices.SortFunc(frames, func(a, b *movingFrame) int {
		return cmp.Or(cmp.Compare(a.row.Segment, b.row.Segment), cmp.Compare(a.row.Pos, b.row.Pos), cmp.Compare(a.row.Off, b.row.Off))
	})
	c.out = &bulkOutput{c: c}
	streams := streamsOf(frames)
	for len(streams) > 0 {
		s, err := c.lowest(streams)
		if err != nil {
			return err
		}
		if err := c.copyFrame(streams[s].frames[0]); err != nil {
			return err
		}
		streams[s].frames, streams[s].known = streams[s].frames[1:], false
		if len(streams[s].frames) == 0 {
			streams = slices.Delete(streams, s, s+1)
		}
	}
	return c.out.finish()
}

// frameStream is frames in the order of their entries: those of the commit stream, or of one bulk segment.
type frameStream struct {
	frames []*movingFrame
	next   format.Index // the first one's entry, if known
	known  bool
}

func streamsOf(frames []*movingFrame) (streams []frameStream) {
	for from := 0; from < len(frames); {
		to := from + 1
		segment := format.SegmentID(frames[from].row.Segment)
		for to < len(frames) && (frames[to].row.Segment == uint32(segment) ||
			!segment.IsBulk() && !format.SegmentID(frames[to].row.Segment).IsBulk()) {
			to++
		}
		streams = append(streams, frameStream{frames: frames[from:to]})
		from = to
	}
	return streams
}

// lowest is the stream whose next frame is of the lowest entry.
func (c *copier) lowest(streams []frameStream) (int, error) {
	if len(streams) == 1 {
		return 0, nil
	}
	best := 0
	for i := range streams {
		s := &streams[i]
		if !s.known {
			at := &s.frames[0].row
			v, _, err := c.v.n.seq.Log().ReadFrame(logstore.EntryPos{Segment: at.Segment, Pos: at.Pos}, at.Off, 0, nil)
			if err != nil {
				return 0, unreadable(at, err)
			}
			s.next, s.known = v.Index, true
		}
		if s.next < streams[best].next {
			best = i
		}
	}
	return best, nil
}

// unreadable is the error of a read; what only says that the node stops is left as it is.
func unreadable(r *rows.Row, err error) error {
	var bad *logstore.CorruptionError
	var form *format.Error
	if errors.As(err, &bad) || errors.As(err, &form) || errors.Is(err, logstore.ErrRange) || errors.Is(err, logstore.ErrUnknown) {
		return &unreadableError{r.Segment, fmt.Errorf("partition %s offset %d: %w", r.Partition, r.Base, err)}
	}
	return err
}

// copyFrame copies one frame, verified, with what its outcome says.
func (c *copier) copyFrame(f *movingFrame) error {
	r := &f.row
	v, b, err := c.v.n.seq.Log().ReadFrame(logstore.EntryPos{Segment: r.Segment, Pos: r.Pos}, r.Off, r.Len, nil)
	if err != nil {
		return unreadable(r, err)
	}
	head, _, err := format.ParseFrame(b)
	if err == nil && !head.Placed {
		err = errors.New("a frame without its ordinal")
	}
	if err != nil {
		return &unreadableError{r.Segment, err}
	}
	v.Partition, v.Base, v.W, v.Count = r.Partition, r.Base, r.W, head.Count
	v.Flags = format.RowFlags(r.Flags)
	v.Refused = f.refused(head.Count)
	if err := c.v.pacer.spend(2 * len(b)); err != nil {
		return err
	}
	to, err := c.out.add(&v, f.queue)
	if errors.Is(err, logstore.ErrTooLarge) {
		return &unreadableError{r.Segment, err} // segments were larger when it was written
	}
	if err != nil {
		return err
	}
	c.note(r, to, v.Origin)
	for i := range f.more {
		c.note(&f.more[i], to, v.Origin)
	}
	return nil
}

func (c *copier) note(r *rows.Row, to logstore.EntryPos, origin format.SegmentID) {
	c.r.moved = append(c.r.moved, rows.Moved{Partition: r.Partition, Base: r.Base, Segment: format.SegmentID(to.Segment),
		Pos: to.Pos, Origin: origin})
}

// refused is the bitmap over all messages of a frame; nil when every one is stored. Messages of parts of
// which no row is left count as refused.
func (f *movingFrame) refused(count uint32) []byte {
	if f.row.Flags&rows.Partial == 0 {
		return nil
	}
	bits := make([]byte, (count+7)/8)
	for i := range count {
		kept := !f.row.IsRefused(i)
		for k := range f.more {
			kept = kept || !f.more[k].IsRefused(i)
		}
		if !kept {
			bits[i/8] |= 1 << (i % 8)
		}
	}
	return bits
}

// bulkOutput writes the frames of one class, into as many bulk segments as they need.
type bulkOutput struct {
	c    *copier
	w    *logstore.BulkWriter
	side map[format.QueueID]*sidecar.Queue
}

// add takes a frame and says where it will be.
func (o *bulkOutput) add(v *format.StoredFrame, queue format.QueueID) (logstore.EntryPos, error) {
	for fresh := false; ; fresh = true {
		if o.w == nil {
			if err := o.begin(); err != nil {
				return logstore.EntryPos{}, err
			}
		}
		to, err := o.w.Add(v)
		if errors.Is(err, logstore.ErrTooLarge) && !fresh {
			if err := o.finish(); err != nil {
				return to, err
			}
			continue
		}
		if err == nil {
			q := o.side[queue]
			if q == nil {
				q = &sidecar.Queue{Queue: queue}
				o.side[queue] = q
			}
			q.Bytes += uint64(len(v.Frame))
			q.NewestW = max(q.NewestW, v.W)
		}
		return to, err
	}
}

func (o *bulkOutput) begin() (err error) {
	opts := logstore.BulkOptions{Number: o.c.v.nextBulk}
	for _, m := range o.c.sources {
		if format.SegmentID(m.segment).IsBulk() {
			opts.Replaces = append(opts.Replaces, format.SegmentID(m.segment))
		}
	}
	if o.w, err = o.c.v.n.seq.Log().NewBulk(opts); err == nil {
		o.c.v.nextBulk++
		o.side = map[format.QueueID]*sidecar.Queue{}
	}
	return err
}

// finish makes the segment that is being written complete, if there is one, and writes its sidecar.
func (o *bulkOutput) finish() error {
	if o.w == nil {
		return nil
	}
	w, n := o.w, o.c.v.n
	o.w = nil
	if err := w.Finish(); err != nil {
		return err
	}
	o.c.r.orphans = append(o.c.r.orphans, uint32(w.Number()))
	for _, s := range n.seq.Log().Bulks() {
		if s.Segment != uint32(w.Number()) {
			continue
		}
		side := sidecar.Sidecar{Segment: w.Number(), End: uint64(s.Used), Checksum: s.Checksum}
		for _, id := range slices.Sorted(maps.Keys(o.side)) {
			side.Queues = append(side.Queues, *o.side[id])
		}
		return sidecar.Write(n.cfg.FS, n.cfg.Dir, &side)
	}
	return nil
}

func (o *bulkOutput) abort() {
	if o != nil && o.w != nil {
		o.w.Abort()
		o.w = nil
	}
}
