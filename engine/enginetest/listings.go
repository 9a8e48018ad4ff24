package enginetest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"queen/engine"
	"queen/engine/format"
)

func (m *modelCatalog) Queue(_ context.Context, c engine.Caller, queue string) (info engine.QueueInfo, err error) {
	err = m.model().with(func(s *state) error {
		q := s.queue(c.Tenant, queue)
		if q == nil {
			return fail(engine.CodeUnknownQueue, "no such queue")
		}
		info = s.queueInfo(q)
		return nil
	})
	return info, err
}

func (m *modelCatalog) Queues(_ context.Context, c engine.Caller, p engine.Page) (rows []engine.QueueInfo, next string, err error) {
	err = m.model().with(func(s *state) (err error) {
		for _, q := range s.queues {
			if q.tenant == c.Tenant {
				rows = append(rows, s.queueInfo(q))
			}
		}
		rows, next, err = page(rows, p)
		return err
	})
	return rows, next, err
}

func (m *modelCatalog) Partition(_ context.Context, c engine.Caller, queue, partition string) (info engine.PartitionInfo, err error) {
	err = m.model().with(func(s *state) error {
		q := s.queue(c.Tenant, queue)
		if q == nil {
			return fail(engine.CodeUnknownQueue, "no such queue")
		}
		p := q.part(partition)
		if p == nil {
			return fail(engine.CodeUnknownPartition, "no such partition")
		}
		info = s.partInfo(p)
		return nil
	})
	return info, err
}

func (m *modelCatalog) PartitionByID(_ context.Context, c engine.Caller, id format.PartitionID) (info engine.PartitionInfo, err error) {
	err = m.model().with(func(s *state) error {
		p := s.tenantPart(c.Tenant, id)
		if p == nil {
			return fail(engine.CodeUnknownPartition, "no such partition")
		}
		info = s.partInfo(p)
		return nil
	})
	return info, err
}

func (m *modelCatalog) Partitions(_ context.Context, c engine.Caller, queue string, since format.Wall, pg engine.Page,
) (rows []engine.PartitionInfo, next string, err error) {
	err = m.model().with(func(s *state) (err error) {
		q := s.queue(c.Tenant, queue)
		if q == nil {
			return fail(engine.CodeUnknownQueue, "no such queue")
		}
		for _, p := range q.parts {
			if p.lastWrite >= since {
				rows = append(rows, s.partInfo(p))
			}
		}
		rows, next, err = page(rows, pg)
		return err
	})
	return rows, next, err
}

func (m *modelCatalog) Groups(_ context.Context, c engine.Caller) (rows []engine.GroupInfo, err error) {
	err = m.model().with(func(s *state) error {
		for _, q := range s.queues {
			for _, g := range q.groups {
				if q.tenant == c.Tenant {
					rows = append(rows, s.groupInfo(q, g))
				}
			}
		}
		return nil
	})
	return rows, err
}

func (m *modelCatalog) GroupPartitions(_ context.Context, c engine.Caller, name, queue string, pg engine.Page,
) (rows []engine.GroupPartition, next string, err error) {
	err = m.model().with(func(s *state) (err error) {
		q := s.queue(c.Tenant, queue)
		if q == nil {
			return fail(engine.CodeUnknownQueue, "no such queue")
		}
		g := q.group(groupName(name))
		if g == nil {
			return fail(engine.CodeUnknownGroup, "consumer group not found")
		}
		for _, p := range q.parts {
			rows = append(rows, s.groupPartition(g, p))
		}
		rows, next, err = page(rows, pg)
		return err
	})
	return rows, next, err
}

func (m *modelCatalog) DeadLetters(_ context.Context, c engine.Caller, f engine.DeadLetterFilter) (rows []engine.DeadLetter, err error) {
	err = m.model().with(func(s *state) error {
		rows = s.deadLetters(c.Tenant, f)
		return nil
	})
	return rows, err
}

func (m *modelCatalog) DeleteDeadLetters(_ context.Context, c engine.Caller, id format.PartitionID, txn string) (n uint64, err error) {
	err = m.model().with(func(s *state) error {
		n, err = s.countOnce(c, "delete dead "+strconv.Quote(txn)+fmt.Sprint(id), func() uint64 { return s.deleteDead(c.Tenant, id, txn) })
		return err
	})
	return n, err
}

func (m *modelCatalog) Purge(_ context.Context, c engine.Caller, queue string, group *string) (n uint64, err error) {
	what := "purge " + strconv.Quote(queue)
	if group != nil {
		what += strconv.Quote(*group)
	}
	err = m.model().with(func(s *state) error {
		n, err = s.countOnce(c, what, func() uint64 { return s.purge(c.Tenant, queue, group) })
		return err
	})
	return n, err
}

// deleteDead removes those of an address, purge those of a queue and maybe one group (S-dlq-13).
func (s *state) deleteDead(t format.Tenant, id format.PartitionID, txn string) uint64 {
	return s.dropDead(func(d *deadLetter) bool {
		return d.tenant == t && d.PartitionID == id && d.Message.TransactionID == txn
	})
}

func (s *state) purge(t format.Tenant, queue string, group *string) uint64 {
	return s.dropDead(func(d *deadLetter) bool {
		return d.tenant == t && d.Queue == queue && (group == nil || d.Group == groupName(*group))
	})
}

func (s *state) dropDead(which func(*deadLetter) bool) uint64 {
	before := len(s.dead)
	s.dead = slices.DeleteFunc(s.dead, which)
	return uint64(before - len(s.dead))
}

// deadLetters lists newest failure first (S-dlq-21).
func (s *state) deadLetters(t format.Tenant, f engine.DeadLetterFilter) (rows []engine.DeadLetter) {
	limit := f.Limit
	if limit <= 0 {
		limit = 100
	}
	skip := f.Skip
	for _, d := range slices.Backward(s.dead) {
		if d.tenant != t || f.Queue != "" && d.Queue != f.Queue || f.Partition != "" && d.Partition != f.Partition ||
			f.Group != "" && d.Group != f.Group || !strings.Contains(d.Error, f.Error) ||
			f.From != 0 && d.FailedAt < f.From || f.To != 0 && d.FailedAt >= f.To {
			continue
		}
		if skip > 0 {
			skip--
			continue
		}
		if len(rows) == limit {
			break
		}
		row := d.DeadLetter
		row.Message = cloneRecord(row.Message)
		rows = append(rows, row)
	}
	return rows
}

func (s *state) queueInfo(q *queue) engine.QueueInfo {
	info := engine.QueueInfo{ID: q.id, Name: q.name, CreatedAt: q.created, Options: q.opts,
		Partitions: uint64(len(q.parts)), SweptAt: s.w}
	q.numbered(&info)
	for _, p := range q.parts {
		one := s.partInfo(p)
		info.Messages += uint64(one.End - one.Start)
		info.Pending += one.Pending
		info.Processing += one.Processing
		info.DeadLetters += one.DeadLetters
		for o := p.start; o < p.end(); o++ {
			info.RetainedBytes += uint64(len(p.msgs[o].rec.Payload))
		}
	}
	return info
}

func (s *state) partInfo(p *part) engine.PartitionInfo {
	info := engine.PartitionInfo{ID: p.id, Queue: p.q.name, Name: p.name, CreatedAt: p.created,
		LastWriteAt: p.lastWrite, Start: p.start, End: p.end()}
	slowest := p.end()
	for _, g := range p.q.groups {
		slowest = min(slowest, g.next(p))
		if l := s.live(g.cursor(p)); l != nil {
			info.Processing += uint64(l.end - l.first)
		}
	}
	if len(p.q.groups) == 0 {
		slowest = p.start
	}
	info.Pending = uint64(p.end() - slowest)
	for _, d := range s.dead {
		if d.PartitionID == p.id {
			info.DeadLetters++
		}
	}
	return info
}

func (s *state) groupInfo(q *queue, g *group) engine.GroupInfo {
	info := engine.GroupInfo{Name: g.name, Queue: q.name, Start: g.start, Conflate: g.conflate, RegisteredAt: g.registered,
		Cursors: g.touchedCursors(), SweptAt: s.w}
	for _, p := range q.parts {
		row := s.groupPartition(g, p)
		info.Lag += row.Lag
		if row.Lag > 0 {
			info.PartitionsWithLag++
			if info.OldestLagAt == 0 || row.OldestLagAt < info.OldestLagAt {
				info.OldestLagAt = row.OldestLagAt
			}
		}
		if row.Leased {
			info.Leases++
		}
		info.Consumed = info.Consumed || row.Consumed > 0
	}
	return info
}

func (s *state) groupPartition(g *group, p *part) engine.GroupPartition {
	c := g.cursor(p)
	next := g.next(p)
	row := engine.GroupPartition{Partition: s.partInfo(p), Next: next, Lag: uint64(p.end() - min(next, p.end())),
		LastAckAt: c.lastAck, Consumed: c.consumed, Attempts: c.attempts, Leased: s.live(c) != nil}
	if row.Lag > 0 {
		row.OldestLagAt = p.msgs[next].rec.CreatedAt
	}
	return row
}
