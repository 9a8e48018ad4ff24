package broker

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"queen/bench/internal/child"
	"queen/bench/internal/procfs"
)

// Broker is a process that answers Kafka's requests.
type Broker struct {
	// Addr is where it listens.
	Addr string
	PID  procfs.Process

	process *child.Process
	log     string
}

// Start runs a command that is to listen at addr, with its output in the file log, and returns when it answers. One that
// does not within the limit is killed.
func Start(cmd *exec.Cmd, addr, log string, limit time.Duration) (*Broker, error) {
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
	b := &Broker{Addr: addr, PID: p.PID, process: p, log: log}
	if err := b.answers(limit); err != nil {
		b.Kill()
		return nil, fmt.Errorf("%w\n%s", err, b.LogTail())
	}
	return b, nil
}

// Ended is closed when the process is gone.
func (b *Broker) Ended() <-chan struct{} { return b.process.Ended() }

// Kill ends the process and waits until it is gone.
func (b *Broker) Kill() { b.process.Kill() }

// LogTail is the end of what the process wrote.
func (b *Broker) LogTail() string {
	text, _ := os.ReadFile(b.log)
	return string(text[max(0, len(text)-4096):])
}

// answers waits until a broker answers Kafka requests.
func (b *Broker) answers(limit time.Duration) error {
	deadline := time.Now().Add(limit)
	for {
		if time.Now().After(deadline) {
			return fmt.Errorf("broker: %s does not answer after %v", b.Addr, limit)
		}
		select {
		case <-b.Ended():
			return fmt.Errorf("broker: the process of %s ended before it answered", b.Addr)
		case <-time.After(20 * time.Millisecond):
		}
		// A client retries a refused connection for longer than a start should be waited for.
		c, err := net.DialTimeout("tcp", b.Addr, time.Second)
		if err != nil {
			continue
		}
		c.Close()
		if ping(b.Addr) == nil {
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
