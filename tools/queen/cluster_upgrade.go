package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"queen/tools/cli"
)

var upgradeColumns = []cli.Column[nodeRow]{
	{Head: "node", Cell: func(r nodeRow) string { return fmt.Sprint(r.Node) }, Key: true},
	{Head: "version", Cell: func(r nodeRow) string { return r.Version }},
	{Head: "role", Cell: func(r nodeRow) string { return r.Role }, Help: "leader of a raft group, or of none"},
	{Head: "up to date", Cell: func(r nodeRow) string { return fmt.Sprint(r.UpToDate) },
		Help: "it had applied what was confirmed when it was asked: the next one can be stopped"},
	{Head: "error", Cell: func(r nodeRow) string { return r.Error }},
}

func (f *clusterFlags) upgradeCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "upgrade-status", Short: "Which version every node runs", Args: cobra.NoArgs,
		Long: `Which version every node runs, for an upgrade node by node: the next node may be stopped when all are up to date. Exits 5 while the
nodes that --peers names run different versions, or one does not answer or is not up to date.`}
	return cli.Command(s, cmd, "json", upgradeColumns, func(inv *cli.Invocation, out *cli.Printer[nodeRow], _ []string) error {
		rows, fine, err := f.nodes(inv.Ctx)
		if err != nil {
			return err
		}
		rows = byNode(rows)
		if inv.Ctx.Err() != nil {
			return cli.Exit(cli.Interrupted)
		}
		if err := out.AddAll(rows); err != nil {
			return err
		}
		if !fine || differ(rows) {
			return cli.Exit(cli.Findings)
		}
		return nil
	})
}

// differ tells whether nodes run different versions.
func differ(rows []nodeRow) bool {
	return slices.ContainsFunc(rows, func(r nodeRow) bool { return r.Version != rows[0].Version })
}
