package enginetest

import (
	"fmt"
	"slices"
	"time"

	"queen/engine"
	"queen/engine/format"
)

// onceKept is how long the answer to a call with a key is remembered.
const onceKept = format.Wall(time.Hour / time.Microsecond)

type onceKey struct {
	tenant format.Tenant
	key    string
}

type onceRow struct {
	body  string
	res   []engine.Result
	err   *engine.Error // of a transaction that was rolled back
	until format.Wall
	// minted is the name of a transaction.
	minted format.UUID
}

// onceOnly carries a call out unless its key was seen: then it answers what was answered, or refuses
// another body. What is refused before it is judged is not remembered, nor is what only reads.
func (s *state) onceOnly(c engine.Caller, b engine.Batch) ([]engine.Result, *state, *engine.Error) {
	k := onceKey{c.Tenant, c.Key}
	body := fmt.Sprint(b.Atomic, b.KeepDuplicates)
	for _, op := range b.Ops {
		switch op.(type) {
		case *engine.Append, *engine.KV, *engine.Lock, *engine.Timer, *engine.Redrive:
		default:
			if !b.Atomic {
				return nil, s, bad("Idempotency-Key", fmt.Sprintf("%T can not be repeated under a key", op))
			}
		}
		body += describeOp(op)
	}
	if row := s.keyed.once[k]; row != nil && s.w < row.until {
		if row.body != body {
			return nil, s, fail(engine.CodeIdempotencyClash, "the key was used for another call")
		}
		s.stats.Repeated++
		if b.Minted != nil {
			*b.Minted = row.minted
		}
		return row.res, s, row.err
	}
	if e := firstOf(s.checkOps(c.Tenant, &b)); e != nil {
		return nil, s, e
	}
	if e := s.refusedOnce(c, b.Ops); e != nil {
		if _, _, first := s.clone().judge(c, b); b.Atomic && first != nil && first.Code == engine.CodeRejectedAck {
			return nil, s, first // acks are looked at first (S-txn-4)
		}
		return nil, s, e
	}
	res, after, err := s.judge(c, b)
	if err != nil && !judged(err) {
		return nil, after, err
	}
	if !slices.ContainsFunc(b.Ops, writes) {
		return res, after, err
	}
	row := &onceRow{body: body, res: res, err: err, until: after.w + onceKept}
	if b.Minted != nil {
		row.minted = *b.Minted
	}
	after.remember(k, row)
	return res, after, err
}

// writes says that an op is more than a look.
func writes(op engine.Op) bool {
	kv, ok := op.(*engine.KV)
	return !ok || !kvReads(kv.Kind)
}

// judged says that a transaction was refused for what the log holds, and not for what it is: then the refusal is
// its answer.
func judged(err *engine.Error) bool {
	switch err.Code {
	case engine.CodeDuplicate, engine.CodeKVPrecondition, engine.CodeUnknownQueue:
		return true
	}
	return false
}

// describeOp is a text that two ops share only if they ask for the same.
func describeOp(op engine.Op) string {
	switch op := op.(type) {
	case *engine.Append:
		return fmt.Sprintf("append %+q", fmt.Sprintf("%#v", *op))
	case *engine.Ack:
		return fmt.Sprintf("ack %#v", *op)
	case *engine.KV:
		return fmt.Sprintf("kv %#v", *op)
	case *engine.Lock:
		return fmt.Sprintf("lock %#v", *op)
	case *engine.Timer:
		return fmt.Sprintf("timer %#v", *op)
	case *engine.Redrive:
		return fmt.Sprintf("redrive %#v", *op)
	case *engine.CommitOffset:
		return fmt.Sprintf("position %#v", *op)
	}
	return fmt.Sprintf("%T", op)
}

// onceMessages bounds what one call with a key may hold.
const onceMessages = 8000

// refusedOnce: a call with a key is carried out as it is or not at all, as far as that is known before.
func (s *state) refusedOnce(c engine.Caller, ops []engine.Op) *engine.Error {
	n := 0
	for i, op := range ops {
		if d, ok := op.(*engine.Redrive); ok && s.deadLetter(c.Tenant, d) == nil {
			return failed(i, fail(engine.CodeGone, "no such dead letter"))
		}
		a, ok := op.(*engine.Append)
		if n++; !ok {
			continue
		}
		n += len(a.Messages)
		if e := refuseAppend(s.queue(c.Tenant, a.Queue), a); e != nil {
			return failed(i, e)
		}
	}
	if n > onceMessages {
		return tooLarge("messages", "at most 8000 messages and ops in a call with a key")
	}
	return nil
}

// countOnce removes rows, or answers how many were removed under the key before. Whether a call that removes nothing is
// remembered is the engine's own.
func (s *state) countOnce(c engine.Caller, what string, do func() uint64) (uint64, error) {
	k := onceKey{c.Tenant, c.Key}
	if row := s.keyed.once[k]; c.Key != "" && row != nil && s.w < row.until {
		if row.body != what {
			return 0, fail(engine.CodeIdempotencyClash, "the key was used for another call")
		}
		return row.res[0].Rows, nil
	}
	n := do()
	if c.Key != "" && n > 0 {
		s.remember(k, &onceRow{body: what, res: []engine.Result{{Rows: n}}, until: s.w + onceKept})
	}
	return n, nil
}

func (s *state) remember(k onceKey, row *onceRow) {
	if s.keyed.once == nil {
		s.keyed.once = map[onceKey]*onceRow{}
	}
	s.keyed.once[k] = row
}
