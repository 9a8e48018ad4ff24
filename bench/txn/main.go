package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"queen/bench/internal/client"
	"queen/bench/internal/histo"
	"queen/bench/internal/node"
	"queen/bench/internal/report"
)

type options struct {
	binary, dir, peer string
	connections       int
	messages          int // of one transaction
	partitions        int
	processors        int // of the loader
	warm, length      time.Duration
}

func main() {
	o := options{}
	flag.StringVar(&o.binary, "binary", "", "node to run; empty builds it")
	flag.StringVar(&o.dir, "data", "bench/out", "directory below which the data directory is made")
	flag.StringVar(&o.peer, "peer", "", "program of bench/peers/postgres to run in the same minute; empty runs none")
	flag.IntVar(&o.connections, "connections", 64, "connections")
	flag.IntVar(&o.messages, "messages", 1, "messages of one transaction")
	flag.IntVar(&o.partitions, "partitions", 1000, "partitions")
	flag.DurationVar(&o.warm, "warm", 5*time.Second, "time that is not counted")
	flag.DurationVar(&o.length, "length", 20*time.Second, "time that is counted")
	flag.IntVar(&o.processors, "processors", max(runtime.NumCPU()/4, 1), "processors the loader takes beside the node, and that of the peer beside its server")
	asJSON := flag.Bool("json", false, "print one JSON object")
	flag.Parse()
	r, err := run(o)
	if err != nil {
		report.Fail("txn", err)
	}
	r.Exit(*asJSON)
}

func run(o options) (*report.Report, error) {
	dir, err := report.TempDir(o.dir)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if o.binary == "" {
		if o.binary, err = node.Build(filepath.Join(dir, "queen")); err != nil {
			return nil, err
		}
	}
	n, err := node.Start(node.Options{Binary: o.binary, Data: filepath.Join(dir, "node")})
	if err != nil {
		return nil, err
	}
	defer n.Kill()
	// The loader does next to nothing between two system calls: more processors would only hand its connections around.
	runtime.GOMAXPROCS(o.processors)
	out := &report.Report{Program: "txn", Conditions: fmt.Sprintf(
		"%d connections, %d messages a transaction, %d partitions, %v after %v, loader on %d processors",
		o.connections, o.messages, o.partitions, o.length, o.warm, o.processors)}
	ours, err := load(o, n, out)
	if err != nil {
		return nil, fmt.Errorf("%w\nthe node said:\n%s", err, n.LogTail())
	}
	n.Kill()
	if o.peer == "" {
		return out, nil
	}
	for _, way := range []struct{ client, name string }{{"pgbench", "PostgreSQL"}, {"pipelined", "PostgreSQL in one round trip"}} {
		theirs, err := peer(o, way.client)
		if err != nil {
			return nil, err
		}
		out.Add(way.name+" commits", theirs.PerSecond, "/s")
		out.Add(way.name+" commit p50", theirs.P50, "us")
		out.Add(way.name+" commit p99", theirs.P99, "us")
		out.Add("ratio to "+way.name, ours/theirs.PerSecond, "x")
	}
	return out, nil
}

type peerResult struct {
	PerSecond float64 `json:"perSecond"`
	P50, P99  float64
}

// peer runs the peer with one of its clients: pgbench does as most applications do, pipelined is the least that the
// protocol allows.
func peer(o options, client string) (r peerResult, err error) {
	cmd := exec.Command(o.peer, "--client", client, "--connections", fmt.Sprint(o.connections), "--warm", o.warm.String(),
		"--length", o.length.String())
	// Its loader has what this one has; its server is made of processes that do not know the setting.
	cmd.Env = append(os.Environ(), fmt.Sprint("GOMAXPROCS=", o.processors))
	text, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		return r, fmt.Errorf("peer: %w: %s", err, text)
	}
	return r, nil
}

// load runs the workers and returns transactions per second.
func load(o options, n *node.Node, out *report.Report) (float64, error) {
	// Every message comes back as the one that a transaction pushes on, so that the backlog keeps its size.
	if err := fill(n.Addr, o.partitions, o.connections*100*4); err != nil {
		return 0, err
	}
	costs, err := newCosts(n)
	if err != nil {
		return 0, err
	}
	var counting, ended atomic.Bool
	var done, refused atomic.Int64
	latencies := make([]*histo.Histogram, o.connections)
	errs := make([]error, o.connections)
	var running sync.WaitGroup
	for i := range o.connections {
		latencies[i] = &histo.Histogram{}
		w := worker{o: &o, conn: client.New(n.Addr, 60*time.Second), h: latencies[i], counting: &counting, ended: &ended,
			done: &done, refused: &refused, stream: i}
		running.Go(func() { errs[i] = w.run() })
	}
	time.Sleep(o.warm)
	counting.Store(true)
	costs.begin()
	from, start := done.Load(), time.Now()
	time.Sleep(o.length)
	count, took := done.Load()-from, time.Since(start)
	costs.end()
	counting.Store(false)
	ended.Store(true)
	running.Wait()
	all := &histo.Histogram{}
	for i := range errs {
		if errs[i] != nil {
			return 0, errs[i]
		}
		all.Merge(latencies[i])
	}
	rate := float64(count) / took.Seconds()
	out.Add("transactions", rate, "/s")
	out.Add("messages", rate*float64(o.messages), "/s")
	out.Latency("commit", all)
	out.Add("refused", float64(refused.Load()), "")
	costs.report(out, count)
	return rate, nil
}
