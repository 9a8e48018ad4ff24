package engine

import (
	"context"
	"slices"
	"strings"

	"queen/engine/format"
	"queen/engine/machine"
)

func (c catalog) Groups(_ context.Context, who Caller) ([]GroupInfo, error) {
	var rows []GroupInfo
	c.each(who.Tenant, func(q *machine.Queue) {
		lag := c.n.house.lag.of(q.ID)
		if q.Partitions <= countNow {
			lag = c.n.countQueue(q)
		}
		for _, g := range c.n.state.m.Groups(q.ID) {
			rows = append(rows, groupInfo(q, &g, lag))
		}
	})
	slices.SortStableFunc(rows, func(a, b GroupInfo) int {
		if d := strings.Compare(a.Name, b.Name); d != 0 {
			return d
		}
		return strings.Compare(a.Queue, b.Queue)
	})
	return rows, nil
}

func groupInfo(q *machine.Queue, g *machine.Group, lag *queueLag) GroupInfo {
	info := GroupInfo{Name: g.Name, Queue: q.Name, Start: Start{Kind: g.Start, From: g.From}, RegisteredAt: g.Created,
		Conflate: g.Conflate, Cursors: g.Cursors, Consumed: g.Consumed, Leases: g.Leases}
	if lag == nil {
		return info
	}
	info.SweptAt = lag.at
	if gl := lag.groups[g.Name]; gl != nil {
		info.Lag, info.PartitionsWithLag, info.OldestLagAt = gl.lag, gl.partitions, gl.oldest
	}
	return info
}

func (c catalog) GroupPartitions(_ context.Context, who Caller, group, queue string, p Page) ([]GroupPartition, string, error) {
	group = groupName(group)
	after, limit, bad := p.parse(1000)
	if bad != nil {
		return nil, "", bad
	}
	parts, next, bad := c.page(who, queue, format.PartitionID(after), 0, limit)
	if bad != nil {
		return nil, "", bad
	}
	rows := make([]GroupPartition, 0, len(parts))
	for i := range parts {
		row, ok := c.groupPartition(&parts[i], group)
		if !ok {
			return nil, "", errOfCode(format.CodeUnknownGroup)
		}
		rows = append(rows, row)
	}
	return rows, next, nil
}

func (c catalog) groupPartition(part *partView, group string) (GroupPartition, bool) {
	row := GroupPartition{Partition: c.n.partitionInfo(part)}
	c.n.state.RLock()
	g, ok := c.n.state.m.GroupByName(part.Queue, group)
	cur, known := machine.Cursor{}, false
	if ok {
		cur, known = c.n.state.m.CursorOf(part.id, g.ID)
	}
	c.n.state.RUnlock()
	if !ok {
		return row, false
	}
	row.Next = row.Partition.Start
	if known && cur.Known {
		row.Next = max(cur.Next, row.Partition.Start)
	}
	row.Lag = uint64(part.next - min(row.Next, part.next))
	row.Leased, row.Worker, row.Attempts = !cur.Lease.ID.IsZero(), cur.Lease.Worker, cur.Lease.Attempt
	if known && cur.Exists {
		row.Consumed = uint64(cur.Next)
	}
	if row.Lag > 0 {
		if r, ok, err := c.n.rows.At(part.id, row.Next, part.newest); err == nil && ok {
			row.OldestLagAt = r.W
		}
	}
	return row, true
}
