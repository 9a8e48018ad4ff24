package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"queen/bench/internal/node"
	"queen/bench/internal/procfs"
	"queen/bench/internal/report"
)

type options struct {
	binary, dir    string
	streams        int
	kinds          string
	dialers        int
	idle, patience time.Duration
	pushes         int
	asJSON, keep   bool
}

func defaults() *options {
	return &options{dir: "bench/out", streams: 10_000, kinds: "socket,events", dialers: 16, idle: time.Minute,
		patience: 10 * time.Second, pushes: 500}
}

func main() {
	o := defaults()
	flag.StringVar(&o.binary, "binary", "", "node to run; empty builds it")
	flag.StringVar(&o.dir, "data", o.dir, "directory below which the data directory is made")
	flag.BoolVar(&o.keep, "keep", false, "keep the data directory")
	flag.IntVar(&o.streams, "streams", o.streams, "streams that are open at once")
	flag.StringVar(&o.kinds, "kinds", o.kinds, "socket, events, or both")
	flag.IntVar(&o.dialers, "dialers", o.dialers, "streams that are being opened at once")
	flag.DurationVar(&o.idle, "idle", o.idle, "idle time that is measured")
	flag.DurationVar(&o.patience, "patience", o.patience, "how long a message may take")
	flag.IntVar(&o.pushes, "pushes", o.pushes, "messages pushed one at a time")
	flag.BoolVar(&o.asJSON, "json", false, "print one JSON object")
	flag.Parse()
	r, err := run(context.Background(), o)
	if err != nil {
		report.Fail("streams", err)
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
	r := &report.Report{Program: "streams", Conditions: fmt.Sprintf("%d streams of one consumer group, idle for %v, %d pushes one at a time, load %.1f",
		o.streams, o.idle, o.pushes, procfs.Load())}
	for _, kind := range strings.Split(o.kinds, ",") {
		if openers[kind] == nil {
			return nil, fmt.Errorf("%q is no kind of stream: socket or events", kind)
		}
		n, err := node.Start(node.Options{Binary: o.binary, Data: filepath.Join(temp, kind)})
		if err != nil {
			return nil, err
		}
		s := &subject{o: o, r: r, n: n, kind: kind}
		err = s.measure(ctx)
		n.Kill()
		if err != nil {
			return nil, fmt.Errorf("%w\nthe node said:\n%s", err, n.LogTail())
		}
	}
	return r, nil
}

// say tells a person where the run is.
func (o *options) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "streams: "+format+"\n", args...)
}
