package frontendhttp

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine/enginetest/memnode"
)

// startNode serves a real node on a file system in memory.
func startNode(t testing.TB) *node {
	target := memnode.Open(memnode.Options{Seed: 1})
	t.Cleanup(target.Close)
	return startWith(t, Options{Engine: target.Engine})
}

// Goal: a dry run counts and shows what the job then moves; the job tells how it ended, and nobody else's.
func TestRedriveJobOverHTTP(t *testing.T) {
	n, _ := furnished(t)
	dry := n.post("/api/v1/dlq/redrive", `{"queue":"q","error":"bad","dryRun":true}`).is(200)
	dry.equal(`3`, "total").equal(`"first"`, "sample", 0, "transactionId").equal(`true`, "dryRun")
	n.get("/api/v1/dlq?queue=q").is(200).equal(`3`, "total")
	id := n.post("/api/v1/dlq/redrive", `{"queue":"q","consumerGroup":"g"}`, "Idempotency-Key: k").is(202).str("id")
	n.redriven(id).equal(`3`, "moved").equal(`"all"`, "target").equal(`0`, "remaining").equal(`null`, "lastError")
	n.get("/api/v1/dlq?queue=q").is(200).equal(`0`, "total")
	require.Equal(t, id, n.post("/api/v1/dlq/redrive", `{"queue":"q","consumerGroup":"g"}`, "Idempotency-Key: k").is(202).str("id"))
	n.post("/api/v1/dlq/redrive", `{"queue":"q"}`, "Idempotency-Key: k").is(422)
	n.get("/api/v1/dlq/redrive/none").is(404)
	for _, bad := range []string{`{}`, `{"queue":"q","ratePerSecond":0}`, `{"queue":"q","ratePerSecond":99999999}`,
		`{"queue":"q","from":"soon"}`, `{"queue":"q","from":"2026-01-02","to":"2026-01-01"}`} {
		n.post("/api/v1/dlq/redrive", bad).is(400)
	}
	n.post("/api/v1/dlq/redrive", `{"queue":"unknown"}`).is(404)
	start(t).post("/api/v1/dlq/redrive", `{"queue":"q"}`).is(501).equal(`"not_built"`, "code")
}

// Goal: with target group-only only the group that gave a message up is handed it again, by a replay and by a job; a reader
// by offset sees it, with headers that tell where it was. What is no target is refused, and so is one that nobody would get.
func TestRedriveGroupOnlyOverHTTP(t *testing.T) {
	n := startNode(t)
	n.push1("q", "p", "a", `1`)
	n.push1("q", "p", "b", `2`)
	pop := func(group string) answer {
		return n.get("/api/v1/pop/queue/q?batch=1&consumerGroup=" + group + "&subscriptionMode=all")
	}
	settle := func(group, status string) answer {
		p := pop(group).is(200)
		n.post("/api/v1/ack", `{"transactionId":"`+p.str("messages", 0, "transactionId")+`","partitionId":"`+p.str("partitionId")+
			`","status":"`+status+`","leaseId":"`+p.str("leaseId")+`","consumerGroup":"`+group+`"}`).is(200).equal(`true`, 0, "success")
		return p
	}
	for range 2 {
		settle("poor", "dlq")
		settle("rich", "completed")
	}
	dead := n.get("/api/v1/dlq?queue=q").is(200).equal(`2`, "total") // the newest first
	replay := "/api/v1/dlq/" + dead.str("messages", 1, "id") + "/replay"
	refused := n.post("/api/v1/dlq/redrive", `{"queue":"q","target":"poor"}`).is(400)
	require.Equal(t, "target must be all or group-only", refused.str("error"))
	require.Equal(t, refused.str("error"), n.post(replay, `{"target":""}`).is(400).str("error"))
	n.post(replay, `{"target":"group-only","queue":"other"}`).is(400)
	n.post("/api/v1/dlq/redrive", `{"queue":"q","consumerGroup":"nobody","target":"group-only"}`).is(404).equal(`"unknown_group"`, "code")
	n.post("/api/v1/dlq/redrive", `{"queue":"q","target":"group-only","dryRun":true}`).is(200).equal(`2`, "total").
		equal(`"group-only"`, "target")
	n.get("/api/v1/dlq?queue=q").is(200).equal(`2`, "total")

	n.post(replay, `{"target":"group-only"}`).is(200).equal(`"moved"`, "result")
	id := n.post("/api/v1/dlq/redrive", `{"queue":"q","target":"group-only"}`).is(202).equal(`"group-only"`, "target").str("id")
	n.redriven(id).equal(`1`, "moved").equal(`"group-only"`, "target")
	pop("rich").is(204)
	for i := range 2 {
		p := settle("poor", "completed")
		p.equal(fmt.Sprint(i+1), "messages", 0, "data").equal(fmt.Sprintf(`"%d"`, i), "messages", 0, "headers", 1, "value")
		p.equal(`{"name":"queen-only-group","value":"poor"}`, "messages", 0, "headers", 3)
	}
	pop("poor").is(204)
	raw := n.get("/api/v1/fetch/raw?queue=q&partition=p&offset=3").is(200)
	require.Equal(t, "1", raw.header.Get("Queen-H-queen-original-offset"))
}

// redriven waits until a job is over.
func (n *node) redriven(id string) answer {
	n.t.Helper()
	end := time.Now().Add(patience)
	for n.get("/api/v1/dlq/redrive/"+id).is(200).str("state") == "running" {
		require.True(n.t, time.Now().Before(end), "the job does not end")
		runtime.Gosched()
	}
	return n.get("/api/v1/dlq/redrive/" + id).is(200)
}

// Goal: what is switched off answers 503 with Retry-After in its family's shape; reads, deletes and cancels go on.
func TestKVTimersSwitch(t *testing.T) {
	n := startNode(t)
	const put = `{"operations":[{"op":"put","ns":"n","key":"k","value":1,"forever":true}]}`
	const schedule = `{"operations":[{"op":"schedule","queue":"q","timerKey":"k","delayMs":9999,"payload":"MQ=="}]}`
	n.post("/api/v1/kv", put).is(200)
	n.post("/api/v1/timers", schedule).is(200)
	n.post("/api/v1/system/kv-timers", `{"kv":false,"timersSchedule":false}`).is(200).equal(`false`, "kvEnabled").
		equal(`false`, "timersScheduleEnabled").equal(`true`, "timersFireEnabled")
	refused := n.post("/api/v1/kv", put).is(503).equal(`"kv_disabled"`, "error")
	require.NotEmpty(t, refused.header.Get("Retry-After"))
	require.NotEmpty(t, n.post("/api/v1/timers", schedule).is(503).equal(`"timers_disabled"`, "error").header.Get("Retry-After"))
	n.get("/api/v1/kv/n/k").is(200)
	n.do("DELETE", "/api/v1/kv/n/k", "").is(200)
	n.do("DELETE", "/api/v1/timers/q/k", "").is(200)
	n.post("/api/v1/push", `{"items":[{"queue":"q","payload":1}]}`).is(201)
	n.post("/api/v1/system/kv-timers", `{}`).is(400)
	n.post("/api/v1/system/kv-timers", `{"kv":true,"timersSchedule":true}`).is(200).equal(`true`, "kvEnabled")
	n.post("/api/v1/kv", put).is(200)
	n.post("/api/v1/timers", schedule).is(200)
}

// atNode is a window around the clock of startNode's node.
const atNode = "?from=2023-11-14T22:00:00Z&to=2023-11-14T22:30:00Z"

// Goal: what calls did comes back in buckets, of the chosen queues only; bad windows are refused.
func TestAnalytics(t *testing.T) {
	n, _ := furnished(t)
	n.push1("other", "p", "x", `1`)
	ops := n.get("/api/v1/analytics/queue-ops" + atNode + "&queue=q").is(200)
	ops.equal(`["q"]`, "queues").equal(`1`, "bucketMinutes").equal(`5`, "series", 0, "pushMessages").
		equal(`3`, "series", 0, "ackFailed").equal(`0`, "series", 0, "avgLagMs")
	n.get("/api/v1/status"+atNode).is(200).equal(`6`, "throughput", 0, "ingested").equal(`2`, "queues", "total")
	n.get("/api/v1/status"+atNode+"&queue=other").is(200).equal(`1`, "throughput", 0, "ingested").equal(`1`, "queues", "total")
	n.get("/api/v1/status/analytics"+atNode+"&interval=hour").is(200).equal(`6`, "dataPoints", 0, "messages").
		equal(`"2023-11-14T22:00:00.000000Z"`, "dataPoints", 0, "timestamp")
	n.get("/api/v1/analytics/workload"+atNode+"&groupBy=queue").is(200).equal(`"queue"`, "groupBy")
	n.get("/api/v1/analytics/workload?groupBy=color").is(400).equal(`"bad groupBy"`, "error")
	n.get("/api/v1/analytics/queue-ops?from=2024-01-02&to=2024-01-01").is(400)
	n.get("/api/v1/status/analytics?interval=year").is(400)
	n.get("/api/v1/status/queues?namespace=none").is(200).equal(`[]`, "queues")
	n.get("/api/v1/status/queues?limit=1&offset=1").is(200).equal(`1`, "pagination", "offset")
	start(t).get("/api/v1/status").is(501)
}

// Goal: the lag of deliveries is what it was, on average and at most, where something was delivered; what was not is not
// told as 0.
func TestQueueLag(t *testing.T) {
	n, c := startNodeOn(t)
	n.push1("q", "p", "a", `1`)
	c.Advance(3 * time.Second)
	n.push1("q", "p", "b", `2`)
	c.Advance(time.Second)
	n.get("/api/v1/pop/queue/q?consumerGroup=g&subscriptionMode=all").is(200)
	c.Advance(time.Minute)
	n.push1("q", "p", "c", `3`)
	n.push1("idle", "p", "a", `1`)
	lag := n.get("/api/v1/analytics/queue-lag").is(200)
	lag.equal(`"q"`, 0, "queueName").equal(`2`, 0, "popCount").equal(`2500`, 0, "avgLagMs").equal(`4000`, 0, "maxLagMs").
		equal(`1`, 0, "bucketMinutes").equal(`"2026-11-29T10:00:00.000000Z"`, 0, "bucketTime").lacks(1)
	n.get("/api/v1/analytics/queue-ops").is(200).equal(`2500`, "series", 0, "avgLagMs").equal(`null`, "series", 1, "avgLagMs")
	n.get("/api/v1/analytics/queue-lag?from=2026-11-30&to=2026-11-29").is(400)
	detail := n.get("/api/v1/status/queues/q").is(200)
	detail.equal(`"q"`, "queue", "name").equal(`3`, "partitions", 0, "messages", "nextOffset").equal(`3`, "totals", "total").
		equal(`3`, "totals", "pending")
	n.get("/api/v1/status/queues/none").is(404).equal(`"Queue not found"`, "error")
}
