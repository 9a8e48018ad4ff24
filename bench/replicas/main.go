package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"queen/bench/internal/load"
	"queen/bench/internal/node"
	"queen/bench/internal/report"
)

type options struct {
	load                load.Options
	out, data           string
	targets             []string
	groups, batches     []int
	transfers, restarts int
	limit               time.Duration
	asJSON              bool

	binary string // the node
	peer   peer
}

var targetNames = []string{"one", "three", "nats"}

func main() {
	o := options{load: load.Defaults()}
	l := &o.load
	l.Partitions, l.Producers, l.Consumers, l.Backlog = 100, 18, 6, 20_000
	l.Warmup, l.Duration, l.Drain = 4*time.Second, 12*time.Second, 20*time.Second
	targets := flag.String("targets", strings.Join(targetNames, ","), "what is measured; empty is nothing but transfers")
	groups := flag.String("groups", "1,2", "raft groups of three nodes, 1 or 2")
	batches := flag.String("batches", "100,1", "messages of a push")
	flag.StringVar(&o.out, "out", "bench/out", "directory for programs")
	flag.StringVar(&o.data, "data", "", "directory for data, on the disk to be measured; default is --out")
	flag.IntVar(&l.Partitions, "partitions", l.Partitions, "partitions, uniformly random")
	flag.IntVar(&l.Size, "size", l.Size, "bytes of a payload")
	flag.IntVar(&l.Producers, "producers", l.Producers, "connections that push")
	flag.IntVar(&l.Consumers, "consumers", l.Consumers, "connections that pop and ack")
	flag.Int64Var(&l.Backlog, "backlog", l.Backlog, "unconsumed messages at which producers wait")
	flag.DurationVar(&l.Warmup, "warmup", l.Warmup, "time of a cell before counting")
	flag.DurationVar(&l.Duration, "duration", l.Duration, "time of a cell that is counted")
	flag.DurationVar(&l.Drain, "drain", l.Drain, "time for the rest at the end of a cell")
	flag.IntVar(&o.transfers, "transfers", 20, "transfers of the lead that are measured")
	flag.IntVar(&o.restarts, "restarts", 10, "restarts of the leader by SIGTERM that are measured")
	flag.DurationVar(&o.limit, "limit", 10*time.Minute, "time for everything")
	flag.BoolVar(&o.asJSON, "json", false, "print one JSON object for each measurement instead of tables")
	flag.Parse()
	if err := o.settle(*targets, *groups, *batches); err != nil {
		report.Fail("replicas", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	code, err := run(ctx, &o)
	if err != nil {
		report.Fail("replicas", err)
	}
	os.Exit(code)
}

// settle makes options of lists.
func (o *options) settle(targets, groups, batches string) (err error) {
	for _, name := range strings.FieldsFunc(targets, func(r rune) bool { return r == ',' }) {
		if !slices.Contains(targetNames, name) {
			return fmt.Errorf("--targets %q: there are %s", name, strings.Join(targetNames, ", "))
		}
		o.targets = append(o.targets, name)
	}
	if o.groups, err = numbers("--groups", groups, len(tenants)); err != nil {
		return err
	}
	if o.batches, err = numbers("--batches", batches, atomicMost); err != nil {
		return err
	}
	if o.out, err = filepath.Abs(o.out); err != nil {
		return err
	}
	if o.data == "" {
		o.data = o.out
	}
	o.data, err = filepath.Abs(o.data)
	return err
}

// numbers reads a list of numbers from 1 to most.
func numbers(flag, list string, most int) (all []int, err error) {
	for _, text := range strings.Split(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 || n > most {
			return nil, fmt.Errorf("%s %q: want numbers from 1 to %d, separated by commas", flag, text, most)
		}
		all = append(all, n)
	}
	return all, nil
}

// run measures everything and prints; the code is that of the process.
func run(ctx context.Context, o *options) (code int, err error) {
	if o.binary, err = node.Build(filepath.Join(o.out, "queen")); err != nil {
		return 0, err
	}
	if slices.Contains(o.targets, "nats") {
		o.peer = buildPeer(o.out)
	}
	t := &table{o: o}
	if !o.asJSON {
		t.head(os.Stdout, commit())
	}
	code, err = t.measure(ctx)
	t.print(os.Stdout) // also what there is when it was cut short
	return code, err
}

// measure fills the table.
func (t *table) measure(ctx context.Context) (code int, err error) {
	o := t.o
	if t.floor, err = measureFloor(o); err != nil {
		return 0, err
	}
	for _, c := range o.cells() {
		c.report, c.err = c.measure(ctx, o)
		if ctx.Err() != nil {
			return 0, errors.Join(ctx.Err(), c.err)
		}
		t.cells = append(t.cells, c)
		fmt.Fprintln(os.Stderr, c.row())
		switch {
		case c.err != nil:
			fmt.Fprintf(os.Stderr, "%s: %v\n", c.name, c.err)
			if c.target != "nats" { // which may not be there to be had
				code = 2
			}
		case len(c.report.Violations) > 0:
			code = max(code, 1)
		}
	}
	if o.transfers+o.restarts > 0 {
		t.moves, err = measureMoves(ctx, o)
	}
	return code, err
}

// commit is what was measured, with a mark when the tree differs from it.
func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
