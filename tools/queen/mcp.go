package main

import (
	"context"
	"io"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	frontendmcp "queen/frontend-mcp"
	"queen/tools/cli"
	"queen/tools/config"
	"queen/tools/mcp"
	"queen/tools/offline"
)

func mcpCommand(s cli.Streams) *cobra.Command { return mcp.Command(s, serveOffline) }

// offlineToolsets are those that a directory can answer.
var offlineToolsets = []string{"cluster", "queues", "messages", "groups", "dlq", "state", "storage", "docs"}

// serveOffline answers an MCP client on standard input and output from the directory of a stopped node, by reading tools. What mcp.mask
// of the node's file, or of the environment, hides is hidden here too.
func serveOffline(ctx context.Context, s cli.Streams, dir, file string) error {
	setting, err := config.Masks(file, s.Env)
	if err != nil {
		return cli.Errorf(cli.Usage, "%w", err)
	}
	masks, err := masksOf(setting)
	if err != nil {
		return cli.Errorf(cli.Usage, "%w", err)
	}
	log := newLogger(s, &config.Config{LogFormat: "text"}, 8) // errors only: the client reads standard output, people this
	d, err := offline.Open(dir, log, fatal(log))
	if err != nil {
		return cli.Errorf(cli.Usage, "%w", err)
	}
	defer func() {
		end, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = d.Close(end) // everything it would save is thrown away
	}()
	o := mcpOptions(&config.Config{}, d.Clock)
	o.Engine, o.Mode, o.Node, o.Toolsets, o.Masks = d.Engine, frontendmcp.ModeRead, "offline", offlineToolsets, masks
	f, err := frontendmcp.New(o)
	if err != nil {
		return err
	}
	err = f.ServerFor(frontendmcp.Identity{}).Run(ctx, &sdk.IOTransport{Reader: io.NopCloser(s.In), Writer: keepOpen{s.Out}})
	if ctx.Err() != nil {
		return cli.Exit(cli.Interrupted)
	}
	return err
}

type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }
