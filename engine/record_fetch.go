package engine

import (
	"context"

	"queen/engine/batch"
	"queen/engine/format"
	"queen/engine/logstore/rows"
	"queen/engine/machine"
)

// fetching is one Fetch under way.
type fetching struct {
	n      *Node
	reader frameReader
	left   int // bytes of the call
	any    bool
	epochs machine.Epochs
	queue  machine.Queue // looked at last
	part   partView
	first  format.Offset // end of the first frame that is returned of the partition
	end    format.Offset // of what is returned of the partition
	aborts bool          // some of that is of transactions
	out    *Fetched
	room   int // bytes of the partition
	caught bool
	late   *Error // this node could not catch up
}

// behind reports that the node may not know yet what the caller was told by another one, after it has caught up: then it is
// to look again. It catches up once in a call.
func (f *fetching) behind(ctx context.Context, code format.Code, at *FetchAt, part *partView) bool {
	if f.n.cluster == nil || f.caught || code == format.CodeOK && at.Offset <= part.next {
		return false
	}
	f.caught, f.queue = true, machine.Queue{}
	f.late = f.n.catchUp(ctx)
	return f.late == nil
}

// Fetch implements Records.
func (r recordsDoor) Fetch(ctx context.Context, c Caller, at []FetchAt, maxBytes int) ([]Fetched, error) {
	if len(at) > maxRecordPositions {
		return nil, errPositions()
	}
	if r.n.closing() {
		return nil, errClosed()
	}
	if maxBytes <= 0 {
		maxBytes = defaultReadBytes
	}
	out := make([]Fetched, len(at))
	f := fetching{n: r.n, reader: frameReader{n: r.n}, left: maxBytes}
	f.epochs = r.n.epochs()
	for i := range at {
		if i%64 == 0 && ctx.Err() != nil {
			return nil, errContext(ctx, OutcomeNone)
		}
		out[i].Epoch = f.epochs.Now()
		f.out = &out[i]
		f.one(ctx, c, &at[i])
	}
	return out, nil
}

// one answers one position.
func (f *fetching) one(ctx context.Context, c Caller, at *FetchAt) {
	out := f.out
	if out.Err = checkNames(at.Queue, at.Partition, "partition"); out.Err != nil {
		return
	}
	part, code := f.look(c, at)
	if f.behind(ctx, code, at, &part) {
		part, code = f.look(c, at)
	}
	if f.late != nil && (code != format.CodeOK || at.Offset > part.next) {
		out.Err = f.late
		return
	}
	if out.Err = errOfCode(code); out.Err != nil {
		return
	}
	f.part, f.end, f.aborts = part, 0, false
	start, err := f.n.logStart(&part)
	if err != nil {
		out.Err = errRead(err)
		return
	}
	out.Start, out.End, out.Stable = start, part.next, max(part.stable, start) // an open transaction may be gone
	if at.Offset < start || at.Offset > part.next {
		out.Err = errRange()
		return
	}
	to := part.next
	if at.Committed {
		to = out.Stable
	}
	if f.room = at.MaxBytes; f.room <= 0 {
		f.room = defaultReadBytes
	}
	if at.Offset >= to || f.any && f.left <= 0 {
		return
	}
	if err := f.read(part.span(at.Offset, to)); err != nil && len(out.Frames) == 0 {
		f.n.event("fetch", err)
		out.Err = errRead(err)
	}
	if at.Committed && f.aborts {
		f.aborted(at.Offset)
	}
}

// look finds the partition. Positions of one queue stand together, so that it is looked up once.
func (f *fetching) look(c Caller, at *FetchAt) (partView, format.Code) {
	f.n.state.RLock()
	defer f.n.state.RUnlock()
	m := f.n.state.m
	if f.queue.Name != at.Queue || f.queue.ID == 0 {
		var ok bool
		if f.queue, ok = m.QueueByName(c.Tenant, at.Queue); !ok {
			return partView{}, format.CodeUnknownQueue
		}
	}
	p, ok := m.PartitionIn(f.queue.ID, viewBytes(at.Partition))
	if !ok {
		return partView{}, format.CodeUnknownPartition
	}
	part := newPartView(p, &f.queue)
	part.name = at.Partition
	return part, format.CodeOK
}

// aborted tells which of the records that are returned were aborted. If some of them went since they were looked at, so
// may have what tells that: then none are returned, and the client asks again.
func (f *fetching) aborted(from format.Offset) {
	f.n.state.RLock()
	defer f.n.state.RUnlock()
	m := f.n.state.m
	if !m.Readable(f.part.id, f.first, f.out.Frames[0].CreatedAt) {
		f.out.Frames = nil
		return
	}
	for _, a := range m.AbortedRanges(nil, f.part.id, from, f.end) {
		f.out.Aborted = append(f.out.Aborted, Aborted{Producer: int64(a.Producer), First: a.First})
	}
}

// read collects frames until the bytes are used up. A frame that can not be read ends what is returned: a client that
// was given what comes behind it would take it for all there is. Batches of which compaction left only the offsets are left
// out, but for the last one when nothing comes behind it: it tells the client how far it is.
func (f *fetching) read(s span) error {
	const step = 64 // rows looked up at a time
	var bare rows.Row
	for next, looks := s.from, 0; next < s.to; {
		found, err := f.n.rows.AppendRange(f.reader.found[:0], s.pid, next, min(s.to, next+step), s.newest)
		if err != nil {
			return err
		}
		f.reader.found = found
		for i := range found {
			row := &found[i]
			if next = max(next, row.End()); s.gone(row.W) {
				continue
			}
			if isEmptied(row) {
				if bare, looks = *row, looks+1; looks == emptiedLook {
					return f.frame(&bare, &s)
				}
				continue
			}
			if f.full(int(row.Len)) {
				return f.tell(&bare, &s)
			}
			bare = rows.Row{}
			if err := f.frame(row, &s); err != nil {
				return err
			}
		}
		if len(found) == 0 {
			if next, err = f.n.nextRow(s.pid, next+step, s.to, s.newest); err != nil {
				return err
			}
		}
	}
	return f.tell(&bare, &s)
}

// emptiedLook bounds how many batches of which only the offsets are left one position passes over.
const emptiedLook = 4096

// tell adds the batch without records that comes behind all others, if there is one.
func (f *fetching) tell(bare *rows.Row, s *span) error {
	if bare.Len == 0 {
		return nil
	}
	return f.frame(bare, s)
}

// full says that a frame of that size does not fit any more; the first of a call always does.
func (f *fetching) full(size int) bool { return f.any && (size > f.left || size > f.room) }

// frame adds one stored frame.
func (f *fetching) frame(row *rows.Row, s *span) error {
	raw, index, err := f.reader.frame(row)
	if err != nil {
		return err
	}
	out := Frame{Base: row.Base, Epoch: f.epochs.Of(index), CreatedAt: row.W}
	size := int(row.Len)
	if row.Flags&rows.Kafka != 0 {
		_, body, err := f.n.openStored(raw, row.Partition, &f.reader.scratch)
		if err != nil || body == nil {
			return err
		}
		batch.Patch(body, int64(row.Base), int32(out.Epoch))
		out.Batch = body
	} else {
		err := f.reader.walkFrame(raw, index, row, s.from, s.to, func(rec *Record) bool {
			out.Messages = append(out.Messages, *rec)
			return true
		})
		if err != nil {
			return err
		}
		if len(out.Messages) == 0 {
			return nil // all of it lies before the offset
		}
		out.Base = out.Messages[0].Offset
	}
	if f.end = row.End(); len(f.out.Frames) == 0 {
		f.first = f.end
	}
	f.aborts = f.aborts || row.Flags&(rows.Transactional|rows.Control) != 0
	f.any, f.left, f.room = true, f.left-size, f.room-size
	f.out.Frames = append(f.out.Frames, out)
	return nil
}
