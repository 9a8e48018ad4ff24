package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"queen/bench/internal/node"
	"queen/bench/internal/report"
)

func main() {
	o := defaults()
	flag.StringVar(&o.input, "input", "", "NDJSON file to replay")
	flag.StringVar(&o.binary, "binary", "", "node to run; empty builds it")
	dir := flag.String("data", "bench/out", "directory below which the data directory is made")
	keep := flag.Bool("keep", false, "keep the data directory; that of a run that fails is kept anyway")
	flag.IntVar(&o.kills, "kills", o.kills, "kills that have to count")
	flag.IntVar(&o.producers, "producers", o.producers, "producers, at least 4")
	flag.IntVar(&o.workers, "workers", o.workers, "workers of the consumer group, at least 2")
	flag.IntVar(&o.pushMost, "push-most", o.pushMost, "messages of a push at most")
	flag.IntVar(&o.popMost, "pop-most", o.popMost, "messages of a pop at most")
	flag.IntVar(&o.leaseSeconds, "lease", o.leaseSeconds, "seconds of a lease")
	flag.Uint64Var(&o.seed, "seed", o.seed, "seed of sizes and moments")
	flag.DurationVar(&o.limit, "limit", o.limit, "time after which the run is given up; on a cluster, time after --for")
	flag.StringVar(&o.lossy, "lossy", "", "keep (what was not flushed is lost at every kill) or lie (flushes do nothing: the run "+
		"must fail); needs the right to mount")
	asJSON := flag.Bool("json", false, "print one JSON object")
	o.trial.Flags(flag.CommandLine)
	flag.Parse()
	if *asJSON {
		o.out = os.Stderr
	}
	if err := o.trial.Check(flag.CommandLine, "kills", "lossy"); err != nil {
		report.Fail("real", err)
	}
	r, err := process(o, *dir, *keep)
	if err != nil {
		report.Fail("real", err)
	}
	r.Exit(*asJSON)
}

// defaults are the conditions of the acceptance run.
func defaults() options {
	return options{queue: "changes", kills: 5, producers: 4, workers: 4, pushMost: 10, popMost: 20, leaseSeconds: 3,
		seed: uint64(time.Now().UnixNano()), limit: 20 * time.Minute, out: os.Stdout}
}

func process(o options, dir string, keep bool) (*report.Report, error) {
	temp, err := report.TempDir(dir)
	if err != nil {
		return nil, err
	}
	if o.binary == "" && o.trial.Nodes == 0 { // a cluster builds its own
		if o.binary, err = node.Build(filepath.Join(temp, "queen")); err != nil {
			return nil, err
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
