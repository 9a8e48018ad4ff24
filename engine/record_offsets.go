package engine

import (
	"context"

	"queen/engine/batch"
	"queen/engine/format"
	"queen/engine/logstore/rows"
)

// RecordOffsets implements Records.
func (r recordsDoor) RecordOffsets(ctx context.Context, c Caller, qs []RecordOffsetQuery) ([]RecordOffset, error) {
	if len(qs) > maxRecordPositions {
		return nil, errPositions()
	}
	if r.n.closing() {
		return nil, errClosed()
	}
	if r.n.mayLag() {
		if err := r.n.catchUp(ctx); err != nil {
			return nil, err
		}
	}
	out := make([]RecordOffset, len(qs))
	for i := range qs {
		if ctx.Err() != nil {
			return nil, errContext(ctx, OutcomeNone)
		}
		out[i].Timestamp = -1
		q := offsetQuery{n: r.n, ctx: ctx, q: &qs[i], out: &out[i]}
		if out[i].Err = q.find(c); out[i].Err == nil {
			if err := q.answer(); err != nil {
				out[i].Err = errRead(err)
			}
		}
		if ctx.Err() != nil {
			return nil, errContext(ctx, OutcomeNone)
		}
	}
	return out, nil
}

// offsetQuery is one query being answered.
type offsetQuery struct {
	n    *Node
	ctx  context.Context
	q    *RecordOffsetQuery
	out  *RecordOffset
	part partView
	end  format.Offset // of what the caller may see
}

func (o *offsetQuery) find(c Caller) *Error {
	if err := checkNames(o.q.Queue, o.q.Partition, "partition"); err != nil {
		return err
	}
	part, queueExists, ok := o.n.partByName(c.Tenant, o.q.Queue, o.q.Partition)
	switch {
	case !queueExists:
		return errOfCode(format.CodeUnknownQueue)
	case !ok:
		return errOfCode(format.CodeUnknownPartition)
	case o.q.Kind < RecordEarliest || o.q.Kind > RecordOfEpoch:
		return errBad("kind", "", "unknown kind of offset query")
	}
	o.part, o.end = part, part.next
	return nil
}

func (o *offsetQuery) answer() error {
	out := o.out
	start, err := o.n.logStart(&o.part)
	if err != nil {
		return err
	}
	stable := max(o.part.stable, start) // the records of an open transaction may be gone
	if o.q.Committed {
		o.end = stable
	}
	switch o.q.Kind {
	case RecordLatest:
		out.Found, out.Offset, out.Epoch = true, o.end, o.n.epochs().Now()
		return nil
	case RecordStable:
		out.Found, out.Offset, out.Epoch = true, stable, o.n.epochs().Now()
		return nil
	case RecordEarliest:
		out.Found, out.Offset = true, start
		out.Epoch, err = o.n.epochAt(&o.part, start)
		return err
	case RecordAtTime:
		return o.firstSince(start)
	case RecordMaxTime:
		return o.latestTime(start)
	}
	return o.ofEpoch(start)
}

// epochAt is the epoch of the record at an offset, 0 when there is none.
func (n *Node) epochAt(part *partView, at format.Offset) (format.Term, error) {
	row, ok, err := n.rows.At(part.id, at, part.newest)
	if !ok || err != nil || at >= part.next {
		return 0, err
	}
	place, err := n.place(&row)
	if err != nil {
		return 0, err
	}
	return n.epochs().Of(place.Index), nil
}

// firstSince finds the first record with a timestamp at or after the asked one. A record is not ahead of its append by
// more than the queue has seen, which says where to begin; timestamps behind that may be in any order.
func (o *offsetQuery) firstSince(start format.Offset) error {
	const most = 1 << 61
	since := format.Wall(most)
	if o.q.Time < most/1000 {
		since = format.Wall(max(o.q.Time, 0)) * 1000
	}
	from, err := o.n.firstAt(&o.part, start, since-o.part.timeAhead)
	if err != nil || !from.found {
		return err
	}
	return o.walk(from.offset, func(row *rows.Row) (bool, error) {
		newest, err := o.newestOf(row)
		if err != nil || newest < o.q.Time {
			return true, err
		}
		found, err := o.record(row, start, func(ts int64) bool { return ts >= o.q.Time })
		return !found, err
	})
}

// latestTime finds the first record with the greatest timestamp, from the newest frame back as long as an older one
// could have a greater one.
func (o *offsetQuery) latestTime(start format.Offset) error {
	best, at, found := int64(0), rows.Row{}, false
	const step = 256
	for to := o.end; to > start; {
		low := max(start, to-min(to, step))
		page, err := o.n.rows.Range(o.part.id, low, to, o.part.newest)
		if err != nil {
			return err
		}
		for i := len(page) - 1; i >= 0; i-- {
			row := &page[i]
			if row.Base >= o.end || row.Flags&rows.Control != 0 {
				continue
			}
			if found && int64((row.W+o.part.timeAhead)/1000) < best {
				return o.greatest(&at, start, best)
			}
			newest, err := o.newestOf(row)
			if err != nil {
				return err
			}
			if !found || newest >= best {
				best, at, found = newest, *row, true
			}
		}
		if to, err = o.n.before(o.part.id, page, start, low, o.part.newest); err != nil {
			return err
		}
		if o.ctx.Err() != nil {
			return o.ctx.Err()
		}
	}
	if !found {
		return nil
	}
	return o.greatest(&at, start, best)
}

func (o *offsetQuery) greatest(row *rows.Row, start format.Offset, best int64) error {
	_, err := o.record(row, start, func(ts int64) bool { return ts >= best })
	return err
}

// walk shows the frames from an offset on until fn has enough.
func (o *offsetQuery) walk(from format.Offset, fn func(row *rows.Row) (more bool, err error)) error {
	const step = 256
	for next := from; next < o.end; {
		page, err := o.n.rows.Range(o.part.id, next, min(o.end, next+step), o.part.newest)
		if err != nil {
			return err
		}
		for i := range page {
			row := &page[i]
			if next = max(next, row.End()); row.Flags&rows.Control != 0 {
				continue
			}
			if more, err := fn(row); err != nil || !more {
				return err
			}
		}
		if len(page) == 0 {
			if next, err = o.n.nextRow(o.part.id, next+step, o.end, o.part.newest); err != nil {
				return err
			}
		}
		if o.ctx.Err() != nil {
			return o.ctx.Err()
		}
	}
	return nil
}

// newestOf is the greatest timestamp of a frame, from its head where it can be read alone.
func (o *offsetQuery) newestOf(row *rows.Row) (int64, error) {
	if row.Flags&rows.Kafka == 0 {
		return int64(row.W / 1000), nil
	}
	var buf [format.FrameHeadSize + batch.HeaderBytes]byte
	raw, _, err := o.n.readRow(row, min(uint32(len(buf)), row.Len), buf[:0])
	if err != nil {
		return 0, err
	}
	body := raw[min(format.FrameHeadSize, len(raw)):]
	if format.IsSealed(raw) {
		if raw, _, err = o.n.readRow(row, row.Len, nil); err != nil {
			return 0, err
		}
		if _, body, err = o.n.openStored(raw, row.Partition, new([]byte)); err != nil || body == nil {
			return -1, err
		}
	}
	h, err := batch.ParseHeader(body)
	return h.MaxTimestamp, err
}

// record answers with the first record of a frame, at or after an offset, whose timestamp will do.
func (o *offsetQuery) record(row *rows.Row, from format.Offset, ok func(ts int64) bool) (found bool, err error) {
	out := o.out
	raw, index, err := o.n.readRow(row, row.Len, nil)
	if err != nil {
		return false, err
	}
	take := func(at format.Offset, ts int64) bool {
		if at < from || at >= o.end || !ok(ts) {
			return true
		}
		found = true
		out.Found, out.Offset, out.Timestamp, out.Epoch = true, at, ts, o.n.epochs().Of(index)
		return false
	}
	if row.Flags&rows.Kafka == 0 {
		take(max(row.Base, from), int64(row.W/1000))
		return found, nil
	}
	_, body, err := o.n.openStored(raw, row.Partition, new([]byte))
	if err != nil || body == nil {
		return false, err
	}
	err = batch.Records(body, batchLimits, func(b *batch.Record) bool {
		return take(row.Base+format.Offset(b.OffsetDelta), b.Timestamp)
	})
	return found, err
}

// ofEpoch finds where the epochs up to the asked one end, and the last of them that there is.
func (o *offsetQuery) ofEpoch(start format.Offset) error {
	o.n.state.RLock()
	epoch, ends := o.n.state.m.EpochEnd(o.q.Epoch)
	now := o.n.state.m.Epoch()
	o.n.state.RUnlock()
	if epoch == 0 || o.q.Epoch > now {
		return nil // before the first, or not begun
	}
	o.out.Found, o.out.Epoch, o.out.Offset = true, epoch, o.part.next
	if ends == 0 {
		return nil
	}
	at, err := o.n.search(&o.part, start, func(r *rows.Row) (bool, error) {
		place, err := o.n.place(r)
		return place.Index >= ends, err
	})
	if at.found {
		o.out.Offset = at.offset
	}
	return err
}
