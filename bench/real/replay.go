package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"queen/bench/internal/changes"
	"queen/bench/internal/client"
	"queen/bench/internal/lossyfs"
	"queen/bench/internal/node"
	"queen/bench/internal/report"
)

// options of a replay.
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
}

// replay is a run.
type replay struct {
	o       options
	in      *changes.Input
	v       violations
	traffic traffic
	gate    *gate
	node    *target
	lossy   *lossyfs.FS  // nil when the node writes to the disk as it is
	taken   atomic.Int64 // messages answered 201

	resentDuplicates, duplicates atomic.Int64

	mu struct {
		sync.Mutex
		stored map[*changes.Line]stored
	}
}

// target is the node in its current life.
type target struct {
	mu struct {
		sync.Mutex
		*node.Node
	}
	addr string
}

func (t *target) current() *node.Node {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.Node
}

// Kill ends the process.
func (t *target) Kill() { t.current().Kill() }

func (t *target) started() time.Duration { return t.current().Started }

func (t *target) restart() error {
	n, err := t.current().Restart()
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.Node = n
	return nil
}

func (r *replay) say(format string, args ...any) { fmt.Fprintf(r.o.out, format+"\n", args...) }

// run carries out a replay in dir, which must be empty.
func run(ctx context.Context, o options) (*report.Report, error) {
	in, err := changes.Read(o.input)
	if err != nil {
		return nil, err
	}
	addr, err := node.FreeAddr()
	if err != nil {
		return nil, err
	}
	r := &replay{o: o, in: in, gate: newGate(o.producers), node: &target{addr: addr}}
	data, err := r.mountLossy()
	if err != nil {
		return nil, err
	}
	defer r.unmountLossy()
	n, err := node.Start(node.Options{Binary: o.binary, Data: data, HTTP: addr, Args: o.nodeArgs, Env: o.nodeEnvironment})
	if err != nil {
		return nil, err
	}
	r.node.mu.Node = n
	r.mu.stored = map[*changes.Line]stored{}
	defer func() { r.node.Kill() }()
	ctx, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	out := &report.Report{Program: "real", Conditions: fmt.Sprintf(
		"%d lines of %d files from %s, %d producers, %d workers, %d kills", len(in.Lines), len(in.Files),
		filepath.Base(o.input), o.producers, o.workers, o.kills)}
	err = r.phases(ctx, out)
	out.Violations = r.v.list()
	if err == nil {
		return out, nil
	}
	err = fmt.Errorf("%w\nthe node said:\n%s", err, r.node.current().LogTail())
	if len(out.Violations) == 0 {
		return nil, err
	}
	out.Violate("and then the run could not go on: %v", err) // which is how lost messages end
	return out, nil
}

func (r *replay) phases(ctx context.Context, out *report.Report) error {
	start := time.Now()
	group := newLedger(r.in, "workers", &r.v)
	k := &killer{run: r, rng: rand.New(rand.NewPCG(r.o.seed, 99))}
	err := together(ctx,
		func(ctx context.Context) error { return r.produce(ctx, r.first) },
		func(ctx context.Context) error { return r.consume(ctx, group) },
		func(ctx context.Context) error { return k.strike(ctx, r.o.kills) })
	if err != nil {
		return err
	}
	if err := r.nothingLeft(ctx, group); err != nil {
		return err
	}
	r.sum(out, group.finish(), k.kills, time.Since(start))
	r.say("every line was consumed; replaying all of it again")
	r.gate = newGate(r.o.producers)
	if err := r.produce(ctx, r.second); err != nil {
		return err
	}
	out.Add("second replay, duplicates", float64(r.duplicates.Load()), "msg")
	if n := r.duplicates.Load(); n != int64(len(r.in.Lines)) {
		r.v.add("the second replay was answered with %d duplicates of %d", n, len(r.in.Lines))
	}
	r.say("a new group reads everything")
	again := newLedger(r.in, "readers", &r.v)
	if err := r.consume(ctx, again); err != nil {
		return err
	}
	c := again.finish()
	out.Add("new group, messages", float64(c.delivered), "msg")
	if c.delivered != len(r.in.Lines) {
		r.v.add("the new group received %d messages, want each of %d once", c.delivered, len(r.in.Lines))
	}
	if err := r.nothingLeft(ctx, group); err != nil {
		return err
	}
	if err := r.node.current().Stop(); err != nil {
		r.v.add("%v", err)
	}
	return nil
}

// produce runs the producers to their end.
func (r *replay) produce(ctx context.Context, took func(*changes.Line, *client.Pushed, bool)) error {
	var all []func(context.Context) error
	for i, own := range r.in.Shares(r.o.producers) {
		p := &producer{run: r, i: i, lane: r.traffic.lane(r.node.addr), own: own, most: r.o.pushMost,
			rng: rand.New(rand.NewPCG(r.o.seed, uint64(i))), took: took}
		all = append(all, func(ctx context.Context) error { defer r.gate.done(i); return p.push(ctx) })
	}
	return together(ctx, all...)
}

// consume runs the workers of a group until every line is settled.
func (r *replay) consume(ctx context.Context, l *ledger) error {
	var all []func(context.Context) error
	for i := range r.o.workers {
		all = append(all, r.worker(l, 100+uint64(i)).work)
	}
	return together(ctx, all...)
}

func (r *replay) worker(l *ledger, stream uint64) *worker {
	return &worker{run: r, ledger: l, lane: r.traffic.lane(r.node.addr), most: r.o.popMost,
		rng: rand.New(rand.NewPCG(r.o.seed, stream))}
}

// nothingLeft pops until nothing has come for longer than a lease lasts: acks that were lost on their way may bring
// messages back, nothing else may.
func (r *replay) nothingLeft(ctx context.Context, l *ledger) error {
	w := r.worker(l, 999)
	defer w.lane.conn.Close()
	pop := client.PopRequest{Queue: r.o.queue, Group: l.group, Batch: w.most, Partitions: w.most,
		Wait: time.Duration(r.o.leaseSeconds)*time.Second + 500*time.Millisecond, LeaseSeconds: r.o.leaseSeconds}
	for path := pop.Path(); ; {
		n, err := w.once(ctx, path)
		if err != nil || n == 0 {
			return err
		}
	}
}

// sum notes what the replay with kills showed.
func (r *replay) sum(out *report.Report, c counts, kills []kill, took time.Duration) {
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
	if counted < r.o.kills {
		r.v.add("%d kills counted, want %d", counted, r.o.kills)
	}
	out.Add("kills that count", float64(counted), "")
	out.Add("lines", float64(len(r.in.Lines)), "msg")
	out.Add("replay with kills", took.Seconds(), "s")
	out.Add("delivered", float64(c.delivered), "msg")
	out.Add("redelivered", float64(c.redelivered), "msg")
	out.Add("redelivered after a lost ack", float64(c.redeliveredAfterLost), "msg")
	out.Add("delivered with attempt above 1", float64(c.highAttempts), "msg")
	out.Add("acks answered", float64(c.acked), "msg")
	out.Add("acks lost", float64(c.lostAcks), "msg")
	out.Add("acks sent again", float64(c.resent), "msg")
	out.Add("acks refused, lease over", float64(c.expired), "msg")
	out.Add("pushes sent again, duplicates", float64(r.resentDuplicates.Load()), "msg")
}

// together runs functions at once; the first error ends the others and is returned.
func together(ctx context.Context, all ...func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(all))
	var running sync.WaitGroup
	for i, f := range all {
		running.Go(func() {
			if errs[i] = f(ctx); errs[i] != nil {
				cancel()
			}
		})
	}
	running.Wait()
	var first error
	for _, err := range errs {
		if err != nil && (first == nil || errors.Is(first, context.Canceled)) {
			first = err
		}
	}
	return first
}
