package histo

import (
	"math"
	"slices"
	"testing"
	"time"
)

// TestPercentiles compares with a sorted list: never below it, and at most one bucket above.
func TestPercentiles(t *testing.T) {
	var all []time.Duration
	var h, a, b Histogram
	x := uint64(88172645463325252)
	for i := range 20_000 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		d := time.Duration(x >> (x % 60))
		if d < 0 {
			d = 0
		}
		all = append(all, d)
		h.Add(d)
		if i%2 == 0 {
			a.Add(d)
		} else {
			b.Add(d)
		}
	}
	slices.Sort(all)
	a.Merge(&b)
	for _, p := range []float64{0, 0.01, 50, 99, 99.9, 100} {
		at := max(int(math.Ceil(p/100*float64(len(all))))-1, 0)
		got, want := h.Percentile(p), all[at]
		if got < want || float64(got) > float64(want)*1.016+1 {
			t.Errorf("p%v is %d, want %d", p, got, want)
		}
		if merged := a.Percentile(p); merged != got {
			t.Errorf("p%v of two halves is %d, of the whole %d", p, merged, got)
		}
	}
	if h.Max() != all[len(all)-1] || h.Count() != uint64(len(all)) {
		t.Errorf("max %d count %d", h.Max(), h.Count())
	}
}

// TestBuckets walks the borders of every bucket: each value is in the bucket that ends at or after it.
func TestBuckets(t *testing.T) {
	for i := range buckets - perOctave {
		end := upper(i)
		if bucketOf(end) != i || bucketOf(end+1) != i+1 {
			t.Fatalf("bucket %d ends at %d, which is in %d, and the next value in %d", i, end, bucketOf(end), bucketOf(end+1))
		}
	}
}

func TestEmpty(t *testing.T) {
	var h Histogram
	if h.Percentile(99) != 0 || h.Mean() != 0 || h.Max() != 0 {
		t.Error("an empty histogram answers zero")
	}
}
