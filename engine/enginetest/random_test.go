package enginetest

import (
	"flag"
	"testing"

	"queen/engine"
	"queen/engine/clock"
)

var (
	randomOps  = flag.Int("random.ops", 12_000, "operations of the model against itself")
	randomSeed = flag.Uint64("random.seed", 1, "seed of the first list")
)

// openModelTarget is a model behind the interface, as an engine would be: the oracle may not look in.
func openModelTarget(uint64) Target {
	c := clock.NewFake(epoch)
	m := NewModel(ModelOptions{Clock: c})
	return Target{Engine: m, Clock: c, Reopen: func(bool) engine.Engine {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.mu.stamp.restart(c)
		return m
	}}
}

// TestModelAgainstItselfKeyed is TestModelAgainstItself with transactions, locks and timers in the lists.
func TestModelAgainstItselfKeyed(t *testing.T) {
	cov := RandomTest(t, RandomOptions{Open: openModelTarget, Seed: *randomSeed, Ops: *randomOps / 4, Keyed: true})
	for _, verdict := range keyedVerdicts {
		if cov.Verdicts[verdict] == 0 && !testing.Short() {
			t.Errorf("%q never occurred", verdict)
		}
	}
}

// TestModelAgainstItself: the oracle accepts the model, and the lists reach every verdict.
func TestModelAgainstItself(t *testing.T) {
	ops := *randomOps
	if testing.Short() {
		ops /= 4
	}
	cov := RandomTest(t, RandomOptions{Open: openModelTarget, Seed: *randomSeed, Ops: ops})
	if testing.Short() {
		return // too few for each verdict
	}
	for verdict, n := range cov.Verdicts {
		if n == 0 {
			t.Errorf("%q never occurred", verdict)
		}
	}
	_, unseen := cov.Codes()
	for _, code := range unseen {
		if Elsewhere[code] == "" {
			t.Errorf("no answer told %q, and nothing says why", code)
		}
	}
}
