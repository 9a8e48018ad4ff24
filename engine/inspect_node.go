package engine

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"queen/engine/format"
	"queen/engine/machine"
)

// inspector implements Inspect; it proposes nothing.
type inspector struct{ n *Node }

// Inspect implements Engine.
func (n *Node) Inspect() Inspect { return inspector{n} }

func sortBy[T any](rows []T, key func(*T) int64) {
	slices.SortStableFunc(rows, func(a, b T) int {
		x, y := key(&a), key(&b)
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
}

func (in inspector) Message(_ context.Context, who Caller, id format.PartitionID, transactionID string) (MessageDetail, error) {
	notFound := &Error{Code: CodeNotFound, Message: "no such message"}
	part, ok := in.n.partByID(who.Tenant, id)
	if !ok {
		return MessageDetail{}, notFound
	}
	rec, ok, err := in.n.findMessage(&part, transactionID)
	if err == nil && !ok {
		if o, known := in.n.knownID(&part, transactionID); known {
			rec, ok, err = in.n.recordAt(&part, o, nil)
		}
	}
	if err == nil && !ok {
		var d machine.DeadLetter
		if d, ok, err = in.n.deadAt(&part, transactionID); ok && err == nil {
			rec, ok, err = in.n.deadMessage(&part, &d)
		}
	}
	if err != nil {
		return MessageDetail{}, errRead(err)
	}
	if !ok {
		return MessageDetail{}, notFound
	}
	return in.detail(&part, &rec), nil
}

// detail tells what every consumer group of the queue thinks of a message (S-obs-1, S-obs-2).
func (in inspector) detail(part *partView, rec *Record) MessageDetail {
	n := in.n
	d := MessageDetail{Record: *rec, State: Pending, Partition: n.partitionInfo(part)}
	if row, ok, err := n.rows.At(part.id, rec.Offset, part.newest); err == nil && ok {
		d.Segment = uint64(row.Segment)
	}
	nowT, nowW := n.stamp.now()
	n.state.RLock()
	q, _ := n.state.m.QueueByID(part.Queue)
	d.Queue = n.queueInfo(&q)
	dead := n.state.m.DeadLettersAt(part.id, rec.Offset, rec.Offset+1, 64)
	groups := n.state.m.Groups(part.Queue)
	completed := len(groups) > 0
	for i := range groups {
		v := GroupView{Name: groups[i].Name}
		cur, ok := n.state.m.CursorOf(part.id, groups[i].ID)
		if ok && cur.Known {
			v.Consumed = cur.Next > rec.Offset
			if cur.Next == rec.Offset { // failures are those of the message at the cursor
				v.Retries = cur.Retries
			}
			if l := &cur.Lease; !l.ID.IsZero() && rec.Offset >= l.Next && rec.Offset < l.End {
				v.Leased, v.LeaseExpires = true, nowW+format.Wall(l.Expiry-nowT)
			}
		}
		for k := range dead {
			if dead[k].Group == v.Name {
				v.Dead, v.Retries = true, dead[k].Retries
			}
		}
		completed = completed && v.Consumed
		d.Groups = append(d.Groups, v)
	}
	n.state.RUnlock()
	for i := range d.Groups {
		if v := &d.Groups[i]; v.Leased {
			d.State = Processing
		}
	}
	if completed {
		d.State = Completed
	}
	for k := range dead {
		d.State = DeadState
		reason, err := n.keyed.deadReason(dead[k].ID[:])
		if err != nil {
			n.event("dead letter", err)
		}
		for i := range d.Groups {
			if d.Groups[i].Name == dead[k].Group {
				d.Groups[i].Error = reason
			}
		}
	}
	return d
}

// browse bounds of Messages.
const (
	browsePartitions = 4096
	browseRecent     = 256 // messages looked at per partition
)

// browsed is a message found by Messages.
type browsed struct {
	part partView
	rec  Record
}

func (in inspector) Messages(ctx context.Context, who Caller, f MessageFilter) ([]MessageDetail, error) {
	limit := min(max(f.Limit, 0), 1000)
	if limit == 0 {
		limit = 200
	}
	if f.To == 0 {
		f.To = in.n.wall() + 1
	}
	hits, err := in.browse(ctx, who, &f)
	if err != nil {
		return nil, errRead(err)
	}
	slices.SortStableFunc(hits, func(a, b browsed) int {
		return cmp.Or(cmp.Compare(b.rec.CreatedAt, a.rec.CreatedAt), cmp.Compare(b.rec.Offset, a.rec.Offset))
	})
	var out []MessageDetail
	skip := f.Skip
	for i := range hits {
		d := in.detail(&hits[i].part, &hits[i].rec)
		if f.State != 0 && d.State != f.State {
			continue
		}
		if skip > 0 {
			skip--
			continue
		}
		if out = append(out, d); len(out) == limit {
			break
		}
	}
	return out, nil
}

// browse reads the newest messages of the partitions that the filter names, within bounds.
func (in inspector) browse(ctx context.Context, who Caller, f *MessageFilter) ([]browsed, error) {
	var queues []machine.Queue
	catalog(in).each(who.Tenant, func(q *machine.Queue) {
		scope := Scope{Namespace: f.Namespace, Task: f.Task}
		if (f.Queue == "" || f.Queue == q.Name) && scope.matches(&q.Options) {
			queues = append(queues, *q)
		}
	})
	var hits []browsed
	left := browsePartitions
	for i := range queues {
		for after := format.PartitionID(0); left > 0 && ctx.Err() == nil; {
			in.n.state.RLock()
			rows, next := in.n.state.m.Partitions(queues[i].ID, after, f.From, min(left, 256), 65_536)
			in.n.state.RUnlock()
			for k := range rows {
				if f.Partition != "" && rows[k].Name != f.Partition {
					continue
				}
				left--
				var err error
				if hits, err = in.recent(newPartView(rows[k], &queues[i]), f, hits); err != nil {
					return nil, err
				}
			}
			if next == 0 {
				break
			}
			after = next
		}
	}
	return hits, nil
}

// recent appends the newest messages of a partition that were created in the filter's time.
func (in inspector) recent(part partView, f *MessageFilter, hits []browsed) ([]browsed, error) {
	from := part.start
	if part.next-from > browseRecent {
		from = part.next - browseRecent
	}
	reader := frameReader{n: in.n}
	_, err := reader.read(part.span(from, part.next), maxReadBytes, false, func(rec *Record) bool {
		if rec.CreatedAt >= f.From && rec.CreatedAt < f.To {
			hits = append(hits, browsed{part, *rec})
		}
		return true
	})
	return hits, err
}

func (in inspector) Depth(_ context.Context, who Caller, queue, group string) (Depth, error) {
	const listed = 1000
	d := Depth{Queue: queue, Group: group, HasGroup: group != ""}
	for after := format.PartitionID(0); ; {
		in.n.state.RLock()
		q, ok := in.n.state.m.QueueByName(who.Tenant, queue)
		if !ok {
			in.n.state.RUnlock()
			return Depth{}, errOfCode(format.CodeUnknownQueue)
		}
		groups := in.n.state.m.Groups(q.ID)
		if group != "" {
			groups = slices.DeleteFunc(groups, func(g machine.Group) bool { return g.Name != group })
			d.Conflates = len(groups) > 0 && groups[0].Conflate
		}
		rows, next := in.n.state.m.Partitions(q.ID, after, 0, sweepPage, sweepPage)
		for i := range rows {
			s := sweepOne(in.n.state.m, newPartView(rows[i], &q), groups)
			d.add(&s, len(groups) > 0, listed)
		}
		in.n.state.RUnlock()
		if next == 0 {
			return d, nil
		}
		after = next
	}
}

func (d *Depth) add(s *sweptPartition, groups bool, listed int) {
	start := s.part.start
	if s.part.Empty {
		start = s.part.tail()
	}
	from := start
	if groups {
		from = min(max(s.slowest, start), s.part.tail())
	}
	pending := uint64(s.part.tail() - from)
	if pending == 0 {
		return
	}
	leased := min(s.leased, pending)
	d.Pending += pending
	d.Processing += leased
	d.PartitionsPending++
	if pending > leased {
		d.PartitionReady++
	}
	if len(d.Partitions) < listed {
		d.Partitions = append(d.Partitions, PartitionDepth{Partition: s.part.name, Pending: pending, Processing: leased})
	}
}

func (in inspector) TopLag(_ context.Context, who Caller, queue string, limit int) ([]LagRow, error) {
	if limit <= 0 || limit > 10_000 {
		limit = 1000
	}
	var rows []LagRow
	nowT, nowW := in.n.stamp.now()
	var queues []machine.Queue
	catalog(in).each(who.Tenant, func(q *machine.Queue) {
		if queue == "" || q.Name == queue {
			queues = append(queues, *q)
		}
	})
	for i := range queues {
		for after := format.PartitionID(0); ; {
			in.n.state.RLock()
			groups := in.n.state.m.Groups(queues[i].ID)
			parts, next := in.n.state.m.Partitions(queues[i].ID, after, 0, sweepPage, sweepPage)
			for k := range parts {
				s := sweepOne(in.n.state.m, newPartView(parts[k], &queues[i]), groups)
				rows = append(rows, lagRows(&s, groups, nowT, nowW)...)
			}
			in.n.state.RUnlock()
			if len(rows) > 4*limit {
				rows = worst(rows, limit)
			}
			if next == 0 {
				break
			}
			after = next
		}
	}
	rows = worst(rows, limit)
	for i := range rows {
		in.oldest(who, &rows[i])
	}
	return rows, nil
}

func lagRows(s *sweptPartition, groups []machine.Group, nowT format.Mono, nowW format.Wall) []LagRow {
	var rows []LagRow
	start := s.part.start
	if s.part.Empty {
		start = s.part.tail()
	}
	for g := range groups {
		c := &s.cursors[g]
		next := max(c.Next, start)
		if !c.Known || next >= s.part.tail() {
			continue
		}
		row := LagRow{Queue: s.part.queueName, Partition: s.part.name, PartitionID: s.part.id, Group: groups[g].Name,
			Worker: c.Lease.Worker, Lag: uint64(s.part.tail() - next), Retries: c.Retries, Attempts: c.Attempts}
		if !c.Lease.ID.IsZero() {
			row.LeasedAt, row.LeaseExpires = format.MillisOf(c.Lease.ID), nowW+format.Wall(c.Lease.Expiry-nowT)
			if c.Lease.End > c.Next {
				row.Processing = uint64(c.Lease.End - c.Next)
			}
		}
		if c.NotBefore > nowT {
			row.HoldUntil = nowW + format.Wall(c.NotBefore-nowT)
		}
		rows = append(rows, row)
	}
	return rows
}

func worst(rows []LagRow, limit int) []LagRow {
	sortBy(rows, func(r *LagRow) int64 { return -int64(r.Lag) })
	return rows[:min(len(rows), limit)]
}

// oldest fills in when the oldest message behind a row's cursor was created.
func (in inspector) oldest(who Caller, r *LagRow) {
	part, ok := in.n.partByID(who.Tenant, r.PartitionID)
	if !ok {
		return
	}
	at := part.next - min(format.Offset(r.Lag), part.next)
	if row, ok, err := in.n.rows.At(part.id, at, part.newest); err == nil && ok {
		r.OldestAt = row.W
	}
}

func (in inspector) Leases(_ context.Context, who Caller, limit int) ([]LeaseRow, error) {
	if limit <= 0 || limit > 10_000 {
		limit = 1000
	}
	nowT, nowW := in.n.stamp.now()
	var out []LeaseRow
	for after := uint32(0); ; {
		in.n.state.RLock()
		rows, next := in.n.state.m.Leases(who.Tenant, after, 1024, 65_536)
		for i := range rows {
			l := &rows[i]
			part, ok := in.n.partByIDLocked(who.Tenant, l.Partition)
			if !ok {
				continue
			}
			out = append(out, leaseRow(l, &part, nowW+format.Wall(l.Expiry-nowT)))
		}
		in.n.state.RUnlock()
		if len(out) > 4*limit || next == 0 {
			sortBy(out, func(r *LeaseRow) int64 { return int64(r.Expires) })
			out = out[:min(len(out), limit)]
		}
		if next == 0 {
			return out, nil
		}
		after = next
	}
}

func leaseRow(l *machine.Lease, part *partView, expires format.Wall) LeaseRow {
	return LeaseRow{Lease: l.ID.String(), Queue: part.queueName, Partition: part.name, Group: l.GroupName,
		Worker: l.Worker, PartitionID: l.Partition, First: l.Next, End: l.End, Attempt: l.Attempt, Expires: expires}
}

func (in inspector) Lease(_ context.Context, who Caller, lease string, p format.PartitionID) (LeaseRow, bool, error) {
	id, ok := format.ParseUUID(lease)
	if !ok {
		return LeaseRow{}, false, nil
	}
	nowT, nowW := in.n.stamp.now()
	in.n.state.RLock()
	defer in.n.state.RUnlock()
	rows := in.n.state.m.LeaseByID(who.Tenant, id)
	for i := range rows {
		if rows[i].Partition != p || rows[i].Expiry <= nowT {
			continue
		}
		if part, ok := in.n.partByIDLocked(who.Tenant, p); ok {
			return leaseRow(&rows[i], &part, nowW+format.Wall(rows[i].Expiry-nowT)), true, nil
		}
	}
	return LeaseRow{}, false, nil
}

func (in inspector) Overview(_ context.Context, who Caller) (Overview, error) {
	var o Overview
	spaces, tasks := map[string]bool{}, map[string]bool{}
	_, now := in.n.stamp.now()
	catalog(in).each(who.Tenant, func(q *machine.Queue) {
		o.Queues++
		o.Partitions += q.Partitions
		o.DeadLetters += q.DeadLetters
		if q.Options.Namespace != "" {
			spaces[strings.Clone(q.Options.Namespace)] = true
		}
		if q.Options.Task != "" {
			tasks[strings.Clone(q.Options.Task)] = true
		}
		l := in.n.house.lag.of(q.ID)
		if l == nil {
			return
		}
		o.SweptAt = max(o.SweptAt, l.at)
		o.Total += l.messages
		o.Pending += l.pending
		o.Processing += l.processing
		for _, g := range l.groups {
			o.Lag += g.lag
			if g.oldest != 0 {
				o.LagMax = max(o.LagMax, uint64(max(now-g.oldest, 0)/1e6))
			}
		}
	})
	o.Namespaces, o.Tasks = uint64(len(spaces)), uint64(len(tasks))
	o.Completed = o.Total - min(o.Pending, o.Total)
	o.PushedPerSecond, o.DeliveredPerSecond = in.n.house.rates.perSecond()
	return o, nil
}

// keyedStats fills in what is counted of keyed rows, transactions, locks and timers.
func (in inspector) keyedStats(st *Stats) {
	n, c := in.n, &in.n.counters
	st.KVWrites, st.KVReads, st.KVLost = c.kvWrites.Load(), c.kvReads.Load(), c.kvLost.Load()
	st.Transactions, st.RolledBack, st.Repeated = c.transactions.Load(), c.rolledBack.Load(), c.repeated.Load()
	st.LocksGranted, st.LocksRefused = c.locksGranted.Load(), c.locksRefused.Load()
	st.TimersScheduled, st.TimersCancelled = c.timersScheduled.Load(), c.timersCancelled.Load()
	st.TimersFired, st.TimersRefused = c.timersFired.Load(), c.timersRefused.Load()
	st.TimerLateMicros.Counts, st.TimerLateMicros.Sum = c.timerLate.Snapshot()
	n.state.RLock()
	st.KVRows, _ = n.state.m.KeyedSum(machine.FamilyKV)
	st.TimersPending, _ = n.state.m.KeyedSum(machine.FamilyTimer)
	due, ok := n.state.m.NextTimer()
	n.state.RUnlock()
	if now := n.wall(); ok && due < now {
		st.TimerOldestLateMicros = uint64(now - due)
	}
}

func (in inspector) Stats() Stats {
	n := in.n
	c := &n.counters
	st := Stats{
		Pushed: c.pushed.Load(), PushedBytes: c.pushedBytes.Load(), Duplicates: c.duplicates.Load(), Refused: c.refused.Load(),
		DeliveredMessages: c.deliveredMessages.Load(), DeliveredBytes: c.deliveredBytes.Load(), Claims: c.claims.Load(),
		Acked: c.acked.Load(), Nacked: c.nacked.Load(), DeadLettered: c.deadLettered.Load(), Redriven: c.redriven.Load(),
		HandedBack: c.handedBack.Load(), Entries: c.entries.Load(), EntryBytes: c.entryBytes.Load(),
		DuplicateProbes: c.duplicateProbes.Load(), RunProbes: c.runProbes.Load(), StaleEvidence: c.staleEvidence.Load(),
		Overloaded: c.overloaded.Load(), StorageRefused: c.storageRefused.Load(),
		Parked: int64(n.park.count()), InflightWriteBytes: n.writes.inflight(),
	}
	st.CommitMicros.Counts, st.CommitMicros.Sum = c.commit.Snapshot()
	st.LastCommitMicros, st.LastCommitAt = uint64(max(c.lastCommit.Load(), 0)), format.Wall(c.lastCommitAt.Load())
	if d := c.dead.Load(); d != nil {
		st.DeadBytes, st.DeadAt = d.bytes, d.at
	}
	in.keyedStats(&st)
	log := n.seq.Log()
	ls := log.Stats()
	st.Flushes, st.FlushMicros = ls.Extents, ls.WriteMicros
	st.CheckpointBytes = n.files.onDisk()
	for _, s := range log.Segments() {
		st.Segments++
		st.LogBytes += uint64(s.Bytes)
	}
	for _, s := range log.Bulks() {
		st.Bulks++
		st.BulkBytes += uint64(s.Bytes)
	}
	n.state.RLock()
	mc := n.state.m.Counters()
	n.state.RUnlock()
	st.Queues, st.Partitions, st.Groups, st.LiveLeases = mc.Queues, mc.Partitions, mc.Groups, mc.LiveLeases
	if space, err := n.cfg.FS.Free(n.cfg.Dir); err == nil {
		st.DiskTotal, st.DiskFree = uint64(space.Total), uint64(space.Available)
	}
	return st
}
