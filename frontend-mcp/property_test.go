package frontendmcp

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/format"
)

// furnish gives a node something of everything.
func (r *rig) furnish() {
	r.push("orders", "customer-1", `{"n":1}`, `{"n":2}`, `{"n":3}`)
	r.push("orders", "customer-2", `{"n":1}`)
	r.configure("jobs", format.QueueOptions{RetryLimit: 1, DelayedProcessing: 0, Set: format.OptRetryLimit})
	r.push("jobs", "a", `"bad"`, `"good"`)
	for range 2 {
		r.settle(r.pop(popAll("jobs", "workers", 0, 1)), format.AckFailed)
	}
	require.NotNil(r.t, r.pop(popAll("orders", "billing", 0, 1)))
	r.do(&engine.KV{Kind: engine.KVPut, Namespace: "ns", Key: "k1", Value: []byte(`{"v":1}`)})
	r.do(&engine.KV{Kind: engine.KVPut, Namespace: "ns", Key: "k2", Value: []byte(`2`)})
	r.do(&engine.Timer{Op: format.TimerSchedule, Queue: "orders", Key: "t1", Partition: "p", Delay: 3600e9,
		Message: engine.Message{Payload: []byte(`1`)}})
	r.do(&engine.Lock{Op: format.LockAcquire, Name: "lock-1", Owner: "me", TTL: 3600e9})
	// The first plan of a day makes the key that seals the day's confirmations, and is the only one that writes.
	c := &call{f: r.f, ctx: r.ctx, engine: r.engine}
	_, err := c.sharedKey(c.today(), true)
	require.NoError(r.t, err)
}

// digest sums up everything that a caller can see of the broker, and how far its log is.
func (r *rig) digest() string {
	r.t.Helper()
	h := sha256.New()
	add := func(v any, err error) {
		require.NoError(r.t, err)
		fmt.Fprintf(h, "%+v\n", v)
	}
	st, err := r.engine.Status(r.ctx)
	add([]any{st.Applied, st.Term}, err)
	queues, _, err := r.engine.Catalog().Queues(r.ctx, r.caller, engine.Page{Limit: 1000})
	add(queues, err)
	for _, q := range queues {
		parts, _, err := r.engine.Catalog().Partitions(r.ctx, r.caller, q.Name, 0, engine.Page{Limit: 1000})
		add(parts, err)
		for _, p := range parts {
			res, err := r.engine.Read(r.ctx, r.caller, engine.ReadRequest{At: []engine.Position{{Queue: q.Name, Partition: p.Name, Offset: p.Start}}})
			require.NoError(r.t, err)
			for _, rec := range res.Parts[0].Records {
				fmt.Fprintf(h, "%v %s %s\n", rec.Offset, rec.ID, rec.Payload)
			}
		}
		rows, _, err := r.engine.Keyed().Timers(r.ctx, r.caller, q.Name, engine.Page{Limit: 1000})
		add(rows, err)
	}
	groups, err := r.engine.Catalog().Groups(r.ctx, r.caller)
	add(groups, err)
	for _, g := range groups {
		parts, _, err := r.engine.Catalog().GroupPartitions(r.ctx, r.caller, g.Name, g.Queue, engine.Page{Limit: 1000})
		add(parts, err)
	}
	leases, err := r.engine.Inspect().Leases(r.ctx, r.caller, 1000)
	add(leases, err)
	dead, err := r.engine.Catalog().DeadLetters(r.ctx, r.caller, engine.DeadLetterFilter{Limit: 1000})
	add(len(dead), err)
	for _, ns := range []string{"ns"} {
		item, err := r.engine.Keyed().Browse(r.ctx, r.caller, engine.KVBrowse{Namespace: ns, IncludeExpired: true})
		add(item, err)
	}
	holders, err := r.engine.Keyed().Locks(r.ctx, r.caller, []string{"lock-1"})
	add(holders, err)
	if ops, ok := engine.OperationsOf(r.engine); ok {
		add(ops.Switches(), nil)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// validArgs are arguments with which every tool has something to say. dlq is the id of a dead letter, lease a live one.
func (r *rig) validArgs() map[string]map[string]any {
	dead, err := r.engine.Catalog().DeadLetters(r.ctx, r.caller, engine.DeadLetterFilter{Limit: 1})
	require.NoError(r.t, err)
	require.Len(r.t, dead, 1)
	leases, err := r.engine.Inspect().Leases(r.ctx, r.caller, 1)
	require.NoError(r.t, err)
	require.Len(r.t, leases, 1)
	return map[string]map[string]any{
		"cluster_status": {}, "diagnose": {}, "metrics_read": {"queue": "orders"}, "config_show": {}, "storage_stat": {"queue": "orders"},
		"queue_list": {"order": "depth"}, "queue_describe": {"queue": "orders"}, "partition_list": {"queue": "orders", "group": "billing"},
		"group_list": {"queue": "orders"}, "group_describe": {"queue": "orders", "group": "billing"}, "lag_top": {},
		"message_peek":   {"queue": "orders", "partition": "customer-1"},
		"message_search": {"queue": "orders", "path": "/n", "equals": 2},
		"message_trace":  {"queue": "jobs", "partition": "a", "transaction_id": dead[0].Message.TransactionID},
		"dlq_list":       {}, "kv_get": {"namespace": "ns", "key": "k1"}, "kv_list": {"namespace": "ns"}, "timer_list": {"queue": "orders"},
		"lock_list": {"prefix": "lock"},
		"guide":     {"topic": "consumer groups"}, "example": {"task": "push"}, "check": {}, "explain_error": {"error": "lease_invalid"},
		"kafka_client": {"client": "sarama", "version": "1.46"}, "setup": {"feature": "claude-code"},

		"message_push": {"queue": "orders", "partition": "customer-1",
			"messages": []any{map[string]any{"transaction_id": "t-1", "payload": map[string]any{"x": 1}}}},
		"queue_create":    {"queue": "fresh", "options": map[string]any{"leaseTime": 30}},
		"queue_configure": {"queue": "orders", "set": map[string]any{"retentionSeconds": 10}, "dry_run": false},
		"queue_delete":    {"queue": "orders"}, "group_seek": {"queue": "orders", "group": "billing", "to": "end"},
		"partition_purge": {"queue": "orders", "partition": "customer-1"},
		"group_delete":    {"queue": "orders", "group": "billing"}, "maintenance_set": {"timer_fire": false},
		"dlq_replay":     {"dlq_ids": []string{hex.EncodeToString(dead[0].ID[:])}},
		"dlq_purge":      {"queue": "jobs"},
		"kv_put":         {"namespace": "ns", "key": "k1", "value": 5},
		"kv_delete":      {"namespace": "ns", "key": "k2"},
		"timer_schedule": {"queue": "orders", "key": "t1", "delay_s": 9, "payload": 1},
		"timer_cancel":   {"queue": "orders", "key": "t1"},
		"timer_hold":     {"queue": "orders", "key": "t1", "paused": true},
		"message_take":   {"queue": "jobs", "group": "mine"},
		"message_ack": {"group": "billing", "lease_id": leases[0].Lease, "results": []any{map[string]any{
			"partition_id": digits(uint64(leases[0].PartitionID)), "offset": digits(uint64(leases[0].First)), "status": "completed"}}},
	}
}

// checked holds a result to the output schema of its tool and to the rules of results.
func checked(t *testing.T, tools map[string]*mcp.Tool, name string, res *mcp.CallToolResult) {
	t.Helper()
	if res.IsError {
		var e toolError
		require.NoError(t, json.Unmarshal([]byte(textOf(res)), &e), "%s: %s", name, textOf(res))
		require.NotEmpty(t, e.Code)
		require.Contains(t, []string{"none", "unknown", "applied"}, e.Outcome)
		return
	}
	text, err := json.Marshal(tools[name].OutputSchema)
	require.NoError(t, err)
	var schema jsonschema.Schema
	require.NoError(t, json.Unmarshal(text, &schema))
	resolved, err := schema.Resolve(nil)
	require.NoError(t, err)
	require.NoError(t, resolved.Validate(res.StructuredContent), "%s", name)
	var twin any
	require.NoError(t, json.Unmarshal([]byte(textOf(res)), &twin))
	require.Equal(t, res.StructuredContent, twin, "%s: the text is another answer than the structured content", name)
	both, err := json.Marshal(res)
	require.NoError(t, err)
	require.LessOrEqual(t, len(both), mostRoom+envelope, name)
}

func toolsOf(t *testing.T, s *mcp.ClientSession) map[string]*mcp.Tool {
	t.Helper()
	list, err := s.ListTools(t.Context(), nil)
	require.NoError(t, err)
	out := map[string]*mcp.Tool{}
	for _, x := range list.Tools {
		out[x.Name] = x
	}
	return out
}

// TestReadOnlyToolsChangeNothing calls every tool that says so, with arguments that are right and with random ones: what
// can be seen of the broker, and how far its log is, stays the same. Every answer fits its schema.
func TestReadOnlyToolsChangeNothing(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Settings = func() []Setting { return []Setting{{Key: "data", Value: "d"}} }
		o.Pages, o.Search, o.KafkaClients = testPages, testSearch, testClients
		o.Snippets = []Snippet{{Task: "push", Language: "curl", Code: "curl", Page: "quickstart"}}
	})
	r.furnish()
	r.f.rates.unlimited = true
	s := r.connect(Identity{}, nil)
	tools, valid := toolsOf(t, s), r.validArgs()
	before := r.digest()
	random := rand.New(rand.NewPCG(1, 2))
	for name, tool := range tools {
		if !tool.Annotations.ReadOnlyHint {
			continue
		}
		require.Contains(t, valid, name)
		res := try(t, s, name, valid[name])
		require.False(t, res.IsError, "%s: %s", name, textOf(res))
		checked(t, tools, name, res)
		require.Equal(t, before, r.digest(), "%s changed something", name)
		for range 30 {
			args := randomArgs(random, tool)
			checked(t, tools, name, try(t, s, name, args))
			require.Equal(t, before, r.digest(), "%s changed something with %v", name, args)
		}
	}
}

// randomArgs fills some of a tool's arguments with what may be there and what may not.
func randomArgs(random *rand.Rand, tool *mcp.Tool) map[string]any {
	args := map[string]any{}
	properties, _ := tool.InputSchema.(map[string]any)["properties"].(map[string]any)
	words := []any{"orders", "jobs", "billing", "workers", "customer-1", "a", "ns", "k1", "first", "last", "0", "2026-01-01T00:00:00Z", "",
		"\x00", "\u202e", strings.Repeat("x", 2000), "%s%n", "../../etc/passwd", "' or 1=1 --", "depth", "read", 0, 1, -1, 200, 1 << 40, 1.5, true,
		nil, []any{}, []any{"lock-1"}, map[string]any{"a": 1}}
	for name, p := range properties {
		if random.IntN(3) == 0 {
			continue
		}
		v := words[random.IntN(len(words))]
		schema, _ := p.(map[string]any)
		for range 8 { // mostly of the right kind
			switch v.(type) {
			case string:
				if schema["type"] == "string" {
					args[name] = v
				}
			case int:
				if schema["type"] == "integer" {
					args[name] = v
				}
			}
			if args[name] != nil {
				break
			}
			v = words[random.IntN(len(words))]
		}
		if args[name] == nil {
			args[name] = v
		}
	}
	return args
}

// TestDestructiveToolsPlanFirst calls every destructive tool once: nothing changes. With the token of its plan it acts,
// once; without a plan no token counts.
func TestDestructiveToolsPlanFirst(t *testing.T) {
	names := map[string]bool{}
	for _, x := range registry() {
		if x.destructive && x.name != "leader_transfer" && x.name != "node_drain" { // of which a single node can make no plan
			names[x.name] = true
		}
	}
	require.Len(t, names, 14)
	for name := range names {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.furnish()
			s := r.connect(Identity{}, nil)
			tools, args := toolsOf(t, s), r.validArgs()[name]
			before := r.digest()
			res := try(t, s, name, args)
			checked(t, tools, name, res)
			require.False(t, res.IsError, textOf(res))
			plan := res.StructuredContent.(map[string]any)
			require.Equal(t, false, plan["done"])
			require.NotEmpty(t, plan["plan"])
			require.Equal(t, before, r.digest(), "the plan changed something")

			args["confirm_token"] = "forged" + plan["confirm_token"].(string)
			require.Equal(t, "confirm_invalid", refused(t, s, name, args).Code)
			require.Equal(t, before, r.digest(), "a forged token was taken")

			args["confirm_token"] = plan["confirm_token"]
			res = try(t, s, name, args)
			checked(t, tools, name, res)
			require.False(t, res.IsError, textOf(res))
			require.Equal(t, true, res.StructuredContent.(map[string]any)["done"])
			require.NotEqual(t, before, r.digest(), "the confirmed call did nothing")

			r.target.Settle(r.engine) // what a delete leaves is cleared away behind it
			after := r.digest()
			res = try(t, s, name, args) // replayed: refused, or there is nothing left to do it to, or what is there has changed
			require.True(t, res.IsError || res.StructuredContent.(map[string]any)["done"] == false, textOf(res))
			r.target.Settle(r.engine)
			require.Equal(t, after, r.digest(), "a replayed token was taken")
		})
	}
}
