package frontendhttp

import (
	"context"

	"queen/engine"
)

const (
	// maxQueues bounds a listing of queues; what is above it is paged by "after".
	maxQueues = 10000
	// pageRows is how many rows the engine is asked for at a time.
	pageRows = 1000
)

func resourceRoutes() []*route {
	return []*route{
		{Method: "DELETE", Path: "/api/v1/resources/queues/:queue", Access: admin, Mark: core,
			Summary: "Delete a queue with everything in it.", Response: "QueueDeleted", Status: 200,
			Handle: deleteQueue},
		{Method: "GET", Path: "/api/v1/resources/queues", Access: readOnly, Mark: operator, Summary: "List queues.",
			Query: []param{{Name: "limit", Type: "integer", About: "At most and by default 10000."},
				{Name: "after", Type: "string", About: "The \"next\" of the page before."}},
			Response: "Queues", Status: 200, Handle: listQueues},
		{Method: "GET", Path: "/api/v1/resources/queues/:queue/depth", Access: readOnly, Mark: operator,
			Summary: "Count what a group, or the slowest one, has before it.",
			Query:   []param{{Name: "group", Type: "string"}}, Response: "Depth", Status: 200, Handle: depth},
		{Method: "GET", Path: "/api/v1/resources/queues/:queue", Access: readOnly, Mark: operator,
			Summary: "Describe a queue and its first 1000 partitions.", Response: "QueueDetail", Status: 200,
			Handle: queueDetail},
		{Method: "GET", Path: "/api/v1/resources/overview", Access: readOnly, Mark: operator,
			Summary: "Sum up everything.", Response: "Overview", Status: 200, Handle: overview},
		{Method: "GET", Path: "/api/v1/resources/namespaces", Access: readOnly, Mark: operator,
			Summary: "Sum up by namespace.", Response: "Namespaces", Status: 200,
			Handle: func(c *call) error { return byLabel(c, "namespaces", "namespace", namespaceOf) }},
		{Method: "GET", Path: "/api/v1/resources/tasks", Access: readOnly, Mark: operator,
			Summary: "Sum up by task.", Response: "Tasks", Status: 200,
			Handle: func(c *call) error { return byLabel(c, "tasks", "task", taskOf) }},
		{Method: "GET", Path: "/api/v1/resources/partitions", Access: readOnly, Mark: operator,
			Summary:  "List the partitions with the most pending messages.",
			Query:    []param{{Name: "queue", Type: "string"}, {Name: "limit", Type: "integer", About: "Default 610."}},
			Response: "Partitions", Status: 200, Handle: topPartitions},
	}
}

func namespaceOf(q *engine.QueueInfo) string { return q.Options.Namespace }
func taskOf(q *engine.QueueInfo) string      { return q.Options.Task }

// deleteQueue answers 200 with a body also when there was nothing to delete (S-cfg-8).
func deleteQueue(c *call) error {
	queue, err := c.name(0)
	if err != nil {
		return err
	}
	ctx, cancel := c.deadline(writeDeadline)
	defer cancel()
	existed, err := c.engine.Catalog().DeleteQueue(ctx, c.caller, queue)
	if err != nil && asEngineError(err).Code != engine.CodeUnknownQueue {
		return err
	}
	o := out{c.buffer()}
	o.open('{')
	o.bool("deleted", existed)
	o.str("queue", queue)
	o.bool("existed", existed)
	if !existed {
		o.str("message", "The queue does not exist")
	}
	o.close('}')
	c.send(200, o.b)
	return nil
}

// queues calls visit for every queue of the caller.
func (c *call) queues(ctx context.Context, visit func(*engine.QueueInfo)) error {
	for after := ""; ; {
		rows, next, err := c.engine.Catalog().Queues(ctx, c.caller, engine.Page{After: after, Limit: pageRows})
		if err != nil {
			return err
		}
		for i := range rows {
			visit(&rows[i])
		}
		if after = next; next == "" {
			return nil
		}
	}
}

func listQueues(c *call) error {
	q := c.query()
	limit := int(q.within("limit", maxQueues, 1, maxQueues))
	after := q.text("after")
	if q.err != nil {
		return q.err
	}
	ctx, cancel := c.deadline(readDeadline)
	defer cancel()
	o := out{c.buffer()}
	o.open('{').key("queues").open('[')
	for left := limit; left > 0; {
		rows, next, err := c.engine.Catalog().Queues(ctx, c.caller, engine.Page{After: after, Limit: min(left, pageRows)})
		if err != nil {
			return err
		}
		for i := range rows {
			o.queue(&rows[i])
		}
		left -= len(rows)
		if after = next; next == "" {
			break
		}
	}
	o.close(']')
	if after != "" {
		o.str("next", after)
	}
	o.close('}')
	c.send(200, o.b)
	return nil
}

// queueHead writes the members that the listing and the detail share.
func (o *out) queueHead(q *engine.QueueInfo) {
	o.id("id", uint64(q.ID))
	o.str("name", q.Name)
	o.str("namespace", q.Options.Namespace)
	o.str("task", q.Options.Task)
	o.time("createdAt", q.CreatedAt)
}

func (o *out) segments(q *engine.QueueInfo) {
	o.count("retainedBytes", q.RetainedBytes)
	o.key("segments").open('{')
	o.count("segments", q.Segments)
	o.count("messages", q.Messages)
	o.close('}')
	o.time("sweptAt", q.SweptAt)
}

func (o *out) queue(q *engine.QueueInfo) {
	o.open('{')
	o.queueHead(q)
	o.count("partitions", q.Partitions)
	o.segments(q)
	o.key("messages").open('{')
	o.count("total", q.Messages)
	o.count("pending", q.Pending)
	o.count("processing", q.Processing)
	o.close('}').close('}')
}

// counts writes the members of a "stats", "totals" or "messages" block. What failed is not counted anywhere.
func (o *out) counts(total, pending, processing, dead uint64) {
	o.open('{')
	o.count("total", total)
	o.count("pending", pending)
	o.count("processing", processing)
	o.count("completed", total-min(pending, total))
	o.null("failed")
	o.count("deadLetter", dead)
	o.close('}')
}

func queueDetail(c *call) error {
	queue, err := c.name(0)
	if err != nil {
		return err
	}
	ctx, cancel := c.deadline(readDeadline)
	defer cancel()
	info, err := c.engine.Catalog().Queue(ctx, c.caller, queue)
	if err != nil {
		return queueNotFound(err)
	}
	rows, next, err := c.engine.Catalog().Partitions(ctx, c.caller, queue, 0, engine.Page{Limit: pageRows})
	if err != nil {
		return queueNotFound(err)
	}
	o := out{c.buffer()}
	o.open('{')
	o.queueHead(&info)
	o.key("options").options(&info.Options, true)
	o.key("optionsSet").optionsSet(&info.Options)
	o.key("partitions").open('[')
	for i := range rows {
		o.partition(&rows[i])
	}
	o.close(']')
	if next != "" {
		o.bool("truncated", true)
	}
	o.key("totals").counts(info.Messages, info.Pending, info.Processing, info.DeadLetters)
	o.segments(&info)
	o.close('}')
	c.send(200, o.b)
	return nil
}

func (o *out) partition(p *engine.PartitionInfo) {
	o.open('{')
	o.id("id", uint64(p.ID))
	o.str("name", p.Name)
	o.time("createdAt", p.CreatedAt)
	o.key("stats").counts(uint64(p.End-p.Start), p.Pending, p.Processing, p.DeadLetters)
	o.null("oldestMessage")
	o.time("newestMessage", p.LastWriteAt)
	o.close('}')
}

func queueNotFound(err error) error {
	if asEngineError(err).Code == engine.CodeUnknownQueue {
		return &refusal{status: 404, code: "unknown_queue", text: "Queue not found"}
	}
	return err
}

func depth(c *call) error {
	queue, err := c.name(0)
	if err != nil {
		return err
	}
	q := c.query()
	group := q.text("group")
	if q.err != nil {
		return q.err
	}
	ctx, cancel := c.deadline(readDeadline)
	defer cancel()
	d, err := c.engine.Inspect().Depth(ctx, c.caller, queue, group)
	if err != nil {
		return queueNotFound(err)
	}
	ready := d.Pending - min(d.Processing, d.Pending)
	o := out{c.buffer()}
	o.open('{')
	o.str("queue", queue)
	o.strOrNull("group", group)
	o.count("pending", d.Pending)
	o.count("processing", d.Processing)
	o.count("ready", ready)
	o.count("partitionsPending", d.PartitionsPending)
	o.count("partitionsReady", d.PartitionReady)
	effective, effectiveReady := d.Pending, ready
	if d.Conflates {
		effective, effectiveReady = d.PartitionsPending, d.PartitionReady // handler runs that are due (S-con-10)
	}
	o.bool("conflation", d.Conflates)
	o.count("effectivePending", effective)
	o.count("effectiveReady", effectiveReady)
	o.key("partitions").open('[')
	for i := range d.Partitions {
		p := &d.Partitions[i]
		o.open('{')
		o.str("partition", p.Partition)
		o.count("pending", p.Pending)
		o.count("processing", p.Processing)
		o.count("ready", p.Pending-min(p.Processing, p.Pending))
		o.close('}')
	}
	o.close(']').close('}')
	c.send(200, o.b)
	return nil
}

func overview(c *call) error {
	ctx, cancel := c.deadline(readDeadline)
	defer cancel()
	v, err := c.engine.Inspect().Overview(ctx, c.caller)
	if err != nil {
		return err
	}
	now := c.f.now()
	o := out{c.buffer()}
	o.open('{')
	o.count("queues", v.Queues)
	o.count("partitions", v.Partitions)
	o.count("namespaces", v.Namespaces)
	o.count("tasks", v.Tasks)
	o.key("messages").counts(v.Total, v.Pending, v.Processing, v.DeadLetters)
	o.key("lag").open('{')
	o.count("total", v.Lag)
	o.count("max", v.LagMax)
	o.close('}')
	o.key("throughput").open('{')
	o.float("ingestedPerSecond", v.PushedPerSecond)
	o.float("processedPerSecond", v.DeliveredPerSecond)
	o.close('}')
	o.time("timestamp", now)
	if v.SweptAt == 0 {
		o.null("statsAge")
	} else {
		o.num("statsAge", age(now, v.SweptAt))
	}
	o.close('}')
	c.send(200, o.b)
	return nil
}

// labelSum is one row of the namespaces or tasks listing.
type labelSum struct {
	name                               string
	queues, partitions, total, pending uint64
}

// byLabel sums queues up by one of their labels, in order of first appearance; queues without it are left out.
func byLabel(c *call, list, key string, label func(*engine.QueueInfo) string) error {
	ctx, cancel := c.deadline(readDeadline)
	defer cancel()
	var rows []*labelSum
	byName := map[string]*labelSum{}
	err := c.queues(ctx, func(q *engine.QueueInfo) {
		name := label(q)
		sum := byName[name]
		if sum == nil {
			if name == "" || len(rows) == maxQueues {
				return
			}
			sum = &labelSum{name: name}
			byName[name] = sum
			rows = append(rows, sum)
		}
		sum.queues++
		sum.partitions += q.Partitions
		sum.total += q.Messages
		sum.pending += q.Pending
	})
	if err != nil {
		return err
	}
	o := out{c.buffer()}
	o.open('{').key(list).open('[')
	for _, r := range rows {
		o.open('{')
		o.str(key, r.name)
		o.count("queues", r.queues)
		o.count("partitions", r.partitions)
		o.key("messages").open('{')
		o.count("total", r.total)
		o.count("pending", r.pending)
		o.close('}').close('}')
	}
	o.close(']').close('}')
	c.send(200, o.b)
	return nil
}

// topPartitions lists each partition once, by the group that is furthest behind.
func topPartitions(c *call) error {
	q := c.query()
	queue := q.text("queue")
	limit := int(q.within("limit", 610, 1, topRows))
	if q.err != nil {
		return q.err
	}
	ctx, cancel := c.deadline(readDeadline)
	defer cancel()
	rows, err := c.engine.Inspect().TopLag(ctx, c.caller, queue, topRows)
	if err != nil {
		return queueNotFound(err)
	}
	now := c.f.now()
	seen := map[engine.PartitionRef]bool{}
	o := out{c.buffer()}
	o.open('{').key("partitions").open('[')
	for i := range rows {
		r := &rows[i]
		ref := engine.PartitionRef{Queue: r.Queue, Partition: r.Partition}
		if seen[ref] || len(seen) == limit {
			continue
		}
		seen[ref] = true
		o.open('{')
		o.str("queue", r.Queue)
		o.str("partition", r.Partition)
		o.id("partitionId", uint64(r.PartitionID))
		o.count("pending", r.Lag)
		o.count("processing", r.Processing)
		if r.Lag == 0 {
			o.null("lagSeconds")
		} else {
			o.num("lagSeconds", age(now, r.OldestAt))
		}
		o.close('}')
	}
	o.close(']').close('}')
	c.send(200, o.b)
	return nil
}
