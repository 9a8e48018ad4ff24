package enginetest

import (
	"strings"
	"time"

	"queen/engine"
	"queen/engine/format"
)

// five pushes a..e and leases them all.
func (r *rig) five() *batch {
	r.t.Helper()
	r.push("q", "p", "a", "b", "c", "d", "e")
	return r.some(popOf("q"), "a", "b", "c", "d", "e")
}

var ackRules = []rule{
	{"S-ack-1", "one result per item, in order; the call succeeds whatever they say", func(r *rig) {
		b := r.five()
		stranger := b.ack(0, format.AckCompleted)
		stranger.TransactionID = "never"
		res := r.do(stranger, b.ack(0, format.AckCompleted), b.ack(1, 99))
		equal(r, "stranger", code(res[0].Err), engine.CodeUnresolvable)
		check(r, res[1].Err == nil && !res[1].Ack.Noop, "good one: %+v", res[1])
		equal(r, "bad status", code(res[2].Err), engine.CodeBadStatus)
	}},
	{"S-ack-2", "completed completes everything before it", func(r *rig) {
		b := r.five()
		res := b.with("----c")
		check(r, res[0].Err == nil && res[0].Ack.Released, "last: %+v", res[0])
		r.advance(time.Hour)
		r.none(popOf("q"))
	}},
	{"S-ack-3", "acking the middle redelivers only what is after it", func(r *rig) {
		r.five().with("--c")
		r.advance(60 * time.Second)
		r.some(popOf("q"), "d", "e")
	}},
	{"S-ack-4", "a partial ack keeps the lease, the last one ends it", func(r *rig) {
		b := r.five()
		equal(r, "partial", b.with("c")[0].Ack.Released, false)
		r.none(popOf("q"))
		res := r.do(b.ack(4, format.AckCompleted))[0]
		check(r, res.Err == nil && res.Ack.Released, "rest: %+v", res)
		r.push("q", "p", "f")
		equal(r, "attempt of fresh work", r.some(popOf("q"), "f").attempt(), 1)
	}},
	{"S-ack-5", "the cursor stops below the lowest failed", func(r *rig) {
		for _, res := range r.five().with("cfccc") {
			check(r, res.Err == nil && res.Ack.Released && !res.Ack.Noop, "item: %+v", res)
		}
		r.some(popOf("q"), "b", "c", "d", "e")
	}},
	{"S-ack-6", "retry stops it too and is free", func(r *rig) {
		r.configure("q", format.OptRetryLimit, format.QueueOptions{RetryLimit: 0})
		r.push("q", "p", "a", "b", "c")
		r.some(popOf("q"), "a", "b", "c").with("crc")
		for range 6 {
			r.some(popOf("q"), "b", "c").with("rc")
		}
		equal(r, "dead letters", len(r.deadLetters(engine.DeadLetterFilter{})), 0)
	}},
	{"S-ack-7", "for one message dlq beats failed beats retry beats completed", func(r *rig) {
		r.configure("q", format.OptRetryLimit, format.QueueOptions{RetryLimit: 1})
		r.push("q", "p", "a", "b")
		b := r.some(popOf("q"), "a", "b")
		r.do(b.ack(0, format.AckCompleted), b.ack(0, format.AckRetry))
		b = r.some(popOf("q"), "a", "b")
		r.do(b.ack(0, format.AckFailed), b.ack(0, format.AckRetry)) // charged
		b = r.some(popOf("q"), "a", "b")
		res := r.do(b.ack(0, format.AckRetry), b.ack(0, format.AckDLQ), b.ack(0, format.AckFailed))
		check(r, res[0].Ack.Filed && res[1].Ack.Filed && res[2].Ack.Filed, "dlq lost: %+v", res)
		equal(r, "dead letters", len(r.deadLetters(engine.DeadLetterFilter{})), 1)
	}},
	{"S-ack-8", "only unmentioned positions are completed by implication", func(r *rig) {
		r.five().with("-r--c")
		r.some(popOf("q"), "b", "c", "d", "e")
	}},
	{"S-ack-9", "completed at or below the cursor is a no-op", func(r *rig) {
		b := r.five()
		b.with("--c")
		res := r.do(b.ack(0, format.AckCompleted), b.ack(2, format.AckCompleted))
		for _, it := range res {
			check(r, it.Err == nil && it.Ack.Noop, "repeat: %+v", it)
		}
		r.advance(60 * time.Second)
		r.some(popOf("q"), "d", "e")
	}},
	{"S-ack-10", "a nack at or below the cursor is refused", func(r *rig) {
		b := r.five()
		b.with("--c")
		for _, st := range []format.AckStatus{format.AckFailed, format.AckRetry, format.AckDLQ} {
			err := r.do(b.ack(1, st))[0].Err
			check(r, code(err) == engine.CodeAlreadyCommitted && strings.Contains(strings.ToLower(err.Error()), "committed"), "status %d: %v", st, err)
		}
		check(r, r.do(b.ack(4, format.AckCompleted))[0].Err == nil, "the lease was touched by a refused nack")
	}},
	{"S-ack-11", "what resolves nowhere moves nothing", func(r *rig) {
		r.push("q", "p", "a", "b", "c")
		req := popOf("q")
		req.Batch = 2
		b := r.some(req, "a", "b")
		for _, id := range []string{"never", "c", ""} {
			a := b.ack(0, format.AckCompleted)
			a.TransactionID = id
			err := r.do(a)[0].Err
			check(r, code(err) == engine.CodeUnresolvable && strings.Contains(err.Error(), "unresolvable"), "%q: %v", id, err)
		}
		equal(r, "the real batch", b.all()[1].Ack.Released, true)
	}},
	{"S-ack-11", "each message of a call that moves nothing is told its own reason", func(r *rig) {
		r.push("q", "p", "a", "b", "c", "d")
		req := popOf("q")
		req.Batch = 3
		b := r.some(req, "a", "b", "c")
		check(r, b.with("-c")[0].Err == nil, "ack of b")
		ack := func(id string, st format.AckStatus) *engine.Ack {
			a := b.ack(0, st)
			a.TransactionID = id
			return a
		}
		codes := func(res []engine.Result) (out string) {
			for i := range res {
				out += " " + describeAck(&res[i])
			}
			return out
		}
		equal(r, "nothing moves", codes(r.do(ack("a", format.AckFailed), ack("d", format.AckFailed), ack("none", format.AckRetry))),
			" already_committed unresolvable unresolvable")
		equal(r, "with a repeat", codes(r.do(ack("d", format.AckCompleted), ack("a", format.AckCompleted), ack("b", format.AckDLQ))),
			" unresolvable ok noop already_committed")
		equal(r, "with a good one", codes(r.do(ack("a", format.AckRetry), ack("c", format.AckCompleted), ack("d", format.AckRetry))),
			" already_committed ok released unresolvable")
		equal(r, "dead letters", len(r.deadLetters(engine.DeadLetterFilter{})), 0)
	}},
	{"S-ack-12", "a repeated ack of an old message is still recognised", func(r *rig) {
		r.push("q", "p", "old")
		r.some(popOf("q"), "old").all()
		for range 20 {
			r.push("q", "p", "")
			r.advance(10 * time.Second)
			b := r.pop(popOf("q"))
			b.all()
		}
		r.push("q", "p", "x")
		b := r.some(popOf("q"), "x")
		a := b.ack(0, format.AckCompleted)
		a.TransactionID = "old"
		res := r.do(a)[0]
		check(r, res.Err == nil && res.Ack.Noop, "old: %+v", res)
	}},
	{"S-ack-13", "a named lease has to be the live one", func(r *rig) {
		b := r.five()
		for _, lease := range []string{"", "nonsense", format.UUID{1}.String()} {
			a := b.ack(0, format.AckCompleted)
			a.Lease = lease
			equal(r, "lease "+lease, code(r.do(a)[0].Err), engine.CodeLeaseInvalid)
		}
		r.advance(60 * time.Second)
		err := r.do(b.ack(4, format.AckCompleted))[0].Err
		check(r, code(err) == engine.CodeLeaseInvalid && strings.Contains(err.Error(), "lease"), "lapsed: %v", err)
		second := r.some(popOf("q"), "a", "b", "c", "d", "e")
		equal(r, "older lease", code(r.do(b.ack(4, format.AckCompleted))[0].Err), engine.CodeLeaseInvalid)
		second.all()
	}},
	{"S-ack-14", "unfenced works after expiry and may end another's batch", func(r *rig) {
		b := r.five()
		r.advance(60 * time.Second)
		a := b.ack(0, format.AckCompleted)
		a.Lease, a.Unfenced = "", true
		check(r, r.do(a)[0].Err == nil, "after expiry")
		second := r.some(popOf("q"), "b", "c", "d", "e")
		a = second.ack(3, format.AckCompleted)
		a.Lease, a.Unfenced = "", true
		res := r.do(a)[0]
		check(r, res.Err == nil && res.Ack.Released, "another's batch: %+v", res)
		equal(r, "its holder", code(r.do(second.ack(0, format.AckFailed))[0].Err), engine.CodeLeaseInvalid)
	}},
	{"S-ack-15", "a repeat of an ack that ended its lease moves nothing", func(r *rig) {
		b := r.five()
		b.all()
		r.push("q", "p", "f")
		res := r.do(b.ack(4, format.AckCompleted))[0]
		check(r, res.Err == nil || code(res.Err) == engine.CodeLeaseInvalid, "repeat: %+v", res)
		r.some(popOf("q"), "f")
	}},
	{"S-ack-16", "an unknown status is refused and nothing moves", func(r *rig) {
		b := r.five()
		for _, st := range []format.AckStatus{0, 5, 255} {
			res := r.do(b.ack(4, st))[0]
			check(r, code(res.Err) == engine.CodeBadStatus && res.Ack == engine.AckItem{}, "status %d: %+v", st, res)
		}
		b.all()
	}},
	{"S-ack-16", "a later item of the same call does not settle what has an unknown status", func(r *rig) {
		b := r.five()
		res := r.do(b.ack(0, format.AckCompleted), b.ack(2, 0), b.ack(1, format.AckCompleted), b.ack(2, format.AckCompleted),
			b.ack(4, format.AckCompleted), b.ack(3, format.AckFailed))
		for i, want := range []engine.ErrorCode{"", engine.CodeBadStatus, "", engine.CodeBadStatus, engine.CodeBadStatus,
			engine.CodeBadStatus} {
			check(r, code(res[i].Err) == want && res[i].Ack == engine.AckItem{}, "item %d: %+v", i, res[i])
		}
		again := r.do(b.ack(0, 0), b.ack(2, format.AckCompleted))
		check(r, code(again[0].Err) == engine.CodeBadStatus && again[1].Err == nil, "below the cursor it bars nothing: %+v", again)
		last := r.do(b.ack(3, format.AckFailed))
		check(r, last[0].Err == nil && last[0].Ack.Released, "the rest is still leased: %+v", last)
		r.some(popOf("q"), "d", "e")
	}},
	{"S-ack-18", "each partition and lease is judged alone", func(r *rig) {
		r.pushEach("q", 2, 2)
		req := popOf("q")
		req.Partitions = 2
		b := r.pop(req)
		wrong := b.ack(0, format.AckCompleted)
		wrong.Lease = format.UUID{9}.String()
		res := r.do(wrong, b.ack(2, format.AckCompleted), b.ack(3, format.AckCompleted))
		equal(r, "wrong lease", code(res[0].Err), engine.CodeLeaseInvalid)
		check(r, res[1].Err == nil && res[2].Err == nil && res[2].Ack.Released, "other partition: %+v", res[1:])
	}},
	{"S-ack-20", "success means carried out", func(r *rig) {
		res := r.five().with("fc")
		check(r, res[0].Err == nil && res[0].Ack.Released && !res[0].Ack.Filed, "failed: %+v", res[0])
		check(r, res[1].Err == nil, "completed above: %+v", res[1])
		r.some(popOf("q"), "a", "b", "c", "d", "e")
	}},
	{"S-ack-21", "an ack moves only its group", func(r *rig) {
		r.push("q", "p", "a")
		r.some(grouped("q", "g", format.StartAll), "a").all()
		r.some(grouped("q", "h", format.StartAll), "a")
	}},
	{"S-ack-21", "a lease that ended answers no other group's ack", func(r *rig) {
		r.push("q", "p", "a")
		r.some(grouped("q", "g", format.StartAll), "a")
		b := r.some(grouped("q", "h", format.StartAll), "a")
		b.all()
		a := b.ack(0, format.AckCompleted)
		equal(r, "a repeat", code(r.do(a)[0].Err), "")
		a.Group = "g"
		equal(r, "of another group", code(r.do(a)[0].Err), engine.CodeLeaseInvalid)
	}},
	{"S-ack-22", "a group that never popped there can not ack", func(r *rig) {
		b := r.five()
		a := b.ack(0, format.AckCompleted)
		a.Group = "stranger"
		equal(r, "code", code(r.do(a)[0].Err), engine.CodeNotLeased)
		a.Lease, a.Unfenced = "", true
		equal(r, "unfenced", code(r.do(a)[0].Err), engine.CodeNotLeased)
		r.some(grouped("q", "stranger", format.StartAll), "a", "b", "c", "d", "e")
	}},
	{"S-ack-23", "a foreign partition is an unknown one", func(r *rig) {
		b := r.five()
		a := b.ack(0, format.AckCompleted)
		equal(r, "foreign", code(r.as(4).do(a)[0].Err), engine.CodeUnknownPartition)
		a.Partition += 64 * 1000
		equal(r, "unknown", code(r.do(a)[0].Err), engine.CodeUnknownPartition)
		b.all()
	}},
	{"S-ack-26", "nothing acked comes back", func(r *rig) {
		r.pushEach("q", 5, 20)
		seen := map[string]bool{}
		req := popOf("q")
		req.Batch, req.Partitions = 7, 3
		for b := r.pop(req); b != nil; b = r.pop(req) {
			for _, m := range b.messages {
				check(r, !seen[m.TransactionID], "%q came twice", m.TransactionID)
				seen[m.TransactionID] = true
			}
			b.all()
		}
		equal(r, "delivered", len(seen), 100)
	}},
}
