package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"

	"queen/bench/internal/floor"
	"queen/bench/internal/procfs"
	"queen/bench/internal/report"
)

type options struct {
	dir                     string
	partitions              []int
	producers, consumers    int
	batch, size             int
	popBatch, popPartitions int
	backlog                 int64
	warmup, duration        time.Duration
	floor                   bool
	pebble, profile         string
}

func main() {
	var o options
	flag.StringVar(&o.dir, "dir", "bench/out", "directory for data, on the disk to be measured")
	partitions := flag.String("partitions", "10000", "partitions; several numbers, with commas, one after another")
	flag.IntVar(&o.producers, "producers", 4, "goroutines that push")
	flag.IntVar(&o.consumers, "consumers", 0, "goroutines that pop and ack")
	flag.IntVar(&o.batch, "batch", 400, "messages of a push")
	flag.IntVar(&o.size, "size", 256, "bytes of a payload")
	flag.IntVar(&o.popBatch, "pop-batch", 1000, "messages of a pop")
	flag.IntVar(&o.popPartitions, "pop-partitions", 64, "partitions of a pop")
	flag.Int64Var(&o.backlog, "backlog", 200_000, "unconsumed messages at which producers wait; 0 is no bound")
	flag.DurationVar(&o.warmup, "warmup", 20*time.Second, "time before counting")
	flag.DurationVar(&o.duration, "duration", 60*time.Second, "time counted")
	flag.BoolVar(&o.floor, "floor", true, "measure the disk too")
	flag.StringVar(&o.pebble, "pebble", "bench/out/pebble", "peer to run under the same load, if it is built; empty for none")
	profile := flag.String("cpuprofile", "", "file for a profile of the engine's runs")
	asJSON := flag.Bool("json", false, "print one JSON object")
	flag.Parse()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(300) // the node's own setting
	}
	o.profile = *profile
	r, err := run(context.Background(), &o, *partitions)
	if err != nil {
		report.Fail("inproc", err)
	}
	r.Exit(*asJSON)
}

func run(ctx context.Context, o *options, partitions string) (*report.Report, error) {
	for _, text := range strings.Split(partitions, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < o.producers {
			return nil, fmt.Errorf("--partitions %q: want numbers, at least one partition per producer", text)
		}
		o.partitions = append(o.partitions, n)
	}
	if o.profile != "" {
		f, err := os.Create(o.profile)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return nil, err
		}
		defer pprof.StopCPUProfile()
	}
	r := &report.Report{Program: "inproc"}
	var rates []float64
	for _, n := range o.partitions {
		name := ""
		if len(o.partitions) > 1 {
			name = fmt.Sprintf("%d partitions: ", n)
		}
		rate, err := measure(ctx, o, n, r, name)
		if err != nil {
			return nil, err
		}
		rates = append(rates, rate)
	}
	if last := len(rates) - 1; last > 0 {
		r.Add(fmt.Sprintf("rate at %d against %d", o.partitions[last], o.partitions[0]), rates[last]/rates[0], "")
	}
	r.Conditions = fmt.Sprintf("%d producers of %d x %d B, %d consumers, %v after %v, load %.1f", o.producers, o.batch,
		o.size, o.consumers, o.duration, o.warmup, procfs.Load())
	if o.consumers == 0 {
		return r, o.compare(r, rates[0])
	}
	return r, nil
}

// compare measures what the rate is held against in the same minute: the disk, and the peer.
func (o *options) compare(r *report.Report, rate float64) error {
	if o.floor {
		f, err := floor.Create(o.dir)
		if err != nil {
			return err
		}
		defer f.Close()
		m, err := f.Measure(o.batch*o.size, min(o.duration, 2*time.Second))
		if err != nil {
			return err
		}
		perSecond := m.PerSecond() * float64(o.batch)
		r.Add("floor, one batch per write", perSecond, "msg/s")
		r.Add("rate of floor", rate/perSecond, "")
	}
	if o.pebble == "" {
		return nil
	}
	if _, err := os.Stat(o.pebble); err != nil {
		r.Conditions += "; pebble is not built at " + o.pebble
		return nil
	}
	out, err := exec.Command(o.pebble, "--json", "--dir", o.dir, "--producers", strconv.Itoa(o.producers),
		"--batch", strconv.Itoa(o.batch), "--size", strconv.Itoa(o.size), "--partitions", strconv.Itoa(o.partitions[0]),
		"--warmup", o.warmup.String(), "--duration", o.duration.String()).Output()
	if err != nil {
		return fmt.Errorf("pebble: %w", err)
	}
	var peer report.Report
	if err := json.Unmarshal(out, &peer); err != nil {
		return fmt.Errorf("pebble: %w", err)
	}
	for _, v := range peer.Values {
		r.Add("pebble "+v.Name, v.N, v.Unit)
	}
	if theirs, ok := peer.Get("push rate"); ok {
		r.Add("rate of pebble", rate/theirs, "")
	}
	return nil
}
