package frontendmcp

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"queen/engine"
	"queen/engine/format"
	"queen/engine/stats"
)

// maxScan bounds the rows that one call looks at.
const maxScan = 10_000

func digits(n uint64) string { return strconv.FormatUint(n, 10) }

type queueRow struct {
	Name       string `json:"name"`
	Namespace  string `json:"namespace,omitempty"`
	Task       string `json:"task,omitempty"`
	Partitions uint64 `json:"partitions"`
	// Counts are of the last sweep.
	Messages    uint64   `json:"messages"`
	Depth       uint64   `json:"depth" jsonschema:"messages before the slowest consumer group"`
	OldestAgeS  *float64 `json:"oldest_age_s" jsonschema:"of what a consumer group has not acknowledged; null for nothing"`
	Ready       uint64   `json:"ready" jsonschema:"of depth, those under no lease"`
	Leased      uint64   `json:"leased"`
	DeadLetters uint64   `json:"dlq"`
	PushedPerS  *float64 `json:"push_s" jsonschema:"messages a second, in the last whole minute; null when it is not counted"`
	PoppedPerS  *float64 `json:"pop_s"`
	Bytes       uint64   `json:"bytes"`
	CreatedAt   string   `json:"created_at"`
	CountedAt   *string  `json:"counted_at" jsonschema:"when messages were counted; null before the first time"`

	id     format.QueueID
	oldest format.Wall
}

func queueRowOf(q *engine.QueueInfo) queueRow {
	return queueRow{Name: q.Name, Namespace: q.Options.Namespace, Task: q.Options.Task, Partitions: q.Partitions, Messages: q.Messages,
		Depth: q.Pending, Ready: q.Pending - min(q.Processing, q.Pending), Leased: q.Processing, DeadLetters: q.DeadLetters,
		Bytes: q.RetainedBytes, CreatedAt: timeText(q.CreatedAt), CountedAt: maybeTime(q.SweptAt), id: q.ID}
}

// aged fills in how old the oldest message is that a consumer group of each queue has before it.
func (c *call) aged(rows []queueRow) error {
	groups, err := c.groups("", "")
	oldest := map[string]format.Wall{}
	for i := range groups {
		if g := &groups[i]; g.OldestLagAt != 0 && (oldest[g.Queue] == 0 || g.OldestLagAt < oldest[g.Queue]) {
			oldest[g.Queue] = g.OldestLagAt
		}
	}
	for i := range rows {
		r := &rows[i]
		r.oldest = oldest[r.Name]
		r.OldestAgeS = c.ageSeconds(r.oldest)
	}
	return err
}

// rated fills in what was pushed and popped in the last whole minute, where it is counted.
func (c *call) rated(rows []queueRow) {
	ops, ok := engine.OperationsOf(c.engine)
	if !ok {
		return
	}
	const minute = format.Wall(60e6)
	last := c.f.now()/minute*minute - minute
	for i := range rows {
		points, counted := ops.Activity(c.caller, rows[i].id, last, last)
		if !counted {
			continue
		}
		var pushed, popped float64
		for k := range points {
			pushed += float64(points[k].Counts[stats.PushMessages]) / 60
			popped += float64(points[k].Counts[stats.PopMessages]) / 60
		}
		rows[i].PushedPerS, rows[i].PoppedPerS = &pushed, &popped
	}
}

type queueListArgs struct {
	Prefix    string `json:"prefix,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Order     string `json:"order,omitempty" jsonschema:"name (default), depth, age, rate, dlq or bytes; all but name descend"`
	Listing
}

type queueList struct {
	Meta
	Total  int        `json:"total" jsonschema:"queues that match"`
	Approx bool       `json:"approx,omitempty" jsonschema:"there are more queues than were looked at"`
	Queues []queueRow `json:"queues"`
}

func queueTools() []*tool {
	return []*tool{
		row(tool{name: "queue_list", title: "List queues", toolset: "queues",
			text: "Queues with depth, leases, dead letters and size."}, queueListing),
		row(tool{name: "queue_describe", title: "Describe a queue", toolset: "queues",
			text: "Options (with defaults), totals, consumer groups and the partitions furthest behind of one queue."}, queueDescribe),
		row(tool{name: "partition_list", title: "List partitions", toolset: "queues",
			text: "Partitions of a queue with their offsets; with group, also cursor, lag, lease and attempts."}, partitionListing),
	}
}

func queueListing(c *call, in queueListArgs) (out queueList, err error) {
	limit, err := c.bounds(in.Listing)
	if err != nil {
		return out, err
	}
	order, ok := queueOrders[cmp.Or(in.Order, "name")]
	if !ok {
		return out, badArgument("order", "order is none of name, depth, age, rate, dlq, bytes")
	}
	at, err := c.resume(in.Cursor, in.Prefix, in.Namespace, in.Order)
	if err != nil {
		return out, err
	}
	all, more, err := c.queues()
	if err != nil {
		return out, err
	}
	rows := []queueRow{}
	for i := range all {
		if strings.HasPrefix(all[i].Name, in.Prefix) && (in.Namespace == "" || all[i].Options.Namespace == in.Namespace) {
			rows = append(rows, queueRowOf(&all[i]))
		}
	}
	if err := c.aged(rows); err != nil {
		return out, err
	}
	if in.Order == "rate" {
		c.rated(rows)
	}
	slices.SortStableFunc(rows, func(a, b queueRow) int { return cmp.Or(order(&a, &b), strings.Compare(a.Name, b.Name)) })
	out.Meta, out.Total, out.Approx = c.meta(), len(rows), more
	out.Untrusted = true
	if in.Order != "rate" {
		c.rated(rows[min(at.Skip, len(rows)):min(at.Skip+limit, len(rows))])
	}
	out.Queues = pageOf(c, &out.Meta, rows, at, limit)
	return out, nil
}

var queueOrders = map[string]func(a, b *queueRow) int{
	"name":  func(*queueRow, *queueRow) int { return 0 },
	"depth": func(a, b *queueRow) int { return cmp.Compare(b.Depth, a.Depth) },
	"age": func(a, b *queueRow) int {
		return cmp.Or(cmp.Compare(boolRank(a.oldest == 0), boolRank(b.oldest == 0)), cmp.Compare(a.oldest, b.oldest))
	},
	"rate":  func(a, b *queueRow) int { return cmp.Compare(orZero(b.PushedPerS), orZero(a.PushedPerS)) },
	"dlq":   func(a, b *queueRow) int { return cmp.Compare(b.DeadLetters, a.DeadLetters) },
	"bytes": func(a, b *queueRow) int { return cmp.Compare(b.Bytes, a.Bytes) },
}

func boolRank(b bool) int {
	if b {
		return 1
	}
	return 0
}

func orZero(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

// queues are the queues of the caller's tenant, maxScan at most.
func (c *call) queues() (all []engine.QueueInfo, more bool, err error) {
	page := engine.Page{Limit: 1000}
	for {
		rows, next, err := c.engine.Catalog().Queues(c.ctx, c.caller, page)
		if err != nil {
			return nil, false, err
		}
		all = append(all, rows...)
		c.notify(float64(len(all)), maxScan)
		if next == "" || len(all) >= maxScan {
			return all, next != "", nil
		}
		page.After = next
	}
}

type queueArgs struct {
	Queue string `json:"queue"`
}

type optionRow struct {
	Name    string `json:"name"`
	Value   any    `json:"value"`
	Default any    `json:"default"`
	Set     bool   `json:"set" jsonschema:"a configure call named it"`
}

// retention is what decides about a queue's messages, apart from being consumed.
type retention struct {
	Enabled        bool   `json:"enabled"`
	AfterS         int64  `json:"after_s" jsonschema:"age in seconds at which messages go; 0 is never"`
	AfterConsumedS int64  `json:"after_consumed_s" jsonschema:"likewise, of those that every group has consumed"`
	Bytes          int64  `json:"bytes" jsonschema:"what a partition keeps at least; 0 is everything"`
	Retained       uint64 `json:"retained_bytes"`
}

type queueDescription struct {
	Meta
	Queue     queueRow    `json:"queue"`
	Retention retention   `json:"retention"`
	Options   []optionRow `json:"options"`
	Groups    []groupRow  `json:"groups"`
	// Hot are the partitions furthest behind.
	Hot []lagRow `json:"hot_partitions"`
}

func queueDescribe(c *call, in queueArgs) (out queueDescription, err error) {
	q, err := c.engine.Catalog().Queue(c.ctx, c.caller, in.Queue)
	if err != nil {
		return out, err
	}
	rows := []queueRow{queueRowOf(&q)}
	if err := c.aged(rows); err != nil {
		return out, err
	}
	c.rated(rows)
	out.Meta, out.Queue = c.meta(), rows[0]
	out.Untrusted = true
	o := &q.Options
	out.Retention = retention{Enabled: o.RetentionEnabled, AfterS: o.RetentionSeconds, AfterConsumedS: o.CompletedRetentionSeconds,
		Bytes: o.RetentionBytes, Retained: q.RetainedBytes}
	c.take(out)
	groups, err := c.groups(in.Queue, "")
	if err != nil {
		return out, err
	}
	s, err := c.look(in.Queue, "")
	if err != nil {
		return out, err
	}
	out.Options, _ = fit(c, optionRows(o))
	worst := s.Worst()
	hot := make([]lagRow, 0, 10)
	for i := range worst[:min(len(worst), 10)] {
		hot = append(hot, c.lagRowOf(&worst[i]))
	}
	out.Hot, _ = fit(c, hot)
	list := make([]groupRow, 0, len(groups))
	for i := range groups[:min(len(groups), 50)] {
		list = append(list, c.groupRowOf(&groups[i], s))
	}
	out.Groups, _ = fit(c, list)
	c.cut(&out.Meta, len(groups)-len(out.Groups)+len(hot)-len(out.Hot), "group_list and partition_list have them all")
	return out, nil
}

type partitionArgs struct {
	Queue  string `json:"queue"`
	Group  string `json:"group,omitempty" jsonschema:"a consumer group; __QUEUE_MODE__ is the readers without one"`
	Prefix string `json:"prefix,omitempty"`
	Order  string `json:"order,omitempty" jsonschema:"created (default), name, or with group lag or age, which descend"`
	Listing
}

type partitionLease struct {
	Holder    string `json:"holder,omitempty" jsonschema:"the worker"`
	ExpiresAt string `json:"expires_at"`
	Attempt   uint32 `json:"attempt"`
}

type partitionRow struct {
	Name        string          `json:"name"`
	ID          string          `json:"id"`
	First       string          `json:"first" jsonschema:"oldest retained offset"`
	Last        *string         `json:"last" jsonschema:"newest retained offset; null when there is none"`
	End         string          `json:"end" jsonschema:"next offset to be assigned"`
	Pending     uint64          `json:"pending"`
	DeadLetters uint64          `json:"dlq"`
	LastWriteAt *string         `json:"last_write_at"`
	Committed   *string         `json:"committed" jsonschema:"next offset of the group; null without group"`
	Lag         *uint64         `json:"lag" jsonschema:"null without group"`
	OldestAgeS  *float64        `json:"oldest_age_s"`
	Lease       *partitionLease `json:"lease" jsonschema:"of the group; null without one"`
	Attempts    *uint32         `json:"attempts" jsonschema:"deliveries of the message at the cursor; null without group"`

	id     format.PartitionID
	oldest format.Wall
	leased bool
}

type partitionList struct {
	Meta
	Approx     bool           `json:"approx,omitempty" jsonschema:"there are more partitions than were put in order"`
	Partitions []partitionRow `json:"partitions"`
}

func partitionListing(c *call, in partitionArgs) (out partitionList, err error) {
	limit, err := c.bounds(in.Listing)
	if err != nil {
		return out, err
	}
	at, err := c.resume(in.Cursor, in.Queue, in.Group, in.Prefix)
	if err != nil {
		return out, err
	}
	order, ok := partitionOrders[cmp.Or(in.Order, "created")]
	switch {
	case !ok:
		return out, badArgument("order", "order is none of created, name, lag, age")
	case in.Group == "" && (in.Order == "lag" || in.Order == "age"):
		return out, badArgument("order", "lag and age are those of a consumer group: name one")
	}
	out.Meta, out.Partitions = c.meta(), []partitionRow{}
	out.Untrusted = true
	if order != nil {
		return out, c.orderedPartitions(&out, &in, order, at, limit)
	}
	looked := 0
	for len(out.Partitions) < limit {
		rows, next, err := c.partitions(in.Queue, in.Group, at.After)
		if err != nil {
			return out, err
		}
		looked += len(rows)
		c.notify(float64(looked), maxScan)
		page := at
		for i, p := range rows[min(at.Skip, len(rows)):] {
			if !strings.HasPrefix(p.Name, in.Prefix) {
				continue
			}
			if len(out.Partitions) == limit || !c.take(p) && len(out.Partitions) > 0 {
				page.Skip += i
				out.NextCursor = page.text()
				c.cut(&out.Meta, -1, goOn)
				return out, c.leased(in.Queue, in.Group, out.Partitions)
			}
			out.Partitions = append(out.Partitions, p)
		}
		if next == "" {
			break
		}
		at.After, at.Skip = next, 0
		if len(out.Partitions) >= limit || looked >= maxScan {
			out.NextCursor = at.text()
			c.cut(&out.Meta, -1, goOn)
			break
		}
	}
	return out, c.leased(in.Queue, in.Group, out.Partitions)
}

// partitionOrders are the orders in which partitions can be listed; nil is that of the engine.
var partitionOrders = map[string]func(a, b *partitionRow) int{
	"created": nil,
	"name":    func(a, b *partitionRow) int { return strings.Compare(a.Name, b.Name) },
	"lag": func(a, b *partitionRow) int {
		return cmp.Or(cmp.Compare(*b.Lag, *a.Lag), strings.Compare(a.Name, b.Name))
	},
	"age": func(a, b *partitionRow) int {
		return cmp.Or(cmp.Compare(boolRank(a.oldest == 0), boolRank(b.oldest == 0)), cmp.Compare(a.oldest, b.oldest), strings.Compare(a.Name, b.Name))
	},
}

// orderedPartitions lists in another order than the engine's, of the first maxScan partitions.
func (c *call) orderedPartitions(out *partitionList, in *partitionArgs, order func(a, b *partitionRow) int, at place, limit int) error {
	var all []partitionRow
	looked := 0
	for after := ""; ; {
		rows, next, err := c.partitions(in.Queue, in.Group, after)
		if err != nil {
			return err
		}
		looked += len(rows)
		c.notify(float64(looked), maxScan)
		all = append(all, slices.DeleteFunc(rows, func(r partitionRow) bool { return !strings.HasPrefix(r.Name, in.Prefix) })...)
		if after = next; next == "" {
			break
		}
		if out.Approx = looked >= maxScan; out.Approx {
			break
		}
	}
	slices.SortStableFunc(all, func(a, b partitionRow) int { return order(&a, &b) })
	out.Partitions = append(out.Partitions, pageOf(c, &out.Meta, all, at, limit)...)
	return c.leased(in.Queue, in.Group, out.Partitions)
}

// leased fills in the leases of a group on the partitions of a page.
func (c *call) leased(queue, group string, rows []partitionRow) error {
	if !slices.ContainsFunc(rows, func(r partitionRow) bool { return r.leased }) {
		return nil
	}
	leases, err := c.leases(queue, group)
	for i := range leases {
		l := &leases[i]
		if k := slices.IndexFunc(rows, func(r partitionRow) bool { return r.id == l.PartitionID }); k >= 0 {
			rows[k].Lease = &partitionLease{Holder: l.Worker, ExpiresAt: timeText(l.Expires), Attempt: l.Attempt}
		}
	}
	return err
}

// take takes the room that a row needs; false when there is none.
func (c *call) take(row any) bool {
	text, err := safeJSON(row)
	if err != nil {
		return false
	}
	c.room -= 2*len(text) + quotes(text) + 2
	return c.room >= envelope
}

// partitions is a page of a queue's partitions, seen by a group when there is one.
func (c *call) partitions(queue, group, after string) (rows []partitionRow, next string, err error) {
	page := engine.Page{After: after, Limit: 200}
	if group == "" {
		all, next, err := c.engine.Catalog().Partitions(c.ctx, c.caller, queue, 0, page)
		for i := range all {
			rows = append(rows, partitionRowOf(&all[i]))
		}
		return rows, next, err
	}
	all, next, err := c.engine.Catalog().GroupPartitions(c.ctx, c.caller, group, queue, page)
	for i := range all {
		g := &all[i]
		r := partitionRowOf(&g.Partition)
		committed := digits(uint64(g.Next))
		r.Committed, r.Lag, r.OldestAgeS, r.Attempts = &committed, &g.Lag, c.ageSeconds(g.OldestLagAt), &g.Attempts
		if r.oldest, r.leased = g.OldestLagAt, g.Leased; g.Leased {
			r.Lease = &partitionLease{Holder: g.Worker, ExpiresAt: timeText(c.f.now())} // leased fills in the rest; here it takes its room
		}
		rows = append(rows, r)
	}
	return rows, next, err
}

func partitionRowOf(p *engine.PartitionInfo) partitionRow {
	r := partitionRow{Name: p.Name, ID: digits(uint64(p.ID)), First: digits(uint64(p.Start)), End: digits(uint64(p.End)),
		Pending: p.Pending, DeadLetters: p.DeadLetters, LastWriteAt: maybeTime(p.LastWriteAt), id: p.ID}
	if p.End > p.Start {
		last := digits(uint64(p.End) - 1)
		r.Last = &last
	}
	return r
}
