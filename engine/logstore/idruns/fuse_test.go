package idruns

import (
	"math/rand/v2"
	"testing"
)

// TestFuse: a filter says yes to all its hashes, at every size, and to about one in 4,096 others.
func TestFuse(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var m fuseMaker
	sizes := []int{1, 2, 3, 4, 5, 7, 10, 100, 999, 5000, fuseRows}
	for range 200 {
		sizes = append(sizes, 1+rng.IntN(3000))
	}
	for _, n := range sizes {
		hashes := make([]uint64, n)
		for i := range hashes {
			hashes[i] = rng.Uint64()
		}
		f := m.build(hashes)
		if f == nil {
			t.Fatalf("%d hashes: no filter", n)
		}
		for _, h := range hashes {
			if !f.has(h) {
				t.Fatalf("%d hashes: one is missing", n)
			}
		}
		alarms := 0
		const tries = 20000
		for range tries {
			if f.has(rng.Uint64()) {
				alarms++
			}
		}
		if alarms > 5*tries/4096+10 {
			t.Fatalf("%d hashes: %d false alarms in %d", n, alarms, tries)
		}
		if n == fuseRows && float64(8*f.bytes())/float64(n) > 15 {
			t.Fatalf("%d bytes for %d hashes", f.bytes(), n)
		}
	}
}

func BenchmarkFuseBuild(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	hashes := make([]uint64, fuseRows)
	for i := range hashes {
		hashes[i] = rng.Uint64()
	}
	var m fuseMaker
	for b.Loop() {
		m.build(hashes)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/fuseRows, "ns/row")
}

func BenchmarkFuseMiss(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	hashes := make([]uint64, fuseRows)
	for i := range hashes {
		hashes[i] = rng.Uint64()
	}
	var m fuseMaker
	f := m.build(hashes)
	yes := 0
	for i := uint64(0); b.Loop(); i++ {
		if f.has(i * 0x9e3779b97f4a7c15) {
			yes++
		}
	}
	_ = yes
}
