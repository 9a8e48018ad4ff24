package enginetest

import (
	"slices"
	"strconv"

	"queen/engine"
	"queen/engine/format"
)

// seek moves a group on one partition or on the whole queue: live leases end, retry and attempt
// state resets (S-seek-1, S-seek-2).
func (s *state) seek(t format.Tenant, op *engine.SetOffset) engine.Result {
	other := op.Partition
	if len(op.Group) > len(other) {
		other = op.Group
	}
	if e := checkNames(op.Queue, other); e != nil {
		return engine.Result{Err: e}
	}
	if op.Whole && !op.To.End && !op.To.ByTime {
		return engine.Result{Err: fail(engine.CodeBadRequest, "a whole group can be moved to a time or to the end")}
	}
	q := s.queue(t, op.Queue)
	if q == nil {
		return engine.Result{Err: fail(engine.CodeUnknownQueue, "no such queue")}
	}
	if op.Whole {
		return s.seekAll(q, op)
	}
	p := q.part(op.Partition)
	if p == nil {
		return engine.Result{Err: fail(engine.CodeUnknownPartition, "no such partition")}
	}
	g := q.group(groupName(op.Group))
	if g == nil {
		return engine.Result{Err: fail(engine.CodeUnknownGroup, "consumer group not found")}
	}
	old := g.cursor(p) // acks that ended a lease are remembered whatever happens to the cursor (S-ack-15)
	g.cursors[p] = &cursor{touched: true, next: p.seekTo(op.To), consumed: old.consumed, memos: old.memos}
	s.refresh(q, false)
	return engine.Result{Rows: 1}
}

// seekAll is a new registration: every cursor starts over where it says, also those of partitions
// that come later. A time that is still to come means the end (S-seek-2).
func (s *state) seekAll(q *queue, op *engine.SetOffset) engine.Result {
	g := s.register(q, groupName(op.Group), engine.Start{}, false)
	g.start, g.seq, g.walked = engine.Start{Kind: format.StartNew}, s.tick(), true
	g.forgetCursors()
	g.sought = true
	if op.To.ByTime && op.To.Time <= s.w {
		g.start, g.walked = engine.Start{Kind: format.StartFrom, From: op.To.Time}, false
	}
	s.refresh(q, false)
	return engine.Result{Rows: uint64(len(q.parts))}
}

// forgetCursors makes every cursor missing. Acks that ended a lease are remembered all the same (S-ack-15).
func (g *group) forgetCursors() {
	for p, old := range g.cursors {
		g.cursors[p] = &cursor{memos: old.memos}
	}
}

func (p *part) seekTo(to engine.SeekTo) format.Offset {
	switch {
	case to.End:
		return p.end()
	case to.ByTime:
		return p.firstAt(to.Time)
	}
	return min(to.Offset, p.end()) // what is gone below it is skipped when it is claimed
}

// redrive moves a dead letter to the tail of a partition under a fresh message id and the
// transactionId dlq:<id>; both or neither (S-dlq-14 to 17).
func (s *state) redrive(by engine.Caller, op *engine.Redrive) engine.Result {
	d := s.deadLetter(by.Tenant, op)
	if d == nil {
		return engine.Result{Err: fail(engine.CodeGone, "no such dead letter")}
	}
	if e := checkNames(op.Queue, op.Partition); e != nil {
		return engine.Result{Err: e}
	}
	queue, name := d.Queue, d.Partition
	if op.Queue != "" {
		queue = op.Queue
	}
	if op.Partition != "" {
		name = op.Partition
	}
	only := ""
	if op.GroupOnly {
		if only = d.Group; queue != d.Queue {
			return engine.Result{Err: fail(engine.CodeBadRequest, "a copy for one group stays in its queue")}
		}
		if s.queue(d.tenant, queue).group(only) == nil {
			return engine.Result{Err: fail(engine.CodeUnknownGroup, "nobody would be handed it")}
		}
	}
	add := s.append(by, &engine.Append{Queue: queue, Partition: name, Messages: []engine.Message{{
		TransactionID: "dlq:" + d.ID.String(), TraceID: d.Message.TraceID, ContentType: d.Message.ContentType,
		Headers: movedHeaders(&s.messageOf(d).rec, only), Payload: d.Message.Payload}}})
	m := add.Messages[0]
	if m.Err != nil {
		return engine.Result{Err: m.Err}
	}
	res := engine.Result{Redrive: engine.RedriveItem{DeadLetter: d.ID, Queue: queue, Partition: name,
		Group: d.Group, TransactionID: d.Message.TransactionID, Message: m}}
	if m.Status == engine.Duplicate {
		res.Redrive.Duplicate = true
		return res
	}
	s.dead = slices.DeleteFunc(s.dead, func(o *deadLetter) bool { return o == d })
	s.stats.Redriven++
	if q := s.queue(by.Tenant, queue); only != "" {
		q.part(name).msgs[m.Offset].only = only
		s.refresh(q, true)
	}
	return res
}

// messageOf is the message that a dead letter points at, with the id that the engine gave it.
func (s *state) messageOf(d *deadLetter) *message {
	if d.Timer != "" {
		return &message{rec: d.Message} // it was never stored
	}
	p := s.tenantPart(d.tenant, d.PartitionID)
	if p == nil {
		p = s.queue(d.tenant, d.Queue).part(d.Partition)
	}
	return &p.msgs[d.offset]
}

// movedHeaders are those of a copy: the message's own, and where it stood before it was moved for the first time.
func movedHeaders(rec *engine.Record, only string) (out []engine.Header) {
	origin := []engine.Header{{Name: engine.HeaderOriginalID, Value: []byte(rec.ID.String())},
		{Name: engine.HeaderOriginalOffset, Value: strconv.AppendUint(nil, uint64(rec.Offset), 10)},
		{Name: engine.HeaderOriginalCreatedAt, Value: format.AppendISO(nil, rec.CreatedAt)}}
	among := func(hs []engine.Header, name string) bool {
		return slices.ContainsFunc(hs, func(h engine.Header) bool { return h.Name == name })
	}
	moved := !slices.ContainsFunc(origin, func(o engine.Header) bool { return !among(rec.Headers, o.Name) })
	for _, h := range rec.Headers {
		if h.Name != engine.HeaderOnlyGroup && (moved || !among(origin, h.Name)) {
			out = append(out, h)
		}
	}
	if !moved && rec.Offset < format.TimerOffset {
		out = append(out, origin...)
	}
	if only != "" {
		out = append(out, engine.Header{Name: engine.HeaderOnlyGroup, Value: []byte(only)})
	}
	return out
}

func (s *state) deadLetter(t format.Tenant, op *engine.Redrive) *deadLetter {
	for _, d := range slices.Backward(s.dead) {
		if d.tenant != t {
			continue
		}
		if op.ByAddress && d.PartitionID == op.PartitionID && d.Message.TransactionID == op.TransactionID ||
			!op.ByAddress && d.ID == op.DeadLetter {
			return d
		}
	}
	return nil
}
