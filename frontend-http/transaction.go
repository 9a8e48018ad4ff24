package frontendhttp

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"queen/engine"
	"queen/engine/format"
)

func transactionRoutes() []*route {
	return []*route{{Method: "POST", Path: "/api/v1/transaction", Access: readWrite, Mark: common,
		Summary: "Acks, pushes, keys, timers and positions: all of them or none.", Request: "Transaction",
		Response: "TransactionResult", Status: 200, Errors: familyTransaction, Op: "transaction", Keyed: true,
		Handle: transact}}
}

// transact answers POST /api/v1/transaction: 200 for a commit and for a roll back (S-txn-3).
func transact(c *call) error {
	t := c.f.txns.Get().(*transaction)
	defer func() {
		t.reset()
		c.f.txns.Put(t)
	}()
	if err := t.decode(c.body(), format.Wall(c.f.opts.Clock.Now())); err != nil {
		var keyed *keyedRefusal
		if errors.As(err, &keyed) {
			err = &refusedTxn{status: keyed.status, reason: keyed.reason, detail: keyed.detail}
		}
		return err
	}
	ops := t.ops()
	t.results = roomFor(t.results, len(ops))
	results, err := c.engine.Do(c.f.writing.context(), c.caller,
		engine.Batch{Ops: ops, Atomic: true, Minted: &t.minted, Results: t.results})
	if err != nil {
		var e *engine.Error
		if errors.As(err, &e) && e.Failed != nil {
			return t.rolledBack(e)
		}
		return err
	}
	o := out{c.buffer()}
	o.open('{')
	o.transactionID(c, t.minted)
	o.bool("success", true)
	o.key("results").open('[')
	o.transacted(t, results)
	o.close(']').close('}')
	c.send(200, o.b)
	return nil
}

// transactionID names a transaction: as the log does, or anew where it proposed nothing. A repeat under the same
// Idempotency-Key is named as the first call was.
func (o *out) transactionID(c *call, minted format.UUID) {
	switch {
	case !minted.IsZero():
		o.uuid("transactionId", minted)
	case c.caller.Key != "":
		o.str("transactionId",
			uuid.NewHash(sha256.New(), uuid.UUID(c.caller.Tenant), []byte("transaction\x00"+c.caller.Key), 8).String())
	default:
		o.str("transactionId", newID())
	}
}

// ops is the batch, acks first: the order in which they are judged (S-txn-4).
func (t *transaction) ops() []engine.Op {
	ops := slices.Grow(t.batch[:0], len(t.acks)+len(t.appends)+len(t.commits)+len(t.kv.ops)+len(t.timers.ops))
	for i := range t.acks {
		ops = append(ops, &t.acks[i])
	}
	for i := range t.appends {
		ops = append(ops, &t.appends[i])
	}
	for i := range t.commits {
		ops = append(ops, &t.commits[i])
	}
	for i := range t.kv.ops {
		ops = append(ops, &t.kv.ops[i])
	}
	for i := range t.timers.ops {
		ops = append(ops, &t.timers.ops[i])
	}
	t.batch = ops
	return ops
}

// transacted writes the results in the flat index space: operations, then kv, timers, positions.
func (o *out) transacted(t *transaction, results []engine.Result) {
	index := int64(0)
	start := func(kind string) {
		o.open('{')
		o.num("index", index)
		o.str("type", kind)
		index++
	}
	for _, e := range t.elements {
		if e.kind == 'a' {
			start("ack")
			o.transactedAck(&t.acks[e.op], &results[e.op])
		} else {
			start("push")
			a := &t.appends[e.op]
			o.transactedPush(a, e.message, &results[len(t.acks)+e.op])
		}
		o.close('}')
	}
	positions := results[len(t.acks)+len(t.appends):]
	kvs := positions[len(t.commits):]
	for i := range t.kv.ops {
		start("kv")
		o.num("opIndex", int64(i))
		o.str("op", t.kv.names[i])
		o.kvItem(&t.kv.ops[i], &kvs[i].KV)
		o.close('}')
	}
	timed := kvs[len(t.kv.ops):]
	for i := range t.timers.ops {
		start("timer")
		o.num("opIndex", int64(i))
		o.timerItem(&t.timers.ops[i], t.timers.txns[i], &timed[i].Timer)
		o.close('}')
	}
	for i := range t.commits {
		start("position")
		o.num("opIndex", int64(i))
		o.bool("success", true)
		o.close('}')
	}
}

func (o *out) transactedAck(a *engine.Ack, r *engine.Result) {
	o.bool("success", true)
	o.str("transactionId", a.TransactionID)
	if a.HasOffset {
		o.count("offset", uint64(a.Offset))
	}
	o.null("error")
	o.bool("dlq", r.Ack.Filed)
}

func (o *out) transactedPush(a *engine.Append, message int, r *engine.Result) {
	m := &r.Messages[message]
	o.bool("success", true)
	if id := a.Messages[message].TransactionID; id != "" {
		o.str("transactionId", id)
	} else {
		o.messageID("transactionId", m.ID)
	}
	o.messageID("messageId", m.ID)
	o.str("queueName", a.Queue)
	o.count("offset", uint64(m.Offset))
	if m.Status == engine.Duplicate {
		o.bool("duplicate", true)
	}
}

// messageID writes an id, all zeros where it is not known any more.
func (o *out) messageID(k string, v format.UUID) {
	o.key(k)
	o.b = append(o.b, '"')
	o.b = v.AppendTo(o.b)
	o.b = append(o.b, '"')
}

// txnReasons are the reasons for which a transaction is rolled back; any other is internal.
var txnReasons = map[engine.ErrorCode]string{
	engine.CodeRejectedAck: "rejected_ack", engine.CodeBadStatus: "rejected_ack", engine.CodeLeaseInvalid: "rejected_ack",
	engine.CodeNotLeased: "rejected_ack", engine.CodeUnresolvable: "rejected_ack",
	engine.CodeAlreadyCommitted: "rejected_ack", engine.CodeUnknownPartition: "rejected_ack",
	engine.CodeDuplicate: "duplicate", engine.CodeUnknownQueue: "queue_not_found",
	engine.CodeKVPrecondition: "kv_precondition", engine.CodeTooLarge: "too_large",
	engine.CodeNameTooLong: "name_too_long", engine.CodeBadRequest: "bad_request",
	engine.CodeEncryption: "encryption_unavailable", engine.CodeRetry: "unavailable",
}

// rolledBack says why nothing took place.
func (t *transaction) rolledBack(e *engine.Error) *refusedTxn {
	r := &refusedTxn{status: 200, reason: "internal", detail: e.Error(), minted: t.minted}
	if reason, ok := txnReasons[e.Code]; ok {
		r.reason = reason
	}
	if e.Message != "" {
		r.detail = e.Message
	}
	if e.Code == engine.CodeDuplicate && e.Failed != nil {
		r.detail = fmt.Sprintf("an id was pushed before, at offset %d", e.Failed.Offset) // S-txn-11
	}
	if e.Code == engine.CodeKVPrecondition {
		r.lost = e.Failed
		r.index = len(t.elements) + e.Failed.Op - len(t.acks) - len(t.appends) - len(t.commits)
	}
	return r
}

// refuseTxn answers a transaction of which nothing took place.
func (c *call) refuseTxn(r *refusedTxn) {
	o := out{c.buffer()}
	o.open('{')
	o.transactionID(c, r.minted)
	o.bool("success", false)
	o.str("reason", r.reason)
	o.str("error", r.detail)
	if r.lost != nil {
		o.bool("ok", false)
		o.kvLoser(r.lost, r.index)
	}
	o.key("results").open('[').close(']').close('}')
	c.send(r.status, o.b)
}
