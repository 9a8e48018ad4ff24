package enginetest

import (
	"context"
	"math"
	"slices"

	"queen/engine"
	"queen/engine/format"
)

// modelInspect is the Inspect of a Model.
type modelInspect Model

func (m *modelInspect) model() *Model { return (*Model)(m) }

func (m *modelInspect) Message(_ context.Context, c engine.Caller, id format.PartitionID, txn string) (d engine.MessageDetail, err error) {
	err = m.model().with(func(s *state) error {
		p := s.tenantPart(c.Tenant, id)
		if p == nil {
			return fail(engine.CodeNotFound, "no such message")
		}
		o, ok := p.resolve(&engine.Ack{TransactionID: txn}, p.end(), nil)
		if !ok || o < p.start && s.filed(p, o) == nil {
			return fail(engine.CodeNotFound, "no such message")
		}
		d = s.detail(p, o)
		return nil
	})
	return d, err
}

func (m *modelInspect) Messages(_ context.Context, c engine.Caller, f engine.MessageFilter) (rows []engine.MessageDetail, err error) {
	err = m.model().with(func(s *state) error {
		rows = s.browse(c.Tenant, f)
		return nil
	})
	return rows, err
}

func (s *state) filed(p *part, o format.Offset) *deadLetter {
	for _, d := range slices.Backward(s.dead) {
		if d.PartitionID == p.id && d.offset == o {
			return d
		}
	}
	return nil
}

// detail derives a message's state: dead letter over completed (every group has passed it) over
// processing over pending (S-obs-2).
func (s *state) detail(p *part, o format.Offset) engine.MessageDetail {
	d := engine.MessageDetail{Record: cloneRecord(p.msgs[o].rec), Queue: s.queueInfo(p.q), Partition: s.partInfo(p)}
	dead, leased, completed := false, false, len(p.q.groups) > 0
	for _, g := range p.q.groups {
		c := g.cursor(p)
		v := engine.GroupView{Name: g.name, Consumed: g.next(p) > o}
		if l := s.live(c); l != nil && o >= max(l.first, c.next) && o < l.end {
			v.Leased, v.LeaseExpires, leased = true, s.w+format.Wall(l.expiry-s.t), true
		}
		if c.head == o && c.attempts > 0 {
			v.Retries = uint32(c.retries)
		}
		for _, dl := range s.dead {
			if dl.PartitionID == p.id && dl.offset == o && dl.Group == g.name {
				v.Dead, v.Retries, v.Error, dead = true, dl.Retries, dl.Error, true
			}
		}
		completed = completed && v.Consumed
		d.Groups = append(d.Groups, v)
	}
	switch {
	case dead:
		d.State = engine.DeadState
	case completed:
		d.State = engine.Completed
	case leased:
		d.State = engine.Processing
	default:
		d.State = engine.Pending
	}
	return d
}

// browse lists newest first (S-obs-3).
func (s *state) browse(t format.Tenant, f engine.MessageFilter) []engine.MessageDetail {
	var all []engine.MessageDetail
	for _, q := range s.queues {
		if q.tenant != t || f.Queue != "" && q.name != f.Queue || f.Namespace != "" && q.opts.Namespace != f.Namespace ||
			f.Task != "" && q.opts.Task != f.Task {
			continue
		}
		for _, p := range q.parts {
			for o := p.start; o < p.end(); o++ {
				at := p.msgs[o].rec.CreatedAt
				if f.Partition != "" && p.name != f.Partition || at < f.From || f.To != 0 && at >= f.To {
					continue
				}
				if d := s.detail(p, o); f.State == 0 || d.State == f.State {
					all = append(all, d)
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b engine.MessageDetail) int {
		switch {
		case a.CreatedAt != b.CreatedAt:
			return int(b.CreatedAt - a.CreatedAt)
		case a.Partition.ID == b.Partition.ID:
			return int(b.Offset) - int(a.Offset)
		}
		return 0
	})
	all = all[min(max(f.Skip, 0), len(all)):]
	limit := f.Limit
	if limit <= 0 {
		limit = 200
	}
	return all[:min(limit, len(all))]
}

func (m *modelInspect) Depth(_ context.Context, c engine.Caller, queue, name string) (d engine.Depth, err error) {
	err = m.model().with(func(s *state) error {
		q := s.queue(c.Tenant, queue)
		if q == nil {
			return fail(engine.CodeUnknownQueue, "no such queue")
		}
		d = engine.Depth{Queue: queue, Group: name, HasGroup: name != ""}
		if g := q.group(name); g != nil {
			d.Conflates = g.conflate
		}
		for _, p := range q.parts {
			s.depth(&d, p, name)
		}
		return nil
	})
	return d, err
}

// PartitionSize counts payloads: the model stores no frames.
func (m *modelInspect) PartitionSize(_ context.Context, c engine.Caller, queue, partition string, keep uint64) (
	size engine.PartitionSize, err error) {
	err = m.model().with(func(s *state) error {
		q := s.queue(c.Tenant, queue)
		if q == nil {
			return fail(engine.CodeUnknownQueue, "no such queue")
		}
		p := q.part(partition)
		if p == nil {
			return fail(engine.CodeUnknownPartition, "no such partition")
		}
		for size.From = p.end(); size.From > p.start && (keep == 0 || size.Bytes < keep); size.From-- {
			size.Bytes += uint64(len(p.msgs[size.From-1].rec.Payload))
		}
		return nil
	})
	return size, err
}

// depth adds one partition, against one group or against the slowest.
func (s *state) depth(d *engine.Depth, p *part, name string) {
	info := s.partInfo(p)
	row := engine.PartitionDepth{Partition: p.name, Pending: info.Pending, Processing: info.Processing}
	if name != "" {
		row.Pending, row.Processing = uint64(p.end()-p.start), 0
		if g := p.q.group(name); g != nil {
			row.Pending = uint64(p.end() - g.next(p))
			if l := s.live(g.cursor(p)); l != nil {
				row.Processing = uint64(l.end - max(l.first, g.next(p)))
			}
		}
	}
	if row.Pending == 0 {
		return
	}
	d.Pending += row.Pending
	d.Processing += row.Processing
	d.PartitionsPending++
	if row.Processing == 0 {
		d.PartitionReady++
	}
	if len(d.Partitions) < 1000 {
		d.Partitions = append(d.Partitions, row)
	}
}

func (m *modelInspect) TopLag(_ context.Context, c engine.Caller, queue string, limit int) (rows []engine.LagRow, err error) {
	err = m.model().with(func(s *state) error {
		for _, q := range s.queues {
			if q.tenant != c.Tenant || queue != "" && q.name != queue {
				continue
			}
			for _, g := range q.groups {
				for _, p := range q.parts {
					gp := s.groupPartition(g, p)
					if gp.Lag == 0 {
						continue
					}
					row := engine.LagRow{Queue: q.name, Partition: p.name, Group: g.name, PartitionID: p.id,
						Lag: gp.Lag, OldestAt: gp.OldestLagAt}
					if l := s.live(g.cursor(p)); l != nil {
						row.Processing = uint64(l.end - l.first)
					}
					rows = append(rows, row)
				}
			}
		}
		slices.SortStableFunc(rows, func(a, b engine.LagRow) int { return int(b.Lag) - int(a.Lag) })
		return nil
	})
	return rows[:min(max(limit, 0), len(rows))], err
}

func (m *modelInspect) Leases(_ context.Context, c engine.Caller, limit int) (rows []engine.LeaseRow, err error) {
	err = m.model().with(func(s *state) error {
		for _, q := range s.queues {
			if q.tenant != c.Tenant {
				continue
			}
			for _, g := range q.groups {
				for _, p := range q.parts {
					if l := s.live(g.cursor(p)); l != nil {
						rows = append(rows, engine.LeaseRow{Lease: l.text, Queue: q.name, Partition: p.name, Group: g.name,
							PartitionID: p.id, First: l.first, End: l.end, Attempt: l.attempt,
							Expires: s.w + format.Wall(l.expiry-s.t)})
					}
				}
			}
		}
		slices.SortStableFunc(rows, func(a, b engine.LeaseRow) int { return int(a.Expires - b.Expires) })
		return nil
	})
	return rows[:min(max(limit, 0), len(rows))], err
}

func (m *modelInspect) Lease(ctx context.Context, c engine.Caller, lease string, p format.PartitionID) (engine.LeaseRow, bool, error) {
	rows, err := m.Leases(ctx, c, math.MaxInt)
	for _, r := range rows {
		if r.Lease == lease && r.PartitionID == p {
			return r, true, err
		}
	}
	return engine.LeaseRow{}, false, err
}

func (m *modelInspect) Overview(_ context.Context, c engine.Caller) (o engine.Overview, err error) {
	err = m.model().with(func(s *state) error {
		namespaces, tasks := map[string]bool{}, map[string]bool{}
		o.SweptAt = s.w
		for _, q := range s.queues {
			if q.tenant != c.Tenant {
				continue
			}
			info := s.queueInfo(q)
			o.Queues++
			o.Partitions += info.Partitions
			o.Total += info.Messages
			o.Pending += info.Pending
			o.Processing += info.Processing
			o.DeadLetters += info.DeadLetters
			namespaces[q.opts.Namespace], tasks[q.opts.Task] = true, true
			for _, g := range q.groups {
				lag := s.groupInfo(q, g).Lag
				o.Lag += lag
				o.LagMax = max(o.LagMax, lag)
			}
		}
		delete(namespaces, "")
		delete(tasks, "")
		o.Namespaces, o.Tasks = uint64(len(namespaces)), uint64(len(tasks))
		o.Completed = o.Total - o.Pending
		return nil
	})
	return o, err
}

func (m *modelInspect) Stats() engine.Stats {
	mm := m.model()
	mm.mu.Lock()
	defer mm.mu.Unlock()
	st := mm.mu.s.stats
	st.Parked = int64(len(mm.mu.waiters))
	for _, q := range mm.mu.s.queues {
		st.Queues++
		st.Partitions += uint64(len(q.parts))
		st.Groups += uint64(len(q.groups))
		for _, g := range q.groups {
			for _, p := range q.parts {
				if c := g.cursors[p]; c != nil && c.lease != nil {
					st.LiveLeases++
				}
			}
		}
	}
	return st
}
