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
	binary, dir    string
	pending, due   int
	connections    int
	partitions     int
	lead, patience time.Duration
	settle         time.Duration
	asJSON, keep   bool
}

func defaults() *options {
	return &options{dir: "bench/out", pending: 1_000_000, due: 100_000, connections: 8, partitions: 64, lead: 30 * time.Second,
		patience: 5 * time.Minute, settle: 45 * time.Second}
}

func main() {
	o := defaults()
	flag.StringVar(&o.binary, "binary", "", "node to run; empty builds it")
	flag.StringVar(&o.dir, "data", o.dir, "directory below which the data directory is made")
	flag.BoolVar(&o.keep, "keep", false, "keep the data directory")
	flag.IntVar(&o.pending, "pending", o.pending, "timers that wait for a far time")
	flag.IntVar(&o.due, "due", o.due, "timers that come due in one second")
	flag.IntVar(&o.connections, "connections", o.connections, "connections that schedule")
	flag.IntVar(&o.partitions, "partitions", o.partitions, "partitions that the due ones fire into")
	flag.DurationVar(&o.lead, "lead", o.lead, "how far ahead that second is when their schedule begins")
	flag.DurationVar(&o.patience, "patience", o.patience, "how long after it the last may fire")
	flag.DurationVar(&o.settle, "settle", o.settle, "idle time before memory is read")
	flag.BoolVar(&o.asJSON, "json", false, "print one JSON object")
	flag.Parse()
	r, err := run(context.Background(), o)
	if err != nil {
		report.Fail("timers", err)
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
	r := &report.Report{Program: "timers", Conditions: fmt.Sprintf(
		"%d pending, %d due in one second over %d partitions, %d connections, calls of %d ops, idle for %v, load %.1f",
		o.pending, o.due, o.partitions, o.connections, callOps, o.settle, procfs.Load())}
	n, err := node.Start(node.Options{Binary: o.binary, Data: filepath.Join(temp, "node")})
	if err != nil {
		return nil, err
	}
	defer n.Kill()
	s := &subject{o: o, r: r, n: n}
	if err := s.measure(ctx); err != nil {
		return nil, fmt.Errorf("%w\nthe node said:\n%s", err, n.LogTail())
	}
	return r, nil
}

// say tells a person where the run is.
func (o *options) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "timers: "+format+"\n", args...)
}
