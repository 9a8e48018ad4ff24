package memnode

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/enginetest"
	"queen/engine/format"
	"queen/engine/vfs"
)

// Options say what node a target has.
type Options struct {
	// Seed is of everything random: ids, and what a crash drops, keeps or tears. One target uses few numbers
	// from it on.
	Seed uint64
	// Keyed is a directory for the keyed store on the real file system; "" is none, and then keyed rows keep
	// checkpoints from being made.
	Keyed string
	// Config changes the configuration of every life of the node; nil leaves it.
	Config func(*engine.Config)
	// Open opens a life of the node; nil is engine.OpenLocal.
	Open func(engine.Config) (*engine.Node, error)
	// Closed runs when the target is closed; may be nil.
	Closed func()
}

// machine is a computer with one disk, on which one node lives after another.
type machine struct {
	Options
	fs    *vfs.Mem
	clock *clock.Fake
	node  *engine.Node
	life  *life
}

// life is one life of the node: it ends when the disk fails under it, as the process would.
type life struct {
	ctx context.Context
	end context.CancelCauseFunc
}

// errOver ends a life that was over anyway.
var errOver = errors.New("the node was stopped")

// Open opens a node on an empty disk. It panics where the node does not open, now or after a stop or crash: no
// crash is an excuse.
func Open(o Options) enginetest.Target {
	if o.Open == nil {
		o.Open = engine.OpenLocal
	}
	m := &machine{Options: o, fs: vfs.NewMem(), clock: clock.NewFake(1_700_000_000_000_000)}
	return enginetest.Target{
		Engine: m.open(), Clock: m.clock, Reopen: m.reopen,
		Arm:    func(n int) { m.fs.PowerOffAt(int64(n)) },
		Settle: func(engine.Engine) { m.node.Settle() },
		Close:  m.close,
	}
}

// close ends the last life, in order if it still can.
func (m *machine) close() {
	if m.life.ctx.Err() != nil || m.node.Close(m.life.ctx) != nil {
		m.kill()
	}
	m.life.end(errOver)
	if m.Closed != nil {
		m.Closed()
	}
}

// kill ends a life for good: what is left of it can write nothing more.
func (m *machine) kill() {
	m.fs.PowerOffAt(1)
	m.node.Kill()
	m.life.end(errOver)
}

func (m *machine) open() engine.Engine {
	m.Seed++
	m.life = &life{}
	m.life.ctx, m.life.end = context.WithCancelCause(context.Background())
	died, fs := m.life.end, m.fs
	cfg := engine.Config{FS: m.fs, Clock: m.clock, Rand: clock.NewFakeRand(m.Seed), Dir: "data", KeyedDir: m.Keyed,
		SegmentBytes: 1 << 20, PoolReady: 1,
		// Retention runs when the clock moves, in Settle, and not behind the back of who compares.
		SweepEvery: 100 * 365 * 24 * time.Hour,
		// The process is gone: whoever waits learns nothing, and the goroutine does not go on.
		Fatal: func(err error) {
			if !fs.PoweredOff() {
				panic(err) // nothing but the power may end a life
			}
			died(err)
			runtime.Goexit()
		}}
	if m.Config != nil {
		m.Config(&cfg)
	}
	n, err := m.Open(cfg)
	if err != nil {
		panic(err) // the list is repeatable by its seed
	}
	m.node = n
	return &mortal{Node: n, life: m.life, fs: fs}
}

// reopen stops the node, or crashes the machine: what was not flushed is dropped, kept or torn as the seed says.
func (m *machine) reopen(crash bool) engine.Engine {
	if crash {
		m.Seed++
		next := m.fs.Crash(vfs.RandomSubset(m.Seed))
		m.kill()
		m.fs = next
		return m.open()
	}
	if err := m.node.Close(m.life.ctx); err != nil {
		panic(err)
	}
	m.life.end(errOver)
	return m.open()
}

// mortal is a node whose calls end without an answer when its life does.
type mortal struct {
	*engine.Node
	life *life
	fs   *vfs.Mem
}

// until ends ctx with the life.
func (x *mortal) until(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(x.life.ctx, cancel)
	return ctx, sync.OnceFunc(func() { stop(); cancel() })
}

// Do implements engine.Engine.
func (x *mortal) Do(ctx context.Context, c engine.Caller, b engine.Batch) ([]engine.Result, error) {
	ctx, done := x.until(ctx)
	defer done()
	res, err := x.Node.Do(ctx, c, b)
	if e := powerless(res); e != nil {
		return nil, x.why(e)
	}
	return res, x.why(err)
}

// powerless finds an answer that tells of a read without power: a process that lost it answers nothing.
func powerless(res []engine.Result) error {
	for i := range res {
		if e := res[i].Err; e != nil && errors.Is(e, vfs.ErrPowerOff) {
			return e
		}
		for k := range res[i].Messages {
			if e := res[i].Messages[k].Err; e != nil && errors.Is(e, vfs.ErrPowerOff) {
				return e
			}
		}
	}
	return nil
}

// why adds to an error how the life ended; one that ended in the middle of the call gave no answer. A call that was
// answered disarms the power: a crash in the middle of a call strikes that call or none.
func (x *mortal) why(err error) error {
	if err == nil && x.life.ctx.Err() == nil {
		x.fs.PowerOffAt(0)
		return nil
	}
	if cause := context.Cause(x.life.ctx); cause != nil {
		return errors.Join(err, cause)
	}
	return err
}

// Catalog implements engine.Engine.
func (x *mortal) Catalog() engine.Catalog { return &mortalCatalog{x.Node.Catalog(), x} }

// mortalCatalog is the same for the calls that change something.
type mortalCatalog struct {
	engine.Catalog
	x *mortal
}

func (m *mortalCatalog) Configure(ctx context.Context, c engine.Caller, r engine.ConfigureRequest) (engine.QueueInfo,
	error) {
	ctx, done := m.x.until(ctx)
	defer done()
	info, err := m.Catalog.Configure(ctx, c, r)
	return info, m.x.why(err)
}

func (m *mortalCatalog) DeleteQueue(ctx context.Context, c engine.Caller, queue string) (bool, error) {
	ctx, done := m.x.until(ctx)
	defer done()
	existed, err := m.Catalog.DeleteQueue(ctx, c, queue)
	return existed, m.x.why(err)
}

func (m *mortalCatalog) DeleteLife(ctx context.Context, c engine.Caller, queue string, life format.QueueID) (bool, error) {
	ctx, done := m.x.until(ctx)
	defer done()
	existed, err := m.Catalog.DeleteLife(ctx, c, queue, life)
	return existed, m.x.why(err)
}

func (m *mortalCatalog) DeleteDeadLetters(ctx context.Context, c engine.Caller, part format.PartitionID, id string) (uint64,
	error) {
	ctx, done := m.x.until(ctx)
	defer done()
	n, err := m.Catalog.DeleteDeadLetters(ctx, c, part, id)
	return n, m.x.why(err)
}

func (m *mortalCatalog) Purge(ctx context.Context, c engine.Caller, queue string, group *string) (uint64, error) {
	ctx, done := m.x.until(ctx)
	defer done()
	n, err := m.Catalog.Purge(ctx, c, queue, group)
	return n, m.x.why(err)
}
