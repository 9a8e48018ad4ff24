package enginetest

import (
	"fmt"
	"strings"

	"queen/engine"
	"queen/engine/format"
)

// inspect looks one delivered message up by its message id (S-obs-1).
func (p *player) inspect(op Op) (string, error) {
	h := p.handed(op)
	if h == nil || len(h.messages) == 0 {
		return skip, nil
	}
	m := &h.messages[op.N%len(h.messages)]
	id := h.claims[m.Claim].PartitionID
	part := p.s.tenantPart(p.caller.Tenant, id)
	if part != nil && (m.Offset < part.start || p.s.expired(part, m.Offset)) {
		return skip, nil // what retention took may be there yet, and for a dead letter has to be
	}
	name := m.ID.String()
	if op.has("z") {
		name = "never pushed"
	}
	ctx, cancel := p.call()
	defer cancel()
	got, err := p.e.Inspect().Message(ctx, p.caller, id, name)
	want := engine.ErrorCode("")
	if part == nil || op.has("z") {
		want = engine.CodeNotFound
	}
	if code(err) != want {
		return "", fmt.Errorf("message %s of %v: got %w, want %q", name, id, err, want)
	}
	if want != "" {
		p.cov.count("message not_found")
		return string(want), nil
	}
	p.cov.count("message found")
	return "found", p.judgeRecord(&part.msgs[m.Offset], &got.Record)
}

// wrongCalls is how many malformed calls there are.
const wrongCalls = 8

// wrong makes a malformed call, which is refused and changes nothing (S-id-6).
func (p *player) wrong(op Op) (string, error) {
	ctx, cancel := p.call()
	defer cancel()
	long := strings.Repeat("x", format.NameBudget)
	pop := func(change func(*engine.PopRequest)) error {
		req := p.popRequest(Op{Queue: op.Queue, Part: op.Part, Group: op.Group})
		change(&req)
		d, err := p.e.Pop(ctx, p.caller, req)
		if d != nil {
			d.Abandon()
		}
		return err
	}
	one := func(o engine.Op) error {
		res, err := p.e.Do(ctx, p.caller, engine.Batch{Ops: []engine.Op{o}})
		if err == nil && res[0].Err != nil {
			return res[0].Err
		}
		return err
	}
	var err error
	want := engine.CodeBadRequest
	switch op.N {
	case 0:
		want = engine.CodeNameTooLong
		err = one(&engine.Append{Queue: op.queue(), Partition: long, Messages: []engine.Message{{}}})
	case 1:
		want = engine.CodeNameTooLong
		err = pop(func(r *engine.PopRequest) { r.Group = long })
	case 2:
		want = engine.CodeNameTooLong
		err = one(&engine.SetOffset{Queue: long, Partition: op.part(), Group: op.group()})
	case 3:
		err = pop(func(r *engine.PopRequest) { r.Scope = engine.Scope{Discovery: true} })
	case 4:
		err = pop(func(r *engine.PopRequest) { r.Batch = -1 })
	case 5:
		err = pop(func(r *engine.PopRequest) { r.Lease = -1 })
	case 6:
		err = one(&engine.SetOffset{Queue: op.queue(), Group: op.group(), Whole: true, To: engine.SeekTo{Offset: 3}})
	case 7:
		_, err = p.e.Catalog().Configure(ctx, p.caller, engine.ConfigureRequest{Queue: op.queue(), Patch: format.QueueOptions{
			Set: format.OptRetentionSinkHoldMaxSeconds, RetentionSinkHoldMaxSeconds: 59}})
	}
	if code(err) != want {
		return "", fmt.Errorf("malformed call %d: got %w, want %q", op.N, err, want)
	}
	p.cov.count("malformed " + string(want))
	return string(want), nil
}
