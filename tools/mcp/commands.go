package mcp

import (
	"context"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"queen/tools/cli"
)

// Offline answers a client on standard input and output from the directory of a stopped node. file has the node's settings; "" is none.
type Offline func(ctx context.Context, s cli.Streams, dir, file string) error

// Command is "queen mcp".
func Command(s cli.Streams, offline Offline) *cobra.Command {
	cmd := &cobra.Command{Use: "mcp", Short: "Connect coding agents"}
	cmd.AddCommand(stdioCommand(s, offline), toolsCommand(s), callCommand(s), installCommand(s))
	return cmd
}

// interrupted is a context that a signal ends.
func interrupted() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
}

func stdioCommand(s cli.Streams, offline Offline) *cobra.Command {
	var e endpoint
	var off bool
	var dir, file string
	cmd := &cobra.Command{
		Use: "stdio", Short: "Speak MCP on standard input and output", Args: cobra.NoArgs,
		Long: `Passes what a client says on standard input to the MCP server of a node, and its answers back:

  queen mcp stdio --context prod

The token comes from the context, or from QUEEN_TOKEN. With --offline, answers come from the directory of a stopped node, by
reading tools only; nothing in it is changed. They leave out what mcp.mask of the node's settings hides: name their file with
--config, or set QUEEN_MCP_MASK.`,
	}
	e.flags(s, cmd)
	cmd.Flags().BoolVar(&off, "offline", false, "answer from a directory instead of a node")
	cmd.Flags().StringVar(&dir, "data", "", "with --offline: the data directory of a stopped node")
	cmd.Flags().StringVar(&file, "config", "", "with --offline: the node's settings, of which mcp.mask counts")
	cmd.RunE = func(*cobra.Command, []string) error {
		ctx, stop := interrupted()
		defer stop()
		switch {
		case off && (e.url != "" || e.context != ""):
			return cli.Errorf(cli.Usage, "--offline asks no node: --url and --context are for one")
		case off && dir == "":
			return cli.Errorf(cli.Usage, "--offline needs --data DIR")
		case off:
			return offline(ctx, s, dir, file)
		case dir != "":
			return cli.Errorf(cli.Usage, "--data is for --offline")
		case file != "":
			return cli.Errorf(cli.Usage, "--config is for --offline")
		}
		if err := e.connectAs(ctx, s); err != nil {
			return err
		}
		return bridge(ctx, &e, s)
	}
	return cmd
}
