package enginetest

import (
	"fmt"
	"slices"

	"queen/engine"
	"queen/engine/format"
)

// list holds every listing against the model.
func (p *player) list(Op) (string, error) {
	p.cov.count("list ok")
	if _, err := p.dead(); err != nil {
		return "", err
	}
	return "ok", p.audit()
}

// audit compares all that can be seen without changing anything: queues with their options,
// partitions, every retained message, every cursor and lease, every dead letter.
func (p *player) audit() error {
	if err := p.auditQueues(); err != nil {
		return err
	}
	if err := p.auditKeys(); err != nil {
		return err
	}
	for _, q := range p.s.queues {
		if err := p.auditParts(q); err != nil {
			return fmt.Errorf("queue %s: %w", q.name, err)
		}
		for _, g := range q.groups {
			if err := p.auditGroup(q, g); err != nil {
				return fmt.Errorf("queue %s, group %s: %w", q.name, g.name, err)
			}
		}
	}
	_, err := p.dead()
	return err
}

func (p *player) auditQueues() error {
	ctx, cancel := p.call()
	defer cancel()
	rows, _, err := p.e.Catalog().Queues(ctx, p.caller, engine.Page{Limit: 1000})
	if err != nil {
		return fmt.Errorf("queues: %w", err)
	}
	if len(rows) != len(p.s.queues) {
		return fmt.Errorf("%d queues, want %d", len(rows), len(p.s.queues))
	}
	for _, row := range rows {
		if q := p.s.queue(p.caller.Tenant, row.Name); q == nil || q.opts != row.Options || row.CreatedAt != q.created {
			return fmt.Errorf("queue %+v is not as configured", row)
		}
	}
	groups, err := p.e.Catalog().Groups(ctx, p.caller)
	if err != nil {
		return fmt.Errorf("groups: %w", err)
	}
	want := 0
	for _, q := range p.s.queues {
		want += len(q.groups)
	}
	if len(groups) != want {
		return fmt.Errorf("%d groups, want %d", len(groups), want)
	}
	for _, row := range groups {
		if q := p.s.queue(p.caller.Tenant, row.Queue); q == nil || q.group(row.Name) == nil {
			return fmt.Errorf("group %q on queue %q: there is none", row.Name, row.Queue)
		}
	}
	return nil
}

func (p *player) auditParts(q *queue) error {
	ctx, cancel := p.call()
	defer cancel()
	rows, _, err := p.e.Catalog().Partitions(ctx, p.caller, q.name, 0, engine.Page{Limit: 1000})
	if err != nil {
		return fmt.Errorf("partitions: %w", err)
	}
	if len(rows) != len(q.parts) {
		return fmt.Errorf("%d partitions, want %d", len(rows), len(q.parts))
	}
	for i, row := range rows {
		part := q.parts[i]
		if row.Name != part.name || row.Queue != q.name || row.Start != part.start || row.End != part.end() ||
			row.LastWriteAt != part.lastWrite {
			return fmt.Errorf("partition %+v, want %s from %d to %d, written at %d", row, part.name, part.start,
				part.end(), part.lastWrite)
		}
		if err := p.adoptPart(part, row.ID); err != nil {
			return err
		}
		if err := p.auditRecords(part); err != nil {
			return fmt.Errorf("partition %s: %w", part.name, err)
		}
	}
	return nil
}

// auditRecords reads a partition from its start to its end.
func (p *player) auditRecords(part *part) error {
	for at := part.start; at < part.end(); {
		res, err := p.readAt(engine.Position{Queue: part.q.name, Partition: part.name, Offset: at, MaxBytes: maxReadBytes})
		if err != nil {
			return err
		}
		if res.Err != nil || len(res.Records) == 0 || res.Start != part.start || res.End != part.end() {
			return fmt.Errorf("read at %d: %d records of %d to %d (%v), want %d to %d", at, len(res.Records), res.Start, res.End,
				res.Err, part.start, part.end())
		}
		for i := range res.Records {
			if at == part.end() {
				return fmt.Errorf("a record behind the end %d", at)
			}
			if err := p.judgeRecord(&part.msgs[at], &res.Records[i]); err != nil {
				return err
			}
			at++
		}
	}
	return nil
}

// auditGroup compares where a group stands on each partition and whether it holds it.
func (p *player) auditGroup(q *queue, g *group) error {
	ctx, cancel := p.call()
	defer cancel()
	rows, _, err := p.e.Catalog().GroupPartitions(ctx, p.caller, g.name, q.name, engine.Page{Limit: 1000})
	if err != nil {
		return err
	}
	for _, row := range rows {
		part := q.part(row.Partition.Name)
		if part == nil {
			return fmt.Errorf("partition %q: there is none", row.Partition.Name)
		}
		c := g.cursor(part)
		if leased := p.s.live(c) != nil; row.Leased != leased {
			return fmt.Errorf("partition %s: leased %v, want %v", part.name, row.Leased, leased)
		}
		if got, want := p.s.skipGone(part, row.Next), p.s.skipGone(part, g.next(part)); c.touched && got != want {
			return fmt.Errorf("partition %s: next is %d, want %d", part.name, got, want)
		}
	}
	for _, part := range q.parts {
		listed := func(r engine.GroupPartition) bool { return r.Partition.Name == part.name }
		if g.cursor(part).touched && !slices.ContainsFunc(rows, listed) {
			return fmt.Errorf("partition %s is not listed", part.name)
		}
	}
	return nil
}

// skipGone moves an offset over what can not be delivered any more.
func (s *state) skipGone(p *part, o format.Offset) format.Offset {
	o = max(o, p.start)
	for o < p.end() && s.expired(p, o) {
		o++
	}
	return o
}

func (p *player) readAt(pos engine.Position) (engine.PartitionRead, error) {
	ctx, cancel := p.call()
	defer cancel()
	res, err := p.e.Read(ctx, p.caller, engine.ReadRequest{At: []engine.Position{pos}})
	if err != nil {
		return engine.PartitionRead{}, fmt.Errorf("read: %w", err)
	}
	return res.Parts[0], nil
}

// read reads from an offset with a byte bound.
func (p *player) read(op Op) (string, error) {
	pos := engine.Position{Queue: op.queue(), Partition: op.part(), Offset: format.Offset(op.N), MaxBytes: op.M}
	if q := p.s.queue(p.caller.Tenant, pos.Queue); op.has("e") && q != nil && q.part(pos.Partition) != nil {
		pos.Offset = q.part(pos.Partition).end()
	}
	got, err := p.readAt(pos)
	if err != nil {
		return "", err
	}
	want := p.s.readOne(p.caller.Tenant, pos)
	if code(got.Err) != code(want.Err) || len(got.Records) != len(want.Records) ||
		want.Err == nil && (got.Start != want.Start || got.End != want.End) {
		return "", fmt.Errorf("read: %d records of %d to %d (%v), want %d of %d to %d (%v)", len(got.Records), got.Start, got.End,
			got.Err, len(want.Records), want.Start, want.End, want.Err)
	}
	for i := range got.Records {
		part := p.s.queue(p.caller.Tenant, pos.Queue).part(pos.Partition)
		if err := p.judgeRecord(&part.msgs[want.Records[i].Offset], &got.Records[i]); err != nil {
			return "", fmt.Errorf("read: %w", err)
		}
	}
	verdict := "nothing"
	switch {
	case want.Err != nil:
		verdict = string(want.Err.Code)
	case len(want.Records) > 0:
		verdict = "records"
	}
	p.cov.count("read " + verdict)
	return fmt.Sprintf("%s %d", verdict, len(want.Records)), nil
}

// offsets asks for a position in every way there is.
func (p *player) offsets(op Op) (string, error) {
	at := p.ago(op.For)
	id := fmt.Sprintf("id-%c", 'a'+op.N)
	var qs []engine.OffsetQuery
	for _, kind := range []engine.OffsetKind{engine.Earliest, engine.Latest, engine.AtTime, engine.OfID} {
		qs = append(qs, engine.OffsetQuery{Queue: op.queue(), Partition: op.part(), Kind: kind, Time: at, ID: id})
	}
	ctx, cancel := p.call()
	defer cancel()
	got, err := p.e.Offsets(ctx, p.caller, qs)
	if err != nil || len(got) != len(qs) {
		return "", fmt.Errorf("offsets: %d answers: %w", len(got), err)
	}
	for i, oq := range qs {
		want := p.s.offset(p.caller.Tenant, oq)
		if oq.Kind == engine.OfID && got[i].Found && want.Found && p.holds(op, got[i].Offset, id) {
			want = got[i] // the id stands more than once
		}
		if code(got[i].Err) != code(want.Err) || want.Err == nil && (got[i].Found != want.Found || got[i].Offset != want.Offset) {
			return "", fmt.Errorf("offset by kind %d (time %d, id %s): got %+v, want %+v", oq.Kind, at, id, got[i], want)
		}
		if want.Found {
			p.cov.count("offsets found")
		} else {
			p.cov.count("offsets not found")
		}
	}
	return fmt.Sprintf("%d to %d", got[0].Offset, got[1].Offset), nil
}

// holds says that the message at an offset has this id.
func (p *player) holds(op Op, o format.Offset, id string) bool {
	part := p.s.queue(p.caller.Tenant, op.queue()).part(op.part())
	return o >= part.start && o < part.end() && part.msgs[o].rec.TransactionID == id
}
