package engine

import (
	"context"
	"math/rand/v2"
	"testing"

	"queen/engine/format"
)

// BenchmarkConsume pushes two messages to each of 64 partitions, pops all of them and acks each by an item of its own, on
// memory: what a message costs from its push to its ack, the frontend apart.
func BenchmarkConsume(b *testing.B) {
	const parts, each = 64, 2
	n := benchNode(b)
	ctx, caller := context.Background(), Caller{Tenant: format.DefaultTenant}
	req := PopRequest{Scope: Scope{Queue: "bench"}, Group: "g", Start: Start{Kind: format.StartAll}, Batch: 1000, Partitions: parts}
	rng := rand.New(rand.NewPCG(1, 2))
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		pushes := pushOps(rng, parts*each, func(i int) int { return i % parts })
		b.StartTimer()
		if _, err := n.Do(ctx, caller, Batch{Ops: pushes}); err != nil {
			b.Fatal(err)
		}
		left := parts * each
		for left > 0 {
			d, err := n.Pop(ctx, caller, req)
			if err != nil || d == nil {
				b.Fatal(d, err)
			}
			var acks []Ack
			for m := range d.Messages() {
				c := &d.Claims[m.Claim]
				acks = append(acks, Ack{Partition: c.PartitionID, Group: "g", Lease: d.Lease, TransactionID: m.TransactionID,
					Status: format.AckCompleted})
			}
			d.Delivered()
			ops := make([]Op, len(acks))
			for i := range acks {
				ops[i] = &acks[i]
			}
			if _, err := n.Do(ctx, caller, Batch{Ops: ops}); err != nil {
				b.Fatal(err)
			}
			left -= len(acks)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*parts*each), "ns/message")
}
