package frontendhttp

import (
	"fmt"
	"strings"
	"testing"

	"queen/engine"
	"queen/engine/clock"
)

// worker is a consumer of queue q, partition p, on a node whose time the test moves.
type worker struct {
	*node
	clock *clock.Fake
	lease string
	part  string
	ids   []string
}

// consume starts a node with messages m1..mk and pops them.
func consume(t *testing.T, k int, options string) *worker {
	t.Helper()
	fake := clock.NewFake(1_700_000_000_000_000)
	w := &worker{node: startWith(t, Options{Clock: fake}), clock: fake}
	w.post("/api/v1/configure", `{"queue":"q","options":{"leaseTime":10`+options+`}}`).is(200)
	for i := range k {
		w.push1("q", "p", fmt.Sprintf("m%d", i+1), fmt.Sprint(i+1))
	}
	w.pop()
	return w
}

// pop takes what is there and returns the ids.
func (w *worker) pop() []string {
	w.t.Helper()
	a := w.get("/api/v1/pop/queue/q?batch=100&wait=false&timeout=30000&consumerGroup=g&subscriptionMode=all")
	w.ids = nil
	if a.status == 204 {
		return nil
	}
	a.is(200)
	w.lease, w.part = a.str("leaseId"), a.str("messages", 0, "partitionId")
	for i := range a.len("messages") {
		w.ids = append(w.ids, a.str("messages", i, "transactionId"))
	}
	return w.ids
}

// ack sends one batch; each item is "id status".
func (w *worker) ack(items ...string) answer {
	w.t.Helper()
	var rows []string
	for _, it := range items {
		id, status, _ := strings.Cut(it, " ")
		rows = append(rows, fmt.Sprintf(`{"transactionId":%q,"partitionId":%q,"status":%q,"error":null,"leaseId":%q}`,
			id, w.part, status, w.lease))
	}
	a := w.post("/api/v1/ack/batch", `{"acknowledgments":[`+strings.Join(rows, ",")+`],"consumerGroup":"g"}`).is(200)
	if a.len() != len(items) {
		w.t.Fatalf("%d results for %d items", a.len(), len(items))
	}
	return a
}

func (w *worker) expire() {
	w.clock.Advance(11_000_000_000)
}

func (w *worker) redelivers(ids ...string) {
	w.t.Helper()
	if got := w.pop(); fmt.Sprint(got) != fmt.Sprint(ids) {
		w.t.Errorf("redelivered %v want %v", got, ids)
	}
}

func result(success, released, dlq, noop bool) string {
	return fmt.Sprintf(`{"success":%v,"leaseReleased":%v,"dlq":%v,"noop":%v}`, success, released, dlq, noop)
}

// item checks the flags of one result, and a part of its error when it failed.
func (a answer) item(i int, want, errorPart string) {
	a.t.Helper()
	got := fmt.Sprintf(`{"success":%v,"leaseReleased":%v,"dlq":%v,"noop":%v}`, a.at(i, "success"),
		a.at(i, "leaseReleased"), a.at(i, "dlq"), a.at(i, "noop"))
	if got != want {
		a.t.Errorf("item %d is %s want %s: %s", i, got, want, a.body)
	}
	if errorPart == "" {
		a.equal(`null`, i, "error")
	} else if !strings.Contains(a.str(i, "error"), errorPart) {
		a.t.Errorf("item %d: error %q lacks %q", i, a.str(i, "error"), errorPart)
	}
}

// The semantics that the client suites test (http-api 6.3), as they look on this wire.

func TestAckCompletesThePrefix(t *testing.T) {
	w := consume(t, 5, "")
	w.ack("m5 completed").item(0, result(true, true, false, false), "")
	w.expire()
	w.redelivers()
}

func TestAckInTheMiddleKeepsTheLease(t *testing.T) {
	w := consume(t, 3, "")
	w.ack("m2 completed").item(0, result(true, false, false, false), "")
	w.ack("m2 completed").item(0, result(true, false, false, true), "")
	w.ack("m1 failed").item(0, result(false, false, false, false), "already committed")
	w.redelivers()
	w.expire()
	w.redelivers("m3")
}

func TestFailedAndRetryClamp(t *testing.T) {
	w := consume(t, 5, "")
	a := w.ack("m1 completed", "m2 failed", "m3 completed", "m4 completed", "m5 completed")
	a.item(1, result(true, true, false, false), "")
	w.redelivers("m2", "m3", "m4", "m5")
	w.ack("m2 completed", "m3 retry", "m4 completed")
	w.redelivers("m3", "m4", "m5")
}

func TestBudgetAndDeadLetter(t *testing.T) {
	w := consume(t, 2, `,"retryLimit":1`)
	w.ack("m1 failed")
	w.redelivers("m1", "m2")
	w.ack("m1 failed").item(0, result(true, true, true, false), "")
	w.redelivers("m2")
	w.get("/api/v1/dlq?queue=q&limit=100&offset=0&consumerGroup=g").is(200).equal(`1`, "total").
		equal(`"Retries exhausted"`, "messages", 0, "errorMessage").equal(`1`, "messages", 0, "data")
}

func TestLeasesOfAcks(t *testing.T) {
	w := consume(t, 2, "")
	old := w.lease
	w.expire()
	w.ack("m1 completed").item(0, result(false, false, false, false), "invalid or expired lease")
	w.lease = "0199b1d2-0000-7000-8000-00000000000a"
	w.ack("m1 completed").item(0, result(false, false, false, false), "invalid or expired lease")
	w.lease = "not a lease"
	w.ack("m1 completed").item(0, result(false, false, false, false), "invalid or expired lease")
	w.redelivers("m1", "m2")
	fresh := w.lease
	w.lease = old
	w.ack("m1 completed").item(0, result(false, false, false, false), "invalid or expired lease")
	w.lease = fresh
	w.ack("never completed", "m2 completed").item(0, result(false, false, false, false), "unresolvable")
	w.redelivers()
}

// TestUnfencedAck completes a batch without a lease, null and absent alike, and by offset.
func TestUnfencedAck(t *testing.T) {
	w := consume(t, 3, "")
	w.post("/api/v1/ack", `{"consumerGroup":"g","offset":0,"partitionId":"`+w.part+`"}`).is(200).
		equal(`0`, 0, "offset").item(0, result(true, false, false, false), "")
	w.post("/api/v1/ack", `{"leaseId":null,"error":null,"status":null,"consumerGroup":"g","transactionId":"m3",`+
		`"offset":0,"partitionId":"`+w.part+`"}`).is(200).item(0, result(true, true, false, false), "")
	w.redelivers()
}

func TestAcksOfNothing(t *testing.T) {
	w := consume(t, 1, "")
	for _, c := range [][3]string{
		{`{"transactionId":"m1","partitionId":"999999"}`, "", "unknown partition"},
		{`{"transactionId":"m1","partitionId":"0199b1d2-0000-7000-8000-00000000000a"}`, "", "unknown partition"},
		{`{"transactionId":"m1","partitionId":"-1"}`, "", "unknown partition"},
		{`{"transactionId":"m1","partitionId":"99999999999999999999999"}`, "", "unknown partition"},
		{`{}`, "", "unknown partition"},
		{`{"transactionId":"m1","partitionId":"` + w.part + `","consumerGroup":"never"}`, "", "consumer not found"},
		{`{"transactionId":"m1","partitionId":"` + w.part + `","consumerGroup":"g","status":"complete"}`, "", "bad_status"},
		{`{"transactionId":"m1","partitionId":"` + w.part + `","consumerGroup":"g","status":"Completed"}`, "", "bad_status"},
		{`{"transactionId":"m1","partitionId":"` + w.part + `","consumerGroup":"g","status":""}`, "", "bad_status"},
		{`{"offset":18446744073709551615,"partitionId":"` + w.part + `","consumerGroup":"g"}`, "", "unresolvable"},
	} {
		w.post("/api/v1/ack", c[0]).is(200).item(0, result(false, false, false, false), c[2])
	}
	w.ack("m1 completed").item(0, result(true, true, false, false), "") // all of that moved nothing
}

func TestAckRefusals(t *testing.T) {
	n := start(t)
	for _, body := range []string{``, `{`, `null`, `[]`, `"x"`, `{"transactionId":7}`, `{"partitionId":7}`,
		`{"status":1}`, `{"leaseId":{}}`, `{"error":[]}`, `{"consumerGroup":7}`, `{"offset":-1}`, `{"offset":"1"}`,
		`{"offset":1.5}`, `{"offset":99999999999999999999}`, `{} {}`, "{\"error\":\"\xff\"}"} {
		n.post("/api/v1/ack", body).is(400).equal(`"bad_body"`, "code")
	}
	for _, body := range []string{``, `{}`, `{"acknowledgments":null}`, `{"acknowledgments":{}}`,
		`{"acknowledgments":[1]}`, `{"acknowledgments":[null]}`, `{"acknowledgments":[{"transactionId":1}]}`,
		`{"acknowledgments":[],"acknowledgments":[]}`, `{"acknowledgments":[],"consumerGroup":1}`} {
		n.post("/api/v1/ack/batch", body).is(400).equal(`"bad_body"`, "code")
	}
	n.post("/api/v1/ack/batch", `{"acknowledgments":[],"consumerGroup":null}`).is(200).equal(`[]`)
	n.post("/api/v1/ack", `{"consumerGroup":"`+strings.Repeat("g", 450)+`"}`).is(413)
}

// TestExtend: 200 always; the three times are the same, and null when nothing was renewed.
func TestExtend(t *testing.T) {
	w := consume(t, 1, "")
	a := w.post("/api/v1/lease/"+w.lease+"/extend", `{}`).is(200)
	a.equal(`true`, "success").equal(`1`, "renewed")
	at := a.str("newExpiresAt")
	if at != "2023-11-14T22:14:20.000000Z" || a.str("expiresAt") != at || a.str("lease_expires_at") != at {
		t.Errorf("%s", a.body)
	}
	for _, body := range []string{``, `null`, `[]`, `{"seconds":null}`, `{"seconds":"x"}`, `nonsense`, `{"seconds":1e99}`} {
		w.post("/api/v1/lease/"+w.lease+"/extend", body).is(200).equal(`true`, "success").equal(`"`+at+`"`, "expiresAt")
	}
	w.post("/api/v1/lease/"+w.lease+"/extend", `{"seconds":-5}`).is(200).equal(`"`+at+`"`, "expiresAt")
	w.post("/api/v1/lease/"+w.lease+"/extend", `{"seconds":120}`).is(200).
		equal(`"2023-11-14T22:15:20.000000Z"`, "newExpiresAt")
	w.ack("m1 completed")
	for _, lease := range []string{w.lease, "0199b1d2-0000-7000-8000-00000000000a", "x/y", ""} {
		w.post("/api/v1/lease/"+lease+"/extend", `{}`).is(200).equal(`{"leaseId":"` + lease + `","success":false,"renewed":0,` +
			`"newExpiresAt":null,"expiresAt":null,"lease_expires_at":null}`)
	}
}

// TestRelease: 200 always. What is handed back is delivered again as if it had not been; where a message was settled, the
// lease stays.
func TestRelease(t *testing.T) {
	w := consume(t, 2, "")
	release := func(lease string) answer { return w.post("/api/v1/lease/"+lease+"/release", "").is(200) }
	w.get("/api/v1/leases?queue=q&group=g").is(200).equal(`{"leases":[{"leaseId":"` + w.lease + `","queue":"q","partition":"p",` +
		`"partitionId":"` + w.part + `","group":"g","workerId":null,"firstOffset":0,"endOffset":2,"attempt":1,` +
		`"expiresAt":"2023-11-14T22:13:30.000000Z"}],"truncated":false}`)
	release(w.lease).equal(`{"leaseId":"` + w.lease + `","success":true,"released":1,"reason":null}`)
	w.get("/api/v1/leases").is(200).equal(`{"leases":[],"truncated":false}`)
	for _, lease := range []string{w.lease, "0199b1d2-0000-7000-8000-00000000000a", "x/y", ""} {
		release(lease).equal(`{"leaseId":"` + lease + `","success":false,"released":0,"reason":"over"}`)
	}
	again := w.get("/api/v1/pop/queue/q?consumerGroup=g").is(200).equal(`1`, "messages", 0, "deliveryAttempt")
	w.lease = again.str("leaseId")
	w.ack("m1 completed").equal(`true`, 0, "success")
	release(w.lease).equal(`{"leaseId":"` + w.lease + `","success":false,"released":null,"reason":"acked"}`)
	w.ack("m2 completed").equal(`true`, 0, "success")
}

// TestLeasesAreListed by queue and consumer group, and no more than asked for.
func TestLeasesAreListed(t *testing.T) {
	w := consume(t, 1, "")
	w.get("/api/v1/pop/queue/q?consumerGroup=h&subscriptionMode=all&leaseSeconds=60").is(200)
	w.get("/api/v1/leases?limit=1").is(200).equal(`"`+w.lease+`"`, "leases", 0, "leaseId").equal(`true`, "truncated")
	w.get("/api/v1/leases?group=h").is(200).equal(`"h"`, "leases", 0, "group").equal(`false`, "truncated")
	w.get("/api/v1/leases?queue=other").is(200).equal(`[]`, "leases")
	w.get("/api/v1/leases?limit=x").is(400)
}

// TestLeaseExpiryRaisesTheAttempt and a nack does, too; a fresh batch starts at 1.
func TestDeliveryAttempts(t *testing.T) {
	w := consume(t, 2, "")
	attempt := func(want string) {
		t.Helper()
		a := w.get("/api/v1/pop/queue/q?consumerGroup=g").is(200)
		w.lease = a.str("leaseId")
		a.equal(want, "messages", 0, "deliveryAttempt")
	}
	w.expire()
	attempt(`2`)
	w.ack("m1 retry")
	attempt(`3`)
	w.ack("m1 completed", "m2 retry")
	attempt(`1`)
}

// TestCallErrors: an error of the whole call has the status, code and Retry-After of its kind.
func TestCallErrors(t *testing.T) {
	e := newSink()
	n := startWith(t, Options{Engine: e})
	for _, c := range []struct {
		err    *engine.Error
		status int
		retry  string
	}{
		{&engine.Error{Code: engine.CodeOverloaded, RetryAfter: 2500e6}, 429, "3"},
		{&engine.Error{Code: engine.CodeOverloaded, RetryAfter: 60e9}, 429, "5"},
		{&engine.Error{Code: engine.CodeOverloaded}, 429, "1"},
		{&engine.Error{Code: engine.CodeOutcomeUnknown}, 503, "1"},
		{&engine.Error{Code: engine.CodeTimeout, RetryAfter: 10e9}, 503, "10"},
		{&engine.Error{Code: engine.CodeStorageFull}, 507, ""},
		{&engine.Error{Code: engine.CodeIdempotencyClash}, 422, ""},
	} {
		e.fail = c.err
		for target, body := range map[string]string{"/api/v1/push": `{"items":[{"queue":"q","payload":1}]}`,
			"/api/v1/ack": `{}`, "/api/v1/lease/x/extend": `{}`} {
			a := n.post(target, body).is(c.status).equal(`"`+string(c.err.Code)+`"`, "code")
			if got := a.header.Get("Retry-After"); got != c.retry {
				t.Errorf("%s %v: Retry-After %q want %q", target, c.err.Code, got, c.retry)
			}
		}
	}
	e.fail = fmt.Errorf("secret detail")
	if a := n.post("/api/v1/ack", `{}`).is(500).equal(`"internal"`, "code"); strings.Contains(a.body, "secret") {
		t.Error("a fault of ours is told to the client")
	}
}
