package main

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"queen/bench/internal/node"
	"queen/bench/internal/report"
)

// options of a run.
type options struct {
	binary, dir, faults                  string
	nodes, partitions, consumers, keyers int
	seconds, every, lasts                time.Duration
	failovers                            int
	seed                                 uint64
	tick                                 time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.binary, "binary", "", "node to run; empty builds it")
	flag.StringVar(&o.dir, "data", "bench/out", "directory below which the data directories are made")
	flag.StringVar(&o.faults, "faults", "kill", "what is done, one after the other, + joins what is done together: "+strings.Join(names(), ", "))
	flag.IntVar(&o.nodes, "nodes", 3, "nodes")
	flag.IntVar(&o.partitions, "partitions", 8, "partitions, each with its producer")
	flag.IntVar(&o.consumers, "consumers", 6, "consumers of the group")
	flag.IntVar(&o.keyers, "keyers", 4, "clients of the keys")
	flag.DurationVar(&o.seconds, "time", time.Minute, "how long the load lasts")
	flag.DurationVar(&o.every, "every", 6*time.Second, "pause between two faults")
	flag.DurationVar(&o.lasts, "lasts", 3*time.Second, "how long a fault lasts")
	flag.DurationVar(&o.tick, "tick", 50*time.Millisecond, "the nodes' --peer-tick")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "seed of clients and faults")
	flag.IntVar(&o.failovers, "failovers", 0, "measure so many failovers instead")
	asJSON := flag.Bool("json", false, "print one JSON object")
	flag.Parse()
	r, err := run(o)
	if err != nil {
		report.Fail("cluster", err)
	}
	r.Exit(*asJSON)
}

func run(o options) (*report.Report, error) {
	for _, f := range strings.FieldsFunc(o.faults, func(r rune) bool { return r == ',' || r == '+' }) {
		if faults[f] == nil {
			return nil, fmt.Errorf("there is no fault %q: %s", f, strings.Join(names(), ", "))
		}
	}
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
	c, err := newCluster(o.binary, dir, o.nodes, o.tick)
	if err != nil {
		return nil, err
	}
	r := &report.Report{Program: "cluster"}
	if o.failovers > 0 {
		if err := failover(c, o.failovers, r); err != nil {
			return nil, err
		}
		return r, c.stop()
	}
	h := &history{begin: time.Now(), pushed: make([][]pushRecord, o.partitions)}
	_, first := c.role(max(c.leader(), 0))
	if err := o.load(c, h, r); err != nil {
		return nil, err
	}
	c.leader()
	judge(c, h, r)
	r.Add("seed", float64(o.seed), "")
	r.Add("acknowledged", float64(h.acked.Load()), "ops")
	r.Add("deliveries", float64(len(h.deliveries)), "")
	r.Add("key operations", float64(len(h.keys)), "")
	r.Add("terms", float64(c.terms.Load()-first), "")
	if err := c.stop(); err != nil {
		r.Violate("%v", err)
	}
	return r, nil
}

// load runs the clients while faults are done, and then until everything is consumed.
func (o *options) load(c *cluster, h *history, r *report.Report) error {
	var stop, drained atomic.Bool
	var makers, takers sync.WaitGroup
	number := 0
	start := func(wg *sync.WaitGroup, f func(*client)) {
		k := newClient(c, h, o.seed, number)
		number++
		wg.Add(1)
		go func() {
			defer wg.Done()
			f(k)
		}()
	}
	for p := range o.partitions {
		start(&makers, func(k *client) { k.produce(p, &stop) })
	}
	for i := range o.keyers {
		start(&makers, func(k *client) { k.key(i, &stop) })
	}
	for range o.consumers {
		start(&takers, func(k *client) { k.consume(&drained) })
	}
	err := o.harm(c, r)
	c.heal()
	stop.Store(true)
	makers.Wait()
	drained.Store(true)
	done := make(chan struct{})
	go func() { takers.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		r.Violate("not everything was consumed within two minutes")
	}
	return err
}

// harm does the faults, over and over, for as long as the load lasts.
func (o *options) harm(c *cluster, r *report.Report) error {
	rng := rand.New(rand.NewPCG(o.seed, 99))
	kinds := strings.Split(o.faults, ",")
	end := time.Now().Add(o.seconds)
	done := 0
	defer func() { r.Add("faults", float64(done), "") }()
	for i := 0; time.Now().Before(end); i++ {
		time.Sleep(o.every)
		var wg sync.WaitGroup
		together := strings.Split(kinds[i%len(kinds)], "+")
		errs := make([]error, len(together))
		for k, name := range together {
			own := rand.New(rand.NewPCG(rng.Uint64(), uint64(k)))
			wg.Add(1)
			go func() {
				defer wg.Done()
				what, err := faults[name](c, own, o.lasts)
				errs[k] = err
				fmt.Fprintf(os.Stderr, "%s: %s\n", name, what)
			}()
		}
		wg.Wait()
		done++
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return nil
}
