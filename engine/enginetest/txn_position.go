package enginetest

import (
	"queen/engine"
	"queen/engine/format"
)

// position sets or forgets where a group reads next (S-txn-18).
func (s *state) position(t format.Tenant, op *engine.CommitOffset) engine.Result {
	q := s.queue(t, op.Queue)
	if q == nil {
		return engine.Result{Err: fail(engine.CodeUnknownQueue, "no such queue")}
	}
	p := q.part(op.Partition)
	if p == nil {
		p = s.makePart(q, op.Partition)
	}
	g := s.register(q, groupName(op.Group), engine.Start{Kind: op.Start}, false)
	old := g.cursor(p)
	p.placed = true
	if op.Forget {
		g.cursors[p] = &cursor{memos: old.memos}
	} else {
		g.cursors[p] = &cursor{touched: true, next: min(op.Offset, p.end()), consumed: old.consumed, memos: old.memos}
	}
	s.refresh(q, false)
	s.note(p)
	return engine.Result{Rows: 1}
}
