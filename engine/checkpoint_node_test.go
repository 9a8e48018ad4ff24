package engine_test

import (
	"testing"
	"time"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/enginetest"
	"queen/engine/enginetest/memnode"
	"queen/engine/vfs"
)

// eagerConfig makes marks, checkpoints and closed segments of next to nothing.
func eagerConfig(fs vfs.FS, c clock.Clock, seed uint64) engine.Config {
	cfg := testConfig(fs, c, seed)
	eager(&cfg)
	return cfg
}

func eager(c *engine.Config) {
	c.MarkBytes, c.MarkEvery = 4<<10, time.Second
	c.CheckpointBytes, c.CheckpointEvery = 8<<10, 2*time.Second
}

// TestRandomWithCheckpoints plays random operations, reopens and crashes against a node that makes a
// checkpoint every few entries: after each reopen and each power cut in the middle of an operation the rules
// hold as if nothing had been. Once with keyed rows in their store, once without one.
func TestRandomWithCheckpoints(t *testing.T) {
	for name, keyed := range map[string]bool{"keyed": true, "memory": false} {
		t.Run(name, func(t *testing.T) {
			enginetest.RandomTest(t, enginetest.RandomOptions{
				Open: func(seed uint64) enginetest.Target {
					o := memnode.Options{Seed: seed * 1000, Config: eager}
					if keyed {
						o.Keyed = t.TempDir()
					}
					return memnode.Open(o)
				},
				Seed: *randomSeed, Ops: listed(*randomOps / 2), Crashes: listed(*randomOps / 100), Keyed: true,
			})
		})
	}
}
