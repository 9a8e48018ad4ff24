package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"queen/bench/internal/node"
	"queen/bench/internal/procfs"
	"queen/bench/internal/report"
)

type options struct {
	binary, dir         string
	first, more         int
	dedup               int
	settle, latency     time.Duration
	recent, logBytes    int64
	producers, restarts int
	asJSON, keep        bool
}

func main() {
	var o options
	flag.StringVar(&o.binary, "binary", "", "node to run; empty builds it")
	flag.StringVar(&o.dir, "data", "bench/out", "directory below which the data directory is made")
	flag.BoolVar(&o.keep, "keep", false, "keep the data directory")
	flag.IntVar(&o.first, "first", 100_000, "partitions at the first point")
	flag.IntVar(&o.more, "more", 1_000_000, "partitions between the points")
	flag.IntVar(&o.dedup, "dedup", 5, "dedupWindowSeconds, passed before memory is read")
	flag.DurationVar(&o.settle, "settle", 45*time.Second, "idle time before memory is read")
	flag.DurationVar(&o.latency, "latency", 10*time.Second, "time for single calls")
	flag.Int64Var(&o.recent, "recent", 512<<20, "bytes that fill what the node keeps of recent messages")
	flag.Int64Var(&o.logBytes, "log-bytes", 0, "write this many bytes of payload before the restarts")
	flag.IntVar(&o.producers, "producers", 8, "connections that create")
	flag.IntVar(&o.restarts, "restarts", 3, "restarts of the idle node")
	flag.BoolVar(&o.asJSON, "json", false, "print one JSON object")
	flag.Parse()
	r, err := run(context.Background(), &o)
	if err != nil {
		report.Fail("partitions", err)
	}
	r.Exit(o.asJSON)
}

func run(ctx context.Context, o *options) (*report.Report, error) {
	temp, err := report.TempDir(o.dir)
	if err != nil {
		return nil, err
	}
	if !o.keep {
		defer os.RemoveAll(temp)
	}
	if o.binary == "" {
		if o.binary, err = node.Build(filepath.Join(temp, "queen")); err != nil {
			return nil, err
		}
	}
	r := &report.Report{Program: "partitions", Conditions: fmt.Sprintf(
		"%d and %d more partitions, names of 20 bytes, one consumer group, dedup window %d s, idle for %v, load %.1f",
		o.first, o.more, o.dedup, o.settle, procfs.Load())}
	few, err := o.fewPartitions(ctx, r, filepath.Join(temp, "few"))
	if err != nil {
		return nil, err
	}
	n, err := node.Start(node.Options{Binary: o.binary, Data: filepath.Join(temp, "many")})
	if err != nil {
		return nil, err
	}
	s := &subject{o: o, r: r, n: n}
	defer func() { s.n.Kill() }()
	if err := s.measure(ctx, few); err != nil {
		return nil, fmt.Errorf("%w\nthe node said:\n%s", err, s.n.LogTail())
	}
	return r, nil
}

// say tells a person where the run is.
func (o *options) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "partitions: "+format+"\n", args...)
}
