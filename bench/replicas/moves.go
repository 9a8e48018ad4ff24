package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"queen/bench/internal/report"
)

// settle is how long nodes are watched after a move, and left alone before the next one.
const settle = 500 * time.Millisecond

// dryRuns is how often the command is timed that changes nothing.
const dryRuns = 5

// watch is a cluster whose lead is moved, and a client of each node.
type watch struct {
	binary  string
	nodes   *nodes
	pushers []*pusher
}

// measureMoves moves the lead, over and over, under the light load of a client of each node.
func measureMoves(ctx context.Context, o *options) (all []*moves, err error) {
	dir, err := report.TempDir(o.data)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	n, err := startNodes(o.binary, dir, 3, 1)
	if err != nil {
		return nil, err
	}
	defer n.kill()
	pushing, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer func() { stop(); running.Wait() }()
	w := &watch{binary: o.binary, nodes: n}
	for i, addr := range n.addrs() {
		p := &pusher{addr: addr, number: i}
		w.pushers = append(w.pushers, p)
		running.Go(func() { p.run(pushing) })
	}
	if err := w.answered(ctx, time.Now(), nil); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, n.logs())
	}
	for _, k := range []struct {
		how   string
		times int
		once  func(context.Context, *moves) error
	}{{"transfer-leader", o.transfers, w.transfer}, {"SIGTERM to the leader", o.restarts, w.restart}} {
		if k.times == 0 {
			continue
		}
		m := &moves{how: k.how}
		for range k.times {
			if err := k.once(ctx, m); err != nil {
				return nil, fmt.Errorf("%s: %w\n%s", k.how, err, n.logs())
			}
		}
		all = append(all, m)
	}
	return all, nil
}

// transfer has the next node lead.
func (w *watch) transfer(ctx context.Context, m *moves) error {
	leader, err := w.nodes.leader()
	if err != nil {
		return err
	}
	to := (leader + 1) % len(w.nodes.all)
	for len(m.asking) < dryRuns {
		start := time.Now()
		if err := w.command(ctx, to, "--dry-run"); err != nil {
			return err
		}
		m.asking = append(m.asking, time.Since(start))
	}
	calm := time.Now()
	pause(ctx, settle)
	from := time.Now()
	if err := w.command(ctx, to); err != nil {
		fmt.Fprintln(os.Stderr, err)
		m.failed++
	}
	until, err := w.over(ctx, nil)
	if err != nil {
		return err
	}
	w.note(m, w.pushers, calm, from, until)
	if _, end := w.pushers[to].longest(from, until); !end.IsZero() {
		m.first = append(m.first, end.Sub(from))
	}
	return nil
}

// command asks who leads to hand over to a node, as an operator would.
func (w *watch) command(ctx context.Context, to int, more ...string) error {
	args := append([]string{"cluster", "transfer-leader", strconv.Itoa(to + 1), "--peers", w.nodes.peers}, more...)
	if out, err := exec.CommandContext(ctx, w.binary, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("transfer to node %d: %w: %s", to+1, err, out)
	}
	return nil
}

// restart stops who leads as an operator would, and starts it again. Clients of the others count.
func (w *watch) restart(ctx context.Context, m *moves) error {
	leader, err := w.nodes.leader()
	if err != nil {
		return err
	}
	calm := time.Now()
	pause(ctx, settle)
	from := time.Now()
	if err := w.nodes.all[leader].Stop(); err != nil {
		return err
	}
	stopped := w.pushers[leader]
	until, err := w.over(ctx, stopped)
	if err != nil {
		return err
	}
	var others []*pusher
	for _, p := range w.pushers {
		if p != stopped {
			others = append(others, p)
		}
	}
	w.note(m, others, calm, from, until)
	if w.nodes.all[leader], err = w.nodes.all[leader].Restart(); err != nil {
		return err
	}
	_, err = w.over(ctx, nil)
	return err
}

// over waits until each client has got another answer, but for that of a node that does not run, and for what comes a little later.
func (w *watch) over(ctx context.Context, but *pusher) (time.Time, error) {
	if err := w.answered(ctx, time.Now(), but); err != nil {
		return time.Time{}, err
	}
	pause(ctx, settle)
	return time.Now(), ctx.Err()
}

// answered waits until each client, but one, has got an answer after a moment.
func (w *watch) answered(ctx context.Context, after time.Time, but *pusher) error {
	deadline := time.Now().Add(30 * time.Second)
	for _, p := range w.pushers {
		for p != but && !p.last().After(after) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if time.Now().After(deadline) {
				return errors.Join(fmt.Errorf("the client of node %d has got no answer for 30 s", p.number+1), p.why())
			}
			pause(ctx, time.Millisecond)
		}
	}
	return nil
}

// note takes what clients saw from the request to the end, and before it from when nothing was done any more. Of a move that took too
// long the nodes' words are shown.
func (w *watch) note(m *moves, pushers []*pusher, calm, from, until time.Time) {
	var gap, quiet time.Duration
	for _, p := range pushers {
		g, end := p.longest(from, until)
		q, _ := p.longest(calm, from)
		if g > holdMove {
			fmt.Fprintf(os.Stderr, "%s: the client of node %d was without an answer for %v until %s\n%s", m.how, p.number+1, g,
				end.UTC().Format(time.RFC3339Nano), w.nodes.logs())
		}
		gap, quiet = max(gap, g), max(quiet, q)
	}
	m.gaps, m.quiet = append(m.gaps, gap), append(m.quiet, quiet)
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
