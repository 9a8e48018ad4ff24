package engine

import (
	"context"
	"errors"

	"queen/engine/format"
	"queen/engine/stats"
)

// wholeTries bounds how often a call is repeated whose evidence came too late.
const wholeTries = 16

// doWhole carries out a call whose commands stand together in one entry: an atomic batch, of which all parts
// take place or none (S-txn-1), a call with an Idempotency-Key, or both.
func (n *Node) doWhole(ctx context.Context, c Caller, b Batch, shape *callShape) ([]Result, error) {
	if err := checkWhole(c, &b, shape); err != nil {
		return nil, err
	}
	if len(b.Ops) == 0 {
		return []Result{}, nil
	}
	if c.Key == "" && !shape.writes && shape.kv == len(b.Ops) {
		return n.lookAtomic(ctx, c, b.Ops)
	}
	for range wholeTries {
		w := wholeCall{batch: &b, doCall: n.newCall(c, b.Ops, b.Results, nil, newSubmission(writing))}
		w.atomic = b.Atomic
		again, err := w.try(ctx)
		out := w.out
		w.end()
		if err != nil {
			if w.rolledBack {
				n.counters.rolledBack.Add(1)
			}
			return nil, err
		}
		if !again {
			return out, nil
		}
		n.counters.staleEvidence.Add(1)
	}
	return nil, errOfCode(format.CodeStaleEvidence)
}

// checkWhole refuses what can not stand in a call of this kind, before anything is encoded.
func checkWhole(c Caller, b *Batch, shape *callShape) *Error {
	mixed := shape.kv < len(b.Ops)
	for i, op := range b.Ops {
		var err *Error
		switch op := op.(type) {
		case *KV:
			if err = checkKV(op, b.Atomic); err == nil && op.Kind == KVPrefix && mixed && b.Atomic {
				err = errBad("op", "", "a transaction reads no prefix")
			}
		case *Append, *Timer:
		case *Ack, *CommitOffset:
			if !b.Atomic {
				err = errBad("Idempotency-Key", "", "acks and positions take no key outside a transaction")
			}
		case *Lock, *Redrive:
			if b.Atomic {
				err = errBad("operations", "", "locks and redrives are no parts of a transaction; guard it with a required check")
			}
		default:
			err = errBad("operations", "", "this operation takes part in no transaction and takes no key")
		}
		if err != nil {
			return failedOp(i, err)
		}
	}
	if len(c.Key) > maxOnceKey {
		return errBad("Idempotency-Key", "255 bytes", "the key is too long")
	}
	return nil
}

// failedOp names the op that a call was refused for.
func failedOp(i int, err *Error) *Error {
	e := *err
	f := FailedOp{}
	if e.Failed != nil {
		f = *e.Failed
	}
	f.Op = i
	e.Failed = &f
	return &e
}

// lookAtomic answers a batch that only looks: from one moment, without an entry. A required check that does
// not hold refuses it all the same.
func (n *Node) lookAtomic(ctx context.Context, c Caller, ops []Op) ([]Result, error) {
	reads := make([]*KV, len(ops))
	for i, op := range ops {
		if reads[i] = op.(*KV); reads[i].Snapshot != "" {
			return nil, failedOp(i, errSnapshotInDo())
		}
	}
	items, err := n.readNow(ctx, c, reads)
	if err != nil {
		return nil, err
	}
	out := make([]Result, len(ops))
	for i := range items {
		if reads[i].Required && !items[i].Applied {
			n.counters.rolledBack.Add(1)
			return nil, errLost(i, &items[i])
		}
		out[i].KV = items[i]
	}
	return out, nil
}

func errLost(op int, item *KVItem) *Error {
	return &Error{Code: CodeKVPrecondition, Message: "a required condition on a key was lost", Failed: &FailedOp{Op: op, KV: *item}}
}

// wholeCall is one try of such a call. Its commands are one submission, brackets in front.
type wholeCall struct {
	*doCall
	batch *Batch
	once  *onceCall // with a key
	// rolledBack says that apply refused the transaction.
	rolledBack bool
	// left says that the call did not wait for its end, so that apply may still come to its look.
	left bool
}

// end lets go of what the call worked with. The parts of a transaction leave nothing of the verdicts in the results.
func (w *wholeCall) end() {
	if w.left {
		return
	}
	if s := w.use; w.atomic && s.flight != nil {
		s.flight.release()
	}
	w.recycle()
}

// try encodes, commits and renders; again says that evidence came too late and the call is to be repeated.
func (w *wholeCall) try(ctx context.Context) (again bool, err error) {
	w.use = w.push.sub
	w.push.evidence.gone = ctx.Done()
	w.ack.sub, w.ack.whole = w.use, true
	if w.atomic && w.repeatable() {
		w.push.firsts = map[firstKey]msgPlace{}
	}
	if w.caller.Key != "" {
		w.once = newOnce(w.n, w.caller, w.batch)
		if row, found, err := w.once.find(); err != nil || found {
			return false, w.finishRepeat(ctx, &row, err)
		}
	}
	if err := w.encodeAll(ctx); err != nil {
		w.use.recycle()
		if w.once == nil {
			return false, err
		}
		// What it is refused for may be that the first call with the key was carried out meanwhile.
		if row, found, bad := w.once.find(); bad == nil && found {
			return false, w.finishRepeat(ctx, &row, nil)
		}
		return false, err
	}
	if w.push.evidence.err != nil {
		w.use.recycle()
		return false, w.push.evidence.err
	}
	if err := w.bracket(); err != nil {
		w.use.recycle()
		return false, err
	}
	if err := w.commitWhole(ctx); err != nil {
		return false, err
	}
	return w.verdict(ctx)
}

// repeatable reports that the call holds more than one message, so that an id may stand twice in it.
func (w *wholeCall) repeatable() bool {
	messages := 0
	for _, op := range w.ops {
		if a, ok := op.(*Append); ok {
			messages += len(a.Messages)
		}
	}
	return messages > 1
}

// encodeAll encodes every op; the first that can not be carried out refuses the call.
func (w *wholeCall) encodeAll(ctx context.Context) (refused *Error) {
	fences, err := w.fences()
	if err != nil {
		return err
	}
	for i, op := range w.ops {
		if a, ok := op.(*Ack); ok {
			op = fences.fence(a)
		}
		if err := w.encode(ctx, i, op); err != nil {
			return failedOp(i, w.asPart(op, err))
		}
	}
	w.ack.encode(func(i int, err *Error) {
		if refused == nil {
			refused = failedOp(i, w.asPart(w.ops[i], err))
		}
	})
	return refused
}

// asPart is how a transaction calls what one of its parts is refused for.
func (w *wholeCall) asPart(op Op, err *Error) *Error {
	if _, ack := op.(*Ack); !ack || !w.atomic {
		return err
	}
	return &Error{Code: CodeRejectedAck, Field: err.Field, Message: err.Message, Cause: err}
}

// ackFences are the leases under which a transaction acks, by partition and group.
type ackFences map[ackKey]string

// fences finds the lease of each (partition, group) that the call acks. All its acks stand or fall together, so
// that one without a lease is fenced by that of the others. A single ack has no others, and takes no table.
func (w *wholeCall) fences() (ackFences, *Error) {
	acks := 0
	for _, op := range w.ops {
		if _, ok := op.(*Ack); ok {
			acks++
		}
	}
	if acks < 2 {
		return nil, nil
	}
	f := ackFences{}
	for i, op := range w.ops {
		a, ok := op.(*Ack)
		if !ok || a.Lease == "" {
			continue
		}
		k := ackKey{a.Partition, ackScope{group: groupName(a.Group)}}
		if other, known := f[k]; known && other != a.Lease {
			return nil, failedOp(i, w.asPart(op, errBad("leaseId", "", "the acks of one partition and group name several leases")))
		}
		f[k] = a.Lease
	}
	return f, nil
}

func (f ackFences) fence(a *Ack) *Ack {
	lease, known := f[ackKey{a.Partition, ackScope{group: groupName(a.Group)}}]
	if !known || a.Lease != "" {
		return a
	}
	fenced := *a
	fenced.Lease, fenced.Unfenced = lease, false
	return &fenced
}

// bracket puts Once and Txn in front of the parts.
func (w *wholeCall) bracket() *Error {
	s := w.use
	parts := uint32(s.buf.Count)
	if parts == 0 {
		return nil
	}
	var head format.CommandBuf
	if w.once != nil {
		if s.buf.Ordinals >= format.MaxOnceOrdinals {
			return &Error{Code: CodeTooLarge, Field: "Idempotency-Key", Limit: "8000 messages and ops",
				Message: "a call with a key holds at most 8000 messages and ops"}
		}
		under := parts
		if w.atomic {
			under++
		}
		note, err := appendRedriveNotes(w.redrives)
		if err != nil {
			return err
		}
		once := w.once.command(under)
		once.Note = note
		head.AddOnce(once)
	}
	if w.atomic {
		head.AddTxn(&format.Txn{Parts: parts, KeepDuplicates: w.batch.KeepDuplicates})
	}
	s.buf.Prepend(&head)
	s.head = head.Count
	if w.atomic && (len(w.reads) > 0 || len(w.look.points) > 0) {
		s.settles = []settle{{at: head.Ordinals - 1, look: &w.look}}
	} else {
		for i := range s.settles {
			s.settles[i].at += head.Ordinals
		}
	}
	if s.buf.Ordinals > format.MaxOrdinals {
		return &Error{Code: CodeTooLarge, Field: "operations", Limit: "4194304 messages and ops per call",
			Message: "the call holds more than an entry may"}
	}
	return nil
}

// commitWhole submits the call, as a write if it adds to what is stored.
func (w *wholeCall) commitWhole(ctx context.Context) *Error {
	s := w.use
	if s.buf.Count == 0 {
		s.recycle()
		return nil
	}
	size := int64(s.size())
	if size > entryByteLimit {
		return &Error{Code: CodeTooLarge, Field: "payload", Limit: "96 MiB per call", Message: "the call is larger than an entry may be"}
	}
	if w.grows = w.grows || w.once != nil || len(w.push.frames) > 0; w.grows {
		if err := w.n.admitWrite(ctx, size); err != nil {
			return err
		}
		defer w.n.writes.release(size)
	} else {
		s.class = consumption
	}
	if err := w.n.commit(ctx, s); err != nil {
		w.left = true
		return err
	}
	return nil
}

// verdict renders what apply decided.
func (w *wholeCall) verdict(ctx context.Context) (again bool, err error) {
	s := w.use
	if s.flight == nil { // nothing but reads
		return false, w.render(ctx)
	}
	for _, it := range s.brackets() {
		w.mint(s, &it)
		switch it.Code {
		case format.CodeOK:
		case format.CodeStaleEvidence:
			return true, nil
		case format.CodeRepeated:
			row, found, err := w.once.find()
			return !found && err == nil, w.finishRepeat(ctx, &row, err)
		case format.CodeMismatch:
			return false, errClash()
		default:
			if it.Kind == format.KindTxn {
				w.rolledBack = true
				return false, w.refusal(&it)
			}
			return false, errOfCode(it.Code)
		}
	}
	return false, w.render(ctx)
}

// mint names the batch by the place of its Txn.
func (w *wholeCall) mint(s *submission, it *format.Result) {
	if w.batch.Minted != nil && it.Kind == format.KindTxn {
		*w.batch.Minted = w.n.identity.messageID(s.flight.header.W, format.Place{Index: s.flight.index, Ordinal: it.First})
	}
}

// render fills in the results of a call that took place.
func (w *wholeCall) render(ctx context.Context) error {
	if s := w.use; s.flight != nil {
		w.push.results(w.out)
		w.ack.results(w.out)
		for _, a := range w.after {
			a.finish(s, &s.items()[a.command], &w.out[a.op])
		}
		if w.atomic && !s.again {
			w.n.counters.transactions.Add(1)
			var t tally
			t.add(w.n, w.caller.Tenant, 0, &stats.Counts{stats.Transactions: 1})
			t.done(w.n, w.caller.Tenant)
		}
	}
	if err := w.answerReads(ctx); err != nil {
		return err
	}
	return nil
}

// refusal is the error of a transaction that was rolled back: what its failed part was refused for.
func (w *wholeCall) refusal(txn *format.Result) *Error {
	s := w.use
	part := int(s.flight.results.Txns[txn.At].Failed)
	it := &s.items()[part]
	code := errOfCode(txn.Code)
	for i := range w.push.frames {
		if f := &w.push.frames[i]; f.command == part {
			return failedOp(f.op, w.appendRefusal(txn.Code, it, code))
		}
	}
	for i := range w.ack.groups {
		if g := &w.ack.groups[i]; g.command == part && g.count > 0 {
			op := w.ack.refused(g, txn.Code, s.flight.results.Acks, it)
			return failedOp(op, w.asPart(w.ops[op], code))
		}
	}
	for _, a := range w.after {
		if a.command != part {
			continue
		}
		if txn.Code != format.CodePrecondition {
			return failedOp(a.op, code)
		}
		var res Result
		if a.finish(s, it, &res); res.Err != nil {
			return failedOp(a.op, res.Err)
		}
		return errLost(a.op, &res.KV)
	}
	return code
}

// appendRefusal tells a known id from a full partition.
func (w *wholeCall) appendRefusal(c format.Code, it *format.Result, code *Error) *Error {
	appends := w.use.flight.results.Appends
	if it.Code != c || int(it.At) >= len(appends) {
		return code
	}
	a := &appends[it.At]
	switch {
	case c == format.CodeDuplicate && len(a.Dups) > 0:
		return &Error{Code: CodeDuplicate, Message: "an id was pushed before", Failed: &FailedOp{Offset: a.Dups[0].Offset}}
	case c == format.CodeLimit && a.Queue != 0:
		return w.n.errFull(a.Queue)
	}
	if c == format.CodeEncryption {
		return w.n.errUnsealed()
	}
	return code
}

// refused finds the op that the refusal of a group is about: the first whose ack can not be carried out.
func (e *ackEncoder) refused(g *ackGroup, c format.Code, acks []format.AckResult, it *format.Result) int {
	any, first := -1, -1
	for _, k := range e.itemsOf(g) {
		item := &e.items[k]
		if any < 0 || item.op < any {
			any = item.op
		}
		if !judgedOne(c) || int(it.At) >= len(acks) {
			continue
		}
		if _, err := ackVerdict(item, &acks[it.At], false); err != nil && (first < 0 || item.op < first) {
			first = item.op
		}
	}
	if first < 0 {
		return any
	}
	return first
}

// asError makes an *Error of any error.
func asError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Code: CodeInternal, Message: "the call failed", Cause: err}
}
