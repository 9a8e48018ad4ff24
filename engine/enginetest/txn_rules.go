package enginetest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"queen/engine"
	"queen/engine/format"
)

func appendOp(queue, partition string, ids ...string) *engine.Append {
	op := &engine.Append{Queue: queue, Partition: partition}
	for _, id := range ids {
		op.Messages = append(op.Messages, msg(id))
	}
	return op
}

// untouched wants nothing of what a rolled back transaction would have done.
func (r *rig) untouched(out string) {
	r.t.Helper()
	r.holdsNothing("k")
	_, there := r.pending("tk")
	check(r, !there, "a timer of a rolled back transaction")
	_, err := r.e.Catalog().Queue(r.ctx, r.caller, out)
	equal(r, "queue of a rolled back transaction", code(err), engine.CodeUnknownQueue)
}

var txnRules = []rule{
	{"S-txn-1", "all parts apply", func(r *rig) {
		r.push("q", "p", "a", "b")
		b := r.some(popOf("q"), "a", "b")
		put, timer := kvPut("k", "1"), schedule("tk", time.Minute)
		pos := &engine.CommitOffset{Queue: "q", Partition: "p", Group: "g", Offset: 1}
		res := r.atomic(b.ack(0, format.AckCompleted), appendOp("out", "x", "o1", "o2"), appendOp("out", "y", "o3"),
			b.ack(1, format.AckCompleted), &put, &timer, pos)
		for i := range res {
			check(r, res[i].Err == nil, "op %d: %v", i, res[i].Err)
		}
		check(r, res[3].Ack.Released && res[1].Messages[1].Offset == 1 && res[4].KV.Applied && res[5].Timer.Status == format.TimerScheduled,
			"%+v", res)
		r.stored("out", "x", "o1", "o2")
		r.stored("out", "y", "o3")
		r.holds("k", "1")
		r.none(popOf("q"))
		r.some(grouped("q", "g", format.StartNew), "b")
	}},
	{"S-txn-4", "the first refusal in order names the reason", func(r *rig) {
		r.push("q", "p", "a")
		b := r.some(popOf("q"), "a")
		stale := b.ack(0, format.AckCompleted)
		stale.Lease = format.UUID{9}.String()
		put, timer, pos := required(expecting(kvPut("k", "1"), 77)), schedule("tk", time.Second), &engine.CommitOffset{Queue: "nowhere", Group: "g"}
		dup, fresh := appendOp("q", "p", "a"), appendOp("out", "p", "o")
		r.rolledBack(engine.CodeRejectedAck, 4, &timer, &put, pos, dup, stale, fresh)
		r.untouched("out")
		r.rolledBack(engine.CodeDuplicate, 2, &put, pos, dup, b.ack(0, format.AckCompleted), fresh)
		r.rolledBack(engine.CodeUnknownQueue, 1, &put, pos, b.ack(0, format.AckCompleted), fresh, &timer)
		r.rolledBack(engine.CodeKVPrecondition, 3, &timer, b.ack(0, format.AckCompleted), fresh, &put)
		r.untouched("out")
		b.all()
	}},
	{"S-txn-5", "acks of several partitions and groups", func(r *rig) {
		r.none(grouped("q", "g", format.StartAll))
		r.push("q", "p", "a")
		r.push("q2", "p", "b")
		x, y, z := r.some(popOf("q"), "a"), r.some(grouped("q", "g", format.StartAll), "a"), r.some(popOf("q2"), "b")
		r.atomic(x.ack(0, format.AckCompleted), y.ack(0, format.AckDLQ), z.ack(0, format.AckCompleted))
		r.none(popOf("q"))
		r.none(grouped("q", "g", format.StartAll))
		equal(r, "dead letters", len(r.deadLetters(engine.DeadLetterFilter{Queue: "q"})), 1)
	}},
	{"S-txn-7", "an ack is fenced by its lease", func(r *rig) {
		r.push("q", "p", "a")
		b := r.some(popOf("q"), "a")
		r.advance(time.Hour)
		put := kvPut("k", "1")
		e := r.rolledBack(engine.CodeRejectedAck, 0, b.ack(0, format.AckCompleted), &put, appendOp("out", "p", "o"))
		check(r, e.Message != "", "no reason")
		r.untouched("out")
		again := r.some(popOf("q"), "a")
		r.rolledBack(engine.CodeRejectedAck, 0, b.ack(0, format.AckCompleted), &put)
		r.atomic(again.ack(0, format.AckCompleted), &put)
		r.rolledBack(engine.CodeRejectedAck, 0, again.ack(0, format.AckCompleted), &put) // sent again after its answer was lost
		bad := again.ack(0, 9)
		r.rolledBack(engine.CodeRejectedAck, 0, bad)
	}},
	{"S-txn-8", "an unfenced ack", func(r *rig) {
		r.push("q", "p", "a", "b", "c")
		req := popOf("q")
		req.Batch = 1
		b := r.some(req, "a")
		ack := func(id string, status format.AckStatus) *engine.Ack {
			return &engine.Ack{Partition: b.d.Claims[0].PartitionID, Unfenced: true, TransactionID: id, Status: status}
		}
		put := kvPut("k", "1")
		r.rolledBack(engine.CodeRejectedAck, 1, &put, ack("unknown", format.AckCompleted))
		r.holdsNothing("k")
		r.atomic(ack("b", format.AckCompleted), &put)
		r.atomic(ack("a", format.AckCompleted), &put) // completed already
		r.rolledBack(engine.CodeRejectedAck, 0, ack("a", format.AckFailed))
		r.some(popOf("q"), "c")
	}},
	{"S-txn-9", "statuses keep their meaning", func(r *rig) {
		r.push("q", "p", "a", "b", "c")
		b := r.some(popOf("q"), "a", "b", "c")
		res := r.atomic(b.ack(0, format.AckCompleted), b.ack(1, format.AckDLQ), b.ack(2, format.AckRetry))
		check(r, res[1].Ack.Filed && res[2].Ack.Released, "%+v", res)
		equal(r, "dead letters", len(r.deadLetters(engine.DeadLetterFilter{Queue: "q"})), 1)
	}},
	{"S-txn-10", "an ack moves its own group only", func(r *rig) {
		r.none(grouped("q", "g", format.StartAll))
		r.push("q", "p", "a")
		b := r.some(popOf("q"), "a")
		r.atomic(b.ack(0, format.AckCompleted))
		r.some(grouped("q", "g", format.StartAll), "a")
	}},
	{"S-txn-11", "a known id rolls back, a repeated one is stored once", func(r *rig) {
		r.push("q", "p", "x", "a")
		put := kvPut("k", "1")
		e := r.rolledBack(engine.CodeDuplicate, 1, &put, appendOp("q", "p", "b", "a"))
		equal(r, "original", e.Failed.Offset, 1)
		r.holdsNothing("k")
		r.configure("w", format.OptDedupWindowSeconds, format.QueueOptions{})
		res := r.atomic(appendOp("q", "p", "b", "b", "c"), appendOp("q", "p", "c", "d", "b"), appendOp("w", "p", "e"), appendOp("w", "p", "e"))
		check(r, res[0].Messages[1].Status == engine.Duplicate && res[0].Messages[1].Offset == 2, "%+v", res[0].Messages)
		check(r, res[1].Messages[0].Status == engine.Duplicate && res[1].Messages[1].Status == engine.Queued &&
			res[1].Messages[2] == engine.MessageResult{Status: engine.Duplicate, Offset: 2, ID: res[0].Messages[0].ID}, "%+v", res[1].Messages)
		r.stored("q", "p", "x", "a", "b", "c", "d")
		r.stored("w", "p", "e")
	}},
	{"S-txn-12", "queues and partitions are made", func(r *rig) {
		r.atomic(appendOp("new", "p1", "a"), appendOp("new", "p2", "b"), appendOp("other", "p", "c"))
		r.stored("new", "p1", "a")
		r.stored("other", "p", "c")
	}},
	{"S-txn-13", "KV ops beside others", func(r *rig) {
		put, page := kvPut("k", "1"), kvOp(engine.KVPrefix, "k")
		r.rolledBack(engine.CodeBadRequest, 2, &put, appendOp("out", "p", "o"), &page)
		r.untouched("out")
		ops := []engine.Op{appendOp("out", "p", "o")}
		for i := range 65 {
			op := kvPut(fmt.Sprint("k", i), "1")
			ops = append(ops, &op)
		}
		_, err := r.e.Do(r.ctx, r.caller, engine.Batch{Ops: ops, Atomic: true})
		equal(r, "65 ops", code(err), engine.CodeBadRequest)
		r.untouched("out")
		r.atomic(ops[:65]...)
	}},
	{"S-txn-14", "a required condition that is lost tells to what", func(r *rig) {
		v := r.written(kvPut("gate", `{"by":"w1"}`))
		gate, put := required(kvAbsent("gate", "1")), kvPut("k", "1")
		e := r.rolledBack(engine.CodeKVPrecondition, 1, &put, &gate, appendOp("out", "p", "o"))
		item := e.Failed.KV
		check(r, item.Reason == format.KVExists && item.Row.Version == v && string(item.Row.Value) == `{"by":"w1"}`, "%+v", item)
		r.untouched("out")
		gate.Required = false
		res := r.atomic(&put, &gate)
		check(r, res[0].KV.Applied && !res[1].KV.Applied, "%+v", res)
		plain := required(kvPut("k", "1"))
		equal(r, "outside a transaction", code(r.do(&plain)[0].Err), engine.CodeBadRequest)
	}},
	{"S-txn-15", "a marker lets one delivery through", func(r *rig) {
		r.push("q", "p", "a")
		once := required(kvAbsent("seen", "true"))
		first := r.some(popOf("q"), "a")
		r.atomic(&once, appendOp("out", "p", "o"))
		r.rolledBack(engine.CodeKVPrecondition, 0, &once, appendOp("out", "p", "o2"), first.ack(0, format.AckCompleted))
		r.stored("out", "p", "o")
		first.all()
		r.none(popOf("q"))
	}},
	{"S-txn-16", "reads see the state after the transaction", func(r *rig) {
		get, del, put := kvOp(engine.KVGet, "k"), kvOp(engine.KVDelete, "old"), kvPut("k", "1")
		r.written(kvPut("old", "1"))
		old := kvOp(engine.KVGet, "old")
		res := r.atomic(&get, &old, &put, &del, appendOp("out", "p", "o"))
		check(r, string(res[0].KV.Row.Value) == "1" && !res[1].KV.Found, "%+v", res)
		v := res[2].KV.Row.Version
		before, after := expecting(kvOp(engine.KVCheck, "k"), v), expecting(kvOp(engine.KVCheck, "k"), v)
		put = kvPut("k", "2")
		res = r.atomic(&before, &put, &after)
		check(r, res[0].KV.Applied && !res[2].KV.Applied && string(res[2].KV.Row.Value) == "2", "%+v", res)
	}},
	{"S-txn-17", "timers of a transaction", func(r *rig) {
		r.timer(schedule("old", time.Hour))
		cancel, timer := engine.Timer{Op: format.TimerCancel, Queue: "q", Key: "old"}, schedule("tk", time.Minute)
		gone := engine.Timer{Op: format.TimerCancel, Queue: "q", Key: "never"}
		gate := required(expecting(kvOp(engine.KVCheck, "k"), 5))
		r.rolledBack(engine.CodeKVPrecondition, 2, &cancel, &timer, &gate)
		_, there := r.pending("old")
		check(r, there, "a rolled back transaction cancelled a timer")
		r.untouched("out")
		res := r.atomic(&cancel, &timer, &gone)
		check(r, res[0].Timer.Status == format.TimerCancelled && res[2].Timer.Status == format.TimerAbsent, "%+v", res)
		r.advance(time.Minute)
		rec := r.stored("q", "p", "t-tk")[0]
		equal(r, "id", rec.ID, res[1].Timer.MessageID)
	}},
	{"S-txn-18", "positions", positionRule},
	{"S-txn-19", "a guarded step commits while the lock is held", func(r *rig) {
		a := r.acquired(acquire("a"))
		put := kvPut("k", "1")
		r.atomic(guardOf("l", a), &put)
		renewed := r.lock(engine.Lock{Op: format.LockRenew, Token: a.Token, Owner: "a"})
		put = kvPut("k", "2")
		e := r.rolledBack(engine.CodeKVPrecondition, 0, guardOf("l", a), &put)
		equal(r, "the token of now", e.Failed.KV.Row.Version, renewed.Token)
		r.atomic(guardOf("l", renewed), &put)
		r.holds("k", "2")
	}},
	{"S-txn-22", "an acked message acked again under its live lease is no gate", func(r *rig) {
		r.push("q", "p", "a", "b")
		b := r.some(popOf("q"), "a", "b")
		incr := kvIncr("n", 1)
		r.atomic(b.ack(0, format.AckCompleted), &incr)
		res := r.atomic(b.ack(0, format.AckCompleted), &incr)
		check(r, res[0].Ack.Noop, "%+v", res[0])
		r.holds("n", "2")
	}},
	{"S-txn-24", "what a transaction can not hold", func(r *rig) {
		put := kvPut("k", "1")
		for _, op := range []engine.Op{&engine.Extend{Lease: format.UUID{1}.String()}, &engine.SetOffset{Queue: "q", Whole: true, To: engine.SeekTo{End: true}}} {
			r.rolledBack(engine.CodeBadRequest, 1, &put, op)
		}
		r.rolledBack(engine.CodeNameTooLong, 1, &put, appendOp("out", strings.Repeat("p", 447), "a"))
		r.configure("full", format.OptMaxSize, format.QueueOptions{MaxSize: 1})
		r.rolledBack(engine.CodeTooLarge, 1, &put, appendOp("full", "p", "a", "b"))
		r.configure("secret", format.OptEncryptionEnabled, format.QueueOptions{EncryptionEnabled: true})
		r.rolledBack(engine.CodeEncryption, 1, &put, appendOp("secret", "p", "a"))
		r.holdsNothing("k")
		res, err := r.e.Do(r.ctx, r.caller, engine.Batch{Atomic: true})
		check(r, err == nil && len(res) == 0, "an empty batch: %v %v", res, err)
	}},
	{"S-txn-26", "a transaction wakes who waits, once all of it is there", func(r *rig) {
		wait := popOf("out")
		wait.Wait = time.Minute
		parked := r.parked(wait)
		r.push("q", "p", "a")
		b := r.some(popOf("q"), "a")
		r.atomic(appendOp("out", "p", "o"), b.ack(0, format.AckCompleted))
		r.arrives(parked, "o")
	}},
	{"S-txn-21", "a key makes a call repeatable", onceRule},
	{"S-txn-21", "a refusal is an answer too", repeatedRefusal},
}

// positionRule is S-txn-18: what a Kafka group commits.
func positionRule(r *rig) {
	absent := &engine.CommitOffset{Queue: "q", Partition: "p", Group: "g"}
	r.rolledBack(engine.CodeUnknownQueue, 0, absent)
	r.rolledBack(engine.CodeUnknownQueue, 1, appendOp("q", "p", "a"), absent) // it has to be there before the call
	r.push("q", "p", "a", "b", "c")
	set := func(offset format.Offset) *engine.CommitOffset {
		return &engine.CommitOffset{Queue: "q", Partition: "p", Group: "g", Offset: offset, Start: format.StartAll, Metadata: "m"}
	}
	r.atomic(set(1))
	b := r.some(grouped("q", "g", 0), "b", "c")
	r.atomic(set(2)) // the lease ends
	equal(r, "stale lease", code(r.do(b.ack(0, format.AckCompleted))[0].Err), engine.CodeLeaseInvalid)
	r.some(grouped("q", "g", 0), "c")
	r.atomic(&engine.CommitOffset{Queue: "q", Partition: "p", Group: "g", Forget: true})
	r.some(grouped("q", "g", 0), "a", "b", "c")
	r.atomic(&engine.CommitOffset{Queue: "q", Partition: "unborn", Group: "g", Offset: 0})
	equal(r, "made", r.partition("q", "unborn").End, 0)
	equal(r, "plain", code(r.do(set(0))[0].Err), "")
	long := set(0)
	long.Metadata = strings.Repeat("m", 4097)
	r.rolledBack(engine.CodeTooLarge, 0, long)
}

// onceRule is R-22: the same key and body is answered as it was and does nothing, another body is refused.
func onceRule(r *rig) {
	keyed := *r
	keyed.caller.Key = "key-1"
	incr := kvIncr("n", 1)
	ops := []engine.Op{&incr, appendOp("q", "p", "a", "a", ""), &engine.Timer{Op: format.TimerSchedule, Queue: "q", Key: "t",
		Partition: "p", Delay: time.Hour, Message: msg("t")}}
	first, again := keyed.atomic(ops...), keyed.atomic(ops...)
	equal(r, "answer", fmt.Sprintf("%+v", again), fmt.Sprintf("%+v", first))
	r.holds("n", "1")
	equal(r, "end", r.partition("q", "p").End, 2)
	other := kvIncr("n", 2)
	_, err := r.e.Do(r.ctx, keyed.caller, engine.Batch{Ops: []engine.Op{&other}, Atomic: true})
	equal(r, "another body", code(err), engine.CodeIdempotencyClash)
	keyed.as(8).atomic(&other)     // another tenant's key is another key
	keyed.caller.Key = "key-reads" // there is nothing to remember, and an answer all the same
	get := kvOp(engine.KVGet, "n")
	for range 2 {
		equal(r, "read", string(keyed.atomic(&get)[0].KV.Row.Value), "1")
	}
	keyed.caller.Key = "key-2"
	push := appendOp("q", "p", "b", "a", "c")
	res := keyed.do(push)
	equal(r, "push again", fmt.Sprintf("%+v", keyed.do(push)), fmt.Sprintf("%+v", res))
	equal(r, "a plain call is another call", func() engine.ErrorCode {
		_, err := r.e.Do(r.ctx, keyed.caller, engine.Batch{Ops: []engine.Op{push}, Atomic: true})
		return code(err)
	}(), engine.CodeIdempotencyClash)
	r.advance(time.Hour - time.Microsecond)
	keyed.do(push)
	equal(r, "end", r.partition("q", "p").End, 4)
	r.advance(time.Second)
	r.advance(time.Second) // the timer above fires meanwhile
	keyed.caller.Key = "key-1"
	keyed.atomic(&other)
	r.holds("n", "3")
	ack := &engine.Extend{Lease: format.UUID{1}.String()}
	_, err = r.e.Do(context.WithoutCancel(r.ctx), keyed.caller, engine.Batch{Ops: []engine.Op{ack}})
	equal(r, "not repeatable", code(err), engine.CodeBadRequest)
}

// repeatedRefusal: a transaction that was rolled back is answered so again, although it could be carried out by now.
func repeatedRefusal(r *rig) {
	keyed := *r
	keyed.caller.Key = "key-3"
	gate := required(expecting(kvOp(engine.KVCheck, "gate"), 0))
	v := r.written(kvPut("gate", `"w"`))
	push := appendOp("out", "p", "o")
	for range 2 {
		e := keyed.rolledBack(engine.CodeKVPrecondition, 1, push, &gate)
		check(r, e.Failed.KV.Reason == format.KVExists && e.Failed.KV.Row.Version == v, "%+v", e.Failed)
		r.kv(kvOp(engine.KVDelete, "gate"))
	}
	keyed.caller.Key = "key-4"
	keyed.atomic(push, &gate)
	e := keyed.rolledBackAny(push)
	equal(r, "another body", e.Code, engine.CodeIdempotencyClash)
}

func (r *rig) rolledBackAny(ops ...engine.Op) *engine.Error {
	r.t.Helper()
	_, err := r.e.Do(r.ctx, r.caller, engine.Batch{Ops: ops, Atomic: true})
	e, ok := err.(*engine.Error)
	if !ok || e == nil {
		r.fatalf("atomic Do: %v, want a refusal", err)
	}
	return e
}
