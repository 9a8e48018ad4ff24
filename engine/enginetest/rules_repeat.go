package enginetest

import (
	"fmt"
	"time"

	"queen/engine"
	"queen/engine/format"
)

// repeatRules are of calls that are sent again under their Idempotency-Key, beside those of transactions.
var repeatRules = []rule{
	{"S-txn-21", "a redrive under a key answers as it did, when the dead letter is gone", func(r *rig) {
		keyed := *r
		twice := func(key string, op *engine.Redrive) {
			r.t.Helper()
			keyed.caller.Key = key
			first := keyed.do(op)[0]
			check(r, first.Err == nil && first.Redrive.TransactionID == "a" && first.Redrive.Group == "g", "redrive: %+v", first)
			r.advance(time.Second)
			equal(r, "again", fmt.Sprintf("%+v", keyed.do(op)[0]), fmt.Sprintf("%+v", first))
		}
		d := r.deadOne("q", "g")
		twice("by id", &engine.Redrive{DeadLetter: d.ID, Queue: "q2", ToOther: true, Partition: "there", ToPart: true})
		equal(r, "copies", r.partition("q2", "there").End, 1)
		d = r.redeliver("q", "g")
		twice("by address", &engine.Redrive{ByAddress: true, PartitionID: d.PartitionID, TransactionID: "a"})
		equal(r, "copies", r.partition("q", "p").End, 2)
	}},
	{"S-txn-21", "a purge and a delete of dead letters under a key remove none that were filed since", func(r *rig) {
		keyed := *r
		keyed.caller.Key = "purge"
		d := r.deadOne("q", "g")
		for range 2 {
			n, err := r.e.Catalog().Purge(r.ctx, keyed.caller, "q", nil)
			check(r, err == nil && n == 1, "purge: %d %v", n, err)
			if len(r.deadLetters(engine.DeadLetterFilter{})) == 0 {
				r.redeliver("q", "g")
			}
		}
		equal(r, "left", len(r.deadLetters(engine.DeadLetterFilter{})), 1)
		other := "g"
		_, err := r.e.Catalog().Purge(r.ctx, keyed.caller, "q", &other)
		equal(r, "another call", code(err), engine.CodeIdempotencyClash)
		keyed.caller.Key = "delete"
		for range 2 {
			n, err := r.e.Catalog().DeleteDeadLetters(r.ctx, keyed.caller, d.PartitionID, "a")
			check(r, err == nil && n == 1, "delete: %d %v", n, err)
			if len(r.deadLetters(engine.DeadLetterFilter{})) == 0 {
				r.redeliver("q", "g")
			}
		}
		equal(r, "left", len(r.deadLetters(engine.DeadLetterFilter{})), 1)
	}},
	{"S-txn-21", "a transaction is named once, also when it was rolled back", func(r *rig) {
		caller := r.caller
		caller.Key = "named"
		gate := required(expecting(kvOp(engine.KVCheck, "gate"), 7))
		var ids []format.UUID
		for range 2 {
			for i, ops := range [][]engine.Op{{appendOp("q", "p", "a")}, {&gate}} {
				var id format.UUID
				caller.Key = fmt.Sprint("named-", i)
				_, err := r.e.Do(r.ctx, caller, engine.Batch{Ops: ops, Atomic: true, Minted: &id})
				check(r, (err != nil) == (i == 1), "%v", err)
				ids = append(ids, id)
			}
		}
		check(r, ids[0] == ids[2] && ids[1] == ids[3] && ids[0] != ids[1] && !ids[0].IsZero() && !ids[1].IsZero(), "%v", ids)
		var id format.UUID
		_, err := r.e.Do(r.ctx, r.caller, engine.Batch{Ops: []engine.Op{appendOp("q", "p", "b")}, Atomic: true, Minted: &id})
		check(r, err == nil && !id.IsZero() && id != ids[0] && id != ids[1], "%v %v", id, err)
	}},
	{"S-txn-11", "a batch that keeps duplicates takes place beside them", func(r *rig) {
		first := r.push("q", "p", "a")[0]
		put := kvPut("k", "1")
		res, err := r.e.Do(r.ctx, r.caller, engine.Batch{Ops: []engine.Op{appendOp("q", "p", "a", "b", "b"), appendOp("q", "new", "a"), &put},
			Atomic: true, KeepDuplicates: true})
		check(r, err == nil, "%v", err)
		m := res[0].Messages
		check(r, m[0].Status == engine.Duplicate && m[0].ID == first.ID && m[0].Offset == 0 && m[1].Status == engine.Queued &&
			m[1].Offset == 1 && m[2].Status == engine.Duplicate && res[1].Messages[0].Status == engine.Queued, "%+v", res)
		r.holds("k", "1")
		equal(r, "end", r.partition("q", "p").End, 2)
		res, err = r.e.Do(r.ctx, r.caller, engine.Batch{Ops: []engine.Op{appendOp("q", "p", "a", "b")}, Atomic: true, KeepDuplicates: true})
		check(r, err == nil && res[0].Messages[1].Status == engine.Duplicate && res[0].Messages[1].Offset == 1, "all known: %+v %v", res, err)
		r.rolledBack(engine.CodeDuplicate, 0, appendOp("q", "p", "a"))
	}},
	{"S-seek-5", "a group that a seek of the queue placed is deleted from every partition", func(r *rig) {
		for _, p := range []string{"p1", "p2", "p3"} {
			r.push("q", p, "a")
		}
		r.some(grouped("q", "g", format.StartAll), "a")
		equal(r, "moved", r.seek(toEnd("q", "g")).Rows, 3)
		n, err := r.e.Catalog().DeleteGroup(r.ctx, r.caller, "g", "q", false, false)
		check(r, err == nil && n == 3, "DeleteGroup: %d %v", n, err)
		equal(r, "made", r.seek(toEnd("q", "h")).Rows, 3)
		n, err = r.e.Catalog().DeleteGroup(r.ctx, r.caller, "h", "q", false, true)
		check(r, err == nil && n == 3, "DeleteGroup, keeping the registration: %d %v", n, err)
		n, err = r.e.Catalog().DeleteGroup(r.ctx, r.caller, "h", "q", false, false)
		check(r, err == nil && n == 0, "DeleteGroup again: %d %v", n, err)
	}},
	{"S-dlq-15", "of dead letters of one microsecond the one filed last is the newest", func(r *rig) {
		r.configure("q", format.OptDedupWindowSeconds, format.QueueOptions{})
		r.push("q", "p", "a")
		r.push("q", "p", "x", "a")
		late := r.some(grouped("q", "late", format.StartAll), "a", "x", "a")
		early := r.some(grouped("q", "early", format.StartAll), "a", "x", "a")
		for i, b := range []*batch{early, late} {
			a := b.ack(0, format.AckDLQ)
			a.HasOffset, a.Offset = true, format.Offset(2*(1-i))
			res := r.do(a)[0]
			check(r, res.Err == nil && res.Ack.Filed, "%+v", res)
		}
		rows := r.deadLetters(engine.DeadLetterFilter{Queue: "q"})
		check(r, len(rows) == 2 && rows[0].FailedAt == rows[1].FailedAt, "%+v", rows)
		res := r.do(&engine.Redrive{ByAddress: true, PartitionID: rows[0].PartitionID, TransactionID: "a"})[0]
		equal(r, "newest", res.Redrive.Group, "late")
	}},
}

// redeliver seeks back and files the message "a" again.
func (r *rig) redeliver(queue, group string) engine.DeadLetter {
	r.t.Helper()
	r.seek(toTime(queue, group, 0))
	b := r.pop(grouped(queue, group, 0))
	res := r.do(b.ack(0, format.AckDLQ))[0]
	check(r, res.Err == nil && res.Ack.Filed, "dlq: %+v", res)
	rows := r.deadLetters(engine.DeadLetterFilter{Queue: queue})
	equal(r, "dead letters", len(rows), 1)
	return rows[0]
}
