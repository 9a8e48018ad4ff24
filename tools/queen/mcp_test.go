package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"queen/engine/auth"
	"queen/engine/clock"
	"queen/tools/cli"
)

// mcpAddr is where the ready file of a node says that its MCP server is.
func mcpAddr(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var r readyFile
	require.NoError(t, json.Unmarshal(text, &r))
	require.NotEmpty(t, r.MCP)
	return r.MCP
}

// TestServeMCP: a node with both frontends tells where each is, the SDK's client sees over MCP what was pushed over
// HTTP, and a SIGTERM ends both.
func TestServeMCP(t *testing.T) {
	ready := filepath.Join(t.TempDir(), "ready.json")
	p := runNode(t, t.TempDir(), nil, "--frontends", "http,mcp", "--mcp", "127.0.0.1:0", "--ready-file", ready)
	p.readyFile = ready
	p.must(201, "POST", "/api/v1/push", items(0, 3), nil)
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	s, err := c.Connect(context.Background(), &mcp.StreamableClientTransport{Endpoint: "http://" + mcpAddr(t, ready) + "/mcp",
		DisableStandaloneSSE: true}, nil)
	require.NoError(t, err)
	res, err := s.CallTool(context.Background(), &mcp.CallToolParams{Name: "queue_list"})
	require.NoError(t, err)
	require.False(t, res.IsError, "%+v", res.Content)
	text, err := json.Marshal(res.StructuredContent)
	require.NoError(t, err)
	require.Contains(t, string(text), `"total":1`)
	require.NoError(t, s.Close())
	require.Equal(t, 0, p.stop(syscall.SIGTERM))
}

// hashOf sums up every byte of a directory.
func hashOf(t *testing.T, dir string) string {
	t.Helper()
	h := sha256.New()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		fmt.Fprintf(h, "%s %d\n", path, len(text))
		h.Write(text)
		return err
	}))
	return hex.EncodeToString(h.Sum(nil))
}

// stdio runs "queen mcp stdio" as a process with the SDK's client in front of it.
func stdio(t *testing.T, args ...string) *mcp.ClientSession {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	cmd := exec.CommandContext(ctx, "queen", append([]string{"mcp", "stdio"}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TMPDIR=" + t.TempDir()}
	cmd.Stderr = os.Stderr
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(ctx, &mcp.CommandTransport{Command: cmd}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close(); cancel() })
	return s
}

// TestStdio: a client of the bridge sees what the node has; a request that the node refuses, and a node that is gone,
// are answers to that request.
func TestStdio(t *testing.T) {
	ready := filepath.Join(t.TempDir(), "ready.json")
	p := runNode(t, t.TempDir(), nil, "--frontends", "http,mcp", "--mcp", "127.0.0.1:0", "--ready-file", ready)
	p.must(201, "POST", "/api/v1/push", items(0, 3), nil)
	s := stdio(t, "--url", "http://"+mcpAddr(t, ready)+"/mcp")
	tools, err := s.ListTools(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, tools.Tools, 25)
	res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "queue_list"})
	require.NoError(t, err)
	require.False(t, res.IsError)
	_, err = s.CallTool(t.Context(), &mcp.CallToolParams{Name: "queue_delete", Arguments: map[string]any{"queue": "q"}})
	require.Error(t, err, "a tool that is not offered was called")
	p.kill()
	_, err = s.CallTool(t.Context(), &mcp.CallToolParams{Name: "queue_list"})
	require.ErrorContains(t, err, "no answer from")
}

// TestOffline: the reading tools answer over a stopped node's directory, of which no byte changes; one that is in use is
// refused, and while one is looked at no node can start in it.
func TestOffline(t *testing.T) {
	dir := t.TempDir()
	p := runNode(t, dir, nil)
	p.must(201, "POST", "/api/v1/push", items(0, 3), nil)
	p.must(200, "POST", "/api/v1/kv", map[string]any{"operations": []any{map[string]any{"op": "put", "ns": "n", "key": "k", "value": 1, "forever": true}}}, nil)
	busy := exec.Command("queen", "mcp", "stdio", "--offline", "--data", dir)
	out, err := busy.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "is in use")
	p.kill() // without a checkpoint: the log is applied again, elsewhere
	before := hashOf(t, dir)
	s := stdio(t, "--offline", "--data", dir)
	for name, args := range map[string]map[string]any{"cluster_status": {}, "queue_list": {}, "diagnose": {},
		"kv_get": {"namespace": "n", "key": "k"}} {
		res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
		require.NoError(t, err, name)
		require.False(t, res.IsError, "%s %+v", name, res.Content)
		if name == "kv_get" {
			require.Equal(t, true, res.StructuredContent.(map[string]any)["found"])
		}
	}
	_, err = s.CallTool(t.Context(), &mcp.CallToolParams{Name: "message_push"})
	require.Error(t, err)
	second := launch(t, nil, "serve", "--data", dir, "--http", "127.0.0.1:0")
	require.Equal(t, 1, second.code())
	require.NoError(t, s.Close())
	require.Equal(t, before, hashOf(t, dir))

	file := filepath.Join(t.TempDir(), "queen.yaml")
	require.NoError(t, os.WriteFile(file, []byte("mcp.mask: [{queue: q, json_pointer: ''}]\n"), 0o600))
	res, err := stdio(t, "--offline", "--data", dir, "--config", file).CallTool(t.Context(), &mcp.CallToolParams{Name: "message_peek",
		Arguments: map[string]any{"queue": "q", "partition": "p"}})
	require.NoError(t, err)
	require.False(t, res.IsError, "%+v", res.Content)
	m := res.StructuredContent.(map[string]any)["messages"].([]any)[0].(map[string]any)
	require.Equal(t, []any{`"***"`, true}, []any{m["payload"], m["payload_masked"]})
}

// TestCallCommand: tools are listed and called from the command line, with the exit code of what came out; a destructive
// tool shows its plan, and --yes carries it out.
func TestCallCommand(t *testing.T) {
	ready := filepath.Join(t.TempDir(), "ready.json")
	p := runNode(t, t.TempDir(), nil, "--frontends", "http,mcp", "--mcp", "127.0.0.1:0", "--mcp-mode", "admin", "--ready-file", ready)
	p.must(201, "POST", "/api/v1/push", items(0, 3), nil)
	url := "http://" + mcpAddr(t, ready) + "/mcp"
	queen := func(args ...string) (int, string, string) {
		var out, complaint bytes.Buffer
		code := run(append([]string{"mcp"}, append(args, "--url", url)...), cli.Streams{In: strings.NewReader(""), Out: &out, Err: &complaint})
		return code, out.String(), complaint.String()
	}
	var queues struct {
		Queues []struct{ Name string }
	}
	code, out, _ := queen("call", "queue_list")
	require.Equal(t, cli.Done, code)
	require.NoError(t, json.Unmarshal([]byte(out), &queues))
	require.Len(t, queues.Queues, 1)
	args := `{"queue":"` + queues.Queues[0].Name + `"}`
	for _, c := range []struct {
		code int
		want string // on the stream that the code belongs to
		args []string
	}{
		{cli.Done, `"name": "queue_delete"`, []string{"tools", "-o", "json"}},
		{cli.Done, "destructive", []string{"tools", "-o", "table"}},
		{cli.Usage, "no such queue (unknown_queue)", []string{"call", "queue_describe", "--args", `{"queue":"none"}`}},
		{cli.Usage, "do not fit the tool's input schema", []string{"call", "queue_describe"}},
		{cli.Usage, "unknown tool", []string{"call", "nothing"}},
		{cli.Done, `"done": false`, []string{"call", "queue_delete", "--args", args}},
		{cli.Done, `"messages": 3`, []string{"call", "queue_delete", "--args", args}},
		{cli.Done, `"done": true`, []string{"call", "queue_delete", "--args", args, "--yes"}},
		{cli.Usage, "unknown_queue", []string{"call", "queue_delete", "--args", args, "--yes"}},
	} {
		code, out, complaint := queen(c.args...)
		require.Equal(t, c.code, code, "%v: %s%s", c.args, out, complaint)
		require.Contains(t, out+complaint, c.want, "%v", c.args)
	}
	p.kill()
	code, _, _ = queen("call", "queue_list")
	require.Equal(t, cli.Server, code)
}

// TestCredentialOfTheEnvironment: a node that asks for a credential gets that of QUEEN_TOKEN, whose role holds; without
// one the exit code says so.
func TestCredentialOfTheEnvironment(t *testing.T) {
	key, hash := auth.NewKey(clock.RealRand().Fill)
	dir := t.TempDir()
	keys, ready := filepath.Join(dir, "keys.yaml"), filepath.Join(dir, "ready.json")
	require.NoError(t, os.WriteFile(keys, fmt.Appendf(nil, "keys:\n  - {name: agent, hash: %q, roles: [read-only]}\n", hash), 0o600))
	runNode(t, t.TempDir(), nil, "--frontends", "http,mcp", "--mcp", "127.0.0.1:0", "--mcp-mode", "admin", "--auth-keys", keys,
		"--mcp-public-url", "http://127.0.0.1:6633/mcp", "--ready-file", ready)
	queen := func(env []string, args ...string) (int, string) {
		var out bytes.Buffer
		args = append([]string{"mcp"}, append(args, "--url", "http://"+mcpAddr(t, ready)+"/mcp")...)
		return run(args, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out, Env: env}), out.String()
	}
	code, out := queen(nil, "call", "queue_list")
	require.Equal(t, cli.Auth, code, out)
	code, out = queen([]string{"QUEEN_TOKEN=" + key}, "call", "queue_list")
	require.Equal(t, cli.Done, code, out)
	code, out = queen([]string{"QUEEN_TOKEN=" + key}, "tools", "-o", "table")
	require.Equal(t, cli.Done, code, out)
	require.NotContains(t, out, "queue_delete")
}
