package idruns

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSorter: rows of any number and distribution of spreads come in order, rows of one spread by less.
func TestSorter(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	spreads := map[string]func(i int) uint64{
		"even":        func(int) uint64 { return rng.Uint64() },
		"one":         func(int) uint64 { return 7 },
		"few":         func(int) uint64 { return rng.Uint64N(50) << 50 },
		"low":         func(int) uint64 { return rng.Uint64N(1 << 20) },
		"exponential": func(int) uint64 { return rng.Uint64() >> rng.IntN(64) },
		"rising":      func(i int) uint64 { return uint64(i) << 30 },
		"falling":     func(i int) uint64 { return ^uint64(i) },
		"ends":        func(i int) uint64 { return -uint64(i & 1) },
	}
	var s sorter // one for all: it keeps its memory
	for name, spread := range spreads {
		for _, n := range []int{0, 1, 2, 30, 1000, fineMax, fineMax + 1, 100_000} {
			in := make([]uint64, n)
			for i := range in {
				in[i] = spread(i)
			}
			low, high := uint64(0), ^uint64(0)
			if n > 0 && n%2 == 0 {
				low, high = slices.Min(in), slices.Max(in)
			}
			deal := s.begin(n, low, high)
			for _, v := range in {
				deal.count(v)
			}
			deal.counted()
			for i, v := range in {
				deal.place(v, uint32(i))
			}
			got := deal.finish(func(a, b uint32) bool { return a > b })
			if len(got) != n {
				t.Fatalf("%s: %d of %d", name, len(got), n)
			}
			for i, r := range got {
				if in[r.at] != r.spread || i > 0 && (got[i-1].spread > r.spread || got[i-1].spread == r.spread && got[i-1].at <= r.at) {
					t.Fatalf("%s, %d rows: %v before %v", name, n, got[max(i, 1)-1], r)
				}
			}
		}
	}
}
