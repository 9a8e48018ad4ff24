package engine

import (
	"context"
	"strconv"
	"strings"

	"queen/engine/format"
	"queen/engine/machine"
)

// catalog implements Catalog over the node's state.
type catalog struct{ n *Node }

// Catalog implements Engine.
func (n *Node) Catalog() Catalog { return catalog{n} }

// change commits one command and returns its verdict.
func (n *Node) change(ctx context.Context, add func(b *format.CommandBuf)) (*submission, *format.Result, *Error) {
	s := newSubmission(consumption)
	add(s.buf)
	if err := n.commit(ctx, s); err != nil {
		return nil, nil, err
	}
	it := &s.items()[0]
	return s, it, errOfCode(it.Code)
}

// counted commits one command whose verdict is a number of rows.
func (n *Node) counted(ctx context.Context, add func(b *format.CommandBuf)) (format.CountResult, *Error) {
	s, it, err := n.change(ctx, add)
	if err != nil {
		return format.CountResult{}, err
	}
	return s.flight.results.Counts[it.At], nil
}

func (c catalog) Configure(ctx context.Context, who Caller, r ConfigureRequest) (QueueInfo, error) {
	if err := checkNames(r.Queue, "", "queue"); err != nil {
		return QueueInfo{}, err
	}
	if err := checkOptions(&r); err != nil {
		return QueueInfo{}, err
	}
	s, it, err := c.n.change(ctx, func(b *format.CommandBuf) {
		b.AddConfigure(&format.Configure{Tenant: who.Tenant, Queue: viewBytes(r.Queue), Replace: r.Replace,
			Reset: r.Reset, Patch: r.Patch, Guarded: r.Guarded, Life: r.Life})
	})
	if err != nil {
		return QueueInfo{}, err
	}
	res := &s.flight.results.Configs[it.At]
	info, found := QueueInfo{}, false
	c.n.state.RLock()
	if q, ok := c.n.state.m.QueueByID(res.Queue); ok {
		info, found = c.n.queueInfo(&q), true
	}
	c.n.state.RUnlock()
	if !found { // deleted right after
		info = QueueInfo{ID: res.Queue, Name: r.Queue}
	}
	info.Options = res.Options
	return info, nil
}

// checkOptions bounds what a configure call may store (labels count into names and pages).
func checkOptions(r *ConfigureRequest) *Error {
	p := &r.Patch
	if len(p.Namespace) > format.NameBudget || len(p.Task) > format.NameBudget {
		return errBad("namespace", "447 bytes", "namespace and task are at most 447 bytes")
	}
	if len(p.RetentionSinkHold) > 64 || strings.Trim(p.RetentionSinkHold, sinkHoldCharset) != "" {
		return errBad("retentionSinkHold", "64 characters of A-Z a-z 0-9 . _ -", "retentionSinkHold is not a sink name")
	}
	if s := p.RetentionSinkHoldMaxSeconds; p.Set&format.OptRetentionSinkHoldMaxSeconds != 0 && (s < 60 || s > 31_536_000) {
		return errBad("retentionSinkHoldMaxSeconds", "60 to 31536000", "retentionSinkHoldMaxSeconds is out of range")
	}
	return nil
}

// sinkHoldCharset is what a sink's name is made of. Trim is enough: names of nothing else are empty
// after it, and one with a stranger in the middle keeps it.
const sinkHoldCharset = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

func (c catalog) DeleteQueue(ctx context.Context, who Caller, queue string) (bool, error) {
	return c.deleteQueue(ctx, &format.Delete{Tenant: who.Tenant, Queue: viewBytes(queue)})
}

func (c catalog) DeleteLife(ctx context.Context, who Caller, queue string, life format.QueueID) (bool, error) {
	return c.deleteQueue(ctx, &format.Delete{Tenant: who.Tenant, Queue: viewBytes(queue), Guarded: true, Life: life})
}

func (c catalog) deleteQueue(ctx context.Context, cmd *format.Delete) (bool, error) {
	cmd.What = format.DeleteQueue
	res, err := c.n.counted(ctx, func(b *format.CommandBuf) { b.AddDelete(cmd) })
	if err != nil && (err.Code == CodeUnknownQueue || err.Code == CodeGone) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return res.Existed, nil
}

func (c catalog) DeleteGroup(ctx context.Context, who Caller, group, queue string, all, keep bool) (uint64, error) {
	group = groupName(group)
	res, err := c.n.counted(ctx, func(b *format.CommandBuf) {
		b.AddDelete(&format.Delete{What: format.DeleteGroup, Tenant: who.Tenant, Queue: viewBytes(queue), AllQueues: all,
			Name: viewBytes(group), KeepRegistration: keep})
	})
	if err != nil && (err.Code == CodeUnknownQueue || err.Code == CodeUnknownGroup) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return res.Rows, nil
}

func (c catalog) SetSubscription(ctx context.Context, who Caller, group string, from format.Wall) (uint64, error) {
	var queues []string
	group = groupName(group)
	c.each(who.Tenant, func(q *machine.Queue) {
		if _, ok := c.n.state.m.GroupByName(q.ID, group); ok {
			queues = append(queues, q.Name)
		}
	})
	changed := uint64(0)
	for _, q := range queues {
		res, err := c.n.counted(ctx, func(b *format.CommandBuf) {
			b.AddRegister(&format.Register{Tenant: who.Tenant, Queue: viewBytes(q), Group: viewBytes(group),
				Start: format.StartFrom, From: from, OnlyMissing: true})
		})
		if err != nil {
			return changed, err
		}
		if res.Existed || res.Rows > 0 {
			changed++
		}
	}
	return changed, nil
}

// each visits a tenant's queues in order of creation, a page at a time; fn runs under the state lock.
func (c catalog) each(t format.Tenant, fn func(q *machine.Queue)) {
	for after := format.QueueID(0); ; {
		c.n.state.RLock()
		page := c.n.state.m.Queues(t, false, after, 256)
		for i := range page {
			after = page[i].ID
			fn(&page[i])
		}
		c.n.state.RUnlock()
		if len(page) == 0 {
			return
		}
	}
}

func (n *Node) queueInfo(q *machine.Queue) QueueInfo {
	info := n.topicInfo(q)
	l := n.house.lag.of(q.ID)
	if q.Partitions <= countNow {
		l = n.countQueue(q)
	}
	if l != nil {
		info.Messages, info.Pending, info.Processing, info.SweptAt = l.messages, l.pending, l.processing, l.at
	}
	return info
}

// countNow is how many partitions a queue may have for its figures to be counted when they are asked
// for, instead of taken from the last sweep.
const countNow = 256

// countQueue counts a small queue. The state lock is held.
func (n *Node) countQueue(q *machine.Queue) *queueLag {
	l := &queueLag{at: n.state.m.W(), groups: map[string]*groupLag{}}
	groups := n.state.m.Groups(q.ID)
	rows, _ := n.state.m.Partitions(q.ID, 0, 0, countNow, countNow)
	for i := range rows {
		s := sweepOne(n.state.m, newPartView(rows[i], q), groups)
		l.count(&s, groups)
	}
	return l
}

func (c catalog) Queue(_ context.Context, who Caller, queue string) (QueueInfo, error) {
	c.n.state.RLock()
	defer c.n.state.RUnlock()
	q, ok := c.n.state.m.QueueByName(who.Tenant, queue)
	if !ok {
		return QueueInfo{}, errOfCode(format.CodeUnknownQueue)
	}
	return c.n.queueInfo(&q), nil
}

func (c catalog) Queues(_ context.Context, who Caller, p Page) ([]QueueInfo, string, error) {
	after, limit, err := p.parse(1000)
	if err != nil {
		return nil, "", err
	}
	c.n.state.RLock()
	defer c.n.state.RUnlock()
	page := c.n.state.m.Queues(who.Tenant, false, format.QueueID(after), limit)
	rows := make([]QueueInfo, len(page))
	for i := range page {
		rows[i] = c.n.queueInfo(&page[i])
	}
	next := ""
	if len(page) == limit {
		next = strconv.FormatUint(uint64(page[limit-1].ID), 10)
	}
	return rows, next, nil
}

// parse reads a page request; limits are clamped to 1..most.
func (p Page) parse(most int) (after uint64, limit int, err *Error) {
	limit = p.Limit
	if limit <= 0 || limit > most {
		limit = most
	}
	if p.After == "" {
		return 0, limit, nil
	}
	after, e := strconv.ParseUint(p.After, 10, 64)
	if e != nil {
		return 0, 0, errBad("after", "", "not a cursor of this listing")
	}
	return after, limit, nil
}

func (n *Node) partitionInfo(part *partView) PartitionInfo {
	info := PartitionInfo{ID: part.id, Queue: part.queueName, Name: part.name, CreatedAt: part.Created,
		LastWriteAt: part.lastW, End: part.next, Start: part.start}
	if start, err := n.logStart(part); err == nil {
		info.Start = start
	}
	n.state.RLock()
	defer n.state.RUnlock()
	info.DeadLetters = uint64(len(n.state.m.DeadLettersAt(part.id, 0, ^format.Offset(0), maxCountedDead)))
	slowest, any := part.tail(), false
	for _, g := range n.state.m.Groups(part.Queue) {
		cur, ok := n.state.m.CursorOf(part.id, g.ID)
		if !ok || !cur.Known {
			continue
		}
		any = true
		slowest = min(slowest, cur.Next)
		if !cur.Lease.ID.IsZero() && cur.Lease.End > cur.Next {
			info.Processing += uint64(cur.Lease.End - cur.Next)
		}
	}
	if !any {
		slowest = info.Start
	}
	info.Pending = uint64(part.tail() - min(max(slowest, info.Start), part.tail()))
	return info
}

// maxCountedDead bounds how many dead letters of one partition a listing counts.
const maxCountedDead = 10_000

func (c catalog) Partition(_ context.Context, who Caller, queue, partition string) (PartitionInfo, error) {
	part, queueExists, ok := c.n.partByName(who.Tenant, queue, partition)
	if !queueExists {
		return PartitionInfo{}, errOfCode(format.CodeUnknownQueue)
	}
	if !ok {
		return PartitionInfo{}, errOfCode(format.CodeUnknownPartition)
	}
	return c.n.partitionInfo(&part), nil
}

func (c catalog) PartitionByID(_ context.Context, who Caller, id format.PartitionID) (PartitionInfo, error) {
	part, ok := c.n.partByID(who.Tenant, id)
	if !ok {
		return PartitionInfo{}, errOfCode(format.CodeUnknownPartition)
	}
	return c.n.partitionInfo(&part), nil
}

func (c catalog) Partitions(_ context.Context, who Caller, queue string, since format.Wall, p Page) ([]PartitionInfo, string, error) {
	after, limit, bad := p.parse(1000)
	if bad != nil {
		return nil, "", bad
	}
	parts, next, bad := c.page(who, queue, format.PartitionID(after), since, limit)
	if bad != nil {
		return nil, "", bad
	}
	rows := make([]PartitionInfo, len(parts))
	for i := range parts {
		rows[i] = c.n.partitionInfo(&parts[i])
	}
	return rows, next, nil
}

// page reads partitions of a queue; sparse matches are looked for a bounded number of rows at a time.
func (c catalog) page(who Caller, queue string, after format.PartitionID, since format.Wall, limit int) ([]partView, string, *Error) {
	const look = 65_536
	var out []partView
	for {
		c.n.state.RLock()
		q, ok := c.n.state.m.QueueByName(who.Tenant, queue)
		if !ok {
			c.n.state.RUnlock()
			return nil, "", errOfCode(format.CodeUnknownQueue)
		}
		rows, next := c.n.state.m.Partitions(q.ID, after, since, limit-len(out), look)
		c.n.state.RUnlock()
		for i := range rows {
			out = append(out, newPartView(rows[i], &q))
		}
		if next == 0 {
			return out, "", nil
		}
		if after = next; len(out) == limit {
			return out, strconv.FormatUint(uint64(next), 10), nil
		}
	}
}
