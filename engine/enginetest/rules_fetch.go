package enginetest

import (
	"fmt"
	"time"

	"queen/engine"
	"queen/engine/format"
)

func (r *rig) offset(queue, partition string, kind engine.OffsetKind, at format.Wall, id string) engine.OffsetAnswer {
	r.t.Helper()
	a, err := r.e.Offsets(r.ctx, r.caller, []engine.OffsetQuery{{Queue: queue, Partition: partition, Kind: kind, Time: at, ID: id}})
	if err != nil {
		r.fatalf("Offsets: %v", err)
	}
	return a[0]
}

var fetchRules = []rule{
	{"S-fetch-1", "a read moves nothing and can be repeated", func(r *rig) {
		r.push("q", "p", "a", "b")
		for range 3 {
			equal(r, "records", len(r.read("q", "p", 1).Records), 1)
		}
		r.some(popOf("q"), "a", "b")
		equal(r, "while leased", len(r.read("q", "p", 0).Records), 2)
	}},
	{"S-fetch-2", "1024 positions, bounded bytes, at least one message", func(r *rig) {
		big := string(make([]byte, 1000))
		r.do(&engine.Append{Queue: "q", Partition: "p", Messages: []engine.Message{msg("a", big), msg("b", big), msg("c", big)}})
		for limit, want := range map[int]int{1: 1, 1000: 1, 1999: 1, 2000: 2, 0: 3} {
			res, err := r.e.Read(r.ctx, r.caller, engine.ReadRequest{At: []engine.Position{{Queue: "q", Partition: "p", MaxBytes: limit}}})
			check(r, err == nil, "Read: %v", err)
			equal(r, fmt.Sprint("records within ", limit), len(res.Parts[0].Records), want)
		}
		_, err := r.e.Read(r.ctx, r.caller, engine.ReadRequest{At: make([]engine.Position, 1025)})
		equal(r, "1025", code(err), engine.CodeBadRequest)
	}},
	{"S-fetch-3", "records, next offset, log start", func(r *rig) {
		r.push("q", "p", "a", "b")
		got := r.read("q", "p", 0)
		check(r, got.Start == 0 && got.End == 2 && got.Records[1].TransactionID == "b" && got.Records[1].Offset == 1 &&
			got.Records[1].CreatedAt == epoch && string(got.Records[1].Payload) == `"b"`, "answer %+v", got)
	}},
	{"S-fetch-4", "unknown queue, out of range, never written", func(r *rig) {
		equal(r, "unknown", code(r.read("nowhere", "p", 0).Err), engine.CodeUnknownQueue)
		r.push("q", "p", "a")
		equal(r, "above", code(r.read("q", "p", 2).Err), engine.CodeOffsetOutOfRange)
		end := r.read("q", "p", 1)
		check(r, end.Err == nil && len(end.Records) == 0, "at the end: %+v", end)
		fresh := r.read("q", "unwritten", 0)
		check(r, fresh.Err == nil && len(fresh.Records) == 0 && fresh.End == 0, "never written: %+v", fresh)
		r.configure("q", format.OptMaxWaitTimeSeconds, format.QueueOptions{MaxWaitTimeSeconds: 10})
		r.removedBy("q", "p", 1)
		equal(r, "below", code(r.read("q", "p", 0).Err), engine.CodeOffsetOutOfRange)
	}},
	{"S-fetch-5", "a read waits for enough bytes over all positions", func(r *rig) {
		r.push("q", "p", "a")
		done := make(chan *engine.ReadResult, 1)
		go func() {
			res, _ := r.e.Read(r.ctx, r.caller, engine.ReadRequest{MinBytes: 9, Wait: 30 * time.Second,
				At: []engine.Position{{Queue: "q", Partition: "p"}, {Queue: "q", Partition: "p2"}}})
			done <- res
		}()
		r.push("q", "p", "b")
		r.push("q", "p2", "c")
		select {
		case res := <-done:
			check(r, res != nil && len(res.Parts[0].Records)+len(res.Parts[1].Records) == 3, "answer %+v", res)
		case <-r.ctx.Done():
			r.fatalf("the read was not woken")
		}
	}},
	{"S-fetch-7", "time to offset", func(r *rig) {
		for _, id := range []string{"a", "b"} {
			r.push("q", "p", id)
			r.advance(10 * time.Second)
		}
		for at, want := range map[format.Wall]format.Offset{0: 0, epoch: 0, epoch + 1: 1, epoch + 10e6: 1} {
			a := r.offset("q", "p", engine.AtTime, at, "")
			check(r, a.Found && a.Offset == want && a.CreatedAt >= at, "at %d: %+v", at, a)
		}
		equal(r, "none that late", r.offset("q", "p", engine.AtTime, epoch+10e6+1, "").Found, false)
		a := r.offset("q", "p", engine.OfID, 0, "b")
		check(r, a.Found && a.Offset == 1, "of an id: %+v", a)
		equal(r, "of no id", r.offset("q", "p", engine.OfID, 0, "never").Found, false)
		equal(r, "earliest", r.offset("q", "p", engine.Earliest, 0, "").Offset, 0)
		equal(r, "latest", r.offset("q", "p", engine.Latest, 0, "").Offset, 2)
		equal(r, "unknown", code(r.offset("nowhere", "p", engine.Latest, 0, "").Err), engine.CodeUnknownQueue)
	}},
	{"S-fetch-8", "partitions written since, by page, in creation order", func(r *rig) {
		r.pushEach("q", 5, 1)
		r.advance(10 * time.Second)
		r.push("q", "p3", "late")
		r.push("q", "p1", "late")
		var names []string
		page := engine.Page{Limit: 1}
		for {
			rows, next, err := r.e.Catalog().Partitions(r.ctx, r.caller, "q", epoch+10e6, page)
			check(r, err == nil, "Partitions: %v", err)
			for _, p := range rows {
				names = append(names, p.Name)
				check(r, p.End == 2 && p.LastWriteAt == epoch+10e6, "row %+v", p)
			}
			if next == "" {
				break
			}
			page.After = next
		}
		equal(r, "names", fmt.Sprint(names), "[p1 p3]")
		_, _, err := r.e.Catalog().Partitions(r.ctx, r.caller, "q", 0, engine.Page{After: "no such cursor"})
		equal(r, "bad cursor", code(err), engine.CodeBadRequest)
	}},
	{"S-fetch-10", "what options hide from pops is read", func(r *rig) {
		r.configure("q", format.OptDelayedProcessing, format.QueueOptions{DelayedProcessing: 100})
		r.push("q", "p", "a")
		equal(r, "records", len(r.read("q", "p", 0).Records), 1)
	}},
}

var retainRules = []rule{
	{"S-ret-1", "nothing is removed by default", func(r *rig) {
		r.push("q", "p", "a")
		r.some(popOf("q"), "a").all()
		r.advance(1000 * time.Hour)
		equal(r, "records", len(r.read("q", "p", 0).Records), 1)
		equal(r, "last moment", r.partition("q", "p").Start, 0)
	}},
	{"S-ret-2", "retentionSeconds needs its switch and removes the unconsumed too", func(r *rig) {
		r.configure("q", format.OptRetentionSeconds, format.QueueOptions{RetentionSeconds: 10})
		r.push("q", "p", "a")
		r.advance(time.Hour)
		equal(r, "switch off", r.partition("q", "p").Start, 0)
		r.configure("q", format.OptRetentionEnabled, format.QueueOptions{RetentionEnabled: true})
		r.removedBy("q", "p", 1)
	}},
	{"S-ret-3", "completed retention waits for every group, and for any group at all", func(r *rig) {
		r.configure("q", format.OptRetentionEnabled|format.OptCompletedRetentionSeconds,
			format.QueueOptions{RetentionEnabled: true, CompletedRetentionSeconds: 10})
		r.push("q", "p", "a")
		r.advance(10 * time.Minute)
		equal(r, "no group", r.partition("q", "p").Start, 0)
		b := r.some(grouped("q", "h", format.StartAll), "a")
		r.some(grouped("q", "g", format.StartAll), "a").all()
		r.advance(50 * time.Second)
		equal(r, "one group behind", r.partition("q", "p").Start, 0)
		b.all()
		r.removedBy("q", "p", 1)
	}},
	{"S-ret-4", "maxWaitTimeSeconds removes under a live lease and files nothing", func(r *rig) {
		r.configure("q", format.OptMaxWaitTimeSeconds|format.OptLeaseTime, format.QueueOptions{MaxWaitTimeSeconds: 10, LeaseTime: 600})
		r.push("q", "p", "a")
		r.some(popOf("q"), "a")
		r.removedBy("q", "p", 1)
		equal(r, "dead letters", len(r.deadLetters(engine.DeadLetterFilter{})), 0)
	}},
	{"S-ret-6", "the log start only rises; offsets keep counting", func(r *rig) {
		r.configure("q", format.OptMaxWaitTimeSeconds, format.QueueOptions{MaxWaitTimeSeconds: 10})
		r.push("q", "p", "a", "b")
		r.removedBy("q", "p", 2)
		equal(r, "offset", r.push("q", "p", "c")[0].Offset, 2)
		r.configure("q", format.OptMaxWaitTimeSeconds, format.QueueOptions{})
		r.advance(time.Minute)
		equal(r, "start", r.partition("q", "p").Start, 2)
		equal(r, "removed", code(r.read("q", "p", 1).Err), engine.CodeOffsetOutOfRange)
	}},
	{"S-ret-7", "never before its time, never half a push", func(r *rig) {
		r.configure("q", format.OptMaxWaitTimeSeconds, format.QueueOptions{MaxWaitTimeSeconds: 100})
		r.push("q", "p", "a", "b")
		r.advance(50 * time.Second)
		r.push("q", "p", "c", "d")
		for range 10 {
			r.advance(5 * time.Second)
			equal(r, "early", r.partition("q", "p").Start, 0)
		}
		r.removedBy("q", "p", 1)
		equal(r, "whole pushes", r.partition("q", "p").Start, 2)
	}},
	{"S-ret-8", "cursors and dead letters stay", func(r *rig) {
		r.configure("q", format.OptMaxWaitTimeSeconds, format.QueueOptions{MaxWaitTimeSeconds: 10})
		r.push("q", "p", "a", "b")
		r.some(popOf("q"), "a", "b").with("cd")
		r.removedBy("q", "p", 2)
		equal(r, "dead letters", len(r.deadLetters(engine.DeadLetterFilter{})), 1)
		r.push("q", "p", "c")
		r.some(popOf("q"), "c")
	}},
	{"S-ret-11", "there is no deleting one message", func(r *rig) {
		r.push("q", "p", "a")
		n, err := r.e.Catalog().DeleteDeadLetters(r.ctx, r.caller, r.partition("q", "p").ID, "a")
		check(r, err == nil && n == 0, "delete: %d %v", n, err)
		r.some(popOf("q"), "a")
	}},
}
