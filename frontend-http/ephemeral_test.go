package frontendhttp

import (
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/auth"
	"queen/engine/clock"
	"queen/engine/enginetest"
)

func (n *node) ephemeralPush(queue, partition string, payloads ...string) answer {
	n.t.Helper()
	items := make([]string, len(payloads))
	for i, p := range payloads {
		items[i] = `{"payload":` + p + `}`
	}
	return n.post("/api/v1/ephemeral/push", fmt.Sprintf(`{"queue":%q,"partition":%q,"messages":[%s]}`, queue, partition,
		strings.Join(items, ",")))
}

// exactly compares a body byte for byte.
func (a answer) exactly(status int, body string) answer {
	a.t.Helper()
	a.is(status)
	require.Equal(a.t, body, a.body)
	return a
}

// Goal: the shapes of push, pop and ack, byte for byte: payloads come back as they were sent, ids are opaque, an empty
// answer is 200.
func TestEphemeralShapes(t *testing.T) {
	n := start(t)
	n.post("/api/v1/ephemeral/push", `{"more":[1,{}],"messages":[{"payload": {"a":  [1, 2.50,"é"]} ,"x":1},{"payload":null}],`+
		`"queue":"q/ä","partition":null}`).exactly(201, `{"pushed":2}`)
	n.ephemeralPush("q/ä", "", `"third"`).exactly(201, `{"pushed":1}`)
	n.ephemeralPush("none", "p").exactly(201, `{"pushed":0}`)
	pop := "/api/v1/ephemeral/pop?queue=q%2F%C3%A4&group=g"
	n.get(pop+"&batch=2").exactly(200, `{"queue":"q/ä","messages":[`+
		`{"id":"e:1:Default:0","partition":"Default","payload":{"a":  [1, 2.50,"é"]},"attempts":0},`+
		`{"id":"e:1:Default:1","partition":"Default","payload":null,"attempts":0}]}`)
	n.post("/api/v1/ephemeral/ack", `{"queue":"q/ä","group":"g","acks":[{"id":"e:1:Default:0"},{"id":"e:1:Default:1","status":"retry",`+
		`"error":"boom"},{"id":"e:1:Default:0","status":null},{"id":"e:2:Default:0"}]}`).exactly(200, `{"results":[`+
		`{"id":"e:1:Default:0","outcome":"acked"},{"id":"e:1:Default:1","outcome":"redelivered"},`+
		`{"id":"e:1:Default:0","outcome":"unknown"},{"id":"e:2:Default:0","outcome":"stale"}]}`)
	n.get(pop).exactly(200, `{"queue":"q/ä","messages":[`+
		`{"id":"e:1:Default:1","partition":"Default","payload":null,"attempts":1}]}`)
	held := n.f.attached().Ephemeral().System().Bytes
	n.get(pop+"&autoAck=true").exactly(200, `{"queue":"q/ä","messages":[`+
		`{"id":"e:1:Default:2","partition":"Default","payload":"third","attempts":0}]}`)
	for n.f.attached().Ephemeral().System().Bytes == held {
		runtime.Gosched() // it is settled once the answer is known to have left, which its reader may come before
	}
	n.get(pop).exactly(200, `{"queue":"q/ä","messages":[]}`)
	n.post("/api/v1/ephemeral/ack", `{"queue":"q/ä","acks":[]}`).exactly(200, `{"results":[]}`)
	n.get("/api/v1/ephemeral/pop?queue=q%2F%C3%A4&partition=Default&group=__QUEUE_MODE__&batch=99999").
		exactly(200, `{"queue":"q/ä","messages":[`+
			`{"id":"e:1:Default:1","partition":"Default","payload":null,"attempts":0}]}`)
	n.post("/api/v1/ephemeral/ack", `{"queue":"q/ä","acks":[{"id":"e:1:Default:1"}]}`).exactly(200,
		`{"results":[{"id":"e:1:Default:1","outcome":"acked"}]}`)
}

// Goal: the shapes of declaring, listing, counting, resetting and deleting, byte for byte.
func TestEphemeralAdminShapes(t *testing.T) {
	n := start(t)
	defaults := `"maxBytes":16777216,"maxLength":10000,"policy":"reject","ttlSeconds":0,"leaseSeconds":30,"retryLimit":5`
	n.post("/api/v1/ephemeral/configure", `{"queue":"d","options":{}}`).exactly(201, `{"queue":"d","options":{`+defaults+`}}`)
	n.post("/api/v1/ephemeral/configure", `{"queue":"d","options":{"maxBytes":1000,"maxLength":3,"policy":"dropOldest","ttlSeconds":60,`+
		`"leaseSeconds":5,"retryLimit":2,"windowBuffer":{"ms":20,"count":10}},"ignored":true}`).exactly(201, `{"queue":"d","options":{`+
		`"maxBytes":1000,"maxLength":3,"policy":"dropOldest","ttlSeconds":60,"leaseSeconds":5,"retryLimit":2,`+
		`"windowBuffer":{"ms":20,"count":10}}}`)
	n.ephemeralPush("d", "a", `1`, `22`)
	n.ephemeralPush("d", "b", `3`, `4`)
	n.ephemeralPush("i", "p", `1`)
	n.get("/api/v1/ephemeral/pop?queue=d&group=g&partition=b")
	n.get("/api/v1/ephemeral/pop?queue=d")
	bytes := strconv.FormatInt(n.f.attached().Ephemeral().System().Bytes, 10)
	n.get("/api/v1/ephemeral/queues").exactly(200, `{"queues":[`+
		`{"queue":"d","tier":"declared","depth":3,"bytes":4,"partitions":2,"groups":2,"drops":{"bounds":1,"ttl":0,"retry":0},`+
		`"options":{"maxBytes":1000,"maxLength":3,"policy":"dropOldest","ttlSeconds":60,"leaseSeconds":5,"retryLimit":2,`+
		`"windowBuffer":{"ms":20,"count":10}}},`+
		`{"queue":"i","tier":"implicit","depth":1,"bytes":1,"partitions":1,"groups":0,"drops":{"bounds":0,"ttl":0,"retry":0},`+
		`"options":{`+defaults+`}}],"count":2,"cellBytes":`+bytes+`}`)
	n.get("/api/v1/ephemeral/queues/d/depth").exactly(200, `{"queue":"d","group":null,"tier":"declared","pending":3,`+
		`"partitionsPending":2,"bytes":4,"partitions":[{"partition":"a","pending":1,"bytes":2},{"partition":"b","pending":2,"bytes":2}],`+
		`"groups":[{"group":"__QUEUE_MODE__","pending":3,"skipped":0},{"group":"g","pending":2,"skipped":0}]}`)
	n.get("/api/v1/ephemeral/queues/i/depth?group=g").exactly(200, `{"queue":"i","group":"g","tier":"implicit","pending":1,`+
		`"partitionsPending":1,"bytes":1,"partitions":[{"partition":"p","pending":1,"bytes":1}],"groups":[]}`)
	n.get("/api/v1/ephemeral/queues/none/depth").exactly(404,
		`{"error":"there is no such ephemeral queue","code":"ephemeral_queue_not_found"}`)
	n.post("/api/v1/ephemeral/reset", `{"queue":"d"}`).exactly(200, `{"queue":"d","dropped":3}`)
	n.post("/api/v1/ephemeral/reset", `{"queue":"none"}`).exactly(200, `{"queue":"none","dropped":0}`)
	n.do("DELETE", "/api/v1/ephemeral/queue/d", "").exactly(200, `{"queue":"d","deleted":true,"declared":true}`)
	n.do("DELETE", "/api/v1/ephemeral/queue/i", "").exactly(200, `{"queue":"i","deleted":true,"declared":false}`)
	n.do("DELETE", "/api/v1/ephemeral/queue/i", "").exactly(200, `{"queue":"i","deleted":false,"declared":false}`)
	n.do("DELETE", "/api/v1/ephemeral/queue/a%2Fb", "").exactly(200, `{"queue":"a/b","deleted":false,"declared":false}`)
	n.get("/api/v1/ephemeral/queues").exactly(200, `{"queues":[],"count":0,"cellBytes":0}`)
}

// Goal: every failure is {"error","code"} with the code of the family, names field and limit, and writes nothing.
func TestEphemeralRefusals(t *testing.T) {
	n := start(t)
	const push, ack, configure = "/api/v1/ephemeral/push", "/api/v1/ephemeral/ack", "/api/v1/ephemeral/configure"
	many := strings.TrimSuffix(strings.Repeat(`{"payload":1},`, maxEphemeralItems+1), ",")
	for _, c := range []struct{ method, target, body, says string }{
		{"POST", push, `{"messages":[{"payload":1}]}`, "queue is missing"},
		{"POST", push, `{"queue":"q","messages":[{"payload":1},{}]}`, "message 1 has no payload"},
		{"POST", push, `{"queue":"q","messages":[1]}`, "message 0 is not an object"},
		{"POST", push, `{"queue":"q","messages":{}}`, "messages must be an array"},
		{"POST", push, `{"queue":7,"messages":[]}`, "queue must be a string"},
		{"POST", push, `{"queue":"q","messages":[` + many + `]}`, "more than 10000"},
		{"POST", push, `{"queue":"q","messages":[]} x`, "something follows"},
		{"POST", push, `[]`, "must be an object"},
		{"POST", push, ``, "must be an object"},
		{"POST", push, `{"queue":"` + strings.Repeat("n", 513) + `","messages":[{"payload":1}]}`, "512 bytes"},
		{"POST", push, `{"queue":"a\u0000","messages":[{"payload":1}]}`, "control character"},
		{"POST", push, `{"queue":"q","partition":"\u007f","messages":[{"payload":1}]}`, "partition has a control character"},
		{"GET", "/api/v1/ephemeral/pop", ``, "queue is missing"},
		{"GET", "/api/v1/ephemeral/pop?queue=q&batch=0", ``, "batch"},
		{"GET", "/api/v1/ephemeral/pop?queue=q&wait=maybe", ``, "wait"},
		{"GET", "/api/v1/ephemeral/pop?queue=q&timeout=-1", ``, "timeout"},
		{"GET", "/api/v1/ephemeral/pop?queue=q&group=%FF", ``, "UTF-8"},
		{"POST", ack, `{"queue":"q","acks":[{"status":"completed"}]}`, "ack 0 has no id"},
		{"POST", ack, `{"queue":"q","acks":[{"id":"x","status":"done"}]}`, "status of ack 0"},
		{"POST", ack, `{"acks":[]}`, "queue is missing"},
		{"POST", configure, `{"queue":"q","options":{"maxlength":1}}`, "unknown option maxlength"},
		{"POST", configure, `{"queue":"q","options":{"windowBuffer":{"millis":1}}}`, "windowBuffer.millis"},
		{"POST", configure, `{"queue":"q","options":{"windowBuffer":7}}`, "windowBuffer must be an object"},
		{"POST", configure, `{"queue":"q","options":{"maxLength":-1}}`, "maxLength"},
		{"POST", configure, `{"queue":"q","options":{"maxLength":1.5}}`, "maxLength"},
		{"POST", configure, `{"queue":"q","options":{"maxLength":"5"}}`, "maxLength"},
		{"POST", configure, `{"queue":"q","options":{"maxBytes":16777217}}`, "0 to 16777216"},
		{"POST", configure, `{"queue":"q","options":{"policy":"drop"}}`, "reject or dropOldest"},
		{"POST", configure, `{"queue":"q","options":{"policy":5}}`, "policy"},
		{"POST", configure, `{"options":{}}`, "queue is missing"},
		{"POST", "/api/v1/ephemeral/reset", `{}`, "queue is missing"},
		{"POST", "/api/v1/system/ephemeral", `{}`, "enabled"},
		{"POST", "/api/v1/system/ephemeral", `{"enabled":null}`, "enabled"},
	} {
		a := n.do(c.method, c.target, c.body).is(400)
		require.Equal(t, "ephemeral_bad_request", a.str("code"), cut(c.body))
		require.Contains(t, a.str("error"), c.says, cut(c.body))
		require.Len(t, a.json(), 2, a.body)
	}
	n.get("/api/v1/ephemeral/queues").equal(`0`, "count")
}

// Goal: a full queue, a rate and the switch answer their codes with Retry-After in whole seconds.
func TestEphemeralBusy(t *testing.T) {
	n := start(t)
	n.post("/api/v1/ephemeral/configure", `{"queue":"q","options":{"maxLength":2}}`).is(201)
	n.ephemeralPush("q", "p", "1", "2").is(201)
	a := n.ephemeralPush("q", "p", "3").is(429)
	require.Equal(t, "queue_full", a.str("code"))
	require.Equal(t, "1", a.header.Get("Retry-After"))
	n.post("/api/v1/system/ephemeral", `{"enabled":false}`).is(200).equal("false", "ephemeralEnabled")
	for _, c := range [][3]string{{"POST", "push", `{"queue":"q","messages":[{"payload":1}]}`}, {"GET", "pop?queue=q", ""},
		{"POST", "ack", `{"queue":"q","acks":[]}`}, {"POST", "configure", `{"queue":"q"}`}, {"POST", "reset", `{"queue":"q"}`},
		{"DELETE", "queue/q", ""}} {
		a := n.do(c[0], "/api/v1/ephemeral/"+c[1], c[2]).is(503)
		require.Equal(t, "ephemeral_disabled", a.str("code"), c[1])
		require.NotEmpty(t, a.header.Get("Retry-After"))
	}
	n.get("/api/v1/ephemeral/queues").is(200).equal("2", "queues", 0, "depth")
	n.post("/api/v1/system/ephemeral", `{"enabled":true}`).is(200).equal("true", "ephemeralEnabled")
	n.get("/api/v1/ephemeral/pop?queue=q").is(200).equal("1", "messages", 0, "payload")
	text := n.get("/metrics/prometheus")
	require.Contains(t, text.body, `queen_ephemeral_messages_total{what="pushed"} 2`)
	require.Contains(t, text.body, `queen_ephemeral_dropped_total{cause="bounds"} 0`)
}

// small is an engine whose ephemeral queues have little memory.
type small struct {
	engine.Engine
	queues engine.Ephemeral
}

func (s small) Ephemeral() engine.Ephemeral { return s.queues }

// Goal: a tenant's rate is rate_limited with the seconds to wait, after the queue's bounds; the node's memory is
// ephemeral_unavailable and takes nothing from the rate.
func TestEphemeralLimits(t *testing.T) {
	c := clock.NewFake(1_700_000_000_000_000)
	plans, err := auth.ParsePlans([]byte("plans: {p: {ephemeral_messages_per_second: 2, ephemeral_messages_burst: 4, payload_bytes: 9500, parked_pops: 1}}"), "p")
	require.NoError(t, err)
	quotas := auth.NewQuotas(func() *auth.Plans { return plans }, func() time.Time { return time.UnixMicro(c.Now()) })
	queues := engine.NewEphemeral(engine.EphemeralOptions{Clock: c, Rows: enginetest.NewAdminRows(), MaxBytes: 10_000})
	model := enginetest.NewModel(enginetest.ModelOptions{Clock: c})
	n := startWith(t, Options{Engine: engine.Limit(small{model, queues}, quotas)})
	n.post("/api/v1/ephemeral/configure", `{"queue":"full","options":{"maxLength":1}}`).is(201)
	n.ephemeralPush("q", "p", "1", "2", "3", "4").is(201)
	a := n.ephemeralPush("q", "p", "1", "2", "3", "4").is(429)
	require.Equal(t, "rate_limited", a.str("code"))
	require.Equal(t, "2", a.header.Get("Retry-After"))
	require.Equal(t, "queue_full", n.ephemeralPush("full", "p", "1", "2").is(429).str("code"))
	c.Advance(time.Second)
	for range 3 {
		a = n.ephemeralPush("q", "p", `"`+strings.Repeat("x", 9_000)+`"`).is(503)
		require.Equal(t, "ephemeral_unavailable", a.str("code"))
		require.NotEmpty(t, a.header.Get("Retry-After"))
	}
	n.ephemeralPush("q", "p", "5", "6").is(201)
	require.Equal(t, "ephemeral_quota_exceeded", n.ephemeralPush("q", "p", `"`+strings.Repeat("x", 9_999)+`"`).is(403).str("code"))
	waits := n.dial()
	waits.send(request("GET", "/api/v1/ephemeral/pop?queue=w&wait=true", ""))
	waitFor(t, "parked", func() bool { return queues.System().Parked == 1 })
	require.Equal(t, "ephemeral_quota_exceeded", n.get("/api/v1/ephemeral/pop?queue=w&wait=true").is(403).str("code"))
	c.Advance(30 * time.Second)
	waits.receive().exactly(200, `{"queue":"w","messages":[]}`)
}

// Goal: a waiting pop is answered by the push that brings its message; a client that is gone loses nothing; shutdown
// answers with an empty list.
func TestEphemeralLongPoll(t *testing.T) {
	n := start(t)
	const pop = "/api/v1/ephemeral/pop?queue=inbox&wait=true&timeout=20000"
	eng := n.f.attached().Ephemeral()
	waits := func(k int) {
		waitFor(t, "parked", func() bool { return eng.System().Parked == k })
	}
	first := n.dial()
	first.send(request("GET", pop, ""))
	waits(1)
	n.ephemeralPush("inbox", "p", `{"reply":1}`).is(201)
	first.receive().exactly(200, `{"queue":"inbox","messages":[{"id":"e:1:p:0","partition":"p","payload":{"reply":1},"attempts":0}]}`)

	gone := n.dial()
	gone.send(request("GET", pop, ""))
	waits(1)
	require.NoError(t, gone.Close())
	waits(0)
	n.ephemeralPush("inbox", "p", `2`).is(201)
	n.get(pop).exactly(200, `{"queue":"inbox","messages":[{"id":"e:1:p:1","partition":"p","payload":2,"attempts":0}]}`)

	n.get("/api/v1/ephemeral/pop?queue=inbox&wait=true&timeout=1").exactly(200, `{"queue":"inbox","messages":[]}`)
	last := n.dial()
	last.send(request("GET", pop, ""))
	waits(1)
	n.stop()
	last.receive().exactly(200, `{"queue":"inbox","messages":[]}`)
}

// Goal: tenants share names and see nothing of each other: a foreign queue is missing, a foreign id unknown (S-ten-1).
func TestEphemeralTenants(t *testing.T) {
	n := startWith(t, Options{Tenancy: true, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	const a, b = "x-queen-tenant: aaaaaaaa-0000-0000-0000-000000000001", "x-queen-tenant: bbbbbbbb-0000-0000-0000-000000000002"
	n.post("/api/v1/ephemeral/configure", `{"queue":"q","options":{"maxLength":1}}`, a).is(201)
	n.post("/api/v1/ephemeral/push", `{"queue":"q","messages":[{"payload":"a"}]}`, a).is(201)
	n.get("/api/v1/ephemeral/queues", b).exactly(200, `{"queues":[],"count":0,"cellBytes":`+
		strconv.FormatInt(n.f.attached().Ephemeral().System().Bytes, 10)+`}`)
	n.get("/api/v1/ephemeral/queues/q/depth", b).is(404)
	n.get("/api/v1/ephemeral/pop?queue=q", b).exactly(200, `{"queue":"q","messages":[]}`)
	n.post("/api/v1/ephemeral/push", `{"queue":"q","messages":[{"payload":"b1"},{"payload":"b2"}]}`, b).is(201)
	got := n.get("/api/v1/ephemeral/pop?queue=q", a).is(200).equal(`"a"`, "messages", 0, "payload")
	id := got.str("messages", 0, "id")
	n.post("/api/v1/ephemeral/ack", `{"queue":"q","acks":[{"id":"`+id+`"}]}`, b).equal(`"unknown"`, "results", 0, "outcome")
	n.post("/api/v1/ephemeral/reset", `{"queue":"q"}`, b).equal("2", "dropped")
	n.do("DELETE", "/api/v1/ephemeral/queue/q", "", b).equal("false", "declared")
	n.post("/api/v1/ephemeral/ack", `{"queue":"q","acks":[{"id":"`+id+`"}]}`, a).equal(`"acked"`, "results", 0, "outcome")
	n.get("/api/v1/ephemeral/queues", a).equal(`"declared"`, "queues", 0, "tier")
}

// Goal: durable and ephemeral queues of one name are different objects (S-eph-16).
func TestEphemeralIsNotDurable(t *testing.T) {
	n := start(t)
	n.push1("q", "p", "id", `"durable"`)
	n.ephemeralPush("q", "p", `"ephemeral"`).is(201)
	n.get("/api/v1/ephemeral/pop?queue=q&batch=9").is(200).equal(`[{"id":"e:1:p:0","partition":"p","payload":"ephemeral","attempts":0}]`, "messages")
	n.get("/api/v1/pop/queue/q?subscriptionMode=all").is(200).equal(`"durable"`, "messages", 0, "data")
}

// BenchmarkEphemeralRequestReply is a round trip of two clients over loopback HTTP: a request, and a reply to the inbox
// on which the requester waits. It prints the median; it is not judged.
func BenchmarkEphemeralRequestReply(b *testing.B) {
	n := start(b)
	responder, requester := n.dial(), n.dial()
	pushBody := func(queue string) string {
		return request("POST", "/api/v1/ephemeral/push", `{"queue":"`+queue+`","messages":[{"payload":{"replyTo":"inbox"}}]}`)
	}
	ask, answerIt := pushBody("requests"), pushBody("inbox")
	take := func(queue string) string {
		return request("GET", "/api/v1/ephemeral/pop?queue="+queue+"&wait=true&autoAck=true&timeout=300000", "")
	}
	done := make(chan struct{})
	rounds := b.N
	go func() {
		defer close(done)
		for range rounds {
			responder.send(take("requests"))
			responder.receive()
			responder.send(answerIt)
			responder.receive()
		}
	}()
	trips := make([]time.Duration, 0, rounds)
	b.ResetTimer()
	for range rounds {
		began := time.Now()
		requester.send(ask)
		requester.receive()
		requester.send(take("inbox"))
		requester.receive()
		trips = append(trips, time.Since(began))
	}
	<-done
	slices.Sort(trips)
	b.ReportMetric(float64(trips[len(trips)/2].Nanoseconds())/1e3, "us-p50")
}
