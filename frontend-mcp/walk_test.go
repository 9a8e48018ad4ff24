package frontendmcp

import (
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"queen/engine"
)

// TestWalk: over every door a client lists the tools and reads what is there.
func TestWalk(t *testing.T) {
	r := newRig(t, nil)
	r.push("orders", "customer-1", `{"n":1}`, `{"n":2}`)
	r.pop(engine.PopRequest{Scope: engine.Scope{Queue: "orders"}, Group: "billing", Start: engine.Start{Kind: 2}, Batch: 1})
	addr := r.listen()
	for name, s := range map[string]*mcp.ClientSession{"memory": r.connect(Identity{}, nil), "http": r.overHTTP(addr, "/mcp"),
		"readonly": r.overHTTP(addr, "/mcp/readonly")} {
		t.Run(name, func(t *testing.T) {
			tools, err := s.ListTools(r.ctx, nil)
			require.NoError(t, err)
			require.NotEmpty(t, tools.Tools)
			require.Equal(t, true, ask(t, s, "cluster_status", nil)["can_write"])
			require.EqualValues(t, 1, ask(t, s, "queue_list", nil)["total"])
			require.NotEmpty(t, ask(t, s, "queue_describe", map[string]any{"queue": "orders"})["options"])
			require.Len(t, ask(t, s, "partition_list", map[string]any{"queue": "orders", "group": "billing"})["partitions"], 1)
			require.Len(t, ask(t, s, "group_list", nil)["groups"], 1)
			ask(t, s, "group_describe", map[string]any{"queue": "orders", "group": "billing"})
			ask(t, s, "lag_top", nil)
			out := ask(t, s, "message_peek", map[string]any{"queue": "orders", "partition": "customer-1"})
			require.Equal(t, `{"n":1}`, out["messages"].([]any)[0].(map[string]any)["payload"])
			require.Equal(t, "2", out["high_watermark"])
			require.Equal(t, "unknown_queue", refused(t, s, "queue_describe", map[string]any{"queue": "none"}).Code)
		})
	}
}
