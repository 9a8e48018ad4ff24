package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"time"

	"queen/engine"
	"queen/engine/enginetest"
	"queen/engine/enginetest/memnode"
	"queen/engine/invariants"
)

// run is what the command line asks for.
type run struct {
	ops, crashes, list, workers, keyedEvery, shrink, most int
	txns                                                  bool
	seed                                                  uint64

	mu       sync.Mutex
	cov      *enginetest.Coverage
	failures []*enginetest.Failure
}

func main() {
	var r run
	flag.IntVar(&r.ops, "ops", 1_000_000, "operations in all; transactions, locks and timers come between them")
	flag.IntVar(&r.crashes, "crashes", 2000, "crashes in the middle of an operation, besides those between operations")
	flag.IntVar(&r.list, "list", 400, "operations on one node before a fresh one is opened")
	flag.Uint64Var(&r.seed, "seed", 1, "seed; the same one plays the same operations")
	flag.IntVar(&r.workers, "workers", runtime.NumCPU(), "lists played at once")
	flag.IntVar(&r.keyedEvery, "keyed", 1, "every how many lists the node has a keyed store on disk; 0 never")
	flag.BoolVar(&r.txns, "txns", true, "transactions, locks and timers between the other operations")
	flag.IntVar(&r.shrink, "shrink", 300, "lists tried to shorten one that shows a difference")
	flag.IntVar(&r.most, "differences", 1, "go on until so many lists showed a difference")
	script := flag.String("script", "", "play the list in a file, as a difference prints it, instead of random ones")
	least := flag.Int("least", 1000, "name verdicts that occurred less often")
	flag.Parse()
	if *script != "" {
		os.Exit(r.replay(*script))
	}
	start := time.Now()
	stop := invariants.CountHits()
	defer stop()
	r.play()
	fmt.Printf("seed %d, %v, assertions %v\n%s\n", r.seed, time.Since(start).Round(time.Second), invariants.Enabled, r.cov)
	seldom := printVerdicts(r.cov, *least)
	unmet := printFailpoints()
	for _, f := range r.failures {
		fmt.Printf("DIFFERENCE: %v\nagain: model %s\n", f, r.again(f))
	}
	if len(r.failures) > 0 {
		os.Exit(1)
	}
	fmt.Printf("no difference; %d verdicts and errors below %d without a reason, %d steps of the kill list not passed\n", seldom, *least, unmet)
}

// seedsApart keeps the lists of one worker from those of another.
const seedsApart = 1 << 32

// play splits the run among workers, each with seeds of its own, and adds up what they saw.
func (r *run) play() {
	r.cov = enginetest.NewCoverage(r.txns)
	var running sync.WaitGroup
	progress := &lockedWriter{w: os.Stderr}
	for i := range r.workers {
		running.Go(func() {
			r.work(enginetest.RandomOptions{
				Open: r.open, Seed: r.seed + uint64(i)*seedsApart, List: r.list, Ops: share(r.ops, i, r.workers),
				Crashes: share(r.crashes, i, r.workers), Progress: progress, ShrinkRuns: r.shrink, Keyed: r.txns,
			})
		})
	}
	running.Wait()
}

// work plays the lists of one worker. After one with a difference it goes on with the next, unless there were enough.
func (r *run) work(o enginetest.RandomOptions) {
	for o.Ops > 0 {
		cov, f := enginetest.Random(o)
		if r.note(cov, f) || f == nil {
			return
		}
		done := min(int(f.Seed-o.Seed+1)*o.List, o.Ops)
		o.Crashes -= o.Crashes * done / o.Ops
		o.Seed, o.Ops = f.Seed+1, o.Ops-done
	}
}

// note keeps what a worker found; enough says that no more is asked for.
func (r *run) note(cov *enginetest.Coverage, f *enginetest.Failure) (enough bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cov.Add(cov)
	if f != nil {
		r.failures = append(r.failures, f)
	}
	return len(r.failures) >= r.most
}

// replay plays one list from a file and prints the answers; the exit status is 1 when there is a difference.
func (r *run) replay(file string) int {
	text, err := os.ReadFile(file)
	if err == nil {
		var answers string
		var f *enginetest.Failure
		if answers, f, err = enginetest.Play(enginetest.RandomOptions{Open: r.open, Keyed: r.txns}, r.seed, string(text)); err == nil {
			fmt.Print(answers)
			if f == nil {
				return 0
			}
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "model: %v\n", err)
	}
	return 1
}

func share(n, i, of int) int { return n*(i+1)/of - n*i/of }

// open makes the node of the list with a seed; every keyedEvery-th has a keyed store, in a temporary directory of its own.
func (r *run) open(seed uint64) enginetest.Target {
	o := memnode.Options{Seed: seed << 16, Config: small}
	if r.keyedEvery > 0 && seed%uint64(r.keyedEvery) == 0 {
		dir, err := os.MkdirTemp("", "queen-model-")
		if err != nil {
			panic(err) // without it the run is not what was asked for
		}
		o.Keyed, o.Closed = dir, func() { _ = os.RemoveAll(dir) } // it is a temporary one
	}
	return memnode.Open(o)
}

// small makes marks, checkpoints and closed segments of little traffic.
func small(c *engine.Config) { c.MarkBytes, c.CheckpointBytes = 64<<10, 256<<10 }

// again is the command line that plays the list of a failure alone.
func (r *run) again(f *enginetest.Failure) string {
	return fmt.Sprintf("--seed %d --ops %d --list %d --crashes %d --workers 1 --keyed %d --txns=%v",
		f.Seed, f.Length, f.Length, f.Crashes, r.keyedEvery, r.txns)
}

// lockedWriter keeps the lines of workers apart.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
