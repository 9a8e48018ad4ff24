package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"queen/bench/internal/changes"
	"queen/bench/internal/node"
	"queen/bench/internal/report"
)

// Names on the node.
const (
	sourceQueue = "changes"
	indexQueue  = "index"
	timerQueue  = "reminders"
	group       = "steps"
	namespace   = "added"
)

// steps is a run.
type steps struct {
	o    options
	in   *changes.Input
	addr string
	out  *report.Report

	// settled holds the lines whose step was answered (true) or sent and not answered (false): whether such a one took
	// place shows when its message comes again, or does not.
	mu struct {
		sync.Mutex
		node    *node.Node
		settled map[*changes.Line]bool
	}
	all chan struct{} // closed when every line is in settled

	pushed, committed, refused, unknown, before, after atomic.Int64
}

func run(ctx context.Context, o options) (*report.Report, error) {
	in, err := changes.Read(o.input)
	if err != nil {
		return nil, err
	}
	addr, err := node.FreeAddr()
	if err != nil {
		return nil, err
	}
	n, err := node.Start(node.Options{Binary: o.binary, Data: filepath.Join(o.dir, "node"), HTTP: addr})
	if err != nil {
		return nil, err
	}
	s := &steps{o: o, in: in, addr: addr, all: make(chan struct{}), out: &report.Report{Program: "steps",
		Conditions: fmt.Sprintf("%d lines of %d files, %d workers, %d kills, seed %d", len(in.Lines), len(in.Files),
			o.workers, o.kills, o.seed)}}
	s.mu.node, s.mu.settled = n, map[*changes.Line]bool{}
	defer func() { s.current().Kill() }()
	ctx, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	start := time.Now()
	if err := s.work(ctx); err != nil {
		return nil, fmt.Errorf("%w; %d of %d lines settled; the node said:\n%s", err, s.settledCount(), len(in.Lines),
			s.current().LogTail())
	}
	took := time.Since(start)
	if err := s.judge(ctx); err != nil {
		return nil, fmt.Errorf("%w; the node said:\n%s", err, s.current().LogTail())
	}
	s.sum(took)
	return s.out, nil
}

func (s *steps) current() *node.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.node
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

// violate notes a broken promise.
func (s *steps) violate(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out.Violate(format, args...)
}

// open tells whether a line may still be delivered: its step was not answered.
func (s *steps) open(l *changes.Line) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.mu.settled[l]
}

// work runs producers, workers and the killer until every line is settled.
func (s *steps) work(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all []func() error
	for i, own := range s.in.Shares(s.o.producers) {
		all = append(all, func() error { return s.produce(ctx, own, uint64(i)) })
	}
	for i := range s.o.workers {
		w := s.newWorker(uint64(100 + i))
		all = append(all, func() error { return w.run(ctx) })
	}
	all = append(all, func() error { return s.kill(ctx) })
	errs := make([]error, len(all))
	var running sync.WaitGroup
	for i, f := range all {
		running.Go(func() {
			if errs[i] = f(); errs[i] != nil {
				cancel()
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// kill ends the node again and again, spread over the run by the number of settled lines, at a random moment of the
// traffic.
func (s *steps) kill(ctx context.Context) error {
	rng := rand.New(rand.NewPCG(s.o.seed, 7))
	for i := range s.o.kills {
		due := len(s.in.Lines) * (i + 1) / (s.o.kills + 1)
		for s.settledCount() < due {
			if err := pause(ctx, time.Millisecond); err != nil {
				return err
			}
		}
		if err := pause(ctx, time.Duration(rng.Int64N(int64(5*time.Millisecond)))); err != nil {
			return err
		}
		unknown := s.unknown.Load()
		s.current().Kill()
		n, err := s.current().Restart()
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.mu.node = n
		s.mu.Unlock()
		fmt.Fprintf(s.o.out, "kill %d after %d steps: %d steps unanswered, ready again after %v\n", i+1, due,
			s.unknown.Load()-unknown, n.Started.Round(time.Millisecond))
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func (s *steps) sum(took time.Duration) {
	s.out.Add("steps", float64(len(s.in.Lines)), "")
	s.out.Add("time with kills", took.Seconds(), "s")
	s.out.Add("steps committed and answered", float64(s.committed.Load()), "")
	s.out.Add("steps refused, lease over or done", float64(s.refused.Load()), "")
	s.out.Add("steps unanswered", float64(s.unknown.Load()), "")
	s.out.Add("workers crashed before a commit", float64(s.before.Load()), "")
	s.out.Add("workers crashed after a commit", float64(s.after.Load()), "")
}
