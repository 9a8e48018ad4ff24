package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
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
)

// clusterFlags say which nodes to ask, and how.
type clusterFlags struct {
	peers, output string
	files         config.Cluster
	timeout       time.Duration
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
	p.DurationVar(&f.timeout, "timeout", 10*time.Second, "how long to wait for an answer")
	status := &cobra.Command{Use: "status", Short: "What every node says of itself", Args: cobra.NoArgs,
		Long: "What every node says of itself. Exits 5 when a node does not answer, is not up to date, or nobody leads.",
		RunE: func(*cobra.Command, []string) error { return f.status(s) }}
	status.Flags().StringVarP(&f.output, "output", "o", "", "table, json, ndjson or yaml")
	cmd.AddCommand(status, bootstrapCommand(),
		&cobra.Command{Use: "wait", Short: "Wait until every node is up to date and one leads", Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error { return f.wait() }},
		f.change("transfer-leader NODE", "Make a node lead", 1,
			func(ctx context.Context, c *replication.Client, node format.Replica, _ []string) error {
				return c.Transfer(ctx, node)
			}),
		f.change("add NODE HOST:PORT", "Add a node that follows; start it with --peer-join", 2,
			func(ctx context.Context, c *replication.Client, node format.Replica, args []string) error {
				return c.Add(ctx, node, args[1])
			}),
		f.change("promote NODE", "Make a node that follows vote", 1,
			func(ctx context.Context, c *replication.Client, node format.Replica, _ []string) error {
				return c.Promote(ctx, node)
			}),
		f.change("remove NODE", "Take a node out of the cluster, for good", 1,
			func(ctx context.Context, c *replication.Client, node format.Replica, _ []string) error {
				return c.Remove(ctx, node)
			}))
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
	if f.files.CA != "" {
		if c.TLS, err = peerTLS(&f.files); err != nil {
			return nil, cli.Errorf(cli.Usage, "%w", err)
		}
	}
	return c, nil
}

// change is a command that asks the leader for one thing about one node.
func (f *clusterFlags) change(use, short string, args int,
	do func(context.Context, *replication.Client, format.Replica, []string) error,
) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: cobra.ExactArgs(args), RunE: func(_ *cobra.Command, args []string) error {
		node, err := strconv.ParseUint(args[0], 10, 32)
		if err != nil || node == 0 {
			return cli.Errorf(cli.Usage, "NODE: want a number above 0, not %q", args[0])
		}
		c, err := f.client()
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), f.timeout)
		defer cancel()
		if err := do(ctx, c, format.Replica(node), args); err != nil {
			return cli.Errorf(cli.Server, "%w", err)
		}
		return nil
	}}
}

// nodeRow is one node's line.
type nodeRow struct {
	Node     uint64 `json:"node"`
	Address  string `json:"address"`
	Role     string `json:"role"`
	Leader   uint64 `json:"leader,omitempty"`
	Term     uint64 `json:"term,omitempty"`
	Applied  uint64 `json:"applied,omitempty"`
	Behind   uint64 `json:"behind"`
	Mark     uint64 `json:"mark,omitempty"`
	UpToDate bool   `json:"upToDate"`
	Error    string `json:"error,omitempty"`
}

var nodeColumns = []cli.Column[nodeRow]{
	{Head: "NODE", Cell: func(r nodeRow) string { return fmt.Sprint(r.Node) }},
	{Head: "ADDRESS", Cell: func(r nodeRow) string { return r.Address }},
	{Head: "ROLE", Cell: func(r nodeRow) string { return r.Role }},
	{Head: "TERM", Cell: func(r nodeRow) string { return fmt.Sprint(r.Term) }},
	{Head: "APPLIED", Cell: func(r nodeRow) string { return fmt.Sprint(r.Applied) }},
	{Head: "BEHIND", Cell: func(r nodeRow) string { return fmt.Sprint(r.Behind) }},
	{Head: "UP TO DATE", Cell: func(r nodeRow) string { return fmt.Sprint(r.UpToDate) }},
	{Head: "ERROR", Cell: func(r nodeRow) string { return r.Error }},
}

// nodes asks all and says whether all is well.
func (f *clusterFlags) nodes() (rows []nodeRow, fine bool, err error) {
	c, err := f.client()
	if err != nil {
		return nil, false, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), f.timeout)
	defer cancel()
	answers := c.Status(ctx)
	newest, leaders := uint64(0), 0
	for _, a := range answers {
		newest = max(newest, a.Report.Applied)
	}
	fine = true
	for _, node := range slices.Sorted(maps.Keys(answers)) {
		a := answers[node]
		r := nodeRow{Node: uint64(node), Address: c.Peers[node]}
		if a.Err != nil {
			r.Role, r.Error, fine = "unknown", a.Err.Error(), false
		} else {
			v := &a.Report
			r.Role, r.Leader, r.Term, r.Applied, r.Mark = "follower", v.Leader, v.Epoch, v.Applied, v.Mark
			r.Behind, r.UpToDate = newest-v.Applied, v.Flags&replication.ReportSure != 0
			switch {
			case v.Flags&replication.ReportLeads != 0:
				r.Role, leaders = "leader", leaders+1
			case v.Leader == 0:
				r.Role = "candidate"
			}
			fine = fine && r.UpToDate
		}
		rows = append(rows, r)
	}
	return rows, fine && leaders == 1, nil
}

func (f *clusterFlags) status(s cli.Streams) error {
	form, err := cli.CheckFormat(f.output, "json", s.Out)
	if err != nil {
		return err
	}
	rows, fine, err := f.nodes()
	if err != nil {
		return err
	}
	p := cli.NewPrinter(s.Out, form, nodeColumns)
	for _, r := range rows {
		if err := p.Add(r); err != nil {
			return err
		}
	}
	if err := p.Close(); err != nil || fine {
		return err
	}
	return &cli.Error{Code: cli.Findings}
}

func (f *clusterFlags) wait() error {
	for end := time.Now().Add(f.timeout); ; {
		_, fine, err := f.nodes()
		if err != nil || fine {
			return err
		}
		if time.Now().After(end) {
			return cli.Errorf(cli.Findings, "not every node is up to date after %v", f.timeout)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
