package frontendhttp

import (
	"strconv"

	"queen/engine"
	"queen/engine/format"
)

// push answers POST /api/v1/push: 201 whatever the items say (S-push-2).
func push(c *call) error {
	p := c.f.bodies.Get().(*pushBody)
	defer func() {
		p.reset()
		c.f.bodies.Put(p)
	}()
	if err := p.decode(c.body()); err != nil {
		return err
	}
	return c.append(p)
}

// append commits a decoded push and answers it.
func (c *call) append(p *pushBody) error {
	var results []engine.Result
	if len(p.ops) > 0 {
		var err error
		p.results = roomFor(p.results, len(p.ops))
		if results, err = c.engine.Do(c.f.writing.context(), c.caller, engine.Batch{Ops: p.ops, Results: p.results}); err != nil {
			return err
		}
	}
	c.send(201, appendPushed(c.buffer(), p, results))
	return nil
}

// appendPushed writes one element per item, in request order.
func appendPushed(b []byte, p *pushBody, results []engine.Result) []byte {
	for i := range p.groups {
		p.groups[i].next = 0
	}
	b = append(b, '[')
	for i := range p.messages {
		if i > 0 {
			b = append(b, ',')
		}
		at := p.of[i]
		g := &p.groups[at]
		res := engine.MessageResult{Status: engine.Refused, Err: results[at].Err}
		if g.next < len(results[at].Messages) {
			res = results[at].Messages[g.next]
		}
		g.next++
		b = appendMessageResult(b, i, p.messages[i].TransactionID, g.queue, &res)
	}
	return append(b, ']')
}

// appendMessageResult writes what became of one message. The dedup key is the message id where the caller sent none.
func appendMessageResult(b []byte, index int, transactionID, queue string, res *engine.MessageResult) []byte {
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(index), 10)
	b = append(b, `,"message_id":`...)
	if res.Status == engine.Refused {
		b = append(b, "null"...)
	} else {
		b = append(b, '"')
		b = res.ID.AppendTo(b)
		b = append(b, '"')
	}
	b = append(b, `,"transaction_id":`...)
	switch {
	case transactionID != "":
		b = appendString(b, transactionID)
	case res.Status == engine.Refused:
		b = append(b, "null"...)
	default:
		b = append(b, '"')
		b = res.ID.AppendTo(b)
		b = append(b, '"')
	}
	b = append(b, `,"queueName":`...)
	b = appendString(b, queue)
	switch res.Status {
	case engine.Queued:
		b = append(b, `,"status":"queued","offset":`...)
		b = strconv.AppendUint(b, uint64(res.Offset), 10)
	case engine.Duplicate:
		b = append(b, `,"status":"duplicate","offset":`...)
		b = strconv.AppendUint(b, uint64(res.Offset), 10)
	default:
		b = append(b, `,"status":"error","error":`...)
		e := res.Err
		if e == nil {
			e = &engine.Error{Code: engine.CodeInternal}
		}
		b = appendString(b, itemError(e))
	}
	return append(b, '}')
}

// pushRaw answers POST /api/v1/push/raw: one message whose payload is the body, whatever it is.
func pushRaw(c *call) error {
	q := c.query()
	queue, partition, id := q.text("queue"), q.text("partition"), q.text("transactionId")
	trace := q.text("traceId")
	switch {
	case q.err != nil:
		return q.err
	case !q.has("queue"):
		return badRequest("query parameter queue is missing")
	case len(id) > format.MaxTransactionID:
		return badRequest("transactionId exceeds 65535 bytes")
	}
	m := engine.Message{TransactionID: id, Payload: c.body()}
	m.TraceID, _ = format.ParseUUID(trace)
	var err error
	if m.ContentType, err = c.contentType(); err != nil {
		return err
	}
	if m.Headers, err = c.messageHeaders(); err != nil {
		return err
	}
	p := c.f.bodies.Get().(*pushBody)
	defer func() {
		p.reset()
		c.f.bodies.Put(p)
	}()
	if err := p.add(m, []byte(queue), []byte(partition)); err != nil {
		return err
	}
	p.sort()
	return c.append(p)
}
