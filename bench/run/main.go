package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"queen/bench/internal/procfs"
	"queen/bench/internal/report"
)

type options struct {
	out, data        string
	rows             []string
	runs             int
	warmup, duration time.Duration
	many, few        int
	producers        int
	consumers        int
	smoke            bool
}

func main() {
	var o options
	flag.StringVar(&o.out, "out", "bench/out", "directory for the programs")
	flag.StringVar(&o.data, "data", "", "directory for data, on the disk to be measured; default is --out")
	rows := flag.String("rows", strings.Join(rowNames(), ","), "rows to measure")
	flag.IntVar(&o.runs, "runs", 1, "runs of each row; the table has medians")
	flag.DurationVar(&o.warmup, "warmup", 20*time.Second, "time before counting")
	flag.DurationVar(&o.duration, "duration", 60*time.Second, "time counted")
	flag.IntVar(&o.few, "few", 100, "partitions of the flat row's first run")
	flag.IntVar(&o.many, "many", 1_000_000, "partitions of the flat row's second run, and idle ones")
	flag.IntVar(&o.producers, "producers", 16, "HTTP connections that push")
	flag.IntVar(&o.consumers, "consumers", 8, "HTTP connections that pop and ack")
	flag.BoolVar(&o.smoke, "smoke", false, "seconds instead of minutes: shows that it works, measures nothing")
	flag.Parse()
	o.rows = strings.Split(*rows, ",")
	if o.smoke {
		o.warmup, o.duration, o.many = time.Second, 2*time.Second, 20_000
	}
	if o.data == "" {
		o.data = o.out
	}
	if err := run(&o); err != nil {
		report.Fail("run", err)
	}
}

func run(o *options) error {
	if err := build(o); err != nil {
		return err
	}
	b := &board{o: o, measured: map[string][]float64{}}
	fmt.Printf("%s, load %.1f, commit %s\n\n", time.Now().UTC().Format(time.RFC3339), procfs.Load(), commit())
	for range o.runs {
		for _, name := range o.rows {
			r := rowByName(name)
			if r == nil {
				return fmt.Errorf("--rows %s: there are %s", name, strings.Join(rowNames(), ", "))
			}
			if err := b.floor(); err != nil {
				return err
			}
			if err := r(b); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	b.print(os.Stdout)
	if b.violations > 0 {
		return fmt.Errorf("%d violations, named above", b.violations)
	}
	return nil
}

func (o *options) program(name string) string { return filepath.Join(o.out, name) }
