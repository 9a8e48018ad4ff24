package frontendhttp

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// poisoned is a stream query over queue src, partition p, whose events a, b and c wait there.
type poisoned struct {
	*node
	query, group string
	// Of the batch at hand.
	partition, lease string
}

func startPoisoned(t *testing.T, retries int) (*poisoned, func(time.Duration)) {
	n, clock := startNodeOn(t)
	q := &poisoned{node: n}
	n.post("/api/v1/configure", fmt.Sprintf(`{"queue":"src","options":{"retryLimit":%d,"leaseTime":60}}`, retries)).is(200)
	for _, id := range []string{"a", "b", "c"} {
		n.push1("src", "p", id, `1`)
	}
	q.query = n.post("/streams/v1/queries", `{"name":"s","source_queue":"src","sink_queue":"sink","config_hash":"h"}`).is(200).str("query_id")
	q.group = "streams." + q.query
	return q, clock.Advance
}

// pop leases the next batch, which holds these events.
func (q *poisoned) pop(want ...string) {
	q.t.Helper()
	m := q.get("/api/v1/pop/queue/src?batch=10&subscriptionMode=all&consumerGroup=" + q.group).is(200)
	q.partition, q.lease = m.str("partitionId"), m.str("leaseId")
	if got := len(m.at("messages").([]any)); got != len(want) {
		q.t.Fatalf("%d events, want %v: %s", got, want, m.body)
	}
	for i, id := range want {
		m.equal(fmt.Sprintf("%q", id), "messages", i, "transactionId")
	}
}

// cycle sends the batch at hand, with one state row and one message for the sink.
func (q *poisoned) cycle(status, more string) answer {
	q.t.Helper()
	return q.post("/streams/v1/cycle", fmt.Sprintf(`{"query_id":%q,"partition_id":%q,"consumer_group":%q,
		"state_ops":[{"type":"upsert","key":"sum","value":6}],"push_items":[{"queue":"sink","payload":{"sum":6}}],
		"ack":{"transactionId":"a","leaseId":%q,"status":%q,"error":"no such unit"}%s}`,
		q.query, q.partition, q.group, q.lease, status, more)).is(200)
}

// emitted checks how many rows of state and how many messages of the sink there are.
func (q *poisoned) emitted(want int) {
	q.t.Helper()
	rows := q.post("/streams/v1/state/get", fmt.Sprintf(`{"query_id":%q,"partition_id":%q}`, q.query, q.partition)).is(200).at("rows").([]any)
	if len(rows) != want {
		q.t.Fatalf("%d rows of state, want %d", len(rows), want)
	}
	if q.get("/api/v1/resources/queues/sink").status == 404 {
		if want > 0 {
			q.t.Fatal("there is no sink")
		}
		return
	}
	q.post("/api/v1/fetch", `{"entries":[{"queue":"sink","offset":0}]}`).is(200).equal(fmt.Sprint(want), "entries", 0, "highWatermark")
}

// letters checks whose dead letters there are, the newest first.
func (q *poisoned) letters(want ...string) {
	q.t.Helper()
	list := q.get("/api/v1/dlq?queue=src&consumerGroup=" + q.group).is(200)
	list.equal(fmt.Sprint(len(want)), "total")
	for i, id := range want {
		list.equal(fmt.Sprintf("%q", id), "messages", i, "transactionId").equal(`"no such unit"`, "messages", i, "errorMessage")
	}
}

// TestPoisonEventOfAStream (S-str-6, R-13): a cycle that failed commits neither state nor pushes and gives its whole
// batch back. When the queue's retries are spent the event at the head is filed for the query's group, and the
// partition goes on with those behind it, whose retries begin anew.
func TestPoisonEventOfAStream(t *testing.T) {
	const retries = 2
	q, _ := startPoisoned(t, retries)
	for _, status := range []string{"failed", "retry"} { // whatever is not completed failed
		q.pop("a", "b", "c")
		a := q.cycle(status, "")
		a.equal(`true`, "success").equal(`0`, "state_ops_applied").equal(`[]`, "push_results").
			equal(`{"success":false,"count":0,"lease_released":true,"dlq":false}`, "ack_result")
		q.emitted(0)
		q.letters()
	}
	q.pop("a", "b", "c")
	// A gate's wish to keep the lease does not hold one that failed.
	q.cycle("failed", `,"release_lease":false`).equal(`{"success":false,"count":0,"lease_released":true,"dlq":true}`, "ack_result")
	q.emitted(0)
	q.letters("a")
	for range retries {
		q.pop("b", "c")
		q.cycle("failed", "").equal(`false`, "ack_result", "dlq")
	}
	q.letters("a")
	q.pop("b", "c")
	q.cycle("completed", "").equal(`{"success":true,"count":2,"lease_released":true,"dlq":false}`, "ack_result")
	q.emitted(1)
	q.letters("a")
	q.get("/api/v1/pop/queue/src?consumerGroup=" + q.group).is(204)
}

// TestPoisonEventWithoutRetries: with none left from the start each cycle that fails files one event, never the batch.
func TestPoisonEventWithoutRetries(t *testing.T) {
	q, _ := startPoisoned(t, 0)
	q.pop("a", "b", "c")
	q.cycle("failed", "").equal(`true`, "ack_result", "dlq")
	q.letters("a")
	q.pop("b", "c")
	q.cycle("failed", "").equal(`true`, "ack_result", "dlq")
	q.letters("b", "a")
	q.pop("c")
}

// TestCycleUnderALostLease (S-str-3): a cycle whose lease ran out is refused whole, whether it completes the batch or
// gives it back, before and after another has taken the batch over, and counts as no attempt of the other's.
func TestCycleUnderALostLease(t *testing.T) {
	q, advance := startPoisoned(t, 0)
	q.pop("a", "b", "c")
	lost := q.lease
	refused := func() {
		t.Helper()
		live := q.lease
		q.lease = lost
		for _, status := range []string{"completed", "failed"} {
			a := q.cycle(status, "").equal(`false`, "success")
			if !strings.HasPrefix(a.str("error"), "lease_invalid") {
				t.Fatalf("%s: %s", status, a.body)
			}
		}
		q.lease = live
		q.emitted(0)
		q.letters()
	}
	advance(61 * time.Second)
	refused()
	q.pop("a", "b", "c")
	refused()
	q.cycle("completed", "").equal(`3`, "ack_result", "count")
	q.emitted(1)
	q.letters()
}
