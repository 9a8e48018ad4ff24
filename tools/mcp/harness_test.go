package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"queen/tools/cli"
)

// nodeOf is the MCP server of a node that is not there: its tools answer what tests want to see.
type nodeOf struct {
	*httptest.Server
	// entered and cancelled tell about calls of the tool wait.
	entered, cancelled chan struct{}
}

// refusals are what the tool refuse answers, by the argument why.
var refusals = map[string]string{
	"wrong":   `{"code":"bad_request","message":"it is wrong","outcome":"none","retryable":false}`,
	"later":   `{"code":"rate_limited","message":"come back","outcome":"none","retryable":true}`,
	"fault":   `{"code":"internal","message":"it broke","outcome":"none","retryable":false}`,
	"unknown": `{"code":"timeout","message":"nobody knows","outcome":"unknown","retryable":true}`,
	"text":    `no JSON`,
}

// startNode serves the tools to who has the token, or to everybody.
func startNode(t *testing.T, token string) *nodeOf {
	t.Helper()
	n := &nodeOf{entered: make(chan struct{}, 8), cancelled: make(chan struct{}, 8)}
	s := sdk.NewServer(&sdk.Implementation{Name: "node", Version: "1"}, nil)
	closed := false
	type args struct {
		Why          string `json:"why,omitempty"`
		ConfirmToken string `json:"confirm_token,omitempty"`
	}
	add := func(name string, a *sdk.ToolAnnotations, run func(context.Context, args) (map[string]any, string)) {
		sdk.AddTool(s, &sdk.Tool{Name: name, Description: "About " + name + ".", Annotations: a},
			func(ctx context.Context, _ *sdk.CallToolRequest, in args) (*sdk.CallToolResult, map[string]any, error) {
				out, refusal := run(ctx, in)
				if refusal != "" {
					return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: refusal}}}, nil, nil
				}
				text, err := json.Marshal(out)
				return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(text)}}}, out, err
			})
	}
	add("echo", &sdk.ToolAnnotations{ReadOnlyHint: true}, func(_ context.Context, in args) (map[string]any, string) {
		return map[string]any{"why": in.Why}, ""
	})
	add("write", &sdk.ToolAnnotations{DestructiveHint: &closed}, func(context.Context, args) (map[string]any, string) { return nil, "" })
	add("refuse", nil, func(_ context.Context, in args) (map[string]any, string) { return nil, refusals[in.Why] })
	add("destroy", &sdk.ToolAnnotations{}, func(_ context.Context, in args) (map[string]any, string) {
		if in.ConfirmToken == "the token" {
			return map[string]any{"done": true}, ""
		}
		return map[string]any{"done": false, "confirm_token": "the token"}, ""
	})
	add("wait", nil, func(ctx context.Context, _ args) (map[string]any, string) {
		n.entered <- struct{}{}
		<-ctx.Done()
		n.cancelled <- struct{}{}
		return nil, ""
	})
	h := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s },
		&sdk.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true})
	n.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token != "" && r.Header.Get("Authorization") != "Bearer "+token {
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(n.Close)
	return n
}

// queen runs "queen mcp" with arguments and returns its exit code and what it printed.
func queen(t *testing.T, env []string, args ...string) (code int, out, complaint string) {
	t.Helper()
	return queenSays(t, env, "", args...)
}

// queenSays is queen with a text on standard input.
func queenSays(t *testing.T, env []string, in string, args ...string) (code int, out, complaint string) {
	t.Helper()
	var o, e bytes.Buffer
	s := cli.Streams{In: strings.NewReader(in), Out: &o, Err: &e, Env: env}
	cmd := Command(s, func(context.Context, cli.Streams, string, string) error { return nil })
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	cmd.SetOut(&o)
	cmd.SetErr(&e)
	err := cmd.Execute()
	s.Complain(err, false)
	return cli.Code(err), o.String(), e.String()
}

// TestOffline: the flags of stdio belong together.
func TestOffline(t *testing.T) {
	for want, args := range map[string][]string{
		"--offline needs --data":  {"stdio", "--offline"},
		"--offline asks no node":  {"stdio", "--offline", "--data", "d", "--context", "c"},
		"--data is for --offline": {"stdio", "--data", "d"},
		"--config is for":         {"stdio", "--config", "f"},
		"--url nonsense":          {"stdio", "--url", "nonsense"},
	} {
		code, _, complaint := queen(t, nil, args...)
		require.Equal(t, cli.Usage, code)
		require.Contains(t, complaint, want)
	}
	code, _, _ := queen(t, nil, "stdio", "--offline", "--data", t.TempDir())
	require.Equal(t, cli.Done, code)
}
