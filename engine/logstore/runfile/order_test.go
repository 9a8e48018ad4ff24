package runfile

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

func randomOrder(n int, partitions uint64, seed uint64) []Order {
	rng := rand.New(rand.NewPCG(seed, 3))
	keys := make([]Order, n)
	for i := range keys {
		keys[i] = Order{Partition: rng.Uint64N(partitions)<<6 | 1, Next: rng.Uint64(), At: uint32(i)}
	}
	return keys
}

// TestSortByPartition holds it to a stable sort by comparison, for few and many rows, one partition and numbers of
// any size.
func TestSortByPartition(t *testing.T) {
	for _, n := range []int{0, 1, 2, orderFew - 1, orderFew, 1000, 5000} {
		for seed, partitions := range []uint64{1, 2, 300, 1 << 20, 1 << 58} {
			keys := randomOrder(n, partitions, uint64(seed))
			if seed == 3 && n > 0 {
				keys[n/2].Partition = 1 << 63 // far from the others
			}
			want := slices.Clone(keys)
			slices.SortStableFunc(want, func(a, b Order) int { return cmp.Compare(a.Partition, b.Partition) })
			if got := SortByPartition(keys); !slices.Equal(got, want) {
				t.Fatalf("%d rows of %d partitions", n, partitions)
			}
		}
	}
}

// BenchmarkSortByPartition is a chunk of 150,000 rows over 10,000 partitions, against comparing.
func BenchmarkSortByPartition(b *testing.B) {
	keys := randomOrder(150_000, 10_000, 1)
	scratch := make([]Order, len(keys))
	b.Run("passes", func(b *testing.B) {
		for b.Loop() {
			copy(scratch, keys)
			SortByPartition(scratch)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(keys)), "ns/row")
	})
	b.Run("comparing", func(b *testing.B) {
		for b.Loop() {
			copy(scratch, keys)
			slices.SortFunc(scratch, func(a, b Order) int {
				return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.At, b.At))
			})
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(keys)), "ns/row")
	})
}
