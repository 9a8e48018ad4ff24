package frontendhttp

import (
	"queen/engine"
	"queen/engine/format"
	"queen/engine/stats"
)

func statusRoutes() []*route {
	which := []param{{Name: "queue", Type: "string"}, {Name: "namespace", Type: "string"}, {Name: "task", Type: "string"}}
	return []*route{
		{Method: "GET", Path: "/api/v1/status", Access: readOnly, Mark: operator,
			Summary: "Sum up the queues and what they did, of the last two hours at most. What is not measured is null.",
			Query: append([]param{{Name: "from", Type: "string", About: "ISO-8601, default an hour before to."},
				{Name: "to", Type: "string", About: "Default now."}}, which...), Response: "StatusSum", Status: 200, Handle: statusSum},
		{Method: "GET", Path: "/api/v1/status/queues", Access: readOnly, Mark: operator, Summary: "List queues with their messages.",
			Query: append([]param{{Name: "limit", Type: "integer", About: "Default 100, at most 1000."},
				{Name: "offset", Type: "integer"}}, which...), Response: "StatusQueues", Status: 200, Handle: statusQueues},
		{Method: "GET", Path: "/api/v1/status/queues/:queue", Access: readOnly, Mark: operator,
			Summary: "Describe a queue with its partitions, at most 1000 of them.", Response: "StatusQueueDetail", Status: 200,
			Handle: statusQueue, split: everything},
	}
}

// statusQueue answers GET /api/v1/status/queues/:queue.
func statusQueue(c *call) error {
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
	o.open('{').key("queue").open('{')
	o.queueHead(&info)
	o.key("config").open('{')
	o.num("leaseTime", info.Options.LeaseTime)
	o.num("retryLimit", info.Options.RetryLimit)
	o.num("retryDelay", info.Options.RetryDelayMs)
	o.num("maxSize", info.Options.MaxSize)
	o.num("ttl", info.Options.TTL)
	o.num("priority", info.Options.Priority)
	o.close('}').close('}').key("partitions").open('[')
	for i := range rows {
		o.statusPartition(&rows[i])
	}
	o.close(']')
	if next != "" {
		o.bool("truncated", true)
	}
	o.key("totals").counts(info.Messages, info.Pending, info.Processing, info.DeadLetters)
	o.close('}')
	c.send(200, o.b)
	return nil
}

// statusPartition writes a partition with where its slowest consumer group stands; when its oldest message was pushed is
// in the log only, and is not looked up here.
func (o *out) statusPartition(p *engine.PartitionInfo) {
	o.open('{')
	o.id("id", uint64(p.ID))
	o.str("name", p.Name)
	o.key("messages").open('{')
	o.count("firstOffset", uint64(p.Start))
	o.count("nextOffset", uint64(p.End))
	o.close('}')
	o.key("stats").counts(uint64(p.End-p.Start), p.Pending, p.Processing, p.DeadLetters)
	o.key("cursor").open('{')
	o.count("pending", p.Pending)
	o.count("processing", p.Processing)
	o.close('}')
	o.time("lastActivity", p.LastWriteAt)
	o.null("oldestMessage")
	o.time("newestMessage", p.LastWriteAt)
	o.close('}')
}

// statusSum answers GET /api/v1/status.
func statusSum(c *call) error {
	w, err := c.window()
	if err != nil {
		return err
	}
	ops, err := c.operations()
	if err != nil {
		return err
	}
	ctx, cancel := c.deadline(readDeadline)
	defer cancel()
	b, err := c.total(ctx, ops, &w)
	if err != nil {
		return err
	}
	var sum engine.QueueInfo
	var queues, completed uint64
	err = c.queues(ctx, func(q *engine.QueueInfo) {
		if !w.takes(q) {
			return
		}
		queues++
		sum.Partitions += q.Partitions
		sum.Messages += q.Messages
		sum.Pending += q.Pending
		sum.Processing += q.Processing
		sum.DeadLetters += q.DeadLetters
		completed += q.Messages - min(q.Pending, q.Messages)
		sum.SweptAt = max(sum.SweptAt, q.SweptAt)
	})
	if err != nil {
		return err
	}
	o := out{c.buffer()}
	o.open('{')
	o.timeRange(&w)
	o.num("pointCount", int64(len(b.rows)))
	o.key("throughput").open('[')
	for i := range b.rows {
		o.throughput(b.first+format.Wall(i)*b.width, &b.rows[i], float64(b.width)/1e6)
	}
	o.close(']').key("queues").open('{')
	o.count("total", queues)
	o.count("partitions", sum.Partitions)
	o.close('}').key("messages").open('{')
	o.count("total", sum.Messages)
	o.count("pending", sum.Pending)
	o.count("processing", sum.Processing)
	o.count("completed", completed)
	o.count("deadLetter", sum.DeadLetters)
	o.close('}')
	o.null("leases")
	o.key("deadLetterQueue").open('{')
	o.count("totalMessages", sum.DeadLetters)
	o.close('}')
	o.null("workers")
	o.null("errors")
	o.time("sweptAt", sum.SweptAt)
	o.close('}')
	c.send(200, o.b)
	return nil
}

func (o *out) throughput(at format.Wall, n *stats.Counts, seconds float64) {
	o.open('{')
	o.time("timestamp", at)
	o.count("ingested", n[stats.PushMessages])
	o.count("delivered", n[stats.PopMessages])
	o.count("processed", n[stats.AckSuccess])
	o.count("failed", n[stats.AckFailed])
	o.count("transactions", n[stats.Transactions])
	o.float("ingestedPerSecond", float64(n[stats.PushMessages])/seconds)
	o.float("processedPerSecond", float64(n[stats.AckSuccess])/seconds)
	o.close('}')
}

// statusQueues answers GET /api/v1/status/queues.
func statusQueues(c *call) error {
	q := c.query()
	w := history{queue: q.text("queue"), namespace: q.text("namespace"), task: q.text("task")}
	limit, skip := q.within("limit", 100, 1, maxPage), q.within("offset", 0, 0, 1<<31-1)
	if q.err != nil {
		return q.err
	}
	ctx, cancel := c.deadline(readDeadline)
	defer cancel()
	o := out{c.buffer()}
	o.open('{').key("queues").open('[')
	at := int64(0)
	err := c.queues(ctx, func(info *engine.QueueInfo) {
		if !w.takes(info) {
			return
		}
		if at++; at <= skip || at > skip+limit {
			return
		}
		o.open('{')
		o.queueHead(info)
		o.count("partitions", info.Partitions)
		o.key("messages").counts(info.Messages, info.Pending, info.Processing, info.DeadLetters)
		o.close('}')
	})
	if err != nil {
		return err
	}
	o.close(']').key("pagination").open('{')
	o.num("limit", limit)
	o.num("offset", skip)
	o.close('}').close('}')
	c.send(200, o.b)
	return nil
}
