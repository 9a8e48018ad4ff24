package mcp

import (
	"context"
	"net/http"
	"net/url"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"queen/tools/cli"
)

// defaultURL is where the MCP server of a node is unless it is told otherwise.
const defaultURL = "http://127.0.0.1:6633/mcp"

// Offline answers a client on standard input and output from the directory of a stopped node.
type Offline func(ctx context.Context, s cli.Streams, dir string) error

// Command is "queen mcp".
func Command(s cli.Streams, offline Offline) *cobra.Command {
	cmd := &cobra.Command{Use: "mcp", Short: "Connect coding agents"}
	cmd.AddCommand(stdioCommand(s, offline), toolsCommand(s), callCommand(s), installCommand(s))
	return cmd
}

// endpoint are the flags that say which node.
type endpoint struct{ url, token string }

func (e *endpoint) flags(s cli.Streams, cmd *cobra.Command) {
	node := s.Getenv("QUEEN_MCP_URL")
	if node == "" {
		node = defaultURL
	}
	e.token = s.Getenv("QUEEN_TOKEN")
	cmd.Flags().StringVar(&e.url, "url", node, "address of the node's MCP server; also QUEEN_MCP_URL")
}

func (e *endpoint) check() error {
	if u, err := url.Parse(e.url); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return cli.Errorf(cli.Usage, "--url %s: want http://HOST:PORT/mcp", e.url)
	}
	return nil
}

// client sends the token of the environment with every request.
func (e *endpoint) client() *http.Client {
	return &http.Client{Transport: &credentials{token: e.token}}
}

type credentials struct{ token string }

func (c *credentials) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// interrupted is a context that a signal ends.
func interrupted() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
}

func stdioCommand(s cli.Streams, offline Offline) *cobra.Command {
	var e endpoint
	var off bool
	var dir string
	cmd := &cobra.Command{
		Use: "stdio", Short: "Speak MCP on standard input and output", Args: cobra.NoArgs,
		Long: `Passes what a client says on standard input to the MCP server of a node, and its answers back. The token comes from
QUEEN_TOKEN. With --offline, answers come from the directory of a stopped node, by reading tools only; nothing in it is
changed.`,
	}
	e.flags(s, cmd)
	cmd.Flags().BoolVar(&off, "offline", false, "answer from a directory instead of a node")
	cmd.Flags().StringVar(&dir, "data", "", "with --offline: the data directory of a stopped node")
	cmd.RunE = func(*cobra.Command, []string) error {
		ctx, stop := interrupted()
		defer stop()
		switch {
		case off && dir == "":
			return cli.Errorf(cli.Usage, "--offline needs --data DIR")
		case off:
			return offline(ctx, s, dir)
		case dir != "":
			return cli.Errorf(cli.Usage, "--data is for --offline")
		}
		if err := e.check(); err != nil {
			return err
		}
		return bridge(ctx, &e, s)
	}
	return cmd
}
