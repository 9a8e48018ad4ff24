package enginetest

import (
	"fmt"
	"strings"
	"time"

	"queen/engine"
	"queen/engine/format"
)

var idRules = []rule{
	{"S-id-1", "tenants share nothing", func(r *rig) {
		other := r.as(7)
		wait := popOf("q")
		wait.Wait = 30 * time.Second
		parked := other.parked(wait)
		r.push("q", "p", "a")
		other.push("q", "p", "a")
		other.arrives(parked, "a").all()
		r.some(popOf("q"), "a")
		id := r.partition("q", "p").ID
		_, err := other.e.Catalog().PartitionByID(r.ctx, other.caller, id)
		equal(r, "foreign id", code(err), engine.CodeUnknownPartition)
	}},
	{"S-id-2", "a partition has a name and a number", func(r *rig) {
		r.push("q", "p", "a")
		p := r.partition("q", "p")
		again, err := r.e.Catalog().PartitionByID(r.ctx, r.caller, p.ID)
		check(r, err == nil && again.Name == "p" && again.Queue == "q", "by id: %+v %v", again, err)
		r.push("q", "p2", "a")
		check(r, r.partition("q", "p2").ID != p.ID, "two partitions with id %v", p.ID)
	}},
	{"S-id-4", "no group means queue mode", func(r *rig) {
		r.push("q", "p", "a")
		b := r.some(popOf("q"), "a")
		equal(r, "group", b.d.Group, format.QueueMode)
		a := b.ack(0, format.AckCompleted)
		a.Group = format.QueueMode
		check(r, r.do(a)[0].Err == nil, "ack by the reserved name is refused")
	}},
	{"S-id-5", "names have no character rules", func(r *rig) {
		for _, name := range []string{"a b", "a/b:c", "é🙂", "..", "%2F", "a\nb"} {
			r.push(name, name, name)
			req := grouped(name, name, format.StartAll)
			b := r.some(req, name)
			equal(r, "partition", b.d.Claims[0].Partition, name)
			equal(r, "queue", b.d.Claims[0].Queue, name)
			b.all()
		}
	}},
	{"S-id-6", "name budget", func(r *rig) {
		fits := strings.Repeat("p", format.NameBudget-format.TenantNameBytes-1)
		r.push("q", fits, "a")
		equal(r, "one byte over", r.refused("q2", fits, "a"), engine.CodeNameTooLong)
		_, err := r.e.Catalog().Queue(r.ctx, r.caller, "q2")
		equal(r, "queue after a refused push", code(err), engine.CodeUnknownQueue)
		_, err = r.popErr(grouped("q2", fits, 0))
		equal(r, "group over", code(err), engine.CodeNameTooLong)
	}},
	{"S-id-7", "labels come from the dotted name of a pushed queue", func(r *rig) {
		for name, want := range map[string][2]string{"billing.invoices.x": {"billing", "invoices"}, "orders": {"orders", ""}} {
			r.push(name, "p", "a")
			info, err := r.e.Catalog().Queue(r.ctx, r.caller, name)
			check(r, err == nil, "Queue: %v", err)
			equal(r, name, [2]string{info.Options.Namespace, info.Options.Task}, want)
		}
		equal(r, "configured", r.configure("a.b", 0, format.QueueOptions{}).Options.Namespace, "")
	}},
	{"S-id-8", "labels change only discovery", func(r *rig) {
		r.push("q", "p", "a", "b")
		r.pop(popOf("q")).with("c-")
		r.configure("q", format.OptNamespace|format.OptTask, format.QueueOptions{Namespace: "n", Task: "t"})
		r.advance(61 * time.Second)
		r.some(popOf("q"), "b").all()
		r.push("q", "p", "c")
		r.some(engine.PopRequest{Scope: engine.Scope{Discovery: true, Namespace: "n", Task: "t"}}, "c")
		r.none(engine.PopRequest{Scope: engine.Scope{Discovery: true, Namespace: "q"}})
	}},
	{"S-id-10", "ids are fresh version 7 UUIDs; offsets count from 0", func(r *rig) {
		ids := map[format.UUID]bool{}
		for i := range 20 {
			m := r.push("q", "p", fmt.Sprint(i))[0]
			equal(r, "offset", m.Offset, format.Offset(i))
			check(r, m.ID[6]>>4 == 7 && m.ID[8]>>6 == 2, "%v is no UUIDv7", m.ID)
			check(r, !ids[m.ID], "id %v twice", m.ID)
			ids[m.ID] = true
		}
	}},
	{"S-id-11", "a partition that comes back starts at 0", func(r *rig) {
		r.push("q", "p", "a", "b")
		old := r.partition("q", "p").ID
		_, err := r.e.Catalog().DeleteQueue(r.ctx, r.caller, "q")
		check(r, err == nil, "DeleteQueue: %v", err)
		equal(r, "offset", r.push("q", "p", "c")[0].Offset, 0)
		check(r, r.partition("q", "p").ID != old, "the id %v came back", old)
	}},
	{"S-id-12", "a push creates what it names", func(r *rig) {
		_, err := r.e.Catalog().Queue(r.ctx, r.caller, "q")
		equal(r, "before", code(err), engine.CodeUnknownQueue)
		r.push("q", "p", "a")
		equal(r, "end", r.partition("q", "p").End, 1)
	}},
	{"S-id-13", "a pop of an unknown queue is empty and subscribes", func(r *rig) {
		r.none(grouped("q", "g", format.StartNew))
		r.push("q", "p", "a")
		r.some(grouped("q", "g", format.StartNew), "a")
	}},
	{"S-id-17", "transactionId is at most 65,535 bytes", func(r *rig) {
		id := strings.Repeat("x", format.MaxTransactionID)
		r.push("q", "p", id)
		equal(r, "repeat", r.pushAny("q", "p", id)[0].Status, engine.Duplicate)
		equal(r, "over", r.refused("q", "p", id+"x"), engine.CodeBadRequest)
		equal(r, "end", r.partition("q", "p").End, 1)
	}},
}

var configRules = []rule{
	{"S-cfg-1", "absent keeps, reset restores, replace resets all", func(r *rig) {
		r.configure("q", format.OptRetryLimit|format.OptLeaseTime, format.QueueOptions{RetryLimit: 9, LeaseTime: 7})
		o := r.configure("q", format.OptPriority, format.QueueOptions{Priority: 2}).Options
		check(r, o.RetryLimit == 9 && o.LeaseTime == 7 && o.Priority == 2, "merged: %+v", o)
		info, err := r.e.Catalog().Configure(r.ctx, r.caller, engine.ConfigureRequest{Queue: "q", Reset: format.OptRetryLimit})
		check(r, err == nil && info.Options.RetryLimit == 3 && info.Options.LeaseTime == 7, "reset: %+v %v", info.Options, err)
		info, err = r.e.Catalog().Configure(r.ctx, r.caller, engine.ConfigureRequest{Queue: "q", Replace: true,
			Patch: format.QueueOptions{Set: format.OptPriority, Priority: 4}})
		check(r, err == nil && info.Options.LeaseTime == 300 && info.Options.Priority == 4, "replaced: %+v %v", info.Options, err)
	}},
	{"S-cfg-2", "defaults", func(r *rig) {
		o := r.configure("q", 0, format.QueueOptions{}).Options
		equal(r, "configured", o, format.DefaultOptions(true))
		r.push("pushed", "p", "a")
		info, err := r.e.Catalog().Queue(r.ctx, r.caller, "pushed")
		want := format.DefaultOptions(false)
		want.Namespace = "pushed"
		check(r, err == nil && info.Options == want, "pushed: %+v %v", info.Options, err)
	}},
	{"S-cfg-3", "an edit of a pushed queue keeps its lease time", func(r *rig) {
		r.push("q", "p", "a")
		equal(r, "leaseTime", r.configure("q", format.OptRetryLimit, format.QueueOptions{RetryLimit: 1}).Options.LeaseTime, 60)
	}},
	{"S-cfg-4", "the echo shows what is in force", func(r *rig) {
		for in, want := range map[int64]int64{-1: 0, 100: 100, 99999: 60000} {
			o := r.configure("q", format.OptMinPopWaitTime, format.QueueOptions{MinPopWaitTimeMs: in}).Options
			equal(r, "minPopWaitTime", o.MinPopWaitTimeMs, want)
		}
		o := r.configure("q", format.OptDedupWindowSeconds, format.QueueOptions{DedupWindowSeconds: -4}).Options
		equal(r, "dedupWindowSeconds", o.DedupWindowSeconds, 0)
	}},
	{"S-cfg-5", "options that only echo", func(r *rig) {
		o := r.configure("q", format.OptPriority|format.OptMinPopWaitTime,
			format.QueueOptions{Priority: 5, MinPopWaitTimeMs: 60000}).Options
		check(r, o.Priority == 5 && o.MinPopWaitTimeMs == 60000, "echo: %+v", o)
		check(r, o.RetryDelayMs == 1000 && o.TTL == 3600 && o.MaxSize == 0, "never set: %+v", o)
		r.push("q", "p", "a")
		r.some(popOf("q"), "a").with("f")
		b := r.pop(popOf("q")) // no delay was configured, the echo of 1000 notwithstanding
		check(r, b != nil, "a nacked message was held back")
	}},
	{"S-cfg-5", "maxSize bounds what a partition retains, where it is set", func(r *rig) {
		r.configure("q", format.OptMaxSize|format.OptMaxWaitTimeSeconds, format.QueueOptions{MaxSize: 3, MaxWaitTimeSeconds: 10})
		r.push("q", "p", "a", "b")
		res := r.pushAny("q", "p", "a", "c", "c", "d", "b", "d", "")
		for i, want := range []engine.MessageStatus{engine.Duplicate, engine.Queued, engine.Duplicate, engine.Refused, engine.Duplicate,
			engine.Refused, engine.Refused} {
			equal(r, fmt.Sprint("message ", i), res[i].Status, want)
			check(r, want != engine.Refused || code(res[i].Err) == engine.CodeTooLarge && res[i].Err.Field == "maxSize", "%v", res[i].Err)
		}
		equal(r, "another partition", r.push("q", "p2", "a")[0].Offset, 0)
		r.some(pinned("q", "p"), "a", "b", "c").all() // what is acked is retained all the same
		equal(r, "still full", r.refused("q", "p", "d"), engine.CodeTooLarge)
		r.advance(9 * time.Second)
		equal(r, "still full", r.refused("q", "p", "d"), engine.CodeTooLarge)
		r.removedBy("q", "p", 3)
		equal(r, "after retention", r.push("q", "p", "d", "e")[1].Offset, 4)
		r.advance(5 * time.Second)
		r.push("q", "p", "f")
		equal(r, "full again", r.refused("q", "p", "g"), engine.CodeTooLarge)
		r.removedBy("q", "p", 5)
		equal(r, "room for what is gone", r.push("q", "p", "g", "h")[1].Offset, 7)
		r.configure("q", format.OptMaxSize, format.QueueOptions{MaxSize: 1})
		equal(r, "lowered", r.refused("q", "p", "i"), engine.CodeTooLarge)
		equal(r, "start", r.partition("q", "p").Start, 5)
		r.configure("q", format.OptMaxSize, format.QueueOptions{})
		equal(r, "0 is no bound", r.push("q", "p", "i")[0].Offset, 8)
	}},
	{"S-cfg-6", "what a change applies to", func(r *rig) {
		r.configure("q", format.OptLeaseTime|format.OptRetryLimit, format.QueueOptions{LeaseTime: 100, RetryLimit: 3})
		r.push("q", "p", "a")
		r.some(popOf("q"), "a")
		r.configure("q", format.OptLeaseTime, format.QueueOptions{LeaseTime: 10})
		r.advance(11 * time.Second)
		r.none(popOf("q")) // the old lease keeps its length
		r.advance(89 * time.Second)
		r.some(popOf("q"), "a").with("f")
		r.configure("q", format.OptRetryLimit, format.QueueOptions{RetryLimit: 1}) // one is charged already
		equal(r, "filed", r.some(popOf("q"), "a").with("f")[0].Ack.Filed, true)
		r.push("q", "p", "b")
		r.configure("q", format.OptDelayedProcessing, format.QueueOptions{DelayedProcessing: 30})
		r.none(popOf("q"))
	}},
	{"S-cfg-7", "both flags off drop what is exhausted", func(r *rig) {
		for _, flags := range [][2]bool{{true, false}, {false, true}, {false, false}} {
			name := fmt.Sprint(flags)
			r.configure(name, format.OptDeadLetterQueue|format.OptDLQAfterMaxRetries|format.OptRetryLimit,
				format.QueueOptions{DeadLetterQueue: flags[0], DLQAfterMaxRetries: flags[1]})
			r.push(name, "p", "a")
			filed := r.some(popOf(name), "a").with("f")[0].Ack.Filed
			equal(r, "filed with flags "+name, filed, flags[0] || flags[1])
			r.none(popOf(name))
		}
	}},
	{"S-cfg-8", "deleting a queue forgets all of it", func(r *rig) {
		r.push("q", "p", "a", "b")
		r.pop(popOf("q")).with("cd")
		existed, err := r.e.Catalog().DeleteQueue(r.ctx, r.caller, "q")
		check(r, existed && err == nil, "DeleteQueue: %v %v", existed, err)
		_, err = r.e.Catalog().Configure(r.ctx, r.caller, engine.ConfigureRequest{Queue: "q"})
		check(r, err == nil, "Configure: %v", err)
		info, err := r.e.Catalog().Queue(r.ctx, r.caller, "q")
		check(r, err == nil, "Queue: %v", err)
		existed, err = r.e.Catalog().DeleteLife(r.ctx, r.caller, "q", info.ID+1)
		check(r, !existed && err == nil, "DeleteLife of another life: %v %v", existed, err)
		existed, err = r.e.Catalog().DeleteLife(r.ctx, r.caller, "q", info.ID)
		check(r, existed && err == nil, "DeleteLife: %v %v", existed, err)
		existed, err = r.e.Catalog().DeleteLife(r.ctx, r.caller, "q", info.ID)
		check(r, !existed && err == nil, "DeleteLife again: %v %v", existed, err)
		existed, err = r.e.Catalog().DeleteQueue(r.ctx, r.caller, "q")
		check(r, !existed && err == nil, "again: %v %v", existed, err)
		equal(r, "dead letters", len(r.deadLetters(engine.DeadLetterFilter{Queue: "q"})), 0)
		equal(r, "id after deletion", r.push("q", "p", "a")[0].Offset, 0)
		r.some(popOf("q"), "a")
	}},
	{"S-cfg-9", "delay and window compose: the later hold decides", func(r *rig) {
		r.configure("q", format.OptDelayedProcessing|format.OptWindowBuffer,
			format.QueueOptions{DelayedProcessing: 10, WindowBuffer: 2})
		r.push("q", "p", "a")
		r.none(popOf("q"))
		r.advance(3 * time.Second)
		r.none(popOf("q"))
		r.advance(7 * time.Second)
		r.some(popOf("q"), "a")
	}},
}
