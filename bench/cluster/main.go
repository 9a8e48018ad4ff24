package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"queen/bench/internal/nodes"
	"queen/bench/internal/report"
)

// options of a run.
type options struct {
	loadOptions
	binary, other, dir, faults, broken string
	nodes, groups, tenants             int
	seconds, every, lasts, tick        time.Duration
	each, keep                         bool
	least                              int
	failovers, transfers               int
	seed                               uint64

	lie  bool     // flushes are answered and not done
	args []string // further ones of the nodes

	found []string // what the judges found
}

func main() {
	var o options
	var k campaign
	flag.StringVar(&o.binary, "binary", "", "node to run; empty builds it. The fault clock needs one built with the tag faults")
	flag.StringVar(&o.other, "other", "", "second node to run, which the fault upgrade needs")
	flag.StringVar(&o.dir, "data", "bench/out", "directory below which the data directories are made")
	flag.StringVar(&o.faults, "faults", "kill", "what is done, one after the other, + joins what is done together: "+strings.Join(nodes.Kinds(), ", "))
	flag.StringVar(&o.broken, "broken", "", "break the nodes on purpose, and exit 0 only when the judges find it: "+strings.Join(brokenNames(), ", "))
	flag.IntVar(&o.nodes, "nodes", 3, "nodes")
	flag.IntVar(&o.groups, "groups", 2, "raft groups")
	flag.IntVar(&o.tenants, "tenants", 2, "tenants")
	flag.DurationVar(&o.seconds, "time", time.Minute, "how long the load lasts")
	flag.DurationVar(&o.every, "every", 6*time.Second, "pause between two faults")
	flag.DurationVar(&o.lasts, "lasts", 3*time.Second, "how long a fault lasts")
	flag.BoolVar(&o.each, "each", false, "do each fault once, however long that takes, instead of as many as fit into the time")
	flag.DurationVar(&o.tick, "tick", 50*time.Millisecond, "the nodes' --peer-tick")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "seed of clients and faults")
	flag.IntVar(&o.least, "least", 5000, "operations that have to be acknowledged")
	flag.BoolVar(&o.keep, "keep", false, "keep the directory; that of a run that fails is kept anyway")
	flag.IntVar(&o.failovers, "failovers", 0, "measure so many failovers instead")
	flag.IntVar(&o.transfers, "transfers", 0, "measure so many transfers of the lead instead")
	asJSON := flag.Bool("json", false, "print one JSON object")
	k.flags()
	loadFlags(&o)
	flag.Usage = func() {
		flag.PrintDefaults()
		for _, kind := range nodes.Kinds() {
			fmt.Fprintf(flag.CommandLine.Output(), "fault %-10s %s\n", kind, nodes.About(kind))
		}
	}
	flag.Parse()
	if k.on {
		failed, err := k.run(&o)
		if err != nil {
			report.Fail("cluster", err)
		}
		if failed > 0 {
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program at once, and its nodes with it
	r, err := verdict(ctx, &o)
	if err != nil {
		report.Fail("cluster", err)
	}
	r.Exit(*asJSON)
}

// kinds are the faults by turns.
func (o *options) kinds() []string { return strings.Split(o.faults, ",") }

// run makes a cluster, does with it what the options say, and says what came of it; at is told of who loads it. An error means that it could
// not be done. The directory stays unless all went well.
func run(ctx context.Context, o *options, at *atomic.Pointer[running]) (*report.Report, error) {
	if (o.failovers > 0 || o.transfers > 0) && o.groups > 1 {
		return nil, errors.New("-failovers and -transfers measure one raft group: -groups 1")
	}
	dir, err := report.TempDir(o.dir)
	if err != nil {
		return nil, err
	}
	r := &report.Report{Program: "cluster"}
	if o.broken != "" {
		if err := o.breakOnPurpose(dir); err != nil {
			return nil, fmt.Errorf("%w; what there is of it is in %s", err, dir)
		}
	}
	c, err := nodes.New(nodes.Options{Binary: o.binary, Other: o.other, Dir: dir, Nodes: o.nodes, Groups: o.groups, Tick: o.tick,
		Kafka: o.kafka, Tenants: o.tenants > 1, Kinds: o.kinds(), Lie: o.lie, Args: o.args})
	if err != nil {
		return nil, fmt.Errorf("%w; what there is of it is in %s", err, dir)
	}
	r.Conditions = o.conditions()
	acked := int64(0)
	switch {
	case o.failovers > 0:
		err = failover(c, o.failovers, r)
	case o.transfers > 0:
		err = transfers(c, o.transfers, r)
	default:
		w := newCrew(c, newHistory(*o), o, dir)
		at.Store(&running{c, w})
		o.underFaults(ctx, c, w, r)
		if acked = w.h.acked.Load(); w.stalled || w.h.patience.lost() {
			c.Dump()
		}
	}
	if err := errors.Join(err, c.Stop()); err != nil {
		r.Violate("%v", err)
	}
	if o.broken != "" {
		o.turn(r, acked)
	}
	if !o.keep && len(r.Violations) == 0 {
		_ = os.RemoveAll(dir) // what can not be removed is no finding
		return r, nil
	}
	r.Conditions += ", kept in " + dir
	return r, nil
}

// underFaults loads the nodes while harm is done, and judges.
func (o *options) underFaults(ctx context.Context, c *nodes.Cluster, w *crew, r *report.Report) {
	h := w.h
	for g := range o.groups {
		c.Leader(g + 1)
	}
	first := c.Terms()
	var did []nodes.Done
	err := w.load(r, func() (err error) {
		defer c.Heal()
		did, err = o.harm(ctx, c)
		return err
	})
	if err != nil {
		r.Violate("%v", err)
	}
	for g := range o.groups {
		c.Leader(g + 1)
	}
	before := len(r.Violations)
	judge(c, h, r)
	o.found = r.Violations[before:]
	if len(r.Violations) > 0 {
		if err := dump(filepath.Join(w.dir, "history.txt"), h); err != nil {
			r.Violate("the history could not be kept: %v", err)
		}
	}
	r.Add("seed", float64(o.seed), "")
	r.Add("acknowledged", float64(h.acked.Load()), "ops")
	now := c.Terms()
	for g := 1; g <= o.groups; g++ {
		r.Add(fmt.Sprintf("new terms of raft group %d", g), float64(now[g]-first[g]), "")
	}
	if n := h.acked.Load(); n < int64(o.least) && o.broken == "" {
		r.Violate("%d operations were acknowledged, and %d have to be (-least)", n, o.least)
	}
	o.prove(did, r)
}

// harm does the faults for as long as the load lasts, or each until it bit.
func (o *options) harm(ctx context.Context, c *nodes.Cluster) ([]nodes.Done, error) {
	if !o.each {
		ctx, cancel := context.WithTimeout(ctx, o.seconds)
		defer cancel()
		return c.Plague(ctx, o.kinds(), o.every, o.lasts, o.seed, os.Stderr)
	}
	rng := rand.New(rand.NewPCG(o.seed, 99))
	var did []nodes.Done
	for _, kind := range o.kinds() {
		for tries := 0; tries < eachMost; tries++ {
			time.Sleep(o.every)
			d, err := c.Harm(kind, rng, o.lasts)
			fmt.Fprintln(os.Stderr, d.String())
			did = append(did, d)
			if err != nil || ctx.Err() != nil {
				return did, err
			}
			if proved(&d) {
				break
			}
		}
	}
	return did, nil
}

// eachMost is how often a fault is done that is to be done once, if nothing shows that it bit: there may have been nobody to strike.
const eachMost = 3
