package enginetest

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"queen/engine"
	"queen/engine/clock"
)

// Target is one engine under test and what can be done to it from outside.
type Target struct {
	Engine engine.Engine
	// Clock is the only time the engine knows.
	Clock *clock.Fake
	// Reopen ends the engine, as a clean stop or as a crash that loses what was not flushed, and opens it
	// again on what is left; nil when it can not be.
	Reopen func(crash bool) engine.Engine
	// Arm makes the engine's storage die at its n-th write or flush from now; calls under way then fail.
	// It is always followed by Reopen(true). nil when it can not be.
	Arm func(n int)
	// Settle returns once everything that was due by the clock has been applied: leases that ran out,
	// delays, retention. It is called after each move of the clock and each reopen; nil does nothing.
	Settle func(engine.Engine)
	// Close ends the target; nil closes the engine.
	Close func()
}

// RandomOptions describe a run of random operations.
type RandomOptions struct {
	// Open makes a fresh, empty target for the list with a seed. It is called for every list, and often while shrinking; what
	// is random about the target follows from the seed, so that a list alone does what it did among others.
	Open func(seed uint64) Target
	// Seed makes the run repeatable; the lists get consecutive seeds from it.
	Seed uint64
	// Ops is how many operations are carried out in all; default 2,000. List is how many go to one
	// engine before a fresh one is opened; default 400.
	Ops, List int
	// Crashes adds that many armed crashes in the middle of an operation, spread over the lists.
	Crashes int
	// NoJumps leaves the wall clock and monotonic time in step. NoOptions names queue options the lists
	// do not set, for engines that have not built them.
	NoJumps bool
	// Keyed adds transactions over pushes, keys, acks, positions and timers to the lists, and locks and timers alone.
	Keyed     bool
	NoOptions []string
	// LooseOrder leaves out the check that the longest claimable partition is served first (S-pop-10);
	// that none starves is checked all the same.
	LooseOrder bool
	// ShrinkRuns bounds how many lists are tried to shrink a failing one; default 300.
	ShrinkRuns int
	// Progress receives a line now and then; nil discards them.
	Progress io.Writer
}

// Failure is a list of operations after which an engine and the rules differ.
type Failure struct {
	Seed uint64
	// Length and Crashes say what list it was before it was shrunk: so many operations with so many crashes.
	Length, Crashes int
	Ops             []Op // shrunk; the last one shows the difference
	// Answers has the engine's answer to each of Ops; the last is what is wrong with it.
	Answers []string
}

// Error is the difference and the script that shows it.
func (f *Failure) Error() string {
	return fmt.Sprintf("enginetest: seed %d: %s\n\n%s", f.Seed, f.Answers[len(f.Answers)-1], f.Script())
}

// Script is the list in the form of the scripts in testdata: an operation, then its answer.
func (f *Failure) Script() string {
	var b strings.Builder
	for i, op := range f.Ops {
		fmt.Fprintf(&b, "%s\n----\n%s\n\n", op, f.Answers[i])
	}
	return b.String()
}

func (o RandomOptions) withDefaults() RandomOptions {
	if o.Ops == 0 {
		o.Ops = 2000
	}
	if o.List == 0 {
		o.List = 400
	}
	if o.ShrinkRuns == 0 {
		o.ShrinkRuns = 300
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	return o
}

// Random carries out random operations on targets and on the model in lockstep, and returns how often
// each verdict occurred. It stops at the first difference, with the list shrunk.
func Random(o RandomOptions) (*Coverage, *Failure) {
	o = o.withDefaults()
	cov := NewCoverage(o.Keyed)
	lists := (o.Ops + o.List - 1) / o.List
	for i, left := 0, o.Ops; left > 0; i++ {
		seed := o.Seed + uint64(i)
		g := newGenerator(seed, &o)
		ops := g.list(min(o.List, left))
		if o.Keyed {
			ops = g.withKeyed(ops)
		}
		crashes := o.Crashes*(i+1)/lists - o.Crashes*i/lists
		ops = withCrashes(ops, crashes, seed)
		if f := play(&o, seed, ops, cov); f != nil {
			fmt.Fprintf(o.Progress, "a difference in the list with seed %d: %s\n", seed, f.Answers[len(f.Answers)-1])
			f = shrink(&o, f)
			f.Length, f.Crashes = min(o.List, left), crashes
			return cov, f
		}
		left -= min(o.List, left)
		if i%100 == 99 {
			fmt.Fprintf(o.Progress, "%d of %d lists, %d operations without a difference\n", i+1, lists, cov.Ops)
		}
	}
	return cov, nil
}

// RandomTest runs Random as a test and logs the table of verdicts.
func RandomTest(t *testing.T, o RandomOptions) *Coverage {
	t.Helper()
	cov, f := Random(o)
	if f != nil {
		t.Fatal(f)
	}
	t.Logf("%s", cov)
	return cov
}

// Play carries a script out on a fresh target and on the model, and returns every answer. Of the script's own answers it
// takes no notice. The failure is nil when nothing differed.
func Play(o RandomOptions, seed uint64, script string) (answers string, failure *Failure, err error) {
	o = o.withDefaults()
	var ops []Op
	for _, part := range strings.Split(strings.TrimSpace(script), "\n\n") {
		line, _, _ := strings.Cut(strings.TrimSpace(part), "\n")
		if line == "" {
			continue
		}
		op, err := ParseOp(line)
		if err != nil {
			return "", nil, err
		}
		ops = append(ops, op)
	}
	f, same := played(&o, seed, ops, NewCoverage(o.Keyed))
	if !same {
		failure = f
	}
	return f.Script(), failure, nil
}

// play carries out one list on a fresh target; nil when nothing differed.
func play(o *RandomOptions, seed uint64, ops []Op, cov *Coverage) *Failure {
	if f, same := played(o, seed, ops, cov); !same {
		return f
	}
	return nil
}

// played is play with the answers also when nothing differed.
func played(o *RandomOptions, seed uint64, ops []Op, cov *Coverage) (f *Failure, same bool) {
	p := newPlayer(o, seed, cov)
	defer p.close()
	f = &Failure{Seed: seed}
	if err := errors.Join(p.brief(), p.readyForTimers()); err != nil {
		f.Ops, f.Answers = ops[:1], []string{err.Error()}
		return f, false
	}
	for _, op := range ops {
		answer, err := p.step(op)
		f.Ops = append(f.Ops, op)
		if err != nil {
			f.Answers = append(f.Answers, err.Error())
			return f, false
		}
		f.Answers = append(f.Answers, answer)
	}
	return f, true
}

// shrink takes out of a failing list what it fails in the same way without, larger pieces first.
func shrink(o *RandomOptions, f *Failure) *Failure {
	runs := 0
	for size := len(f.Ops) / 2; size > 0; {
		smaller := false
		for from := 0; from+size < len(f.Ops); {
			if runs++; runs > o.ShrinkRuns {
				return f
			}
			ops := append(append([]Op{}, f.Ops[:from]...), f.Ops[from+size:]...)
			if g := play(o, f.Seed, ops, NewCoverage(false)); g != nil && g.kind() == f.kind() {
				f, smaller = g, true
			} else {
				from += size
			}
		}
		if !smaller || size > 1 {
			size /= 2
		}
	}
	return f
}

// kind is what failures of one cause mostly have in common: how the text begins, without what is counted in it.
func (f *Failure) kind() string {
	const enough = 16
	text := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, f.Answers[len(f.Answers)-1])
	return text[:min(enough, len(text))]
}

// callTimeout bounds one call of the engine in real time: nothing in a list waits for long.
const callTimeout = 30 * time.Second
