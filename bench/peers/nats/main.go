package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"queen/bench/internal/cell"
	"queen/bench/internal/load"
	"queen/bench/internal/report"
)

type options struct {
	load                  load.Options
	server, data, publish string
}

func main() {
	o := options{load: load.Defaults()}
	l := &o.load
	l.Unordered = true
	flag.StringVar(&o.server, "server", "bench/out/nats-server", "program of the server")
	flag.StringVar(&o.data, "data", "bench/out", "directory below which the data directories are made")
	flag.StringVar(&o.publish, "publish", "async", "how a batch is published: async or atomic")
	flag.IntVar(&l.Partitions, "partitions", 100, "partitions, each a subject, uniformly random")
	flag.IntVar(&l.Size, "size", l.Size, "bytes of a payload")
	flag.IntVar(&l.Batch, "batch", l.Batch, "messages of a push")
	flag.IntVar(&l.Producers, "producers", l.Producers, "connections that push")
	flag.IntVar(&l.Consumers, "consumers", l.Consumers, "connections that pop and ack")
	flag.IntVar(&l.PopBatch, "pop-batch", l.PopBatch, "messages of a pop")
	flag.Int64Var(&l.Backlog, "backlog", 20_000, "unconsumed messages at which producers wait")
	flag.DurationVar(&l.Warmup, "warmup", l.Warmup, "time before counting")
	flag.DurationVar(&l.Duration, "duration", l.Duration, "time counted")
	flag.DurationVar(&l.Drain, "drain", l.Drain, "time for the rest at the end")
	asJSON := flag.Bool("json", false, "print one JSON object")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	r, err := run(ctx, &o)
	if err != nil {
		report.Fail("nats", err)
	}
	r.Exit(*asJSON)
}

func run(ctx context.Context, o *options) (*report.Report, error) {
	if o.publish != "async" && o.publish != "atomic" {
		return nil, fmt.Errorf("--publish is async or atomic, not %q", o.publish)
	}
	dir, err := report.TempDir(o.data)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	s, err := start(o.server, dir)
	if err != nil {
		return nil, err
	}
	defer s.kill()
	o.load.Target = &target{urls: s.urls(), atomic: o.publish == "atomic"}
	r, err := cell.Measure(ctx, cell.Options{Name: "nats " + o.publish, Loads: []load.Options{o.load}, Processes: s.processes(),
		Replicas: replicas, Dir: dir})
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, s.logs())
	}
	return r, nil
}
