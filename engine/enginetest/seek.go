package enginetest

import (
	"slices"

	"queen/engine"
	"queen/engine/format"
)

// seek moves a group on one partition or on the whole queue: live leases end, retry and attempt
// state resets (S-seek-1, S-seek-2). A group that never popped is registered by it.
func (s *state) seek(t format.Tenant, op *engine.SetOffset) engine.Result {
	q := s.queue(t, op.Queue)
	if q == nil {
		return engine.Result{Err: fail(engine.CodeUnknownQueue, "no such queue")}
	}
	parts := q.parts
	if !op.Whole {
		p := q.part(op.Partition)
		if p == nil {
			return engine.Result{Err: fail(engine.CodeUnknownPartition, "no such partition")}
		}
		parts = []*part{p}
		if !op.To.End && !op.To.ByTime && op.To.Offset > p.end() {
			return engine.Result{Err: fail(engine.CodeOffsetOutOfRange, "the offset is above the end")}
		}
	}
	g := s.register(q, groupName(op.Group), engine.Start{})
	if op.Whole { // also partitions that come later start there
		switch {
		case op.To.End:
			g.start, g.seq = engine.Start{Kind: format.StartNew}, s.tick()
		case op.To.ByTime:
			g.start = engine.Start{Kind: format.StartFrom, From: op.To.Time}
		default:
			g.start = engine.Start{Kind: format.StartAll}
		}
	}
	for _, p := range parts {
		c := g.touch(p)
		c.next = p.seekTo(op.To)
		c.lease, c.last, c.repeat = nil, nil, nil
		c.attempts, c.retries, c.backoff, c.ready = 0, 0, 0, 0
	}
	s.refresh(q, false)
	return engine.Result{Rows: uint64(len(parts))}
}

func (p *part) seekTo(to engine.SeekTo) format.Offset {
	switch {
	case to.End:
		return p.end()
	case to.ByTime:
		return p.firstAt(to.Time)
	}
	return min(max(to.Offset, p.start), p.end())
}

// redrive moves a dead letter to the tail of a partition under a fresh message id and the
// transactionId dlq:<id>; both or neither (S-dlq-14 to 17).
func (s *state) redrive(r *request, op *engine.Redrive) engine.Result {
	d := s.deadLetter(r.caller.Tenant, op)
	if d == nil {
		return engine.Result{Err: fail(engine.CodeGone, "no such dead letter")}
	}
	queue, name := d.Queue, d.Partition
	if op.Queue != "" {
		queue = op.Queue
	}
	if op.Partition != "" {
		name = op.Partition
	}
	add := s.append(r, &engine.Append{Queue: queue, Partition: name, Messages: []engine.Message{{
		TransactionID: "dlq:" + d.ID.String(), TraceID: d.Message.TraceID, ContentType: d.Message.ContentType,
		Headers: d.Message.Headers, Payload: d.Message.Payload}}})
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
	return res
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
