package frontendhttp

import (
	"context"
	"strconv"
	"time"

	"queen/engine"
	"queen/engine/format"
)

// Limits of ephemeral calls (S-eph-12).
const (
	maxEphemeralItems = 10_000
	maxEphemeralWait  = 300 * time.Second
)

func ephemeralRoutes() []*route {
	rows := []*route{
		{Method: "POST", Path: "/api/v1/ephemeral/push", Access: writeOnly, Summary: "Push to a queue in memory, all or none.",
			Request: "EphemeralPush", Response: "EphemeralPushed", Status: 201, Op: "ephemeral_push", Handle: ephemeralPush},
		{Method: "GET", Path: "/api/v1/ephemeral/pop", Access: readWrite,
			Summary: "Pop from a queue in memory; an empty list when there is nothing.", Query: ephemeralPopQuery,
			Response: "EphemeralPopped", Status: 200, Op: "ephemeral_pop", Handle: ephemeralPop},
		{Method: "POST", Path: "/api/v1/ephemeral/ack", Access: readWrite, Summary: "Settle messages of a queue in memory.",
			Request: "EphemeralAckCall", Response: "EphemeralAcked", Status: 200, Op: "ephemeral_ack", Handle: ephemeralAck},
		{Method: "POST", Path: "/api/v1/ephemeral/configure", Access: readWrite,
			Summary: "Declare a queue in memory; the declaration replaces the one before and outlives restarts.",
			Request: "EphemeralConfigure", Response: "EphemeralDeclared", Status: 201, Handle: ephemeralConfigure},
		{Method: "POST", Path: "/api/v1/ephemeral/reset", Access: readWrite, Summary: "Drop the messages of a queue in memory.",
			Request: "EphemeralName", Response: "EphemeralReset", Status: 200, Handle: ephemeralReset},
		{Method: "DELETE", Path: "/api/v1/ephemeral/queue/:queue", Access: readWrite,
			Summary:  "Forget a queue in memory and its declaration.",
			Response: "EphemeralDeleted", Status: 200, Handle: ephemeralDelete},
		{Method: "GET", Path: "/api/v1/ephemeral/queues", Access: readOnly, Summary: "List the queues in memory.",
			Response: "EphemeralQueues", Status: 200, Handle: ephemeralQueues},
		{Method: "GET", Path: "/api/v1/ephemeral/queues/:queue/depth", Access: readOnly,
			Summary:  "Count the messages of a queue in memory.",
			Query:    []param{{Name: "group", Type: "string", About: "Count what this group has not settled."}},
			Response: "EphemeralDepth", Status: 200, Handle: ephemeralDepth},
		{Method: "GET", Path: "/api/v1/system/ephemeral", Access: admin, Mark: operator, Summary: "State of the queues in memory.",
			Response: "EphemeralSystem", Status: 200, Handle: ephemeralSystem},
		{Method: "POST", Path: "/api/v1/system/ephemeral", Access: admin, Mark: operator,
			Summary: "Switch the queues in memory on or off.",
			Request: "EphemeralSwitch", Response: "EphemeralSystem", Status: 200, Handle: ephemeralSwitch},
	}
	for _, r := range rows {
		r.Errors = familyEphemeral
		if r.Mark == "" {
			r.Mark = common
		}
	}
	return rows
}

var ephemeralPopQuery = []param{
	{Name: "queue", Type: "string", Required: true},
	{Name: "partition", Type: "string", About: "Default: any."},
	{Name: "group", Type: "string", About: "Consumer group; default: queue mode."},
	{Name: "batch", Type: "integer", About: "Messages at most; default 1, at most 10000."},
	{Name: "wait", Type: "boolean", About: "Wait until there is a message."},
	{Name: "timeout", Type: "integer", About: "How long to wait, in ms; default 30000, at most 300000."},
	{Name: "commitOnDelivery", Type: "boolean", About: "Settle at delivery; at most once."},
	{Name: "autoAck", Type: "boolean", About: "Older name of commitOnDelivery."},
}

// ephemeralPush answers POST /api/v1/ephemeral/push.
func ephemeralPush(c *call) error {
	var p ephemeralPushBody
	if err := p.decode(c.body()); err != nil {
		return err
	}
	ctx, cancel := c.deadline(writeDeadline)
	defer cancel()
	if err := c.engine.Ephemeral().Push(ctx, c.caller, p.request()); err != nil {
		return err
	}
	o := out{c.buffer()}
	o.open('{')
	o.num("pushed", int64(len(p.payloads)))
	o.close('}')
	c.send(201, o.b)
	return nil
}

// ephemeralPop answers GET /api/v1/ephemeral/pop, always with 200; with wait=true it may park inside the engine.
func ephemeralPop(c *call) error {
	req, err := c.ephemeralPopRequest()
	if err != nil {
		return err
	}
	conn := c.conn()
	req.Alive = conn.Alive
	ctx, cancel := context.WithTimeout(c.f.stopping, req.Wait+popGrace)
	defer cancel()
	var d *engine.EphemeralDelivery
	if req.Wait > 0 {
		parked, unpark := conn.ParkContext(ctx)
		c.f.parked.Add(1)
		d, err = c.engine.Ephemeral().Pop(parked, c.caller, req)
		c.f.parked.Add(-1)
		unpark()
		c.unmeasured = true
	} else {
		d, err = c.engine.Ephemeral().Pop(ctx, c.caller, req)
	}
	if err != nil && asEngineError(err).Code != engine.CodeTimeout {
		return err // a park that was ended by the shutdown, or by its client, got nothing
	}
	c.send(200, appendEphemeral(c.buffer(), req.Queue, d))
	if d == nil {
		return nil
	}
	conn.Deliver(func(ok bool) {
		if ok {
			d.Delivered()
		} else {
			d.Abandon()
		}
	})
	return nil
}

func (c *call) ephemeralPopRequest() (r engine.EphemeralPop, err error) {
	q := c.query()
	r = engine.EphemeralPop{Queue: q.text("queue"), Partition: q.text("partition"), Group: groupName(q.text("group"))}
	r.Pinned = r.Partition != ""
	batch := q.integer("batch", 1)
	if batch < 1 {
		q.bad("batch", "1 or more")
	}
	r.Batch = int(min(batch, maxEphemeralItems))
	ms := q.integer("timeout", defaultWait.Milliseconds())
	if ms < 0 {
		q.bad("timeout", "0 or more")
	}
	if q.boolean("wait") {
		r.Wait = time.Duration(min(ms, maxEphemeralWait.Milliseconds())) * time.Millisecond
	}
	r.CommitOnDelivery = q.boolean("autoAck")
	r.CommitOnDelivery = q.boolean("commitOnDelivery") || r.CommitOnDelivery
	return r, q.err
}

func appendEphemeral(b []byte, queue string, d *engine.EphemeralDelivery) []byte {
	b = append(b, `{"queue":`...)
	b = appendString(b, queue)
	b = append(b, `,"messages":[`...)
	if d != nil {
		for i := range d.Messages {
			m := &d.Messages[i]
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, `{"id":`...)
			b = appendString(b, m.ID)
			b = append(b, `,"partition":`...)
			b = appendString(b, m.Partition)
			b = append(b, `,"payload":`...)
			b = append(b, m.Payload...)
			b = append(b, `,"attempts":`...)
			b = strconv.AppendUint(b, uint64(m.Failed), 10)
			b = append(b, '}')
		}
	}
	return append(b, ']', '}')
}

// ephemeralAck answers POST /api/v1/ephemeral/ack, one outcome an item in order.
func ephemeralAck(c *call) error {
	var a ephemeralAckBody
	if err := a.decode(c.body()); err != nil {
		return err
	}
	ctx, cancel := c.deadline(writeDeadline)
	defer cancel()
	outcomes, err := c.engine.Ephemeral().Ack(ctx, c.caller, a.queue, a.group, a.acks)
	if err != nil {
		return err
	}
	o := out{c.buffer()}
	o.open('{').key("results").open('[')
	for i := range outcomes {
		o.open('{')
		o.str("id", a.acks[i].ID)
		o.str("outcome", string(outcomes[i]))
		o.close('}')
	}
	o.close(']').close('}')
	c.send(200, o.b)
	return nil
}

// ephemeralGroup is a group's name on this wire.
func ephemeralGroup(name string) string {
	if name == "" {
		return format.QueueMode
	}
	return name
}
