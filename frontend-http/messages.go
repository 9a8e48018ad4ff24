package frontendhttp

import (
	"queen/engine"
	"queen/engine/format"
	"queen/engine/mask"
)

// messageStates names the derived states of a message (S-obs-2).
var messageStates = map[engine.MessageState]string{
	engine.Pending: "pending", engine.Processing: "processing", engine.Completed: "completed",
	engine.DeadState: "dead_letter",
}

// stateNamed is 0 for no state; ok is false for a name that is none.
func stateNamed(name string) (engine.MessageState, bool) {
	for s, n := range messageStates {
		if n == name {
			return s, true
		}
	}
	return 0, name == ""
}

// browse answers GET /api/v1/messages: an hour back by default, up to the coming full minute (S-obs-3).
func browse(c *call) error {
	const minute, hour = format.Wall(60e6), format.Wall(3600e6)
	q := c.query()
	f := engine.MessageFilter{Queue: q.text("queue"), Partition: q.text("partition"), Namespace: q.text("namespace"),
		Task: q.text("task"), From: q.instant("from"), To: q.instant("to"),
		Limit: int(q.within("limit", 200, 1, maxPage)), Skip: int(q.within("offset", 0, 0, 1<<31-1))}
	if alias := q.text("ns"); f.Namespace == "" {
		f.Namespace = alias
	}
	state, ok := stateNamed(q.text("status"))
	if !ok {
		q.bad("status", "pending, processing, completed or dead_letter")
	}
	if q.err != nil {
		return q.err
	}
	f.State = state
	if f.From == 0 {
		f.From = c.f.now() - hour
	}
	if f.To == 0 {
		f.To = c.f.now()
	}
	f.To = f.To/minute*minute + minute
	ctx, cancel := c.deadline(readDeadline)
	defer cancel()
	rows, err := c.engine.Inspect().Messages(ctx, c.caller, f)
	if err != nil {
		return err
	}
	o := out{c.buffer()}
	o.open('{').key("messages").open('[')
	for i := range rows {
		o.open('{')
		o.message(c.f.opts.Masks, &rows[i])
		o.close('}')
	}
	o.close(']').key("mode").mode(rows)
	o.num("total", int64(len(rows)))
	o.close('}')
	c.send(200, o.b)
	return nil
}

// messageDetail answers GET /api/v1/messages/:partitionId/:transactionId (S-obs-1).
func messageDetail(c *call) error {
	id, txn, err := c.address()
	if err != nil {
		return err
	}
	ctx, cancel := c.deadline(readDeadline)
	defer cancel()
	d, err := c.engine.Inspect().Message(ctx, c.caller, id, txn)
	if err != nil {
		switch asEngineError(err).Code {
		case engine.CodeNotFound, engine.CodeUnknownPartition:
			return notFound("Message not found")
		}
		return err
	}
	retries, reason := uint32(0), ""
	for _, g := range d.Groups {
		retries = max(retries, g.Retries)
		if g.Error != "" {
			reason = g.Error
		}
	}
	o := out{c.buffer()}
	o.open('{')
	o.message(c.f.opts.Masks, &d)
	o.count("retryCount", uint64(retries))
	o.strOrNull("errorMessage", reason)
	o.bool("isEncrypted", false)
	o.key("queueConfig").options(&d.Queue.Options, true)
	o.key("consumerGroups").open('[')
	for i := range d.Groups {
		o.groupView(&d.Groups[i])
	}
	o.close(']').key("mode").mode([]engine.MessageDetail{d})
	o.close('}')
	c.send(200, o.b)
	return nil
}

func (o *out) groupView(g *engine.GroupView) {
	o.open('{')
	o.str("name", g.Name)
	o.str("group", g.Name)
	o.bool("consumed", g.Consumed)
	o.bool("leased", g.Leased)
	o.time("leaseExpiresAt", g.LeaseExpires)
	o.bool("deadLetter", g.Dead)
	o.count("retryCount", uint64(g.Retries))
	o.strOrNull("errorMessage", g.Error)
	o.close('}')
}

// message writes the members that the listing and the detail share.
func (o *out) message(masks *mask.Set, d *engine.MessageDetail) {
	o.uuid("id", d.ID)
	o.str("transactionId", d.TransactionID)
	o.null("txnHash")
	o.id("partitionId", uint64(d.Partition.ID))
	o.count("offset", uint64(d.Offset))
	o.str("queuePath", d.Queue.Name+"/"+d.Partition.Name)
	o.str("queue", d.Queue.Name)
	o.str("partition", d.Partition.Name)
	o.str("namespace", d.Queue.Options.Namespace)
	o.str("task", d.Queue.Options.Task)
	o.str("status", messageStates[d.State])
	o.groupStatus(d)
	o.uuid("traceId", d.TraceID)
	o.strOrNull("producerSub", d.ProducerSub)
	o.bool("payloadAvailable", true)
	o.key("segment").open('{')
	o.count("seq", d.Segment)
	o.null("frameIdx")
	o.close('}')
	o.time("createdAt", d.CreatedAt)
	o.time("leaseExpiresAt", leaseEnd(d))
	s := show(masks, d.Queue.Name, &d.Record)
	o.shown("data", &s)
	if s.ContentType == "" && s.Payload != nil {
		o.raw("payload", s.Payload)
	} else {
		o.null("payload") // data carries the bytes, and how they are encoded
	}
}

// groupStatus tells queue mode apart from named groups.
func (o *out) groupStatus(d *engine.MessageDetail) {
	queueMode, consumed, named := "", 0, 0
	for i := range d.Groups {
		g := &d.Groups[i]
		if g.Name != format.QueueMode {
			named++
			if g.Consumed {
				consumed++
			}
			continue
		}
		switch {
		case g.Dead:
			queueMode = messageStates[engine.DeadState]
		case g.Consumed:
			queueMode = messageStates[engine.Completed]
		case g.Leased:
			queueMode = messageStates[engine.Processing]
		default:
			queueMode = messageStates[engine.Pending]
		}
	}
	o.strOrNull("queueStatus", queueMode)
	o.key("busStatus").open('{')
	o.num("consumedBy", int64(consumed))
	o.num("totalGroups", int64(named))
	o.close('}')
}

// leaseEnd is the latest end of a lease on the message, 0 for none.
func leaseEnd(d *engine.MessageDetail) (w format.Wall) {
	for i := range d.Groups {
		w = max(w, d.Groups[i].LeaseExpires)
	}
	return w
}

// mode says how the queues of a page are consumed.
func (o *out) mode(rows []engine.MessageDetail) {
	queueMode, named := false, map[string]bool{}
	for i := range rows {
		for _, g := range rows[i].Groups {
			if g.Name == format.QueueMode {
				queueMode = true
			} else {
				named[g.Name] = true
			}
		}
	}
	kind := "none"
	switch {
	case queueMode && len(named) > 0:
		kind = "hybrid"
	case queueMode:
		kind = "queue"
	case len(named) > 0:
		kind = "bus"
	}
	o.open('{')
	o.bool("hasQueueMode", queueMode)
	o.num("busGroupsCount", int64(len(named)))
	o.str("type", kind)
	o.close('}')
}
