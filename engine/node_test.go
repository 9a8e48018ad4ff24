package engine_test

import (
	"testing"
	"time"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/enginetest"
	"queen/engine/vfs"
)

func testConfig(fs vfs.FS, c clock.Clock, seed uint64) engine.Config {
	return engine.Config{FS: fs, Clock: c, Rand: clock.NewFakeRand(seed), Dir: "data", SegmentBytes: 1 << 20, PoolReady: 1,
		SweepEvery: 100 * 365 * 24 * time.Hour, // retention runs in Settle, not behind the back of who compares
		Fatal:      func(err error) { panic(err) }}
}

func openNode(t testing.TB, c clock.Clock) *engine.Node {
	t.Helper()
	n, err := engine.OpenLocal(testConfig(vfs.NewMem(), c, 1))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestConformance holds the single node to every rule of the suite, on a virtual clock.
func TestConformance(t *testing.T) {
	enginetest.Run(t, func(t *testing.T, c *clock.Fake) engine.Engine { return openNode(t, c) },
		enginetest.Options{Settle: func(e engine.Engine) { e.(*engine.Node).Settle() }})
}
