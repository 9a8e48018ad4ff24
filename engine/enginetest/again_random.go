package enginetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"queen/engine"
)

// opAgain repeats the last call that had an idempotency key, with that key. Flags: b with another body.
const opAgain = "again"

// keptCall is a call that had an idempotency key, and how the engine answered it; nil when it died in it.
type keptCall struct {
	caller engine.Caller
	batch  engine.Batch
	res    []engine.Result
}

// onceCall makes a call of a list one that has a key, if the list says so.
func (p *player) onceCall(o Op) engine.Caller {
	c := p.caller
	if o.has("I") {
		p.pushed++
		c.Key = fmt.Sprint("once-", p.pushed)
	}
	return c
}

// keep remembers a call with a key. Whether a refused ack or a full partition is found before the log judges it, and so
// whether that is remembered, is left open; a call with another body that was refused was none.
func (p *player) keep(c engine.Caller, b engine.Batch, res []engine.Result, refused engine.ErrorCode) {
	switch {
	case c.Key == "" || refused == engine.CodeIdempotencyClash:
	case refused == engine.CodeRejectedAck, refused == engine.CodeTooLarge, refused == engine.CodeEncryption:
		p.kept = nil
	default:
		p.kept = &keptCall{c, b, res}
	}
}

// doubt forgets a call that died and changed nothing that is seen if it was carried out: whether it was can not be told.
func (p *player) doubt(after *state) {
	before, ids, told := p.s, maps.Clone(p.ids), p.told
	p.s = after
	p.s.advance(before.t, before.w)
	if p.consistent() == nil {
		p.kept = nil
	}
	p.s, p.ids, p.told = before, ids, told
}

// again sends a call with a key once more: it is answered as it was and changes nothing, with another body it is refused,
// and after an hour, or when what refused it is not remembered, it is a new call.
func (p *player) again(o Op) (string, error) {
	k := p.kept
	if k == nil {
		return skip, nil
	}
	b := k.batch
	if o.has("b") {
		other := kvOp(engine.KVGet, "other body")
		b.Ops = append(slices.Clone(b.Ops), &other)
	}
	row := p.s.keyed.once[onceKey{k.caller.Tenant, k.caller.Key}]
	if p.acksOld(b.Ops) && (row == nil || p.s.w >= row.until) {
		return skip, nil
	}
	if o.has("b") || row == nil || p.s.w >= row.until {
		return p.keyedCall("txn", k.caller, b)
	}
	ctx, cancel := p.call()
	defer cancel()
	got, err := p.e.Do(ctx, k.caller, b)
	if code(err) != code(row.err) {
		return "", fmt.Errorf("again: got %v, want %v", err, row.err)
	}
	if row.err != nil {
		if e := err.(*engine.Error); !sameFailed(&b, e.Failed, row.err.Failed) {
			return "", fmt.Errorf("again: %v names op %+v, want %+v", err, e.Failed, row.err.Failed)
		}
		p.cov.count("again refused")
		return "refused " + string(code(err)), nil
	}
	if len(got) != len(b.Ops) {
		return "", fmt.Errorf("again: %d results for %d ops", len(got), len(b.Ops))
	}
	for i := range got {
		first := &row.res[i]
		if k.res != nil {
			first = &k.res[i]
		}
		if err := sameAgain(b.Ops[i], &got[i], first, k.res != nil); err != nil {
			return "", fmt.Errorf("again: part %d: %w", i, err)
		}
	}
	k.res = got
	p.cov.count("again answered")
	return "answered", nil
}

// acksOld says that a call acks something that may not be known any more, so that it may be settled or not (S-ack-12).
func (p *player) acksOld(ops []engine.Op) bool {
	return slices.ContainsFunc(ops, func(op engine.Op) bool {
		a, ok := op.(*engine.Ack)
		if !ok {
			return false
		}
		part := p.s.tenantPart(p.caller.Tenant, a.Partition)
		if part == nil || p.s.goneAt(p.caller.Tenant, a) {
			return true
		}
		at, ok := part.resolve(a, part.end(), nil)
		return ok && p.s.w-part.msgs[at].rec.CreatedAt > 900e6
	})
}

// sameAgain compares the answer to one op of a repeated call with the first answer, or, when nobody was told that, with
// the model's, which knows no ids and no versions. A row that is told beside is the row of now.
func sameAgain(op engine.Op, got, first *engine.Result, told bool) error {
	describe := func(r *engine.Result) string {
		var b strings.Builder
		switch op.(type) {
		case *engine.KV:
			fmt.Fprint(&b, r.KV.Applied, r.KV.Reason)
			if told && r.KV.Applied {
				fmt.Fprint(&b, r.KV.Row.Version)
			}
		case *engine.Timer:
			fmt.Fprint(&b, r.Timer.Status, r.Timer.Due)
			if told {
				fmt.Fprint(&b, r.Timer.MessageID)
			}
		}
		for _, m := range r.Messages {
			fmt.Fprint(&b, m.Status, m.Offset)
			if told {
				fmt.Fprint(&b, m.ID)
			}
		}
		return b.String()
	}
	if g, w := describe(got), describe(first); g != w || code(got.Err) != code(first.Err) {
		return fmt.Errorf("%T: got %s (%v), first it was %s (%v)", op, g, got.Err, w, first.Err)
	}
	return nil
}
