package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/format"
	"queen/replication"
	"queen/tools/cli"
)

// TestVersionsDiffer: an upgrade is over when every node runs the same version.
func TestVersionsDiffer(t *testing.T) {
	require.False(t, differ([]nodeRow{{Node: 1, Version: "a"}, {Node: 2, Version: "a"}}))
	require.True(t, differ([]nodeRow{{Node: 1, Version: "a"}, {Node: 2, Version: "a"}, {Node: 3, Version: "b"}}))
}

// TestClusterCommands: status, wait and every change, with each exit code they have, on a cluster of three processes.
func TestClusterCommands(t *testing.T) {
	c := newProcesses(t, 3)
	leader := c.leader() + 1
	var named []string
	for i, addr := range c.peers {
		named = append(named, fmt.Sprintf("%d=%s", i+1, addr))
	}
	peers := strings.Join(named, ",")
	run := func(code int, args ...string) string {
		t.Helper()
		got := command(t, nil, append([]string{"cluster"}, args...)...)
		require.Equal(t, code, got.code, "%v: %s%s", args, got.out, got.errors)
		if code == cli.Done || code == cli.Findings {
			return got.out
		}
		return got.errors
	}
	on := func(args ...string) []string { return append(args, "--peers", peers, "--timeout", "30s") }
	run(cli.Usage, "status")
	run(cli.Usage, "status", "--peers", "x")
	run(cli.Usage, on("wait", "--for", "luck")...)
	run(cli.Usage, on("wait", "--for", "caught-up=0")...)
	run(cli.Usage, on("wait", "--for", "caught-up=9")...)
	run(cli.Server, "transfer-leader", "1", "--peers", "1=127.0.0.1:1", "--timeout", "1s")
	for _, what := range []string{"ready", "leader", "caught-up=2"} {
		run(cli.Done, on("wait", "--for", what)...)
	}
	var rows []nodeRow
	require.NoError(t, json.Unmarshal([]byte(run(cli.Done, on("status")...)), &rows))
	require.Len(t, rows, 3)
	require.Equal(t, "leader", rows[leader-1].Role)

	require.Contains(t, run(cli.Done, on("upgrade-status", "-o", "csv")...), fmt.Sprintf("\n%d,%s,leader,true,", leader, version))
	run(cli.Findings, "upgrade-status", "--peers", peers+",9=127.0.0.1:1", "--timeout", "30s")

	first := "--url=" + c.nodes[0].url
	require.Contains(t, run(cli.Done, "members", first, "-o", "ndjson"), fmt.Sprintf(`{"node":3,"address":%q,"votes":true,"heard":`, c.peers[2]))
	run(cli.Server, "members", "--url", "http://127.0.0.1:1")
	st := command(t, nil, "status", first)
	require.Equal(t, cli.Done, st.code, st.errors)
	require.Contains(t, st.out, `"quorum": true`)
	require.Contains(t, command(t, nil, "status", first, "-o", "table").out, "\nnumber, leader")

	to := leader%3 + 1
	require.Contains(t, run(cli.Done, on("transfer-leader", fmt.Sprint(to), "--dry-run", "-o", "ndjson")...), `"done":false,"dryRun":true`)
	require.Contains(t, run(cli.Done, on("transfer-leader", fmt.Sprint(to), "-o", "ndjson")...), `"done":true`)
	run(cli.Done, on("wait", "--for", "leader")...)
	require.Contains(t, run(cli.Done, on("status", "-o", "csv")...), fmt.Sprintf("%d,1,%s,leader,", to, c.peers[to-1]))
	run(cli.Usage, on("transfer-leader", "none")...)
	require.Contains(t, run(cli.Usage, on("transfer-leader", "9")...), "node 9 does not vote")
	require.Contains(t, run(cli.Usage, on("transfer-leader", "1", "--group", "2")...), "the cluster has 1 raft groups")
	run(cli.Usage, on("add", "2", c.peers[1])...)
	run(cli.Usage, on("promote", "2")...)
	require.Contains(t, run(cli.Usage, on("remove", fmt.Sprint(to), "--yes")...), "leads")
	require.Contains(t, run(cli.Usage, on("remove", fmt.Sprint(leader))...), "nothing was done")

	c.nodes[leader-1].kill()
	c.nodes[leader-1] = nil
	require.Contains(t, run(cli.Findings, on("status")...), `"role": "unknown"`)
	run(cli.Findings, "wait", "--peers", peers, "--timeout", "300ms")
	run(cli.Done, on("wait", "--for", "leader")...)
	require.Contains(t, run(cli.Usage, on("transfer-leader", fmt.Sprint(leader))...), fmt.Sprintf("node %d does not answer", leader))
	run(cli.Done, on("remove", fmt.Sprint(leader), "--yes")...)
	require.Contains(t, run(cli.Usage, on("add", fmt.Sprint(leader), c.peers[leader-1])...), "a number is used once")
}

// TestAskedAgain: what may be otherwise later is asked for again while there is time, if it bears that, and what is refused is not.
func TestAskedAgain(t *testing.T) {
	c := &replication.Client{Peers: map[format.Replica]string{1: "127.0.0.1:1", 2: "127.0.0.1:3"}}
	refused := errors.New("node 9 does not vote")
	for _, x := range []struct {
		name    string
		again   func(error) bool
		timeout time.Duration
		comes   []error
		code    int
	}{
		{"it is done at once", replication.Again, time.Minute, []error{nil}, cli.Done},
		{"it is done later", replication.Again, time.Minute, []error{engine.ErrNotLeader, engine.ErrNotLeader, nil}, cli.Done},
		{"it is refused later", replication.Again, time.Minute, []error{engine.ErrNotLeader, refused}, cli.Usage},
		{"there is no time", replication.Again, time.Nanosecond, []error{engine.ErrNotLeader}, cli.Server},
		{"it does not bear that", nil, time.Minute, []error{engine.ErrNotLeader}, cli.Server},
		{"it is refused", replication.Again, time.Minute, []error{refused}, cli.Usage},
	} {
		tries := 0
		k := &clusterChange{again: x.again, do: func(one *replication.Client, _ context.Context, node format.Replica) error {
			require.Equal(t, map[format.Replica]string{2: "127.0.0.1:3"}, one.Peers, x.name)
			require.EqualValues(t, 5, node)
			tries++
			return x.comes[tries-1]
		}}
		asked, err := (&clusterFlags{timeout: x.timeout}).ask(context.Background(), c, k, &changedRow{AskedOf: 2, Node: 5})
		require.EqualValues(t, 2, asked)
		require.Equal(t, len(x.comes), tries, x.name)
		require.Equal(t, x.comes[tries-1], err, x.name)
		if err != nil {
			require.Equal(t, x.code, cli.Code(changeError(err)), x.name)
		}
	}
}

// TestWaitConditions: what each condition makes of what nodes said.
func TestWaitConditions(t *testing.T) {
	row := func(node uint64, role string, applied uint64, sure bool) nodeRow {
		return nodeRow{Node: node, Role: role, Applied: applied, UpToDate: sure}
	}
	leader, _, err := condition("leader")
	require.NoError(t, err)
	require.False(t, leader([]nodeRow{row(1, "follower", 5, true)}, true))
	require.False(t, leader([]nodeRow{row(1, "leader", 5, false)}, true), "no majority answers it")
	require.True(t, leader([]nodeRow{row(1, "leader", 5, true), row(2, "unknown", 0, false)}, false))

	ready, _, err := condition("ready")
	require.NoError(t, err)
	require.False(t, ready(nil, false))
	require.True(t, ready(nil, true))

	caught, node, err := condition("caught-up=2")
	require.NoError(t, err)
	require.EqualValues(t, 2, node)
	require.False(t, caught([]nodeRow{row(1, "follower", 9, true), row(2, "follower", 9, true)}, false), "nobody leads yet")
	require.False(t, caught([]nodeRow{row(1, "leader", 9, true), row(2, "follower", 8, true)}, false))
	require.False(t, caught([]nodeRow{row(1, "leader", 20, true), row(2, "follower", 9, false)}, false), "it is not sure")
	require.False(t, caught([]nodeRow{row(1, "leader", 20, true)}, false), "it does not answer")
	require.True(t, caught([]nodeRow{row(1, "leader", 20, true), row(2, "follower", 9, true)}, false), "the goal does not move")

	of := func(group uint64, r nodeRow) nodeRow { r.Group = group; return r }
	one, two := of(1, row(1, "leader", 20, true)), of(2, row(1, "follower", 5, true))
	require.False(t, leader([]nodeRow{one, two}, false), "nobody leads group 2")
	require.True(t, leader([]nodeRow{one, two, of(2, row(2, "leader", 7, true))}, false))
	caught, _, err = condition("caught-up=1")
	require.NoError(t, err)
	require.False(t, caught([]nodeRow{one, two, of(2, row(2, "leader", 7, true))}, false), "it is behind in group 2")
	require.False(t, caught([]nodeRow{one, of(2, row(1, "follower", 7, false)), of(2, row(2, "leader", 7, true))}, false), "it is not sure in group 2")
	require.False(t, caught([]nodeRow{one, of(2, row(2, "leader", 7, true))}, false), "it does not answer in group 2")
	require.True(t, caught([]nodeRow{one, of(2, row(1, "follower", 7, true))}, false))
	for _, bad := range []string{"", "caught-up", "caught-up=x", "caught-up=0", "lead"} {
		_, _, err := condition(bad)
		require.Equal(t, cli.Usage, cli.Code(err), bad)
	}
}

// TestRowsOf: all is well when each node is up to date in each raft group, and each group has one leader.
func TestRowsOf(t *testing.T) {
	const sure, leads = replication.ReportSure, replication.ReportSure | replication.ReportLeads
	say := func(node format.Replica, g format.RaftGroup, applied uint64, flags uint32) replication.Answer {
		return replication.Answer{Node: node, Group: g, Report: replication.Report{Applied: applied, Leader: 1, Flags: flags}}
	}
	dead := replication.Answer{Node: 2, Group: 2, Err: errors.New("silent")}
	for _, c := range []struct {
		name    string
		answers []replication.Answer
		fine    bool
	}{
		{"nobody was asked", nil, false},
		{"one group", []replication.Answer{say(1, 1, 5, leads), say(2, 1, 5, sure)}, true},
		{"two groups", []replication.Answer{say(1, 1, 5, leads), say(1, 2, 9, sure), say(2, 1, 5, sure), say(2, 2, 9, leads)}, true},
		{"nobody leads the second", []replication.Answer{say(1, 1, 5, leads), say(1, 2, 9, sure)}, false},
		{"two lead the second", []replication.Answer{say(1, 1, 5, leads), say(1, 2, 9, leads), say(2, 1, 5, sure), say(2, 2, 9, leads)}, false},
		{"a node is silent in the second", []replication.Answer{say(1, 1, 5, leads), say(1, 2, 9, leads), say(2, 1, 5, sure), dead}, false},
		{"a node is not sure in the second", []replication.Answer{say(1, 1, 5, leads), say(1, 2, 9, leads), say(2, 1, 5, sure), say(2, 2, 9, 0)}, false},
		{"a node opens the second", []replication.Answer{say(1, 1, 5, leads|replication.ReportOpening)}, false},
	} {
		rows, fine := rowsOf(c.answers, nil)
		require.Len(t, rows, len(c.answers), c.name)
		require.Equal(t, c.fine, fine, c.name)
	}
	rows, _ := rowsOf([]replication.Answer{say(1, 1, 5, sure), say(1, 2, 9, leads), say(2, 1, 3, sure), dead}, nil)
	require.EqualValues(t, []uint64{0, 0, 2, 0}, []uint64{rows[0].Behind, rows[1].Behind, rows[2].Behind, rows[3].Behind})
	nodes := byNode(rows)
	require.Len(t, nodes, 2)
	require.True(t, nodes[0].Role == "leader" && nodes[0].UpToDate, "%+v", nodes[0])
	require.True(t, nodes[1].Role == "follower" && !nodes[1].UpToDate && nodes[1].Error == "silent", "%+v", nodes[1])
}

// commandsOfGroups: of three nodes with two raft groups status has a row for each of both, wait waits for both, and a transfer is of one or of
// all.
func (c *processes) commandsOfGroups() {
	t := c.t
	t.Helper()
	var named []string
	for i, addr := range c.peers {
		named = append(named, fmt.Sprintf("%d=%s", i+1, addr))
	}
	run := func(code int, args ...string) string {
		t.Helper()
		got := command(t, nil, append([]string{"cluster"}, append(args, "--peers", strings.Join(named, ","), "--timeout", "30s")...)...)
		require.Equal(t, code, got.code, "%v: %s%s", args, got.out, got.errors)
		return got.out + got.errors
	}
	led := func(want ...uint64) {
		t.Helper()
		run(cli.Done, "wait")
		var rows []nodeRow
		require.NoError(t, json.Unmarshal([]byte(run(cli.Done, "status")), &rows))
		require.Len(t, rows, 6)
		got := make([]uint64, 2)
		for _, r := range rows {
			if r.Role == "leader" {
				got[r.Group-1] = r.Node
			}
		}
		require.Equal(t, want, got)
	}
	run(cli.Done, "wait", "--for", "leader")
	run(cli.Done, "wait", "--for", "caught-up=2")
	run(cli.Done, "transfer-leader", "1")
	led(1, 1)
	require.Contains(t, run(cli.Done, "transfer-leader", "2", "--group", "2", "-o", "ndjson"), `"node":2,"group":2,`)
	led(1, 2)
	run(cli.Done, "transfer-leader", "3", "--group", "1")
	led(3, 2)
	require.Contains(t, run(cli.Usage, "transfer-leader", "2", "--group", "3"), "the cluster has 2 raft groups")
	require.Equal(t, 4, strings.Count(run(cli.Done, "upgrade-status", "-o", "csv"), "\n"))
}

// TestClusterBootstrap: the directory of a single node becomes that of the first of a cluster when the node is stopped, once.
func TestClusterBootstrap(t *testing.T) {
	dir, addr := t.TempDir(), freeTwo(t)
	n := runNode(t, dir, nil)
	n.must(201, "POST", "/api/v1/push", items(0, 3), nil)
	require.Equal(t, cli.Usage, command(t, nil, "cluster", "bootstrap").code)
	args := []string{"cluster", "bootstrap", "--data", dir, "--peer-addr", addr}
	require.Equal(t, cli.Usage, command(t, nil, args...).code, "the node runs")
	require.Equal(t, cli.Done, n.stop(syscall.SIGTERM))
	got := command(t, nil, args...)
	require.Equal(t, cli.Done, got.code, got.errors)
	require.Equal(t, cli.Usage, command(t, nil, args...).code, "it is one already")

	n = runNode(t, dir, nil, "--node-id", "1", "--peer-addr", addr, "--peers", "1="+addr)
	found, ok := n.readFrom(0)
	require.True(t, ok)
	require.Equal(t, 3, found)
	require.Equal(t, cli.Done, command(t, nil, "cluster", "wait", "--peers", "1="+addr, "--timeout", "30s").code)
}
