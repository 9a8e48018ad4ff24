package frontendhttp

import (
	"fmt"
	"testing"
)

// TestUnnamedTimerUnderAKey: a schedule that names no txn is the same call when it is sent again under its
// Idempotency-Key, alone and in a transaction: one timer, one answer.
func TestUnnamedTimerUnderAKey(t *testing.T) {
	n := start(t)
	const op = `{"op":"schedule","queue":"r","timerKey":"%s","delayMs":60000,"payload":"MQ=="}`
	for i, call := range []struct{ path, body string }{
		{"/api/v1/timers", `{"operations":[` + fmt.Sprintf(op, "a") + `]}`},
		{"/api/v1/transaction", `{"operations":[],"timers":[` + fmt.Sprintf(op, "b") + `]}`},
	} {
		key := fmt.Sprintf("Idempotency-Key: %d", i)
		first := n.post(call.path, call.body, key).is(200).equal(`"scheduled"`, "results", 0, "status")
		again := n.post(call.path, call.body, key).is(200).equal(`"scheduled"`, "results", 0, "status")
		id := first.str("results", 0, "messageId")
		if id == "" || first.str("results", 0, "txn") != id || again.str("results", 0, "txn") != id ||
			again.str("results", 0, "messageId") != id {
			t.Errorf("first %s\nagain %s", first.body, again.body)
		}
	}
	b := n.get("/api/v1/timers/r/b").is(200)
	if id := b.str("messageId"); id == "" || b.str("txn") != id {
		t.Errorf("a pending timer is not named as it was told: %s", b.body)
	}
}

// TestUnnamedTimerFiresAsTold: the message of such a timer carries the txn that the schedule told, and is acked by it.
func TestUnnamedTimerFiresAsTold(t *testing.T) {
	n := start(t)
	told := n.post("/api/v1/timers", `{"operations":[{"op":"schedule","queue":"r","timerKey":"k","delayMs":0,"payload":"MQ=="}]}`).
		is(200).str("results", 0, "txn")
	m := n.get("/api/v1/pop/queue/r?consumerGroup=g&subscriptionMode=all&wait=true&timeout=20000").is(200)
	if told == "" || m.str("messages", 0, "transactionId") != told || m.str("messages", 0, "id") != told {
		t.Fatalf("told %s, delivered %s", told, m.body)
	}
	n.post("/api/v1/ack", fmt.Sprintf(`{"transactionId":%q,"partitionId":%q,"leaseId":%q,"consumerGroup":"g"}`, told,
		m.str("partitionId"), m.str("leaseId"))).is(200).equal(`true`, 0, "success")
}

// TestGoneDeadLetterUnderAKey: a dead letter that is not there is told in one shape, with a key and without.
func TestGoneDeadLetterUnderAKey(t *testing.T) {
	n := start(t)
	const path = "/api/v1/dlq/01a22a3f-2f99-72bd-aa56-b1517404bcb9/replay"
	plain := n.post(path, `{}`).is(404).equal(`"gone"`, "result")
	if keyed := n.post(path, `{}`, "Idempotency-Key: k").is(404); keyed.body != plain.body {
		t.Errorf("%s\n%s", plain.body, keyed.body)
	}
}

// TestTokenBeyondAllVersions is refused in the family of the locks.
func TestTokenBeyondAllVersions(t *testing.T) {
	n := start(t)
	n.post("/api/v1/locks", `{"operations":[{"op":"release","name":"l","token":1152921504606846976}]}`).is(400).
		equal(`"locks_bad_request"`, "error").equal(`"locks_bad_token"`, "reason")
}

// TestDuplicateInATransactionNamesTheOriginal (S-txn-11).
func TestDuplicateInATransactionNamesTheOriginal(t *testing.T) {
	n := start(t)
	n.post("/api/v1/push", `{"items":[{"queue":"q","transactionId":"a","payload":1},{"queue":"q","transactionId":"b","payload":1}]}`).is(201)
	n.post("/api/v1/transaction", `{"operations":[{"type":"push","queue":"q","transactionId":"b","payload":1}]}`).is(200).
		equal(`"duplicate"`, "reason").equal(`"an id was pushed before, at offset 1"`, "error")
}
