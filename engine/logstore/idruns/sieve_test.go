package idruns

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func makeSieve(spreads []uint64, expected int) *sieve {
	m := newSieveMaker(uint64(expected))
	for _, v := range spreads {
		m.add(v)
	}
	return m.finish()
}

// TestSieve: a sieve says yes to all its spreads, at every size, and to about one in 3,700 others; it takes what
// sieveBytes says.
func TestSieve(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	sizes := []int{0, 1, 2, 15, 16, 17, 31, 32, 33, 255 * 16, 256 * 16, 257 * 16, 100_000}
	more := 60
	if testing.Short() {
		more = 10
	}
	for range more {
		sizes = append(sizes, 1+rng.IntN(6000))
	}
	for _, n := range sizes {
		spreads := make([]uint64, n)
		for i := range spreads {
			spreads[i] = rng.Uint64()
		}
		slices.Sort(spreads)
		s := makeSieve(spreads, n+n/3)
		if s == nil {
			t.Fatalf("%d spreads: no sieve", n)
		}
		for _, v := range spreads {
			if !s.has(v) {
				t.Fatalf("%d spreads: one is missing", n)
			}
		}
		alarms := 0
		const tries = 20_000
		for range tries {
			if s.has(rng.Uint64()) {
				alarms++
			}
		}
		if alarms > 4*tries/3700+10 {
			t.Fatalf("%d spreads: %d false alarms in %d", n, alarms, tries)
		}
		if s = makeSieve(spreads, n); s.bytes() > sieveBytes(uint64(n))+64 {
			t.Fatalf("%d spreads: %d bytes, expected %d", n, s.bytes(), sieveBytes(uint64(n)))
		}
	}
}

// TestSieveOfUnevenSpreads: whatever the spreads, a sieve misses none of them; where it can not be made, there is none.
func TestSieveOfUnevenSpreads(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 2))
	none, tried, step := 0, 0, 1
	if testing.Short() {
		step = 9
	}
	for shift := 0; shift < 64; shift += step {
		tried++
		spreads := make([]uint64, 90_000)
		for i := range spreads {
			spreads[i] = rng.Uint64()>>shift + uint64(shift)<<57
		}
		slices.Sort(spreads)
		s := makeSieve(spreads, len(spreads))
		if s == nil {
			none++
			continue
		}
		for _, v := range spreads {
			if !s.has(v) {
				t.Fatalf("shift %d: one is missing", shift)
			}
		}
	}
	if none == 0 || none == tried {
		t.Fatalf("%d of %d had no sieve", none, tried)
	}
}

func BenchmarkSieve(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	spreads := make([]uint64, 1<<20)
	for i := range spreads {
		spreads[i] = rng.Uint64()
	}
	slices.Sort(spreads)
	b.Run("make", func(b *testing.B) {
		for b.Loop() {
			makeSieve(spreads, len(spreads))
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(spreads)), "ns/row")
	})
	s, yes := makeSieve(spreads, len(spreads)), 0
	b.Run("miss", func(b *testing.B) {
		for i := uint64(0); b.Loop(); i++ {
			if s.has(i * 0x9e3779b97f4a7c15) {
				yes++
			}
		}
	})
}
