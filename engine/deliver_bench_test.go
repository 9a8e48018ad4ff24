package engine

import (
	"context"
	"math/rand/v2"
	"testing"

	"queen/engine/format"
)

// BenchmarkConsume pushes messages, pops all of them and acks each by an item of its own, on memory: what a message costs
// from its push to its ack, the frontend apart. Two to each of 64 partitions, and one to each of 64 out of many.
func BenchmarkConsume(b *testing.B) {
	b.Run("few", func(b *testing.B) { consume(b, 64, 2) })
	b.Run("many", func(b *testing.B) { consume(b, 100_000, 1) })
}

func consume(b *testing.B, parts, each int) {
	const touched = 64
	n := benchNode(b)
	ctx, caller := context.Background(), Caller{Tenant: format.DefaultTenant}
	req := PopRequest{Scope: Scope{Queue: "bench"}, Group: "g", Start: Start{Kind: format.StartAll}, Batch: 1000, Partitions: touched}
	rng := rand.New(rand.NewPCG(1, 2))
	round := 0
	step := func() {
		b.StopTimer()
		round++
		pushes := pushOps(rng, touched*each, func(i int) int { return (round*touched + i%touched) * 7919 % parts })
		b.StartTimer()
		if _, err := n.Do(ctx, caller, Batch{Ops: pushes}); err != nil {
			b.Fatal(err)
		}
		left := len(pushes)
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
	for range parts / touched { // all partitions are there, and their cursors
		step()
	}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		step()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*touched*each), "ns/message")
}
