package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"queen/engine/clock"
	"queen/engine/format"
	"queen/engine/logstore"
	"queen/engine/vfs"
)

// benchNode is a node on memory, without consumers unless the benchmark adds them.
func benchNode(b *testing.B) *Node {
	n, err := OpenLocal(Config{FS: vfs.NewMem(), Clock: clock.NewFake(1_700_000_000_000_000), Rand: clock.NewFakeRand(1), Dir: "data",
		SegmentBytes: 16 << 20, PoolReady: 1, TailBytes: 1 << 20, MarkBytes: 1 << 40})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(n.Kill)
	return n
}

// pushOps are pushes of one message with an id each, to the partitions that part says.
func pushOps(rng *rand.Rand, count int, part func(i int) int) []Op {
	ops := make([]Op, count)
	for i := range ops {
		id := fmt.Sprintf("%016x-%016x-ab", rng.Uint64(), rng.Uint64())
		ops[i] = &Append{Queue: "bench", Partition: fmt.Sprintf("partition-%010d", part(i)),
			Messages: []Message{{TransactionID: id, Payload: make([]byte, 256)}}}
	}
	return ops
}

// pushEntry is an entry of frames single messages with ids, over random ones of 10,000 partitions.
func pushEntry(n *Node, rng *rand.Rand, frames int) []byte {
	ops := pushOps(rng, frames, func(int) int { return rng.IntN(10_000) })
	p := pushEncoder{n: n, caller: Caller{Tenant: format.DefaultTenant}, ops: ops, sub: newSubmission(writing)}
	for i, op := range ops {
		if err := p.add(i, op.(*Append)); err != nil {
			panic(err)
		}
	}
	var e format.EntryBuilder
	e.Begin(n.stamp.next())
	e.Add(p.sub.buf)
	return e.Head(nil)
}

// BenchmarkApplyPushes is what apply, which runs alone, takes for a frame of one message: it bounds the pushes of a
// node. Look-ups that miss the processor's caches are most of it.
func BenchmarkApplyPushes(b *testing.B) {
	const frames, entries = 400, 500
	n := benchNode(b)
	if err := n.seq.Close(); err != nil { // apply is the benchmark's from now on
		b.Fatal(err)
	}
	at := n.state.m.Applied()
	rng := rand.New(rand.NewPCG(1, 2))
	var heads [][]byte
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if i%entries == 0 {
			b.StopTimer()
			heads = heads[:0]
			for range entries {
				heads = append(heads, pushEntry(n, rng, frames))
			}
			b.StartTimer()
		}
		at++
		if _, err := n.Apply(Committed{Index: at, Data: heads[i%entries], Pos: logstore.EntryPos{Segment: 1, Pos: 4160}}); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*frames), "ns/frame")
}
