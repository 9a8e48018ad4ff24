package frontendmcp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/format"
)

// TestNodeDrain: a node drains and does so no more, each after a plan that changes nothing; a plan of the one is no confirmation of the
// other; what the cluster refuses is told in its words.
func TestNodeDrain(t *testing.T) {
	r := newRig(t, nil)
	require.Equal(t, "not_a_cluster", refused(t, r.connect(Identity{}, nil), "node_drain", map[string]any{"node": "1"}).Code)
	c := &crew{Engine: r.engine, leads: 1, drains: map[format.Replica]bool{}}
	r.f.Attach(c)
	s := r.connect(Identity{}, nil)
	tools := toolsOf(t, s)
	for _, node := range []string{"", "x", "9", "-1"} {
		require.Equal(t, "node", refused(t, s, "node_drain", map[string]any{"node": node}).Field, node)
	}
	confirmed := func(args map[string]any) map[string]any {
		res := try(t, s, "node_drain", args)
		checked(t, tools, "node_drain", res)
		plan := res.StructuredContent.(map[string]any)
		require.Equal(t, false, plan["done"])
		require.Equal(t, plan["before"], plan["after"])
		args["confirm_token"] = plan["confirm_token"]
		return args
	}
	args := confirmed(map[string]any{"node": "3"})
	require.Empty(t, c.drains)
	undo := map[string]any{"node": "3", "undo": true, "confirm_token": args["confirm_token"]}
	require.Equal(t, "confirm_invalid", refused(t, s, "node_drain", undo).Code)
	require.Empty(t, c.drains)
	res := try(t, s, "node_drain", args)
	checked(t, tools, "node_drain", res)
	done := res.StructuredContent.(map[string]any)
	require.Equal(t, []any{true, false, true, false}, []any{done["done"], done["before"], done["after"], done["leads"]})
	require.Equal(t, map[format.Replica]bool{3: true}, c.drains)
	nodes := ask(t, s, "cluster_status", nil)["nodes"].([]any)
	for i, want := range []bool{false, false, true, false} {
		require.Equal(t, want, nodes[i].(map[string]any)["draining"], i)
	}

	c.drains[2] = true
	require.Contains(t, refused(t, s, "leader_transfer", map[string]any{"to": "2"}).Message, "drains")
	delete(c.drains, 2)
	done = ask(t, s, "node_drain", confirmed(map[string]any{"node": "3", "undo": true}))
	require.Equal(t, []any{true, true, false}, []any{done["done"], done["before"], done["after"]})
	require.False(t, c.drains[3])
	done = ask(t, s, "node_drain", confirmed(map[string]any{"node": "1"}))
	require.Equal(t, true, done["leads"], "nobody else can")

	c.err = &engine.Error{Code: engine.CodeBadRequest, Field: "node", Message: "drain: node 2 is the last voter that does not drain"}
	e := refused(t, s, "node_drain", confirmed(map[string]any{"node": "2"}))
	require.Equal(t, []string{"bad_request", "node", "drain: node 2 is the last voter that does not drain", "none"},
		[]string{e.Code, e.Field, e.Message, e.Outcome})
	c.err = &engine.Error{Code: engine.CodeOutcomeUnknown, Outcome: engine.OutcomeUnknown}
	require.Equal(t, "unknown", refused(t, s, "node_drain", confirmed(map[string]any{"node": "2"})).Outcome)
}
