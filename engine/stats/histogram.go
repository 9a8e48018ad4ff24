package stats

import (
	"math/bits"
	"sync/atomic"
)

// Buckets is the number of buckets of a Histogram: bucket i counts values below 2^i and not below
// 2^(i-1); the last one takes all larger ones.
const Buckets = 32

// Histogram counts values, usually microseconds. The zero value is ready.
type Histogram struct {
	counts [Buckets]atomic.Uint64
	sum    atomic.Uint64
}

// Observe counts one value; negative ones count as 0.
func (h *Histogram) Observe(v int64) {
	u := uint64(max(v, 0))
	h.counts[min(bits.Len64(u), Buckets-1)].Add(1)
	h.sum.Add(u)
}

// Snapshot reads the counts and the sum. Values counted meanwhile may be in one and not the other.
func (h *Histogram) Snapshot() (counts [Buckets]uint64, sum uint64) {
	for i := range h.counts {
		counts[i] = h.counts[i].Load()
	}
	return counts, h.sum.Load()
}
