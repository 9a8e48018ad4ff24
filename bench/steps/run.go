package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"queen/bench/internal/changes"
	"queen/bench/internal/node"
	"queen/bench/internal/place"
	"queen/bench/internal/report"
)

// group is the consumer group of all workers.
const group = "steps"

// names are what one pass through the stream uses of the broker.
type names struct{ source, index, timers, namespace string }

// named are the names of a round; 0 is the only one.
func named(round int) names {
	suffix := ""
	if round > 0 {
		suffix = fmt.Sprintf("-%d", round)
	}
	return names{"changes" + suffix, "index" + suffix, "reminders" + suffix, "added" + suffix}
}

// tally is what happened, for the report.
type tally struct {
	rounds, steps, committed, refused, unknown, before, after, late atomic.Int64
	counters, fired                                                 atomic.Int64
}

// steps is one pass through the stream, and its judgement.
type steps struct {
	o     options
	in    *changes.Input
	place place.Place
	names
	v     *report.Violations
	tally *tally

	// settled holds the lines whose step was answered (true) or sent and not answered (false): whether such a one took
	// place shows when its message comes again, or in the index.
	mu struct {
		sync.Mutex
		settled map[*changes.Line]bool
	}
	all chan struct{} // closed when every line is in settled
}

func newSteps(o options, in *changes.Input, round int, p place.Place, v *report.Violations, t *tally) *steps {
	s := &steps{o: o, in: in, place: p, names: named(round), v: v, tally: t, all: make(chan struct{})}
	s.mu.settled = map[*changes.Line]bool{}
	return s
}

// run carries out a run in a directory, which must be empty.
func run(ctx context.Context, o options) (*report.Report, error) {
	in, err := changes.Read(o.input)
	if err != nil {
		return nil, err
	}
	out := &report.Report{Program: "steps", Conditions: fmt.Sprintf("%d lines of %d files, %d workers, seed %d", len(in.Lines),
		len(in.Files), o.workers, o.seed)}
	var v report.Violations
	var t tally
	if o.trial.Nodes > 0 {
		err = underFaults(ctx, o, in, &v, &t, out)
	} else {
		err = underKills(ctx, o, in, &v, &t, out)
	}
	t.report(out)
	out.Violations = v.List()
	switch {
	case err == nil:
	case len(out.Violations) == 0:
		return nil, err
	default:
		out.Violate("and then the run could not go on: %v", err)
	}
	return out, nil
}

// underKills goes through the stream once, on one node that is killed again and again.
func underKills(ctx context.Context, o options, in *changes.Input, v *report.Violations, t *tally, out *report.Report) error {
	out.Conditions += fmt.Sprintf(", %d kills", o.kills)
	n, err := place.Start(node.Options{Binary: o.binary, Data: filepath.Join(o.dir, "node")})
	if err != nil {
		return err
	}
	defer n.Kill()
	ctx, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	s := newSteps(o, in, 0, n, v, t)
	start := time.Now()
	if err := s.work(ctx, func(ctx context.Context) error { return s.kill(ctx, n) }); err != nil {
		return fmt.Errorf("%w; the node said:\n%s", err, n.LogTail())
	}
	out.Add("time with kills", time.Since(start).Seconds(), "s")
	if err := s.judge(ctx); err != nil {
		return fmt.Errorf("%w; the node said:\n%s", err, n.LogTail())
	}
	return nil
}

// underFaults goes through the stream in rounds, on a cluster that has faults done to it.
func underFaults(ctx context.Context, o options, in *changes.Input, v *report.Violations, t *tally, out *report.Report) error {
	return o.trial.OnCluster(ctx, place.Setting{Binary: o.binary, Dir: o.dir, Seed: o.seed, Limit: o.limit, Out: o.out, Violations: v, Report: out},
		func(ctx context.Context, p place.Round) error {
			own := o
			own.seed, own.out = o.seed+uint64(p.Number), p.Out
			return newSteps(own, in, p.Number, p.Place, v, t).round(ctx, p.Number)
		})
}

// round is one pass with everything that is judged about it. It leaves nothing behind.
func (s *steps) round(ctx context.Context, number int) error {
	start := time.Now()
	if err := s.work(ctx); err != nil {
		return err
	}
	took := time.Since(start)
	if err := s.judge(ctx); err != nil {
		return err
	}
	fmt.Fprintf(s.o.out, "round %d: %d steps in %v, judged after %v\n", number, len(s.in.Lines), took.Round(time.Millisecond),
		time.Since(start).Round(time.Millisecond))
	return s.giveUp(ctx)
}

func (s *steps) settledCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.settled)
}

// settle notes that the step of a line took place, or may have.
func (s *steps) settle(l *changes.Line, sure bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, known := s.mu.settled[l]
	s.mu.settled[l] = was || sure
	if known {
		return
	}
	if len(s.mu.settled) == len(s.in.Lines) {
		close(s.all)
	}
}

// may tells whether the step of a line that was delivered may be taken: not when its lease, which lasts until then at least, may be
// over, since another worker may have it. A line whose step was answered must not come again before that.
func (s *steps) may(l *changes.Line, until time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Under the lock: whoever gets the line after this one settles it after this.
	if time.Now().After(until) {
		s.tally.late.Add(1)
		return false
	}
	if s.mu.settled[l] {
		s.v.Add("%s: %s came again after its step was answered", s.source, l.ID)
	}
	return true
}

// work runs producers and workers, and what is done to them, until every line is settled.
func (s *steps) work(ctx context.Context, harm ...func(context.Context) error) error {
	all := harm
	for i, own := range s.in.Shares(s.o.producers) {
		all = append(all, func(ctx context.Context) error { return s.produce(ctx, own, i) })
	}
	for i := range s.o.workers {
		all = append(all, s.newWorker(100+i).run)
	}
	if err := place.Together(ctx, all...); err != nil {
		return fmt.Errorf("%s: %d of %d lines settled: %w", s.source, s.settledCount(), len(s.in.Lines), err)
	}
	s.tally.steps.Add(int64(len(s.in.Lines)))
	s.tally.rounds.Add(1)
	return nil
}

// kill ends the node again and again, spread over the run by the number of settled lines, at a random moment of the
// traffic.
func (s *steps) kill(ctx context.Context, n *place.Node) error {
	rng := rand.New(rand.NewPCG(s.o.seed, 7))
	for i := range s.o.kills {
		due := len(s.in.Lines) * (i + 1) / (s.o.kills + 1)
		for s.settledCount() < due {
			if err := place.Pause(ctx, time.Millisecond); err != nil {
				return err
			}
		}
		if err := place.Pause(ctx, time.Duration(rng.Int64N(int64(5*time.Millisecond)))); err != nil {
			return err
		}
		unknown := s.tally.unknown.Load()
		n.Kill()
		if err := n.Restart(); err != nil {
			return err
		}
		fmt.Fprintf(s.o.out, "kill %d after %d steps: %d steps unanswered, ready again after %v\n", i+1, due,
			s.tally.unknown.Load()-unknown, n.Started().Round(time.Millisecond))
	}
	return nil
}

func (t *tally) report(out *report.Report) {
	out.Add("rounds", float64(t.rounds.Load()), "")
	out.Add("steps", float64(t.steps.Load()), "")
	out.Add("steps committed and answered", float64(t.committed.Load()), "")
	out.Add("steps refused, lease over or done", float64(t.refused.Load()), "")
	out.Add("steps unanswered", float64(t.unknown.Load()), "")
	out.Add("workers crashed before a commit", float64(t.before.Load()), "")
	out.Add("workers crashed after a commit", float64(t.after.Load()), "")
	out.Add("deliveries left, lease over", float64(t.late.Load()), "")
	out.Add("counters that are right", float64(t.counters.Load()), "")
	out.Add("timers fired once", float64(t.fired.Load()), "")
}
