package frontendmcp

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/format"
)

// crew is an engine that is one of three nodes, of which one does not answer.
type crew struct {
	engine.Engine
	leads  format.Replica
	groups []engine.GroupStatus
	drains map[format.Replica]bool
	err    error
}

func (c *crew) Status(ctx context.Context) (engine.Status, error) {
	st, err := c.Engine.Status(ctx)
	st.Node, st.Leader, st.Role, st.Groups = 2, c.leads, "follower", c.groups
	if c.leads == st.Node {
		st.Role = "leader"
	}
	return st, err
}

func (c *crew) Members() (out []engine.Member) {
	for node := format.Replica(1); node <= 4; node++ {
		m := engine.Member{Node: node, Address: "a", Votes: node != 4, Heard: node != 3, Draining: c.drains[node]}
		if m.Heard {
			m.Leads, m.Applied, m.Commit, m.Term = node == c.leads, format.Index(1000-node), 1000, 1
			m.Behind, m.Version = time.Duration(node-1)*time.Second, "v"+digits(uint64(node))
		}
		out = append(out, m)
	}
	return out
}

func (c *crew) MakeLead(_ context.Context, g format.RaftGroup, node format.Replica) error {
	if c.err == nil && c.groups == nil {
		c.leads = node
	} else if c.err == nil {
		c.groups[g-1].Leader = node
	}
	return c.err
}

func (c *crew) Drain(_ context.Context, node format.Replica, on bool) (leads bool, err error) {
	if c.err == nil {
		c.drains[node] = on
	}
	return c.leads == node, c.err
}

// TestClusterTools: cluster_status tells every node and what is not known of it, and leader_transfer hands the lead to who
// can take it, once there was a plan.
func TestClusterTools(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Frontends = []string{"http", "mcp"} })
	r.pass(time.Second)
	r.push("q", "p", `1`)
	single := ask(t, r.connect(Identity{}, nil), "cluster_status", nil)
	require.Len(t, single["nodes"], 1)
	require.Equal(t, "local", single["leader"])
	require.Equal(t, true, single["quorum_ok"])
	require.NotEmpty(t, single["cluster_id"])
	probe := map[string]any{"ok": true, "ms": 0.0, "at": timeText(r.f.now())} // the clock stands still
	require.Equal(t, probe, single["write_probe"])
	own := single["nodes"].([]any)[0].(map[string]any)
	require.Equal(t, []any{own["applied"], 0.0, "test", []any{"http", "mcp"}}, []any{own["commit"], own["lag_ms"], own["version"], own["frontends"]})
	require.Equal(t, []any{map[string]any{"group": 1.0, "role": "leader", "leader": "local", "term": own["term"], "applied": own["applied"],
		"commit": own["commit"], "quorum": true, "can_write": true}}, single["groups"])
	require.Equal(t, []any{1.0}, own["leads_groups"])
	require.Equal(t, "not_a_cluster", refused(t, r.connect(Identity{}, nil), "leader_transfer", map[string]any{"to": "1"}).Code)

	c := &crew{Engine: r.engine, leads: 1}
	r.f.Attach(c)
	s := r.connect(Identity{}, nil)
	res := try(t, s, "cluster_status", nil)
	checked(t, toolsOf(t, s), "cluster_status", res)
	out := res.StructuredContent.(map[string]any)
	require.Equal(t, "1", out["leader"])
	nodes := out["nodes"].([]any)
	require.Len(t, nodes, 4)
	gone := nodes[2].(map[string]any)
	require.Equal(t, false, gone["live"])
	require.Nil(t, gone["lag_entries"])
	require.Equal(t, "", gone["applied"])
	for _, unknown := range []string{"commit", "lag_ms", "version", "frontends"} {
		require.Nil(t, gone[unknown], unknown)
	}
	far := nodes[3].(map[string]any)
	require.Equal(t, []any{"1000", 3000.0, "v4", nil}, []any{far["commit"], far["lag_ms"], far["version"], far["frontends"]})
	require.EqualValues(t, 3, nodes[3].(map[string]any)["lag_entries"])
	require.Nil(t, nodes[0].(map[string]any)["disk_used_pct"])
	c.groups = []engine.GroupStatus{{Group: 1, Role: "follower", Leader: 1, Term: 3, Applied: 9, Commit: 10, Quorum: true, CanWrite: true},
		{Group: 2, Role: "candidate", Term: 4, Applied: 19, Commit: 20, Why: "the cluster has no leader"}}
	res = try(t, s, "cluster_status", nil)
	checked(t, toolsOf(t, s), "cluster_status", res)
	out = res.StructuredContent.(map[string]any)
	require.Equal(t, []any{
		map[string]any{"group": 1.0, "role": "follower", "leader": "1", "term": "3", "applied": "9", "commit": "10", "quorum": true, "can_write": true},
		map[string]any{"group": 2.0, "role": "candidate", "leader": nil, "term": "4", "applied": "19", "commit": "20", "quorum": false,
			"can_write": false, "why": "the cluster has no leader"}}, out["groups"])
	for i, x := range out["nodes"].([]any) {
		leads := []any{}
		if i == 0 {
			leads = []any{1.0}
		}
		require.Equal(t, leads, x.(map[string]any)["leads_groups"], i)
	}
	c.groups = nil

	for _, to := range []string{"", "x", "9", "3", "4"} { // none, not a number, not there, silent, without a vote
		require.Equal(t, "to", refused(t, s, "leader_transfer", map[string]any{"to": to}).Field, to)
	}
	plan := ask(t, s, "leader_transfer", map[string]any{"to": "2"})
	require.Equal(t, false, plan["done"])
	require.EqualValues(t, 1, c.leads)
	c.err = context.DeadlineExceeded
	e := refused(t, s, "leader_transfer", map[string]any{"to": "2", "confirm_token": plan["confirm_token"]})
	require.Equal(t, "unknown", e.Outcome)
	c.err = nil
	plan = ask(t, s, "leader_transfer", map[string]any{"to": "2"})
	done := ask(t, s, "leader_transfer", map[string]any{"to": "2", "confirm_token": plan["confirm_token"]})
	require.Equal(t, []any{"1", "2", true}, []any{done["before"], done["after"], done["done"]})
	require.EqualValues(t, 2, c.leads)

	c.groups = []engine.GroupStatus{{Group: 1, Leader: 2}, {Group: 2, Leader: 1}}
	for _, group := range []int{-1, 3} {
		require.Equal(t, "group", refused(t, s, "leader_transfer", map[string]any{"to": "2", "group": group}).Field, group)
	}
	plan = ask(t, s, "leader_transfer", map[string]any{"to": "2", "group": 2})
	require.Equal(t, map[string]any{"node": "2", "group": "2"}, plan["plan"].(map[string]any)["target"])
	refused(t, s, "leader_transfer", map[string]any{"to": "2", "group": 1, "confirm_token": plan["confirm_token"]})
	done = ask(t, s, "leader_transfer", map[string]any{"to": "2", "group": 2, "confirm_token": plan["confirm_token"]})
	require.Equal(t, []any{"1", "2", true}, []any{done["before"], done["after"], done["done"]})
}

// TestPurge: what is there goes for every consumer group, and nothing that has come since the plan was made.
func TestPurge(t *testing.T) {
	r := newRig(t, nil)
	r.push("q", "p", `1`, `2`, `3`)
	r.push("q", "other", `4`)
	s := r.connect(Identity{}, nil)
	args := map[string]any{"queue": "q", "partition": "p"}
	plan := ask(t, s, "partition_purge", args)
	require.EqualValues(t, 3, plan["plan"].(map[string]any)["counts"].(map[string]any)["messages"])
	args["confirm_token"] = plan["confirm_token"]
	require.Equal(t, "3", ask(t, s, "partition_purge", args)["start"])
	for _, x := range ask(t, s, "partition_list", map[string]any{"queue": "q"})["partitions"].([]any) {
		p := x.(map[string]any)
		require.Equal(t, map[string]any{"p": nil, "other": "0"}[p["name"].(string)], p["last"], "%v", p)
	}
	r.push("q", "p", `5`)
	for range 3 {
		if d := r.pop(popAll("q", "g", 0, 10)); d != nil {
			for _, c := range d.Claims {
				require.True(t, c.Partition == "other" || c.First == 3, "%+v", c)
			}
		}
	}
	require.Equal(t, "unknown_partition", refused(t, s, "partition_purge", map[string]any{"queue": "q", "partition": "none"}).Code)
}
