package frontendmcp

import (
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/enginetest"
)

// TestOnTheModel: the reading tools answer alike over the reference model.
func TestOnTheModel(t *testing.T) {
	r := newRig(t, nil)
	r.engine = enginetest.NewModel(enginetest.ModelOptions{Clock: r.clock})
	r.f.Attach(r.engine)
	r.push("orders", "customer-1", `{"n":1}`, `{"n":2}`)
	r.pop(engine.PopRequest{Scope: engine.Scope{Queue: "orders"}, Group: "billing", Start: engine.Start{Kind: 2}, Batch: 1})
	s := r.connect(Identity{}, nil)
	tools := toolsOf(t, s)
	for name, args := range map[string]map[string]any{"cluster_status": {}, "diagnose": {}, "queue_list": {}, "queue_describe": {"queue": "orders"},
		"partition_list": {"queue": "orders", "group": "billing"}, "group_list": {}, "group_describe": {"queue": "orders", "group": "billing"}, "lag_top": {},
		"message_peek": {"queue": "orders", "partition": "customer-1"}, "message_search": {"queue": "orders", "contains": "2"}, "dlq_list": {},
		"kv_list": {}, "timer_list": {"queue": "orders"}, "metrics_read": {}, "storage_stat": {}} {
		res := try(t, s, name, args)
		require.False(t, res.IsError, "%s: %s", name, textOf(res))
		checked(t, tools, name, res)
	}
}

// TestWalk: over every door a client lists the tools and reads what is there.
func TestWalk(t *testing.T) {
	r := newRig(t, nil)
	r.f.rates.unlimited = true
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
			parts := ask(t, s, "partition_list", map[string]any{"queue": "orders", "group": "billing"})["partitions"].([]any)
			require.Len(t, parts, 1)
			part := parts[0].(map[string]any)
			require.Equal(t, []any{"0", "1", "2"}, []any{part["first"], part["last"], part["end"]})
			require.Len(t, ask(t, s, "group_list", nil)["groups"], 1)
			one := ask(t, s, "group_describe", map[string]any{"queue": "orders", "group": "billing"})
			require.Equal(t, []int{1, 1, 1}, []int{len(one["groups"].([]any)), len(one["leases"].([]any)), len(one["behind"].([]any))})
			require.Equal(t, "billing", one["groups"].([]any)[0].(map[string]any)["group"])
			require.Empty(t, ask(t, s, "group_list", map[string]any{"group": "none"})["groups"])
			require.Empty(t, ask(t, s, "group_list", map[string]any{"queue": "orders", "group": "none"})["groups"])
			for code, args := range map[string]map[string]any{"unknown_group": {"queue": "orders", "group": "none"},
				"unknown_queue": {"queue": "none", "group": "billing"}, "bad_request": {"queue": "orders", "group": ""}} {
				require.Equal(t, code, refused(t, s, "group_describe", args).Code)
			}
			ask(t, s, "lag_top", nil)
			out := ask(t, s, "message_peek", map[string]any{"queue": "orders", "partition": "customer-1"})
			require.Equal(t, `{"n":1}`, out["messages"].([]any)[0].(map[string]any)["payload"])
			require.Equal(t, "2", out["high_watermark"])
			require.Equal(t, "unknown_queue", refused(t, s, "queue_describe", map[string]any{"queue": "none"}).Code)
		})
	}
}
