package enginetest

import (
	"fmt"
	"testing"

	"queen/engine"
	"queen/engine/clock"
)

func openModel(_ *testing.T, c *clock.Fake) engine.Engine { return NewModel(ModelOptions{Clock: c}) }

// TestModelConforms: the reference follows every rule of the suite.
func TestModelConforms(t *testing.T) { Run(t, openModel, Options{}) }

// TestEveryStatementIsNamed: each statement of the suite's sections either has a subtest or a reason
// why it has none, not both.
func TestEveryStatementIsNamed(t *testing.T) {
	last := map[string]int{"id": 18, "cfg": 9, "push": 19, "dup": 13, "pop": 18, "lease": 8, "poll": 3, "vis": 3, "amo": 3,
		"sub": 8, "seek": 7, "ack": 26, "dlq": 21, "fetch": 10, "ret": 12, "grp": 8, "obs": 4, "bp": 8, "clk": 5,
		"txn": 26, "kv": 24, "lock": 14, "tmr": 20, "con": 10}
	tested, seen := map[string]bool{}, map[string]bool{}
	for _, r := range allRules() {
		if seen[r.name+r.what] {
			t.Errorf("%s %s stands twice", r.name, r.what)
		}
		tested[r.name], seen[r.name+r.what] = true, true
	}
	for area, n := range last {
		for i := 1; i <= n; i++ {
			name := fmt.Sprintf("S-%s-%d", area, i)
			if tested[name] == (NotCovered[name] != "") {
				t.Errorf("%s: tested %v, not covered because %q", name, tested[name], NotCovered[name])
			}
			delete(tested, name)
		}
	}
	for name := range tested {
		t.Errorf("%s is no statement", name)
	}
}
