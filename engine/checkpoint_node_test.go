package engine_test

import (
	"testing"
	"time"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/enginetest"
	"queen/engine/vfs"
)

// eagerConfig makes marks, checkpoints and closed segments of next to nothing.
func eagerConfig(fs vfs.FS, c clock.Clock, seed uint64) engine.Config {
	cfg := testConfig(fs, c, seed)
	cfg.MarkBytes, cfg.MarkEvery = 4<<10, time.Second
	cfg.CheckpointBytes, cfg.CheckpointEvery = 8<<10, 2*time.Second
	return cfg
}

// TestRandomWithCheckpoints plays random operations, reopens and crashes against a node that makes a
// checkpoint every few entries: after each reopen the rules hold as if nothing had been. Once with
// keyed rows in their store, once with power cuts in the middle of operations.
func TestRandomWithCheckpoints(t *testing.T) {
	for name, crashes := range map[string]int{"keyed": 0, "power cuts": *randomOps / 100} {
		t.Run(name, func(t *testing.T) {
			seed := uint64(0)
			enginetest.RandomTest(t, enginetest.RandomOptions{
				Open: func() enginetest.Target {
					seed++
					m := &memTarget{fs: vfs.NewMem(), clock: clock.NewFake(1_700_000_000_000_000), seed: seed * 1000, config: eagerConfig}
					if crashes == 0 {
						m.keyed = t.TempDir()
					}
					return m.target()
				},
				Seed: *randomSeed, Ops: *randomOps / 2, Crashes: crashes,
			})
		})
	}
}
