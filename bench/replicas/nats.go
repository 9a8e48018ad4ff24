package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"queen/bench/internal/report"
)

// peer are the programs of bench/peers that a cell of NATS takes; err is why there are none.
type peer struct {
	loader, server string
	err            error
}

// atomicMost is how many messages the server takes in one atomic batch.
const atomicMost = 1000

// waysOf are the ways of publishing that a size of batch is measured with.
func waysOf(batch int) []string {
	if batch == 1 {
		return []string{"async"}
	}
	return []string{"async", "atomic"}
}

// buildPeer builds loader and server. They are a module of their own, which may not be there to be had.
func buildPeer(out string) peer {
	p := peer{loader: filepath.Join(out, "nats"), server: filepath.Join(out, "nats-server")}
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "queen").Output()
	if err != nil {
		p.err = fmt.Errorf("go list: %w", err)
		return p
	}
	for path, what := range map[string]string{p.loader: "./nats", p.server: "github.com/nats-io/nats-server/v2"} {
		cmd := exec.Command("go", "build", "-o", path, what)
		cmd.Dir = filepath.Join(strings.TrimSpace(string(root)), "bench", "peers")
		if text, err := cmd.CombinedOutput(); err != nil {
			p.err = fmt.Errorf("build %s: %w\n%s", what, err, text)
			return p
		}
	}
	return p
}

// measure runs the loader against servers of its own.
func (p *peer) measure(ctx context.Context, o *options, c *measured, dir string) (*report.Report, error) {
	if p.err != nil {
		return nil, p.err
	}
	l := &o.load
	args := []string{"--server", p.server, "--data", dir, "--publish", c.way, "--batch", strconv.Itoa(c.batch), "--partitions", strconv.Itoa(l.Partitions),
		"--size", strconv.Itoa(l.Size), "--producers", strconv.Itoa(l.Producers), "--consumers", strconv.Itoa(l.Consumers),
		"--pop-batch", strconv.Itoa(l.PopBatch), "--backlog", strconv.FormatInt(l.Backlog, 10), "--warmup", l.Warmup.String(),
		"--duration", l.Duration.String(), "--drain", l.Drain.String(), "--json"}
	cmd := exec.CommandContext(ctx, p.loader, args...)
	// Interrupted it ends its servers and leaves nothing; whatever happens they end with it.
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(os.Interrupt) }, 20*time.Second
	var said bytes.Buffer
	cmd.Stderr = &said
	text, err := cmd.Output()
	r := &report.Report{}
	if bad := json.Unmarshal(text, r); bad != nil {
		return nil, fmt.Errorf("%s: %w (%v)\n%s", filepath.Base(p.loader), bad, err, said.String())
	}
	return r, nil
}
