package frontendmcp

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"queen/engine"
	"queen/engine/format"
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
	Messages    uint64  `json:"messages"`
	Depth       uint64  `json:"depth" jsonschema:"messages before the slowest consumer group"`
	Leased      uint64  `json:"leased"`
	DeadLetters uint64  `json:"dlq"`
	Bytes       uint64  `json:"bytes"`
	CreatedAt   string  `json:"created_at"`
	CountedAt   *string `json:"counted_at" jsonschema:"when messages were counted; null before the first time"`
}

func queueRowOf(q *engine.QueueInfo) queueRow {
	return queueRow{Name: q.Name, Namespace: q.Options.Namespace, Task: q.Options.Task, Partitions: q.Partitions, Messages: q.Messages,
		Depth: q.Pending, Leased: q.Processing, DeadLetters: q.DeadLetters, Bytes: q.RetainedBytes, CreatedAt: timeText(q.CreatedAt),
		CountedAt: maybeTime(q.SweptAt)}
}

type queueListArgs struct {
	Prefix    string `json:"prefix,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Order     string `json:"order,omitempty" jsonschema:"name (default), depth, dlq or bytes; all but name descend"`
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
		return out, badArgument("order", "order is none of name, depth, dlq, bytes")
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
	slices.SortStableFunc(rows, func(a, b queueRow) int { return cmp.Or(order(&a, &b), strings.Compare(a.Name, b.Name)) })
	out.Meta, out.Total, out.Approx = c.meta(), len(rows), more
	out.Untrusted = true
	out.Queues = pageOf(c, &out.Meta, rows, at, limit)
	return out, nil
}

var queueOrders = map[string]func(a, b *queueRow) int{
	"name":  func(*queueRow, *queueRow) int { return 0 },
	"depth": func(a, b *queueRow) int { return cmp.Compare(b.Depth, a.Depth) },
	"dlq":   func(a, b *queueRow) int { return cmp.Compare(b.DeadLetters, a.DeadLetters) },
	"bytes": func(a, b *queueRow) int { return cmp.Compare(b.Bytes, a.Bytes) },
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

type queueDescription struct {
	Meta
	Queue   queueRow    `json:"queue"`
	Options []optionRow `json:"options"`
	Groups  []groupRow  `json:"groups"`
	// Hot are the partitions furthest behind.
	Hot []lagRow `json:"hot_partitions"`
}

func queueDescribe(c *call, in queueArgs) (out queueDescription, err error) {
	q, err := c.engine.Catalog().Queue(c.ctx, c.caller, in.Queue)
	if err != nil {
		return out, err
	}
	out.Meta, out.Queue, out.Options = c.meta(), queueRowOf(&q), optionRows(&q.Options)
	out.Untrusted = true
	groups, err := c.groups(in.Queue, "")
	if err != nil {
		return out, err
	}
	out.Groups, out.Hot = []groupRow{}, []lagRow{}
	for i := range groups {
		out.Groups = append(out.Groups, c.groupRowOf(&groups[i]))
	}
	out.Groups, _ = fit(c, out.Groups[:min(len(out.Groups), 50)])
	out.Truncated = len(out.Groups) < len(groups)
	s, err := c.look(in.Queue, "")
	if err != nil {
		return out, err
	}
	worst := s.Worst()
	for i := range worst[:min(len(worst), 10)] {
		out.Hot = append(out.Hot, c.lagRowOf(&worst[i]))
	}
	return out, nil
}

type partitionArgs struct {
	Queue  string `json:"queue"`
	Group  string `json:"group,omitempty" jsonschema:"a consumer group; __QUEUE_MODE__ is the readers without one"`
	Prefix string `json:"prefix,omitempty"`
	Listing
}

type partitionRow struct {
	Name        string   `json:"name"`
	ID          string   `json:"id"`
	First       string   `json:"first" jsonschema:"oldest retained offset"`
	End         string   `json:"end" jsonschema:"next offset to be assigned"`
	Pending     uint64   `json:"pending"`
	DeadLetters uint64   `json:"dlq"`
	LastWriteAt *string  `json:"last_write_at"`
	Committed   *string  `json:"committed" jsonschema:"next offset of the group; null without group"`
	Lag         *uint64  `json:"lag" jsonschema:"null without group"`
	OldestAgeS  *float64 `json:"oldest_age_s"`
	Leased      *bool    `json:"leased"`
	Holder      string   `json:"holder,omitempty" jsonschema:"the worker that holds the lease"`
	Attempts    *uint32  `json:"attempts" jsonschema:"deliveries of the message at the cursor"`
}

type partitionList struct {
	Meta
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
	out.Meta, out.Partitions = c.meta(), []partitionRow{}
	out.Untrusted = true
	looked := 0
	for len(out.Partitions) < limit {
		rows, next, err := c.partitions(in.Queue, in.Group, at.After)
		if err != nil {
			return out, err
		}
		looked += len(rows)
		page := at
		for i, p := range rows[min(at.Skip, len(rows)):] {
			if !strings.HasPrefix(p.Name, in.Prefix) {
				continue
			}
			if len(out.Partitions) == limit || !c.take(p) && len(out.Partitions) > 0 {
				page.Skip += i
				out.Truncated, out.NextCursor = true, page.text()
				return out, nil
			}
			out.Partitions = append(out.Partitions, p)
		}
		if next == "" {
			break
		}
		at.After, at.Skip = next, 0
		if len(out.Partitions) >= limit || looked >= maxScan {
			out.Truncated, out.NextCursor = true, at.text()
			break
		}
	}
	return out, nil
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
		r.Committed, r.Lag, r.OldestAgeS, r.Leased, r.Holder, r.Attempts = &committed, &g.Lag, c.ageSeconds(g.OldestLagAt), &g.Leased, g.Worker, &g.Attempts
		rows = append(rows, r)
	}
	return rows, next, err
}

func partitionRowOf(p *engine.PartitionInfo) partitionRow {
	return partitionRow{Name: p.Name, ID: digits(uint64(p.ID)), First: digits(uint64(p.Start)), End: digits(uint64(p.End)),
		Pending: p.Pending, DeadLetters: p.DeadLetters, LastWriteAt: maybeTime(p.LastWriteAt)}
}

// option is one option of a queue.
type option struct {
	key string
	bit format.OptionMask
	// at is a *int64, *bool or *string.
	at func(*format.QueueOptions) any
}

var queueOptions = []option{
	{"namespace", format.OptNamespace, func(o *format.QueueOptions) any { return &o.Namespace }},
	{"task", format.OptTask, func(o *format.QueueOptions) any { return &o.Task }},
	{"leaseTime", format.OptLeaseTime, func(o *format.QueueOptions) any { return &o.LeaseTime }},
	{"retryLimit", format.OptRetryLimit, func(o *format.QueueOptions) any { return &o.RetryLimit }},
	{"priority", format.OptPriority, func(o *format.QueueOptions) any { return &o.Priority }},
	{"retryDelay", format.OptRetryDelay, func(o *format.QueueOptions) any { return &o.RetryDelayMs }},
	{"maxSize", format.OptMaxSize, func(o *format.QueueOptions) any { return &o.MaxSize }},
	{"ttl", format.OptTTL, func(o *format.QueueOptions) any { return &o.TTL }},
	{"deadLetterQueue", format.OptDeadLetterQueue, func(o *format.QueueOptions) any { return &o.DeadLetterQueue }},
	{"dlqAfterMaxRetries", format.OptDLQAfterMaxRetries, func(o *format.QueueOptions) any { return &o.DLQAfterMaxRetries }},
	{"delayedProcessing", format.OptDelayedProcessing, func(o *format.QueueOptions) any { return &o.DelayedProcessing }},
	{"windowBuffer", format.OptWindowBuffer, func(o *format.QueueOptions) any { return &o.WindowBuffer }},
	{"retentionSeconds", format.OptRetentionSeconds, func(o *format.QueueOptions) any { return &o.RetentionSeconds }},
	{"completedRetentionSeconds", format.OptCompletedRetentionSeconds, func(o *format.QueueOptions) any { return &o.CompletedRetentionSeconds }},
	{"retentionEnabled", format.OptRetentionEnabled, func(o *format.QueueOptions) any { return &o.RetentionEnabled }},
	{"encryptionEnabled", format.OptEncryptionEnabled, func(o *format.QueueOptions) any { return &o.EncryptionEnabled }},
	{"maxWaitTimeSeconds", format.OptMaxWaitTimeSeconds, func(o *format.QueueOptions) any { return &o.MaxWaitTimeSeconds }},
	{"minPopWaitTime", format.OptMinPopWaitTime, func(o *format.QueueOptions) any { return &o.MinPopWaitTimeMs }},
	{"dedupWindowSeconds", format.OptDedupWindowSeconds, func(o *format.QueueOptions) any { return &o.DedupWindowSeconds }},
	{"retentionSinkHold", format.OptRetentionSinkHold, func(o *format.QueueOptions) any { return &o.RetentionSinkHold }},
	{"retentionSinkHoldMaxSeconds", format.OptRetentionSinkHoldMaxSeconds, func(o *format.QueueOptions) any { return &o.RetentionSinkHoldMaxSeconds }},
	{"maxDeliveries", format.OptMaxDeliveries, func(o *format.QueueOptions) any { return &o.MaxDeliveries }},
	{"kafkaPartitions", format.OptKafkaPartitions, func(o *format.QueueOptions) any { return &o.KafkaPartitions }},
	{"retentionBytes", format.OptRetentionBytes, func(o *format.QueueOptions) any { return &o.RetentionBytes }},
	{"retentionMs", format.OptRetentionMs, func(o *format.QueueOptions) any { return &o.RetentionMs }},
}

// value reads an option.
func (p *option) value(o *format.QueueOptions) any {
	switch v := p.at(o).(type) {
	case *int64:
		return *v
	case *bool:
		return *v
	case *string:
		return *v
	}
	return nil
}

// dlqScope is the option that is a choice.
func dlqScope(o *format.QueueOptions) string {
	if o.DLQScopeBatch {
		return "batch"
	}
	return "message"
}

func optionRows(o *format.QueueOptions) []optionRow {
	def := format.DefaultOptions(false)
	rows := make([]optionRow, 0, len(queueOptions)+1)
	for i := range queueOptions {
		p := &queueOptions[i]
		rows = append(rows, optionRow{p.key, p.value(o), p.value(&def), o.Set&p.bit != 0})
	}
	return append(rows, optionRow{"dlqScope", dlqScope(o), "message", o.Set&format.OptDLQScope != 0})
}
