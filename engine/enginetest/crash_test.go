package enginetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"queen/engine"
)

// mortal is a model that, once armed, carries the next call out or does not, and answers neither way.
// half makes it carry out the first op of a call only.
type mortal struct {
	*Model
	n    int // armed for this write; 0 is alive
	half bool
}

var errDied = &engine.Error{Code: engine.CodeOutcomeUnknown, Outcome: engine.OutcomeUnknown}

func (x *mortal) Do(ctx context.Context, c engine.Caller, b engine.Batch) ([]engine.Result, error) {
	if x.n == 0 {
		return x.Model.Do(ctx, c, b)
	}
	ops := b.Ops
	if x.half && len(ops) > 1 && !b.Atomic {
		ops = ops[:1]
	} else if x.n%2 == 0 {
		return nil, errDied
	}
	_, err := x.Model.Do(ctx, c, engine.Batch{Ops: ops, Atomic: b.Atomic})
	return nil, errors.Join(errDied, err)
}

func (x *mortal) Catalog() engine.Catalog {
	if x.n == 0 {
		return x.Model.Catalog()
	}
	return &mortalCatalog{x.Model.Catalog(), x}
}

type mortalCatalog struct {
	engine.Catalog
	x *mortal
}

func (c *mortalCatalog) Configure(ctx context.Context, by engine.Caller, r engine.ConfigureRequest) (engine.QueueInfo, error) {
	if c.x.n%2 == 1 {
		if _, err := c.Catalog.Configure(ctx, by, r); err != nil {
			return engine.QueueInfo{}, err
		}
	}
	return engine.QueueInfo{}, errDied
}

func openMortal(half bool) Target {
	target := openModelTarget(0)
	x := &mortal{Model: target.Engine.(*Model), half: half}
	target.Engine = x
	restart := target.Reopen
	target.Reopen = func(crash bool) engine.Engine {
		x.n = 0
		restart(crash)
		return x
	}
	target.Arm = func(n int) { x.n = n }
	return target
}

// TestCallsWithoutAnAnswer: after a crash inside a call the oracle accepts the state before it and the
// state after it, and goes on from the one it finds.
func TestCallsWithoutAnAnswer(t *testing.T) {
	cov := RandomTest(t, RandomOptions{Open: func(uint64) Target { return openMortal(false) }, Seed: 7, Ops: 3000, Crashes: 300})
	if cov.Applied == 0 || cov.CrashedUnknown-cov.Applied == 0 {
		t.Fatalf("%d calls without an answer, %d of them carried out: one side never occurred", cov.CrashedUnknown, cov.Applied)
	}
}

// TestTimerCallsWithoutAnAnswer: a call that dies takes a timer back, or makes some, which are due when the engine lives
// again. If it was carried out nothing was fired, or messages whose ids nobody was told; that is the state after it.
func TestTimerCallsWithoutAnAnswer(t *testing.T) {
	jump := Op{Kind: opJump, For: 50 * time.Second} // which the time of the log catches up with when it starts again
	for _, n := range []int{1, 2} {                 // carried out, and not
		die := Op{Kind: opCrash, N: n}
		for name, ops := range map[string][]Op{
			"cancel":   {{Kind: opTimer, What: "s", For: 30 * time.Second}, jump, die, {Kind: opTimer, What: "c"}},
			"schedule": {jump, die, {Kind: opTimer, What: "ss", For: 30 * time.Second}, {Kind: opList}},
		} {
			o := RandomOptions{Open: func(uint64) Target { return openMortal(false) }, Keyed: true}.withDefaults()
			cov := NewCoverage(true)
			if f := play(&o, 1, ops, cov); f != nil {
				t.Fatalf("%s: %v", name, f)
			}
			if cov.CrashedUnknown != 1 || cov.Applied != n%2 {
				t.Fatalf("%s: %d calls without an answer, %d carried out", name, cov.CrashedUnknown, cov.Applied)
			}
		}
	}
}

// TestHalfACallIsCaught: nor before nor after, so it is an error.
func TestHalfACallIsCaught(t *testing.T) {
	_, f := Random(RandomOptions{Open: func(uint64) Target { return openMortal(true) }, Seed: 7, Ops: 6000, Crashes: 600, ShrinkRuns: 30})
	if f == nil {
		t.Fatal("half of a call was carried out and nobody noticed")
	}
}
