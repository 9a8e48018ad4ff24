package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"queen/bench/internal/load"
	"queen/bench/internal/node"
	"queen/bench/internal/procfs"
	"queen/bench/internal/report"
)

type options struct {
	load       load.Options
	binary     string
	dir        string
	keep       bool
	share      float64
	calibrate  time.Duration
	held       time.Duration
	vary       float64
	worst, p99 time.Duration
	window     int64
	retention  int64
	asJSON     bool
}

func main() {
	o := options{load: load.Defaults()}
	l := &o.load
	flag.StringVar(&o.binary, "binary", "", "node to run; empty builds it")
	flag.StringVar(&o.dir, "data", "bench/out", "directory below which the data directory is made")
	flag.BoolVar(&o.keep, "keep", false, "keep the data directory")
	flag.IntVar(&l.Partitions, "partitions", l.Partitions, "partitions, uniformly random")
	flag.IntVar(&l.Size, "size", l.Size, "bytes of a payload")
	flag.IntVar(&l.Batch, "batch", l.Batch, "messages of a push")
	flag.IntVar(&l.Producers, "producers", 64, "connections that push: each has its own schedule and falls behind it where an answer takes long")
	flag.IntVar(&l.Consumers, "consumers", l.Consumers, "connections that pop and ack")
	flag.Float64Var(&l.Rate, "rate", 0, "messages a second; 0 offers the share of what a new node reaches")
	flag.Float64Var(&o.share, "share", 0.7, "share of the capacity to offer; what the node reaches with full windows is measured behind it and judges")
	flag.DurationVar(&o.calibrate, "calibrate", 30*time.Second, "time to measure the capacity of the new node, after a third of it")
	flag.DurationVar(&o.held, "held", 10*time.Minute, "time to measure the capacity with full windows")
	flag.DurationVar(&l.Warmup, "warmup", 20*time.Minute, "time before windows are judged")
	flag.DurationVar(&l.Duration, "duration", time.Hour, "time judged")
	flag.DurationVar(&l.Window, "window", l.Window, "width of a window")
	flag.Int64Var(&o.window, "dedup", 900, "dedupWindowSeconds")
	flag.Int64Var(&o.retention, "retention", 300, "retentionSeconds and completedRetentionSeconds")
	flag.Float64Var(&o.vary, "vary", 0.10, "how much RSS, descriptors and disk may vary")
	flag.DurationVar(&o.worst, "worst", 250*time.Millisecond, "p99 of a window at most")
	flag.DurationVar(&o.p99, "p99", 50*time.Millisecond, "p99 of all judged windows at most")
	flag.BoolVar(&o.asJSON, "json", false, "print one JSON object")
	flag.Parse()
	r, err := run(context.Background(), &o)
	if err != nil {
		report.Fail("soak", err)
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
	n, err := node.Start(node.Options{Binary: o.binary, Data: filepath.Join(temp, "node")})
	if err != nil {
		return nil, err
	}
	defer n.Kill()
	l := &o.load
	l.Addr, l.Process, l.Data, l.Queue = n.Addr, n.PID, n.Options.Data, "soak"
	l.Configure = fmt.Sprintf(`{"dedupWindowSeconds":%d,"retentionEnabled":true,"retentionSeconds":%d,"completedRetentionSeconds":%d}`,
		o.window, o.retention, o.retention)
	out := os.Stdout
	if o.asJSON {
		out = os.Stderr
	}
	l.OnWindow = func(w load.Window) { fmt.Fprintln(out, w) }
	capacity := 0.0
	if l.Rate == 0 {
		if capacity, err = measureCapacity(ctx, o, "calibrate", o.calibrate); err != nil {
			return nil, err
		}
		l.Rate = capacity * o.share
		fmt.Fprintf(out, "capacity %.0f msg/s, offering %.0f msg/s\n", capacity, l.Rate)
	}
	res, err := load.Run(ctx, *l)
	if err != nil {
		return nil, fmt.Errorf("%w\nthe node said:\n%s", err, n.LogTail())
	}
	r := judge(o, res)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("ended before its time: %w", err)
	}
	r.Add("capacity when new", capacity, "msg/s")
	full, err := measureCapacity(ctx, o, "after", o.held)
	if err != nil {
		return nil, err
	}
	r.Add("capacity with full windows", full, "msg/s")
	r.Add("offered of it", l.Rate/full, "")
	if l.Rate < o.share*full {
		r.Violate("%.0f msg/s were offered, at least %.2f of the capacity with full windows is wanted", l.Rate, o.share)
	}
	if err := n.Stop(); err != nil {
		r.Violate("%v", err)
	}
	return r, nil
}

// measureCapacity is what producers and consumers reach together on a queue of their own, which goes away by retention.
// A new node has no older ids to look through, and any node puts merges off for some minutes: what it holds for good is less, and is
// measured behind the soak, for longer than a round of all merges takes.
func measureCapacity(ctx context.Context, o *options, queue string, lasts time.Duration) (float64, error) {
	c := o.load
	c.Queue, c.Rate, c.Warmup, c.Duration = queue, 0, o.calibrate/3, lasts
	res, err := load.Run(ctx, c)
	if err != nil {
		return 0, err
	}
	return float64(min(res.Pushed, res.Popped, res.Acked)) / res.Elapsed.Seconds(), nil
}

func judge(o *options, res *load.Result) *report.Report {
	l := &o.load
	r := &report.Report{Program: "soak", Conditions: fmt.Sprintf(
		"%.0f msg/s of %d B open loop over %d partitions, batches of %d, %d consumers, dedup window %d s, retention %d s, %v after %v, load %.1f",
		l.Rate, l.Size, l.Partitions, l.Batch, l.Consumers, o.window, o.retention, l.Duration, l.Warmup, procfs.Load())}
	seconds := res.Elapsed.Seconds()
	r.Add("pushed", float64(res.Pushed)/seconds, "msg/s")
	r.Add("acked", float64(res.Acked)/seconds, "msg/s")
	r.Latency("push", &res.Push)
	r.Latency("arrival", &res.Arrival)
	if p99 := res.Push.Percentile(99); p99 > o.p99 {
		r.Violate("p99 of a push is %v, at most %v", p99, o.p99)
	}
	var rss, fds, disk []float64
	worst := time.Duration(0)
	for i := range res.Windows {
		w := &res.Windows[i]
		rss = append(rss, float64(w.Usage.RSS))
		fds = append(fds, float64(w.Usage.FDs))
		disk = append(disk, float64(w.DiskBytes))
		p99 := w.Push.Percentile(99)
		worst = max(worst, p99)
		if p99 > o.worst {
			r.Violate("the window at %v has a p99 of %v, at most %v", w.From.Round(time.Second), p99, o.worst)
		}
	}
	r.Add("worst window push p99", float64(worst)/1e3, "us")
	for _, s := range []struct {
		name, unit string
		samples    []float64
		scale      float64
	}{{"rss", "MiB", rss, 1 << 20}, {"descriptors", "", fds, 1}, {"disk", "MiB", disk, 1 << 20}} {
		median, varied := variation(s.samples)
		r.Add(s.name+" median", median/s.scale, s.unit)
		r.Add(s.name+" varied by", varied, "of the median")
		if varied >= o.vary {
			r.Violate("%s varied by %.1f %%, less than %.0f %% is wanted", s.name, varied*100, o.vary*100)
		}
	}
	r.Spent(res.Spent, res.Pushed)
	r.Violations = append(r.Violations, res.Violations...)
	return r
}

// variation is the median of samples, and how far the largest is from the smallest in shares of it.
func variation(samples []float64) (median, varied float64) {
	if len(samples) == 0 {
		return 0, 0
	}
	s := slices.Sorted(slices.Values(samples))
	if median = s[len(s)/2]; median == 0 {
		return 0, 0
	}
	return median, (s[len(s)-1] - s[0]) / median
}
