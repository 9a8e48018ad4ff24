package enginetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestScripts carries the lists in testdata out on the model and prints what it answers. A list that
// failed on an engine is put there as Failure.Script printed it; -rewrite shows the model's answers.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		p := newPlayer(&RandomOptions{Open: openModelTarget}, 1, NewCoverage(false))
		defer p.close()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			op, err := ParseOp(lineOf(d))
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			answer, err := p.step(op)
			if err != nil {
				d.Fatalf(t, "%s: %v", op, err)
			}
			return answer + "\n"
		})
	})
}

func lineOf(d *datadriven.TestData) string {
	var b strings.Builder
	b.WriteString(d.Cmd)
	for _, a := range d.CmdArgs {
		fmt.Fprintf(&b, " %s=%s", a.Key, strings.Join(a.Vals, ""))
	}
	return b.String()
}

// TestOpsReadBack: what String writes ParseOp reads, for every kind of operation.
func TestOpsReadBack(t *testing.T) {
	o := RandomOptions{}.withDefaults()
	for seed := range uint64(20) {
		for _, op := range withCrashes(newGenerator(seed, &o).list(300), 3, seed) {
			if back, err := ParseOp(op.String()); err != nil || back != op {
				t.Fatalf("%q reads back as %+v (%v)", op, back, err)
			}
		}
	}
	for _, bad := range []string{"", "push queue=x", "push nonsense=1", "advance for=soon"} {
		if _, err := ParseOp(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}
