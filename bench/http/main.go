package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"

	"queen/bench/internal/load"
	"queen/bench/internal/procfs"
	"queen/bench/internal/report"
)

type options struct {
	load       load.Options
	single     bool
	singleSize int
	overload   bool
	factor     float64
	asJSON     bool
}

func main() {
	o := options{load: load.Defaults()}
	l := &o.load
	ready := flag.String("ready-file", "", "ready file of the node")
	flag.StringVar(&l.Addr, "addr", "", "HTTP address of the node")
	flag.StringVar(&l.Data, "data", "", "data directory of the node")
	flag.StringVar(&l.Queue, "queue", l.Queue, "queue; must not exist")
	flag.StringVar(&l.Group, "group", l.Group, "consumer group")
	flag.StringVar(&l.Configure, "configure", "", "options of the queue as JSON")
	flag.IntVar(&l.Partitions, "partitions", l.Partitions, "partitions, uniformly random")
	flag.IntVar(&l.Size, "size", l.Size, "bytes of a payload")
	flag.IntVar(&l.Batch, "batch", l.Batch, "messages of a push")
	flag.IntVar(&l.Producers, "producers", l.Producers, "connections that push")
	flag.IntVar(&l.Consumers, "consumers", l.Consumers, "connections that pop and ack")
	flag.IntVar(&l.PopBatch, "pop-batch", l.PopBatch, "messages of a pop")
	flag.IntVar(&l.PopPartitions, "pop-partitions", l.PopPartitions, "partitions of a pop")
	flag.Float64Var(&l.Rate, "rate", 0, "messages a second, open loop; 0 is as fast as it goes")
	flag.Int64Var(&l.Backlog, "backlog", l.Backlog, "unconsumed messages at which producers wait when there is no rate")
	flag.BoolVar(&l.Fill, "fill", l.Fill, "create every partition before time counts")
	flag.DurationVar(&l.Warmup, "warmup", l.Warmup, "time before counting")
	flag.DurationVar(&l.Duration, "duration", l.Duration, "time counted")
	flag.DurationVar(&l.Window, "window", l.Window, "width of a window")
	flag.DurationVar(&l.Drain, "drain", l.Drain, "time for the rest at the end; 0 leaves it")
	flag.BoolVar(&o.single, "single", false, "one synchronous push at a time")
	flag.IntVar(&o.singleSize, "single-size", 1024, "bytes of a payload with --single")
	flag.BoolVar(&o.overload, "overload", false, "offer more than the capacity")
	flag.Float64Var(&o.factor, "factor", 2, "multiple of the capacity offered by --overload")
	flag.BoolVar(&o.asJSON, "json", false, "print one JSON object")
	flag.Parse()
	r, err := run(&o, *ready)
	if err != nil {
		report.Fail("http", err)
	}
	r.Exit(o.asJSON)
}

func run(o *options, readyFile string) (*report.Report, error) {
	if readyFile != "" {
		text, err := os.ReadFile(readyFile)
		if err != nil {
			return nil, err
		}
		var ready struct {
			PID  int
			HTTP string
		}
		if err := json.Unmarshal(text, &ready); err != nil {
			return nil, fmt.Errorf("%s: %w", readyFile, err)
		}
		o.load.Addr, o.load.Process = ready.HTTP, procfs.Process(ready.PID)
	}
	if !o.asJSON {
		o.load.OnWindow = func(w load.Window) { fmt.Println(w) }
	}
	ctx := context.Background()
	switch {
	case o.single:
		return single(ctx, o)
	case o.overload:
		return overload(ctx, o)
	}
	res, err := load.Run(ctx, o.load)
	if err != nil {
		return nil, err
	}
	r := &report.Report{Program: "http", Conditions: conditions(&o.load)}
	fill(r, res)
	return r, nil
}

func conditions(o *load.Options) string {
	pace := "as fast as it goes"
	if o.Rate > 0 {
		pace = report.Number(o.Rate) + " msg/s open loop"
	}
	return fmt.Sprintf("%d partitions, %d producers of %d x %d B, %d consumers (batch=%d&partitions=%d), %s, %v after %v, "+
		"load %.1f", o.Partitions, o.Producers, o.Batch, o.Size, o.Consumers, o.PopBatch, o.PopPartitions, pace,
		o.Duration, o.Warmup, procfs.Load())
}

// fill notes what a load measured.
func fill(r *report.Report, res *load.Result) {
	seconds := res.Elapsed.Seconds()
	r.Add("push rate", float64(res.Pushed)/seconds, "msg/s")
	r.Add("pop rate", float64(res.Popped)/seconds, "msg/s")
	r.Add("ack rate", float64(res.Acked)/seconds, "msg/s")
	r.Add("rate", float64(min(res.Pushed, res.Popped, res.Acked))/seconds, "msg/s")
	r.Latency("push", &res.Push)
	r.Latency("arrival", &res.Arrival)
	worst := time.Duration(0)
	for i := range res.Windows {
		worst = max(worst, res.Windows[i].Push.Percentile(99))
	}
	r.Add("worst window push p99", float64(worst)/1e3, "us")
	if res.Spent.Usage.RSS > 0 {
		r.Spent(res.Spent, res.Pushed)
	}
	r.Add("loader cpu", res.Loader.Usage.CPU.Seconds()/res.Loader.Elapsed.Seconds(), "cores")
	c := res.Counts
	r.Add("messages per pop", float64(res.Popped)/float64(max(c.Pops-c.Empty, 1)), "")
	r.Add("refused", float64(c.Refused), "calls")
	r.Add("unanswered", float64(c.Unanswered), "calls")
	r.Add("redelivered", float64(c.Redelivered), "msg")
	r.Add("left", float64(res.Left), "msg")
	r.Violations = append(r.Violations, res.Violations...)
}

func single(ctx context.Context, o *options) (*report.Report, error) {
	s, err := load.RunSingle(ctx, load.SingleOptions{Addr: o.load.Addr, Queue: o.load.Queue,
		Partitions: o.load.Partitions, Size: o.singleSize, Warmup: o.load.Warmup, Duration: o.load.Duration})
	if err != nil {
		return nil, err
	}
	r := &report.Report{Program: "http --single", Conditions: fmt.Sprintf(
		"one connection, one message of %d B a push over %d partitions, %v after %v, load %.1f", o.singleSize,
		o.load.Partitions, o.load.Duration, o.load.Warmup, procfs.Load())}
	r.Add("push rate", float64(s.Push.Count())/o.load.Duration.Seconds(), "msg/s")
	r.Latency("push", &s.Push)
	return r, nil
}

// overload measures the capacity with consumers running, then offers a multiple of it on a fresh queue.
func overload(ctx context.Context, o *options) (*report.Report, error) {
	first := o.load
	first.Queue += "-capacity"
	capacity, err := load.Run(ctx, first)
	if err != nil {
		return nil, err
	}
	second := o.load
	rate := float64(min(capacity.Pushed, capacity.Acked)) / capacity.Elapsed.Seconds()
	second.Rate = rate * o.factor
	// An open loop offers no more than its connections can hold: enough of them that the node is what limits.
	second.Producers = min(second.Producers*8, second.Partitions)
	// What piled up is not waited for: how much is consumed while producers press is the question.
	second.Drain = 0
	res, err := load.Run(ctx, second)
	if err != nil {
		return nil, err
	}
	r := &report.Report{Program: "http --overload", Conditions: conditions(&second)}
	accepted := float64(res.Pushed) / res.Elapsed.Seconds()
	consumed := float64(res.Acked) / res.Elapsed.Seconds()
	r.Add("capacity", rate, "msg/s")
	r.Add("offered", second.Rate, "msg/s")
	r.Add("accepted", accepted, "msg/s")
	r.Add("consumed", consumed, "msg/s")
	r.Add("consumed of accepted", consumed/accepted, "")
	r.Violations = append(r.Violations, capacity.Violations...)
	fill(r, res)
	return r, nil
}
