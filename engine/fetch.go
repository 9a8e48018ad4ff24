package engine

import (
	"bytes"
	"context"
	"slices"
	"time"

	"queen/engine/format"
	"queen/engine/logstore/rows"
)

const (
	maxReadPositions = 1024
	defaultReadBytes = 1 << 20
	maxReadBytes     = 8 << 20
	maxReadWait      = 30 * time.Second
)

// Read implements Engine. It answers from applied state.
func (n *Node) Read(ctx context.Context, c Caller, req ReadRequest) (*ReadResult, error) {
	if len(req.At) > maxReadPositions {
		return nil, errBad("entries", "1024", "too many entries in one read")
	}
	for i := range req.At {
		if err := checkNames(req.At[i].Queue, req.At[i].Partition, "partition"); err != nil {
			return nil, err
		}
	}
	if n.closing() {
		return nil, errClosed()
	}
	if req.Wait <= 0 || req.MinBytes <= 0 {
		out, _ := n.readAll(c, req.At)
		return out, nil
	}
	w := n.Watch(c)
	defer w.Close()
	for i := range req.At {
		w.Add(PartitionRef{req.At[i].Queue, req.At[i].Partition})
	}
	wait, cancel := n.withTimer(ctx, min(req.Wait, maxReadWait))
	defer cancel()
	for {
		out, got := n.readAll(c, req.At)
		if got >= req.MinBytes || out.failed() {
			return out, nil
		}
		if _, err := w.Next(wait); err != nil {
			if ctx.Err() != nil {
				return nil, errContext(ctx, OutcomeNone)
			}
			return out, nil
		}
	}
}

func (r *ReadResult) failed() bool {
	for i := range r.Parts {
		if r.Parts[i].Err != nil {
			return true
		}
	}
	return false
}

func (n *Node) readAll(c Caller, at []Position) (*ReadResult, int) {
	out := &ReadResult{Parts: make([]PartitionRead, len(at))}
	got := 0
	for i := range at {
		got += n.readOne(c, &at[i], &out.Parts[i])
	}
	return out, got
}

// readOne fills one answer and returns its payload bytes.
func (n *Node) readOne(c Caller, at *Position, out *PartitionRead) int {
	part, queueExists, ok := n.partByName(c.Tenant, at.Queue, at.Partition)
	if !queueExists {
		out.Err = errOfCode(format.CodeUnknownQueue)
		return 0
	}
	if !ok {
		if at.Offset > 0 {
			out.Err = errRange()
		}
		return 0
	}
	start, err := n.logStart(&part)
	if err != nil {
		out.Err = errRead(err)
		return 0
	}
	out.Start, out.End = start, part.next
	if at.Offset < start || at.Offset > part.next {
		out.Err = errRange()
		return 0
	}
	budget := int64(at.MaxBytes)
	if budget <= 0 {
		budget = defaultReadBytes
	}
	s := part.span(at.Offset, max(part.stable, at.Offset))
	got := 0
	reader := frameReader{n: n}
	_, err = reader.read(s, min(budget, maxReadBytes), false, func(rec *Record) bool {
		got += len(rec.Payload)
		out.Records = append(out.Records, *rec)
		return true
	})
	if err != nil && len(out.Records) == 0 {
		n.event("read", err)
		out.Err = errRead(err)
	}
	return got
}

func errRange() *Error {
	return &Error{Code: CodeOffsetOutOfRange, Field: "offset", Message: "the offset is not in the partition's log"}
}

// Offsets implements Engine.
func (n *Node) Offsets(ctx context.Context, c Caller, qs []OffsetQuery) ([]OffsetAnswer, error) {
	if len(qs) > maxReadPositions {
		return nil, errBad("entries", "1024", "too many entries in one call")
	}
	if err := n.catchUp(ctx); err != nil {
		return nil, err
	}
	out := make([]OffsetAnswer, len(qs))
	for i := range qs {
		if ctx.Err() != nil {
			return nil, errContext(ctx, OutcomeNone)
		}
		n.offsetOne(c, &qs[i], &out[i])
	}
	return out, nil
}

func (n *Node) offsetOne(c Caller, q *OffsetQuery, out *OffsetAnswer) {
	if out.Err = checkNames(q.Queue, q.Partition, "partition"); out.Err != nil {
		return
	}
	part, queueExists, ok := n.partByName(c.Tenant, q.Queue, q.Partition)
	if !queueExists {
		out.Err = errOfCode(format.CodeUnknownQueue)
		return
	}
	if !ok {
		return
	}
	start, err := n.logStart(&part)
	if err != nil {
		out.Err = errRead(err)
		return
	}
	out.Start, out.End = start, part.next
	switch q.Kind {
	case Earliest:
		out.Found, out.Offset = true, start
	case Latest:
		out.Found, out.Offset = true, part.stable
	case AtTime:
		at, err := n.firstAt(&part, start, q.Time)
		if err != nil {
			out.Err = errRead(err)
			return
		}
		out.Found, out.Offset, out.CreatedAt = at.found, at.offset, at.w
	case OfID:
		rec, found, err := n.findMessage(&part, q.ID)
		if err != nil {
			out.Err = errRead(err)
			return
		}
		out.Found, out.Offset, out.CreatedAt = found, rec.Offset, rec.CreatedAt
	default:
		out.Err = errBad("kind", "", "unknown kind of offset query")
	}
}

// foundAt is an offset found by a property of its frame.
type foundAt struct {
	found  bool
	offset format.Offset
	w      format.Wall
}

// firstAt finds the first retained message with createdAt >= t.
func (n *Node) firstAt(part *partView, start format.Offset, t format.Wall) (foundAt, error) {
	return n.search(part, start, func(r *rows.Row) (bool, error) { return r.W >= t, nil })
}

// firstAfter finds the first retained message whose place is after p.
func (n *Node) firstAfter(part *partView, start format.Offset, p format.Place) (foundAt, error) {
	return n.search(part, start, func(r *rows.Row) (bool, error) {
		last, err := n.place(r)
		last.Ordinal += format.Ordinal(r.Count) - 1
		return p.Before(last), err
	})
}

// search bisects the partition's frames, whose stamps and places only rise, for the first one that
// satisfies ok; offsets of frames that are gone count as before it.
func (n *Node) search(part *partView, start format.Offset, ok func(*rows.Row) (bool, error)) (foundAt, error) {
	lo, hi := start, part.next
	var best foundAt
	for lo < hi {
		mid := lo + (hi-lo)/2
		r, held, err := n.rows.At(part.id, mid, part.newest)
		if err != nil {
			return foundAt{}, err
		}
		if !held || r.Base >= hi {
			hi = mid
			continue
		}
		fits, err := ok(&r)
		if err != nil {
			return foundAt{}, err
		}
		if fits {
			best = foundAt{found: true, offset: max(r.Base, start), w: r.W}
			hi = min(mid, r.Base)
			continue
		}
		lo = r.End()
	}
	return best, nil
}

// offsetAtTime resolves a seek by time.
func (n *Node) offsetAtTime(t format.Tenant, queue, partition string, w format.Wall) (foundAt, *Error) {
	part, queueExists, ok := n.partByName(t, queue, partition)
	switch {
	case !queueExists:
		return foundAt{}, errOfCode(format.CodeUnknownQueue)
	case !ok:
		return foundAt{}, errOfCode(format.CodeUnknownPartition)
	}
	start, err := n.logStart(&part)
	if err != nil {
		return foundAt{}, errRead(err)
	}
	at, err := n.firstAt(&part, start, w)
	if err != nil {
		return foundAt{}, errRead(err)
	}
	return at, nil
}

// logStart is the first retained offset: the explicit one, or the first frame not older than the
// queue's cutoff.
func (n *Node) logStart(part *partView) (format.Offset, error) {
	if part.cutoff == 0 || part.next == part.start {
		return part.start, nil
	}
	if part.lastW < part.cutoff {
		return part.next, nil
	}
	if start, ok := n.starts.get(part); ok {
		return start, nil
	}
	at, err := n.firstAt(part, part.start, part.cutoff)
	if err != nil {
		return 0, err
	}
	if !at.found {
		return part.next, nil
	}
	n.starts.put(part, at.offset)
	return at.offset, nil
}

// findMessage finds a message of a partition by message id or by a caller's id: message ids by
// arithmetic, others by a bounded backward scan.
func (n *Node) findMessage(part *partView, id string) (Record, bool, error) {
	start, err := n.logStart(part)
	if err != nil {
		return Record{}, false, err
	}
	if u, ok := format.ParseUUID(id); ok {
		if o, ok, err := n.offsetOfID(part, start, u); err != nil || ok {
			return n.recordAt(part, o, err)
		}
	}
	return n.scanBack(part, start, part.next, id, scanFrames, scanBytes)
}

const (
	scanFrames = 256
	scanBytes  = 1 << 20
)

// offsetOfID turns a message id of ours into an offset of the partition.
func (n *Node) offsetOfID(part *partView, start format.Offset, u format.UUID) (format.Offset, bool, error) {
	ms, place, ok := n.identity.place(u)
	if !ok {
		return 0, false, nil
	}
	before := place
	if before.Ordinal > 0 {
		before.Ordinal--
	} else {
		before.Index, before.Ordinal = before.Index-1, format.MaxOrdinals
	}
	at, err := n.firstAfter(part, start, before)
	if err != nil || !at.found {
		return 0, false, err
	}
	found, err := n.rows.Range(part.id, at.offset, at.offset+1, part.newest)
	if err != nil || len(found) == 0 {
		return 0, false, err
	}
	r := &found[0]
	first, err := n.place(r)
	if err != nil {
		return 0, false, err
	}
	nth := int64(place.Ordinal) - int64(first.Ordinal)
	if first.Index != place.Index || nth < 0 || nth >= int64(r.Count) || int64(r.W)/1000 != ms || r.IsRefused(uint32(nth)) {
		return 0, false, nil
	}
	offset := r.Base
	for i := uint32(0); i < uint32(nth); i++ {
		if !r.IsRefused(i) {
			offset++
		}
	}
	return offset, offset >= start, nil
}

func (n *Node) recordAt(part *partView, o format.Offset, err error) (Record, bool, error) {
	if err != nil {
		return Record{}, false, err
	}
	var out Record
	found := false
	reader := frameReader{n: n}
	_, err = reader.read(part.span(o, o+1), maxReadBytes, false, func(rec *Record) bool {
		out, found = *rec, true
		return false
	})
	return out, found, err
}

// scanBack looks for a caller's id in offsets [from, to), newest frames first, within bounds.
func (n *Node) scanBack(part *partView, from, to format.Offset, id string, frames int, bytesLeft int64) (Record, bool, error) {
	want := []byte(id)
	told, _ := format.ParseUUID(id)
	reader := frameReader{n: n}
	for to > from && frames > 0 && bytesLeft > 0 {
		low := from
		if to-from > scanFrames {
			low = to - scanFrames
		}
		found, err := n.rows.Range(part.id, low, to, part.newest)
		if err != nil {
			return Record{}, false, err
		}
		for _, r := range slices.Backward(found) {
			if frames--; frames < 0 || bytesLeft < 0 {
				return Record{}, false, nil
			}
			bytesLeft -= int64(r.Len)
			var hit Record
			ok := false
			err := reader.walk(&r, from, to, func(rec *Record) bool {
				if bytes.Equal(viewBytes(rec.TransactionID), want) || rec.ID == told {
					hit, ok = *rec, true
				}
				return !ok
			})
			if err != nil || ok {
				return hit, ok, err
			}
		}
		if to, err = n.before(part.id, found, from, low, part.newest); err != nil {
			return Record{}, false, err
		}
	}
	return Record{}, false, nil
}
