package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"queen/bench/internal/node"
	"queen/bench/internal/report"
)

// goal is a line of the table.
type goal struct {
	key, what, unit string
	hold, reach     float64
	// atMost says that less is better.
	atMost bool
}

// goals are the numbers to hold, in the order of the table. What is not built has no line.
var goals = []goal{
	{key: "pebble", what: "in-process push, 256 B, batches of 400 over 10k partitions, against pebble",
		unit: "x", hold: 1.5, reach: 3},
	{key: "http", what: "HTTP push of 100 x 256 B over 10k partitions, pop and ack running, each way",
		unit: "msg/s", hold: 200_000, reach: 350_000},
	{key: "single", what: "single synchronous push, 1 KB, HTTP, p50",
		unit: "us", hold: 400, reach: 250, atMost: true},
	{key: "flat", what: "rate at 1M partitions against 100 partitions, HTTP",
		unit: "x", hold: 0.8, reach: 1},
	{key: "memory", what: "memory per idle partition, one consumer group, without its name",
		unit: "B", hold: 256, reach: 160, atMost: true},
	{key: "restart", what: "restart with 1M partitions and 10 GB after kill -9",
		unit: "s", hold: 5, reach: 3, atMost: true},
	{key: "overload", what: "consumers under 2x producer overload, of accepted rate",
		unit: "x", hold: 0.9, reach: 1},
}

func rowNames() []string { return []string{"push", "http", "single", "flat", "overload", "partitions"} }

func rowByName(name string) func(*board) error {
	return map[string]func(*board) error{"push": push, "http": http, "single": single, "flat": flat,
		"overload": overload, "partitions": partitions}[name]
}

// times are the flags that every load takes.
func (b *board) times() []string {
	return []string{"--warmup", b.o.warmup.String(), "--duration", b.o.duration.String()}
}

func (b *board) shape(partitions int) []string {
	return append(b.times(), "--partitions", strconv.Itoa(partitions), "--producers", strconv.Itoa(b.o.producers),
		"--consumers", strconv.Itoa(b.o.consumers))
}

func push(b *board) error {
	args := append(b.times(), "--dir", b.o.data, "--pebble", b.o.program("pebble"))
	r, err := call(b.o.program("inproc"), args...)
	if err != nil {
		return err
	}
	b.take(r)
	b.measure("pebble", r, "rate of pebble")
	return nil
}

func http(b *board) error {
	r, err := b.load("http", b.shape(10_000)...)
	if err != nil {
		return err
	}
	b.measure("http", r, "rate")
	return nil
}

func single(b *board) error {
	r, err := b.load("http", append(b.times(), "--single", "--partitions", "10000")...)
	if err != nil {
		return err
	}
	b.measure("single", r, "push p50")
	return nil
}

func flat(b *board) error {
	few, err := b.load("http", b.shape(b.o.few)...)
	if err != nil {
		return err
	}
	many, err := b.load("http", b.shape(b.o.many)...)
	if err != nil {
		return err
	}
	a, _ := few.Get("rate")
	z, _ := many.Get("rate")
	b.measured["flat"] = append(b.measured["flat"], z/a)
	return nil
}

func overload(b *board) error {
	r, err := b.load("http", append(b.shape(10_000), "--overload")...)
	if err != nil {
		return err
	}
	b.measure("overload", r, "consumed of accepted")
	return nil
}

func partitions(b *board) error {
	args := []string{"--binary", b.o.program("queen"), "--data", b.o.data, "--more", strconv.Itoa(b.o.many)}
	if b.o.smoke {
		args = append(args, "--first", "1000", "--settle", "2s", "--dedup", "1", "--latency", "1s", "--recent", "33554432")
	} else {
		args = append(args, "--log-bytes", strconv.Itoa(10<<30))
	}
	r, err := call(b.o.program("partitions"), args...)
	if err != nil {
		return err
	}
	b.take(r)
	b.measure("memory", r, "memory per idle partition")
	b.measure("restart", r, "restart after kill -9, right after writing")
	return nil
}

// load runs a loader against a fresh node.
func (b *board) load(program string, args ...string) (*report.Report, error) {
	dir, err := report.TempDir(b.o.data)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	data := filepath.Join(dir, "node")
	n, err := node.Start(node.Options{Binary: b.o.program("queen"), Data: data})
	if err != nil {
		return nil, err
	}
	defer n.Kill()
	r, err := call(b.o.program(program), append(args, "--ready-file", data+".ready", "--data", data)...)
	if err != nil {
		return nil, fmt.Errorf("%w\nthe node said:\n%s", err, n.LogTail())
	}
	b.take(r)
	return r, n.Stop()
}
