package engine_test

import (
	"flag"
	"testing"

	"queen/engine/enginetest"
	"queen/engine/enginetest/memnode"
)

var (
	randomOps     = flag.Int("random.ops", 4000, "operations of TestRandom")
	randomSeed    = flag.Uint64("random.seed", 1, "seed of TestRandom")
	randomCrashes = flag.Int("random.crashes", 40, "how often TestRandom cuts the power inside an operation")
)

// listed is how many random operations a test plays: a fifth with -short.
func listed(ops int) int {
	if testing.Short() {
		return ops / 5
	}
	return ops
}

// TestRandom plays random operations, reopens, crashes and power cuts inside an operation against the
// node and the rules.
func TestRandom(t *testing.T) {
	enginetest.RandomTest(t, enginetest.RandomOptions{
		Open: func(seed uint64) enginetest.Target { return memnode.Open(memnode.Options{Seed: seed * 1000}) },
		Seed: *randomSeed, Ops: listed(*randomOps), Crashes: listed(*randomCrashes),
	})
}

// TestRandomTransactions is TestRandom with transactions over pushes and keys, of which a crash leaves all or nothing.
func TestRandomTransactions(t *testing.T) {
	cov := enginetest.RandomTest(t, enginetest.RandomOptions{
		Open: func(seed uint64) enginetest.Target { return memnode.Open(memnode.Options{Seed: (5000 + seed) * 1000}) },
		Seed: *randomSeed, Ops: listed(*randomOps / 2), Crashes: listed(*randomCrashes), Keyed: true,
	})
	if cov.Applied == 0 && *randomCrashes > 0 && !testing.Short() {
		t.Error("no call that died was carried out")
	}
}
