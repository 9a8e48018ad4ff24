package enginetest

import (
	"fmt"
	"time"

	"queen/engine"
	"queen/engine/format"
)

// lastOf is a conflating pop of a group.
func lastOf(queue, group string, kind format.StartKind) engine.PopRequest {
	p := grouped(queue, group, kind)
	p.Conflate = true
	return p
}

// says wants a policy in an answer, also an empty one; without either flag the answer may be nil.
func (r *rig) says(req engine.PopRequest, conflate, conflict bool) {
	r.t.Helper()
	d, err := r.e.Pop(r.ctx, r.caller, req)
	check(r, err == nil, "Pop: %v", err)
	got := [2]bool{}
	if d != nil {
		got = [2]bool{d.Conflate, d.Conflict}
		d.Abandon()
	}
	equal(r, "conflate, conflict", got, [2]bool{conflate, conflict})
}

// groupsOf lists the consumer groups of a queue, with lag as it is counted now.
func (r *rig) groupsOf(queue string) (out []engine.GroupInfo) {
	r.t.Helper()
	all, err := r.e.Catalog().Groups(r.ctx, r.caller)
	check(r, err == nil, "Groups: %v", err)
	for _, g := range all {
		if g.Queue == queue {
			out = append(out, g)
		}
	}
	return out
}

var conflateRules = []rule{
	{"S-con-1", "the first pop decides whether a group conflates", func(r *rig) {
		r.says(lastOf("q", "g", format.StartAll), true, false)
		r.says(grouped("q", "g", format.StartAll), true, true)
		r.says(grouped("q", "h", format.StartAll), false, false)
		r.says(lastOf("q", "h", format.StartAll), false, true)
		r.push("q", "p", "a", "b")
		r.some(grouped("q", "g", format.StartAll), "b")
		b := r.some(lastOf("q", "h", format.StartAll), "a", "b")
		check(r, !b.d.Conflate && b.d.Conflict, "%+v", b.d)
		for _, g := range r.groupsOf("q") {
			equal(r, g.Name, g.Conflate, g.Name == "g")
		}
	}},
	{"S-con-2", "the newest message stands for all before it", func(r *rig) {
		r.push("q", "p", "a", "b", "c")
		b := r.some(lastOf("q", "g", format.StartAll), "c")
		check(r, b.d.Conflate && !b.d.Conflict, "%+v", b.d)
		equal(r, "offset", b.messages[0].Offset, 2)
		res := b.all()
		equal(r, "conflated", res[0].Ack.Conflated, 2)
		check(r, res[0].Ack.Released, "%+v", res[0])
		again := b.all()
		equal(r, "conflated, repeated", again[0].Ack.Conflated, 2)
		r.none(lastOf("q", "g", format.StartAll))
		r.push("q", "p", "d")
		equal(r, "conflated, of one", r.some(lastOf("q", "g", format.StartAll), "d").all()[0].Ack.Conflated, 0)
	}},
	{"S-con-2", "what is hidden is not the newest", func(r *rig) {
		r.configure("q", format.OptDelayedProcessing, format.QueueOptions{DelayedProcessing: 10})
		r.push("q", "p", "a", "b")
		r.advance(5 * time.Second)
		r.push("q", "p", "c")
		r.advance(5 * time.Second)
		r.some(lastOf("q", "g", format.StartAll), "b").all()
		r.advance(5 * time.Second)
		r.some(lastOf("q", "g", format.StartAll), "c")
	}},
	{"S-con-3", "what comes after the claim stays pending", func(r *rig) {
		r.push("q", "p", "a", "b")
		b := r.some(lastOf("q", "g", format.StartAll), "b")
		r.push("q", "p", "c")
		r.none(lastOf("q", "g", format.StartAll))
		ahead := *b.ack(0, format.AckCompleted)
		ahead.TransactionID = "c"
		equal(r, "an ack of what was not seen", code(r.do(&ahead)[0].Err), engine.CodeUnresolvable)
		b.all()
		r.some(lastOf("q", "g", format.StartAll), "c")
	}},
	{"S-con-4", "conflation needs a group and a lease", func(r *rig) {
		_, err := r.popErr(lastOf("q", "", format.StartAll))
		equal(r, "queue mode", code(err), engine.CodeBadRequest)
		req := lastOf("q", "g", format.StartAll)
		req.CommitOnDelivery = true
		_, err = r.popErr(req)
		equal(r, "commit on delivery", code(err), engine.CodeBadRequest)
	}},
	{"S-con-5", "one message a partition, 64 at most", func(r *rig) {
		r.pushEach("q", 70, 2)
		b := r.pop(lastOf("q", "g", format.StartAll))
		equal(r, "partitions", len(b.d.Claims), 64)
		equal(r, "messages", len(b.messages), 64)
		req := lastOf("q", "h", format.StartAll)
		req.Batch = 3
		equal(r, "a batch of three", len(r.pop(req).messages), 3)
		req.Partitions = 2
		equal(r, "of two partitions", len(r.pop(req).messages), 2)
		req.Scope.Partition, req.Scope.Pinned = "p69", true
		r.some(req, "69.1")
	}},
	{"S-con-6", "failures outlive what superseded them; the newest seen is filed", func(r *rig) {
		r.configure("q", format.OptRetryLimit, format.QueueOptions{RetryLimit: 2})
		r.push("q", "p", "0")
		for i := range 3 {
			b := r.some(lastOf("q", "g", format.StartAll), fmt.Sprint(i))
			equal(r, "attempt", b.attempt(), uint32(i+1))
			r.push("q", "p", fmt.Sprint(i+1))
			fail := b.ack(0, format.AckFailed)
			fail.Reason = fmt.Sprint("why ", i)
			res := r.do(fail)[0]
			check(r, res.Err == nil && res.Ack.Filed == (i == 2), "failure %d: %+v", i, res)
		}
		dead := r.deadLetters(engine.DeadLetterFilter{Queue: "q"})
		check(r, len(dead) == 1 && dead[0].Message.TransactionID == "2" && dead[0].Error == "why 2", "%+v", dead)
		b := r.some(lastOf("q", "g", format.StartAll), "3")
		equal(r, "attempt of what is new", b.attempt(), 1)
	}},
	{"S-con-7", "all and new", func(r *rig) {
		r.pushEach("q", 3, 4)
		r.none(lastOf("q", "late", format.StartNew))
		equal(r, "all", len(r.pop(lastOf("q", "g", format.StartAll)).messages), 3)
		r.push("q", "p1", "x", "y")
		r.some(lastOf("q", "late", format.StartNew), "y")
	}},
	{"S-con-8", "other groups see every message", func(r *rig) {
		r.push("q", "p", "a", "b")
		r.some(lastOf("q", "g", format.StartAll), "b").all()
		r.some(grouped("q", "h", format.StartAll), "a", "b")
		r.some(popOf("q"), "a", "b")
	}},
	{"S-con-9", "deliveries are counted over supersession", func(r *rig) {
		r.push("q", "p", "a", "b")
		req := lastOf("q", "g", format.StartAll)
		req.Lease = time.Second
		equal(r, "first", r.some(req, "b").attempt(), 1)
		r.push("q", "p", "c")
		r.advance(time.Second)
		equal(r, "after expiry", r.some(req, "c").attempt(), 2)
		r.push("q", "p", "d")
		r.advance(time.Second)
		b := r.some(req, "d")
		equal(r, "again", b.attempt(), 3)
		b.all()
		r.push("q", "p", "e")
		equal(r, "after an ack", r.some(req, "e").attempt(), 1)
	}},
	{"S-con-10", "lag counts positions and partitions", func(r *rig) {
		r.none(lastOf("q", "g", format.StartAll))
		r.pushEach("q", 3, 4)
		for _, g := range r.groupsOf("q") {
			equal(r, "lag", g.Lag, 12)
			equal(r, "partitions", g.PartitionsWithLag, 3)
		}
		d, err := r.e.Inspect().Depth(r.ctx, r.caller, "q", "g")
		check(r, err == nil && d.Conflates && d.Pending == 12 && d.PartitionsPending == 3, "%+v, %v", d, err)
	}},
}
