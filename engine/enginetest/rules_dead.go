package enginetest

import (
	"fmt"
	"time"

	"queen/engine"
	"queen/engine/format"
)

// deadOne files one message "a" with headers and returns its dead letter.
func (r *rig) deadOne(queue, group string) engine.DeadLetter {
	r.t.Helper()
	r.do(&engine.Append{Queue: queue, Partition: "p", Messages: []engine.Message{{TransactionID: "a",
		ContentType: "text/plain", Headers: []engine.Header{{Name: "h", Value: []byte("v")}}, Payload: []byte("body")}}})
	b := r.some(grouped(queue, group, format.StartAll), "a")
	a := b.ack(0, format.AckDLQ)
	a.Reason = "poison"
	res := r.do(a)[0]
	check(r, res.Err == nil && res.Ack.Filed, "dlq: %+v", res)
	rows := r.deadLetters(engine.DeadLetterFilter{Queue: queue})
	equal(r, "dead letters", len(rows), 1)
	return rows[0]
}

// headersOf are "name=value", in order.
func headersOf(rec *engine.Record) (out []string) {
	for _, h := range rec.Headers {
		out = append(out, h.Name+"="+string(h.Value))
	}
	return out
}

var deadRules = []rule{
	{"S-dlq-1", "a poison message is delivered retryLimit + 1 times, then filed", func(r *rig) {
		for _, limit := range []int64{0, 1, 3} {
			name := fmt.Sprint("q", limit)
			r.configure(name, format.OptRetryLimit, format.QueueOptions{RetryLimit: limit})
			r.push(name, "p", "a")
			for i := range limit + 1 {
				b := r.some(popOf(name), "a")
				equal(r, "attempt", b.attempt(), uint32(i+1))
				equal(r, fmt.Sprint("filed at ", i), b.with("f")[0].Ack.Filed, i == limit)
			}
			r.none(popOf(name))
		}
	}},
	{"S-dlq-2", "retry never charges", func(r *rig) {
		r.push("q", "p", "a")
		for range 6 {
			r.some(popOf("q"), "a").with("r")
		}
		for i := range 4 {
			equal(r, "filed", r.some(popOf("q"), "a").with("f")[0].Ack.Filed, i == 3)
		}
	}},
	{"S-dlq-3", "failed with budget left redelivers at once from the completed prefix", func(r *rig) {
		r.push("q", "p", "a", "b", "c")
		res := r.some(popOf("q"), "a", "b", "c").with("cf")
		check(r, res[1].Ack.Released && !res[1].Ack.Filed, "failed: %+v", res[1])
		b := r.pop(popOf("q"))
		check(r, b != nil, "held back")
		b.want("b", "c")
	}},
	{"S-dlq-4", "budget spent: the head is filed and passed, counters start anew", func(r *rig) {
		r.configure("q", format.OptRetryLimit, format.QueueOptions{RetryLimit: 1})
		r.push("q", "p", "a", "b")
		r.some(popOf("q"), "a", "b").with("f")
		res := r.some(popOf("q"), "a", "b").with("f")[0]
		check(r, res.Ack.Filed && res.Ack.Released, "spent: %+v", res)
		b := r.some(popOf("q"), "b")
		equal(r, "attempt", b.attempt(), 1)
		equal(r, "budget of the next", b.with("f")[0].Ack.Filed, false)
	}},
	{"S-dlq-5", "budget spent without a dead letter queue: dropped", func(r *rig) {
		r.configure("q", format.OptRetryLimit|format.OptDeadLetterQueue|format.OptDLQAfterMaxRetries, format.QueueOptions{})
		r.push("q", "p", "a", "b")
		res := r.some(popOf("q"), "a", "b").with("f")[0]
		check(r, res.Err == nil && !res.Ack.Filed && res.Ack.Released, "dropped: %+v", res)
		r.some(popOf("q"), "b")
		equal(r, "dead letters", len(r.deadLetters(engine.DeadLetterFilter{})), 0)
	}},
	{"S-dlq-5", "dropped is the head alone, whatever dlqScope says of filing", func(r *rig) {
		r.configure("q", format.OptRetryLimit|format.OptDeadLetterQueue|format.OptDLQAfterMaxRetries|format.OptDLQScope,
			format.QueueOptions{DLQScopeBatch: true})
		r.push("q", "p", "a", "b", "c")
		r.some(popOf("q"), "a", "b", "c").with("ff")
		r.some(popOf("q"), "b", "c")
		equal(r, "dead letters", len(r.deadLetters(engine.DeadLetterFilter{})), 0)
	}},
	{"S-dlq-6", "dlq files at once, whatever budget or flags", func(r *rig) {
		r.configure("q", format.OptDeadLetterQueue|format.OptDLQAfterMaxRetries, format.QueueOptions{})
		r.push("q", "p", "a", "b")
		res := r.some(popOf("q"), "a", "b").with("cd")[1]
		check(r, res.Err == nil && res.Ack.Filed && res.Ack.Released, "dlq: %+v", res)
		r.none(popOf("q"))
		equal(r, "dead letters", len(r.deadLetters(engine.DeadLetterFilter{Queue: "q"})), 1)
	}},
	{"S-dlq-7", "the budget resets on completion, filing and seek, not on delivery", func(r *rig) {
		r.configure("q", format.OptRetryLimit, format.QueueOptions{RetryLimit: 1})
		nack := func(want bool, ids ...string) {
			r.t.Helper()
			equal(r, "filed", r.some(popOf("q"), ids...).with("f")[0].Ack.Filed, want)
		}
		r.push("q", "p", "a")
		nack(false, "a")
		r.some(popOf("q"), "a").all() // completion
		r.push("q", "p", "b")
		nack(false, "b")
		r.some(popOf("q"), "b")
		r.advance(300 * time.Second) // a delivery and its expiry change nothing
		nack(true, "b")              // filing
		r.push("q", "p", "c")
		nack(false, "c")
		r.seek(engine.SetOffset{Queue: "q", Partition: "p", To: engine.SeekTo{Offset: 2}})
		nack(false, "c")
	}},
	{"S-dlq-8", "a dead letter has its payload", func(r *rig) {
		d := r.deadOne("q", "g")
		check(r, string(d.Message.Payload) == "body" && d.Message.ContentType == "text/plain" &&
			len(d.Message.Headers) == 1 && string(d.Message.Headers[0].Value) == "v", "message %+v", d.Message)
		r.none(grouped("q", "g", 0))
	}},
	{"S-dlq-9", "completed or dead, never both, never neither", func(r *rig) {
		r.configure("q", format.OptRetryLimit, format.QueueOptions{RetryLimit: 1})
		r.pushEach("q", 4, 10)
		ends := map[string]int{}
		n := 0
		for b := r.pop(popOf("q")); b != nil; b = r.pop(popOf("q")) {
			st := []format.AckStatus{format.AckCompleted, format.AckFailed, format.AckDLQ, format.AckRetry, format.AckCompleted}[n%5]
			n++
			if res := r.do(b.ack(0, st))[0]; st == format.AckCompleted && res.Err == nil {
				ends[b.messages[0].TransactionID]++
				r.do(&engine.Release{Lease: b.d.Lease})
			}
			r.advance(300 * time.Second)
		}
		for _, d := range r.deadLetters(engine.DeadLetterFilter{Queue: "q", Limit: 1000}) {
			ends[d.Message.TransactionID]++
		}
		equal(r, "ended", len(ends), 40)
		for id, times := range ends {
			equal(r, "ends of "+id, times, 1)
		}
	}},
	{"S-dlq-10", "a dead letter tells where, who, why and when", func(r *rig) {
		r.advance(5 * time.Second)
		d := r.deadOne("q", "g")
		check(r, d.Queue == "q" && d.Partition == "p" && d.Group == "g" && d.Error == "poison" && d.FailedAt == epoch+5e6 &&
			d.Message.TransactionID == "a" && !d.ID.IsZero() && d.PartitionID == r.partition("q", "p").ID, "dead letter %+v", d)
		r.push("q2", "p", "b")
		r.some(popOf("q2"), "b").with("d")
		equal(r, "default reason", r.deadLetters(engine.DeadLetterFilter{Queue: "q2"})[0].Error, defaultReason)
	}},
	{"S-dlq-11", "the reason of the filed message wins, else the first there is", func(r *rig) {
		r.configure("q", format.OptRetryLimit, format.QueueOptions{})
		r.push("q", "p", "a", "b", "c")
		b := r.some(popOf("q"), "a", "b", "c")
		first, second := b.ack(0, format.AckFailed), b.ack(1, format.AckFailed)
		first.Reason, second.Reason = "own", "other"
		r.do(second, first)
		equal(r, "own", r.deadLetters(engine.DeadLetterFilter{})[0].Error, "own")
		b = r.some(popOf("q"), "b", "c")
		first, second = b.ack(0, format.AckFailed), b.ack(1, format.AckFailed)
		second.Reason = "other"
		r.do(first, second)
		rows := r.deadLetters(engine.DeadLetterFilter{Error: "other"})
		check(r, len(rows) == 1 && rows[0].Message.TransactionID == "b", "another's reason: %+v", rows)
	}},
	{"S-dlq-12", "a nacked batch files its head, or with dlqScope all of it", func(r *rig) {
		r.configure("q", format.OptRetryLimit, format.QueueOptions{})
		r.push("q", "p", "a", "b", "c")
		r.some(popOf("q"), "a", "b", "c").with("fff")
		r.some(popOf("q"), "b", "c")
		r.configure("all", format.OptRetryLimit|format.OptDLQScope, format.QueueOptions{DLQScopeBatch: true})
		r.push("all", "p", "a", "b", "c")
		r.some(popOf("all"), "a", "b", "c").with("fff")
		r.none(popOf("all"))
		equal(r, "filed", len(r.deadLetters(engine.DeadLetterFilter{Queue: "all"})), 3)
	}},
	{"S-dlq-13", "retention never removes them; delete and purge do", func(r *rig) {
		r.configure("q", format.OptMaxWaitTimeSeconds, format.QueueOptions{MaxWaitTimeSeconds: 10})
		r.deadOne("q", "g")
		r.removedBy("q", "p", 1)
		d := r.deadLetters(engine.DeadLetterFilter{Queue: "q"})
		check(r, len(d) == 1 && string(d[0].Message.Payload) == "body", "after retention: %+v", d)
		n, err := r.e.Catalog().DeleteDeadLetters(r.ctx, r.caller, d[0].PartitionID, "a")
		check(r, err == nil && n == 1, "delete: %d %v", n, err)
		n, err = r.e.Catalog().DeleteDeadLetters(r.ctx, r.caller, d[0].PartitionID, "a")
		check(r, err == nil && n == 0, "delete again: %d %v", n, err)
		for _, g := range []string{"g1", "g2"} {
			r.push("q2", "p", "x"+g)
			b := r.pop(grouped("q2", g, format.StartAll))
			r.do(b.ack(0, format.AckDLQ))
		}
		g1 := "g1"
		n, err = r.e.Catalog().Purge(r.ctx, r.caller, "q2", &g1)
		check(r, err == nil && n == 1, "purge of one group: %d %v", n, err)
		n, err = r.e.Catalog().Purge(r.ctx, r.caller, "q2", nil)
		check(r, err == nil && n == 1, "purge: %d %v", n, err)
	}},
	{"S-dlq-14", "redrive moves a copy to the tail for every group", func(r *rig) {
		d := r.deadOne("q", "g")
		r.none(grouped("q", "other", format.StartNew))
		r.advance(time.Second)
		res := r.do(&engine.Redrive{DeadLetter: d.ID})[0]
		want := "dlq:" + d.ID.String()
		check(r, res.Err == nil && res.Redrive.Message.Status == engine.Queued && res.Redrive.Message.Offset == 1 &&
			res.Redrive.TransactionID == "a" && res.Redrive.Group == "g" && res.Redrive.Queue == "q", "redrive %+v", res)
		b := r.some(grouped("q", "g", 0), want)
		check(r, b.messages[0].ID != d.Message.ID && b.messages[0].CreatedAt == epoch+1e6 &&
			string(b.messages[0].Payload) == "body", "copy %+v", b.messages[0])
		r.some(grouped("q", "other", 0), want)
		equal(r, "records left", len(r.deadLetters(engine.DeadLetterFilter{})), 0)
	}},
	{"S-dlq-14", "a copy tells where its message stood first, however often it is moved", func(r *rig) {
		r.advance(1500 * time.Millisecond)
		d := r.deadOne("q", "g")
		r.advance(time.Second)
		r.do(&engine.Redrive{DeadLetter: d.ID})
		want := []string{"h=v", "queen-original-id=" + d.Message.ID.String(), "queen-original-offset=0",
			"queen-original-created-at=2023-11-14T22:13:21.500000Z"}
		copied := r.pop(grouped("q", "g", 0))
		copied.want("dlq:" + d.ID.String())
		equal(r, "headers", fmt.Sprint(headersOf(&copied.messages[0].Record)), fmt.Sprint(want))
		r.do(copied.ack(0, format.AckDLQ))
		again := r.deadLetters(engine.DeadLetterFilter{})[0]
		r.do(&engine.Redrive{DeadLetter: again.ID, GroupOnly: true})
		read := r.read("q", "p", 2).Records[0]
		equal(r, "headers", fmt.Sprint(headersOf(&read)), fmt.Sprint(append(want, "queen-only-group=g")))
		r.some(grouped("q", "g", 0), "dlq:"+again.ID.String()).with("d")
		again = r.deadLetters(engine.DeadLetterFilter{})[0]
		r.do(&engine.Redrive{DeadLetter: again.ID})
		read = r.read("q", "p", 3).Records[0]
		equal(r, "headers", fmt.Sprint(headersOf(&read)), fmt.Sprint(want))
		r.some(grouped("q", "late", format.StartAll), "a", "dlq:"+d.ID.String(), read.TransactionID)
	}},
	{"S-dlq-14", "a copy for the group that gave it up is handed to no other one", func(r *rig) {
		d := r.deadOne("q", "g")
		r.some(grouped("q", "other", format.StartAll), "a").all()
		r.some(popOf("q"), "a").all()
		res := r.do(&engine.Redrive{DeadLetter: d.ID, GroupOnly: true})[0]
		check(r, res.Err == nil && res.Redrive.Message.Offset == 1, "redrive %+v", res)
		want := "dlq:" + d.ID.String()
		r.none(grouped("q", "other", 0))
		r.none(popOf("q"))
		r.push("q", "p", "b")
		r.some(grouped("q", "other", 0), "b").all() // from the start of what was behind it
		r.some(grouped("q", "late", format.StartAll), "a", "b").with("cf")
		r.some(grouped("q", "late", 0), "b").all()
		one := grouped("q", "g", 0)
		one.Batch = 1
		r.some(one, want).with("f")
		r.some(one, want).all()
		r.some(one, "b").all()
		r.seek(toTime("q", "other", 0))
		r.some(grouped("q", "other", 0), "a", "b")
		r.seek(toTime("q", "g", 0))
		r.some(grouped("q", "g", 0), "a", want, "b")
		equal(r, "readers by offset", len(r.read("q", "p", 0).Records), 3)
	}},
	{"S-dlq-14", "a conflating group is handed the newest message that is not another's", func(r *rig) {
		d := r.deadOne("q", "g")
		r.push("q", "p", "b")
		r.do(&engine.Redrive{DeadLetter: d.ID, GroupOnly: true})
		newest := grouped("q", "newest", format.StartAll)
		newest.Conflate = true
		r.some(newest, "b").all()
		b := r.pop(newest)
		check(r, b == nil || len(b.messages) == 0, "another group's: %+v", b)
	}},
	{"S-dlq-14", "a copy for one group stays in its queue, and wants the group to be there", func(r *rig) {
		d := r.deadOne("q", "g")
		op := &engine.Redrive{DeadLetter: d.ID, GroupOnly: true, Queue: "q2", ToOther: true}
		equal(r, "elsewhere", code(r.do(op)[0].Err), engine.CodeBadRequest)
		_, err := r.e.Catalog().DeleteGroup(r.ctx, r.caller, "g", "q", false, false)
		check(r, err == nil, "DeleteGroup: %v", err)
		equal(r, "no group", code(r.do(&engine.Redrive{DeadLetter: d.ID, GroupOnly: true})[0].Err), engine.CodeUnknownGroup)
		equal(r, "records kept", len(r.deadLetters(engine.DeadLetterFilter{})), 1)
	}},
	{"S-dlq-15", "by address the newest; a second time it is gone", func(r *rig) {
		d := r.deadOne("q", "g1")
		b := r.some(grouped("q", "g2", format.StartAll), "a")
		r.advance(time.Second)
		b.with("d")
		op := &engine.Redrive{ByAddress: true, PartitionID: d.PartitionID, TransactionID: "a"}
		equal(r, "newest", r.do(op)[0].Redrive.Group, "g2")
		rows := r.deadLetters(engine.DeadLetterFilter{})
		check(r, len(rows) == 1 && rows[0].Group == "g1", "left: %+v", rows)
		check(r, r.do(op)[0].Err == nil, "the other one")
		equal(r, "gone", code(r.do(op)[0].Err), engine.CodeGone)
		equal(r, "gone by id", code(r.do(&engine.Redrive{DeadLetter: d.ID})[0].Err), engine.CodeGone)
		d = r.deadOne("q3", "g")
		r.push("q3", "p", "dlq:"+d.ID.String())
		res := r.do(&engine.Redrive{DeadLetter: d.ID})[0]
		check(r, res.Err == nil && res.Redrive.Duplicate, "dedup hit: %+v", res)
		equal(r, "record kept", len(r.deadLetters(engine.DeadLetterFilter{Queue: "q3"})), 1)
	}},
	{"S-dlq-16", "a live message can not be redriven", func(r *rig) {
		r.push("q", "p", "a")
		op := &engine.Redrive{ByAddress: true, PartitionID: r.partition("q", "p").ID, TransactionID: "a"}
		equal(r, "code", code(r.do(op)[0].Err), engine.CodeGone)
	}},
	{"S-dlq-17", "redrive may go elsewhere, created if missing", func(r *rig) {
		d := r.deadOne("q", "g")
		res := r.do(&engine.Redrive{DeadLetter: d.ID, Queue: "q2", ToOther: true, Partition: "there", ToPart: true})[0]
		check(r, res.Err == nil && res.Redrive.Queue == "q2" && res.Redrive.Partition == "there", "redrive %+v", res)
		equal(r, "copy", r.read("q2", "there", 0).Records[0].TransactionID, "dlq:"+d.ID.String())
	}},
	{"S-dlq-20", "maxDeliveries ends a message that kills its workers", func(r *rig) {
		r.configure("q", format.OptMaxDeliveries, format.QueueOptions{MaxDeliveries: 3})
		r.push("q", "p", "a", "b")
		for range 3 {
			r.some(popOf("q"), "a", "b")
			r.advance(300 * time.Second)
		}
		r.some(popOf("q"), "b")
		d := r.deadLetters(engine.DeadLetterFilter{})
		check(r, len(d) == 1 && d[0].Message.TransactionID == "a", "dead letters %+v", d)
	}},
	{"S-dlq-20", "maxDeliveries ends what the group was handed, not the copy for another one in front of it", func(r *rig) {
		d := r.deadOne("q", "g")
		r.some(grouped("q", "other", format.StartAll), "a").all()
		r.configure("q", format.OptMaxDeliveries, format.QueueOptions{MaxDeliveries: 1})
		r.do(&engine.Redrive{DeadLetter: d.ID, GroupOnly: true})
		r.push("q", "p", "b", "c")
		r.some(grouped("q", "other", 0), "b", "c")
		r.advance(300 * time.Second)
		r.some(grouped("q", "other", 0), "c")
		rows := r.deadLetters(engine.DeadLetterFilter{Group: "other"})
		check(r, len(rows) == 1 && rows[0].Message.TransactionID == "b", "dead letters %+v", rows)
	}},
	{"S-dlq-20", "maxDeliveries files nothing that retention removed", func(r *rig) {
		r.configure("q", format.OptMaxDeliveries|format.OptMaxWaitTimeSeconds, format.QueueOptions{MaxDeliveries: 1, MaxWaitTimeSeconds: 60})
		r.push("q", "p", "a")
		r.push("q", "p", "b")
		r.advance(50 * time.Second)
		r.push("q", "p", "c")
		req := popOf("q")
		req.Lease, req.Batch = 5*time.Second, 1
		r.some(req, "a")
		r.removedBy("q", "p", 2)
		r.some(req, "c")
		equal(r, "dead letters", len(r.deadLetters(engine.DeadLetterFilter{})), 0)
		r.advance(5 * time.Second)
		r.none(req)
		equal(r, "dead letters", len(r.deadLetters(engine.DeadLetterFilter{})), 1)
	}},
	{"S-dlq-21", "newest failure first, by page, queue and group", func(r *rig) {
		for i := range 5 {
			p := fmt.Sprint("p", i)
			r.push("q", p, p)
			req := pinned("q", p)
			req.Group, req.Start.Kind = fmt.Sprint("g", i%2), format.StartAll
			r.some(req, p).with("d")
			r.advance(time.Second)
		}
		rows := r.deadLetters(engine.DeadLetterFilter{Queue: "q"})
		for i := 1; i < len(rows); i++ {
			check(r, rows[i].FailedAt <= rows[i-1].FailedAt, "row %d failed after row %d", i, i-1)
		}
		two := r.deadLetters(engine.DeadLetterFilter{Queue: "q", Skip: 1, Limit: 2})
		check(r, len(two) == 2 && two[0].ID == rows[1].ID && two[1].ID == rows[2].ID, "page %+v", two)
		for _, d := range r.deadLetters(engine.DeadLetterFilter{Group: "g1"}) {
			equal(r, "group", d.Group, "g1")
		}
		equal(r, "another queue", len(r.deadLetters(engine.DeadLetterFilter{Queue: "q2"})), 0)
	}},
}
