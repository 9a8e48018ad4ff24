package engine_test

import (
	"context"
	"flag"
	"testing"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/enginetest"
	"queen/engine/vfs"
)

var (
	randomOps  = flag.Int("random.ops", 4000, "operations of TestRandom")
	randomSeed = flag.Uint64("random.seed", 1, "seed of TestRandom")
)

// memTarget is a node on a crashable memory file system.
type memTarget struct {
	fs    *vfs.Mem
	clock *clock.Fake
	node  *engine.Node
	seed  uint64

	config func(vfs.FS, clock.Clock, uint64) engine.Config
	keyed  string // Config.KeyedDir
}

func (m *memTarget) open() engine.Engine {
	m.seed++
	cfg := m.config(m.fs, m.clock, m.seed)
	cfg.KeyedDir = m.keyed
	n, err := engine.OpenLocal(cfg)
	if err != nil {
		panic(err)
	}
	m.node = n
	return n
}

func (m *memTarget) reopen(crash bool) engine.Engine {
	if !crash {
		if err := m.node.Close(context.Background()); err != nil {
			panic(err)
		}
		return m.open()
	}
	next := m.fs.Crash(vfs.RandomSubset(m.seed))
	m.node.Kill()
	m.fs = next
	return m.open()
}

func newTarget(seed uint64) enginetest.Target {
	m := &memTarget{fs: vfs.NewMem(), clock: clock.NewFake(1_700_000_000_000_000), seed: seed, config: testConfig}
	return m.target()
}

func (m *memTarget) target() enginetest.Target {
	return enginetest.Target{
		Engine: m.open(), Clock: m.clock, Reopen: m.reopen,
		Settle: func(e engine.Engine) { e.(*engine.Node).Settle() },
		Close:  func() { _ = m.node.Close(context.Background()) },
	}
}

// TestRandom plays random operations, reopens and crashes against the node and the rules.
func TestRandom(t *testing.T) {
	seed := uint64(0)
	enginetest.RandomTest(t, enginetest.RandomOptions{
		Open: func() enginetest.Target { seed++; return newTarget(seed * 1000) },
		Seed: *randomSeed, Ops: *randomOps,
	})
}
