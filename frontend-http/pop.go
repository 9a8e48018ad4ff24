package frontendhttp

import (
	"context"
	"strconv"
	"time"

	"queen/engine"
	"queen/engine/format"
)

const (
	defaultWait = 30 * time.Second
	maxWait     = 60 * time.Second
	// maxLease bounds leaseSeconds and the seconds of an extend: a year.
	maxLease = 31536000
)

// popQueue answers GET /api/v1/pop/queue/:queue.
func popQueue(c *call) error {
	queue, err := c.name(0)
	if err != nil {
		return err
	}
	return c.pop(engine.Scope{Queue: queue})
}

// popPartition answers GET /api/v1/pop/queue/:queue/partition/:partition.
func popPartition(c *call) error {
	queue, err := c.name(0)
	if err != nil {
		return err
	}
	partition, err := c.name(1)
	if err != nil {
		return err
	}
	if partition == "" {
		partition = format.DefaultPartition
	}
	return c.pop(engine.Scope{Queue: queue, Partition: partition, Pinned: true})
}

// popDiscovery answers GET /api/v1/pop: every queue whose labels match. It never parks (S-pop-9).
func popDiscovery(c *call) error {
	q := c.query()
	scope := engine.Scope{Discovery: true, Namespace: q.text("namespace"), Task: q.text("task")}
	switch {
	case q.err != nil:
		return q.err
	case scope.Namespace == "" && scope.Task == "":
		return badRequest("namespace or task is required")
	}
	return c.pop(scope)
}

// pop claims and answers; with wait=true it may park inside the engine, before any deep call.
func (c *call) pop(scope engine.Scope) error {
	req, timeout, err := c.popRequest(scope)
	if err != nil {
		return err
	}
	conn := c.conn()
	req.Alive = conn.Alive
	parent, cancel := context.WithTimeout(c.f.stopping, timeout+popGrace)
	defer cancel()
	var d *engine.Delivery
	if req.Wait > 0 {
		ctx, unpark := conn.ParkContext(parent)
		c.f.parked.Add(1)
		d, err = c.engine.Pop(ctx, c.caller, req)
		c.f.parked.Add(-1)
		unpark()
		c.unmeasured = true
	} else {
		d, err = c.engine.Pop(parent, c.caller, req)
	}
	switch {
	case err != nil && asEngineError(err).Code == engine.CodeTimeout && (c.f.stopping.Err() != nil || !conn.Alive()):
		c.nothing() // the park was ended by the shutdown, or nobody is there to read
		return nil
	case err != nil:
		return err
	case d == nil:
		c.nothing()
		return nil
	}
	return c.deliver(scope.Queue, d)
}

// popRequest reads the parameters (http-api 5.1). timeout bounds the call also when it does not wait.
func (c *call) popRequest(scope engine.Scope) (r engine.PopRequest, timeout time.Duration, err error) {
	q := c.query()
	r = engine.PopRequest{Scope: scope, Group: groupName(q.text("consumerGroup"))}
	batch := q.integer("batch", 0)
	if q.has("batch") && (batch < 1 || batch > 1<<31-1) {
		q.bad("batch", "1 or more")
	}
	r.Batch = int(batch)
	if q.has("partitions") {
		r.Partitions = int(q.within("partitions", 1, 1, 64))
	}
	r.CommitOnDelivery = q.boolean("autoAck")
	r.CommitOnDelivery = q.boolean("commitOnDelivery") || r.CommitOnDelivery
	ms := q.integer("timeout", defaultWait.Milliseconds())
	if ms < 0 {
		q.bad("timeout", "0 or more")
	}
	timeout = time.Duration(min(ms, maxWait.Milliseconds())) * time.Millisecond
	if q.boolean("wait") && !scope.Discovery {
		r.Wait = timeout
	}
	seconds := q.integer("leaseSeconds", 0)
	if seconds > maxLease {
		q.bad("leaseSeconds", "at most 31536000")
	}
	r.Lease = time.Duration(max(seconds, 0)) * time.Second
	r.Autopilot = q.boolean("autopilot")
	r.Conflate = q.boolean("conflation")
	r.Start = q.startOf(q.text("subscriptionMode"), q.text("subscriptionFrom"))
	switch {
	case q.err != nil:
		return r, 0, q.err
	case r.Conflate && r.Group == "":
		return r, 0, badRequest("conflation needs a consumerGroup")
	case r.Conflate && r.CommitOnDelivery:
		return r, 0, badRequest("conflation can not be combined with autoAck or commitOnDelivery")
	}
	return r, timeout, checkNames(len(scope.Queue), max(len(scope.Partition), len(r.Group)))
}

// startOf reads where a group begins; a time wins over a mode. Any mode but new means all (http-api 5.1).
func (q *query) startOf(mode, from string) (s engine.Start) {
	switch mode {
	case "":
	case "new", "new-only":
		s.Kind = format.StartNew
	default:
		s.Kind = format.StartAll
	}
	switch from {
	case "":
	case "now":
		s.Kind = format.StartNew
	default:
		w, ok := parseInstant(from)
		if !ok {
			q.bad("subscriptionFrom", "now or an ISO-8601 instant")
		}
		s = engine.Start{Kind: format.StartFrom, From: w}
	}
	return s
}

// groupName is "" for queue mode, also under its reserved name (S-id-4).
func groupName(s string) string {
	if s == format.QueueMode {
		return ""
	}
	return s
}

// deliver writes a claim and leaves its fate to the connection's verdict.
func (c *call) deliver(queue string, d *engine.Delivery) error {
	if len(d.Claims) == 0 && !d.Conflate && !d.Conflict {
		d.Abandon()
		c.nothing()
		return nil
	}
	e := popEncoder{d: d}
	b, err := e.encode(c.buffer(), queue)
	if err != nil {
		d.Abandon()
		return err
	}
	c.f.metrics.delivered(c.f.now(), e.oldest)
	c.send(200, b)
	c.conn().Deliver(func(ok bool) {
		if ok {
			d.Delivered()
		} else {
			d.Abandon()
		}
	})
	return nil
}

// popEncoder writes a delivery. What all messages of a claim share is written once and copied.
type popEncoder struct {
	d      *engine.Delivery
	claim  int    // whose tail is in tail; -1 none
	tail   []byte // from "partitionId" to the end of the message
	common []byte // the part of tail that all claims share
	at     format.Wall
	time   []byte      // at as text: messages of one push share it
	oldest format.Wall // the earliest createdAt
}

func (e *popEncoder) encode(b []byte, queue string) ([]byte, error) {
	d := e.d
	e.claim = -1
	b = append(b, `{"success":true,"queue":`...)
	b = appendString(b, queue)
	if len(d.Claims) > 0 {
		b = append(b, `,"partition":`...)
		b = appendString(b, d.Claims[0].Partition)
		b = append(b, `,"partitionId":"`...)
		b = strconv.AppendUint(b, uint64(d.Claims[0].PartitionID), 10)
	} else {
		b = append(b, `,"partition":"","partitionId":"`...)
	}
	b = append(b, '"')
	from := len(b)
	b = append(b, `,"leaseId":`...)
	b = appendString(b, d.Lease)
	b = append(b, `,"consumerGroup":`...)
	b = appendString(b, d.Group)
	e.common = append(append(e.common, b[from:]...), `,"deliveryAttempt":`...)
	b = append(b, `,"messages":[`...)
	first := true
	for m, err := range d.Messages() {
		if err != nil {
			return nil, err
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = e.message(b, &m)
	}
	b = append(b, `],"partitionsClaimed":`...)
	b = strconv.AppendInt(b, int64(len(d.Claims)), 10)
	if d.Conflate {
		b = append(b, `,"conflation":true`...)
	}
	if d.Conflict {
		b = append(b, `,"conflationConflict":true`...)
	}
	if d.Chosen.Set {
		b = append(b, `,"autopilot":{"partitions":`...)
		b = strconv.AppendInt(b, int64(d.Chosen.Partitions), 10)
		b = append(b, `,"batch":`...)
		b = strconv.AppendInt(b, int64(d.Chosen.Batch), 10)
		b = append(b, '}')
	}
	return append(b, '}'), nil
}

func (e *popEncoder) message(b []byte, m *engine.Delivered) []byte {
	if m.Claim != e.claim {
		e.shareTail(m.Claim)
	}
	if m.CreatedAt != e.at || e.time == nil {
		e.at = m.CreatedAt
		e.time = appendTime(e.time[:0], m.CreatedAt)
	}
	if e.oldest == 0 || m.CreatedAt < e.oldest {
		e.oldest = m.CreatedAt
	}
	b = append(b, `{"id":`...)
	b = appendUUID(b, m.ID)
	b = append(b, `,"transactionId":`...)
	b = appendString(b, m.TransactionID)
	b = append(b, `,"traceId":`...)
	b = appendUUID(b, m.TraceID)
	if m.ContentType == "" && len(m.Headers) == 0 {
		b = append(b, `,"data":`...)
		b = append(b, m.Payload...)
	} else {
		o := out{b}
		o.payload("data", &m.Record)
		b = o.b
	}
	if m.ProducerSub == "" {
		b = append(b, `,"producerSub":null`...)
	} else {
		b = append(b, `,"producerSub":`...)
		b = appendString(b, m.ProducerSub)
	}
	b = append(b, `,"createdAt":`...)
	b = append(b, e.time...)
	b = append(b, `,"offset":`...)
	b = strconv.AppendUint(b, uint64(m.Offset), 10)
	return append(b, e.tail...)
}

func (e *popEncoder) shareTail(claim int) {
	e.claim = claim
	cl := &e.d.Claims[claim]
	t := append(e.tail[:0], `,"partitionId":"`...)
	t = strconv.AppendUint(t, uint64(cl.PartitionID), 10)
	t = append(t, `","partition":`...)
	t = appendString(t, cl.Partition)
	t = append(t, e.common...)
	t = strconv.AppendUint(t, uint64(cl.Attempt), 10)
	e.tail = append(t, '}')
}
