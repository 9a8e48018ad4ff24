package mcp

import (
	"context"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"queen/tools/cli"
	"queen/tools/remote"
)

// defaultURL is where the MCP server of a node is unless it is told otherwise.
const defaultURL = "http://127.0.0.1:6633/mcp"

// endpoint is the MCP server that the flags, the environment and the contexts come to.
type endpoint struct {
	url, context string
	// ca is a PEM file of authorities; tokenFrom is where the token is, "" for QUEEN_TOKEN.
	ca, tokenFrom string
	token         string
	transport     http.RoundTripper // nil is the usual one
}

func (e *endpoint) flags(s cli.Streams, cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&e.url, "url", "", "address of the node's MCP server; also QUEEN_MCP_URL; default: that of the context, else "+defaultURL)
	f.StringVar(&e.context, "context", "", "a context of the user's file; also QUEEN_CONTEXT; default: its current one")
	_ = cmd.RegisterFlagCompletionFunc("context", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return remote.ContextNames(s), cobra.ShellCompDirectiveNoFileComp
	})
}

// resolve finds the server without calling anybody, by the rules of the other commands (remote.Connection): a context named by
// flag wins over the environment, and what it holds beside its address is used with that address only.
func (e *endpoint) resolve(s cli.Streams) error {
	named := e.context
	if named == "" {
		named = s.Getenv("QUEEN_CONTEXT")
	}
	if e.url == "" && e.context == "" {
		e.url = s.Getenv("QUEEN_MCP_URL")
	}
	if e.url == "" || named != "" { // else no file can matter
		file, err := remote.LoadContexts(s)
		if err != nil {
			return err
		}
		c, err := file.Get(named)
		if err != nil {
			return err
		}
		if c != nil && (e.url == "" || e.url == c.MCPURL()) {
			e.url, e.ca = c.MCPURL(), c.CA
			if e.context != "" || s.Getenv("QUEEN_TOKEN") == "" {
				e.tokenFrom = c.Token
			}
		}
	}
	if e.url == "" {
		e.url = defaultURL
	}
	if e.ca == "" {
		e.ca = s.Getenv("QUEEN_CA")
	}
	if u, err := url.Parse(e.url); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return cli.Errorf(cli.Usage, "--url %s: want http://HOST:PORT/mcp", e.url)
	}
	return nil
}

// connectAs resolves and reads what a connection needs: the token and the authorities.
func (e *endpoint) connectAs(ctx context.Context, s cli.Streams) (err error) {
	if err = e.resolve(s); err != nil {
		return err
	}
	if e.transport, err = remote.Transport(e.ca); err != nil {
		return err
	}
	if e.token = s.Getenv("QUEEN_TOKEN"); e.tokenFrom != "" {
		e.token, err = remote.ReadToken(ctx, s, e.tokenFrom)
	}
	return err
}

// client sends the token with every request.
func (e *endpoint) client() *http.Client {
	t := e.transport
	if t == nil {
		t = http.DefaultTransport
	}
	return &http.Client{Transport: &credentials{token: e.token, next: t}}
}

type credentials struct {
	token string
	next  http.RoundTripper
}

func (c *credentials) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	return c.next.RoundTrip(r)
}
