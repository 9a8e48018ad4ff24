package main

import (
	"context"

	"github.com/spf13/cobra"

	"queen/engine/format"
	"queen/replication"
	"queen/tools/cli"
)

func (f *clusterFlags) transferCommand(s cli.Streams) *cobra.Command {
	var group uint8
	cmd := f.change(s, clusterChange{use: "transfer-leader NODE", short: "Make a node lead", group: &group,
		long: `Make a node lead that votes: all raft groups of the cluster, or one. Exits 0 when it leads. What may be otherwise a moment later, as a node
that has not caught up or is slow, is tried again until --timeout; a node that does not answer, or does not vote, is refused at once. Nodes
that spread the lead of raft groups (peer.spread) leave it there until a node has gone or come.`,
		again: replication.Again,
		do: func(c *replication.Client, ctx context.Context, node format.Replica) error {
			return c.Transfer(ctx, node, format.RaftGroup(group))
		}})
	cmd.Flags().Uint8Var(&group, "group", 0, "raft group to lead, from 1; 0 is all")
	return cmd
}
