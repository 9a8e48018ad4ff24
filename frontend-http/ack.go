package frontendhttp

import (
	"strconv"

	"queen/engine"
)

// ack answers POST /api/v1/ack.
func ack(c *call) error { return c.acknowledge((*ackBody).single) }

// ackBatch answers POST /api/v1/ack/batch.
func ackBatch(c *call) error { return c.acknowledge((*ackBody).batch) }

// acknowledge answers 200 with one element per item whatever the items say (S-ack-1).
func (c *call) acknowledge(decode func(*ackBody, []byte) error) error {
	a := c.f.acks.Get().(*ackBody)
	defer func() {
		a.reset()
		c.f.acks.Put(a)
	}()
	if err := decode(a, c.body()); err != nil {
		return err
	}
	var results []engine.Result
	if len(a.ops) > 0 {
		var err error
		a.results = roomFor(a.results, len(a.ops))
		if results, err = c.engine.Do(c.f.writing.context(), c.caller, engine.Batch{Ops: a.ops, Results: a.results}); err != nil {
			return err
		}
	}
	c.send(200, appendAcked(c.buffer(), a.acks, results))
	return nil
}

func appendAcked(b []byte, acks []engine.Ack, results []engine.Result) []byte {
	b = append(b, '[')
	for i := range acks {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"index":`...)
		b = strconv.AppendInt(b, int64(i), 10)
		b = append(b, `,"transactionId":`...)
		b = appendString(b, acks[i].TransactionID)
		if acks[i].HasOffset {
			b = append(b, `,"offset":`...)
			b = strconv.AppendUint(b, uint64(acks[i].Offset), 10)
		}
		b = appendAckResult(b, &results[i])
	}
	return append(b, ']')
}

func appendAckResult(b []byte, r *engine.Result) []byte {
	if r.Err != nil {
		b = append(b, `,"success":false,"error":`...)
		b = appendString(b, itemError(r.Err))
	} else {
		b = append(b, `,"success":true,"error":null`...)
	}
	b = append(b, `,"leaseReleased":`...)
	b = strconv.AppendBool(b, r.Ack.Released)
	b = append(b, `,"dlq":`...)
	b = strconv.AppendBool(b, r.Ack.Filed)
	b = append(b, `,"noop":`...)
	b = strconv.AppendBool(b, r.Ack.Noop)
	if r.Ack.Conflated > 0 {
		b = append(b, `,"conflated":`...)
		b = strconv.AppendUint(b, r.Ack.Conflated, 10)
	}
	return append(b, '}')
}
