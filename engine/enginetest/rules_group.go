package enginetest

import (
	"time"

	"queen/engine"
	"queen/engine/format"
)

func toEnd(queue, group string) engine.SetOffset {
	return engine.SetOffset{Queue: queue, Group: group, Whole: true, To: engine.SeekTo{End: true}}
}

func toTime(queue, group string, w format.Wall) engine.SetOffset {
	return engine.SetOffset{Queue: queue, Group: group, Whole: true, To: engine.SeekTo{ByTime: true, Time: w}}
}

var groupRules = []rule{
	{"S-sub-1", "the first pop decides where a group starts", func(r *rig) {
		r.push("q", "p", "a")
		r.none(grouped("q", "g", format.StartNew))
		r.none(grouped("q", "g", format.StartAll))
		r.some(grouped("q", "h", format.StartAll), "a").all()
		r.push("q", "p", "b")
		r.some(grouped("q", "g", format.StartAll), "b")
		r.some(grouped("q", "h", format.StartNew), "b")
	}},
	{"S-sub-2", "new, the default, sees only what comes after", func(r *rig) {
		r.push("q", "p", "a")
		r.none(grouped("q", "g", 0))
		r.push("q", "p", "b")
		r.some(grouped("q", "g", 0), "b")
	}},
	{"S-sub-3", "new covers partitions born later", func(r *rig) {
		r.push("q", "p", "a")
		r.none(grouped("q", "g", format.StartNew))
		r.push("q", "born", "b")
		r.some(grouped("q", "g", format.StartNew), "b")
	}},
	{"S-sub-4", "all starts at the oldest retained", func(r *rig) {
		r.push("q", "p", "a", "b")
		r.some(popOf("q"), "a", "b").all()
		r.some(grouped("q", "g", format.StartAll), "a", "b")
		r.configure("short", format.OptMaxWaitTimeSeconds, format.QueueOptions{MaxWaitTimeSeconds: 10})
		r.push("short", "p", "a")
		r.removedBy("short", "p", 1)
		r.push("short", "p", "b")
		r.some(grouped("short", "g", format.StartAll), "b")
	}},
	{"S-sub-5", "from a time: the first message not older", func(r *rig) {
		for _, id := range []string{"a", "b", "c"} {
			r.push("q", "p", id)
			r.push("q", "p2", id)
			r.advance(10 * time.Second)
		}
		req := grouped("q", "g", format.StartFrom)
		req.Start.From, req.Partitions = epoch+10e6, 2
		r.some(req, "b", "c", "b", "c")
		req.Group, req.Start.From, req.Partitions = "h", epoch+10e6+1, 1
		r.some(req, "c")
		req.Group, req.Start.From = "i", epoch+3600e6
		r.none(req)
	}},
	{"S-sub-6", "queue mode never skips the backlog", func(r *rig) {
		r.push("q", "p", "a")
		r.some(grouped("q", "", format.StartNew), "a")
	}},
	{"S-sub-7", "queue mode and a group keep separate cursors", func(r *rig) {
		r.none(grouped("q", "g", format.StartNew))
		r.none(popOf("q"))
		r.push("q", "p", "a")
		r.some(popOf("q"), "a").all()
		r.some(grouped("q", "g", 0), "a").all()
	}},
	{"S-seek-1", "a seek ends leases and forgets attempts and retries; unknown names fail", func(r *rig) {
		r.configure("q", format.OptRetryLimit, format.QueueOptions{RetryLimit: 1})
		r.push("q", "p", "a", "b")
		r.some(popOf("q"), "a", "b").with("f")
		b := r.some(popOf("q"), "a", "b")
		equal(r, "attempt", b.attempt(), 2)
		r.seek(engine.SetOffset{Queue: "q", Partition: "p", To: engine.SeekTo{Offset: 0}})
		b = r.some(popOf("q"), "a", "b")
		equal(r, "attempt after", b.attempt(), 1)
		equal(r, "filed after", b.with("f")[0].Ack.Filed, false)
		for _, op := range []engine.SetOffset{toEnd("nowhere", ""), {Queue: "nowhere", Partition: "p"}, {Queue: "q", Partition: "nowhere"}} {
			res := r.do(&op)[0]
			got := code(res.Err)
			check(r, got == engine.CodeUnknownQueue || got == engine.CodeUnknownPartition, "seek of %+v: %q", op, got)
		}
	}},
	{"S-seek-2", "to the end, to a time, to before and after everything", func(r *rig) {
		r.push("q", "p", "a")
		r.advance(10 * time.Second)
		r.push("q", "p", "b")
		r.none(grouped("q", "g", format.StartNew))
		for _, at := range []struct {
			op   engine.SetOffset
			want []string
		}{
			{toTime("q", "g", 0), []string{"a", "b"}}, {toTime("q", "g", epoch), []string{"a", "b"}},
			{toTime("q", "g", epoch+1), []string{"b"}}, {toTime("q", "g", epoch+3600e6), nil}, {toEnd("q", "g"), nil},
			{engine.SetOffset{Queue: "q", Partition: "p", Group: "g", To: engine.SeekTo{Offset: 1}}, []string{"b"}},
		} {
			r.seek(at.op)
			if at.want == nil {
				r.none(grouped("q", "g", 0))
			} else {
				r.some(grouped("q", "g", 0), at.want...)
			}
		}
	}},
	{"S-seek-3", "after a backward seek the messages come at once", func(r *rig) {
		r.pushEach("q", 3, 2)
		req := popOf("q")
		req.Partitions = 3
		r.pop(req).all()
		r.none(req)
		r.seek(toTime("q", "", 0))
		equal(r, "messages", len(r.pop(req).messages), 6)
	}},
	{"S-seek-4", "a seek of a queue names what it moved", func(r *rig) {
		r.pushEach("q", 3, 1)
		r.none(grouped("q", "g", format.StartNew))
		equal(r, "rows", r.seek(engine.SetOffset{Queue: "q", Group: "g", Partition: "p1", To: engine.SeekTo{End: true}}).Rows, 1)
		equal(r, "rows of the queue", r.seek(toEnd("q", "g")).Rows, 3)
	}},
	{"S-seek-5", "a deleted group starts afresh", func(r *rig) {
		r.push("q", "p", "a")
		r.push("q2", "p", "a")
		all := grouped("q", "g", format.StartAll)
		r.some(all, "a").all()
		r.some(grouped("q2", "g", format.StartAll), "a").all()
		n, err := r.e.Catalog().DeleteGroup(r.ctx, r.caller, "g", "q", false, false)
		check(r, err == nil && n == 1, "DeleteGroup: %d %v", n, err)
		r.some(all, "a").all()
		r.none(grouped("q2", "g", format.StartAll))
		n, err = r.e.Catalog().DeleteGroup(r.ctx, r.caller, "g", "", true, false)
		check(r, err == nil && n == 2, "DeleteGroup on all: %d %v", n, err)
		r.some(grouped("q2", "g", format.StartAll), "a")
		n, err = r.e.Catalog().DeleteGroup(r.ctx, r.caller, "nobody", "", true, false)
		check(r, err == nil && n == 0, "unknown group: %d %v", n, err)
	}},
	{"S-seek-6", "an ack from before a seek is refused", func(r *rig) {
		r.push("q", "p", "a", "b")
		b := r.some(popOf("q"), "a", "b")
		r.seek(toEnd("q", ""))
		got := code(r.do(b.ack(1, format.AckCompleted))[0].Err)
		check(r, got == engine.CodeLeaseInvalid || got == engine.CodeNotLeased, "ack: %q", got)
	}},
	{"S-seek-7", "acking deletes nothing", func(r *rig) {
		r.push("q", "p", "a")
		r.some(popOf("q"), "a").all()
		r.some(grouped("q", "g", format.StartAll), "a").all()
		equal(r, "retained", len(r.read("q", "p", 0).Records), 1)
	}},
}

var adminRules = []rule{
	{"S-grp-1", "groups are listed with where they start and how far they are", func(r *rig) {
		r.pushEach("q", 2, 3)
		r.pop(grouped("q", "g", format.StartAll)).all()
		r.none(grouped("q", "h", format.StartNew))
		r.swept()
		rows, err := r.e.Catalog().Groups(r.ctx, r.caller)
		check(r, err == nil && len(rows) == 2, "Groups: %+v %v", rows, err)
		for _, g := range rows {
			if g.Name == "g" {
				check(r, g.Queue == "q" && g.Start.Kind == format.StartAll && g.RegisteredAt == epoch && g.Cursors >= 1 &&
					g.Consumed && g.Lag == 3 && g.PartitionsWithLag == 1, "g: %+v", g)
			} else {
				check(r, g.Start.Kind == format.StartNew && !g.Consumed && g.Lag == 0, "h: %+v", g)
			}
		}
	}},
	{"S-grp-2", "lag is exact, and what was removed is not lag", func(r *rig) {
		r.configure("q", format.OptMaxWaitTimeSeconds, format.QueueOptions{MaxWaitTimeSeconds: 10})
		r.push("q", "p", "a", "b")
		r.none(grouped("q", "new", format.StartNew))
		req := grouped("q", "g", format.StartAll)
		req.Batch = 1
		r.some(req, "a").all()
		equal(r, "lag", r.groupPart("g", "q").Lag, 1)
		r.removedBy("q", "p", 2)
		equal(r, "lag of what is gone", r.groupPart("g", "q").Lag, 0)
		r.push("q", "p", "c")
		equal(r, "lag of what is new", r.groupPart("g", "q").Lag, 1)
	}},
	{"S-grp-3", "the oldest unconsumed message is told", func(r *rig) {
		r.push("q", "p", "a")
		r.advance(7 * time.Second)
		r.push("q", "p", "b")
		r.some(grouped("q", "g", format.StartAll), "a", "b").with("c-")
		row := r.groupPart("g", "q")
		equal(r, "oldest", row.OldestLagAt, epoch+7e6)
	}},
	{"S-grp-4", "per partition: lag, lease, consumed", func(r *rig) {
		r.push("q", "p", "a", "b", "c")
		r.some(grouped("q", "g", format.StartAll), "a", "b", "c").with("cc-")
		row := r.groupPart("g", "q")
		check(r, row.Lag == 1 && row.Leased && row.Consumed == 2 && row.Next == 2, "row %+v", row)
		r.advance(60 * time.Second)
		check(r, !r.groupPart("g", "q").Leased, "leased after expiry")
	}},
	{"S-grp-6", "a new subscription time moves no cursor", func(r *rig) {
		r.push("q", "p", "a", "b")
		r.push("q", "p2", "x")
		req := grouped("q", "g", format.StartAll)
		req.Batch, req.Scope.Partition, req.Scope.Pinned = 1, "p", true
		r.some(req, "a").all()
		r.advance(10 * time.Second)
		r.push("q", "p2", "y")
		n, err := r.e.Catalog().SetSubscription(r.ctx, r.caller, "g", epoch+5e6)
		check(r, err == nil && n == 1, "SetSubscription: %d %v", n, err)
		r.some(req, "b")
		req.Scope.Partition, req.Batch = "p2", 0
		r.some(req, "y")
	}},
	{"S-obs-1", "a message and what each group thinks of it", func(r *rig) {
		r.push("n.t", "p", "a", "b")
		id := r.partition("n.t", "p").ID
		r.some(grouped("n.t", "g", format.StartAll), "a", "b")
		d, err := r.e.Inspect().Message(r.ctx, r.caller, id, "a")
		check(r, err == nil && d.TransactionID == "a" && string(d.Payload) == `"a"` && d.Queue.Name == "n.t" &&
			d.Partition.Name == "p" && d.Queue.Options.Namespace == "n" && d.CreatedAt == epoch, "detail %+v %v", d, err)
		check(r, len(d.Groups) == 1 && d.Groups[0].Name == "g" && d.Groups[0].Leased && d.State == engine.Processing, "groups %+v", d.Groups)
		_, err = r.e.Inspect().Message(r.ctx, r.caller, id, "never")
		equal(r, "unknown", code(err), engine.CodeNotFound)
		rows, err := r.e.Inspect().Messages(r.ctx, r.caller, engine.MessageFilter{Queue: "n.t"})
		check(r, err == nil && len(rows) == 2 && rows[0].TransactionID == "b", "newest first: %d %v", len(rows), err)
	}},
	{"S-obs-2", "dead over completed over processing over pending", func(r *rig) {
		r.push("q", "p", "a", "b", "c", "d")
		req := popOf("q")
		req.Batch = 2
		r.some(req, "a", "b").with("cd")
		req.Batch = 1
		r.some(req, "c")
		id := r.partition("q", "p").ID
		for txn, want := range map[string]engine.MessageState{"a": engine.Completed, "b": engine.DeadState, "c": engine.Processing, "d": engine.Pending} {
			d, err := r.e.Inspect().Message(r.ctx, r.caller, id, txn)
			check(r, err == nil && d.State == want, "%s: state %d, want %d (%v)", txn, d.State, want, err)
		}
	}},
	{"S-obs-4", "depth without consuming", func(r *rig) {
		r.pushEach("q", 2, 3)
		r.pop(popOf("q"))
		r.swept()
		d, err := r.e.Inspect().Depth(r.ctx, r.caller, "q", format.QueueMode)
		check(r, err == nil && d.Pending == 6 && d.Processing == 3 && d.PartitionsPending == 2, "depth %+v %v", d, err)
		_, err = r.e.Inspect().Depth(r.ctx, r.caller, "nowhere", "")
		equal(r, "unknown", code(err), engine.CodeUnknownQueue)
	}},
}

var clockRules = []rule{
	{"S-clk-2", "wall jumps neither end leases early nor freeze pops", func(r *rig) {
		for _, jump := range []time.Duration{time.Hour, -time.Hour, 24 * time.Hour} {
			name := jump.String()
			r.push(name, "p", "a")
			r.some(popOf(name), "a")
			r.clock.JumpWall(jump)
			r.advance(59 * time.Second)
			r.none(popOf(name))
			r.advance(time.Second)
			r.some(popOf(name), "a").all()
			r.push(name, "p", "b")
			r.some(popOf(name), "b")
		}
	}},
}

// groupPart is a group's row of the only partition of a queue that has any.
func (r *rig) groupPart(group, queue string) engine.GroupPartition {
	r.t.Helper()
	rows, _, err := r.e.Catalog().GroupPartitions(r.ctx, r.caller, group, queue, engine.Page{Limit: 10})
	if err != nil || len(rows) == 0 {
		r.fatalf("GroupPartitions: %+v %v", rows, err)
	}
	return rows[0]
}

// swept moves time on far enough that listings made by a background sweep are fresh.
func (r *rig) swept() { r.advance(20 * time.Second) }
