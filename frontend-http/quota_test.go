package frontendhttp

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/auth"
	"queen/engine/enginetest"
)

// planned is a node whose default tenant has a plan, and the time of its rates.
func planned(t *testing.T, plan string) (*node, *atomic.Int64) {
	t.Helper()
	now := new(atomic.Int64)
	now.Store(1e9)
	plans, err := auth.ParsePlans([]byte("plans: {p: {"+plan+"}}"), "p")
	require.NoError(t, err)
	q := auth.NewQuotas(func() *auth.Plans { return plans }, func() time.Time { return time.Unix(now.Load(), 0) })
	return startWith(t, Options{Engine: engine.Limit(enginetest.NewModel(enginetest.ModelOptions{}), q), Quotas: q}), now
}

func (a answer) after(seconds string) {
	a.t.Helper()
	if got := a.header.Get("Retry-After"); got != seconds {
		a.t.Fatalf("Retry-After %q want %q", got, seconds)
	}
}

// TestRequestRate: over the rate every route but the public ones answers 429 with the seconds to wait, and refused
// requests cost nothing.
func TestRequestRate(t *testing.T) {
	n, now := planned(t, "requests_per_second: 0.1, requests_burst: 3")
	for range 3 {
		n.get("/api/v1/resources/queues").is(200)
	}
	for range 10 {
		n.get("/api/v1/resources/queues").is(429).equal(`"rate_limited"`, "code").after("10")
		n.get("/livez").is(200)
	}
	n.get("/api/v1/kv/n/k").is(429).equal(`"rate_limited"`, "error").equal(`"rate_limited"`, "reason").after("10")
	n.get("/api/v1/pop/queue/q").is(429).equal(`"rate_limited"`, "code").after("10")
	n.get("/api/v1/nowhere").is(404)
	now.Add(10)
	n.get("/api/v1/resources/queues").is(200)
	n.get("/api/v1/resources/queues").is(429)
	text := n.get("/metrics/prometheus").body
	require.Contains(t, text, `queen_quota_refused_total{limit="requests"} 13`)
}

// TestRefusedCallsGiveTheirRequestBack: what another bound of the plan denies is free.
func TestRefusedCallsGiveTheirRequestBack(t *testing.T) {
	n, _ := planned(t, "requests_per_second: 1, requests_burst: 2, messages_per_second: 1, payload_bytes: 5")
	push := func(payload string) answer {
		return n.post("/api/v1/push", `{"items":[{"queue":"q","payload":`+payload+`}]}`)
	}
	push(`1`).is(201)
	for range 5 {
		push(`2`).is(429).equal(`"rate_limited"`, "code").after("1")
		push(`"`+strings.Repeat("x", 10)+`"`).is(403).equal(`"quota_exceeded"`, "code")
	}
	n.get("/api/v1/resources/queues").is(200)
	n.get("/api/v1/resources/queues").is(429)
}

// TestKVRates: a call with a write in it is a write, timers that schedule share its bucket, transactions are free
// (S-kv-20).
func TestKVRates(t *testing.T) {
	n, now := planned(t, "kv_writes_per_second: 1, kv_reads_per_second: 1, kv_reads_burst: 2")
	write := `{"operations":[{"op":"get","ns":"n","key":"k"},{"op":"put","ns":"n","key":"k","value":1,"forever":true}]}`
	read := `{"operations":[{"op":"get","ns":"n","key":"k"},{"op":"check","ns":"n","key":"k","expect":9}]}`
	schedule := `{"operations":[{"op":"schedule","queue":"q","timerKey":"k","delayMs":99999,"payload":"MQ=="}]}`
	n.post("/api/v1/kv", write).is(200)
	n.post("/api/v1/kv", write).is(429).equal(`"rate_limited"`, "error").after("1")
	n.do("PUT", "/api/v1/kv/n/k", `{"value":2,"forever":true}`).is(429)
	n.post("/api/v1/timers", schedule).is(429).equal(`"rate_limited"`, "error").after("1")
	n.post("/api/v1/transaction", `{"kv":[{"op":"put","ns":"n","key":"k","value":3,"forever":true}]}`).is(200).equal(`true`, "success")
	n.post("/api/v1/kv", read).is(200)
	n.get("/api/v1/kv/n/k").is(200).equal(`3`, "value")
	n.get("/api/v1/kv/n/k").is(429).after("1")
	n.post("/api/v1/kv", read).is(429)
	n.do("DELETE", "/api/v1/timers/q/k", "").is(200)
	now.Add(1)
	n.post("/api/v1/timers", schedule).is(200)
	n.post("/api/v1/kv", write).is(429)
}

// TestDeletesPassEveryRate: a plan that has nothing left refuses neither the delete of a key nor the cancel of a timer
// (S-kv-21, S-tmr-16), nor do they use up what is left for others.
func TestDeletesPassEveryRate(t *testing.T) {
	n, now := planned(t, "requests_per_second: 1, requests_burst: 2, kv_writes_per_second: 0.1, kv_reads_per_second: 1")
	put := func() answer { return n.do("PUT", "/api/v1/kv/n/k", `{"value":1,"forever":true}`) }
	put().is(200)
	put().is(429).equal(`"rate_limited"`, "error")
	n.do("DELETE", "/api/v1/kv/n/k", "").is(200).equal(`true`, "applied")
	n.post("/api/v1/kv", `[{"op":"delete","ns":"n","key":"k"}]`).is(200).equal(`"absent"`, "results", 0, "reason")
	n.get("/api/v1/kv/n/k").is(429).equal(`"rate_limited"`, "error")
	for range 5 {
		n.do("DELETE", "/api/v1/kv/n/k", "").is(200).equal(`false`, "applied")
		n.do("DELETE", "/api/v1/timers/q/none", "").is(200)
	}
	now.Add(1)
	n.do("DELETE", "/api/v1/kv/n/k", `{"expect":"x"}`).is(400)
	n.post("/api/v1/kv", `[{"op":"delete","ns":"n","key":"k"},{"op":"get","ns":"n","key":"k"}]`).is(200)
	n.get("/api/v1/resources/queues").is(429)
}
