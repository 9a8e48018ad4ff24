package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"queen/tools/cli"
)

// TestClusterDrain: drain and its undo, with each exit code they have, on a cluster of three processes; and what the node that drains,
// status and members say of it.
func TestClusterDrain(t *testing.T) {
	c := newProcesses(t, 3)
	var named []string
	for i, addr := range c.peers {
		named = append(named, fmt.Sprintf("%d=%s", i+1, addr))
	}
	peers := strings.Join(named, ",")
	run := func(code int, args ...string) string {
		t.Helper()
		c.leader() // what asks who leads finds one
		got := command(t, nil, append([]string{"cluster"}, append(args, "--peers", peers, "--timeout", "30s")...)...)
		require.Equal(t, code, got.code, "%v: %s%s", args, got.out, got.errors)
		return got.out + got.errors
	}
	ready := func(node int) (status int, body string) {
		status, b := c.nodes[node-1].call("GET", "/readyz", nil)
		return status, string(b)
	}
	first := c.leader() + 1
	one := fmt.Sprint(first)
	run(cli.Usage, "drain")
	run(cli.Usage, "drain", "none")
	require.Contains(t, run(cli.Usage, "drain", "9"), "node 9 is no member")
	got := command(t, nil, "cluster", "drain", one, "--peers", "1=127.0.0.1:1", "--timeout", "1s")
	require.Equal(t, cli.Server, got.code, got.errors)
	require.Contains(t, run(cli.Done, "drain", one, "--dry-run", "-o", "ndjson"), `{"op":"drain","node":`+one+`,`)
	status, body := ready(first)
	require.Equal(t, 200, status, body)

	require.Contains(t, run(cli.Done, "drain", one, "-o", "ndjson"), `"done":true`)
	status, body = ready(first)
	require.Equal(t, 503, status, body)
	require.Contains(t, body, "an operator has the node drain")
	_, health := c.nodes[first-1].call("GET", "/health", nil)
	require.Contains(t, string(health), `"draining":true`)
	var rows []nodeRow
	require.NoError(t, json.Unmarshal([]byte(run(cli.Done, "status")), &rows))
	for _, r := range rows {
		require.Equal(t, r.Node == uint64(first), r.Draining, "%+v", r)
		require.False(t, r.Draining && r.Role == "leader", "%+v", r)
	}
	members := command(t, nil, "cluster", "members", "--url="+c.nodes[first-1].url, "-o", "ndjson")
	require.Equal(t, 1, strings.Count(members.out, `"draining":true`), members.out)
	doctor := command(t, nil, "doctor", "--url="+c.nodes[first-1].url, "--findings")
	require.Equal(t, cli.Findings, doctor.code, doctor.errors)
	require.Contains(t, doctor.out, "The node drains")
	require.NotContains(t, doctor.out, "can not commit")
	pushOn(t, c.nodes[first-1], "q", 1)
	require.Contains(t, run(cli.Usage, "transfer-leader", one), "drains")
	for range 2 {
		require.Contains(t, run(cli.Done, "drain", one, "--undo", "-o", "ndjson"), `{"op":"undrain","node":`+one+`,`)
	}
	status, body = ready(first)
	require.Equal(t, 200, status, body)

	leader := c.leader() + 1
	other, away := leader%3+1, (leader+1)%3+1
	run(cli.Done, "drain", fmt.Sprint(other))
	run(cli.Done, "drain", fmt.Sprint(away))
	require.Contains(t, run(cli.Usage, "drain", fmt.Sprint(leader)), "the last voter that does not drain")
	run(cli.Done, "drain", fmt.Sprint(away), "--undo")
	c.nodes[away-1].kill()
	c.nodes[away-1] = nil
	found := run(cli.Findings, "drain", fmt.Sprint(leader))
	require.Contains(t, found, `"done": true`)
	require.Contains(t, found, "leads on")
	require.Equal(t, leader, c.leader()+1)
}
