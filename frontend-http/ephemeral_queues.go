package frontendhttp

import (
	"strconv"

	"queen/engine"
)

// ephemeralConfigure answers POST /api/v1/ephemeral/configure with the declaration as it is stored.
func ephemeralConfigure(c *call) error {
	ms, err := bodyObject(c.body())
	if err != nil {
		return err
	}
	queue, ok := ms.textOr("queue", "")
	if !ok {
		return badBody("queue must be a string")
	}
	for _, m := range ms {
		if name := string(m.key); ephemeralOptionNames[name] {
			return badRequest(name + " belongs into options")
		}
	}
	settings, err := ephemeralOptions(ms.get("options"))
	if err != nil {
		return err
	}
	ctx, cancel := c.deadline(writeDeadline)
	defer cancel()
	if settings, err = c.engine.Ephemeral().Configure(ctx, c.caller, queue, settings); err != nil {
		return err
	}
	o := out{c.buffer()}
	o.open('{')
	o.str("queue", queue)
	o.ephemeralOptions(&settings)
	o.close('}')
	c.send(201, o.b)
	return nil
}

func (o *out) ephemeralOptions(s *engine.EphemeralSettings) {
	o.key("options").open('{')
	o.num("maxBytes", s.MaxBytes)
	o.num("maxLength", s.MaxLength)
	o.str("policy", string(s.Policy))
	o.num("ttlSeconds", s.TTLSeconds)
	o.num("leaseSeconds", s.LeaseSeconds)
	o.num("retryLimit", s.RetryLimit)
	if s.Window.Millis > 0 {
		o.key("windowBuffer").open('{')
		o.num("ms", s.Window.Millis)
		o.num("count", s.Window.Count)
		o.close('}')
	}
	o.close('}')
}

// ephemeralReset answers POST /api/v1/ephemeral/reset.
func ephemeralReset(c *call) error {
	ms, err := bodyObject(c.body())
	if err != nil {
		return err
	}
	queue, ok := ms.textOr("queue", "")
	if !ok {
		return badBody("queue must be a string")
	}
	ctx, cancel := c.deadline(writeDeadline)
	defer cancel()
	dropped, err := c.engine.Ephemeral().Reset(ctx, c.caller, queue)
	if err != nil {
		return err
	}
	o := out{c.buffer()}
	o.open('{')
	o.str("queue", queue)
	o.num("dropped", dropped)
	o.close('}')
	c.send(200, o.b)
	return nil
}

// ephemeralDelete answers DELETE /api/v1/ephemeral/queue/:queue.
func ephemeralDelete(c *call) error {
	queue, err := c.name(0)
	if err != nil {
		return err
	}
	ctx, cancel := c.deadline(writeDeadline)
	defer cancel()
	deleted, declared, err := c.engine.Ephemeral().Delete(ctx, c.caller, queue)
	if err != nil {
		return err
	}
	o := out{c.buffer()}
	o.open('{')
	o.str("queue", queue)
	o.bool("deleted", deleted)
	o.bool("declared", declared)
	o.close('}')
	c.send(200, o.b)
	return nil
}

// ephemeralQueues answers GET /api/v1/ephemeral/queues. A listing that was cut says so.
func ephemeralQueues(c *call) error {
	ctx, cancel := c.deadline(readDeadline)
	defer cancel()
	rows, more, err := c.engine.Ephemeral().Queues(ctx, c.caller)
	if err != nil {
		return err
	}
	o := out{c.buffer()}
	o.open('{').key("queues").open('[')
	for i := range rows {
		q := &rows[i]
		o.open('{')
		o.str("queue", q.Name)
		o.str("tier", tierOf(q))
		o.num("depth", q.Depth)
		o.num("bytes", q.Bytes)
		o.num("partitions", int64(q.Partitions))
		o.num("groups", int64(q.Groups))
		o.key("drops").open('{')
		o.count("bounds", q.Drops.Bounds)
		o.count("ttl", q.Drops.TTL)
		o.count("retry", q.Drops.Retry)
		o.close('}')
		o.ephemeralOptions(&q.Settings)
		o.close('}')
	}
	o.close(']')
	o.num("count", int64(len(rows)))
	o.num("cellBytes", c.engine.Ephemeral().System().Bytes)
	if more {
		o.bool("truncated", true)
	}
	o.close('}')
	c.send(200, o.b)
	return nil
}

func tierOf(q *engine.EphemeralQueue) string {
	if q.Declared {
		return "declared"
	}
	return "implicit"
}

// ephemeralDepth answers GET /api/v1/ephemeral/queues/:queue/depth.
func ephemeralDepth(c *call) error {
	queue, err := c.name(0)
	if err != nil {
		return err
	}
	q := c.query()
	asked := q.text("group")
	if q.err != nil {
		return q.err
	}
	var group *string
	if asked != "" {
		name := groupName(asked)
		group = &name
	}
	ctx, cancel := c.deadline(readDeadline)
	defer cancel()
	d, err := c.engine.Ephemeral().Depth(ctx, c.caller, queue, group)
	if err != nil {
		return err
	}
	o := out{c.buffer()}
	o.open('{')
	o.str("queue", queue)
	o.strOrNull("group", asked)
	o.str("tier", tierOf(&d.Queue))
	o.num("pending", d.Pending)
	o.num("partitionsPending", int64(d.PartitionsPending))
	o.num("bytes", d.PendingBytes)
	o.key("partitions").open('[')
	for _, p := range d.Parts {
		o.open('{')
		o.str("partition", p.Name)
		o.num("pending", p.Pending)
		o.num("bytes", p.Bytes)
		o.close('}')
	}
	o.close(']').key("groups").open('[')
	for _, g := range d.PerGroup {
		o.open('{')
		o.str("group", ephemeralGroup(g.Name))
		o.num("pending", g.Pending)
		o.count("skipped", g.Skipped)
		o.close('}')
	}
	o.close(']').close('}')
	c.send(200, o.b)
	return nil
}

// ephemeralSystem answers GET /api/v1/system/ephemeral: the node's figures, over all tenants.
func ephemeralSystem(c *call) error {
	s := c.engine.Ephemeral().System()
	o := out{c.buffer()}
	o.open('{')
	o.bool("ephemeralEnabled", s.Enabled)
	o.num("cellBytes", s.Bytes)
	o.num("cellMaxBytes", s.MaxBytes)
	o.num("queues", int64(s.Queues))
	o.num("parked", int64(s.Parked))
	o.count("pushed", s.Pushed)
	o.count("delivered", s.Delivered)
	o.count("acked", s.Acked)
	o.count("redelivered", s.Redelivered)
	o.count("collected", s.Collected)
	o.key("drops").open('{')
	o.count("bounds", s.Dropped.Bounds)
	o.count("ttl", s.Dropped.TTL)
	o.count("retry", s.Dropped.Retry)
	o.close('}')
	o.str("epoch", strconv.FormatUint(s.Incarnation, 16))
	o.close('}')
	c.send(200, o.b)
	return nil
}

// ephemeralSwitch answers POST /api/v1/system/ephemeral {"enabled":bool} with the state after it.
func ephemeralSwitch(c *call) error {
	ms, err := bodyObject(c.body())
	if err != nil {
		return err
	}
	on, ok := ms.truth("enabled")
	if !ok || absent(ms.get("enabled")) {
		return badRequest("enabled must be true or false")
	}
	ctx, cancel := c.deadline(writeDeadline)
	defer cancel()
	if err := c.engine.Ephemeral().SetEnabled(ctx, on); err != nil {
		return err
	}
	return ephemeralSystem(c)
}
