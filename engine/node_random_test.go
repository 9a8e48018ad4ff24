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

// TestRandom plays random operations, reopens, crashes and power cuts inside an operation against the
// node and the rules.
func TestRandom(t *testing.T) {
	seed := uint64(0)
	enginetest.RandomTest(t, enginetest.RandomOptions{
		Open: func() enginetest.Target { seed++; return memnode.Open(memnode.Options{Seed: seed * 1000}) },
		Seed: *randomSeed, Ops: *randomOps, Crashes: *randomCrashes,
	})
}
