package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"queen/engine/format"
)

// Do implements Engine. Consumption and writes of one batch travel as two submissions, so that the
// writes wait for admission and the acks do not (S-bp-3).
func (n *Node) Do(ctx context.Context, c Caller, b Batch) ([]Result, error) {
	if ctx.Err() != nil {
		return nil, errContext(ctx, OutcomeNone)
	}
	shape := shapeOf(b.Ops)
	if shape.keyed() {
		if err := shape.check(b.Atomic); err != nil {
			return nil, err
		}
		if err := distinct(b.Ops); err != nil {
			return nil, err
		}
		if err := n.switchedOn(b.Ops); err != nil {
			return nil, err
		}
	}
	if n.cluster != nil && !pushes(b.Ops) && n.mayLag() { // a lease may be older elsewhere than here
		if err := n.catchUp(ctx); err != nil {
			return nil, err
		}
	}
	if b.Atomic || c.Key != "" {
		return n.doWhole(ctx, c, b, &shape)
	}
	d := n.newCall(c, b.Ops, b.Results, newSubmission(consumption), newSubmission(writing))
	defer d.recycle()
	d.push.evidence.gone = ctx.Done()
	for i, op := range b.Ops {
		if err := d.encode(ctx, i, op); err != nil {
			d.refuse(i, err)
		}
	}
	d.ack.encode(d.refuse)
	if err := d.commit(ctx); err != nil {
		return nil, err
	}
	d.results()
	d.repeatStale(ctx)
	d.answerReads(ctx)
	if !shape.keyed() {
		d.done()
	}
	return d.out, nil
}

// pushes reports that a call only adds messages, so that nothing about it depends on what is applied here.
func pushes(ops []Op) bool {
	for _, op := range ops {
		if _, ok := op.(*Append); !ok {
			return false
		}
	}
	return true
}

// doCalls recycles what calls encode with; growing it anew each time took a twentieth of the processor time.
var doCalls = sync.Pool{New: func() any { return new(doCall) }}

// keptOps is how many ops a call may have had that is kept.
const keptOps = 1 << 12

// keptMessages is how many messages a call's tables may have room for that are kept.
const keptMessages = 1 << 14

// newCall begins a call that puts what consumers do into use and what grows storage into write, which may be
// the same. It answers in room if that is enough.
func (n *Node) newCall(c Caller, ops []Op, room []Result, use, write *submission) *doCall {
	if cap(room) < len(ops) {
		room = make([]Result, len(ops))
	} else {
		room = room[:len(ops)]
		clear(room)
	}
	d := doCalls.Get().(*doCall)
	d.n, d.caller, d.ops, d.out, d.use = n, c, ops, room, use
	d.push.n, d.push.caller, d.push.ops, d.push.sub = n, c, ops, write
	d.ack.n, d.ack.caller, d.ack.sub = n, c, use
	d.look.tenant = c.Tenant
	return d
}

// recycle ends a call's use of d. What the submissions hold is not d's.
func (d *doCall) recycle() {
	if len(d.ops) > keptOps || cap(d.push.frame) > pooledBytes || cap(d.push.msgs) > keptMessages {
		return
	}
	clear(d.after)
	*d = doCall{push: d.push.emptied(), ack: d.ack.emptied(), look: d.look.emptied(), after: d.after[:0], subs: d.subs[:0]}
	doCalls.Put(d)
}

// done lets go of the verdicts, unless an op that may have kept a part of them was among them.
func (d *doCall) done() {
	if len(d.after) > 0 || len(d.reads) > 0 {
		return
	}
	for _, s := range d.subs {
		s.flight.release()
	}
}

// repeatStale pushes again what apply refused because the marks moved on between the look-up of older
// ids and apply. All frames of one op are refused together, so that order is kept.
func (d *doCall) repeatStale(ctx context.Context) {
	var again Batch
	var at []int
	for i := range d.push.frames {
		f := &d.push.frames[i]
		if f.command < 0 {
			continue
		}
		if d.push.sub.items()[f.command].Code == format.CodeStaleEvidence && (len(at) == 0 || at[len(at)-1] != f.op) {
			at, again.Ops = append(at, f.op), append(again.Ops, d.ops[f.op])
		}
	}
	for _, op := range d.stale {
		at, again.Ops = append(at, op), append(again.Ops, d.ops[op])
	}
	if len(at) == 0 {
		return
	}
	d.n.counters.staleEvidence.Add(uint64(len(at)))
	out, err := []Result(nil), error(nil)
	if d.push.evidence.err != nil {
		err = d.push.evidence.err
	} else {
		out, err = d.n.Do(ctx, d.caller, again)
	}
	for k, op := range at {
		if err == nil {
			d.out[op] = out[k]
			continue
		}
		var refusal *Error
		if !errors.As(err, &refusal) {
			refusal = &Error{Code: CodeInternal, Outcome: OutcomeNone, Message: "the push could not be repeated", Cause: err}
		}
		d.out[op] = Result{}
		d.refuse(op, refusal)
	}
}

// doCall is one Do under way.
type doCall struct {
	n      *Node
	caller Caller
	ops    []Op
	out    []Result
	push   pushEncoder
	ack    ackEncoder
	// use is the consumption submission; after finishes the result of an op that is one command of it.
	use *submission
	// wrote and used say which of the two submissions hold commands.
	wrote, used bool
	after       []afterOp
	subs        []*submission // those of the two that were submitted

	// atomic: the call is a transaction; reads are answered by its look, others after the call.
	atomic bool
	look   kvLook
	reads  []readOp
	// grows says that some command adds to what is stored; repeating that the call took place before.
	grows, repeating bool
	// stale are single ops whose evidence came too late.
	stale []int
	// redrives are what a repeat of the call has to know of its redrives, when it carries a key; of a repeat, what is
	// left of them.
	redrives []redriveNote
}

type afterOp struct {
	op, command int
	write       bool // the command is in the write submission
	finish      func(s *submission, it *format.Result, out *Result)
}

func (d *doCall) encode(ctx context.Context, i int, op Op) *Error {
	switch op := op.(type) {
	case *Append:
		return d.push.add(i, op)
	case *Ack:
		return d.ack.add(i, op)
	case *Extend:
		return d.extend(i, op)
	case *Release:
		return d.release(i, op)
	case *SetOffset:
		return d.setOffset(i, op)
	case *Redrive:
		return d.redrive(ctx, i, op)
	case *KV:
		return d.kv(i, op)
	case *Lock:
		return d.lock(i, op)
	case *Timer:
		return d.timer(i, op)
	case *CommitOffset:
		return d.position(i, op)
	}
	return errNotBuilt()
}

func errNotBuilt() *Error {
	return &Error{Code: CodeNotBuilt, Message: "this operation is not built yet"}
}

// refuse answers one op that never reached an entry.
func (d *doCall) refuse(i int, err *Error) {
	d.out[i].Err = err
	if a, ok := d.ops[i].(*Append); ok {
		d.out[i].Messages = make([]MessageResult, len(a.Messages))
		for k := range d.out[i].Messages {
			d.out[i].Messages[k] = MessageResult{Status: Refused, Err: err}
		}
	}
}

func (d *doCall) extend(i int, op *Extend) *Error {
	lease, ok := format.ParseUUID(op.Lease)
	if !ok || !d.n.ownsLease(d.caller.Tenant, lease) {
		return nil // renews nothing, indistinguishable from an expired lease (S-lease-4)
	}
	d.one(i, func(s *submission, it *format.Result, out *Result) {
		if it.Code != format.CodeOK {
			return
		}
		res := &s.flight.results.Extends[it.At]
		out.Extend = ExtendItem{Renewed: res.Renewed}
		if res.Renewed > 0 {
			out.Extend.Expires = s.flight.header.W + format.Wall(res.Expiry-s.flight.header.T)
		}
	})
	d.use.buf.AddExtend(&format.Extend{Lease: lease, For: max(op.For, time.Second).Microseconds()})
	return nil
}

func (d *doCall) release(i int, op *Release) *Error {
	lease, ok := format.ParseUUID(op.Lease)
	if !ok || !d.n.ownsLease(d.caller.Tenant, lease) {
		return nil // hands nothing back: no-op (S-pop-12)
	}
	d.one(i, d.counted)
	cmd := format.Release{Lease: lease}
	if op.Partition != 0 {
		cmd.Partitions = []format.PartitionID{op.Partition}
	}
	d.use.buf.AddRelease(&cmd)
	return nil
}

// setOffset seeks: a whole group by a new registration, one partition by its cursor (S-seek-1).
func (d *doCall) setOffset(i int, op *SetOffset) *Error {
	group := groupName(op.Group)
	other := op.Partition
	if len(group) > len(other) {
		other = group
	}
	if err := checkNames(op.Queue, other, "group"); err != nil {
		return err
	}
	if op.Whole {
		reg := format.Register{Tenant: d.caller.Tenant, Queue: viewBytes(op.Queue), Group: viewBytes(group),
			Start: format.StartNew, Reset: true}
		switch {
		case op.To.ByTime && op.To.Time > d.n.wall():
			// Newer than all there is: the end (S-seek-2).
		case op.To.ByTime:
			reg.Start, reg.From = format.StartFrom, op.To.Time
		case !op.To.End:
			return errBad("toEnd", "", "a whole group can be moved to a time or to the end")
		}
		d.one(i, d.counted)
		d.use.buf.AddRegister(&reg)
		return nil
	}
	cmd := format.SetOffset{Tenant: d.caller.Tenant, Queue: viewBytes(op.Queue),
		Partition: viewBytes(op.Partition), Group: viewBytes(group), ToEnd: op.To.End, To: op.To.Offset}
	if op.To.ByTime {
		at, err := d.n.offsetAtTime(d.caller.Tenant, op.Queue, op.Partition, op.To.Time)
		if err != nil {
			return err
		}
		cmd.ToEnd, cmd.To = !at.found, at.offset
	}
	d.one(i, d.counted)
	d.use.buf.AddSetOffset(&cmd)
	return nil
}

// side is the submission for a command that grows storage, or for one that does not.
func (d *doCall) side(grows bool) *submission {
	if d.grows = d.grows || grows; grows {
		return d.push.sub
	}
	return d.use
}

// then remembers that the next command of a submission answers op i.
func (d *doCall) then(i int, sub *submission, finish func(*submission, *format.Result, *Result)) {
	d.after = append(d.after, afterOp{op: i, command: sub.buf.Count, write: sub == d.push.sub, finish: finish})
}

// one remembers that the next command of the consumption submission answers op i.
func (d *doCall) one(i int, finish func(*submission, *format.Result, *Result)) {
	d.after = append(d.after, afterOp{op: i, command: d.use.buf.Count, finish: finish})
}

func (d *doCall) counted(s *submission, it *format.Result, out *Result) {
	if out.Err = errOfCode(it.Code); out.Err == nil {
		out.Rows = s.flight.results.Counts[it.At].Rows
	}
}

// commit submits what was encoded and waits until it is durable and applied.
func (d *doCall) commit(ctx context.Context) *Error {
	write := d.push.sub
	// From submit on the buffers are the proposing goroutine's: what was encoded is noted before.
	d.wrote, d.used = write.buf.Count > 0, d.use.buf.Count > 0
	if d.wrote {
		size := int64(write.size())
		if size > int64(d.n.fuser.most) {
			return d.n.fuser.tooLarge()
		}
		if err := d.n.admitWrite(ctx, size); err != nil {
			return err
		}
		defer d.n.writes.release(size)
	}
	d.take(d.use, d.used)
	d.take(write, d.wrote)
	if len(d.subs) == 0 {
		return nil
	}
	return d.n.commit(ctx, d.subs...)
}

func (d *doCall) take(s *submission, in bool) {
	if in {
		d.subs = append(d.subs, s)
	} else {
		s.recycle()
	}
}

// wait blocks until the submission's entry is applied. When ctx ends first, a submission that is in
// no entry yet is withdrawn; otherwise its outcome is unknown to the caller.
func (s *submission) wait(ctx context.Context) *Error {
	select {
	case <-s.done:
		return s.err
	default:
	}
	select {
	case <-s.done:
		return s.err
	case <-ctx.Done():
		if s.withdraw() {
			return errContext(ctx, OutcomeNone)
		}
		return errContext(ctx, OutcomeUnknown)
	}
}

func (d *doCall) results() {
	if d.wrote {
		d.push.results(d.out)
	}
	if d.used {
		d.ack.results(d.out)
	}
	for _, a := range d.after {
		s := d.use
		if a.write {
			s = d.push.sub
		}
		a.finish(s, &s.items()[a.command], &d.out[a.op])
	}
}

// release hands a lease back without waiting for it.
func (n *Node) release(lease format.UUID, pid format.PartitionID) {
	s := newSubmission(consumption)
	cmd := format.Release{Lease: lease}
	if pid != 0 {
		cmd.Partitions = []format.PartitionID{pid}
	}
	s.buf.AddRelease(&cmd)
	n.counters.handedBack.Add(1)
	n.fuser.submit(false, s)
}
