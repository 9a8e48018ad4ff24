package mcp

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"queen/tools/cli"
)

// TestCallExits: what a tool answers is printed as JSON; every class of refusal has its exit code, and prints nothing as data.
func TestCallExits(t *testing.T) {
	n := startNode(t, "")
	closed := startNode(t, "secret")
	gone := startNode(t, "")
	gone.Close()
	for name, c := range map[string]struct {
		url       string
		env       []string
		args      []string
		code      int
		out, says string
	}{
		"answer":         {args: []string{"echo", "--args", `{"why":"12345678901234567890"}`}, out: "{\n  \"why\": \"12345678901234567890\"\n}\n"},
		"no arguments":   {args: []string{"echo"}, out: "{\n  \"why\": \"\"\n}\n"},
		"plan":           {args: []string{"destroy"}, out: "{\n  \"confirm_token\": \"the token\",\n  \"done\": false\n}\n"},
		"carried out":    {args: []string{"destroy", "--yes"}, out: "{\n  \"done\": true\n}\n"},
		"nothing to do":  {args: []string{"echo", "--yes"}, out: "{\n  \"why\": \"\"\n}\n"},
		"wrong":          {args: []string{"refuse", "--args", `{"why":"wrong"}`}, code: cli.Usage, says: "it is wrong (bad_request)"},
		"later":          {args: []string{"refuse", "--args", `{"why":"later"}`}, code: cli.Server, says: "come back (rate_limited)"},
		"fault":          {args: []string{"refuse", "--args", `{"why":"fault"}`}, code: cli.Server, says: "it broke (internal)"},
		"unknown":        {args: []string{"refuse", "--args", `{"why":"unknown"}`}, code: cli.OutcomeUnknown, says: "nobody knows (timeout)"},
		"odd refusal":    {args: []string{"refuse", "--args", `{"why":"text"}`}, code: cli.Server, says: "no JSON"},
		"no such tool":   {args: []string{"none"}, code: cli.Usage, says: "unknown tool"},
		"no object":      {args: []string{"echo", "--args", `[1]`}, code: cli.Usage, says: "no JSON object"},
		"null":           {args: []string{"echo", "--args", `null`}, code: cli.Usage, says: "no JSON object"},
		"no JSON":        {args: []string{"echo", "--args", `{`}, code: cli.Usage, says: "no JSON object"},
		"no tool named":  {args: []string{}, code: cli.Usage, says: "arg"},
		"no credential":  {url: closed.URL, args: []string{"echo"}, code: cli.Auth, says: "QUEEN_TOKEN"},
		"wrong one":      {url: closed.URL, env: []string{"QUEEN_TOKEN=other"}, args: []string{"echo"}, code: cli.Auth, says: "QUEEN_TOKEN"},
		"credential":     {url: closed.URL, env: []string{"QUEEN_TOKEN=secret"}, args: []string{"echo"}, out: "{\n  \"why\": \"\"\n}\n"},
		"nobody answers": {url: gone.URL, args: []string{"echo"}, code: cli.Server, says: "is the frontend mcp running?"},
		"no address":     {url: "nonsense", args: []string{"echo"}, code: cli.Usage, says: "--url nonsense"},
	} {
		url := c.url
		if url == "" {
			url = n.URL
		}
		code, out, complaint := queen(t, c.env, append([]string{"call", "--url", url}, c.args...)...)
		require.Equal(t, c.code, code, "%s: %s%s", name, out, complaint)
		require.Equal(t, c.out, out, name)
		require.Contains(t, complaint, c.says, name)
		require.NotContains(t, out+complaint, "secret", name)
	}
	code, out, _ := queen(t, []string{"QUEEN_MCP_URL=" + n.URL}, "call", "echo")
	require.Equal(t, cli.Done, code, "the address of the environment")
	require.NotEmpty(t, out)
}

// TestTools: the list names what calling each tool may do; as JSON it has the schemas.
func TestTools(t *testing.T) {
	n := startNode(t, "")
	code, out, _ := queen(t, nil, "tools", "--url", n.URL, "-o", "json")
	require.Equal(t, cli.Done, code)
	var rows []toolRow
	require.NoError(t, json.Unmarshal([]byte(out), &rows))
	kinds := map[string]string{}
	for _, r := range rows {
		kinds[r.Name] = r.Kind
		require.NotEmpty(t, r.InputSchema)
	}
	require.Equal(t, map[string]string{"echo": "read", "write": "write", "destroy": "destructive", "refuse": "unknown", "wait": "unknown"}, kinds)
	code, out, _ = queen(t, nil, "tools", "--url", n.URL, "-o", "table")
	require.Equal(t, cli.Done, code)
	require.Contains(t, out, "About echo.")
	code, _, _ = queen(t, nil, "tools", "--url", n.URL, "-o", "nothing")
	require.Equal(t, cli.Usage, code)
}
