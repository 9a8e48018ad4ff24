package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"queen/engine/format"
)

// Goal: acks are in one group exactly when partition, consumer group, lease and fencing are the same, in whatever order
// they come and whatever the call before had.
func TestAcksAreGroupedByTheWholeKey(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var e ackEncoder
	for call := range 300 {
		parts, scopes := 1+rng.IntN(30), 1+rng.IntN(12)
		if call%50 == 0 {
			parts = 2 * keptGroups
		}
		want := map[ackKey]int{}
		e = e.emptied()
		var key ackKey
		for range 4 * parts {
			if rng.IntN(2) == 0 {
				n := rng.IntN(scopes)
				key.ackScope = ackScope{group: fmt.Sprint("g", n%2), lease: format.UUID{byte(n / 4)}, unfenced: n%4 > 1}
			}
			key.partition = format.PartitionID(rng.IntN(parts))
			got := e.group(&key)
			if i, ok := want[key]; !ok {
				want[key] = got
				if got != len(want)-1 {
					t.Fatalf("call %d: a new key is in group %d of %d", call, got, len(want))
				}
			} else if got != i {
				t.Fatalf("call %d: %+v is in group %d, and was in %d", call, key, got, i)
			}
			if e.groups[got].ackKey != key {
				t.Fatalf("call %d: %+v is in the group of %+v", call, key, e.groups[got].ackKey)
			}
		}
	}
}

// BenchmarkAckGroups is a call of acks of 64 partitions under one lease.
func BenchmarkAckGroups(b *testing.B) {
	var e ackEncoder
	var key ackKey
	key.group, key.lease = "workers", format.UUID{1}
	const acks = 64
	for b.Loop() {
		e = e.emptied()
		for i := range acks {
			key.partition = format.PartitionID(i * 7919)
			e.group(&key)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*acks), "ns/ack")
}
