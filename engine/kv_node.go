package engine

import (
	"context"

	"queen/engine/format"
	"queen/engine/value"
)

// kv encodes a KV op. Reads, and checks outside a transaction, are answered without an entry.
func (d *doCall) kv(i int, op *KV) *Error {
	if err := checkKV(op, d.atomic); err != nil {
		return err
	}
	if op.Snapshot != "" {
		return errSnapshotInDo()
	}
	if op.Kind.reads() || op.Kind == KVCheck && !d.atomic {
		r := readOp{op: i, kv: op}
		if d.atomic {
			r.first = d.look.want(op)
		}
		d.reads = append(d.reads, r)
		return nil
	}
	cmd := format.KV{Tenant: d.caller.Tenant, Namespace: viewBytes(op.Namespace), Key: viewBytes(op.Key),
		HasExpect: op.HasExpect, Expect: op.Expect, Required: op.Required, Keep: keepOf(op)}
	switch op.Kind {
	case KVPut:
		text, err := compactJSON(op.Namespace, op.Value)
		if err != nil {
			return err
		}
		cmd.Op, cmd.Value, cmd.Number = format.KVPut, text, value.Number(text)
	case KVDelete:
		cmd.Op = format.KVDelete
	case KVIncr:
		cmd.Op, cmd.Number, cmd.Min, cmd.Max = format.KVIncr, op.Delta, op.Min, op.Max
	case KVCheck:
		cmd.Op = format.KVCheck
	}
	done := kvDone{d: d, op: op, value: cmd.Value}
	sub := d.side(op.Kind == KVPut || op.Kind == KVIncr)
	if op.HasExpect || op.Kind == KVIncr || op.Kind == KVDelete { // others can not lose
		done.look, done.point = d.watch(sub, op)
	}
	d.then(i, sub, done.finish)
	sub.buf.AddKV(&cmd)
	return nil
}

// keepOf is the lifetime of a row in microseconds.
func keepOf(op *KV) int64 {
	if op.Keep <= 0 {
		return 0
	}
	return max(op.Keep.Microseconds(), leastKeep)
}

// readOp is a KV op that is answered by reading.
type readOp struct {
	op    int
	kv    *KV
	first int // of its points in the look of a transaction
}

// watch lets an op see the row that its command meets, as of the moment it was applied: what a lost op lost
// to is told from there. A transaction has one look for all of its ops.
func (d *doCall) watch(sub *submission, op *KV) (*kvLook, int) {
	if d.atomic {
		return &d.look, d.look.want(op)
	}
	look := &kvLook{tenant: d.caller.Tenant}
	sub.settles = append(sub.settles, settle{at: sub.buf.Ordinals, look: look})
	return look, look.want(op)
}

// kvDone finishes a KV op that was a command.
type kvDone struct {
	d     *doCall
	op    *KV
	value []byte // of a put, compact
	look  *kvLook
	point int
}

func (k kvDone) finish(s *submission, it *format.Result, out *Result) {
	switch it.Code {
	case format.CodeOK, format.CodePrecondition:
	default:
		out.Err = errOfCode(it.Code)
		return
	}
	item, err := k.item(s, &s.flight.results.KVs[it.At])
	if err != nil {
		k.d.n.event("keyed row", err)
		out.Err = &Error{Code: CodeCorrupt, Outcome: OutcomeApplied, Message: "the row can not be read", Cause: err}
		return
	}
	out.KV = item
	k.d.n.counters.kv(&item)
}

// item is the answer to the op: what a put wrote is in the call, all else is in the row.
func (k kvDone) item(s *submission, res *format.KVResult) (KVItem, error) {
	item := KVItem{Applied: res.Reason == format.KVApplied, Reason: res.Reason}
	switch {
	case k.op.Kind == KVCheck && item.Applied:
		item.Row.Version = res.Version
		return item, nil
	case k.op.Kind == KVDelete && item.Applied:
		item.Row.Version = res.Version // the row is gone, its end has a version as every write has (S-kv-14)
		return item, nil
	case res.Version == 0:
		return item, nil
	}
	item.Found = true
	item.Row = KVRow{Key: k.op.Key, Version: res.Version, Expires: res.Expires, Updated: s.flight.header.W}
	if item.Applied && k.op.Kind == KVPut {
		item.Row.Value = k.value
		return item, nil
	}
	row, found, err := k.row(s)
	if err != nil || !found || row.Version != res.Version {
		return item, err
	}
	item.Row = rowOf(k.op.Key, &row)
	return item, nil
}

// row is the row as the op met it or left it. A call that is answered again finds the row of now.
func (k kvDone) row(s *submission) (format.KVRow, bool, error) {
	if s.again || k.look == nil {
		look := kvLook{tenant: k.d.caller.Tenant}
		at := look.want(k.op)
		k.d.n.takeLook(&look, 0)
		return look.row(at)
	}
	return k.look.row(k.point)
}

// takeLook fixes a look at now. Rows whose time was over at w, or with 0 by the state's own time, are hidden.
func (n *Node) takeLook(l *kvLook, w format.Wall) {
	n.state.RLock()
	defer n.state.RUnlock()
	l.take(n.state.m, n.keyed, max(w, n.state.m.W()))
}

// lookNow lets read look at one moment that is not before any answer given before the call (S-kv-17); read takes
// the look at w. Nothing is written: the log is waited for only when a row's time ends between the state and now,
// and entries are under way that may still count it as live; read is then called again. So it is when this node loses the
// lead meanwhile, since what it waits for may never come.
func (n *Node) lookNow(ctx context.Context, c Caller, read func(*kvLook) error) error {
	if err := n.catchUp(ctx); err != nil {
		return err
	}
	for {
		leads, changed := n.role()
		w, fuse := n.stamp.nowFuse()
		if !leads {
			w = 0 // by the state's own time: what the leader has under way is not known here
		}
		for {
			look := kvLook{tenant: c.Tenant, w: w}
			if err := read(&look); err != nil {
				n.event("keyed row", err)
				return errRead(err)
			}
			// What is of the moment of a snapshot is read later: it waits in any case.
			if !leads || !look.late && !look.begins || !n.flights.behind(fuse) {
				return nil
			}
			lost, err := n.flights.wait(ctx, n.stopping, changed, fuse)
			if err != nil {
				return err
			}
			if lost {
				break
			}
		}
	}
}

// readNow answers reads and checks from one moment, and later pages of snapshots from theirs.
func (n *Node) readNow(ctx context.Context, c Caller, ops []*KV) (items []KVItem, err error) {
	items = make([]KVItem, len(ops))
	left, now := kvReadBytes, 0
	for i, op := range ops {
		if !op.later() {
			now++
			continue
		}
		item, err := n.laterPage(c.Tenant, op.Snapshot, scanOf(op), &left)
		if err != nil {
			return nil, failedOp(i, err)
		}
		items[i] = item
	}
	if now > 0 {
		if err := n.answerNow(ctx, c, ops, items, left); err != nil {
			return nil, err
		}
	}
	n.counters.kvReads.Add(uint64(len(ops)))
	return items, nil
}

// answerNow answers those ops that are not later pages; left is what pages of the call may still return.
func (n *Node) answerNow(ctx context.Context, c Caller, ops []*KV, items []KVItem, left int) error {
	var last *kvLook // that of the answers
	err := n.lookNow(ctx, c, func(look *kvLook) (err error) {
		last = look
		first := make([]int, len(ops))
		for i, op := range ops {
			if !op.later() {
				first[i] = look.want(op)
			}
		}
		n.takeLook(look, look.w)
		answers := kvAnswers{look: look, left: left}
		for i, op := range ops {
			if op.later() {
				continue
			}
			if items[i], err = answers.answer(op, first[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || !last.begins {
		return err
	}
	token := ""
	for i, op := range ops {
		if op.Snapshot != SnapshotNew || !items[i].Truncated {
			continue
		}
		if token == "" {
			token = n.hold(last)
		}
		items[i].Snapshot = token
	}
	return nil
}

// answerReads fills in what a call reads: as of its transaction, or after all that it wrote. One that writes nothing has no
// entry to be as of.
func (d *doCall) answerReads(ctx context.Context) *Error {
	if len(d.reads) == 0 {
		return nil
	}
	if d.atomic && !d.use.again && d.use.flight != nil {
		answers := d.look.answers()
		for _, r := range d.reads {
			item, err := answers.answer(r.kv, r.first)
			if err != nil {
				d.n.event("keyed row", err)
				d.out[r.op].Err = errRead(err)
			}
			d.out[r.op].KV = item
		}
		d.n.counters.kvReads.Add(uint64(len(d.reads)))
		return nil
	}
	ops := make([]*KV, len(d.reads))
	for i := range d.reads {
		ops[i] = d.reads[i].kv
	}
	items, err := d.n.readNow(ctx, d.caller, ops)
	for i, r := range d.reads {
		if err != nil {
			d.out[r.op].Err = asError(err)
			continue
		}
		d.out[r.op].KV = items[i]
	}
	return nil
}
