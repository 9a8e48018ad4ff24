package mcp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"queen/tools/cli"
)

// withContexts writes a file of contexts and returns the environment in which it is the user's.
func withContexts(t *testing.T, yaml string) []string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "queen"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "queen", "config.yaml"), []byte(yaml), 0o600))
	return []string{"HOME=" + dir, "XDG_CONFIG_HOME=" + dir}
}

// TestResolve: flags win over the environment and that over the contexts, and what a context holds is for its address only.
func TestResolve(t *testing.T) {
	env := withContexts(t, `
current: here
contexts:
- {name: here, url: "http://127.0.0.1:1", token: "env:HERE"}
- {name: prod, url: "https://queen.example:6632", token: "env:PROD", ca: prod.pem}
- {name: six, url: "http://[::1]:6632"}
- {name: apart, url: "http://n:1", mcp: "https://agents.example/mcp", token: "env:APART"}
`)
	for name, c := range map[string]struct {
		url, context, env  string
		want, from, caFile string
	}{
		"current context":          {want: "http://127.0.0.1:6633/mcp", from: "env:HERE"},
		"named":                    {context: "prod", want: "https://queen.example:6633/mcp", from: "env:PROD", caFile: "prod.pem"},
		"IPv6":                     {context: "six", want: "http://[::1]:6633/mcp"},
		"an address of its own":    {context: "apart", want: "https://agents.example/mcp", from: "env:APART"},
		"by environment":           {env: "QUEEN_CONTEXT=prod", want: "https://queen.example:6633/mcp", from: "env:PROD", caFile: "prod.pem"},
		"token of the environment": {env: "QUEEN_TOKEN=x", want: "http://127.0.0.1:6633/mcp"},
		"named, and a token":       {context: "prod", env: "QUEEN_TOKEN=x", want: "https://queen.example:6633/mcp", from: "env:PROD", caFile: "prod.pem"},
		"address of environment":   {env: "QUEEN_MCP_URL=http://e/mcp", want: "http://e/mcp"},
		"named over that":          {context: "six", env: "QUEEN_MCP_URL=http://e/mcp", want: "http://[::1]:6633/mcp"},
		"address by flag":          {url: "http://f/mcp", want: "http://f/mcp"},
		"another than the named":   {url: "http://f/mcp", context: "prod", want: "http://f/mcp"},
		"that of the named":        {url: "https://agents.example/mcp", context: "apart", want: "https://agents.example/mcp", from: "env:APART"},
	} {
		e := endpoint{url: c.url, context: c.context}
		require.NoError(t, e.resolve(cli.Streams{Env: append([]string{c.env}, env...)}), name)
		require.Equal(t, []string{c.want, c.from, c.caFile}, []string{e.url, e.tokenFrom, e.ca}, name)
	}
	e := endpoint{}
	require.NoError(t, e.resolve(cli.Streams{Env: []string{"HOME=" + t.TempDir()}}))
	require.Equal(t, endpoint{url: defaultURL}, e, "no file")
}

// TestContext: the token of a context reaches its node; what is wrong with a context is said before
// anybody is called, and prints no token. A client that starts a process is told the context instead of an address.
func TestContext(t *testing.T) {
	n := startNode(t, "secret")
	env := append(withContexts(t, `contexts: [{name: prod, url: "http://x:1", mcp: "`+n.URL+`", token: "env:PROD"},
  {name: bare, url: "http://x:1", mcp: "`+n.URL+`"}, {name: odd, url: "http://x:1", ca: none.pem}]`), "PROD=secret")
	code, out, complaint := queen(t, env, "call", "echo", "--context", "prod")
	require.Equal(t, cli.Done, code, complaint)
	require.NotEmpty(t, out)
	for _, c := range []struct {
		code int
		says string
		env  string
		args []string
	}{
		{cli.Usage, "there is no context none", "", []string{"stdio", "--context", "none"}},
		{cli.Usage, "none.pem", "", []string{"stdio", "--context", "odd"}},
		{cli.Auth, "the credential of QUEEN_TOKEN", "", []string{"call", "echo", "--context", "bare"}},
		{cli.Auth, "the credential of env:PROD", "PROD=secret2", []string{"call", "echo", "--context", "prod"}},
	} {
		code, _, complaint := queen(t, append([]string{c.env}, env[:2]...), c.args...)
		require.NotContains(t, complaint, "secret2")
		require.Equal(t, c.code, code, complaint)
		require.Contains(t, complaint, c.says)
	}
	code, out, complaint = queen(t, env, "install", "--client", "claude-desktop", "--context", "prod", "--dry-run")
	require.Equal(t, cli.Done, code, complaint)
	require.Contains(t, strings.Join(strings.Fields(out), ""), `"args":["mcp","stdio","--context","prod"]`)
}

// TestStdioContext: the bridge of a context answers from its node.
func TestStdioContext(t *testing.T) {
	n := startNode(t, "secret")
	env := append(withContexts(t, `contexts: [{name: prod, url: "http://x:1", mcp: "`+n.URL+`", token: "env:PROD"}]`), "PROD=secret")
	code, out, complaint := queenSays(t, env, hello+"\n", "stdio", "--context", "prod")
	require.Equal(t, cli.Done, code, complaint)
	require.Contains(t, out, `"protocolVersion":"2025-11-25"`)
	require.Empty(t, complaint)
}
