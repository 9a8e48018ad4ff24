package enginetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"queen/engine"
	"queen/engine/format"
)

var timerRules = []rule{
	{"S-tmr-1", "a key has one timer, the last one scheduled", func(r *rig) {
		first := r.timer(schedule("k", time.Minute))
		equal(r, "first", first.Status, format.TimerScheduled)
		op := schedule("k", 2*time.Minute)
		op.Partition, op.Message = "p2", msg("other")
		second := r.timer(op)
		equal(r, "second", second.Status, format.TimerRescheduled)
		check(r, second.MessageID != first.MessageID && second.Due > first.Due, "%+v after %+v", second, first)
		r.advance(time.Minute)
		_, err := r.e.Catalog().Queue(r.ctx, r.caller, "q")
		equal(r, "nothing fired", code(err), engine.CodeUnknownQueue)
		r.advance(time.Minute)
		r.stored("q", "p2", "other")
	}},
	{"S-tmr-2", "the message comes with the id and the transactionId that were told", func(r *rig) {
		op := schedule("k", time.Minute)
		op.Message = engine.Message{TransactionID: "txn", Payload: []byte("body"), ContentType: "text/plain", TraceID: format.UUID{1},
			Headers: []engine.Header{{Name: "h", Value: []byte("v")}}}
		item := r.timer(op)
		r.advance(time.Minute)
		rec := r.stored("q", "p", "txn")[0]
		check(r, rec.ID == item.MessageID && rec.CreatedAt >= item.Due && string(rec.Payload) == "body" && rec.ContentType == "text/plain" &&
			rec.TraceID == op.Message.TraceID && len(rec.Headers) == 1, "%+v of %+v", rec, item)
		b := r.some(popOf("q"), "txn")
		equal(r, "delivered", b.messages[0].ID, item.MessageID)
		a := b.ack(0, format.AckCompleted)
		a.TransactionID = item.MessageID.String()
		check(r, r.do(a)[0].Err == nil, "ack by the id that was told")
		d, err := r.e.Inspect().Message(r.ctx, r.caller, r.partition("q", "p").ID, item.MessageID.String())
		check(r, err == nil && d.Record.Offset == 0, "detail by the id that was told: %+v %v", d, err)
		op = schedule("anonymous", 0)
		op.Message.TransactionID = ""
		item = r.timer(op)
		r.advance(time.Second)
		r.stored("q", "p", "txn", item.MessageID.String())
	}},
	{"S-tmr-3", "a delay counts from now on the engine's clock", func(r *rig) {
		before := format.Wall(r.clock.Now())
		item := r.timer(schedule("k", time.Minute))
		equal(r, "due", item.Due, before+60e6)
		at := schedule("at", 0)
		at.At = before + 30e6
		equal(r, "at", r.timer(at).Due, before+30e6)
		both := schedule("both", time.Second)
		both.At = before + 1
		equal(r, "both", code(r.do(&both)[0].Err), engine.CodeBadRequest)
	}},
	{"S-tmr-4", "never before it is due", func(r *rig) {
		r.timer(schedule("k", time.Minute))
		r.advance(time.Minute - time.Microsecond)
		_, there := r.pending("k")
		check(r, there, "it fired before its time")
		r.advance(time.Microsecond)
		r.stored("q", "p", "t-k")
		_, there = r.pending("k")
		check(r, !there, "it fired and is still pending")
	}},
	{"S-tmr-5", "what is overdue fires, oldest first", func(r *rig) {
		var ids []string
		for i := range 600 {
			op := schedule(fmt.Sprintf("k%03d", i), time.Duration(600-i)*time.Second)
			r.timer(op)
			ids = append([]string{op.Message.TransactionID}, ids...)
		}
		r.advance(time.Hour)
		r.stored("q", "p", ids...)
	}},
	{"S-tmr-6", "no delay, or less, fires at once", func(r *rig) {
		r.timer(schedule("a", 0))
		r.advance(time.Microsecond)
		r.timer(schedule("b", -time.Hour))
		r.advance(time.Microsecond)
		r.some(popOf("q"), "t-a", "t-b")
	}},
	{"S-tmr-8", "what was cancelled never fires", func(r *rig) {
		r.timer(schedule("k", time.Minute))
		equal(r, "cancel", r.cancel("k"), format.TimerCancelled)
		r.advance(time.Hour)
		_, err := r.e.Catalog().Queue(r.ctx, r.caller, "q")
		equal(r, "nothing fired", code(err), engine.CodeUnknownQueue)
	}},
	{"S-tmr-9", "a cancel of nothing is absent", func(r *rig) {
		equal(r, "never", r.cancel("k"), format.TimerAbsent)
		r.timer(schedule("k", time.Minute))
		r.advance(time.Minute)
		equal(r, "fired", r.cancel("k"), format.TimerAbsent)
		r.timer(schedule("l", time.Minute))
		r.cancel("l")
		equal(r, "cancelled", r.cancel("l"), format.TimerAbsent)
	}},
	{"S-tmr-10", "scheduled anew after the fire it is a new message", func(r *rig) {
		r.timer(schedule("k", time.Second))
		r.advance(time.Second)
		op := schedule("k", time.Second)
		op.Message = msg("again")
		equal(r, "status", r.timer(op).Status, format.TimerScheduled)
		r.advance(time.Second)
		r.stored("q", "p", "t-k", "again")
	}},
	{"S-dup-12", "a fire inside the dedup window of its id appends nothing", func(r *rig) {
		r.push("q", "p", "t-k")
		r.timer(schedule("k", time.Second))
		r.advance(time.Second)
		r.stored("q", "p", "t-k")
		_, there := r.pending("k")
		check(r, !there, "it is still pending")
	}},
	{"S-tmr-11", "a fire wakes who waits", func(r *rig) {
		wait := popOf("q")
		wait.Wait = time.Minute
		parked := r.parked(wait)
		r.timer(schedule("k", time.Second))
		r.advance(time.Second)
		r.arrives(parked, "t-k")
	}},
	{"S-tmr-13", "limits, alone and in a transaction", func(r *rig) {
		for _, atomic := range []bool{false, true} {
			refused := func(what string, want engine.ErrorCode, op engine.Timer) {
				r.t.Helper()
				if atomic {
					r.rolledBack(want, 0, &op)
					return
				}
				equal(r, what, code(r.do(&op)[0].Err), want)
			}
			refused("horizon", engine.CodeBadRequest, schedule("k", 90*24*time.Hour+time.Second))
			op := schedule("k", 0)
			op.At = format.Wall(r.clock.Now()) + 91*86400e6
			refused("horizon at", engine.CodeBadRequest, op)
			op = schedule("k", time.Second)
			op.Message = msg("", strings.Repeat("x", 1<<20+1))
			refused("payload", engine.CodeTooLarge, op)
			refused("key", engine.CodeBadRequest, schedule("", time.Second))
			refused("key", engine.CodeBadRequest, schedule(strings.Repeat("k", 513), time.Second))
			op = schedule("k", time.Second)
			op.Partition = strings.Repeat("p", 447)
			refused("name", engine.CodeNameTooLong, op)
		}
		var ops []engine.Op
		for i := range 257 {
			op := schedule(fmt.Sprint(i), time.Hour)
			ops = append(ops, &op)
		}
		r.refusedAll(engine.CodeBadRequest, ops...)
		a, b := schedule("k", time.Hour), engine.Timer{Op: format.TimerCancel, Queue: "q", Key: "k"}
		r.refusedAll(engine.CodeBadRequest, &a, &b)
		full := schedule("k", 90*24*time.Hour)
		full.Message = msg("", strings.Repeat("x", 1<<20))
		r.timer(full)
	}},
	{"S-tmr-14", "answers stand in the order of the ops", func(r *rig) {
		r.timer(schedule("a", time.Hour))
		x, y := engine.Timer{Op: format.TimerCancel, Queue: "q", Key: "a"}, engine.Timer{Op: format.TimerCancel, Queue: "q", Key: "b"}
		z := schedule("c", time.Hour)
		res := r.do(&y, &z, &x)
		check(r, res[0].Timer.Status == format.TimerAbsent && res[1].Timer.Status == format.TimerScheduled &&
			res[2].Timer.Status == format.TimerCancelled, "%+v", res)
	}},
	{"S-tmr-15", "timers can be looked at", func(r *rig) {
		for _, key := range []string{"b", "a", "c/1", "c/2"} {
			r.timer(schedule(key, time.Hour))
		}
		r.as(4).timer(schedule("d", time.Hour))
		info, there := r.pending("a")
		check(r, there && info.Partition == "p" && info.TransactionID == "t-a" && string(info.Message.Payload) == `"t-a"` &&
			info.Due == info.Created+3600e6 && info.Attempts == 0, "%+v", info)
		rows, next, err := r.e.Keyed().Timers(r.ctx, r.caller, "q", engine.Page{Limit: 3})
		check(r, err == nil && len(rows) == 3 && rows[0].Key == "a" && rows[2].Key == "c/1" && next == "c/1", "%+v %q %v", rows, next, err)
		check(r, rows[0].Message.Payload == nil && rows[0].MessageID == info.MessageID, "%+v", rows[0])
		rows, next, err = r.e.Keyed().Timers(r.ctx, r.caller, "q", engine.Page{Limit: 3, After: next})
		check(r, err == nil && len(rows) == 1 && next == "", "%+v %q %v", rows, next, err)
		n, err := r.e.Keyed().CountTimers(r.ctx, r.caller, "q", "c/")
		check(r, err == nil && n == 2, "%d %v", n, err)
	}},
	{"S-tmr-17", "a fire that is refused comes again", func(r *rig) {
		r.push("q", "p", "a")
		r.timer(schedule("k", time.Second))
		r.configure("q", format.OptMaxSize, format.QueueOptions{MaxSize: 1})
		r.advance(time.Second)
		info, there := r.pending("k")
		check(r, there && info.Attempts == 1 && info.LastError != "", "%+v", info)
		for _, pause := range []time.Duration{1, 2, 4} {
			r.advance(pause * time.Second)
		}
		info, there = r.pending("k")
		check(r, there && info.Attempts == 4, "%+v", info)
		r.configure("q", format.OptMaxSize, format.QueueOptions{MaxSize: 2})
		r.advance(time.Minute)
		r.stored("q", "p", "a", "t-k")
	}},
	{"S-tmr-17", "a timer that can not fire becomes a dead letter", deadTimerRule},
	{"S-tmr-18", "a recurring timer fires again and again", recurringRule},
	{"S-tmr-8", "what is paused does not fire before it is resumed", pauseRule},
}

// refuse lets a timer that is due in a second be refused so often that it is given up, not earlier.
func (r *rig) refuse(key string) {
	r.t.Helper()
	for i, pause := range []time.Duration{1, 1, 2, 4} {
		r.advance(pause * time.Second)
		info, there := r.pending(key)
		check(r, there && info.Attempts == uint32(i+1), "try %d: %v, %+v", i, there, info)
	}
	r.advance(8 * time.Second)
}

// deadTimerRule is the end of a timer whose queue takes no more: what it held is kept, under the id that was told, can be
// found, moved and deleted as any dead letter, and stops nobody.
func deadTimerRule(r *rig) {
	r.push("q", "p", "a")
	r.configure("q", format.OptMaxSize, format.QueueOptions{MaxSize: 1})
	op := schedule("k", time.Second)
	op.Message.Headers = []engine.Header{{Name: "h", Value: []byte("v")}}
	item := r.timer(op)
	r.refuse("k")
	_, there := r.pending("k")
	check(r, !there, "it is pending and a dead letter")
	rows := r.deadLetters(engine.DeadLetterFilter{Queue: "q"})
	equal(r, "dead letters", len(rows), 1)
	d := rows[0]
	check(r, d.Group == "__timer__" && d.Timer == "k" && d.Partition == "p" && d.Retries == 5 && strings.Contains(d.Error, "maxSize"), "%+v", d)
	check(r, d.Message.ID == item.MessageID && d.Message.TransactionID == "t-k" && string(d.Message.Payload) == `"t-k"` &&
		len(d.Message.Headers) == 1 && string(d.Message.Headers[0].Value) == "v", "%+v", d.Message)
	equal(r, "cancel", r.cancel("k"), format.TimerAbsent)
	r.some(popOf("q"), "a").with("c")
	r.none(popOf("q"))
	full := r.do(&engine.Redrive{DeadLetter: d.ID})[0]
	equal(r, "redrive into what is full", code(full.Err), engine.CodeTooLarge)
	address := &engine.Redrive{ByAddress: true, PartitionID: d.PartitionID, TransactionID: "t-k", Partition: "p2", ToPart: true}
	moved := r.do(address)[0]
	check(r, moved.Err == nil && moved.Redrive.Group == "__timer__", "%+v", moved)
	copies := r.stored("q", "p2", "dlq:"+d.ID.String())
	check(r, len(copies[0].Headers) == 1 && string(copies[0].Payload) == `"t-k"`, "%+v", copies[0])
	equal(r, "dead letters", len(r.deadLetters(engine.DeadLetterFilter{})), 0)

	every := recurring("* * * * *")
	every.MaxFires = 2
	r.timer(every)
	r.timer(schedule("k", time.Second))
	r.timer(schedule("l", time.Second))
	for range 12 {
		r.advance(time.Minute)
	}
	var ids []string
	for _, d := range r.deadLetters(engine.DeadLetterFilter{Group: "__timer__"}) {
		ids = append(ids, d.Message.TransactionID)
	}
	slices.Sort(ids)
	equal(r, "given up", fmt.Sprint(ids), "[c@1 c@2 t-k t-l]")
	n, err := r.e.Catalog().DeleteDeadLetters(r.ctx, r.caller, d.PartitionID, "t-k")
	check(r, err == nil && n == 1, "%d deleted, %v", n, err)
	group := "__timer__"
	n, err = r.e.Catalog().Purge(r.ctx, r.caller, "q", &group)
	check(r, err == nil && n == 3, "%d purged, %v", n, err)
}

func recurring(cron string) engine.Timer {
	op := schedule("c", 0)
	op.Cron, op.Message.TransactionID = cron, ""
	return op
}

// pauseRule is R-17: a pause holds whatever fell due before it and after it, once only; a schedule ends it.
func pauseRule(r *rig) {
	hold := func(key string, op format.TimerOp) engine.TimerItem {
		return r.timer(engine.Timer{Op: op, Queue: "q", Key: key})
	}
	equal(r, "pause of nothing", hold("k", format.TimerPause).Status, format.TimerAbsent)
	equal(r, "resume of nothing", hold("k", format.TimerResume).Status, format.TimerAbsent)
	due := r.timer(schedule("k", time.Minute)).Due
	for range 2 {
		item := hold("k", format.TimerPause)
		check(r, item.Status == format.TimerPaused && item.Due == due, "%+v", item)
	}
	r.advance(time.Hour)
	info, there := r.pending("k")
	check(r, there && info.Paused && info.Due == due && info.Attempts == 0, "%+v", info)
	equal(r, "resume", hold("k", format.TimerResume).Status, format.TimerResumed)
	r.advance(time.Microsecond)
	r.stored("q", "p", "t-k")
	for _, c := range []struct {
		policy engine.CatchUp
		want   []string
	}{{engine.CatchUpOne, []string{"c@1", "c@2"}}, {engine.CatchUpAll, []string{"c@1", "c@2", "c@3", "c@4", "c@5"}}, {engine.CatchUpSkip, []string{"c@1"}}} {
		op := recurring("* * * * *")
		op.CatchUp, op.Partition, op.MaxFires = c.policy, fmt.Sprint("p", c.policy), 5
		r.timer(op)
		r.advance(time.Minute)
		hold("c", format.TimerPause)
		r.advance(20 * time.Minute)
		r.stored("q", op.Partition, "c@1")
		hold("c", format.TimerResume)
		r.advance(time.Microsecond)
		r.stored("q", op.Partition, c.want...)
		r.cancel("c")
	}
	r.timer(schedule("n", time.Minute))
	hold("n", format.TimerPause)
	r.timer(schedule("n", time.Minute))
	r.advance(time.Minute)
	r.stored("q", "p", "t-k", "t-n")
}

// recurringRule is R-17: times by cron and zone, numbered messages, an end. What happens to fires that are missed
// shows only after a stop.
func recurringRule(r *rig) {
	item := r.timer(recurring("* * * * *"))
	equal(r, "on the minute", int64(item.Due)%60e6, 0)
	check(r, item.MessageID.IsZero(), "a recurring timer told an id")
	for range 3 {
		r.advance(time.Minute)
	}
	recs := r.stored("q", "p", "c@1", "c@2", "c@3")
	check(r, recs[1].CreatedAt > recs[0].CreatedAt, "%+v", recs)
	info, _ := r.pending("c")
	check(r, info.Fires == 3 && info.Cron == "* * * * *", "%+v", info)
	all := recurring("* * * * *")
	all.CatchUp, all.Partition, all.MaxFires = engine.CatchUpAll, "all", 5
	r.timer(all)
	r.advance(10 * time.Minute)
	r.stored("q", "all", "c@1", "c@2", "c@3", "c@4", "c@5")
	_, there := r.pending("c")
	check(r, !there, "it goes on after its last fire")
	zone := recurring("30 14 1 7 *")
	zone.Zone = "Asia/Kolkata"
	at := time.UnixMicro(int64(r.timer(zone).Due)).UTC()
	check(r, at.Hour() == 9 && at.Minute() == 0 && at.Month() == time.July, "14:30 in Kolkata is %v", at)
	for _, op := range []engine.Timer{recurring("* * * *"), recurring("61 * * * *"), recurring("@daily"), recurring("30 0 31 2 *")} {
		equal(r, op.Cron, code(r.do(&op)[0].Err), engine.CodeBadRequest)
	}
	zone.Zone = "Nowhere/Land"
	equal(r, "zone", code(r.do(&zone)[0].Err), engine.CodeBadRequest)
}
