package enginetest

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"time"

	"queen/engine"
	"queen/engine/format"
)

var pushRules = []rule{
	{"S-push-1", "one result per message, in order", func(r *rig) {
		res := r.do(&engine.Append{Queue: "q", Partition: "a", Messages: []engine.Message{msg("1"), msg("2")}},
			&engine.Append{Queue: "q2", Partition: "b", Messages: []engine.Message{msg("3")}})
		equal(r, "first", len(res[0].Messages), 2)
		equal(r, "second", len(res[1].Messages), 1)
		equal(r, "offset", res[0].Messages[1].Offset, 1)
	}},
	{"S-push-2", "queued, duplicate, refused", func(r *rig) {
		first := r.push("q", "p", "a")[0]
		res := r.pushAny("q", "p", "b", "a", "c")
		equal(r, "b", res[0].Status, engine.Queued)
		equal(r, "a again", res[1], engine.MessageResult{Status: engine.Duplicate, ID: first.ID, Offset: 0})
		equal(r, "c", res[2].Offset, 2)
		r.configure("locked", format.OptEncryptionEnabled, format.QueueOptions{EncryptionEnabled: true})
		op := &engine.Append{Queue: "locked", Partition: "p", Messages: []engine.Message{msg("a")}}
		m := r.do(op)[0].Messages
		check(r, len(m) == 1 && m[0].Status == engine.Refused && code(m[0].Err) == engine.CodeEncryption, "no key: %+v", m)
	}},
	{"S-push-3", "nothing pushed, nothing answered", func(r *rig) {
		res := r.do(&engine.Append{Queue: "q", Partition: "p"})
		equal(r, "messages", len(res[0].Messages), 0)
		equal(r, "ops", len(r.do()), 0)
	}},
	{"S-push-4", "each partition is judged alone", func(r *rig) {
		r.configure("locked", format.OptEncryptionEnabled, format.QueueOptions{EncryptionEnabled: true})
		res := r.do(&engine.Append{Queue: "locked", Partition: "p", Messages: []engine.Message{msg("a")}},
			&engine.Append{Queue: "q", Partition: "p", Messages: []engine.Message{msg("a")}})
		equal(r, "locked", res[0].Messages[0].Status, engine.Refused)
		equal(r, "open", res[1].Messages[0].Status, engine.Queued)
	}},
	{"S-push-5", "one gapless run after removing duplicates", func(r *rig) {
		r.push("q", "p", "a")
		var got []format.Offset
		for _, m := range r.pushAny("q", "p", "b", "a", "c", "b", "d") {
			got = append(got, m.Offset)
		}
		equal(r, "offsets", fmt.Sprint(got), "[1 0 2 1 3]")
		r.some(popOf("q"), "a", "b", "c", "d")
	}},
	{"S-push-6", "a push after an answer is later in order", func(r *rig) {
		last := r.push("q", "p", "0")[0].Offset
		for i := 1; i < 20; i++ {
			o := r.push("q", "p", fmt.Sprint(i))[0].Offset
			check(r, o > last, "offset %d after %d", o, last)
			last = o
		}
	}},
	{"S-push-7", "concurrent pushes end up in one order", func(r *rig) {
		var wg sync.WaitGroup
		results := make([][]engine.MessageResult, 8)
		for w := range results {
			wg.Go(func() {
				for i := range 10 {
					results[w] = append(results[w], r.push("q", "p", fmt.Sprint(w, i))...)
				}
			})
		}
		wg.Wait()
		read := r.read("q", "p", 0)
		equal(r, "records", len(read.Records), 80)
		for i, rec := range read.Records {
			equal(r, "offset", rec.Offset, format.Offset(i))
		}
		for w := range results {
			for i, m := range results[w] {
				equal(r, "record", read.Records[m.Offset].TransactionID, fmt.Sprint(w, i))
			}
		}
	}},
	{"S-push-8", "createdAt is the broker's time and never falls", func(r *rig) {
		r.push("q", "p", "a")
		r.advance(time.Second)
		r.push("q", "p", "b")
		r.clock.JumpWall(-time.Hour)
		r.push("q", "p", "c")
		rec := r.read("q", "p", 0).Records
		equal(r, "a", rec[0].CreatedAt, epoch)
		equal(r, "b", rec[1].CreatedAt, epoch+1e6)
		check(r, rec[2].CreatedAt >= rec[1].CreatedAt, "createdAt fell from %d to %d", rec[1].CreatedAt, rec[2].CreatedAt)
	}},
	{"S-push-9", "payloads, types, headers come back byte for byte", func(r *rig) {
		payloads := []string{`null`, `0`, `9007199254740991`, `""`, `false`, `{}`, `[]`, ` { "a" : [1, {"b":null}] } `,
			"\"\\u0000\\n🙂\"", "", "\x00\xff\xfe", string(bytes.Repeat([]byte("xyz"), 100_000))}
		headers := []engine.Header{{Name: "h", Value: []byte("1")}, {Name: "h", Value: []byte{0, 255}}, {Name: "", Value: nil}}
		op := &engine.Append{Queue: "q", Partition: "p"}
		for i, p := range payloads {
			m := engine.Message{Payload: []byte(p)}
			if i%2 == 1 {
				m.ContentType, m.Headers, m.TraceID = "application/octet-stream", headers, format.UUID{1, 2, 3}
			}
			op.Messages = append(op.Messages, m)
		}
		r.do(op)
		same := func(i int, rec engine.Record) {
			equal(r, "payload", string(rec.Payload), payloads[i])
			equal(r, "type", rec.ContentType, op.Messages[i].ContentType)
			equal(r, "trace", rec.TraceID, op.Messages[i].TraceID)
			equal(r, "headers", fmt.Sprint(rec.Headers), fmt.Sprint(op.Messages[i].Headers))
		}
		for i, rec := range r.read("q", "p", 0).Records {
			same(i, rec)
		}
		b := r.pop(popOf("q"))
		equal(r, "delivered", len(b.messages), len(payloads))
		for i, m := range b.messages {
			same(i, m.Record)
		}
	}},
	{"S-push-10", "a message without an id never repeats", func(r *rig) {
		ids := map[string]bool{}
		for _, m := range r.push("q", "p", make([]string, 100)...) {
			ids[m.ID.String()] = true
		}
		equal(r, "distinct ids", len(ids), 100)
		for _, m := range r.pop(popOf("q")).messages {
			check(r, m.TransactionID == m.ID.String() && !m.HasCallerID, "id %q of message %v", m.TransactionID, m.ID)
		}
	}},
	{"S-push-11", "no trace id is no trace id", func(r *rig) {
		r.push("q", "p", "a")
		check(r, r.read("q", "p", 0).Records[0].TraceID.IsZero(), "a trace id out of nothing")
	}},
	{"S-push-12", "producerSub is the authenticated subject", func(r *rig) {
		r.push("q", "p", "a")
		r.caller.Subject = "worker@example"
		r.push("q", "p", "b")
		rec := r.read("q", "p", 0).Records
		equal(r, "without", rec[0].ProducerSub, "")
		equal(r, "with", rec[1].ProducerSub, "worker@example")
	}},
	{"S-push-14", "10,000 messages in one push", func(r *rig) {
		res := r.push("q", "p", make([]string, 10_000)...)
		equal(r, "last offset", res[len(res)-1].Offset, 9999)
	}},
	{"S-push-16", "a push wakes one parked pop of each group", func(r *rig) {
		var parked []<-chan *batch
		for _, g := range []string{"g1", "g2"} {
			req := grouped("q", g, format.StartNew)
			req.Wait = 30 * time.Second
			parked = append(parked, r.parked(req))
		}
		r.push("q", "p", "a")
		for _, p := range parked {
			r.arrives(p, "a")
		}
	}},
}

var dedupRules = []rule{
	{"S-dup-1", "the scope of an id is its partition", func(r *rig) {
		r.push("q", "p", "a")
		r.push("q", "p2", "a")
		r.push("q2", "p", "a")
		equal(r, "same partition", r.pushAny("q", "p", "a")[0].Status, engine.Duplicate)
	}},
	{"S-dup-2", "exact inside the window", func(r *rig) {
		r.configure("q", format.OptDedupWindowSeconds, format.QueueOptions{DedupWindowSeconds: 100})
		first := r.push("q", "p", "x", "a")[1]
		r.advance(100*time.Second - time.Microsecond)
		equal(r, "last moment", r.pushAny("q", "p", "a")[0], engine.MessageResult{Status: engine.Duplicate, ID: first.ID, Offset: 1})
		for i := range 300 {
			r.push("q", "p", fmt.Sprint("other", i))
		}
	}},
	{"S-dup-3", "racing pushes of one id store one", func(r *rig) {
		var wg sync.WaitGroup
		results := make([]engine.MessageResult, 8)
		for i := range results {
			wg.Go(func() { results[i] = r.pushAny("q", "p", "a")[0] })
		}
		wg.Wait()
		queued := 0
		for _, m := range results {
			if m.Status == engine.Queued {
				queued++
			}
			equal(r, "id", m.ID, results[0].ID)
			equal(r, "offset", m.Offset, 0)
		}
		equal(r, "queued", queued, 1)
	}},
	{"S-dup-4", "repeats inside one request are stored once, whatever the window", func(r *rig) {
		for _, window := range []int64{0, 3600} {
			name := fmt.Sprint("q", window)
			r.configure(name, format.OptDedupWindowSeconds, format.QueueOptions{DedupWindowSeconds: window})
			res := r.pushAny(name, "p", "a", "b", "a")
			equal(r, "repeat", res[2], engine.MessageResult{Status: engine.Duplicate, ID: res[0].ID, Offset: 0})
		}
	}},
	{"S-dup-4", "also in a push of many megabytes", func(r *rig) {
		for _, window := range []int64{0, 3600} {
			name := fmt.Sprint("w", window)
			r.configure(name, format.OptDedupWindowSeconds, format.QueueOptions{DedupWindowSeconds: window})
			op := &engine.Append{Queue: name, Partition: "p"}
			for _, id := range []string{"a", "b", "a", "", "c", "b", "a"} {
				op.Messages = append(op.Messages, msg(id, `"`+strings.Repeat("x", 6<<20)+`"`))
			}
			res := r.do(op)[0].Messages
			equal(r, "results", len(res), 7)
			var got []engine.MessageStatus
			for _, m := range res {
				got = append(got, m.Status)
			}
			equal(r, "statuses", fmt.Sprint(got), "[1 1 2 1 1 2 2]")
			equal(r, "a", res[6], engine.MessageResult{Status: engine.Duplicate, ID: res[0].ID})
			equal(r, "b", res[5], engine.MessageResult{Status: engine.Duplicate, ID: res[1].ID, Offset: 1})
			equal(r, "end", r.partition(name, "p").End, 4)
		}
	}},
	{"S-dup-5", "window 0 is off", func(r *rig) {
		r.configure("q", format.OptDedupWindowSeconds, format.QueueOptions{})
		r.push("q", "p", "a")
		equal(r, "offset", r.push("q", "p", "a")[0].Offset, 1)
	}},
	{"S-dup-6", "outside the window an id is new", func(r *rig) {
		r.configure("q", format.OptDedupWindowSeconds, format.QueueOptions{DedupWindowSeconds: 100})
		r.push("q", "p", "a")
		r.advance(100 * time.Second)
		equal(r, "offset", r.push("q", "p", "a")[0].Offset, 1)
		r.advance(50 * time.Second)
		equal(r, "the newest decides", r.pushAny("q", "p", "a")[0].Offset, 1)
	}},
	{"S-dup-8", "an id outlives its payload", func(r *rig) {
		r.configure("q", format.OptMaxWaitTimeSeconds, format.QueueOptions{MaxWaitTimeSeconds: 10})
		r.push("q", "p", "a")
		r.removedBy("q", "p", 1)
		equal(r, "repeat", r.pushAny("q", "p", "a")[0].Status, engine.Duplicate)
	}},
	{"S-dup-13", "an acked id still counts", func(r *rig) {
		r.push("q", "p", "a")
		r.some(popOf("q"), "a").all()
		equal(r, "repeat", r.pushAny("q", "p", "a")[0].Status, engine.Duplicate)
	}},
}
