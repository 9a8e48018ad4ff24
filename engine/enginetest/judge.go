package enginetest

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"queen/engine"
	"queen/engine/format"
)

// adoptID takes an id of the engine into the model after checking that it is a fresh UUIDv7.
func (p *player) adoptID(m *message, id format.UUID) error {
	if err := p.fresh(id); err != nil {
		return fmt.Errorf("message id: %w", err)
	}
	if ms := binary.BigEndian.Uint64(id[:8]) >> 16; ms != uint64(m.rec.CreatedAt)/1000 {
		return fmt.Errorf("message id %v tells %d ms, createdAt is %d us", id, ms, m.rec.CreatedAt)
	}
	m.rec.ID, m.pending = id, false
	if !m.rec.HasCallerID {
		m.rec.TransactionID = id.String()
	}
	return nil
}

func (p *player) fresh(id format.UUID) error {
	switch {
	case id[6]>>4 != 7 || id[8]>>6 != 2:
		return fmt.Errorf("%v is no UUIDv7", id)
	case p.ids[id]:
		return fmt.Errorf("%v was given before", id)
	}
	p.ids[id] = true
	return nil
}

// adoptPart ties a partition to the id the engine gives it.
func (p *player) adoptPart(part *part, id format.PartitionID) error {
	if part.known {
		if part.id != id {
			return fmt.Errorf("partition %s/%s had id %v, now %v", part.q.name, part.name, part.id, id)
		}
		return nil
	}
	if other := p.s.parts[id]; other != nil || id == 0 {
		return fmt.Errorf("partition %s/%s gets id %v, which is zero or taken", part.q.name, part.name, id)
	}
	delete(p.s.parts, part.id)
	part.id, part.known = id, true
	p.s.parts[id] = part
	return nil
}

// judgeAppend holds the results of one Append against the rules and adopts the ids.
func (p *player) judgeAppend(op *engine.Append, got *engine.Result) error {
	want := p.s.append(p.caller, op)
	encrypted := code(got.Err) == engine.CodeEncryption && (len(want.Messages) == 0 || code(want.Messages[0].Err) == engine.CodeEncryption)
	if code(got.Err) != code(want.Err) && !encrypted { // told for the op or for each message
		return fmt.Errorf("append: got error %v, want %v", got.Err, want.Err)
	}
	if len(got.Messages) != len(want.Messages) {
		return fmt.Errorf("append: %d results, want %d", len(got.Messages), len(want.Messages))
	}
	for i := range got.Messages {
		if err := p.judgeMessage(op.Queue, op.Partition, &got.Messages[i], &want.Messages[i]); err != nil {
			return fmt.Errorf("message %d of the append: %w", i, err)
		}
		p.cov.count("push " + verdictOf(&got.Messages[i]))
	}
	return nil
}

func verdictOf(m *engine.MessageResult) string {
	switch m.Status {
	case engine.Queued:
		return "queued"
	case engine.Duplicate:
		return "duplicate"
	}
	return string(code(m.Err))
}

func (p *player) judgeMessage(queue, partition string, got, want *engine.MessageResult) error {
	if got.Status != want.Status || code(got.Err) != code(want.Err) || got.Offset != want.Offset {
		return fmt.Errorf("got status %d at %d (%v), want status %d at %d (%v)",
			got.Status, got.Offset, got.Err, want.Status, want.Offset, want.Err)
	}
	if want.Status == engine.Refused {
		return nil
	}
	part := p.s.queue(p.caller.Tenant, queue).part(partition)
	m := &part.msgs[want.Offset]
	switch {
	case want.Status == engine.Queued:
		return p.adoptID(m, got.ID)
	case m.pending:
		return p.adoptID(m, got.ID)
	case got.ID != m.rec.ID && !(got.ID.IsZero() && want.Offset < part.start):
		return fmt.Errorf("duplicate of %v, answered %v", m.rec.ID, got.ID)
	}
	return nil
}

// judgeAcks holds the results of one call of acks against the rules.
func (p *player) judgeAcks(ops []engine.Op, got []engine.Result) (string, error) {
	want := p.s.do(p.caller, ops)
	var text []string
	for i := range ops {
		verdict, err := p.judgeAck(ops[i].(*engine.Ack), &got[i], &want[i], slices.Contains(p.s.repeats, i))
		if err != nil {
			return "", fmt.Errorf("ack %d %w", i, err)
		}
		text = append(text, verdict)
	}
	if len(p.s.repeats) > 0 {
		p.cov.count("ack repeated")
	}
	return strings.Join(text, ", "), nil
}

// judgeAck holds the answer to one ack against the rules' and counts it; repeat says that it was one before.
func (p *player) judgeAck(a *engine.Ack, g, w *engine.Result, repeat bool) (string, error) {
	if g.Ack.Conflated > w.Ack.Conflated && p.s.lostSome(p.caller.Tenant, a.Partition) {
		w.Ack.Conflated = g.Ack.Conflated // what is gone may count as passed over
	}
	same := code(g.Err) == code(w.Err) && (g.Err != nil || g.Ack == w.Ack)
	if !same && !p.s.excused(p.caller.Tenant, a, g, w, repeat) {
		return "", fmt.Errorf("(%s of %q at %v, lease %q): got %s, want %s", statusName(a.Status), a.TransactionID, a.Partition,
			a.Lease, describeAck(g), describeAck(w))
	}
	for _, v := range ackVerdicts(a, g) {
		p.cov.count("ack " + v)
	}
	return describeAck(g), nil
}

// lostSome says that something of a partition is gone by age or by trimming.
func (s *state) lostSome(t format.Tenant, id format.PartitionID) bool {
	p := s.tenantPart(t, id)
	return p != nil && len(p.msgs) > 0 && (p.start > 0 || s.expired(p, 0))
}

// excused says that the rules allow an answer although the model's is another: where they do not say
// which of two reasons for a refusal is told, or how long an old id is remembered.
func (s *state) excused(t format.Tenant, a *engine.Ack, got, want *engine.Result, repeat bool) bool {
	g, w := code(got.Err), code(want.Err)
	if repeat && (g == engine.CodeLeaseInvalid || g == engine.CodeUnresolvable && s.goneAt(t, a)) {
		return true // S-ack-13 and S-ack-15 both cover it
	}
	p := s.tenantPart(t, a.Partition)
	if p == nil {
		// A lease that is no live one, or an id that is nowhere, is told first by some.
		return w == engine.CodeUnknownPartition && (g == engine.CodeLeaseInvalid || g == engine.CodeUnresolvable)
	}
	o, ok := p.resolve(a, p.end(), nil)
	group := p.q.group(groupName(a.Group))
	if w == engine.CodeLeaseInvalid && g == "" && ok && group != nil && o < s.nextOf(group, p) {
		return true // a repeat of an ack that ended its lease, remembered across a seek; nothing moves
	}
	if w == engine.CodeNotLeased && g == engine.CodeLeaseInvalid {
		return true // whichever is looked at first
	}
	if w == engine.CodeLeaseInvalid && g == engine.CodeUnresolvable && ok && group != nil && o >= group.cursor(p).bound() {
		return true // neither is the lease live nor is the message in what is leased: S-ack-11 and S-ack-13 both cover it
	}
	nowhere := []engine.ErrorCode{engine.CodeUnresolvable, engine.CodeLeaseInvalid, engine.CodeNotLeased}
	if w == engine.CodeBadStatus && a.Status >= format.AckCompleted && a.Status <= format.AckDLQ &&
		(group == nil || !group.cursor(p).touched || ok && o >= group.cursor(p).bound()) {
		return slices.Contains(nowhere, g) // barred, and nothing is leased there either
	}
	if !ok {
		return slices.Contains(nowhere, g) && slices.Contains(nowhere, w)
	}
	m := &p.msgs[o].rec
	if old := s.goneAt(t, a); old && g == "" && w == "" {
		return got.Ack.Noop != want.Ack.Noop // whether the cursor already stood above what is gone
	} else if known := max(seconds(p.q.opts.DedupWindowSeconds), 900e6); g == engine.CodeUnresolvable &&
		(old || s.w-m.CreatedAt > known) {
		return w == "" && want.Ack.Noop || w == engine.CodeAlreadyCommitted || slices.Contains(nowhere, w) // S-ack-12
	}
	if w == engine.CodeNotLeased && group != nil {
		// A pop of the group that came back without this partition may have looked at it; then S-ack-15 holds too.
		repeat := got.Ack.Released && s.remembers(group.cursor(p), a.Lease, o)
		return g == "" && (got.Ack.Noop || repeat) || slices.Contains(nowhere, g) || g == engine.CodeAlreadyCommitted ||
			g == engine.CodeBadStatus
	}
	return false
}

// remembers says that an ack which ended this lease settled the message, a minute ago at most.
func (s *state) remembers(c *cursor, lease string, o format.Offset) bool {
	return slices.ContainsFunc(c.memos, func(m *ackMemo) bool {
		return strings.EqualFold(m.lease, lease) && s.t < m.until && o >= m.before && o < m.end
	})
}

// goneAt says that the message an ack names was removed or its time to live is over.
func (s *state) goneAt(t format.Tenant, a *engine.Ack) bool {
	p := s.tenantPart(t, a.Partition)
	if p == nil {
		return false
	}
	o, ok := p.resolve(a, p.end(), nil)
	return ok && (o < p.start || s.expired(p, o))
}

func statusName(st format.AckStatus) string {
	switch st {
	case format.AckCompleted:
		return "completed"
	case format.AckRetry:
		return "retry"
	case format.AckFailed:
		return "failed"
	case format.AckDLQ:
		return "dlq"
	}
	return fmt.Sprintf("status %d", st)
}

func describeAck(r *engine.Result) string {
	if r.Err != nil {
		return string(r.Err.Code)
	}
	text := "ok"
	for _, f := range []struct {
		on   bool
		name string
	}{{r.Ack.Noop, " noop"}, {r.Ack.Filed, " filed"}, {r.Ack.Released, " released"}} {
		if f.on {
			text += f.name
		}
	}
	if r.Ack.Conflated > 0 {
		text += fmt.Sprintf(" conflated %d", r.Ack.Conflated)
	}
	return text
}

func ackVerdicts(a *engine.Ack, r *engine.Result) []string {
	switch {
	case r.Err != nil:
		return []string{string(r.Err.Code)}
	case r.Ack.Noop:
		return []string{"noop"}
	}
	out := []string{statusName(a.Status)}
	switch {
	case r.Ack.Filed && (a.Status == format.AckDLQ || a.Status == format.AckFailed):
		out = append(out, statusName(a.Status)+" filed")
	case r.Ack.Filed:
		out = append(out, "filed by a stronger item")
	}
	if r.Ack.Released {
		out = append(out, "released")
	}
	return out
}
