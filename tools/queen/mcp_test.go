package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
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
