package engine_test

import (
	"context"
	"errors"
	"flag"
	"runtime"
	"testing"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/enginetest"
	"queen/engine/format"
	"queen/engine/vfs"
)

var (
	randomOps     = flag.Int("random.ops", 4000, "operations of TestRandom")
	randomSeed    = flag.Uint64("random.seed", 1, "seed of TestRandom")
	randomCrashes = flag.Int("random.crashes", 40, "how often TestRandom cuts the power inside an operation")
)

// memTarget is a node on a crashable memory file system.
type memTarget struct {
	fs    *vfs.Mem
	clock *clock.Fake
	node  *engine.Node
	seed  uint64

	config func(vfs.FS, clock.Clock, uint64) engine.Config
	keyed  string // Config.KeyedDir

	// life ends when the node does, because its storage failed under it.
	life context.Context
	die  context.CancelFunc
}

func (m *memTarget) open() engine.Engine {
	m.seed++
	cfg := m.config(m.fs, m.clock, m.seed)
	cfg.KeyedDir = m.keyed
	life, die := context.WithCancel(context.Background())
	m.life, m.die = life, die
	fs := m.fs
	cfg.Fatal = func(err error) {
		if !fs.PoweredOff() {
			panic(err)
		}
		die()
		runtime.Goexit()
	}
	n, err := engine.OpenLocal(cfg)
	if err != nil {
		panic(err)
	}
	m.node = n
	return &mortalNode{Node: n, life: life}
}

// mortalNode is a node whose calls end with it.
type mortalNode struct {
	*engine.Node
	life context.Context
}

// until is ctx, ended by the node's death as well.
func (m *mortalNode) until(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(m.life, cancel)
	return ctx, func() { stop(); cancel() }
}

func (m *mortalNode) Do(ctx context.Context, c engine.Caller, b engine.Batch) ([]engine.Result, error) {
	ctx, done := m.until(ctx)
	defer done()
	res, err := m.Node.Do(ctx, c, b)
	for i := range res {
		if e := res[i].Err; e != nil && errors.Is(e, vfs.ErrPowerOff) {
			return nil, e // a read failed: a process that lost its power answers nothing
		}
		for k := range res[i].Messages {
			if e := res[i].Messages[k].Err; e != nil && errors.Is(e, vfs.ErrPowerOff) {
				return nil, e
			}
		}
	}
	return res, err
}

func (m *mortalNode) Catalog() engine.Catalog { return &mortalCatalog{m.Node.Catalog(), m} }

type mortalCatalog struct {
	engine.Catalog
	m *mortalNode
}

func (c *mortalCatalog) Configure(ctx context.Context, by engine.Caller, r engine.ConfigureRequest) (engine.QueueInfo, error) {
	ctx, done := c.m.until(ctx)
	defer done()
	return c.Catalog.Configure(ctx, by, r)
}

func (c *mortalCatalog) DeleteQueue(ctx context.Context, by engine.Caller, queue string) (bool, error) {
	ctx, done := c.m.until(ctx)
	defer done()
	return c.Catalog.DeleteQueue(ctx, by, queue)
}

func (c *mortalCatalog) Purge(ctx context.Context, by engine.Caller, queue string, group *string) (uint64, error) {
	ctx, done := c.m.until(ctx)
	defer done()
	return c.Catalog.Purge(ctx, by, queue, group)
}

func (c *mortalCatalog) DeleteDeadLetters(ctx context.Context, by engine.Caller, part format.PartitionID, id string) (uint64, error) {
	ctx, done := c.m.until(ctx)
	defer done()
	return c.Catalog.DeleteDeadLetters(ctx, by, part, id)
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

func (m *memTarget) close() {
	if m.life.Err() != nil || m.fs.PoweredOff() {
		m.node.Kill()
		return
	}
	_ = m.node.Close(context.Background())
}

func newTarget(seed uint64) enginetest.Target {
	m := &memTarget{fs: vfs.NewMem(), clock: clock.NewFake(1_700_000_000_000_000), seed: seed, config: testConfig}
	return m.target()
}

func (m *memTarget) target() enginetest.Target {
	return enginetest.Target{
		Engine: m.open(), Clock: m.clock, Reopen: m.reopen,
		Arm:    func(n int) { m.fs.PowerOffAt(int64(n)) },
		Settle: func(engine.Engine) { m.node.Settle() },
		Close:  m.close,
	}
}

// TestRandom plays random operations, reopens, crashes and power cuts inside an operation against the
// node and the rules.
func TestRandom(t *testing.T) {
	seed := uint64(0)
	enginetest.RandomTest(t, enginetest.RandomOptions{
		Open: func() enginetest.Target { seed++; return newTarget(seed * 1000) },
		Seed: *randomSeed, Ops: *randomOps, Crashes: *randomCrashes,
	})
}
