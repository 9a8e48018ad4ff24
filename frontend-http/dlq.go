package frontendhttp

import (
	"errors"
	"slices"

	"queen/engine"
	"queen/engine/format"
	"queen/engine/mask"
)

// maxPage bounds the rows of a page of messages or dead letters.
const maxPage = 1000

func letterRoutes() []*route {
	page := []param{{Name: "limit", Type: "integer"}, {Name: "offset", Type: "integer"},
		{Name: "from", Type: "string", About: "ISO-8601, inclusive."}, {Name: "to", Type: "string", About: "Exclusive."}}
	text := func(names ...string) (ps []param) {
		for _, n := range names {
			ps = append(ps, param{Name: n, Type: "string"})
		}
		return ps
	}
	return []*route{
		{Method: "GET", Path: "/api/v1/dlq", Access: readOnly, Mark: common,
			Summary: "List dead letters, newest failure first.",
			Query:   append(text("queue", "consumerGroup", "partition", "error"), page...), Response: "DeadLetters",
			Status: 200, Handle: listDeadLetters},
		{Method: "DELETE", Path: "/api/v1/dlq", Access: admin, Mark: operator, Summary: "Remove dead letters of a queue.",
			Query:    append([]param{{Name: "queue", Type: "string", Required: true}}, text("consumerGroup")...),
			Response: "Purged", Status: 200, Keyed: true, Handle: purge},
		{Method: "POST", Path: "/api/v1/dlq/:id/replay", Access: readWrite, Mark: operator,
			Summary: "Move a dead letter back to a partition's tail; with target group-only for its consumer group alone.",
			Request: "Replay", Response: "Replayed",
			Status: 200, Also: map[int]string{404: "Gone|Error"}, Op: "replay", Keyed: true, Handle: replay},
		{Method: "POST", Path: "/api/v1/messages/:partitionId/:transactionId/retry", Access: readWrite, Mark: operator,
			Summary: "Move the newest dead letter of an address back.", Request: "Empty", Response: "Replayed",
			Status: 200, Also: map[int]string{404: "Gone|Error"}, Op: "replay", Keyed: true, Handle: retry, split: address("/retry")},
		{Method: "DELETE", Path: "/api/v1/messages/:partitionId/:transactionId", Access: readWrite, Mark: operator,
			Summary: "Remove the dead letters of an address.", Response: "MessageDeleted", Status: 200,
			Also: map[int]string{404: "MessageDeleted|Error"}, Keyed: true, Handle: deleteMessage, split: address("")},
		{Method: "GET", Path: "/api/v1/messages", Access: readOnly, Mark: operator, Summary: "Browse messages, newest first.",
			Query:    append(text("queue", "partition", "namespace", "task", "status"), page...),
			Response: "Messages", Status: 200, Handle: browse},
		{Method: "GET", Path: "/api/v1/messages/:partitionId/:transactionId", Access: readOnly, Mark: operator,
			Summary: "Describe one message and what every group thinks of it.", Response: "MessageDetail", Status: 200,
			Handle: messageDetail, split: address("")},
	}
}

func listDeadLetters(c *call) error {
	q := c.query()
	f := engine.DeadLetterFilter{Queue: q.text("queue"), Partition: q.text("partition"),
		Group: q.text("consumerGroup"), Error: q.text("error"), From: q.instant("from"), To: q.instant("to"),
		Limit: int(q.within("limit", 100, 1, maxPage)), Skip: int(q.within("offset", 0, 0, 1<<31-1))}
	if q.err != nil {
		return q.err
	}
	ctx, cancel := c.deadline(readDeadline)
	defer cancel()
	rows, err := c.engine.Catalog().DeadLetters(ctx, c.caller, f)
	if err != nil {
		return err
	}
	o := out{c.buffer()}
	o.open('{').key("messages").open('[')
	for i := range rows {
		o.deadLetter(c.f.opts.Masks, &rows[i])
	}
	o.close(']').key("pagination").open('{')
	o.num("limit", int64(f.Limit))
	o.num("offset", int64(f.Skip))
	o.close('}')
	o.num("total", int64(len(rows)))
	o.close('}')
	c.send(200, o.b)
	return nil
}

func (o *out) deadLetter(masks *mask.Set, d *engine.DeadLetter) {
	o.open('{')
	o.uuid("id", d.ID)
	o.str("transactionId", d.Message.TransactionID)
	o.id("partitionId", uint64(d.PartitionID))
	o.str("queue", d.Queue)
	o.str("partition", d.Partition)
	o.str("consumerGroup", d.Group)
	o.str("errorMessage", d.Error)
	o.count("retryCount", uint64(d.Retries))
	s := show(masks, d.Queue, &d.Message)
	o.shown("data", &s)
	o.strOrNull("producerSub", d.Message.ProducerSub)
	o.time("createdAt", d.Message.CreatedAt)
	o.time("failedAt", d.FailedAt)
	if d.Timer != "" {
		o.str("timerKey", d.Timer)
	}
	o.close('}')
}

func purge(c *call) error {
	q := c.query()
	queue, group := q.text("queue"), q.text("consumerGroup")
	switch {
	case q.err != nil:
		return q.err
	case !q.has("queue"):
		return badRequest("queue is required")
	}
	var only *string
	if group != "" {
		only = &group
	}
	ctx, cancel := c.deadline(writeDeadline)
	defer cancel()
	n, err := c.engine.Catalog().Purge(ctx, c.caller, queue, only)
	if err != nil && asEngineError(err).Code != engine.CodeUnknownQueue {
		return err
	}
	o := out{c.buffer()}
	o.open('{')
	o.bool("success", true)
	o.count("deleted", n)
	o.str("queue", queue)
	o.strOrNull("consumerGroup", group)
	o.close('}')
	c.send(200, o.b)
	return nil
}

// replay answers POST /api/v1/dlq/:id/replay, optionally into another queue or partition (S-dlq-17), or for one consumer group.
func replay(c *call) error {
	text, err := c.name(0)
	if err != nil {
		return err
	}
	var in struct {
		Queue     *string `json:"queue"`
		Partition *string `json:"partition"`
		Target    *string `json:"target"`
	}
	if err := c.decodeOptional(&in); err != nil {
		return err
	}
	op := engine.Redrive{}
	if op.GroupOnly, err = groupOnly(in.Target); err != nil {
		return err
	}
	if in.Queue != nil {
		op.Queue, op.ToOther = *in.Queue, true
	}
	if in.Partition != nil {
		op.Partition, op.ToPart = *in.Partition, true
	}
	switch {
	case op.ToOther && op.Queue == "":
		return badRequest("queue must not be blank")
	case op.ToPart && op.Partition == "":
		return badRequest("partition must not be blank")
	}
	if err := checkNames(len(op.Queue), len(op.Partition)); err != nil {
		return err
	}
	id, ok := format.ParseUUID(text)
	if !ok {
		c.gone(text)
		return nil
	}
	op.DeadLetter = id
	return c.redrive(&op, text)
}

// retry answers POST /api/v1/messages/:partitionId/:transactionId/retry.
func retry(c *call) error {
	id, txn, err := c.address()
	if err != nil {
		return err
	}
	return c.redrive(&engine.Redrive{ByAddress: true, PartitionID: id, TransactionID: txn}, "")
}

// address reads the names of a message path.
func (c *call) address() (id format.PartitionID, txn string, err error) {
	p, err := c.name(0)
	if err != nil {
		return 0, "", err
	}
	if txn, err = c.name(1); err != nil {
		return 0, "", err
	}
	return partitionID(p), txn, nil
}

func (c *call) redrive(op *engine.Redrive, dlqID string) error {
	ctx, cancel := c.deadline(writeDeadline)
	defer cancel()
	res, err := c.engine.Do(ctx, c.caller, engine.Batch{Ops: []engine.Op{op}})
	if err == nil && res[0].Err != nil {
		err = res[0].Err
	}
	var e *engine.Error
	switch {
	case err == nil:
	case errors.As(err, &e) && slices.Contains(goneCodes, e.Code): // of the call as a whole when it carried a key
		c.gone(dlqID)
		return nil
	default:
		return err
	}
	c.redriven(&res[0].Redrive)
	return nil
}

// goneCodes say that there is no dead letter to move.
var goneCodes = []engine.ErrorCode{engine.CodeGone, engine.CodeNotFound, engine.CodeUnknownPartition}

// gone answers that there is no such dead letter, or not any more.
func (c *call) gone(dlqID string) {
	o := out{c.buffer()}
	o.open('{')
	o.bool("success", false)
	o.str("result", "gone")
	o.strOrNull("dlqId", dlqID)
	o.str("error", "Message not found")
	o.close('}')
	c.send(404, o.b)
}

// redriven answers a move; a duplicate wrote nothing and keeps the dead letter.
func (c *call) redriven(r *engine.RedriveItem) {
	m := r.Message
	result := "moved"
	if r.Duplicate {
		result = "duplicate"
		m.Status, m.ID = engine.Duplicate, format.UUID{}
	}
	o := out{c.buffer()}
	o.open('{')
	o.bool("success", true)
	o.str("result", result)
	o.str("queue", r.Queue)
	o.str("partition", r.Partition)
	o.str("consumerGroup", r.Group)
	o.uuid("dlqId", r.DeadLetter)
	o.str("originalTransactionId", r.TransactionID)
	o.key("replayedAs")
	as := "dlq:" + r.DeadLetter.String()
	if r.Record && !r.Duplicate {
		as = "" // it has no other id than its own
	}
	o.b = appendMessageResult(o.b, 0, as, r.Queue, &m)
	o.bool("dlqRowRemoved", !r.Duplicate)
	o.close('}')
	c.send(200, o.b)
}

// deleteMessage removes dead letters only: a live message can not be deleted (S-ret-11).
func deleteMessage(c *call) error {
	id, txn, err := c.address()
	if err != nil {
		return err
	}
	ctx, cancel := c.deadline(writeDeadline)
	defer cancel()
	n, err := c.engine.Catalog().DeleteDeadLetters(ctx, c.caller, id, txn)
	if err != nil && asEngineError(err).Code != engine.CodeUnknownPartition {
		return err
	}
	o := out{c.buffer()}
	o.open('{')
	o.bool("success", n > 0)
	o.id("partitionId", uint64(id))
	o.str("transactionId", txn)
	if n > 0 {
		o.str("message", "Dead letters of this address were removed")
	} else {
		o.str("error", "Message not found")
		o.str("message", "No dead letter has this address; live messages can not be deleted")
	}
	o.close('}')
	c.send(statusOf(n > 0), o.b)
	return nil
}
