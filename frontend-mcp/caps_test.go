package frontendmcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/format"
)

// long is a name as long as one may be, that JSON makes longer still.
func long(prefix string, n int) string {
	s := fmt.Sprintf("%s-%04d-", prefix, n)
	return s + strings.Repeat(`"`, 200-len(s))
}

// crowd fills a broker so that every listing has more than fits into an answer.
func (r *rig) crowd() (queue, group string) {
	queue, group = long("queue", 0), long("group", 0)
	r.configure(queue, format.QueueOptions{RetryLimit: 0, LeaseTime: 3600, Set: format.OptRetryLimit | format.OptLeaseTime})
	headers := []engine.Header{}
	for i := range 40 {
		headers = append(headers, engine.Header{Name: fmt.Sprint("h", i), Value: []byte(strings.Repeat("\\", 1000))})
	}
	for i := range 60 {
		r.do(&engine.Append{Queue: queue, Partition: long("partition", i), Messages: []engine.Message{
			{Payload: mustJSON(strings.Repeat("é\"", 30_000)), TransactionID: long("id", i), Headers: headers}, {Payload: []byte(`1`)}}})
		r.push(long("queue", i), "p", `1`)
		r.do(&engine.KV{Kind: engine.KVPut, Namespace: "ns", Key: long("key", i), Value: mustJSON(strings.Repeat(`"`, 20_000))})
		r.do(&engine.KV{Kind: engine.KVPut, Namespace: fmt.Sprint("n", i), Key: "k", Value: []byte(`1`)})
		r.do(&engine.Timer{Op: format.TimerSchedule, Queue: queue, Key: long("timer", i), Partition: long("partition", i), Delay: time.Hour,
			Message: engine.Message{Payload: []byte(`1`)}})
		r.pop(popAll(queue, long("group", i), time.Hour, 1))
	}
	for range 30 {
		d := r.pop(engine.PopRequest{Scope: engine.Scope{Queue: queue}, Group: long("failing", 0), Start: engine.Start{Kind: allStart}, Batch: 1, Partitions: 1})
		claim := d.Claims[0]
		r.do(&engine.Ack{Partition: claim.PartitionID, Group: long("failing", 0), Lease: d.Lease, HasOffset: true, Offset: claim.First,
			Status: format.AckDLQ, Reason: strings.Repeat("\\\"", 1000)})
	}
	r.pass(time.Minute)
	return queue, group
}

// TestEveryAnswerFits: with more of everything than fits, and names as long as they may be, the answer of every reading tool
// is below the cap, the standard one and the largest that can be asked for, and says that something is missing and what to do.
func TestEveryAnswerFits(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Pages, o.Search, o.KafkaClients = testPages, testSearch, testClients
		o.Settings = func() (all []Setting) {
			for i := range 400 {
				all = append(all, Setting{Key: fmt.Sprint("key.", i), Value: strings.Repeat(`"`, 100), Source: "default"})
			}
			return all
		}
	})
	r.f.rates.unlimited = true
	queue, group := r.crowd()
	s := r.connect(Identity{}, nil)
	var names []string
	for i := range 50 {
		names = append(names, long("lock", i))
		r.do(&engine.Lock{Op: format.LockAcquire, Name: names[i], Owner: strings.Repeat(`"`, 200), TTL: time.Hour})
	}
	of := func(more ...any) map[string]any {
		m := map[string]any{"queue": queue}
		for i := 0; i < len(more); i += 2 {
			m[more[i].(string)] = more[i+1]
		}
		return m
	}
	calls := map[string][]map[string]any{
		"queue_list": {{}, {"order": "age"}, {"order": "rate"}}, "queue_describe": {of()}, "partition_list": {of(), of("group", group), of("order", "name"),
			of("group", group, "order", "lag"), of("group", group, "order", "age")},
		"group_list": {{}, of()}, "group_describe": {of("group", group)}, "lag_top": {{"k": 50}, of("k", 50)}, "diagnose": {{}, of()},
		"message_peek":   {of("partition", long("partition", 1)), of("partition", long("partition", 1), "fields", "meta")},
		"message_search": {of("contains", "é", "limit", 20)},
		"message_trace":  {of("partition", long("partition", 1), "transaction_id", long("id", 1))},
		"dlq_list":       {{}, of()}, "kv_get": {{"namespace": "ns", "key": long("key", 1)}}, "kv_list": {{"namespace": "ns"}, {}},
		"timer_list": {of()}, "lock_list": {{"names": names}, {}}, "config_show": {{}}, "metrics_read": {{}, of("window_s", 3600)},
		"storage_stat": {of()}, "cluster_status": {{}}, "guide": {{}, {"topic": "lease"}}, "example": {{}}, "check": {{}}, "setup": {{"feature": "http"}},
		"explain_error": {{"error": "timeout"}}, "kafka_client": {{}, {"client": "big"}},
	}
	may := map[string]bool{"queue_list": true, "partition_list": true, "group_list": true, "lag_top": true, "message_peek": true,
		"message_search": true, "dlq_list": true, "kv_list": true, "timer_list": true, "lock_list": true, "config_show": true}
	for name, tool := range toolsOf(t, s) {
		if !tool.Annotations.ReadOnlyHint {
			continue
		}
		require.Contains(t, calls, name)
		properties, _ := tool.InputSchema.(map[string]any)["properties"].(map[string]any)
		truncated := false
		for _, args := range calls[name] {
			for _, most := range []int{0, mostRoom} {
				if _, takes := properties["max_bytes"]; most > 0 && !takes {
					continue
				} else if most > 0 {
					args["max_bytes"] = most
				}
				res := try(t, s, name, args)
				require.False(t, res.IsError, "%s: %s", name, textOf(res))
				require.LessOrEqual(t, sizeOf(t, res), max(most, defaultRoom), "%s %v", name, most)
				out := res.StructuredContent.(map[string]any)
				if out["truncated"] == true {
					truncated = true
					require.NotEmpty(t, out["hint"], name)
				}
			}
		}
		require.True(t, truncated || !may[name], "%s left nothing out", name)
	}
}

// sizeOf is the size of an answer as it is sent.
func sizeOf(t *testing.T, res *mcp.CallToolResult) int {
	t.Helper()
	all, err := json.Marshal(res)
	require.NoError(t, err)
	return len(all)
}
