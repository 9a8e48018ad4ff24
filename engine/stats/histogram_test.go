package stats

import "testing"

// TestHistogramBuckets: each value lands in the bucket whose bounds hold it, and the sum is exact.
func TestHistogramBuckets(t *testing.T) {
	var h Histogram
	for _, v := range []int64{-5, 0, 1, 2, 3, 4, 1023, 1024, 1 << 40} {
		h.Observe(v)
	}
	counts, sum := h.Snapshot()
	want := map[int]uint64{0: 2, 1: 1, 2: 2, 3: 1, 10: 1, 11: 1, 31: 1}
	for i, c := range counts {
		if c != want[i] {
			t.Errorf("bucket %d: %d want %d", i, c, want[i])
		}
	}
	if sum != 0+1+2+3+4+1023+1024+1<<40 {
		t.Errorf("sum %d", sum)
	}
}
