package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"queen/bench/internal/node"
	"queen/bench/internal/place"
	"queen/bench/internal/report"
)

// options of a run.
type options struct {
	input, binary, dir string
	kills, workers     int
	producers          int
	popMost            int
	leaseSeconds       int
	crashes            float64 // share of the steps around which their worker crashes
	timerEvery         int
	seed               uint64
	limit              time.Duration
	out                io.Writer
	trial              place.Trial
}

// lease is how long a worker has for what a pop gave it.
func (o *options) lease() time.Duration { return time.Duration(o.leaseSeconds) * time.Second }

func defaults() options {
	return options{kills: 10, workers: 4, producers: 4, popMost: 20, leaseSeconds: 3, crashes: 0.01, timerEvery: 100,
		seed: uint64(time.Now().UnixNano()), limit: 30 * time.Minute, out: os.Stdout}
}

func main() {
	o := defaults()
	flag.StringVar(&o.input, "input", "", "NDJSON file to consume")
	flag.StringVar(&o.binary, "binary", "", "node to run; empty builds it")
	dir := flag.String("data", "bench/out", "directory below which the data directory is made")
	keep := flag.Bool("keep", false, "keep the data directory; that of a run that fails is kept anyway")
	flag.IntVar(&o.kills, "kills", o.kills, "kills of the node")
	flag.IntVar(&o.workers, "workers", o.workers, "workers of the consumer group")
	flag.Float64Var(&o.crashes, "crashes", o.crashes, "share of the steps around which their worker crashes")
	flag.Uint64Var(&o.seed, "seed", o.seed, "seed of crashes, delays and faults")
	flag.DurationVar(&o.limit, "limit", o.limit, "time after which the run is given up; on a cluster, time after --for")
	asJSON := flag.Bool("json", false, "print one JSON object")
	o.trial.Flags(flag.CommandLine)
	flag.Parse()
	if *asJSON {
		o.out = os.Stderr
	}
	if err := o.trial.Check(flag.CommandLine, "kills"); err != nil {
		report.Fail("steps", err)
	}
	r, err := process(o, *dir, *keep)
	if err != nil {
		report.Fail("steps", err)
	}
	r.Exit(*asJSON)
}

func process(o options, dir string, keep bool) (*report.Report, error) {
	temp, err := report.TempDir(dir)
	if err != nil {
		return nil, err
	}
	if o.binary == "" && o.trial.Nodes == 0 { // a cluster builds its own
		if o.binary, err = node.Build(filepath.Join(temp, "queen")); err != nil {
			return nil, fmt.Errorf("build: %w", err)
		}
	}
	o.dir = temp
	r, err := run(context.Background(), o)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w\nwhat there is of it is in %s", err, temp)
	case keep || len(r.Violations) > 0:
		r.Conditions += ", kept in " + temp
	default:
		_ = os.RemoveAll(temp) // what can not be removed is no finding
	}
	return r, nil
}
