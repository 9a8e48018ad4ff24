package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"queen/engine"
	"queen/engine/enginetest"
	"queen/engine/enginetest/memnode"
	"queen/engine/invariants"
)

func main() {
	ops := flag.Int("ops", 1_000_000, "operations in all")
	crashes := flag.Int("crashes", 2000, "crashes in the middle of an operation, besides those between operations")
	list := flag.Int("list", 400, "operations on one node before a fresh one is opened")
	seed := flag.Uint64("seed", 1, "seed; the same one plays the same operations")
	workers := flag.Int("workers", runtime.NumCPU(), "lists played at once")
	keyedEvery := flag.Int("keyed", 1, "every how many lists the node has a keyed store on disk; 0 never")
	txns := flag.Bool("txns", true, "transactions, locks and timers between the other operations")
	shrink := flag.Int("shrink", 300, "lists tried to shorten one that shows a difference")
	least := flag.Int("least", 1000, "name verdicts that occurred less often")
	flag.Parse()
	start := time.Now()
	stop := invariants.CountHits()
	defer stop()
	cov, failure := play(*ops, *crashes, *list, *workers, *keyedEvery, *shrink, *txns, *seed)
	print(cov, *seed, *least, time.Since(start))
	if failure != nil {
		fmt.Printf("DIFFERENCE: %v\n", failure)
		os.Exit(1)
	}
	fmt.Println("no difference")
}

// play splits the run among workers, each with seeds of its own, and adds up what they saw.
func play(ops, crashes, list, workers, keyedEvery, shrink int, txns bool, seed uint64) (*enginetest.Coverage, *enginetest.Failure) {
	const seedsApart = 1 << 32
	sum := &enginetest.Coverage{Verdicts: map[string]int{}}
	var mu sync.Mutex
	var failure *enginetest.Failure
	var running sync.WaitGroup
	progress := &lockedWriter{w: os.Stderr}
	for i := range workers {
		running.Go(func() {
			from := seed + uint64(i)*seedsApart
			cov, f := enginetest.Random(enginetest.RandomOptions{
				Open: opener(from, keyedEvery), Seed: from, List: list, Ops: share(ops, i, workers), Crashes: share(crashes, i, workers),
				Progress: progress, ShrinkRuns: shrink, Keyed: txns,
			})
			mu.Lock()
			defer mu.Unlock()
			add(sum, cov)
			if f != nil && failure == nil {
				failure = f
			}
		})
	}
	running.Wait()
	return sum, failure
}

func share(n, i, of int) int { return n*(i+1)/of - n*i/of }

// opener numbers the nodes of a worker, so that each has a seed of its own and the run can be repeated. Every keyedEvery-th
// has a keyed store, in a temporary directory of its own.
func opener(seed uint64, keyedEvery int) func() enginetest.Target {
	n := 0
	return func() enginetest.Target {
		seed += 1 << 16
		n++
		o := memnode.Options{Seed: seed, Config: small}
		if keyedEvery > 0 && n%keyedEvery == 0 {
			dir, err := os.MkdirTemp("", "queen-model-")
			if err != nil {
				panic(err) // without it the run is not what was asked for
			}
			o.Keyed, o.Closed = dir, func() { _ = os.RemoveAll(dir) } // it is a temporary one
		}
		return memnode.Open(o)
	}
}

// small makes marks, checkpoints and closed segments of little traffic.
func small(c *engine.Config) { c.MarkBytes, c.CheckpointBytes = 64<<10, 256<<10 }

func add(sum, c *enginetest.Coverage) {
	sum.Ops += c.Ops
	sum.Skipped += c.Skipped
	sum.Reopens += c.Reopens
	sum.Crashes += c.Crashes
	sum.CrashedUnknown += c.CrashedUnknown
	sum.Applied += c.Applied
	for v, n := range c.Verdicts {
		sum.Verdicts[v] += n
	}
}

func print(cov *enginetest.Coverage, seed uint64, least int, took time.Duration) {
	fmt.Printf("seed %d, %v, assertions %v\n%s\n", seed, took.Round(time.Second), invariants.Enabled, cov)
	fmt.Printf("verdicts below %d:\n", least)
	for _, v := range slices.Sorted(maps.Keys(cov.Verdicts)) {
		if n := cov.Verdicts[v]; n < least {
			fmt.Printf("%9d  %s\n", n, v)
		}
	}
	seen, unseen := cov.Codes()
	fmt.Println("\nerror codes told:")
	for _, code := range slices.Sorted(maps.Keys(seen)) {
		fmt.Printf("%9d  %s\n", seen[code], code)
	}
	fmt.Println("error codes not told:")
	for _, code := range unseen {
		fmt.Printf("%24s  %s\n", code, cmp.Or(enginetest.Elsewhere[code], "NOT EXPLAINED"))
	}
	hit, names := 0, invariants.Failpoints()
	fmt.Println("\nfailpoints passed:")
	for _, name := range names {
		n := invariants.Hits(name)
		if n > 0 {
			hit++
		}
		fmt.Printf("%9d  %s\n", n, name)
	}
	fmt.Printf("%d of %d failpoints\n", hit, len(names))
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
