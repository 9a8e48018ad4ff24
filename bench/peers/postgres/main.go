package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

func main() {
	client := flag.String("client", "pipelined", "pipelined: a step is one round trip; pgbench: PostgreSQL's own loader, a round trip for "+
		"each statement, BEGIN and COMMIT among them, as most applications do it")
	connections := flag.Int("connections", 64, "connections")
	warm := flag.Duration("warm", 5*time.Second, "time that is not counted")
	length := flag.Duration("length", 20*time.Second, "time that is counted")
	bin := flag.String("bin", "", "directory of initdb and postgres; empty looks in /usr/lib/postgresql")
	data := flag.String("data", "", "directory for the temporary data directory; empty takes the system's")
	flag.Parse()
	r, err := run(*client, *connections, *warm, *length, *bin, *data)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(r)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "postgres:", err)
		os.Exit(2)
	}
}

// result is what a run found: commits a second, and how long they took in microseconds.
type result struct {
	PerSecond float64 `json:"perSecond"`
	P50       float64 `json:"p50"`
	P99       float64 `json:"p99"`
}

func resultOf(perSecond float64, took []time.Duration) *result {
	slices.Sort(took)
	at := func(p int) float64 { return float64(took[len(took)*p/100].Microseconds()) }
	return &result{PerSecond: perSecond, P50: at(50), P99: at(99)}
}

func run(client string, connections int, warm, length time.Duration, bin, data string) (*result, error) {
	measure, known := map[string]func(context.Context, *server, int, time.Duration, time.Duration) (*result, error){
		"pipelined": pipelined, "pgbench": pgbench}[client]
	if !known {
		return nil, fmt.Errorf("--client is pipelined or pgbench, not %q", client)
	}
	if bin == "" {
		found, err := filepath.Glob("/usr/lib/postgresql/*/bin")
		if err != nil || len(found) == 0 {
			return nil, fmt.Errorf("no PostgreSQL below /usr/lib/postgresql: install it, or say --bin")
		}
		bin = found[len(found)-1]
	}
	dir, err := os.MkdirTemp(data, "postgres")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	s, err := start(bin, dir)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	ctx := context.Background()
	c, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close(ctx)
	if _, err := c.Exec(ctx, schema); err != nil {
		return nil, err
	}
	return measure(ctx, s, connections, warm, length)
}
