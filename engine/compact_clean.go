package engine

import (
	"errors"

	"queen/engine/batch"
	"queen/engine/format"
	"queen/engine/logstore"
	"queen/engine/logstore/rows"
	"queen/engine/seal"
)

// cleaning is one partition being compacted: once over what is new, for the newest offset of each key, then over all of
// it, oldest first.
type cleaning struct {
	c    *compactor
	q    *compactQueue
	p    *compactPart
	part partView
	now  format.Wall
	pins judgedPartition
	dead map[format.Offset]bool // of the row that is looked at

	start, end format.Offset // what is judged; keys are known up to end
	// heldFrom is where the first record stays that should go: a consumer group may still have it under a lease, a dead letter
	// points at it, or its frame can not be read. What deletes keys stays behind it.
	heldFrom format.Offset
	kept     int64
	horizon  format.Wall
	empties  bool

	stays []byte // bitmap of the records of a batch that stay, by their offset deltas
}

// clean compacts one partition.
func (c *compactor) clean(q *compactQueue, p *compactPart, now format.Wall) error {
	k := cleaning{c: c, q: q, p: p, now: now, heldFrom: noOffset}
	if ok, err := k.begin(); !ok || err != nil {
		p.new, p.horizon, p.empties = 0, 0, false // it is gone
		return err
	}
	if !p.isDirty(&q.rule, now) {
		return k.sweep()
	}
	if err := k.learn(); err != nil {
		return err
	}
	err := k.c.v.n.eachRow(&k.part, k.start, k.end, func(r *rows.Row) (bool, error) {
		if c.left <= 0 {
			return false, nil
		}
		return true, k.row(r)
	})
	if err != nil || c.left <= 0 {
		return err // what is done is done; the next pass comes further
	}
	if k.end < p.looked {
		c.waits, c.copier.r.further = true, c.copier.r.further || k.end > p.clean
	}
	p.clean = max(p.clean, k.end) // from where something stayed there may be more keys up to here than there is room for
	p.heldFrom, p.looked, p.old, p.new, p.since = k.heldFrom, p.clean, k.kept, 0, 0
	p.horizon, p.empties, p.swept = k.horizon, k.empties, c.reclaim
	return nil
}

// begin finds out what there is to judge; false when there is nothing.
func (k *cleaning) begin() (bool, error) {
	n := k.c.v.n
	n.state.RLock()
	t, _, _, ok := n.state.m.OwnerOf(k.p.id)
	n.state.RUnlock()
	if !ok {
		return false, nil
	}
	if k.part, ok = n.partByID(t, k.p.id); !ok {
		return false, nil
	}
	var err error
	if k.start, err = n.logStart(&k.part); err != nil {
		return false, err
	}
	k.end, k.horizon = max(k.p.looked, k.start), 0
	k.pins = n.judgedPartition(k.p.id)
	k.c.held[k.p.id] = k.pins.held
	k.p.heldFrom = min(k.p.heldFrom, k.end)
	return true, nil
}

// sweep lets go of empty frames of which no older version is left.
func (k *cleaning) sweep() error {
	err := k.c.v.n.eachRow(&k.part, k.start, k.end, func(r *rows.Row) (bool, error) {
		if err := k.c.v.pacer.spend(rowCost); err != nil || !isEmptied(r) {
			return true, err
		}
		return true, k.emptied(r)
	})
	k.p.empties, k.p.swept = k.empties, k.c.reclaim
	return err
}

// emptied judges a row of which only the offsets are left. It stays while the segment is there from which the index would be
// made again with what the frame once held, and at the end of the partition, where readers find out how far they are.
func (k *cleaning) emptied(r *rows.Row) error {
	v, _, err := k.c.v.n.seq.Log().ReadFrame(logstore.EntryPos{Segment: r.Segment, Pos: r.Pos}, r.Off, 0, nil)
	if err != nil {
		return k.unread(r, unreadable(r, err))
	}
	if r.End() >= k.part.next || !k.c.isBare(format.SegmentID(r.Segment), v.Origin) {
		k.empties, k.kept = true, k.kept+int64(r.Len)
		return nil
	}
	k.c.edits = append(k.c.edits, compactEdit{Edited: editOf(r, &v), end: r.End()})
	k.c.edits[len(k.c.edits)-1].Drop = true
	return nil
}

func editOf(r *rows.Row, v *format.StoredFrame) rows.Edited {
	return rows.Edited{Partition: r.Partition, Base: r.Base, From: format.SegmentID(r.Segment), FromPos: r.Pos, Origin: v.Origin}
}

// frame is a record batch as it was read.
type keyedFrame struct {
	v    format.StoredFrame
	head format.FrameHead
	body []byte
	h    batch.Header
	// aborted says that its transaction was; gone that nobody can tell any more, since retention took it.
	aborted, gone bool
}

// read reads a frame, verified. ok is false when it stays as it is.
func (k *cleaning) read(r *rows.Row) (f keyedFrame, ok bool, err error) {
	n := k.c.v.n
	if err := k.c.v.pacer.spend(int(r.Len)); err != nil {
		return f, false, err
	}
	v, raw, err := n.seq.Log().ReadFrame(logstore.EntryPos{Segment: r.Segment, Pos: r.Pos}, r.Off, r.Len, nil)
	if err != nil {
		return f, false, k.unread(r, unreadable(r, err))
	}
	f.v = v
	f.head, f.body, err = n.openStored(raw, r.Partition, new([]byte))
	if err == nil && f.body == nil {
		f.gone = true
		return f, false, nil
	}
	if err == nil {
		f.h, err = batch.ParseHeader(f.body)
	}
	if err == nil && f.head.Kind != format.FrameKafka {
		err = errors.New("a row of record batches leads to another frame")
	}
	if err != nil {
		return f, false, k.unread(r, &unreadableError{r.Segment, err})
	}
	if r.Flags&rows.Transactional != 0 {
		k.decided(r, &f)
	}
	return f, !f.gone, nil
}

// decided finds out how the transaction of a batch ended: it has, below the last stable offset.
func (k *cleaning) decided(r *rows.Row, f *keyedFrame) {
	n, producer := k.c.v.n, format.ProducerID(f.h.ProducerID)
	n.state.RLock()
	defer n.state.RUnlock()
	m := n.state.m
	f.gone = !m.Readable(r.Partition, r.End(), r.W) || m.Undecided(r.Partition, producer, r.Base)
	f.aborted = !f.gone && m.IsAborted(r.Partition, producer, r.Base)
}

// unread leaves a frame alone that can not be read, and what deletes keys behind it. Other errors end the pass.
func (k *cleaning) unread(r *rows.Row, err error) error {
	var bad *unreadableError
	var sealed *seal.Error
	if !errors.As(err, &bad) && !errors.As(err, &sealed) && !errors.Is(err, logstore.ErrReclaimed) {
		return err
	}
	if k.heldFrom == noOffset {
		k.c.v.n.event("compaction leaves what can not be read", err)
	}
	k.heldFrom = min(k.heldFrom, r.Base)
	return nil
}

// learn finds the newest offset of each key in what is new, as far as there is room; end comes down to there.
func (k *cleaning) learn() error {
	from, keys := max(k.start, min(k.p.clean, k.p.heldFrom)), &k.c.keys
	if keys.most == 0 {
		*keys = newKeyTable(k.c.v.n.cfg.Rand, k.c.v.n.cfg.CompactKeys)
	}
	keys.clear()
	held := k.heldFrom
	err := k.c.v.n.eachRow(&k.part, from, k.end, func(r *rows.Row) (bool, error) {
		if !isBatch(r) || isEmptied(r) {
			return true, k.c.v.pacer.spend(rowCost)
		}
		f, ok, err := k.read(r)
		if !ok || err != nil || f.aborted {
			return true, err
		}
		full := false
		err = batch.Records(f.body, batchLimits, func(rec *batch.Record) bool {
			if at := r.Base + format.Offset(rec.OffsetDelta); at >= from && rec.Key != nil && !keys.put(rec.Key, at) {
				if k.end, full = at, true; r.Base > from {
					k.end = r.Base // whole batches, unless one has too many keys by itself
				}
			}
			return !full
		})
		if err != nil {
			return true, k.unread(r, &unreadableError{r.Segment, err})
		}
		return !full, nil
	})
	k.heldFrom = held // the second look comes from the start
	return err
}

// row judges one row.
func (k *cleaning) row(r *rows.Row) error {
	if !isBatch(r) {
		return k.c.v.pacer.spend(rowCost)
	}
	if isEmptied(r) {
		return k.emptied(r)
	}
	f, ok, err := k.read(r)
	if !ok || err != nil {
		k.kept += int64(r.Len)
		return err
	}
	k.pinned(r)
	dropped, tombstones, err := k.judge(r, &f)
	if err != nil {
		k.kept += int64(r.Len)
		return k.unread(r, &unreadableError{r.Segment, err})
	}
	horizon, has := k.horizonOf(r, &f)
	fresh := tombstones && !has && k.heldFrom == noOffset
	switch {
	case fresh:
		horizon = k.now + k.q.rule.Tombstones
	case !tombstones:
		horizon = 0
	}
	if horizon > 0 && (k.horizon == 0 || horizon < k.horizon) {
		k.horizon = horizon
	}
	if dropped == 0 && !fresh {
		k.kept += int64(r.Len)
		return nil
	}
	return k.rewrite(r, &f, horizon)
}

// horizonOf is when records without a value of a batch may go, if a pass before said so.
func (k *cleaning) horizonOf(r *rows.Row, f *keyedFrame) (format.Wall, bool) {
	ms, ok := f.h.DeleteHorizon()
	if !ok || r.Flags&rows.Compacted == 0 {
		return 0, false
	}
	return format.Wall(ms) * 1000, true
}

// pinned finds the dead letters that point into a row.
func (k *cleaning) pinned(r *rows.Row) {
	k.dead = nil
	if !k.pins.dead {
		return
	}
	n := k.c.v.n
	n.state.RLock()
	defer n.state.RUnlock()
	for _, d := range n.state.m.DeadLettersAt(r.Partition, r.Base, r.End(), int(r.Kept)) {
		if k.dead == nil {
			k.dead = map[format.Offset]bool{}
		}
		k.dead[d.Offset] = true
	}
}

func (k *cleaning) isPinned(o format.Offset) bool {
	for _, h := range k.pins.held {
		if h.from <= o && o < h.to {
			return true
		}
	}
	return k.dead[o]
}

// judge finds out which records of a batch stay, how many go, and whether some that stay have no value.
func (k *cleaning) judge(r *rows.Row, f *keyedFrame) (dropped int, tombstones bool, err error) {
	horizon, has := k.horizonOf(r, f)
	k.stays = append(k.stays[:0], make([]byte, int(f.h.LastOffsetDelta)/8+1)...)
	err = batch.Records(f.body, batchLimits, func(rec *batch.Record) bool {
		at := r.Base + format.Offset(rec.OffsetDelta)
		old := f.aborted || rec.Key != nil && k.c.keys.isOld(rec.Key, at)
		deletes := rec.Key != nil && rec.Value == nil
		switch {
		case at >= k.end || !old && !deletes:
		case k.isPinned(at):
			if old {
				k.heldFrom = min(k.heldFrom, r.Base)
			}
			tombstones = tombstones || deletes && !old
		case old, has && horizon <= k.now && k.heldFrom == noOffset:
			dropped++
			return true
		default:
			tombstones = true
		}
		k.stays[rec.OffsetDelta/8] |= 1 << (rec.OffsetDelta % 8)
		return true
	})
	return dropped, tombstones, err
}

// rewrite puts a batch without what goes into the buffer.
func (k *cleaning) rewrite(r *rows.Row, f *keyedFrame, horizon format.Wall) error {
	n := k.c.v.n
	ms := int64(0)
	if horizon > 0 {
		ms = max(int64(horizon/1000), 1)
	}
	body, left, err := batch.Retain(nil, f.body, ms, batchLimits, func(rec *batch.Record) bool {
		return k.stays[rec.OffsetDelta/8]>>(rec.OffsetDelta%8)&1 == 1
	})
	if err != nil {
		k.kept += int64(r.Len)
		return k.unread(r, &unreadableError{r.Segment, err})
	}
	frame := format.RewriteKafkaFrame(nil, f.head, body)
	if left > 0 && f.head.Sealed {
		n.state.RLock()
		t, queue, partition, ok := n.state.m.OwnerOf(r.Partition)
		n.state.RUnlock()
		var refused *Error
		if !ok || n.ring() == nil {
			k.heldFrom = min(k.heldFrom, r.Base)
			return nil
		}
		if frame, refused = n.seal(n.ring(), frame, seal.Owner{Tenant: t, Queue: viewBytes(queue), Partition: viewBytes(partition)}); refused != nil {
			return refused
		}
	}
	e := compactEdit{Edited: editOf(r, &f.v), end: r.End(), dead: len(k.dead)}
	e.Length = uint32(len(frame))
	k.empties = k.empties || left == 0
	k.kept += int64(len(frame))
	f.v.Partition, f.v.Base, f.v.W, f.v.Count, f.v.Refused = r.Partition, r.Base, r.W, f.head.Count, nil
	f.v.Flags, f.v.Frame = format.RowFlags(r.Flags)|format.RowCompacted, frame
	return k.c.add(compacted{v: f.v, edit: e, class: k.q.class, queue: k.q.id})
}
