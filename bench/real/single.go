package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"queen/bench/internal/changes"
	"queen/bench/internal/lossyfs"
	"queen/bench/internal/node"
	"queen/bench/internal/place"
	"queen/bench/internal/report"
)

// single is a replay on one node that is killed.
type single struct {
	*replay
	node  *place.Node
	lossy *lossyfs.FS // nil when the node writes to the disk as it is
}

// underKills replays the input once on one node that is killed again and again.
func underKills(ctx context.Context, o options, in *changes.Input, v *report.Violations, out *report.Report) error {
	out.Conditions += fmt.Sprintf(", %d kills", o.kills)
	s := &single{replay: newReplay(o, in, o.queue, v, nil)}
	data, err := s.mountLossy()
	if err != nil {
		return err
	}
	defer s.unmountLossy()
	if s.node, err = place.Start(node.Options{Binary: o.binary, Data: data, Args: o.nodeArgs, Env: o.nodeEnvironment}); err != nil {
		return err
	}
	s.place = s.node
	defer s.node.Kill()
	ctx, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	if err := s.phases(ctx, out); err != nil {
		return fmt.Errorf("%w\nthe node said:\n%s", err, s.node.LogTail())
	}
	return nil
}

func (s *single) phases(ctx context.Context, out *report.Report) error {
	start := time.Now()
	group := newLedger(s.in, "workers", s.v)
	k := &killer{run: s, rng: rand.New(rand.NewPCG(s.o.seed, 99))}
	err := place.Together(ctx,
		func(ctx context.Context) error { return s.produce(ctx, s.first) },
		func(ctx context.Context) error { return s.consume(ctx, group) },
		func(ctx context.Context) error { return k.strike(ctx, s.o.kills) })
	if err != nil {
		return err
	}
	if err := s.nothingLeft(ctx, group); err != nil {
		return err
	}
	s.sum(out, k.kills, time.Since(start))
	workers := group.finish()
	s.outcome(workers, counts{}).reportWorkers(out)
	s.say("every line was consumed; replaying all of it again, and a new group reads everything")
	readers, err := s.again(ctx, group)
	if err != nil {
		return err
	}
	s.outcome(workers, readers).reportReaders(out)
	if readers.delivered != len(s.in.Lines) { // nothing was done to the node since the kills
		s.v.Add("the new group received %d messages, want each of %d once", readers.delivered, len(s.in.Lines))
	}
	if err := s.node.Stop(); err != nil {
		s.v.Add("%v", err)
	}
	return nil
}

// sum notes what became of the kills.
func (s *single) sum(out *report.Report, kills []kill, took time.Duration) {
	counted := 0
	for i := range kills {
		if kills[i].counts() {
			counted++
		}
		name := fmt.Sprintf("kill %d", i+1)
		out.Add(name+", messages taken before", float64(kills[i].at), "msg")
		out.Add(name+", pushes unanswered", float64(kills[i].unanswered[pushCall]), "")
		out.Add(name+", pops unanswered", float64(kills[i].unanswered[popCall]), "")
		out.Add(name+", acks unanswered", float64(kills[i].unanswered[ackCall]), "")
		out.Add(name+", restart", float64(kills[i].restart.Milliseconds()), "ms")
	}
	if counted < s.o.kills {
		s.v.Add("%d kills counted, want %d", counted, s.o.kills)
	}
	out.Add("kills that count", float64(counted), "")
	out.Add("replay with kills", took.Seconds(), "s")
}
