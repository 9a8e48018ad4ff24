package frontendhttp

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// example is a request that a built route answers with its documented status, and how its paths and bodies are
// filled in: %P is a partition id, %L a live lease, %D a dead letter's id.
type example struct {
	target, body string
}

// examples has one entry per built route, keyed by method and path.
var examples = map[string]example{
	"POST /api/v1/push":     {body: `{"items":[{"queue":"q","payload":1}]}`},
	"POST /api/v1/push/raw": {target: "/api/v1/push/raw?queue=q", body: `{"any": "json"}`},
	"POST /api/v1/ack":      {body: `{"transactionId":"none","partitionId":"%P","status":null,"error":null}`},
	"POST /api/v1/ack/batch": {
		body: `{"acknowledgments":[{"transactionId":"none","partitionId":"%P"}],"consumerGroup":null}`},
	"GET /api/v1/pop/queue/:queue/partition/:partition": {
		target: "/api/v1/pop/queue/q/partition/p?consumerGroup=fresh&subscriptionMode=all&autopilot=true"},
	"GET /api/v1/pop/queue/:queue": {
		target: "/api/v1/pop/queue/q?consumerGroup=other&subscriptionMode=all&autopilot=true"},
	"GET /api/v1/pop":                           {target: "/api/v1/pop?namespace=q&consumerGroup=third&subscriptionMode=all"},
	"POST /api/v1/lease/:leaseId/extend":        {target: "/api/v1/lease/%L/extend", body: `{}`},
	"GET /api/v1/leases":                        {target: "/api/v1/leases?queue=q&limit=5"},
	"POST /api/v1/lease/:leaseId/release":       {target: "/api/v1/lease/%L/release"},
	"POST /api/v1/configure":                    {body: `{"queue":"q","options":{"maxDeliveries":3,"dlqScope":"batch"}}`},
	"POST /api/v1/fetch":                        {body: `{"entries":[{"queue":"q","partition":"p","offset":0}]}`},
	"POST /api/v1/fetch/offsets":                {body: `{"entries":[{"queue":"q","partition":"p","timestamp":0}]}`},
	"GET /api/v1/fetch/raw":                     {target: "/api/v1/fetch/raw?queue=q&partition=p&offset=0"},
	"POST /api/v1/partitions/changed":           {body: `{"entries":[{"queue":"q"}]}`},
	"POST /api/v1/partitions/purge":             {body: `{"queue":"q","partition":"p","before":0}`},
	"GET /api/v1/consumer-groups":               {},
	"GET /api/v1/consumer-groups/lagging":       {target: "/api/v1/consumer-groups/lagging?minLagSeconds=0"},
	"GET /api/v1/consumer-groups/:group":        {target: "/api/v1/consumer-groups/g"},
	"DELETE /api/v1/consumer-groups/:group":     {target: "/api/v1/consumer-groups/unknown"},
	"GET /api/v1/resources/queues":              {},
	"GET /api/v1/resources/queues/:queue":       {target: "/api/v1/resources/queues/q"},
	"GET /api/v1/resources/queues/:queue/depth": {target: "/api/v1/resources/queues/q/depth?group=g"},
	"DELETE /api/v1/resources/queues/:queue":    {target: "/api/v1/resources/queues/unknown"},
	"GET /api/v1/resources/overview":            {},
	"GET /api/v1/resources/namespaces":          {},
	"GET /api/v1/resources/tasks":               {},
	"GET /api/v1/resources/partitions":          {},
	"POST /api/v1/consumer-groups/:group/subscription": {
		target: "/api/v1/consumer-groups/g/subscription", body: `{"subscriptionTimestamp":"2026-01-01T00:00:00Z"}`},
	"POST /api/v1/consumer-groups/:group/queues/:queue/seek": {
		target: "/api/v1/consumer-groups/s/queues/q/seek", body: `{"toEnd":true}`},
	"POST /api/v1/consumer-groups/:group/queues/:queue/partitions/:partition/seek": {
		target: "/api/v1/consumer-groups/g/queues/q/partitions/p/seek"},
	"DELETE /api/v1/consumer-groups/:group/queues/:queue": {target: "/api/v1/consumer-groups/s/queues/unknown"},
	"GET /api/v1/dlq":                                {target: "/api/v1/dlq?queue=q&limit=100&offset=0"},
	"DELETE /api/v1/dlq":                             {target: "/api/v1/dlq?queue=unknown"},
	"POST /api/v1/dlq/:id/replay":                    {target: "/api/v1/dlq/%D/replay", body: `{"target":"group-only"}`},
	"GET /api/v1/messages":                           {target: "/api/v1/messages?queue=q"},
	"POST /streams/v1/queries":                       {body: `{"name":"s","source_queue":"q","config_hash":"h"}`},
	"POST /streams/v1/state/get":                     {body: `{"query_id":"none","partition_id":"%P","keys":[]}`},
	"POST /streams/v1/cycle":                         {body: `{"query_id":"none","partition_id":"%P","ack":null}`},
	"POST /api/v1/traces":                            {body: `{"transactionId":"first","partitionId":"%P","data":{},"traceNames":"n"}`},
	"GET /api/v1/traces/names":                       {},
	"GET /api/v1/traces/by-name/*traceName":          {target: "/api/v1/traces/by-name/n"},
	"GET /api/v1/traces/:partitionId/:transactionId": {target: "/api/v1/traces/%P/first"},
	"POST /api/v1/transaction": {body: `{"operations":[{"type":"push","queue":"t","payload":1}],` +
		`"kv":[{"op":"put","ns":"n","key":"t","value":1,"forever":true}]}`},
	"POST /api/v1/kv": {body: `{"operations":[{"op":"put","ns":"n","key":"k","value":{"a":1},"ttlSeconds":60},` +
		`{"op":"getMany","ns":"n","keys":["k","none"]},{"op":"check","ns":"n","key":"none","expect":0}]}`},
	"GET /api/v1/resources/kv/namespaces":       {},
	"POST /api/v1/resources/kv/list":            {body: `{"namespace":"n"}`},
	"GET /api/v1/kv/:ns/*key":                   {target: "/api/v1/kv/n/k"},
	"PUT /api/v1/kv/:ns/*key":                   {target: "/api/v1/kv/n/a/b", body: `{"value":null,"forever":true}`},
	"DELETE /api/v1/kv/:ns/*key":                {target: "/api/v1/kv/n/a/b"},
	"POST /api/v1/locks":                        {body: `{"operations":[{"op":"acquire","name":"l","ttlSeconds":9},{"op":"get","name":"m"}]}`},
	"POST /api/v1/timers":                       {body: `{"operations":[{"op":"schedule","queue":"q","timerKey":"k","delayMs":9999,"payload":"MQ=="}]}`},
	"DELETE /api/v1/timers/:queue/*timerKey":    {target: "/api/v1/timers/q/none?txn=x"},
	"GET /api/v1/timers/:queue/*timerKey":       {target: "/api/v1/timers/q/k"},
	"GET /api/v1/timers/:queue":                 {target: "/api/v1/timers/q?limit=5"},
	"POST /api/v1/ephemeral/push":               {body: `{"queue":"e","messages":[{"payload":{"a":1}}]}`},
	"GET /api/v1/ephemeral/pop":                 {target: "/api/v1/ephemeral/pop?queue=e&group=g&batch=5"},
	"POST /api/v1/ephemeral/ack":                {body: `{"queue":"e","acks":[{"id":"e:1:p:1","status":"failed","error":"x"}]}`},
	"POST /api/v1/ephemeral/configure":          {body: `{"queue":"e","options":{"maxLength":5,"windowBuffer":{"ms":1,"count":2}}}`},
	"POST /api/v1/ephemeral/reset":              {body: `{"queue":"e"}`},
	"DELETE /api/v1/ephemeral/queue/:queue":     {target: "/api/v1/ephemeral/queue/none"},
	"GET /api/v1/ephemeral/queues":              {},
	"GET /api/v1/ephemeral/queues/:queue/depth": {target: "/api/v1/ephemeral/queues/e/depth?group=g"},
	"GET /api/v1/system/ephemeral":              {},
	"POST /api/v1/system/ephemeral":             {body: `{"enabled":true}`},
	"POST /api/v1/dlq/redrive":                  {body: `{"queue":"q","consumerGroup":null,"to":"2020-01-01T00:00:00Z","ratePerSecond":5,"target":"group-only"}`},
	"GET /api/v1/dlq/redrive/:id":               {target: "/api/v1/dlq/redrive/%J"},
	"POST /api/v1/stats/refresh":                {body: `{}`},
	"GET /api/v1/system/kv-timers":              {},
	"POST /api/v1/system/kv-timers":             {body: `{"kv":true,"timersFire":true}`},
	"GET /api/v1/status":                        {target: "/api/v1/status" + atNode},
	"GET /api/v1/status/queues":                 {target: "/api/v1/status/queues?queue=q"},
	"GET /api/v1/status/queues/:queue":          {target: "/api/v1/status/queues/q"},
	"GET /api/v1/analytics/queue-lag":           {target: "/api/v1/analytics/queue-lag" + atNode},
	"GET /api/v1/status/analytics":              {target: "/api/v1/status/analytics" + atNode},
	"GET /api/v1/diagnose":                      {},
	"GET /api/v1/raft/members":                  {},
	"GET /api/v1/lag":                           {target: "/api/v1/lag?queue=q&group=g&limit=5"},
	"GET /api/v1/analytics/queue-ops":           {target: "/api/v1/analytics/queue-ops" + atNode},
	"GET /api/v1/analytics/workload":            {target: "/api/v1/analytics/workload" + atNode + "&groupBy=namespace"},
	"GET /docs":                                 {},
	"GET /docs/*page":                           {target: "/docs/reference/cli.md"},
	"GET /livez":                                {},
	"GET /readyz":                               {},
	"GET /health":                               {},
	"GET /status":                               {},
	"GET /metrics":                              {},
	"GET /metrics/prometheus":                   {},
	"GET /openapi.json":                         {},
	"POST /api/v1/messages/:partitionId/:transactionId/retry": {
		target: "/api/v1/messages/%P/second/retry", body: `{}`},
	"POST /api/v1/raft/members/:node/drain": {
		target: "/api/v1/raft/members/2/drain"},
	"DELETE /api/v1/raft/members/:node/drain": {
		target: "/api/v1/raft/members/2/drain"},
	"DELETE /api/v1/messages/:partitionId/:transactionId": {target: "/api/v1/messages/%P/third"},
	"GET /api/v1/messages/:partitionId/:transactionId":    {target: "/api/v1/messages/%P/fourth"},
}

// furnished is a node on which every example works: a queue with five messages, three of them dead letters, and a
// live lease.
func furnished(t *testing.T) (n *node, fill *strings.Replacer) {
	n = startNode(t)
	for _, id := range []string{"first", "second", "third", "fourth", "fifth"} {
		n.push1("q", "p", id, `{"n":1}`)
	}
	p := n.get("/api/v1/pop/queue/q?consumerGroup=g&subscriptionMode=all").is(200)
	partition, lease := p.str("partitionId"), p.str("leaseId")
	for _, id := range []string{"first", "second", "third"} {
		n.post("/api/v1/ack", `{"transactionId":"`+id+`","partitionId":"`+partition+`","status":"dlq","error":"bad",`+
			`"leaseId":"`+lease+`","consumerGroup":"g"}`).is(200).equal(`true`, 0, "dlq")
		next := n.get("/api/v1/pop/queue/q?consumerGroup=g").is(200)
		lease = next.str("leaseId")
	}
	letters := n.get("/api/v1/dlq?queue=q").is(200)
	job := n.post("/api/v1/dlq/redrive", `{"queue":"q","error":"none like it"}`).is(202)
	return n, strings.NewReplacer("%P", partition, "%L", lease, "%D", letters.str("messages", 2, "id"), "%J", job.str("id"))
}

// TestTableAgainstTheServer walks the table: every built route answers its example with the documented status and a
// body of the documented shape with no member beyond it; every other row answers not_built.
func TestTableAgainstTheServer(t *testing.T) {
	n, fill := furnished(t)
	doc := loadDocument(t, n)
	for _, s := range doc.Components.Schemas {
		if s.Value.Type.Is("object") && len(s.Value.Properties) > 0 {
			no := false
			s.Value.AdditionalProperties = openapi3.BoolSchema{Has: &no}
		}
	}
	seen := map[string]bool{}
	for _, r := range table() {
		key := r.Method + " " + r.Path
		if seen[key] {
			t.Errorf("%s stands twice in the table", key)
		}
		seen[key] = true
		if r.Summary == "" || r.Status == 0 {
			t.Errorf("%s lacks a summary or a status", key)
		}
		target := strings.NewReplacer(":", "", "*", "").Replace(r.Path)
		if r.Handle == nil {
			a := n.do(r.Method, target, "").is(501).equal(`"not_built"`, "code")
			if a.header.Get("Retry-After") != "" {
				t.Errorf("%s asks to retry what is not built", key)
			}
			continue
		}
		if r.Response == "Events" {
			continue // a stream does not end: consume_test.go, kv_watch_test.go
		}
		if r.Response == "Drain" {
			continue // a single node refuses it: drain_test.go
		}
		e, ok := examples[key]
		if !ok {
			t.Errorf("%s has no example", key)
			continue
		}
		if e.target != "" {
			target = fill.Replace(e.target)
		}
		a := n.do(r.Method, target, fill.Replace(e.body))
		checkAnswer(t, doc, r, a)
	}
}

func checkAnswer(t *testing.T, doc *openapi3.T, r *route, a answer) {
	t.Helper()
	if a.status != r.Status {
		t.Errorf("%s %s: status %d want %d: %s", r.Method, r.Path, a.status, r.Status, cut(a.body))
		return
	}
	if r.Response == "Text" || r.Response == "Bytes" {
		return
	}
	if a.header.Get("Content-Type") != "application/json" {
		t.Errorf("%s %s: Content-Type %q", r.Method, r.Path, a.header.Get("Content-Type"))
	}
	var v any
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		t.Errorf("%s %s: %v: %s", r.Method, r.Path, err, cut(a.body))
		return
	}
	op := doc.Paths.Value(documentPath(r.Path)).GetOperation(r.Method)
	schema := op.Responses.Status(r.Status).Value.Content["application/json"].Schema.Value
	if err := schema.VisitJSON(v); err != nil {
		t.Errorf("%s %s: %v\n%s", r.Method, r.Path, err, cut(a.body))
	}
}

func loadDocument(t *testing.T, n *node) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData([]byte(n.get("/openapi.json").is(200).body))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestOpenAPIIsValid(t *testing.T) {
	doc := loadDocument(t, start(t))
	if err := doc.Validate(context.Background()); err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, path := range doc.Paths.Map() {
		count += len(path.Operations())
	}
	if want := len(table()); count != want {
		t.Errorf("%d operations documented, %d in the table", count, want)
	}
}

// TestIndexIsComplete holds the table to the route index of the contract, written out here a second time.
func TestIndexIsComplete(t *testing.T) {
	have := map[string]access{}
	for _, r := range table() {
		have[r.Method+" "+r.Path] = r.Access
	}
	for _, line := range strings.Split(strings.TrimSpace(routeIndex), "\n") {
		level, rest, _ := strings.Cut(line, " ")
		if got, ok := have[rest]; !ok {
			t.Errorf("%s is missing", rest)
		} else if string(got) != level {
			t.Errorf("%s is %s, want %s", rest, got, level)
		}
	}
}

const routeIndex = `
public GET /health
read-only GET /status
public GET /metrics
public GET /metrics/prometheus
read-write POST /api/v1/configure
write-only POST /api/v1/push
read-write GET /api/v1/pop/queue/:queue
read-write GET /api/v1/pop/queue/:queue/partition/:partition
read-write GET /api/v1/pop
read-write POST /api/v1/ack
read-write POST /api/v1/ack/batch
read-write POST /api/v1/lease/:leaseId/extend
read-write POST /api/v1/transaction
read-write POST /api/v1/kv
read-only GET /api/v1/kv/:ns/*key
read-write PUT /api/v1/kv/:ns/*key
read-write DELETE /api/v1/kv/:ns/*key
read-write POST /api/v1/locks
write-only POST /api/v1/timers
read-only GET /api/v1/timers/:queue
read-only GET /api/v1/timers/:queue/*timerKey
read-write DELETE /api/v1/timers/:queue/*timerKey
write-only POST /api/v1/ephemeral/push
read-write GET /api/v1/ephemeral/pop
read-write POST /api/v1/ephemeral/ack
read-write POST /api/v1/ephemeral/configure
read-write POST /api/v1/ephemeral/reset
read-write DELETE /api/v1/ephemeral/queue/:queue
read-only GET /api/v1/ephemeral/queues
read-only GET /api/v1/ephemeral/queues/:queue/depth
read-write POST /streams/v1/queries
read-write POST /streams/v1/cycle
read-only POST /streams/v1/state/get
read-only POST /api/v1/fetch
read-only POST /api/v1/fetch/offsets
read-only POST /api/v1/partitions/changed
read-only GET /api/v1/consumer-groups
read-only GET /api/v1/consumer-groups/lagging
read-only GET /api/v1/consumer-groups/:group
read-write POST /api/v1/consumer-groups/:group/subscription
read-write POST /api/v1/consumer-groups/:group/queues/:queue/seek
read-write POST /api/v1/consumer-groups/:group/queues/:queue/partitions/:partition/seek
admin DELETE /api/v1/consumer-groups/:group
admin DELETE /api/v1/consumer-groups/:group/queues/:queue
admin DELETE /api/v1/resources/queues/:queue
read-only GET /api/v1/resources/queues
read-only GET /api/v1/resources/queues/:queue
read-only GET /api/v1/resources/queues/:queue/depth
read-only GET /api/v1/resources/overview
read-only GET /api/v1/resources/namespaces
read-only GET /api/v1/resources/tasks
read-only GET /api/v1/resources/partitions
read-only GET /api/v1/resources/kv/namespaces
read-only POST /api/v1/resources/kv/list
read-only GET /api/v1/messages
read-only GET /api/v1/messages/:partitionId/:transactionId
read-write DELETE /api/v1/messages/:partitionId/:transactionId
read-write POST /api/v1/messages/:partitionId/:transactionId/retry
read-only GET /api/v1/dlq
admin DELETE /api/v1/dlq
read-write POST /api/v1/dlq/:id/replay
read-write POST /api/v1/traces
read-only GET /api/v1/traces/:partitionId/:transactionId
read-only GET /api/v1/traces/by-name/*traceName
read-only GET /api/v1/traces/names
read-only GET /api/v1/status
read-only GET /api/v1/status/queues
read-only GET /api/v1/status/queues/:queue
read-only GET /api/v1/status/analytics
read-only GET /api/v1/analytics/queue-lag
read-only GET /api/v1/diagnose
read-only GET /api/v1/lag
read-only GET /api/v1/raft/members
read-only GET /api/v1/analytics/queue-ops
read-only GET /api/v1/analytics/queue-parked-replicas
read-only GET /api/v1/analytics/retention
read-only GET /api/v1/analytics/workload
read-only GET /api/v1/analytics/dlq-signatures
read-only GET /api/v1/analytics/partition-liveness
read-only GET /api/v1/analytics/system-metrics
read-only GET /api/v1/analytics/worker-metrics
admin POST /api/v1/stats/refresh
admin GET /api/v1/system/kv-timers
admin POST /api/v1/system/kv-timers
admin GET /api/v1/system/ephemeral
admin POST /api/v1/system/ephemeral
admin POST /api/v1/system/raft/membership/*what
read-only GET /api/v1/raft/status
public GET /auth/me
public GET /auth/login
public GET /auth/logout
public GET /
public GET /assets/*file
write-only POST /api/v1/push/raw
read-only GET /api/v1/fetch/raw
read-write GET /api/v1/consume
read-only GET /api/v1/kv/watch
read-write POST /api/v1/dlq/redrive
read-only GET /api/v1/dlq/redrive/:id
read-only GET /api/v1/leases
read-write POST /api/v1/lease/:leaseId/release
admin POST /api/v1/partitions/purge
public GET /openapi.json
public GET /livez
public GET /readyz
`

// TestGoneAndUnknownRoutes: what 2.x took out, wrong methods and nonsense are 404 no_such_route, never a 405 and
// never a page.
func TestGoneAndUnknownRoutes(t *testing.T) {
	n := start(t)
	for _, r := range [][2]string{
		{"GET", "/api/v1/system/maintenance"}, {"POST", "/api/v1/system/maintenance"},
		{"GET", "/api/v1/system/maintenance/pop"}, {"POST", "/api/v1/system/maintenance/pop"},
		{"GET", "/api/v1/status/buffers"}, {"GET", "/api/v1/analytics/postgres-stats"},
		{"GET", "/api/v1/system/shared-state"}, {"GET", "/api/v1/system/link"}, {"POST", "/api/v1/system/link/promote"},
		{"POST", "/internal/api/anything"}, {"GET", "/internal/api/anything"},
		{"DELETE", "/api/v1/queues/orders/clear"}, {"POST", "/api/v1/messages/7/t/dlq"},
		{"GET", "/api/v1/nonsense"}, {"GET", "/nonsense"}, {"POST", "/nonsense"}, {"GET", "/api/v1/push"},
		{"POST", "/api/v1/pop/queue/orders"}, {"HEAD", "/api/v1/pop/queue/orders"}, {"PUT", "/api/v1/push"},
		{"GET", "/API/V1/resources/queues"}, {"POST", "/api/v1/push/"}, {"GET", "/api/v1/pop/queue"},
		{"DELETE", "/api/v1/resources/queues"}, {"POST", "/api/v1/consumer-groups/g/q/seek"},
		{"POST", "/api/v1/lease/x"}, {"GET", "/api/v1/messages/7"},
	} {
		if r[0] == "HEAD" {
			c := n.dial()
			c.send(request(r[0], r[1], ""))
			res, err := http.ReadResponse(c.r, &http.Request{Method: "HEAD"})
			if err != nil || res.StatusCode != 404 {
				t.Errorf("%v: %v, %v", r, res, err)
			}
			continue
		}
		a := n.do(r[0], r[1], "")
		if a.status != 404 {
			t.Errorf("%v: status %d: %s", r, a.status, cut(a.body))
			continue
		}
		a.is(404).equal(`"no_such_route"`, "code")
		if a.header.Get("Allow") != "" {
			t.Errorf("%v: an Allow header", r)
		}
	}
}

// TestNamesBetweenLiterals: the last occurrence of each literal counts, and names may be empty or hold slashes.
func TestNamesBetweenLiterals(t *testing.T) {
	rows := map[string]*route{}
	for _, r := range table() {
		rows[r.Method+" "+r.Path] = r
	}
	for _, c := range []struct{ row, rest, want string }{
		{"DELETE /api/v1/resources/queues/:queue", "a/b", "a/b,,"},
		{"DELETE /api/v1/resources/queues/:queue", "", ",,"},
		{"GET /api/v1/resources/queues/:queue/depth", "a/depth/depth", "a/depth,,"},
		{"GET /api/v1/resources/queues/:queue/depth", "depth", "no"},
		{"POST /api/v1/lease/:leaseId/extend", "l/extend", "l,,"},
		{"POST /api/v1/lease/:leaseId/extend", "l", "no"},
		{"POST /api/v1/lease/:leaseId/extend", "l/release", "no"},
		{"POST /api/v1/lease/:leaseId/release", "l/release", "l,,"},
		{"POST /api/v1/consumer-groups/:group/queues/:queue/seek", "g/h/queues/a/b/seek", "g/h,a/b,"},
		{"POST /api/v1/consumer-groups/:group/queues/:queue/seek", "g/q/seek", "no"},
		{"POST /api/v1/consumer-groups/:group/queues/:queue/partitions/:partition/seek",
			"g/queues/q/partitions/p/x/seek", "g,q,p/x"},
		{"POST /api/v1/consumer-groups/:group/queues/:queue/partitions/:partition/seek", "g/queues/q/seek", "no"},
		{"DELETE /api/v1/consumer-groups/:group/queues/:queue", "g/queues/", "g,,"},
		{"GET /api/v1/timers/:queue/*timerKey", "q/a/b", "q,a/b,"},
		{"GET /api/v1/timers/:queue", "q/a", "no"},
	} {
		var names [maxNames]string
		got := "no"
		if rows[c.row].split(c.rest, &names) {
			got = strings.Join(names[:], ",")
		}
		if got != c.want {
			t.Errorf("%s: %q is %q want %q", c.row, c.rest, got, c.want)
		}
	}
}

func TestQueueAndPartitionOfAPath(t *testing.T) {
	for _, c := range []struct {
		rest, queue, partition string
		ok                     bool
	}{
		{"orders", "", "", false},
		{"", "", "", false},
		{"a/partition/b", "a", "b", true},
		{"a/b/partition/c/d", "a/b", "c/d", true},
		{"a/partition/b/partition/c", "a/partition/b", "c", true},
		{"/partition/c", "", "c", true},
		{"partition/c", "", "", false},
		{"a/partition/", "a", "", true},
	} {
		var names [maxNames]string
		ok := queueAndPartition(c.rest, &names)
		if ok != c.ok || ok && (names[0] != c.queue || names[1] != c.partition) {
			t.Errorf("%q: %q %q %v", c.rest, names[0], names[1], ok)
		}
	}
}
