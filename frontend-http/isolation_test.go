package frontendhttp

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/auth"
	"queen/engine/clock"
	"queen/engine/enginetest"
	"queen/engine/vfs"
)

// world is one tenant's everything, under names that the other tenant uses too. mark is in every value, in the name of a
// queue, an ephemeral queue, a consumer group, a key, a lock, a timer, a trace and a stream of its own, in what a redrive job
// looks for, and nowhere else.
type world struct {
	n    *node
	auth string
	mark string
	// ids of the world, by their placeholder in a request.
	ids map[string]string
}

func (w *world) do(method, target, body string) answer {
	w.n.t.Helper()
	return w.n.do(method, target, body, "Authorization: "+w.auth)
}

// try calls a route that the engine may not have yet.
func (w *world) try(method, target, body string) (answer, bool) {
	w.n.t.Helper()
	a := w.do(method, target, body)
	if a.status >= 300 && a.status != 501 {
		w.n.t.Fatalf("%s %s: %d %s", method, target, a.status, cut(a.body))
	}
	return a, a.status < 300
}

// newWorld furnishes a tenant.
func newWorld(n *node, as, mark string) *world {
	w := &world{n: n, auth: as, mark: mark, ids: map[string]string{}}
	for _, queue := range []string{"q", "only-" + mark} {
		w.do("POST", "/api/v1/configure", `{"queue":"`+queue+`","namespace":"ns","task":"`+mark+`"}`).is(200)
		for i := range 6 {
			w.do("POST", "/api/v1/push", fmt.Sprintf(`{"items":[{"queue":%q,"partition":"p","transactionId":"t%d","payload":{"v":%q}}]}`,
				queue, i, mark)).is(201)
		}
	}
	for i := range 3 {
		p := w.do("GET", "/api/v1/pop/queue/q?consumerGroup=g&subscriptionMode=all&leaseSeconds=60", "").is(200)
		w.ids["%P"], w.ids["%L"], w.ids["%M"] = p.str("partitionId"), p.str("leaseId"), p.str("messages", 0, "id")
		if i < 2 {
			w.do("POST", "/api/v1/ack", fmt.Sprintf(`{"transactionId":"t%d","partitionId":%q,"leaseId":%q,"consumerGroup":"g",`+
				`"status":"dlq","error":"why %s"}`, i, w.ids["%P"], w.ids["%L"], mark)).is(200).equal(`true`, 0, "success")
		}
	}
	w.startRedrive()
	w.ids["%D"] = w.do("GET", "/api/v1/dlq?queue=q", "").is(200).str("messages", 0, "id")
	w.do("GET", "/api/v1/pop/queue/q?consumerGroup=only-"+mark+"&subscriptionMode=all&leaseSeconds=60", "").is(200)
	for _, queue := range []string{"e", "only-" + mark} {
		w.do("POST", "/api/v1/ephemeral/configure", `{"queue":"`+queue+`","options":{"maxLength":50}}`).is(201)
		w.do("POST", "/api/v1/ephemeral/push", fmt.Sprintf(`{"queue":%q,"partition":"p","messages":[{"payload":{"v":%q}},{"payload":%[2]q},`+
			`{"payload":%[2]q}]}`, queue, mark)).is(201)
	}
	w.ids["%E"] = w.do("GET", "/api/v1/ephemeral/pop?queue=e&group=g", "").is(200).str("messages", 0, "id")
	for _, key := range []string{"k", "only-" + mark} {
		w.try("PUT", "/api/v1/kv/n/"+key, `{"value":"`+mark+`","forever":true}`)
		w.try("POST", "/api/v1/timers", `{"operations":[{"op":"schedule","queue":"q","timerKey":"`+key+`","delayMs":9999999,`+
			`"payload":"bWFyaw==","txn":"`+mark+`"}]}`)
		w.try("POST", "/api/v1/traces", `{"transactionId":"t0","partitionId":"`+w.ids["%P"]+`","data":"`+mark+`","traceNames":["`+key+`"]}`)
		if a, ok := w.try("POST", "/api/v1/locks", `{"operations":[{"op":"acquire","name":"`+key+`","ttlSeconds":600,"owner":"`+mark+`"}]}`); ok {
			w.ids["%T"] = fmt.Sprint(a.at("results", 0, "token"))
		}
		if a, ok := w.try("POST", "/streams/v1/queries", `{"name":"`+key+`","source_queue":"q","config_hash":"h"}`); ok {
			w.ids["%Q"] = a.str("query_id")
			w.do("POST", "/streams/v1/cycle", w.fill(`{"query_id":"%Q","partition_id":"%P","state_ops":[{"type":"upsert","key":"s",`+
				`"value":"`+mark+`"}]}`)).is(200).equal(`true`, "success")
		}
	}
	return w
}

// startRedrive starts a job over both dead letters, which has moved the first and waits for the clock, that stands still.
func (w *world) startRedrive() {
	w.ids["%J"] = "none"
	job, ok := w.try("POST", "/api/v1/dlq/redrive", `{"queue":"q","error":"why `+w.mark+`","ratePerSecond":1}`)
	if !ok {
		return
	}
	job.equal(`2`, "total")
	w.ids["%J"] = job.str("id")
	waitFor(w.n.t, "the job moves one", func() bool {
		return w.do("GET", "/api/v1/dlq/redrive/"+w.ids["%J"], "").is(200).num("moved") == 1
	})
}

// fill puts the ids of a world into a request.
func (w *world) fill(s string) string {
	for name, id := range w.ids {
		s = strings.ReplaceAll(s, name, id)
	}
	return s
}

// attacks are requests beyond the examples of the table: the ones that change or read what ids and names lead to.
var attacks = []struct{ method, target, body string }{
	{"POST", "/api/v1/ack", `{"transactionId":"t2","partitionId":"%P","leaseId":"%L","consumerGroup":"g","status":"completed"}`},
	{"POST", "/api/v1/ack", `{"transactionId":"t5","partitionId":"%P","consumerGroup":"g","status":"completed"}`},
	{"POST", "/api/v1/ack/batch", `{"acknowledgments":[{"transactionId":"t2","partitionId":"%P","leaseId":"%L","status":"dlq"}],"consumerGroup":"g"}`},
	{"POST", "/api/v1/lease/%L/extend", `{"seconds":3600}`}, {"POST", "/api/v1/lease/%L/release", ""}, {"GET", "/api/v1/leases", ""},
	{"POST", "/api/v1/partitions/purge", `{"queue":"q","partition":"p"}`},
	{"GET", "/api/v1/messages/%P/t0", ""}, {"GET", "/api/v1/messages/%P/%M", ""}, {"DELETE", "/api/v1/messages/%P/t0", ""},
	{"POST", "/api/v1/messages/%P/t0/retry", `{}`}, {"POST", "/api/v1/dlq/%D/replay", `{}`}, {"DELETE", "/api/v1/dlq?queue=q", ""},
	{"GET", "/api/v1/dlq", ""}, {"GET", "/api/v1/messages", ""}, {"GET", "/api/v1/messages?queue=q&partition=p", ""},
	{"DELETE", "/api/v1/consumer-groups/g", ""}, {"DELETE", "/api/v1/consumer-groups/g/queues/q", ""},
	{"DELETE", "/api/v1/resources/queues/q", ""},
	{"POST", "/api/v1/configure", `{"queue":"q","mode":"replace","options":{"encryptionEnabled":true,"leaseTime":1}}`},
	{"POST", "/api/v1/push", `{"items":[{"queue":"q","partition":"p","transactionId":"t0","payload":0}]}`},
	{"GET", "/api/v1/pop/queue/q?consumerGroup=g", ""}, {"GET", "/api/v1/pop?namespace=ns&consumerGroup=g", ""},
	{"POST", "/api/v1/fetch", `{"entries":[{"queue":"q","partition":"p","offset":0},{"queue":"q","partition":"p","offset":5}]}`},
	{"POST", "/api/v1/consumer-groups/g/queues/q/seek", `{"toEnd":true}`},
	{"GET", "/api/v1/kv/n/k", ""}, {"DELETE", "/api/v1/kv/n/k", ""}, {"POST", "/api/v1/kv", `[{"op":"getPrefix","ns":"n","prefix":""}]`},
	{"POST", "/api/v1/kv", `[{"op":"put","ns":"n","key":"k","value":0,"forever":true}]`},
	{"POST", "/api/v1/kv", `[{"op":"getPrefix","ns":"queen-locks","prefix":""}]`},
	{"POST", "/api/v1/locks", `{"operations":[{"op":"release","name":"k","token":%T},{"op":"get","name":"k"}]}`},
	{"GET", "/api/v1/timers/q/k", ""}, {"GET", "/api/v1/timers/q", ""}, {"DELETE", "/api/v1/timers/q/k", ""},
	{"GET", "/api/v1/traces/%P/t0", ""}, {"GET", "/api/v1/traces/by-name/k", ""},
	{"POST", "/api/v1/traces", `{"transactionId":"t0","partitionId":"%P","data":"x","traceNames":["k"]}`},
	{"POST", "/streams/v1/state/get", `{"query_id":"%Q","partition_id":"%P","keys":[]}`},
	{"POST", "/streams/v1/cycle", `{"query_id":"%Q","partition_id":"%P","state_ops":[{"type":"upsert","key":"s","value":0}]}`},
	{"POST", "/streams/v1/cycle", `{"query_id":"%Q","partition_id":"%P","consumer_group":"g",` +
		`"ack":{"transactionId":"t2","leaseId":"%L","status":"completed","count":1}}`},
	{"POST", "/streams/v1/queries", `{"name":"k","source_queue":"q","config_hash":"other","reset":true}`},
	{"POST", "/api/v1/transaction", `{"operations":[{"type":"ack","transactionId":"t2","partitionId":"%P","leaseId":"%L","consumerGroup":"g"},` +
		`{"type":"push","queue":"q","partition":"p","payload":0}],"requiredLeases":["%L"]}`},
	{"POST", "/api/v1/transaction", `{"positions":[{"queue":"q","consumerGroup":"g","partition":"p","offset":6}]}`},
	{"POST", "/api/v1/transaction", `{"kv":[{"op":"check","ns":"queen-locks","key":"k#0","expect":%T,"required":true}]}`},
	{"GET", "/api/v1/dlq/redrive/%J", ""}, {"POST", "/api/v1/dlq/redrive", `{"queue":"q","dryRun":true}`},
	{"GET", "/api/v1/ephemeral/pop?queue=e&group=g&batch=9", ""}, {"GET", "/api/v1/ephemeral/pop?queue=e&batch=9&autoAck=true", ""},
	{"POST", "/api/v1/ephemeral/ack", `{"queue":"e","group":"g","acks":[{"id":"%E"},{"id":"%E","status":"failed"}]}`},
	{"POST", "/api/v1/ephemeral/push", `{"queue":"e","partition":"p","messages":[{"payload":0}]}`},
	{"POST", "/api/v1/ephemeral/configure", `{"queue":"e","options":{"maxLength":1,"policy":"dropOldest"}}`},
	{"POST", "/api/v1/ephemeral/reset", `{"queue":"e"}`}, {"DELETE", "/api/v1/ephemeral/queue/e", ""},
	{"GET", "/api/v1/ephemeral/queues/e/depth", ""},
}

// looks are what a tenant can see of itself without changing anything; together they are its state.
var looks = []struct{ method, target, body string }{
	{"GET", "/api/v1/resources/queues", ""}, {"GET", "/api/v1/resources/queues/q", ""}, {"GET", "/api/v1/resources/queues/q/depth?group=g", ""},
	{"GET", "/api/v1/resources/partitions", ""}, {"GET", "/api/v1/resources/namespaces", ""}, {"GET", "/api/v1/resources/tasks", ""},
	{"GET", "/api/v1/consumer-groups", ""}, {"GET", "/api/v1/consumer-groups/g", ""}, {"GET", "/api/v1/dlq", ""},
	{"GET", "/api/v1/messages?queue=q&limit=100", ""}, {"GET", "/api/v1/messages/%P/t2", ""},
	{"POST", "/api/v1/fetch", `{"entries":[{"queue":"q","partition":"p","offset":0}]}`},
	{"GET", "/api/v1/resources/kv/namespaces", ""}, {"POST", "/api/v1/kv", `[{"op":"getPrefix","ns":"n","prefix":""}]`},
	{"POST", "/api/v1/locks", `{"operations":[{"op":"get","name":"k"}]}`}, {"GET", "/api/v1/timers/q", ""},
	{"GET", "/api/v1/traces/%P/t0", ""}, {"GET", "/api/v1/traces/names", ""},
	{"POST", "/streams/v1/state/get", `{"query_id":"%Q","partition_id":"%P","keys":[]}`},
	{"GET", "/api/v1/ephemeral/queues", ""}, {"GET", "/api/v1/ephemeral/queues/e/depth?group=g", ""},
	{"GET", "/api/v1/dlq/redrive/%J", ""},
}

// ofTheNode is what a tenant is told that is not its own: the memory of all ephemeral queues.
var ofTheNode = regexp.MustCompile(`"cellBytes":\d+`)

func (w *world) state() string {
	var b strings.Builder
	for _, l := range looks {
		a := w.do(l.method, w.fill(l.target), w.fill(l.body))
		fmt.Fprintf(&b, "%s %s: %d %s\n", l.method, l.target, a.status, ofTheNode.ReplaceAllString(a.body, ""))
	}
	return b.String()
}

// attack is one thing that a tenant may send.
type attack struct{ method, target, body string }

// everyRequest is the example of every row of the table, built or not, and the attacks.
func everyRequest(t *testing.T) (all []attack) {
	for _, r := range table() {
		e := examples[r.Method+" "+r.Path]
		if r.Handle != nil && e == (example{}) && strings.ContainsAny(r.Path, ":*") {
			t.Errorf("%s %s has no example", r.Method, r.Path)
		}
		if e.target == "" {
			e.target = strings.NewReplacer(":", "", "*", "").Replace(r.Path)
		}
		all = append(all, attack{r.Method, e.target, e.body})
	}
	for _, a := range attacks {
		all = append(all, attack(a))
	}
	return all
}

// tenantEngines are what tenants are held apart on: the model has no redrive jobs.
var tenantEngines = map[string]func(t *testing.T, c *clock.Fake) engine.Engine{
	"model": func(_ *testing.T, c *clock.Fake) engine.Engine {
		return enginetest.NewModel(enginetest.ModelOptions{Clock: c})
	},
	"node": func(t *testing.T, c *clock.Fake) engine.Engine {
		n, err := engine.OpenLocal(engine.Config{FS: vfs.NewMem(), Clock: c, Rand: clock.NewFakeRand(1), Dir: "data",
			SegmentBytes: 1 << 20, PoolReady: 1, SweepEvery: 1000 * time.Hour})
		require.NoError(t, err)
		t.Cleanup(func() { _ = n.Close(context.Background()) })
		return n
	},
}

// TestTenantsShareNothing lets two tenants with all the same names loose on each other: each sends everything there is
// with the other's ids, in a random order, and neither ever sees a mark of the other or moves its state.
func TestTenantsShareNothing(t *testing.T) {
	g := &guard{otherwise: auth.BadSignature, principals: map[string]*auth.Principal{
		"a": {Tenant: auth.DefaultTenant, Roles: auth.Admin, Subject: "markA"},
		"b": {Tenant: tenantID(t, tenantB), Roles: auth.Admin, Subject: "markB"},
	}}
	for name, open := range tenantEngines {
		for seed := range uint64(2) {
			if testing.Short() && seed > 0 {
				break
			}
			t.Run(fmt.Sprint(name, seed), func(t *testing.T) {
				c := clock.NewFake(time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC).UnixMicro())
				n := startWith(t, Options{Engine: open(t, c), Clock: c, Auth: g, Tenancy: true, ManyTenants: true, SkipPaths: []string{"/metrics", "/metrics/prometheus"}})
				a, b := newWorld(n, "a", "markA"), newWorld(n, "b", "markB")
				for _, pair := range [][2]*world{{a, b}, {b, a}} {
					besiege(t, pair[0], pair[1], seed)
				}
			})
		}
	}
}

// besiege sends everything as one tenant with the ids of another.
func besiege(t *testing.T, by, of *world, seed uint64) {
	t.Helper()
	before := of.state()
	require.Contains(t, before, of.mark)
	require.NotContains(t, before, by.mark)
	requests := everyRequest(t)
	rng := rand.New(rand.NewPCG(seed, 7))
	rng.Shuffle(len(requests), func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
	for _, r := range requests {
		for _, headers := range [][]string{{"Authorization: " + by.auth}, {"Authorization: " + by.auth, "x-queen-tenant: " + tenantB}, nil} {
			x := by.n.do(r.method, of.fill(r.target), of.fill(r.body), headers...)
			if strings.Contains(x.body, of.mark) || strings.Contains(fmt.Sprint(x.header), of.mark) {
				t.Errorf("%s %s %v tells about the other tenant: %s", r.method, r.target, headers, cut(x.body))
			}
		}
	}
	if after := of.state(); after != before {
		t.Errorf("the other tenant's state changed\n%s", firstDifference(before, after))
	}
}

func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return x[i] + "\nbecame\n" + y[i]
		}
	}
	return "one is longer"
}

// idsInAnswers are those that were sent, and those that are new in every answer.
var idsInAnswers = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|"partitionId":"[0-9]+"|"e:[0-9a-f]+:p:[0-9]+"`)

// TestForeignIDsLookMissing: with an id of another tenant every route answers what it answers with an id that never was.
func TestForeignIDsLookMissing(t *testing.T) {
	for name, open := range tenantEngines {
		t.Run(name, func(t *testing.T) {
			c := clock.NewFake(time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC).UnixMicro())
			g := &guard{otherwise: auth.BadSignature, principals: map[string]*auth.Principal{
				"a": {Tenant: tenantID(t, tenantA), Roles: auth.Admin}, "b": {Tenant: tenantID(t, tenantB), Roles: auth.Admin},
			}}
			n := startWith(t, Options{Engine: open(t, c), Clock: c, Auth: g})
			foreignLooksMissing(t, newWorld(n, "a", "markA"), &world{n: n, auth: "b"})
		})
	}
}

// foreignLooksMissing sends everything that takes an id as b, with those of a and with some that never were.
func foreignLooksMissing(t *testing.T, a, b *world) {
	never := &world{ids: map[string]string{"%P": "987654321", "%L": "0199b1d9-0000-7000-8000-0000000000ff",
		"%D": "0199b1d9-0000-7000-8000-0000000000fe", "%M": "0199b1d9-0000-7000-8000-0000000000fd", "%T": "987654", "%Q": "nothing",
		"%J": "0199b1d9-0000-8000-8000-0000000000fc", "%E": a.ids["%E"] + "7"}}
	var ids []string
	for name := range never.ids {
		ids = append(ids, name)
	}
	sort.Strings(ids)
	compared := 0
	for _, r := range everyRequest(t) {
		if !regexp.MustCompile(`%[` + strings.ReplaceAll(strings.Join(ids, ""), "%", "") + `]`).MatchString(r.target + r.body) {
			continue
		}
		x := b.do(r.method, a.fill(r.target), a.fill(r.body))
		y := b.do(r.method, never.fill(r.target), never.fill(r.body))
		got, want := idsInAnswers.ReplaceAllString(x.body, "ID"), idsInAnswers.ReplaceAllString(y.body, "ID")
		if x.status != y.status || got != want {
			t.Errorf("%s %s\nwith the id of another tenant: %d %s\nwith one that never was: %d %s", r.method, r.target, x.status, got, y.status, want)
		}
		compared++
	}
	require.Greater(t, compared, 15)
}

// TestIdempotencyKeysAreOfATenant: the same key and body of two tenants are two calls.
func TestIdempotencyKeysAreOfATenant(t *testing.T) {
	g := &guard{otherwise: auth.BadSignature, principals: map[string]*auth.Principal{
		"a": {Tenant: tenantID(t, tenantA), Roles: auth.Admin}, "b": {Tenant: tenantID(t, tenantB), Roles: auth.Admin},
	}}
	n := startWith(t, Options{Auth: g})
	ids := map[string]bool{}
	for range 2 {
		for _, as := range []string{"a", "b"} {
			headers := []string{"Authorization: " + as, "Idempotency-Key: once"}
			ids[n.post("/api/v1/push", `{"items":[{"queue":"q","payload":1}]}`, headers...).is(201).str(0, "message_id")] = true
			n.get("/api/v1/resources/queues/q/depth", headers...).is(200).equal(`1`, "pending")
		}
	}
	require.Len(t, ids, 2)
}
