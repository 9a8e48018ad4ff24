package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

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
	// Args are further arguments of serve, Env further environment.
	Args, Env []string
	// Wait bounds the start; 0 means 2 minutes.
	Wait time.Duration
}

// Node is a running node.
type Node struct {
	Addr string
	PID  procfs.Process
	// Started is how long it took from the start of the process to the ready file.
	Started time.Duration
	Options Options

	cmd   *exec.Cmd
	ended chan struct{}
	err   error // of the process; valid once ended is closed
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
	n := &Node{Options: o, cmd: exec.Command(o.Binary, args...), ended: make(chan struct{})}
	n.cmd.Env = append(os.Environ(), o.Env...)
	n.cmd.Stdout, n.cmd.Stderr = log, log
	// The node goes when this process goes, whatever way that is.
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	start := time.Now()
	if err := n.start(); err != nil {
		return nil, err
	}
	for {
		if text, err := os.ReadFile(ready); err == nil {
			n.Started = time.Since(start)
			var r struct{ HTTP string }
			if err := json.Unmarshal(text, &r); err != nil || r.HTTP == "" {
				n.Kill()
				return nil, fmt.Errorf("node: the ready file says %q", text)
			}
			n.Addr, n.PID = r.HTTP, procfs.Process(n.cmd.Process.Pid)
			return n, nil
		}
		select {
		case <-n.ended:
			return nil, fmt.Errorf("node: ended before it was ready (%w):\n%s", n.err, n.LogTail())
		case <-time.After(time.Millisecond):
		}
		if time.Since(start) > o.Wait {
			n.Kill()
			return nil, fmt.Errorf("node: not ready after %v:\n%s", o.Wait, n.LogTail())
		}
	}
}

// start runs the process from a thread that lives as long: Pdeathsig is about the thread that forked.
func (n *Node) start() error {
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		err := n.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		n.err = n.cmd.Wait()
		if n.err == nil {
			n.err = errors.New("exit 0")
		}
		close(n.ended)
	}()
	return <-started
}

// LogTail is the end of what the node wrote.
func (n *Node) LogTail() string {
	text, _ := os.ReadFile(n.Options.Data + ".log")
	return string(text[max(0, len(text)-4096):])
}

// Kill ends the process with SIGKILL and waits until it is gone.
func (n *Node) Kill() {
	n.Signal(syscall.SIGKILL)
	<-n.ended
}

// Signal sends a signal and does not wait.
func (n *Node) Signal(s syscall.Signal) { _ = n.cmd.Process.Signal(s) }

// Ended is closed when the process is gone.
func (n *Node) Ended() <-chan struct{} { return n.ended }

// Stop drains the node with SIGTERM; an exit code other than 0 is an error.
func (n *Node) Stop() error {
	n.Signal(syscall.SIGTERM)
	select {
	case <-n.ended:
	case <-time.After(2 * time.Minute):
		n.Kill()
		return fmt.Errorf("node: did not stop within two minutes:\n%s", n.LogTail())
	}
	if code := n.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("node: exit code %d:\n%s", code, n.LogTail())
	}
	return nil
}

// Restart starts the node again on the same directory and address.
func (n *Node) Restart() (*Node, error) {
	o := n.Options
	o.HTTP = n.Addr
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
