package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"queen/bench/internal/child"
	"queen/bench/internal/procfs"
)

// Build compiles the node into path, with the given build tags, and returns path absolute. The working
// directory must be inside the module.
func Build(path string, tags ...string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	args := []string{"build", "-o", path}
	if len(tags) > 0 {
		args = append(args, "-tags", strings.Join(tags, ","))
	}
	out, err := exec.Command("go", append(args, "queen/tools/queen")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("node: build: %w\n%s", err, out)
	}
	return path, nil
}

// Options say how a node is started.
type Options struct {
	Binary string
	// Data is the data directory; the ready file and the log stand beside it.
	Data string
	// HTTP is the address to bind; empty takes a free port of loopback.
	HTTP string
	// Kafka is the address to bind for Kafka clients; empty runs without that frontend.
	Kafka string
	// Args are further arguments of serve, Env further environment.
	Args, Env []string
	// Wait bounds the start; 0 means 2 minutes.
	Wait time.Duration
	// Spawned, if it is set, is told of the process before that is ready.
	Spawned func(procfs.Process)
}

// Node is a running node.
type Node struct {
	Addr string
	// Kafka is the address of the Kafka frontend, empty without it.
	Kafka string
	PID   procfs.Process
	// Started is how long it took from the start of the process to the ready file.
	Started time.Duration
	Options Options

	process *child.Process
}

// Start runs the binary and returns when it is ready.
func Start(o Options) (*Node, error) {
	ready := o.Data + ".ready"
	if err := os.Remove(ready); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	log, err := os.OpenFile(o.Data+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	if o.HTTP == "" {
		o.HTTP = "127.0.0.1:0"
	}
	if o.Wait == 0 {
		o.Wait = 2 * time.Minute
	}
	args := append([]string{"serve", "--data", o.Data, "--http", o.HTTP, "--ready-file", ready}, o.Args...)
	if o.Kafka != "" {
		args = append(args, "--frontends", "http,kafka", "--kafka", o.Kafka)
	}
	cmd := exec.Command(o.Binary, args...)
	cmd.Env = append(os.Environ(), o.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	start := time.Now()
	n := &Node{Options: o}
	if n.process, err = child.Start(cmd); err != nil {
		return nil, err
	}
	if o.Spawned != nil {
		o.Spawned(n.process.PID)
	}
	for {
		if text, err := os.ReadFile(ready); err == nil {
			n.Started = time.Since(start)
			var r struct{ HTTP, Kafka string }
			if err := json.Unmarshal(text, &r); err != nil || r.HTTP == "" || (r.Kafka == "") != (o.Kafka == "") {
				n.Kill()
				return nil, fmt.Errorf("node: the ready file says %q", text)
			}
			n.Addr, n.Kafka, n.PID = r.HTTP, r.Kafka, n.process.PID
			return n, nil
		}
		select {
		case <-n.process.Ended():
			return nil, fmt.Errorf("node: ended before it was ready (%w):\n%s", n.process.Err(), n.LogTail())
		case <-time.After(time.Millisecond):
		}
		if time.Since(start) > o.Wait {
			n.Kill()
			return nil, fmt.Errorf("node: not ready after %v:\n%s", o.Wait, n.LogTail())
		}
	}
}

// LogTail are the last words of the node.
func (n *Node) LogTail() string { return LastWords(n.Options.Data + ".log") }

// lastWordsBytes is how much of a log LastWords gives at most.
const lastWordsBytes = 4096

// LastWords is the end of a node's log; of a process that fell, from where it says why: what each of its goroutines did may follow that at
// length.
func LastWords(log string) string {
	text, _ := os.ReadFile(log)
	fell := max(bytes.LastIndex(text, []byte("\npanic: ")), bytes.LastIndex(text, []byte("\nfatal error: ")))
	from := max(0, len(text)-lastWordsBytes)
	if fell >= 0 {
		from = min(from, fell+1)
	}
	return string(text[from:min(len(text), from+lastWordsBytes)])
}

// Kill ends the process with SIGKILL and waits until it is gone.
func (n *Node) Kill() { n.process.Kill() }

// Signal sends a signal and does not wait.
func (n *Node) Signal(s syscall.Signal) { n.process.Signal(s) }

// Ended is closed when the process is gone.
func (n *Node) Ended() <-chan struct{} { return n.process.Ended() }

// Stop drains the node with SIGTERM; an exit code other than 0 is an error.
func (n *Node) Stop() error {
	if !n.process.Stop(2 * time.Minute) {
		return fmt.Errorf("node: did not stop within two minutes:\n%s", n.LogTail())
	}
	if code := n.process.ExitCode(); code != 0 {
		return fmt.Errorf("node: exit code %d:\n%s", code, n.LogTail())
	}
	return nil
}

// Restart starts the node again on the same directory and addresses.
func (n *Node) Restart() (*Node, error) {
	o := n.Options
	o.HTTP, o.Kafka = n.Addr, n.Kafka
	return Start(o)
}

// FreeAddr is an address of loopback whose port is free and below those that the system gives to outgoing connections:
// a node that is down for a moment finds it free again.
func FreeAddr() (string, error) {
	for range 100 {
		addr := fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(12_000))
		if l, err := net.Listen("tcp", addr); err == nil {
			return addr, l.Close()
		}
	}
	return "", errors.New("node: no free port between 20000 and 32000")
}
