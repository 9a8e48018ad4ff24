package engine

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"queen/engine/format"
	"queen/engine/machine"
	"queen/engine/seal"
)

// noReason is told of a dead letter that was filed without one.
const noReason = "Retries exhausted"

// deadLook bounds the dead letters one listing looks at.
const deadLook = 100_000

// DeadLetters implements Catalog.
func (c catalog) DeadLetters(ctx context.Context, who Caller, f DeadLetterFilter) ([]DeadLetter, error) {
	limit := f.Limit
	if limit <= 0 {
		limit = 100
	}
	limit = min(limit, 1000)
	var found []machine.DeadLetter
	look, skip := deadLook, f.Skip
	want := limit
	if f.Error != "" || f.Partition != "" {
		want = deadLook // the reason and the name are checked below
	}
	take := func(d machine.DeadLetter) bool {
		if look--; look < 0 {
			return false
		}
		if f.Group != "" && d.Group != f.Group || f.From != 0 && d.FailedAt < f.From || f.To != 0 && d.FailedAt >= f.To {
			return true
		}
		if want == limit && skip > 0 {
			skip--
			return true
		}
		found = append(found, d)
		return len(found) < want
	}
	c.n.state.RLock()
	if f.Queue != "" {
		if q, ok := c.n.state.m.QueueByName(who.Tenant, f.Queue); ok {
			c.n.state.m.DeadLetters(q.ID, take)
		}
	}
	c.n.state.RUnlock()
	if f.Queue == "" {
		c.each(who.Tenant, func(q *machine.Queue) { c.n.state.m.DeadLetters(q.ID, take) })
		sortDead(found)
	}
	var out []DeadLetter
	for i := range found {
		d, ok, err := c.n.deadLetter(who.Tenant, &found[i])
		var sealed *seal.Error
		switch {
		case errors.As(err, &sealed):
			d.withoutMessage(found[i].Offset, sealed)
			ok = true
		case err != nil:
			return nil, errRead(err)
		}
		if !ok || f.Partition != "" && d.Partition != f.Partition || f.Error != "" && !strings.Contains(d.Error, f.Error) {
			continue
		}
		if want != limit && skip > 0 {
			skip--
			continue
		}
		if out = append(out, d); len(out) == limit || ctx.Err() != nil {
			break
		}
	}
	return out, nil
}

// deadLetter renders a dead letter with its message; false when it went away meanwhile.
func (n *Node) deadLetter(t format.Tenant, d *machine.DeadLetter) (DeadLetter, bool, error) {
	part, ok := n.partByID(t, d.Partition)
	if !ok {
		return DeadLetter{}, false, nil
	}
	out := DeadLetter{ID: d.ID, Queue: part.queueName, Partition: part.name, PartitionID: d.Partition, Group: d.Group,
		Retries: d.Retries, FailedAt: d.FailedAt}
	row, _, err := n.keyed.deadRow(d.ID[:])
	if err != nil {
		return out, false, err
	}
	out.Timer = string(row.Key)
	if out.Error = string(row.Reason); out.Error == "" {
		out.Error = noReason
	}
	rec, found, err := n.deadMessage(&part, d)
	if err != nil || !found {
		return out, false, err
	}
	out.Message = rec
	return out, true, nil
}

// pinned reads a message that a dead letter keeps, whatever retention says of its neighbours.
func (n *Node) pinned(part *partView, o format.Offset) (Record, bool, error) {
	var out Record
	found := false
	reader := frameReader{n: n}
	s := span{pid: part.id, from: o, to: o + 1, newest: part.newest}
	_, err := reader.read(s, maxReadBytes, false, func(rec *Record) bool {
		out, found = *rec, true
		return false
	})
	return out, found, err
}

func sortDead(ds []machine.DeadLetter) {
	sortBy(ds, func(d *machine.DeadLetter) int64 { return -int64(d.FailedAt) })
}

// DeleteDeadLetters implements Catalog. An id may stand on several messages: outside the dedup window it is
// a new one. Each goes in a command of its own.
func (c catalog) DeleteDeadLetters(ctx context.Context, who Caller, id format.PartitionID, transactionID string) (uint64, error) {
	if who.Key != "" {
		return c.deleteDeadOnce(ctx, who, id, transactionID)
	}
	total := uint64(0)
	for {
		n, err := c.deleteDeadMessage(ctx, who, id, transactionID)
		if total += n; err != nil || n == 0 {
			return total, err
		}
	}
}

// deleteDeadMessage removes the dead letters of the newest message with an id; 0 when there is none.
func (c catalog) deleteDeadMessage(ctx context.Context, who Caller, id format.PartitionID, transactionID string) (uint64, error) {
	part, ok := c.n.partByID(who.Tenant, id)
	if !ok {
		return 0, nil
	}
	d, ok, err := c.n.deadAt(&part, transactionID)
	if err != nil {
		return 0, errRead(err)
	}
	if !ok {
		return 0, nil
	}
	res, bad := c.n.counted(ctx, func(b *format.CommandBuf) {
		b.AddDelete(&format.Delete{What: format.DeleteDeadLetter, Tenant: who.Tenant, Queue: viewBytes(part.queueName),
			Partition: part.id, Offset: d.Offset})
	})
	if bad != nil && (bad.Code == CodeGone || bad.Code == CodeUnknownPartition) {
		return 0, nil
	}
	if bad != nil {
		return 0, bad
	}
	return res.Rows, nil
}

// deadAt finds the newest dead letter of a partition whose message has the given id.
func (n *Node) deadAt(part *partView, transactionID string) (machine.DeadLetter, bool, error) {
	n.state.RLock()
	all := n.state.m.DeadLettersAt(part.id, 0, ^format.Offset(0), maxCountedDead)
	n.state.RUnlock()
	var best machine.DeadLetter
	found := false
	for i := range all {
		if found && n.identity.filedBefore(&all[i], &best) {
			continue
		}
		rec, ok, err := n.deadMessage(part, &all[i])
		if err != nil {
			return best, false, err
		}
		if ok && rec.has(transactionID) {
			best, found = all[i], true
		}
	}
	return best, found, nil
}

// Purge implements Catalog.
func (c catalog) Purge(ctx context.Context, who Caller, queue string, group *string) (uint64, error) {
	cmd := format.Purge{Tenant: who.Tenant, Queue: viewBytes(queue), AnyGroup: group == nil}
	digest := textDigest("purge", queue)
	if group != nil {
		cmd.Group = viewBytes(*group)
		digest = textDigest("purge", queue, *group)
	}
	total := uint64(0)
	for part := 0; ; part++ {
		res, err := c.n.countedUnder(ctx, who, digest, part, func(b *format.CommandBuf) { b.AddPurge(&cmd) })
		if err != nil {
			return total, err
		}
		if total += res.Rows; !res.More {
			return total, nil
		}
	}
}

// countedUnder is counted, under the caller's Idempotency-Key if there is one.
func (n *Node) countedUnder(ctx context.Context, c Caller, digest [16]byte, part int, add func(b *format.CommandBuf)) (format.CountResult, *Error) {
	if c.Key == "" {
		return n.counted(ctx, add)
	}
	counts, err := n.countOnce(ctx, c, digest, part, add)
	if err != nil || len(counts) == 0 {
		return format.CountResult{}, err
	}
	return counts[0].CountResult, errOfCode(counts[0].code)
}

// deleteDeadOnce removes all dead letters of an address in one entry, so that a repeat under the key removes none that
// were filed since.
func (c catalog) deleteDeadOnce(ctx context.Context, who Caller, id format.PartitionID, transactionID string) (uint64, error) {
	part, ok := c.n.partByID(who.Tenant, id)
	if !ok {
		return 0, nil
	}
	offsets, err := c.n.deadOffsets(&part, transactionID)
	if err != nil {
		return 0, errRead(err)
	}
	digest := textDigest("delete dead", strconv.FormatUint(uint64(id), 10), transactionID)
	counts, bad := c.n.countOnce(ctx, who, digest, 0, func(b *format.CommandBuf) {
		for _, o := range offsets {
			b.AddDelete(&format.Delete{What: format.DeleteDeadLetter, Tenant: who.Tenant, Queue: viewBytes(part.queueName),
				Partition: part.id, Offset: o})
		}
	})
	if bad != nil {
		return 0, bad
	}
	total := uint64(0)
	for i := range counts {
		total += counts[i].Rows
	}
	return total, nil
}

// deadOffsets are the offsets of the messages with an id that have dead letters, as many as one key remembers.
func (n *Node) deadOffsets(part *partView, transactionID string) (offsets []format.Offset, err error) {
	n.state.RLock()
	all := n.state.m.DeadLettersAt(part.id, 0, ^format.Offset(0), maxCountedDead)
	n.state.RUnlock()
	for i := range all {
		if i > 0 && all[i].Offset == all[i-1].Offset {
			continue
		}
		rec, ok, err := n.deadMessage(part, &all[i])
		if err != nil {
			return nil, err
		}
		if ok && rec.has(transactionID) {
			offsets = append(offsets, all[i].Offset)
		}
		if len(offsets) == format.MaxOnceOrdinals-1 {
			break
		}
	}
	return offsets, nil
}

// has says that an address names the message: by its transaction id or by its own.
func (r *Record) has(id string) bool { return r.TransactionID == id || r.ID.String() == id }

// redrive reads a dead letter's message and proposes its move to a partition's tail: append and
// removal are one command, both or neither (S-dlq-14).
func (d *doCall) redrive(_ context.Context, i int, op *Redrive) *Error {
	n := d.n
	if d.repeating {
		return d.redriveAgain(i)
	}
	id := op.DeadLetter
	if op.ByAddress {
		part, ok := n.partByID(d.caller.Tenant, op.PartitionID)
		if !ok {
			return errOfCode(format.CodeGone)
		}
		found, ok, err := n.deadAt(&part, op.TransactionID)
		if err != nil {
			return errRead(err)
		}
		if !ok {
			return errOfCode(format.CodeGone)
		}
		id = found.ID
	}
	n.state.RLock()
	head, ok := n.state.m.DeadLetterByID(d.caller.Tenant, id)
	n.state.RUnlock()
	if !ok {
		return errOfCode(format.CodeGone)
	}
	dead, ok, err := n.deadLetter(d.caller.Tenant, &head)
	if err != nil {
		return errRead(err)
	}
	if !ok {
		return errOfCode(format.CodeGone)
	}
	queue, partition := dead.Queue, dead.Partition
	if op.ToOther {
		queue = op.Queue
	}
	if op.ToPart {
		partition = op.Partition
	} else if op.ToOther {
		partition = dead.Partition
	}
	only := ""
	if op.GroupOnly {
		if only = dead.Group; queue != dead.Queue {
			return errBad("target", "group-only in the queue of the dead letter", "a copy for one consumer group can not go to another queue")
		}
		if !n.hasGroup(d.caller.Tenant, queue, only) {
			return errNoGroupLeft(only)
		}
	}
	return d.addRedrive(i, &dead, queue, partition, only)
}

// hasGroup tells whether a consumer group is registered on a queue.
func (n *Node) hasGroup(t format.Tenant, queue, group string) bool {
	n.state.RLock()
	defer n.state.RUnlock()
	q, ok := n.state.m.QueueByName(t, queue)
	if ok {
		_, ok = n.state.m.GroupByName(q.ID, group)
	}
	return ok
}

// errNoGroupLeft refuses to move a dead letter to where nobody would ever be handed it.
func errNoGroupLeft(group string) *Error {
	return &Error{Code: CodeUnknownGroup, Field: "target", Message: "the consumer group " + strconv.Quote(group) + " is not there to be handed the message"}
}

// addRedrive adds the move of a dead letter, for the consumer group only or for all when that is "".
func (d *doCall) addRedrive(i int, dead *DeadLetter, queue, partition, only string) *Error {
	if err := checkNames(queue, partition, "partition"); err != nil {
		return err
	}
	id := dead.ID
	ring, refused := d.n.sealFor(d.caller.Tenant, queue)
	if refused != nil {
		return refused
	}
	cmd := format.Redrive{DeadLetter: id, Append: format.Append{Tenant: d.caller.Tenant, Queue: viewBytes(queue),
		Partition: viewBytes(partition), Count: 1}}
	frame, refused := d.n.movedRecord(d.caller.Tenant, dead, only, &cmd.Append)
	if refused != nil {
		return refused
	}
	record := frame != nil
	if !record {
		frame = d.movedMessage(id, &dead.Message, only, &cmd.Append)
	}
	if only != "" {
		format.MarkGrouped(frame)
	}
	frame, refused = d.n.seal(ring, frame, seal.Owner{Tenant: d.caller.Tenant, Queue: viewBytes(queue), Partition: viewBytes(partition)})
	if refused != nil {
		return refused
	}
	note := redriveNote{id: id, queue: queue, partition: partition, group: dead.Group, transactionID: dead.Message.TransactionID, record: record}
	if d.caller.Key != "" {
		d.redrives = append(d.redrives, note)
	}
	d.addMove(i, &note, &cmd, frame)
	d.push.sub.addQueue(d.caller.Tenant, queue)
	return nil
}

// movedMessage completes the append of a native message, whose transaction id says what it is a copy of, and makes its frame.
func (d *doCall) movedMessage(id format.DeadLetterID, rec *Record, only string, a *format.Append) []byte {
	txn := "dlq:" + id.String()
	msg := format.FrameMessage{TransactionID: viewBytes(txn), HasID: true, TraceID: rec.TraceID,
		ProducerSub: viewBytes(rec.ProducerSub), ContentType: viewBytes(rec.ContentType), Payload: rec.Payload,
		Headers: format.AppendHeaders(nil, movedHeaders(formatHeaders(rec.Headers), rec, only))}
	hash := format.HashID(d.n.identity.hashKey, msg.TransactionID)
	a.Frame, a.IDs, a.Hashes = format.FrameNative, format.IDsAll, hash[:]
	d.push.evidence.attach(d.n, a)
	return format.EncodeFrame(nil, []format.FrameMessage{msg}, format.FrameOptions{Compress: true})
}

// addMove adds the command and how its verdict is told.
func (d *doCall) addMove(i int, note *redriveNote, cmd *format.Redrive, frame []byte) {
	sub, item := d.push.sub, note.item()
	d.after = append(d.after, afterOp{op: i, command: sub.buf.Count, write: true,
		finish: func(s *submission, it *format.Result, out *Result) { d.redriven(s, it, out, item) }})
	sub.buf.AddRedrive(cmd, frame)
}

func (d *doCall) redriven(s *submission, it *format.Result, out *Result, item RedriveItem) {
	switch it.Code {
	case format.CodeDuplicate:
		item.Duplicate, item.Message.Status = true, Duplicate
	case format.CodeOK:
		a := &s.flight.results.Appends[it.At]
		item.Message.Offset = a.Base
		item.Message.ID = d.n.identity.messageID(s.flight.header.W, format.Place{Index: s.flight.index, Ordinal: it.First})
		if !s.again {
			d.n.counters.redriven.Add(1)
		}
	case format.CodeEncryption:
		out.Err = d.n.errUnsealed()
		return
	case format.CodeLimit:
		out.Err = errOfCode(it.Code)
		if a := &s.flight.results.Appends[it.At]; len(a.Dups) > 0 && a.Dups[0].Full {
			out.Err = d.n.errFull(a.Queue)
		}
		return
	default:
		out.Err = errOfCode(it.Code)
		return
	}
	out.Redrive = item
}
