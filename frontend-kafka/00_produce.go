package frontendkafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
	"queen/engine/auth"
	"queen/engine/batch"
)

// Produce, 0 to 13: records into partitions. Up to v2 they are message sets, which become one record batch; from v3 on
// a partition takes exactly one. v7 allows zstd, v8 names the records that are wrong, v10 says who leads, v12 adds the
// partition to the producer's transaction without being asked to, v13 names topics by id.
//
// acks 1 and all are the same: an answer is written when the records are durable and applied. With acks 0 there is no
// answer, and an error closes the connection. Requests that a client has sent without waiting become one append, up to
// Options.Coalesce of them; they are answered in order, and none is waited for.
func produceAPI() *api {
	return &api{key: produceKey, min: 0, max: 13, level: auth.LevelWriteOnly, denied: kerr.TopicAuthorizationFailed.Code,
		handle: produce, refuse: refuseProduce}
}

// The versions that something begins with.
const (
	produceBatches  = 3
	produceZstd     = 7
	produceGuided   = 10
	produceImplicit = 12
	produceIDs      = 13
)

// errorRecordsMax bounds the records of one batch that an answer names as wrong.
const errorRecordsMax = 1000

// produceCall is one request and its answer.
type produceCall struct {
	r    *request
	req  *kmsg.ProduceRequest
	resp *kmsg.ProduceResponse
	// failed says that some partition has an error.
	failed bool
}

// produceSlot is where the engine's answer to one batch goes.
type produceSlot struct {
	call *produceCall
	part *kmsg.ProduceResponseTopicPartition
	// appendTime is the time that was stamped on the records, -1 for none.
	appendTime int64
}

func produce(ctx context.Context, c *conn, r *request) (kmsg.Response, error) {
	p := producing{c: c, who: c.caller(), topics: map[string]found{}, fresh: fresh{f: c.f, who: c.caller()}}
	p.add(ctx, r)
	// A client that has to wait, or must authenticate again, has its next request looked at on the ordinary way.
	for len(p.calls) < c.f.opts.Coalesce && c.throttled <= 0 && c.admitted() == nil && c.may(r.api.level) {
		next := c.next(produceKey)
		if next == nil {
			break
		}
		c.countCall()
		p.add(ctx, next)
	}
	err := p.submit(ctx)
	var first kmsg.Response
	for i, call := range p.calls {
		call.tellLeader(c)
		resp, wrong := call.answer()
		err = errors.Join(err, wrong)
		if i == 0 {
			first = resp
		} else {
			c.answer(call.r, resp)
		}
	}
	return first, err
}

// producing collects what several requests append.
type producing struct {
	c       *conn
	who     engine.Caller
	calls   []*produceCall
	batches []engine.RecordBatch
	slots   []produceSlot
	topics  map[string]found // by name, or by id as text
	millis  int32
	fresh   fresh
}

// found is a topic that was looked up once for a request, or why it was not found.
type found struct {
	*topic
	rules *topicSettings
	err   error
}

// add judges a request's batches; what is wrong is answered without the engine.
func (p *producing) add(ctx context.Context, r *request) {
	req := r.req.(*kmsg.ProduceRequest)
	call := &produceCall{r: r, req: req, resp: req.ResponseKind().(*kmsg.ProduceResponse)}
	if len(p.calls) == 0 || req.TimeoutMillis < p.millis {
		p.millis = req.TimeoutMillis
	}
	p.calls = append(p.calls, call)
	// Slots point into the answer, so it does not grow once they are taken.
	call.resp.Topics = make([]kmsg.ProduceResponseTopic, len(req.Topics))
	for i := range req.Topics {
		in, out := &req.Topics[i], &call.resp.Topics[i]
		out.Topic, out.TopicID = in.Topic, in.TopicID
		out.Partitions = make([]kmsg.ProduceResponseTopicPartition, len(in.Partitions))
		t := p.topic(ctx, in, req.Version >= produceIDs)
		for j := range in.Partitions {
			part := &out.Partitions[j]
			part.Default()
			part.Partition, part.BaseOffset, part.LogAppendTime, part.LogStartOffset = in.Partitions[j].Partition, -1, -1, -1
			if err := p.one(ctx, call, &t, in.Partitions[j].Records, part); err != nil {
				call.fail(part, err)
			}
		}
	}
}

// topic looks a topic of a request up, once for all of them.
func (p *producing) topic(ctx context.Context, in *kmsg.ProduceRequestTopic, byID bool) found {
	key := in.Topic
	if byID {
		key = "\x00" + string(in.TopicID[:])
	}
	f, ok := p.topics[key]
	if ok {
		return f
	}
	_, internal := internalTopic(in.Topic)
	switch {
	case byID:
		f.topic, f.err = p.c.f.topicByID(ctx, p.who, in.TopicID)
	case !legalTopic(in.Topic) && !internal:
		f.err = kerr.InvalidTopicException
	default:
		f.topic, f.err = p.c.f.topic(ctx, p.who, in.Topic)
	}
	if f.err == nil {
		f.err = f.changeable()
	}
	if f.err == nil {
		f.rules = p.c.f.settings(p.who, f.topic)
	}
	p.topics[key] = f
	return f
}

// has tells whether a partition is one of the topic's, of which more may be there than was known.
func (p *producing) has(ctx context.Context, t *found, n int32) bool {
	if t.has(n) {
		return true
	}
	old := t.topic
	if t.topic = p.fresh.topic(ctx, old); t.topic == old {
		return false
	}
	for key, known := range p.topics {
		if known.topic == old {
			known.topic = t.topic
			p.topics[key] = known
		}
	}
	return t.has(n)
}

// one judges the records for one partition and puts them up for the append.
func (p *producing) one(ctx context.Context, call *produceCall, t *found, records []byte, part *kmsg.ProduceResponseTopicPartition) error {
	switch {
	case call.req.Acks < -1 || call.req.Acks > 1:
		return kerr.InvalidRequiredAcks
	case t.err != nil && !errors.Is(t.err, errInternal):
		return t.err
	case !p.has(ctx, t, part.Partition): // before the topic is refused for being internal, as in Kafka
		return kerr.UnknownTopicOrPartition
	case t.err != nil:
		return t.err
	}
	b, err := call.checked(records, t.rules, part)
	if err != nil {
		return err
	}
	id, h := call.req.TransactionID, batchOf(b)
	inTxn := id != nil && h.Transactional()
	ref := engine.PartitionRef{Queue: t.name, Partition: partitionName(part.Partition)}
	if inTxn && call.req.Version >= produceImplicit {
		if p.c.f.widen(ctx, p.who, engine.ProducerRef{TransactionalID: *id, ID: h.ProducerID, Epoch: h.ProducerEpoch}, ref) != nil {
			return &fault{kerr.TransactionAbortable, errTxnWide.text}
		}
	}
	slot := produceSlot{call: call, part: part, appendTime: -1}
	if t.rules.appendTime {
		slot.appendTime = int64(p.c.f.now()) / 1000
		batch.SetAppendTime(b, slot.appendTime)
	}
	rb := engine.RecordBatch{Queue: ref.Queue, Partition: ref.Partition, Batch: b}
	if inTxn {
		rb.TransactionalID, rb.Implicit = *id, call.req.Version >= produceImplicit
	}
	p.batches = append(p.batches, rb)
	p.slots = append(p.slots, slot)
	return nil
}

// batchOf is the header of a batch that has been checked.
func batchOf(b []byte) batch.Header {
	h, err := batch.ParseHeader(b)
	if err != nil {
		panic("frontend-kafka: a checked batch has no header: " + err.Error())
	}
	return h
}

// submit appends everything in one call and fills the answers in. Where that is too much for one call, each request is
// one of its own: none fails for its neighbours.
func (p *producing) submit(ctx context.Context) error {
	if len(p.batches) == 0 {
		return nil
	}
	res, err := p.append(ctx, p.batches, p.millis)
	if len(p.calls) == 1 || !tooMuch(err) {
		return p.settle(p.slots, res, err)
	}
	for rest := p.slots; len(rest) > 0; {
		call, at, n := rest[0].call, len(p.slots)-len(rest), 1
		for n < len(rest) && rest[n].call == call {
			n++
		}
		res, err := p.append(ctx, p.batches[at:at+n], call.req.TimeoutMillis)
		if err := p.settle(rest[:n], res, err); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// tooMuch tells whether a call was refused as a whole, with nothing written, for how much it is.
func tooMuch(err error) bool {
	var e *engine.Error
	if !errors.As(err, &e) || e == nil || e.Outcome != engine.OutcomeNone {
		return false
	}
	return e.Code == engine.CodeTooLarge || e.Code == engine.CodeQuotaExceeded || e.Code == engine.CodeRateLimited
}

// append is one call of the engine's.
func (p *producing) append(ctx context.Context, batches []engine.RecordBatch, millis int32) ([]engine.Produced, error) {
	ctx, cancel := within(ctx, millis)
	defer cancel()
	return p.c.f.engine.Records().Produce(ctx, p.who, batches)
}

// settle fills in what became of slots.
func (p *producing) settle(slots []produceSlot, res []engine.Produced, err error) error {
	if err == nil && len(res) != len(slots) {
		return fmt.Errorf("the engine answered %d of %d batches", len(res), len(slots))
	}
	for i := range slots {
		s := &slots[i]
		switch {
		case err != nil:
			p.throttle(s.call, err)
			s.call.fail(s.part, err)
		case res[i].Err != nil:
			p.throttle(s.call, res[i].Err)
			s.call.fail(s.part, res[i].Err)
		default:
			s.part.BaseOffset, s.part.LogStartOffset = int64(res[i].Base), int64(res[i].Start)
			if s.part.LogAppendTime = s.appendTime; res[i].Duplicate && s.appendTime >= 0 {
				s.part.LogAppendTime = int64(res[i].CreatedAt) / 1000
			}
		}
	}
	return nil
}

// throttle tells the client to wait when the node has more to do than it can. The connection is not read from for as
// long, whether the client obeys or not.
func (p *producing) throttle(call *produceCall, err error) {
	if d := pauseOf(err); d > 0 {
		call.resp.ThrottleMillis = max(call.resp.ThrottleMillis, int32(d/time.Millisecond))
		p.c.throttled = max(p.c.throttled, d)
	}
}

// pauseOf is how long a client has to wait after an error, 1 to 30 s; 0 when it may try again at once.
func pauseOf(err error) time.Duration {
	var e *engine.Error
	if !errors.As(err, &e) || e.Code != engine.CodeOverloaded && e.Code != engine.CodeRateLimited {
		return 0
	}
	return min(max(e.RetryAfter, time.Second), 30*time.Second)
}

func (c *produceCall) fail(part *kmsg.ProduceResponseTopicPartition, err error) {
	part.ErrorCode, part.ErrorMessage = produceCode(err), textOf(err)
	c.failed = true
}

// tellLeader fills in who leads, for partitions whose client did not meet the leader.
func (c *produceCall) tellLeader(by *conn) {
	if !c.failed || c.req.Version < produceGuided {
		return
	}
	var g *guide
	for i := range c.resp.Topics {
		for j := range c.resp.Topics[i].Partitions {
			p := &c.resp.Topics[i].Partitions[j]
			if p.ErrorCode != kerr.NotLeaderForPartition.Code {
				continue
			}
			if g == nil {
				now := by.guide()
				g = &now
			}
			p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = g.leader, g.epoch
		}
	}
	if g != nil && g.at != nil {
		c.resp.Brokers = []kmsg.ProduceResponseBroker{{NodeID: g.at.id, Host: g.at.host, Port: g.at.port, Rack: g.at.rack}}
	}
}

// answer is the answer of a request; with acks 0 there is none, and an error is for the connection.
func (c *produceCall) answer() (kmsg.Response, error) {
	switch {
	case c.req.Acks != 0:
		return c.resp, nil
	case !c.failed:
		return nil, nil
	}
	for _, t := range c.resp.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode != 0 {
				return nil, fmt.Errorf("acks=0, topic %q partition %d: %v", t.Topic, p.Partition, kerr.ErrorForCode(p.ErrorCode))
			}
		}
	}
	return nil, errors.New("acks=0, something was refused")
}

// refuseProduce gives every partition one code.
func refuseProduce(r *request, code int16) kmsg.Response {
	req := r.req.(*kmsg.ProduceRequest)
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	for _, t := range req.Topics {
		out := kmsg.NewProduceResponseTopic()
		out.Topic, out.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			part := kmsg.NewProduceResponseTopicPartition()
			part.Partition, part.ErrorCode, part.BaseOffset, part.LogAppendTime, part.LogStartOffset = p.Partition, code, -1, -1, -1
			out.Partitions = append(out.Partitions, part)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}
