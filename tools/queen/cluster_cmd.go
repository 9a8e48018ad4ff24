package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/format"
	"queen/engine/vfs"
	"queen/replication"
	"queen/tools/cli"
	"queen/tools/config"
	"queen/tools/ops"
)

// clusterFlags say which nodes to ask, and how.
type clusterFlags struct {
	peers   string
	files   config.Cluster
	timeout time.Duration
}

func clusterCommand(s cli.Streams) *cobra.Command {
	f := &clusterFlags{}
	cmd := &cobra.Command{
		Use: "cluster", Short: "Look at a cluster and change it",
		Long: `Look at a cluster and change it, by way of the port above the nodes' raft port: with the certificates of --peer-ca,
--peer-cert and --peer-key where nodes authenticate each other, else from a machine that reaches them.

A new node is added, started with --peer-join, and made to vote when it has caught up. A number is used once: a node
that lost its disk is removed and comes back under another one.`,
	}
	p := cmd.PersistentFlags()
	p.StringVar(&f.peers, "peers", "", "nodes to ask: 1=HOST:PORT,2=... with their raft addresses")
	p.StringVar(&f.files.CA, "peer-ca", "", "PEM file of the authorities that nodes' certificates come from")
	p.StringVar(&f.files.Cert, "peer-cert", "", "PEM file of the certificate to show")
	p.StringVar(&f.files.Key, "peer-key", "", "PEM file of its private key")
	p.DurationVar(&f.timeout, "timeout", 10*time.Second, "how long to wait for an answer, or for what wait waits for")
	status := &cobra.Command{Use: "status", Short: "What every node says of itself", Args: cobra.NoArgs,
		Long: "What every node says of itself, in each raft group. Exits 5 when a node does not answer, is not up to date, or nobody leads one of them."}
	cmd.AddCommand(bootstrapCommand(), f.waitCommand(), ops.MembersCommand(s),
		cli.Command(s, status, "json", nodeColumns, func(inv *cli.Invocation, out *cli.Printer[nodeRow], _ []string) error {
			return f.status(inv, out)
		}), f.upgradeCommand(s),
		f.transferCommand(s),
		f.drainCommand(s),
		f.change(s, clusterChange{use: "add NODE HOST:PORT", short: "Add a node that follows; start it with --peer-join",
			long: "Add a node that follows, with its raft address. Its number must be a new one. Start it with --peer-join afterwards.",
			add:  true}),
		f.change(s, clusterChange{use: "promote NODE", short: "Make a node that follows vote",
			long: "Make a node that follows vote. One that is far behind is refused: until it had caught up, it would be missing from majorities.",
			do:   (*replication.Client).Promote}),
		f.change(s, clusterChange{use: "remove NODE", short: "Take a node out of the cluster, for good",
			long:  "Take a node out of the cluster, for good: its number can not be used again. One that leads is refused. Asks for the number.",
			final: true, do: (*replication.Client).Remove}))
	return cmd
}

// bootstrapCommand works on a directory, not on a node.
func bootstrapCommand() *cobra.Command {
	var data, addr string
	cmd := &cobra.Command{Use: "bootstrap", Short: "Make a stopped single node the first node of a cluster", Args: cobra.NoArgs,
		Long: `Make the data directory of a single node, which must be stopped, that of node 1 of a cluster. It is started with
--node-id 1 and --peers from then on, never as a single node again; other nodes are added to it.`,
		RunE: func(*cobra.Command, []string) error {
			if data == "" || addr == "" {
				return cli.Errorf(cli.Usage, "--data and --peer-addr are needed")
			}
			err := replication.Bootstrap(engine.Config{FS: vfs.NewOS(vfs.OSOptions{}), Clock: clock.Real(), Rand: clock.RealRand(), Dir: data}, addr)
			if err != nil {
				return cli.Errorf(cli.Usage, "%w", err)
			}
			return nil
		}}
	cmd.Flags().StringVar(&data, "data", "", "data directory of the single node")
	cmd.Flags().StringVar(&addr, "peer-addr", "", "raft address under which other nodes will reach it, HOST:PORT")
	return cmd
}

// client asks the nodes that the flags name.
func (f *clusterFlags) client() (*replication.Client, error) {
	if f.peers == "" {
		return nil, cli.Errorf(cli.Usage, "--peers: name the nodes to ask: 1=HOST:PORT,2=...")
	}
	peers, err := replication.ParsePeers(f.peers)
	if err != nil {
		return nil, cli.Errorf(cli.Usage, "--peers: %w", err)
	}
	c := &replication.Client{Peers: peers}
	files, err := openPeerCerts(&f.files, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, cli.Errorf(cli.Usage, "%w", err)
	}
	c.TLS = peerTLS(files)
	return c, nil
}

// clusterChange is a command that asks who leads for one thing about one node.
type clusterChange struct {
	use, short, long string
	// add: an address follows the number. final: it can not be taken back, so it asks.
	add, final bool
	// undo, when it is set, is where --undo is kept: the command then ends what it began.
	undo *bool
	// group, when it is set, is where the raft group is kept that it is about, 0 for all.
	group *uint8
	// again, when it is set, tells what is asked for again while there is time, of who leads then; so it has to bear being done twice.
	again func(error) bool
	do    func(*replication.Client, context.Context, format.Replica) error
}

// changedRow is what such a command did.
type changedRow struct {
	Op      string `json:"op"`
	Node    uint64 `json:"node"`
	Group   uint64 `json:"group,omitempty"`
	Address string `json:"address,omitempty"`
	// AskedOf is the node that led.
	AskedOf uint64 `json:"askedOf"`
	Done    bool   `json:"done"`
	DryRun  bool   `json:"dryRun,omitempty"`
}

var changedColumns = []cli.Column[changedRow]{
	{Head: "op", Cell: func(r changedRow) string { return r.Op }},
	{Head: "node", Cell: func(r changedRow) string { return fmt.Sprint(r.Node) }, Key: true},
	{Head: "address", Cell: func(r changedRow) string { return r.Address }},
	{Head: "asked of", Cell: func(r changedRow) string { return fmt.Sprint(r.AskedOf) }, Help: "the node that led"},
	{Head: "done", Cell: func(r changedRow) string { return fmt.Sprint(r.Done) }},
}

func (f *clusterFlags) change(s cli.Streams, k clusterChange) *cobra.Command {
	cmd := &cobra.Command{Use: k.use, Short: k.short, Long: k.long, Args: cobra.ExactArgs(1)}
	if k.add {
		cmd.Args = cobra.ExactArgs(2)
	}
	var w cli.Write
	w.DryRunFlag(cmd)
	if k.final {
		w.YesFlag(cmd)
	}
	if k.undo != nil {
		cmd.Flags().BoolVar(k.undo, "undo", false, "end it")
	}
	return cli.Command(s, cmd, "json", changedColumns, func(inv *cli.Invocation, out *cli.Printer[changedRow], args []string) error {
		node, err := strconv.ParseUint(args[0], 10, 32)
		if err != nil || node == 0 {
			return cli.Errorf(cli.Usage, "NODE: want a number above 0, not %q", args[0])
		}
		row := changedRow{Op: cmd.Name(), Node: node, DryRun: w.DryRun}
		if k.undo != nil && *k.undo {
			row.Op = "un" + row.Op
		}
		if k.add {
			row.Address = args[1]
			k.do = func(c *replication.Client, ctx context.Context, n format.Replica) error {
				return c.Add(ctx, n, args[1])
			}
		}
		return f.carryOut(inv, out, &k, row, w)
	})
}

// carryOut finds who leads and asks it.
func (f *clusterFlags) carryOut(inv *cli.Invocation, out *cli.Printer[changedRow], k *clusterChange, row changedRow, w cli.Write) error {
	c, err := f.client()
	if err != nil {
		return err
	}
	if k.group != nil {
		row.Group = uint64(*k.group)
	}
	leader, err := f.leader(inv.Ctx, c, format.RaftGroup(row.Group))
	if err != nil {
		return err
	}
	row.AskedOf = uint64(leader)
	if w.DryRun {
		return out.One(row)
	}
	if k.final {
		plan := fmt.Sprintf("This takes node %d out of the cluster, for good.", row.Node)
		if err := inv.Confirm(plan, fmt.Sprint(row.Node), w); err != nil {
			return err
		}
	}
	if row.AskedOf, err = f.ask(inv.Ctx, c, k, &row); err != nil {
		return changeError(err)
	}
	row.Done = true
	return out.One(row)
}

// ask asks who leads, once or for as long as it may help, and returns who that was.
func (f *clusterFlags) ask(ctx context.Context, c *replication.Client, k *clusterChange, row *changedRow) (asked uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	for leader := format.Replica(row.AskedOf); ; {
		one := &replication.Client{Peers: map[format.Replica]string{leader: c.Peers[leader]}, TLS: c.TLS}
		if err = k.do(one, ctx, format.Replica(row.Node)); err == nil || k.again == nil || !k.again(err) || !rest(ctx) {
			return uint64(leader), err
		}
		if now, nobody := f.leader(ctx, c, format.RaftGroup(row.Group)); nobody == nil {
			leader = now
		}
		if ctx.Err() != nil {
			return uint64(leader), err
		}
	}
}

// rest waits a little; false when ctx has ended.
func rest(ctx context.Context) bool {
	t := time.NewTimer(waitEvery)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// leader finds who leads a raft group among the nodes that were named; 0 is the first one, whose leader is asked about all.
func (f *clusterFlags) leader(ctx context.Context, c *replication.Client, g format.RaftGroup) (format.Replica, error) {
	within, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	answers, groups := c.Status(within), format.RaftGroup(1)
	for i := range answers {
		groups = max(groups, answers[i].Group)
	}
	g = max(g, 1)
	var silent []error
	for i := range answers {
		switch a := &answers[i]; {
		case a.Group != min(g, groups):
		case a.Err != nil:
			silent = append(silent, fmt.Errorf("node %d: %w", a.Node, a.Err))
		case a.Group == g && a.Report.Flags&replication.ReportLeads != 0:
			return a.Node, nil
		}
	}
	switch {
	case ctx.Err() != nil:
		return 0, cli.Exit(cli.Interrupted)
	case g > groups && len(silent) == 0:
		return 0, cli.Errorf(cli.Usage, "--group %d: the cluster has %d raft groups", g, groups)
	}
	return 0, cli.Errorf(cli.Server, "%w", errors.Join(append(silent, errors.New("none of the nodes asked leads"))...))
}

// changeError gives what kept a change its exit code: a node that could not be reached did nothing, one whose answer was lost
// may have done it, and one that answered refused.
func changeError(err error) error {
	var op *net.OpError
	var network net.Error
	switch {
	case errors.As(err, &op) && op.Op == "dial":
		return cli.Errorf(cli.Server, "%w", err)
	case errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return cli.Errorf(cli.OutcomeUnknown, "the answer was lost, it may have been done: %w", err)
	}
	if replication.MayBeDone(err) {
		return cli.Errorf(cli.OutcomeUnknown, "the node that leads does not know what came of it: %w", err)
	}
	if replication.Again(err) {
		return cli.Errorf(cli.Server, "the node that leads could not do it: %w", err)
	}
	return cli.Errorf(cli.Usage, "the node that leads refuses: %w", err)
}

func (f *clusterFlags) status(inv *cli.Invocation, out *cli.Printer[nodeRow]) error {
	rows, fine, err := f.nodes(inv.Ctx)
	if err != nil {
		return err
	}
	if inv.Ctx.Err() != nil {
		return cli.Exit(cli.Interrupted)
	}
	if err := out.AddAll(rows); err != nil || fine {
		return err
	}
	return cli.Exit(cli.Findings)
}
