package engine

import (
	"context"
	"slices"

	"queen/engine/batch"
	"queen/engine/format"
	"queen/engine/seal"
	"queen/engine/stats"
)

// producing is one Produce under way.
type producing struct {
	n       *Node
	caller  Caller
	batches []RecordBatch
	out     []Produced
	sub     *submission
	items   []producedItem
	frame   []byte
	ring    *seal.Ring
	sealed  string // the queue that ring is of
	known   bool
}

// producedItem says which batch a command of the submission holds.
type producedItem struct {
	batch int
	count uint32
}

// Produce implements Records.
func (r recordsDoor) Produce(ctx context.Context, c Caller, batches []RecordBatch) ([]Produced, error) {
	n := r.n
	switch {
	case ctx.Err() != nil:
		return nil, errContext(ctx, OutcomeNone)
	case n.closing():
		return nil, errClosed()
	case len(batches) > maxRecordPositions:
		return nil, errPositions()
	}
	p := producing{n: n, caller: c, batches: batches, out: make([]Produced, len(batches)), sub: newSubmission(writing)}
	p.grow()
	for i := range batches {
		if err := p.encode(i); err != nil {
			p.out[i].Err = err
		}
	}
	if len(p.items) == 0 {
		p.sub.recycle()
		return p.out, nil
	}
	size := int64(p.sub.size())
	if size > int64(n.fuser.most) {
		p.sub.recycle()
		return nil, n.fuser.tooLarge()
	}
	if err := n.admitWrite(ctx, size); err != nil {
		p.sub.recycle()
		return nil, err
	}
	defer n.writes.release(size)
	if err := n.commit(ctx, p.sub); err != nil {
		return nil, err
	}
	p.results()
	p.sub.flight.release()
	return p.out, nil
}

// grow makes room for all batches at once: a call of megabytes that doubles its way there copies and clears as much again.
func (p *producing) grow() {
	size := 0
	for i := range p.batches {
		size += format.FrameHeadSize + len(p.batches[i].Batch)
	}
	p.sub.buf.Payload = slices.Grow(p.sub.buf.Payload, size)
}

// encode puts one batch into the submission, or says why it can not be stored.
func (p *producing) encode(i int) *Error {
	b := &p.batches[i]
	if err := checkNames(b.Queue, b.Partition, "partition"); err != nil {
		return err
	}
	h, bad := batch.ParseHeader(b.Batch)
	switch {
	case bad != nil:
		return &Error{Code: CodeBadRequest, Field: "batch", Message: "not a record batch", Cause: bad}
	case h.Size() != len(b.Batch) || h.Count <= 0 || h.LastOffsetDelta != h.Count-1 || h.Control():
		return errBad("batch", "", "one whole record batch is wanted, of one record or more and no control batch")
	case h.Count > format.MaxOrdinals:
		return errBad("batch", "4194304 records", "too many records in one batch")
	case p.sub.buf.Ordinals+format.Ordinal(h.Count) > entryOrdinals && len(p.items) > 0:
		return errBad("batches", "1048576 records", "too many records in one call")
	}
	if !p.known || p.sealed != b.Queue {
		ring, err := p.n.sealFor(p.caller.Tenant, b.Queue)
		if err != nil {
			return err
		}
		p.ring, p.sealed, p.known = ring, b.Queue, true
	}
	cmd := format.Append{
		Tenant: p.caller.Tenant, Queue: viewBytes(b.Queue), Partition: viewBytes(b.Partition),
		Frame: format.FrameKafka, Count: uint32(h.Count),
	}
	if err := batchHead(b, &h, &cmd.Batch); err != nil {
		return err
	}
	if cmd.Batch.Implicit {
		if err := p.n.txnShare.checkBatch(p.n, &cmd); err != nil {
			return err
		}
	}
	p.frame = format.EncodeKafkaFrame(p.frame[:0], uint32(h.Count), b.Batch)
	owner := seal.Owner{Tenant: p.caller.Tenant, Queue: cmd.Queue, Partition: cmd.Partition}
	var err *Error
	if p.frame, err = p.n.seal(p.ring, p.frame, owner); err != nil {
		return err
	}
	p.items = append(p.items, producedItem{i, cmd.Count})
	p.sub.buf.AddAppend(&cmd, p.frame)
	if !cmd.Batch.Transactional {
		p.sub.addQueue(p.caller.Tenant, b.Queue) // others are for nobody before their transaction ends
	}
	return nil
}

// batchHead is what apply judges of a batch.
func batchHead(b *RecordBatch, h *batch.Header, to *format.BatchHead) *Error {
	*to = format.BatchHead{Timed: true, MaxTime: h.MaxTimestamp}
	if h.ProducerID == NoProducer {
		if h.Transactional() {
			return errBad("batch", "", "a transactional batch without a producer")
		}
		return nil
	}
	if h.ProducerID < 0 || h.ProducerID > format.MaxProducerID || h.ProducerEpoch < 0 || h.BaseSequence < 0 {
		return errBad("batch", "", "producer, epoch or sequence of the batch is out of range")
	}
	*to = format.BatchHead{
		Idempotent: true, Timed: true, Producer: format.ProducerID(h.ProducerID), Epoch: h.ProducerEpoch, Sequence: h.BaseSequence,
		Transactional: h.Transactional(), Implicit: h.Transactional() && b.Implicit, MaxTime: h.MaxTimestamp,
	}
	return nil
}

// results turns the verdicts into answers.
func (p *producing) results() {
	items, fl := p.sub.items(), p.sub.flight
	var sum pushSum
	var t tally
	for k := range p.items {
		out, it := &p.out[p.items[k].batch], &items[k]
		if out.Err = p.refusal(it); out.Err != nil {
			sum.refused += uint64(p.items[k].count)
			continue
		}
		a := &fl.results.Appends[it.At]
		out.Base, out.CreatedAt, out.End = a.Base, fl.header.W, a.Base+format.Offset(a.Kept)
		if len(a.Dups) > 0 {
			out.Duplicate, out.CreatedAt = true, p.n.createdAt(p.caller.Tenant, a.Partition, a.Base)
			sum.dups += uint64(a.Count)
			continue
		}
		bytes := uint64(len(p.batches[p.items[k].batch].Batch))
		sum.queued += uint64(a.Count)
		sum.bytes += bytes
		t.add(p.n, p.caller.Tenant, a.Queue, &stats.Counts{stats.PushMessages: uint64(a.Count), stats.PushBytes: bytes})
	}
	p.bounds(items)
	sum.addTo(&p.n.counters)
	t.done(p.n, p.caller.Tenant, stats.PushRequests)
}

func (p *producing) refusal(it *format.Result) *Error {
	if it.Code == format.CodeEncryption {
		return p.n.errUnsealed()
	}
	return errOfCode(it.Code)
}

// createdAt is when a message was appended; 0 when it is not there any more.
func (n *Node) createdAt(t format.Tenant, id format.PartitionID, o format.Offset) format.Wall {
	part, ok := n.partByID(t, id)
	if !ok {
		return 0
	}
	row, ok, err := n.rows.At(id, o, part.newest)
	if !ok || err != nil || row.Base > o {
		return 0
	}
	return row.W
}

// bounds fills in where the partitions begin and end now.
func (p *producing) bounds(items []format.Result) {
	p.n.state.RLock()
	defer p.n.state.RUnlock()
	for k := range p.items {
		out := &p.out[p.items[k].batch]
		if out.Err != nil {
			continue
		}
		a := &p.sub.flight.results.Appends[items[k].At]
		// One that is not there was deleted right after.
		if start, end, ok := p.n.state.m.Bounds(p.caller.Tenant, a.Partition); ok {
			out.Start, out.End = start, max(out.End, end)
		}
	}
}
