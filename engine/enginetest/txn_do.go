package enginetest

import (
	"fmt"
	"slices"

	"queen/engine"
	"queen/engine/format"
)

// failed names the op that a batch was refused for.
func failed(op int, e *engine.Error) *engine.Error {
	c := *e
	if c.Failed == nil {
		c.Failed = &engine.FailedOp{}
	}
	c.Failed.Op = op
	return &c
}

// commit judges one call. after is the state it leaves: s itself, or for an atomic batch a copy, so that a
// batch that is rolled back has changed nothing (S-txn-1).
func (s *state) commit(c engine.Caller, b engine.Batch) (res []engine.Result, after *state, err *engine.Error) {
	if c.Key != "" {
		return s.onceOnly(c, b)
	}
	return s.judge(c, b)
}

func (s *state) judge(c engine.Caller, b engine.Batch) (res []engine.Result, after *state, err *engine.Error) {
	refused, whole := s.checkOps(c.Tenant, &b)
	if whole != nil {
		return nil, s, whole
	}
	for i, op := range b.Ops {
		if kv, ok := op.(*engine.KV); ok && kv.Snapshot != "" && refused[i] == nil {
			refused[i] = bad("snapshot", "only reads by themselves are of a snapshot")
		}
	}
	if !b.Atomic {
		return s.doRefused(c, b.Ops, refused), s, nil
	}
	for i, op := range b.Ops {
		if e := notAtomic(op, &b); e != nil {
			return nil, s, failed(i, e)
		}
	}
	if e := firstOf(refused, nil); e != nil {
		return nil, s, e
	}
	if b.Minted != nil {
		*b.Minted = s.mint()
	}
	after = s.clone()
	after.repeats = nil
	var told []func() // watchers hear of it once it is sure
	after.changed = func(ref engine.PartitionRef, t format.Tenant) {
		told = append(told, func() { s.changed(ref, t) })
	}
	after.keepsDuplicates = b.KeepDuplicates
	if res, err = after.txn(c, b.Ops); err != nil {
		s.stats.RolledBack++
		return nil, s, err
	}
	after.keepsDuplicates = false
	if after.changed = s.changed; s.changed != nil {
		for _, tell := range told {
			tell()
		}
	}
	after.stats.Transactions++
	return res, after, nil
}

// notAtomic refuses what a transaction can not hold (S-txn-13).
func notAtomic(op engine.Op, b *engine.Batch) *engine.Error {
	switch op := op.(type) {
	case *engine.Append, *engine.Ack, *engine.CommitOffset, *engine.Timer:
		return nil
	case *engine.KV:
		mixed := func(o engine.Op) bool { _, kv := o.(*engine.KV); return !kv }
		if op.Kind == engine.KVPrefix && slices.ContainsFunc(b.Ops, mixed) {
			return bad("op", "no prefix is read inside a transaction")
		}
		return nil
	}
	return bad("operations", fmt.Sprintf("%T can not be part of a transaction", op))
}

// txn carries out all ops or says which one is refused, in the order of S-txn-4.
func (s *state) txn(c engine.Caller, ops []engine.Op) ([]engine.Result, *engine.Error) {
	res := make([]engine.Result, len(ops))
	absent := map[int]bool{} // positions on queues that the call itself may create
	for i, op := range ops {
		if op, ok := op.(*engine.CommitOffset); ok {
			absent[i] = s.queue(c.Tenant, op.Queue) == nil
		}
	}
	if e := s.txnAcks(c, ops, res); e != nil {
		return nil, e
	}
	if e := s.txnAppends(c, ops, res); e != nil {
		return nil, e
	}
	for i, op := range ops {
		if op, ok := op.(*engine.CommitOffset); ok {
			if absent[i] {
				return nil, failed(i, fail(engine.CodeUnknownQueue, "no such queue"))
			}
			if res[i] = s.position(c.Tenant, op); res[i].Err != nil {
				return nil, failed(i, res[i].Err)
			}
		}
	}
	for i, op := range ops {
		op, ok := op.(*engine.KV)
		if !ok || kvReads(op.Kind) {
			continue
		}
		if res[i].KV = s.kvDo(c.Tenant, op); !res[i].KV.Applied && op.Required {
			return nil, &engine.Error{Code: engine.CodeKVPrecondition, Message: "a required condition was lost",
				Failed: &engine.FailedOp{Op: i, KV: res[i].KV}}
		}
	}
	for i, op := range ops {
		if op, ok := op.(*engine.Timer); ok {
			res[i].Timer = s.timer(c, op)
		}
	}
	s.reads(c, ops, nil, res)
	return res, nil
}

// txnAcks: all of one partition and group stand together; a refusal of any is the transaction's
// (S-txn-7, S-txn-8).
func (s *state) txnAcks(c engine.Caller, ops []engine.Op, res []engine.Result) *engine.Error {
	leases := map[string]string{}
	at := func(a *engine.Ack) string { return fmt.Sprint(a.Partition, groupName(a.Group)) }
	for i, op := range ops {
		a, ok := op.(*engine.Ack)
		if !ok || a.Lease == "" {
			continue
		}
		if other, twice := leases[at(a)]; twice && other != a.Lease {
			return failed(i, rejected(bad("leaseId", "the acks of one partition name several leases")))
		}
		leases[at(a)] = a.Lease
	}
	fenced := slices.Clone(ops)
	for i, op := range ops {
		if a, ok := op.(*engine.Ack); ok && a.Lease == "" && leases[at(a)] != "" {
			under := *a
			under.Lease, under.Unfenced = leases[at(a)], false
			fenced[i] = &under
		}
	}
	s.inTxn = true
	s.acks(c, fenced, res)
	s.inTxn = false
	for i := range ops {
		if _, ok := ops[i].(*engine.Ack); ok && res[i].Err != nil {
			return failed(i, rejected(res[i].Err))
		}
	}
	return nil
}

func rejected(cause *engine.Error) *engine.Error {
	return &engine.Error{Code: engine.CodeRejectedAck, Message: cause.Message, Cause: cause}
}

// txnAppends refuses an id that is known already; one that repeats inside the call is stored once (S-txn-11).
func (s *state) txnAppends(c engine.Caller, ops []engine.Op, res []engine.Result) *engine.Error {
	stored := map[string]bool{} // places of messages of this call
	at := func(a *engine.Append, o format.Offset) string {
		return fmt.Sprintf("%q %q %d", a.Queue, a.Partition, o)
	}
	for i, op := range ops {
		a, ok := op.(*engine.Append)
		if !ok {
			continue
		}
		res[i] = s.appendTxn(c, a, func(o format.Offset) bool { return stored[at(a, o)] })
		if res[i].Err != nil {
			return failed(i, res[i].Err)
		}
		for _, m := range res[i].Messages {
			switch {
			case m.Status == engine.Refused:
				return failed(i, m.Err)
			case m.Status == engine.Duplicate && !stored[at(a, m.Offset)] && s.keepsDuplicates:
				continue
			case m.Status == engine.Duplicate && !stored[at(a, m.Offset)]:
				return &engine.Error{Code: engine.CodeDuplicate, Message: "the id was pushed before",
					Failed: &engine.FailedOp{Op: i, Offset: m.Offset}}
			}
			stored[at(a, m.Offset)] = true
		}
	}
	return nil
}

// appendTxn is append, where ids of messages that the call stored before repeat whatever the window.
func (s *state) appendTxn(c engine.Caller, a *engine.Append, ours func(format.Offset) bool) engine.Result {
	p := (*part)(nil)
	if q := s.queue(c.Tenant, a.Queue); q != nil {
		p = q.part(a.Partition)
	}
	known := map[int]format.Offset{}
	kept := *a
	kept.Messages = nil
	for k, m := range a.Messages {
		if p != nil && m.TransactionID != "" {
			if all := p.byID[m.TransactionID]; len(all) > 0 && ours(all[len(all)-1]) {
				known[k] = all[len(all)-1]
				continue
			}
		}
		kept.Messages = append(kept.Messages, m)
	}
	res := s.append(c, &kept)
	if res.Err != nil || len(known) == 0 {
		return res
	}
	all, next := make([]engine.MessageResult, len(a.Messages)), 0
	for k := range a.Messages {
		if o, again := known[k]; again {
			all[k] = s.duplicate(p, o)
			continue
		}
		all[k] = res.Messages[next]
		next++
	}
	res.Messages = all
	return res
}

// doRefused is do, where ops that are refused beforehand do nothing.
func (s *state) doRefused(c engine.Caller, ops []engine.Op, refused []*engine.Error) []engine.Result {
	res := s.do(c, ops)
	for i, op := range ops {
		switch op := op.(type) {
		case *engine.KV:
			if refused[i] == nil && !kvReads(op.Kind) && op.Kind != engine.KVCheck {
				res[i] = engine.Result{KV: s.kvDo(c.Tenant, op)}
			}
		case *engine.Lock:
			if refused[i] == nil {
				res[i] = engine.Result{Lock: s.lock(c.Tenant, op)}
			}
		case *engine.Timer:
			if refused[i] == nil {
				res[i] = engine.Result{Timer: s.timer(c, op)}
			}
		case *engine.CommitOffset:
			if refused[i] == nil {
				res[i] = s.position(c.Tenant, op)
			}
		}
		if refused[i] != nil {
			res[i] = engine.Result{Err: refused[i]}
		}
	}
	s.reads(c, ops, refused, res)
	return res
}

// reads answers what a call reads: the state after all of it (S-txn-16). A check that stands outside a
// transaction reads as well.
func (s *state) reads(c engine.Caller, ops []engine.Op, refused []*engine.Error, res []engine.Result) {
	left := kvReadBytes
	for i, op := range ops {
		kv, ok := op.(*engine.KV)
		if ok && (kvReads(kv.Kind) || kv.Kind == engine.KVCheck && refused != nil && refused[i] == nil) {
			res[i] = engine.Result{KV: s.kvRead(c.Tenant, kv, &left)}
		}
	}
}
