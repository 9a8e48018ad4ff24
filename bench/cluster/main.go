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

// endWithin bounds what comes before and behind the load: a run that can not be ended is one that could not be made.
const endWithin = 10 * time.Minute

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
	time.AfterFunc(o.seconds+endWithin, func() {
		report.Fail("cluster", fmt.Errorf("the run did not end within %v behind its load; its directory below %s is kept", endWithin, o.dir))
	})
	r, err := run(ctx, &o)
	if err != nil {
		report.Fail("cluster", err)
	}
	r.Exit(*asJSON)
}

// kinds are the faults by turns.
func (o *options) kinds() []string { return strings.Split(o.faults, ",") }

// run makes a cluster, does with it what the options say, and says what came of it. An error means that it could not be done.
func run(ctx context.Context, o *options) (*report.Report, error) {
	if (o.failovers > 0 || o.transfers > 0) && o.groups > 1 {
		return nil, errors.New("-failovers and -transfers measure one raft group: -groups 1")
	}
	dir, err := report.TempDir(o.dir)
	if err != nil {
		return nil, err
	}
	r := &report.Report{Program: "cluster"}
	kept := o.keep
	defer func() {
		if !kept {
			os.RemoveAll(dir)
		}
	}()
	if o.broken != "" {
		if err := o.breakOnPurpose(dir); err != nil {
			return nil, err
		}
	}
	c, err := nodes.New(nodes.Options{Binary: o.binary, Other: o.other, Dir: dir, Nodes: o.nodes, Groups: o.groups, Tick: o.tick,
		Kafka: o.kafka, Tenants: o.tenants > 1, Kinds: o.kinds(), Lie: o.lie, Args: o.args})
	if err != nil {
		return nil, err
	}
	r.Conditions = fmt.Sprintf("%s, %d nodes, %d raft groups, %d tenants, seed %d", o.faults, o.nodes, o.groups, o.tenants, o.seed)
	switch {
	case o.failovers > 0:
		err = failover(c, o.failovers, r)
	case o.transfers > 0:
		err = transfers(c, o.transfers, r)
	default:
		o.underFaults(ctx, c, dir, r)
	}
	if err := errors.Join(err, c.Stop()); err != nil {
		r.Violate("%v", err)
	}
	if o.broken != "" {
		o.turn(r)
	}
	if kept = kept || len(r.Violations) > 0; kept {
		r.Conditions += ", kept in " + dir
	}
	return r, nil
}

// underFaults loads the nodes while harm is done, and judges.
func (o *options) underFaults(ctx context.Context, c *nodes.Cluster, dir string, r *report.Report) {
	for g := range o.groups {
		c.Leader(g + 1)
	}
	first := c.Terms()
	h := newHistory(*o)
	var did []nodes.Done
	err := o.load(c, h, r, func() (err error) {
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
		if err := dump(filepath.Join(dir, "history.txt"), h); err != nil {
			r.Violate("the history could not be kept: %v", err)
		}
	}
	bit := 0
	for i := range did {
		if did[i].Bit != "" {
			bit++
		}
	}
	r.Add("seed", float64(o.seed), "")
	r.Add("acknowledged", float64(h.acked.Load()), "ops")
	r.Add("faults", float64(len(did)), "")
	r.Add("faults that bit", float64(bit), "")
	now := c.Terms()
	for g := 1; g <= o.groups; g++ {
		r.Add(fmt.Sprintf("new terms of raft group %d", g), float64(now[g]-first[g]), "")
	}
	if n := h.acked.Load(); n < int64(o.least) && o.broken == "" {
		r.Violate("%d operations were acknowledged, and %d have to be (-least)", n, o.least)
	}
	if bit == 0 && o.faults != "none" && o.broken == "" {
		r.Violate("no fault bit")
	}
}

// harm does the faults for as long as the load lasts, or each once.
func (o *options) harm(ctx context.Context, c *nodes.Cluster) ([]nodes.Done, error) {
	if !o.each {
		ctx, cancel := context.WithTimeout(ctx, o.seconds)
		defer cancel()
		return c.Plague(ctx, o.kinds(), o.every, o.lasts, o.seed, os.Stderr)
	}
	rng := rand.New(rand.NewPCG(o.seed, 99))
	var did []nodes.Done
	for _, kind := range o.kinds() {
		time.Sleep(o.every)
		d, err := c.Harm(kind, rng, o.lasts)
		fmt.Fprintln(os.Stderr, d.String())
		did = append(did, d)
		if err != nil || ctx.Err() != nil {
			return did, err
		}
	}
	return did, nil
}
