package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"queen/bench/internal/node"
	"queen/bench/internal/procfs"
	"queen/bench/kafka/internal/broker"
)

// target is what a cell runs against.
type target struct {
	addr string
	pid  procfs.Process // 0 when not known
	// step is how many partitions of a topic are created by one request; 0 is all.
	step int
	// ended is closed when the process is gone; nil when it is not ours.
	ended <-chan struct{}
	stop  func() error
	log   func() string
}

// starter starts a broker whose data lies below dir.
type starter func(o *options, dir string) (*target, error)

var targetNames = []string{"queen", "ceiling", "kafka", "kafka-flush", "running"}

func targetByName(name string) starter {
	return map[string]starter{
		"queen": startQueen, "ceiling": startCeiling, "running": foundRunning,
		"kafka": func(o *options, dir string) (*target, error) { return startApache(o, dir) },
		"kafka-flush": func(o *options, dir string) (*target, error) {
			return startApache(o, dir, "log.flush.interval.messages=1")
		},
	}[name]
}

func startQueen(o *options, dir string) (*target, error) {
	binary, err := o.binary()
	if err != nil {
		return nil, err
	}
	n, err := node.Start(node.Options{Binary: binary, Data: filepath.Join(dir, "node"), Kafka: "127.0.0.1:0", Args: o.nodeArgs})
	if err != nil {
		return nil, err
	}
	return &target{addr: n.Kafka, pid: n.PID, ended: n.Ended(), stop: n.Stop, log: n.LogTail}, nil
}

func startCeiling(_ *options, dir string) (*target, error) {
	addr, err := node.FreeAddr()
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	b, err := broker.Start(exec.Command(self, "--answer-at", addr), addr, filepath.Join(dir, "ceiling.log"), 10*time.Second)
	if err != nil {
		return nil, err
	}
	return foreign(b), nil
}

func foundRunning(o *options, _ string) (*target, error) {
	if o.addr == "" {
		return nil, errors.New("the target running needs --addr")
	}
	return &target{addr: o.addr, pid: procfs.Process(o.pid), stop: func() error { return nil }, log: func() string { return "" }}, nil
}

// startApache runs Apache Kafka with its defaults and some settings.
func startApache(o *options, dir string, settings ...string) (*target, error) {
	b, err := broker.Apache(broker.ApacheOptions{Lib: o.lib, Heap: o.heap, Dir: dir, Settings: settings})
	if err != nil {
		return nil, err
	}
	t := foreign(b)
	t.step = broker.ApacheStep
	return t, nil
}

// foreign is a target that is killed in the end.
func foreign(b *broker.Broker) *target {
	return &target{addr: b.Addr, pid: b.PID, ended: b.Ended(), stop: func() error { b.Kill(); return nil }, log: b.LogTail}
}
