package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"queen/bench/internal/changes"
	"queen/bench/internal/client"
	"queen/bench/internal/place"
	"queen/bench/internal/report"
)

// options of a run.
type options struct {
	input, binary, dir        string
	queue                     string
	kills                     int
	producers, workers        int
	pushMost, popMost         int
	leaseSeconds              int
	seed                      uint64
	limit                     time.Duration
	out                       io.Writer // lines while it runs
	nodeArgs, nodeEnvironment []string
	lossy                     string // "", keep or lie
	trial                     place.Trial
}

// lease is how long a worker has for what a pop gave it.
func (o *options) lease() time.Duration { return time.Duration(o.leaseSeconds) * time.Second }

// replay is one replay of the whole input into one queue, and its judgement.
type replay struct {
	o       options
	in      *changes.Input
	queue   string
	place   place.Place
	v       *report.Violations
	traffic traffic
	gate    *gate
	taken   atomic.Int64 // messages answered 201

	resentDuplicates, duplicates atomic.Int64

	mu struct {
		sync.Mutex
		stored map[*changes.Line]stored
	}
}

func newReplay(o options, in *changes.Input, queue string, v *report.Violations, p place.Place) *replay {
	r := &replay{o: o, in: in, queue: queue, v: v, place: p, gate: newGate(&o)}
	r.mu.stored = map[*changes.Line]stored{}
	return r
}

func (r *replay) say(format string, args ...any) { fmt.Fprintf(r.o.out, format+"\n", args...) }

// run carries out a run in a directory, which must be empty.
func run(ctx context.Context, o options) (*report.Report, error) {
	in, err := changes.Read(o.input)
	if err != nil {
		return nil, err
	}
	out := &report.Report{Program: "real", Conditions: fmt.Sprintf("%d lines of %d files from %s, %d producers, %d workers, seed %d",
		len(in.Lines), len(in.Files), filepath.Base(o.input), o.producers, o.workers, o.seed)}
	v := &report.Violations{}
	if o.trial.Nodes > 0 {
		err = underFaults(ctx, o, in, v, out)
	} else {
		err = underKills(ctx, o, in, v, out)
	}
	out.Violations = v.List()
	switch {
	case err == nil:
	case len(out.Violations) == 0:
		return nil, err
	default:
		out.Violate("and then the run could not go on: %v", err) // which is how lost messages end
	}
	return out, nil
}

// again pushes every line a second time and has a new group read everything. At the end nothing may be left for the first one.
func (r *replay) again(ctx context.Context, group *ledger) (counts, error) {
	r.gate = newGate(&r.o)
	if err := r.produce(ctx, r.second); err != nil {
		return counts{}, err
	}
	if n := r.duplicates.Load(); n != int64(len(r.in.Lines)) {
		r.v.Add("the second replay was answered with %d duplicates of %d", n, len(r.in.Lines))
	}
	readers := newLedger(r.in, "readers", r.v)
	if err := r.consume(ctx, readers); err != nil {
		return counts{}, err
	}
	return readers.finish(), r.nothingLeft(ctx, group)
}

// outcome is what the replay came to.
func (r *replay) outcome(workers, readers counts) *outcome {
	return &outcome{lines: len(r.in.Lines), workers: workers, readers: readers,
		resentDuplicates: r.resentDuplicates.Load(), duplicates: r.duplicates.Load()}
}

// produce runs the producers to their end.
func (r *replay) produce(ctx context.Context, took func(*changes.Line, *client.Pushed, bool)) error {
	var all []func(context.Context) error
	for i, own := range r.in.Shares(r.o.producers) {
		p := &producer{run: r, i: i, lane: r.traffic.lane(place.Conn(r.place, i)), own: own, most: r.o.pushMost,
			rng: rand.New(rand.NewPCG(r.o.seed, uint64(i))), took: took}
		all = append(all, func(ctx context.Context) error { defer r.gate.done(i); return p.push(ctx) })
	}
	return place.Together(ctx, all...)
}

// consume runs the workers of a group until every line is settled.
func (r *replay) consume(ctx context.Context, l *ledger) error {
	var all []func(context.Context) error
	for i := range r.o.workers {
		all = append(all, r.worker(l, 100+i).work)
	}
	return place.Together(ctx, all...)
}

func (r *replay) worker(l *ledger, number int) *worker {
	return &worker{run: r, ledger: l, lane: r.traffic.lane(place.Conn(r.place, number)), most: r.o.popMost,
		rng: rand.New(rand.NewPCG(r.o.seed, uint64(number)))}
}

// nothingLeft pops until nothing has come, and no pop failed, for longer than a lease lasts: acks that were lost on their way
// may bring messages back, nothing else may.
func (r *replay) nothingLeft(ctx context.Context, l *ledger) error {
	w := r.worker(l, 999)
	defer w.lane.conn.Close()
	path := w.path(200 * time.Millisecond)
	for last := time.Now(); time.Since(last) < r.o.lease()+500*time.Millisecond; {
		n, answered, err := w.once(ctx, path)
		if err != nil {
			return err
		}
		if n > 0 || !answered {
			last = time.Now()
		}
	}
	return ctx.Err()
}
