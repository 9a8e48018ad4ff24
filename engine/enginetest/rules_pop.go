package enginetest

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"queen/engine"
	"queen/engine/format"
)

func (r *rig) pushEach(queue string, partitions, each int) {
	r.t.Helper()
	for p := range partitions {
		var ids []string
		for i := range each {
			ids = append(ids, fmt.Sprintf("%d.%d", p, i))
		}
		r.push(queue, fmt.Sprint("p", p), ids...)
	}
}

var popRules = []rule{
	{"S-pop-1", "a contiguous run from the cursor, in order", func(r *rig) {
		r.push("q", "p", "a", "b", "c", "d")
		req := popOf("q")
		req.Batch = 2
		b := r.some(req, "a", "b")
		equal(r, "claim", [2]format.Offset{b.d.Claims[0].First, b.d.Claims[0].Last}, [2]format.Offset{0, 1})
		b.all()
		r.some(req, "c", "d")
		equal(r, "retained", len(r.read("q", "p", 0).Records), 4)
	}},
	{"S-pop-2", "one live lease per partition and group", func(r *rig) {
		r.push("q", "p", "a", "b")
		req := popOf("q")
		req.Batch = 1
		r.some(req, "a")
		r.none(popOf("q"))
		r.none(pinned("q", "p"))
		r.push("q", "p", "c")
		r.none(popOf("q"))
		var wg sync.WaitGroup
		r.pushEach("many", 4, 1)
		got := make([]*batch, 16)
		for i := range got {
			wg.Go(func() { got[i] = r.pop(popOf("many")) })
		}
		wg.Wait()
		seen := map[string]bool{}
		for _, b := range got {
			if b != nil {
				check(r, !seen[b.ids()[0]], "%q delivered twice under live leases", b.ids()[0])
				seen[b.ids()[0]] = true
			}
		}
		equal(r, "partitions served", len(seen), 4)
	}},
	{"S-pop-3", "groups do not block each other", func(r *rig) {
		r.push("q", "p", "a")
		r.some(grouped("q", "g1", format.StartAll), "a")
		r.some(grouped("q", "g2", format.StartAll), "a").all()
		r.advance(61 * time.Second)
		r.some(grouped("q", "g1", format.StartAll), "a")
	}},
	{"S-pop-4", "as many workers as partitions with work", func(r *rig) {
		r.pushEach("q", 3, 2)
		for range 3 {
			check(r, r.pop(popOf("q")) != nil, "a worker got nothing while a partition had work")
		}
		r.none(popOf("q"))
	}},
	{"S-pop-5", "batch is the budget of the whole pop", func(r *rig) {
		r.pushEach("q", 5, 100)
		req := popOf("q")
		req.Batch, req.Partitions = 10, 5
		equal(r, "messages", len(r.pop(req).messages), 10)
		req.Batch = 0
		equal(r, "default", len(r.pop(req).messages), 200)
	}},
	{"S-pop-6", "partitions caps partitions, default one, at most 64", func(r *rig) {
		r.pushEach("q", 70, 1)
		req := popOf("q")
		equal(r, "default", len(r.pop(req).d.Claims), 1)
		req.Partitions = 3
		equal(r, "three", len(r.pop(req).d.Claims), 3)
		req.Partitions = 1000
		equal(r, "clamped", len(r.pop(req).d.Claims), 64)
	}},
	{"S-pop-7", "one lease for all partitions of a pop", func(r *rig) {
		r.pushEach("q", 3, 2)
		req := grouped("q", "g", format.StartAll)
		req.Partitions = 3
		b := r.pop(req)
		check(r, b.d.Lease != "" && b.d.Group == "g" && len(b.messages) == 6, "delivery %+v", b.d)
		for _, m := range b.messages {
			c := b.d.Claims[m.Claim]
			check(r, m.Offset >= c.First && m.Offset <= c.Last && c.Attempt == 1, "message at %d of claim %+v", m.Offset, c)
			check(r, m.CreatedAt == epoch && !m.ID.IsZero(), "message %+v", m.Record)
		}
		b.all()
	}},
	{"S-pop-8", "a pinned pop claims only its partition", func(r *rig) {
		r.pushEach("q", 3, 1)
		req := pinned("q", "p1")
		req.Partitions = 3
		r.some(req, "1.0")
		r.none(pinned("q", "nowhere"))
	}},
	{"S-pop-9", "discovery looks at every matching queue, does not wait, leases 60 s", func(r *rig) {
		r.push("n.t", "p", "a")
		r.push("n.u", "p", "b")
		r.push("m.t", "p", "c")
		_, err := r.popErr(engine.PopRequest{Scope: engine.Scope{Discovery: true}})
		equal(r, "no label", code(err), engine.CodeBadRequest)
		req := engine.PopRequest{Scope: engine.Scope{Discovery: true, Namespace: "n"}, Partitions: 5, Wait: 30 * time.Second}
		r.some(req, "a", "b")
		r.none(req)
		r.advance(59 * time.Second)
		r.none(req)
		r.advance(time.Second)
		check(r, r.pop(req) != nil, "nothing after 60 s")
		other := r.as(3)
		other.none(req)
	}},
	{"S-pop-9", "discovery goes on where a start had to be looked up", func(r *rig) {
		r.push("a.t", "p", "1")
		r.push("b.t", "p", "old")
		r.advance(20 * time.Second)
		from := grouped("b.t", "g", format.StartFrom)
		from.Start.From = format.Wall(r.clock.Now() - 10e6)
		r.none(from)
		r.push("b.t", "p", "2")
		req := grouped("", "g", format.StartAll)
		req.Scope = engine.Scope{Discovery: true, Task: "t"}
		req.Partitions = 5
		b := r.pop(req)
		check(r, b != nil && len(b.d.Claims) == 2, "claimed %+v, want a partition of each queue", b)
	}},
	{"S-pop-10", "the longest claimable is served first", func(r *rig) {
		r.none(grouped("q", "g", format.StartNew))
		r.pushEach("q", 6, 2)
		for i := range 6 {
			b := r.pop(grouped("q", "g", 0))
			equal(r, "partition", b.d.Claims[0].Partition, fmt.Sprint("p", i))
			b.with("c-")
			if i == 2 {
				r.push("q", "late", "x")
			}
		}
		equal(r, "newcomer", r.pop(grouped("q", "g", 0)).d.Claims[0].Partition, "late")
	}},
	{"S-pop-12", "a claim nobody receives is handed back uncounted", func(r *rig) {
		r.push("q", "p", "a")
		for range 3 {
			d, err := r.e.Pop(r.ctx, r.caller, popOf("q"))
			check(r, err == nil && d != nil, "Pop: %v %v", d, err)
			d.Abandon()
		}
		asked := 0
		req := popOf("q")
		req.Alive = func() bool { asked++; return false }
		r.none(req)
		check(r, asked > 0, "Alive was never asked")
		equal(r, "attempt", r.some(popOf("q"), "a").attempt(), 1)
	}},
	{"S-pop-15", "autopilot chooses what was not sent", func(r *rig) {
		r.none(grouped("q", "g", format.StartNew))
		r.pushEach("q", 4, 1)
		req := grouped("q", "g", 0)
		req.Autopilot = true
		b := r.pop(req)
		equal(r, "claims", len(b.d.Claims), 4)
		check(r, b.d.Chosen.Set && b.d.Chosen.Partitions >= 4 && b.d.Chosen.Partitions <= 64 && b.d.Chosen.Batch > 0, "chosen %+v", b.d.Chosen)
		b.all()
		r.pushEach("q2", 4, 1)
		req = grouped("q2", "g", format.StartAll)
		req.Autopilot, req.Partitions, req.Batch = true, 2, 2
		b = r.pop(req)
		check(r, len(b.d.Claims) == 2 && !b.d.Chosen.Set, "sent values: %d claims, chosen %+v", len(b.d.Claims), b.d.Chosen)
	}},
	{"S-pop-16", "retention holes are skipped", func(r *rig) {
		r.configure("q", format.OptMaxWaitTimeSeconds, format.QueueOptions{MaxWaitTimeSeconds: 20})
		r.push("q", "p", "a", "b")
		req := popOf("q")
		req.Batch, req.Lease = 1, 5*time.Second
		r.some(req, "a").all()
		r.advance(15 * time.Second)
		r.push("q", "p", "c")
		r.removedBy("q", "p", 2)
		r.some(popOf("q"), "c")
	}},
	{"S-pop-16", "a small batch gets over a large hole", func(r *rig) {
		r.configure("q", format.OptMaxWaitTimeSeconds, format.QueueOptions{MaxWaitTimeSeconds: 60})
		var ids []string
		for i := range 1000 {
			ids = append(ids, fmt.Sprint(i))
		}
		r.push("q", "p", ids...)
		r.advance(50 * time.Second)
		r.push("q", "p", "z")
		r.removedBy("q", "p", 1000)
		req := popOf("q")
		req.Batch = 1
		b := r.pop(req)
		check(r, b != nil, "empty, although a message is left")
		b.want("z")
	}},
	{"S-pop-17", "what retention emptied is not pending", func(r *rig) {
		r.configure("q", format.OptMaxWaitTimeSeconds, format.QueueOptions{MaxWaitTimeSeconds: 10})
		r.push("q", "p", "a")
		r.removedBy("q", "p", 1)
		r.none(popOf("q"))
		r.push("q", "p", "b")
		r.some(popOf("q"), "b")
	}},
	{"S-pop-17", "an empty pop settles what retention emptied", func(r *rig) {
		r.configure("q", format.OptMaxWaitTimeSeconds|format.OptLeaseTime, format.QueueOptions{MaxWaitTimeSeconds: 90, LeaseTime: 60})
		r.push("q", "p", "a", "b", "c")
		b := r.some(popOf("q"), "a", "b", "c")
		r.advance(60 * time.Second)
		r.removedBy("q", "p", 3)
		r.none(popOf("q"))
		at := func(o format.Offset, st format.AckStatus) *engine.Ack {
			a := b.ack(0, st)
			a.Lease, a.Unfenced, a.TransactionID, a.HasOffset, a.Offset = "", true, "", true, o
			return a
		}
		res := r.do(at(0, format.AckCompleted), at(0, format.AckFailed), at(2, format.AckDLQ), at(2, format.AckCompleted))
		for i, want := range []string{"ok noop", "already_committed", "already_committed", "ok noop"} {
			equal(r, "item", describeAck(&res[i]), want)
		}
		equal(r, "dead letters", len(r.deadLetters(engine.DeadLetterFilter{})), 0)
	}},
	{"S-pop-18", "empty polls do not strand the backlog", func(r *rig) {
		r.push("q", "p", "a")
		r.some(popOf("q"), "a")
		for range 5 {
			r.none(popOf("q"))
		}
		r.advance(60 * time.Second)
		r.some(popOf("q"), "a")
	}},
}

var leaseRules = []rule{
	{"S-lease-1", "length: what the pop asks, else the queue's", func(r *rig) {
		r.configure("q", format.OptLeaseTime, format.QueueOptions{LeaseTime: 20})
		r.push("q", "p", "a")
		r.some(popOf("q"), "a")
		r.advance(20*time.Second - time.Microsecond)
		r.none(popOf("q"))
		r.advance(time.Microsecond)
		req := popOf("q")
		req.Lease = 5 * time.Second
		r.some(req, "a")
		r.advance(5 * time.Second)
		r.some(popOf("q"), "a")
	}},
	{"S-lease-2", "after expiry the batch comes again, one attempt up", func(r *rig) {
		r.push("q", "p", "a", "b")
		for i := range 4 {
			equal(r, "attempt", r.some(popOf("q"), "a", "b").attempt(), uint32(i+1))
			r.advance(60 * time.Second)
		}
	}},
	{"S-lease-3", "expiry spends no budget", func(r *rig) {
		r.configure("q", format.OptRetryLimit|format.OptLeaseTime, format.QueueOptions{RetryLimit: 2, LeaseTime: 10})
		r.push("q", "p", "a")
		for range 4 {
			r.some(popOf("q"), "a")
			r.advance(10 * time.Second)
		}
		for i := range 3 {
			equal(r, fmt.Sprint("filed by nack ", i), r.some(popOf("q"), "a").with("f")[0].Ack.Filed, i == 2)
		}
	}},
	{"S-lease-4", "extend renews all partitions of a live lease, and nothing else", func(r *rig) {
		r.pushEach("q", 3, 1)
		req := popOf("q")
		req.Partitions, req.Lease = 3, 10*time.Second
		b := r.pop(req)
		r.advance(9 * time.Second)
		res := r.do(&engine.Extend{Lease: b.d.Lease, For: 30 * time.Second})[0].Extend
		equal(r, "renewed", res.Renewed, 3)
		equal(r, "expires", res.Expires, epoch+39e6)
		res = r.do(&engine.Extend{Lease: b.d.Lease, For: time.Second})[0].Extend
		equal(r, "never shorter", res.Expires, epoch+39e6)
		r.advance(30*time.Second - time.Microsecond)
		r.none(req)
		other := r.as(9)
		for _, lease := range []string{"", "nonsense", format.UUID{1}.String()} {
			equal(r, "unknown lease", r.do(&engine.Extend{Lease: lease, For: time.Minute})[0].Extend.Renewed, 0)
		}
		equal(r, "foreign", other.do(&engine.Extend{Lease: b.d.Lease, For: time.Minute})[0].Extend.Renewed, 0)
		r.advance(time.Microsecond)
		equal(r, "expired", r.do(&engine.Extend{Lease: b.d.Lease, For: time.Minute})[0].Extend.Renewed, 0)
	}},
	{"S-lease-5", "renewals keep a slow handler in possession", func(r *rig) {
		r.push("q", "p", "a")
		b := r.some(popOf("q"), "a")
		for range 10 {
			r.advance(50 * time.Second)
			equal(r, "renewed", r.do(&engine.Extend{Lease: b.d.Lease, For: time.Minute})[0].Extend.Renewed, 1)
			r.none(popOf("q"))
		}
		b.all()
	}},
	{"S-lease-7", "the attempt belongs to where the batch starts", func(r *rig) {
		r.push("q", "p", "a", "b", "c")
		r.some(popOf("q"), "a", "b", "c").with("r")
		b := r.some(popOf("q"), "a", "b", "c")
		equal(r, "same start", b.attempt(), 2)
		b.with("c")
		r.advance(60 * time.Second)
		equal(r, "start moved", r.some(popOf("q"), "b", "c").attempt(), 1)
		r.advance(60 * time.Second)
		once := popOf("q")
		once.CommitOnDelivery = true
		equal(r, "commit on delivery", r.some(once, "b", "c").attempt(), 1)
	}},
	{"S-lease-8", "a failure on one partition leaves the others' leases", func(r *rig) {
		r.pushEach("q", 2, 1)
		req := popOf("q")
		req.Partitions = 2
		b := r.pop(req)
		r.do(b.ack(0, format.AckFailed))
		res := r.do(b.ack(1, format.AckCompleted))[0]
		check(r, res.Err == nil && res.Ack.Released, "other partition: %+v", res)
	}},
}

var waitRules = []rule{
	{"S-poll-1", "a wait ends empty, never as an error", func(r *rig) {
		req := popOf("q")
		req.Wait = 30 * time.Second
		parked := r.parked(req)
		r.clock.Advance(30 * time.Second)
		check(r, <-parked == nil, "something out of nothing")
		ctx, cancel := context.WithCancel(r.ctx)
		before := r.e.Inspect().Stats().Parked
		done := make(chan *engine.Delivery, 1)
		go func() {
			d, _ := r.e.Pop(ctx, r.caller, req)
			done <- d
		}()
		for r.e.Inspect().Stats().Parked == before && len(done) == 0 && r.ctx.Err() == nil {
			runtime.Gosched()
		}
		cancel()
		check(r, <-done == nil, "a caller who left got a delivery")
		r.push("q", "p", "a")
		equal(r, "attempt after the caller left", r.some(popOf("q"), "a").attempt(), 1)
	}},
	{"S-poll-2", "every event that makes work claimable wakes a parked pop", func(r *rig) {
		req := popOf("q")
		req.Wait = 60 * time.Second
		parked := r.parked(req)
		r.push("q", "p", "a")
		b := r.arrives(parked, "a") // append
		parked = r.parked(req)
		b.with("r")
		b = r.arrives(parked, "a") // nack
		parked = r.parked(req)
		r.do(&engine.Release{Lease: b.d.Lease})
		r.arrives(parked, "a") // hand-back
		r.configure("q", format.OptLeaseTime, format.QueueOptions{LeaseTime: 10})
		r.advance(60 * time.Second)
		r.some(req, "a")
		parked = r.parked(req)
		r.advance(10 * time.Second)
		b = r.arrives(parked, "a") // expiry
		b.all()
		parked = r.parked(req)
		r.seek(toTime("q", "", 0))
		r.arrives(parked, "a").with("d") // seek
		parked = r.parked(req)
		dead := r.deadLetters(engine.DeadLetterFilter{Queue: "q"})
		r.do(&engine.Redrive{DeadLetter: dead[0].ID})
		r.arrives(parked, "dlq:"+dead[0].ID.String()).all() // redrive
		r.configure("q", format.OptDelayedProcessing, format.QueueOptions{DelayedProcessing: 5})
		parked = r.parked(req)
		r.push("q", "p", "d")
		r.advance(5 * time.Second)
		r.arrives(parked, "d") // delay
	}},
	{"S-poll-3", "a push wakes only its tenant", func(r *rig) {
		other := r.as(5)
		req := popOf("q")
		req.Wait = 30 * time.Second
		parked := other.parked(req)
		r.push("q", "p", "a")
		r.some(popOf("q"), "a")
		equal(r, "still parked", r.e.Inspect().Stats().Parked, 1)
		r.clock.Advance(30 * time.Second)
		check(r, <-parked == nil, "woken by another tenant's push")
	}},
	{"S-vis-1", "a delay hides a suffix from pops, on every path, and from pops only", func(r *rig) {
		r.configure("n.q", format.OptDelayedProcessing|format.OptNamespace, format.QueueOptions{DelayedProcessing: 10, Namespace: "n"})
		r.push("n.q", "p", "a")
		r.advance(5 * time.Second)
		r.push("n.q", "p", "b")
		r.advance(5*time.Second - time.Microsecond)
		r.none(popOf("n.q"))
		r.none(pinned("n.q", "p"))
		r.none(engine.PopRequest{Scope: engine.Scope{Discovery: true, Namespace: "n"}})
		equal(r, "read", len(r.read("n.q", "p", 0).Records), 2)
		r.advance(time.Microsecond)
		r.some(popOf("n.q"), "a").all()
		r.advance(5 * time.Second)
		r.some(popOf("n.q"), "b")
	}},
	{"S-vis-2", "a window delivers the burst together once it is quiet", func(r *rig) {
		r.configure("q", format.OptWindowBuffer, format.QueueOptions{WindowBuffer: 2})
		for _, id := range []string{"a", "b", "c"} {
			r.push("q", "p", id)
			r.none(popOf("q"))
			r.advance(time.Second)
		}
		r.none(popOf("q"))
		r.advance(time.Second)
		r.some(popOf("q"), "a", "b", "c")
	}},
	{"S-vis-3", "a busy partition with a window still delivers", func(r *rig) {
		r.configure("q", format.OptWindowBuffer, format.QueueOptions{WindowBuffer: 2})
		for i := range 21 {
			r.push("q", "p", fmt.Sprint(i))
			r.advance(time.Second)
		}
		b := r.pop(popOf("q"))
		check(r, b != nil && b.ids()[0] == "0", "ten windows of traffic and nothing delivered")
	}},
	{"S-amo-1", "commit on delivery: no lease, nothing to ack, never again", func(r *rig) {
		r.push("q", "p", "a", "b")
		req := popOf("q")
		req.CommitOnDelivery = true
		equal(r, "lease", r.some(req, "a", "b").d.Lease, "")
		r.advance(time.Hour)
		r.none(popOf("q"))
	}},
	{"S-amo-2", "every claimed partition is committed", func(r *rig) {
		r.pushEach("q", 3, 2)
		req := popOf("q")
		req.CommitOnDelivery, req.Partitions = true, 3
		equal(r, "messages", len(r.pop(req).messages), 6)
		r.none(popOf("q"))
	}},
}
