package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"queen/bench/internal/child"
	"queen/bench/internal/node"
	"queen/bench/internal/procfs"
)

// broker is what a cell runs against.
type broker struct {
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
type starter func(o *options, dir string) (*broker, error)

var targetNames = []string{"queen", "ceiling", "kafka", "kafka-flush", "running"}

func targetByName(name string) starter {
	return map[string]starter{
		"queen": startQueen, "ceiling": startCeiling, "running": foundRunning,
		"kafka": func(o *options, dir string) (*broker, error) { return startApache(o, dir) },
		"kafka-flush": func(o *options, dir string) (*broker, error) {
			return startApache(o, dir, "log.flush.interval.messages=1")
		},
	}[name]
}

func startQueen(o *options, dir string) (*broker, error) {
	binary, err := o.binary()
	if err != nil {
		return nil, err
	}
	n, err := node.Start(node.Options{Binary: binary, Data: filepath.Join(dir, "node"), Kafka: "127.0.0.1:0", Args: o.nodeArgs})
	if err != nil {
		return nil, err
	}
	return &broker{addr: n.Kafka, pid: n.PID, ended: n.Ended(), stop: n.Stop, log: n.LogTail}, nil
}

func startCeiling(_ *options, dir string) (*broker, error) {
	addr, err := node.FreeAddr()
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return startProcess(exec.Command(self, "--answer-at", addr), addr, filepath.Join(dir, "ceiling.log"), 10*time.Second)
}

func foundRunning(o *options, _ string) (*broker, error) {
	if o.addr == "" {
		return nil, errors.New("the target running needs --addr")
	}
	return &broker{addr: o.addr, pid: procfs.Process(o.pid), stop: func() error { return nil }, log: func() string { return "" }}, nil
}

// startProcess starts a broker and returns when it answers. It is killed in the end: its data is thrown away.
func startProcess(cmd *exec.Cmd, addr, log string, limit time.Duration) (*broker, error) {
	f, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	cmd.Stdout, cmd.Stderr = f, f
	p, err := child.Start(cmd)
	if err != nil {
		return nil, err
	}
	b := &broker{addr: addr, pid: p.PID, ended: p.Ended(), stop: func() error { p.Kill(); return nil }, log: func() string { return tail(log) }}
	if err := answers(b, limit); err != nil {
		p.Kill()
		return nil, fmt.Errorf("%w\n%s", err, b.log())
	}
	return b, nil
}

// answers waits until a broker answers Kafka requests.
func answers(b *broker, limit time.Duration) error {
	deadline := time.Now().Add(limit)
	for {
		if time.Now().After(deadline) {
			return fmt.Errorf("%s does not answer after %v", b.addr, limit)
		}
		select {
		case <-b.ended:
			return fmt.Errorf("the process of %s ended before it answered", b.addr)
		case <-time.After(20 * time.Millisecond):
		}
		// A client retries a refused connection for longer than a start should be waited for.
		c, err := net.DialTimeout("tcp", b.addr, time.Second)
		if err != nil {
			continue
		}
		c.Close()
		if ping(b.addr) == nil {
			return nil
		}
	}
}

func ping(addr string) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DisableClientMetrics())
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return cl.Ping(ctx)
}

// tail is the end of a file.
func tail(path string) string {
	text, _ := os.ReadFile(path)
	return string(text[max(0, len(text)-4096):])
}
