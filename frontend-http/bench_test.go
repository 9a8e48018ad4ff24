package frontendhttp

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"queen/engine"
	"queen/engine/format"
)

// benchPayload is n bytes of JSON.
func benchPayload(n int) string { return `{"v":"` + strings.Repeat("x", n-8) + `"}` }

// cpuMeter measures the process's CPU time, which a busy machine does not stretch as it does wall time.
type cpuMeter struct {
	b     *testing.B
	began int64
}

func startCPU(b *testing.B) cpuMeter {
	user, system := cpuMicros()
	return cpuMeter{b, user + system}
}

func (m cpuMeter) report(items int) {
	user, system := cpuMicros()
	m.b.ReportMetric(float64(user+system-m.began)*1000/float64(m.b.N)/float64(items), "cpu-ns/item")
}

func benchPush(items, size, partitions int) string {
	var b strings.Builder
	b.WriteString(`{"items":[`)
	for i := range items {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"queue":"orders","partition":"customer-%d",`+
			`"transactionId":"0199b1d0-11aa-7000-9000-%012d","payload":%s}`, i%partitions, i, benchPayload(size))
	}
	b.WriteString(`]}`)
	return b.String()
}

// BenchmarkPush is what the frontend adds to a push: decode, group, call, encode; without HTTP and without storage.
func BenchmarkPush(b *testing.B) {
	for _, c := range []struct{ items, size, partitions int }{{1, 256, 1}, {100, 256, 1}, {100, 256, 100},
		{1000, 256, 1000}, {100, 1024, 100}} {
		b.Run(fmt.Sprintf("%dx%dB/%dpartitions", c.items, c.size, c.partitions), func(b *testing.B) {
			body := []byte(benchPush(c.items, c.size, c.partitions))
			p := newPushBody()
			e := &preparedSink{}
			var out []byte
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			cpu := startCPU(b)
			for b.Loop() {
				if err := p.decode(body); err != nil {
					b.Fatal(err)
				}
				out = appendPushed(out[:0], p, e.do(p.ops))
				p.reset()
			}
			cpu.report(c.items)
		})
	}
}

// preparedSink answers like sink, without allocating.
type preparedSink struct {
	results  []engine.Result
	messages []engine.MessageResult
}

func (s *preparedSink) do(ops []engine.Op) []engine.Result {
	s.results, s.messages = s.results[:0], s.messages[:0]
	for _, op := range ops {
		from := len(s.messages)
		for k := range op.(*engine.Append).Messages {
			s.messages = append(s.messages, engine.MessageResult{Status: engine.Queued, ID: format.UUID{1}, Offset: format.Offset(k)})
		}
		s.results = append(s.results, engine.Result{Messages: s.messages[from:len(s.messages):len(s.messages)]})
	}
	return s.results
}

// BenchmarkAck is the same for a batch of acknowledgments.
func BenchmarkAck(b *testing.B) {
	const items = 100
	var s strings.Builder
	s.WriteString(`{"acknowledgments":[`)
	for i := range items {
		if i > 0 {
			s.WriteByte(',')
		}
		fmt.Fprintf(&s, `{"transactionId":"0199b1d0-11aa-7000-9000-%012d","partitionId":"%d",`+
			`"status":"completed","error":null,"leaseId":"0199b1d2-0000-7000-8000-00000000000a"}`, i, 64+i)
	}
	s.WriteString(`],"consumerGroup":"billing"}`)
	body := []byte(s.String())
	a, results := new(ackBody), make([]engine.Result, items)
	var out []byte
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	cpu := startCPU(b)
	for b.Loop() {
		if err := a.batch(body); err != nil {
			b.Fatal(err)
		}
		out = appendAcked(out[:0], a.acks, results)
		a.reset()
	}
	cpu.report(items)
}

// BenchmarkPop is what a delivery costs to write.
func BenchmarkPop(b *testing.B) {
	for _, c := range []struct{ messages, perClaim int }{{1, 1}, {100, 1}, {1000, 20}} {
		b.Run(fmt.Sprintf("%dx256B/%dperPartition", c.messages, c.perClaim), func(b *testing.B) {
			d := benchDelivery(c.messages, c.perClaim)
			var out []byte
			b.ReportAllocs()
			cpu := startCPU(b)
			for b.Loop() {
				e := popEncoder{d: d}
				var err error
				if out, err = e.encode(out[:0], "orders"); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(len(out)))
			cpu.report(c.messages)
		})
	}
}

func benchDelivery(messages, perClaim int) *engine.Delivery {
	payload := []byte(benchPayload(256))
	var claims []engine.Claimed
	for i := range (messages + perClaim - 1) / perClaim {
		claims = append(claims, engine.Claimed{Partition: fmt.Sprint("customer-", i), PartitionID: format.PartitionID(i), Attempt: 1})
	}
	return engine.NewDelivery(engine.Delivery{Lease: "0199b1d2-0000-7000-8000-00000000000a", Group: "billing", Claims: claims},
		func(yield func(engine.Delivered, error) bool) {
			for i := range messages {
				m := engine.Delivered{Claim: i / perClaim, Record: engine.Record{ID: format.UUID{1},
					TransactionID: "0199b1d0-11aa-7000-9000-000000000001", CreatedAt: format.Wall(1_700_000_000_000_000 + i/100),
					Offset: format.Offset(i), Payload: payload}}
				if !yield(m, nil) {
					return
				}
			}
		}, func(bool) {})
}

// BenchmarkPushOverHTTP adds the socket: one connection, one request at a time, into an engine that keeps nothing.
func BenchmarkPushOverHTTP(b *testing.B) {
	for _, items := range []int{1, 100} {
		b.Run(fmt.Sprintf("%dx256B", items), func(b *testing.B) {
			n := startWith(b, Options{Engine: &quietSink{sink: newSink()}})
			c := n.dial()
			req := request("POST", "/api/v1/push", benchPush(items, 256, items))
			b.ReportAllocs()
			cpu := startCPU(b)
			for b.Loop() {
				c.send(req)
				if a := c.receive(); a.status != 201 {
					b.Fatal(a.body)
				}
			}
			cpu.report(items)
		})
	}
}

// quietSink is a sink for one caller at a time that allocates nothing.
type quietSink struct {
	*sink
	prepared preparedSink
}

func (s *quietSink) Do(_ context.Context, _ engine.Caller, batch engine.Batch) ([]engine.Result, error) {
	return s.prepared.do(batch.Ops), nil
}
