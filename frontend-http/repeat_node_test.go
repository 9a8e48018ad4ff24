package frontendhttp

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/vfs"
)

// startNodeOn serves a node of one, whose time moves by hand.
func startNodeOn(t *testing.T) (*node, *clock.Fake) {
	t.Helper()
	c := clock.NewFake(time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC).UnixMicro())
	e, err := engine.OpenLocal(engine.Config{FS: vfs.NewMem(), Clock: c, Rand: clock.NewFakeRand(1), Dir: "data",
		SegmentBytes: 1 << 20, PoolReady: 1, SweepEvery: 1000 * time.Hour})
	require.NoError(t, err)
	t.Cleanup(func() { _ = e.Close(context.Background()) })
	return startWith(t, Options{Engine: e, Clock: c}), c
}

// TestRepeatsUnderAKey: every keyed call of dead letters and transactions answers a repeat byte by byte as it answered
// first, on the engine that keeps the answers in its state.
func TestRepeatsUnderAKey(t *testing.T) {
	n, _ := startNodeOn(t)
	file := func(queue string, ids ...string) (partition string) {
		for _, id := range ids {
			n.push1(queue, "p", id, `{"n":1}`)
			p := n.get("/api/v1/pop/queue/" + queue + "/partition/p?consumerGroup=g&subscriptionMode=all").is(200)
			partition = p.str("partitionId")
			n.post("/api/v1/ack", fmt.Sprintf(`{"transactionId":%q,"partitionId":%q,"leaseId":%q,"consumerGroup":"g","status":"dlq"}`,
				id, partition, p.str("leaseId"))).is(200).equal(`true`, 0, "dlq")
		}
		return partition
	}
	p := file("q", "a", "b", "c", "d")
	letter := n.get("/api/v1/dlq?queue=q").is(200).str("messages", 3, "id") // the oldest: a's
	for i, c := range []struct {
		method, target, body string
		status               int
	}{
		{"POST", "/api/v1/dlq/" + letter + "/replay", `{"partition":"elsewhere"}`, 200},
		{"POST", "/api/v1/messages/" + p + "/b/retry", `{}`, 200},
		{"DELETE", "/api/v1/messages/" + p + "/c", ``, 200},
		{"DELETE", "/api/v1/dlq?queue=q", ``, 200},
		{"POST", "/api/v1/transaction", `{"operations":[{"type":"push","queue":"t","payload":1}]}`, 200},
		{"POST", "/api/v1/transaction", `{"kv":[{"op":"put","ns":"n","key":"k","value":1,"forever":true,"expect":7,"required":true}]}`, 200},
		{"POST", "/api/v1/transaction", `{"kv":[{"op":"get","ns":"n","key":"k"}]}`, 200},
	} {
		key := fmt.Sprint("Idempotency-Key: ", i)
		first := n.do(c.method, c.target, c.body, key).is(c.status)
		file("q", fmt.Sprint("later", i)) // what a repeat must not touch
		if again := n.do(c.method, c.target, c.body, key).is(c.status); again.body != first.body {
			t.Errorf("%s %s\nfirst %s\nagain %s", c.method, c.target, first.body, again.body)
		}
	}
	if left := n.get("/api/v1/dlq?queue=q").is(200).num("total"); left != 4 {
		t.Errorf("%d dead letters are left of those filed after the purge", left)
	}
	n.do("DELETE", "/api/v1/dlq?queue=other", "", "Idempotency-Key: 3").is(422)
}

// TestCycleKeepsDuplicates (S-str-8): a sink message whose id is in the window is a duplicate, and the cycle takes place.
func TestCycleKeepsDuplicates(t *testing.T) {
	n, _ := startNodeOn(t)
	n.push1("src", "p", "a", `1`)
	n.push1("sink", "Default", "w1", `{"sum":1}`)
	m := n.get("/api/v1/pop/queue/src?consumerGroup=g&subscriptionMode=all").is(200)
	id := n.post("/streams/v1/queries", `{"name":"s","source_queue":"src","sink_queue":"sink","config_hash":"h"}`).is(200).str("query_id")
	a := n.post("/streams/v1/cycle", fmt.Sprintf(`{"query_id":%q,"partition_id":%q,"consumer_group":"g",
		"state_ops":[{"type":"upsert","key":"k","value":2}],
		"push_items":[{"queue":"sink","transactionId":"w1","payload":{"sum":1}},{"queue":"sink","messageId":"w2","payload":{"sum":2}}],
		"ack":{"transactionId":"a","leaseId":%q,"status":"completed"}}`, id, m.str("partitionId"), m.str("leaseId"))).is(200)
	a.equal(`true`, "success").equal(`"duplicate"`, "push_results", 0, "status").equal(`0`, "push_results", 0, "baseOffset").
		equal(`"queued"`, "push_results", 1, "status").equal(`1`, "push_results", 1, "baseOffset").equal(`true`, "ack_result", "success")
	got := n.post("/api/v1/fetch", `{"entries":[{"queue":"sink","offset":0}]}`).is(200)
	got.equal(`"w2"`, "entries", 0, "records", 1, "transactionId").equal(`2`, "entries", 0, "highWatermark")
	n.post("/streams/v1/state/get", fmt.Sprintf(`{"query_id":%q,"partition_id":%q}`, id, m.str("partitionId"))).is(200).
		equal(`2`, "rows", 0, "value")
}
