package main

import (
	"context"

	"github.com/spf13/cobra"

	"queen/engine/format"
	"queen/replication"
	"queen/tools/cli"
)

func (f *clusterFlags) drainCommand(s cli.Streams) *cobra.Command {
	var undo, leads bool
	cmd := f.change(s, clusterChange{use: "drain NODE", short: "Have a node drain, as before it is stopped",
		long: `Have a node drain: it goes on serving what reaches it, its /readyz answers 503, so that whoever balances calls sends it none, and it
leads only while no other voter can. The cluster remembers that, over restarts too, until --undo. The last voter that does not drain
is refused. Exits 5 when it is done and the node leads on, since no other voter is up to date; it gives the lead away once one is.`,
		undo: &undo,
		do: func(c *replication.Client, ctx context.Context, node format.Replica) (err error) {
			leads, err = c.Drain(ctx, node, !undo)
			return err
		}})
	change := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := change(cmd, args); err != nil || undo || !leads {
			return err
		}
		return cli.Errorf(cli.Findings, "node %s drains and leads on: no voter that does not drain is up to date", args[0])
	}
	return cmd
}
