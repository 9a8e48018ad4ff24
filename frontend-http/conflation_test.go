package frontendhttp

import (
	"fmt"
	"strings"
	"testing"
)

// TestConflation: what a client of a conflating group reads, over a socket (http-api 5.5): a body also when there is
// nothing, the newest message of each partition alone, the number of those it stands for, and the conflict of
// somebody who thinks otherwise.
func TestConflation(t *testing.T) {
	n := start(t)
	const pop = "/api/v1/pop/queue/prices?consumerGroup=desk&subscriptionMode=all&conflation=true"
	n.get(pop).is(200).equal(`{"success":true,"queue":"prices","partition":"","partitionId":"","leaseId":"","consumerGroup":"desk",` +
		`"messages":[],"partitionsClaimed":0,"conflation":true}`)
	for i := range 3 {
		n.push1("prices", "ACME", fmt.Sprint("a", i), fmt.Sprint(i))
	}
	n.push1("prices", "EMCA", "e0", `7`)

	a := n.get(pop+"&wait=true&timeout=30000").is(200).equal(`true`, "conflation").equal(`2`, "partitionsClaimed")
	if a.len("messages") != 2 || strings.Contains(a.body, "conflationConflict") {
		t.Fatal(a.body)
	}
	a.equal(`"a2"`, "messages", 0, "transactionId").equal(`2`, "messages", 0, "offset").equal(`2`, "messages", 0, "data").
		equal(`1`, "messages", 0, "deliveryAttempt").equal(`"e0"`, "messages", 1, "transactionId")
	n.push1("prices", "ACME", "a3", `3`)
	ack := func(i int, status string) answer {
		return n.post("/api/v1/ack/batch", fmt.Sprintf(`{"consumerGroup":"desk","acknowledgments":[{"transactionId":%q,`+
			`"partitionId":%q,"leaseId":%q,"status":%q}]}`, a.str("messages", i, "transactionId"), a.str("messages", i, "partitionId"),
			a.str("leaseId"), status)).is(200)
	}
	ack(0, "completed").equal(`true`, 0, "success").equal(`true`, 0, "leaseReleased").equal(`2`, 0, "conflated")
	if one := ack(1, "completed").equal(`true`, 0, "success"); strings.Contains(one.body, "conflated") {
		t.Error("nothing was skipped, and the answer says so:", one.body)
	}
	// What came between is pending, the policy stays, and whoever asks for the other one is told.
	b := n.get("/api/v1/pop/queue/prices?consumerGroup=desk").is(200).equal(`true`, "conflation").equal(`true`, "conflationConflict")
	b.equal(`"a3"`, "messages", 0, "transactionId")
	n.get("/api/v1/pop/queue/prices?consumerGroup=desk").is(200).equal(`[]`, "messages").equal(`true`, "conflationConflict")
	n.get("/api/v1/pop/queue/prices?consumerGroup=plain&subscriptionMode=all&partitions=9").is(200).equal(`2`, "partitionsClaimed")
	n.get("/api/v1/pop/queue/prices?consumerGroup=plain&conflation=true").is(200).equal(`[]`, "messages").
		equal(`true`, "conflationConflict")
	n.get("/api/v1/pop/queue/prices?consumerGroup=plain").is(204)
}

// TestConflationWidth: partitions follow the batch up to 64; a width that was sent counts.
func TestConflationWidth(t *testing.T) {
	n := start(t)
	for p := range 70 {
		n.push1("q", fmt.Sprint("p", p), "x", `1`)
		n.push1("q", fmt.Sprint("p", p), "y", `2`)
	}
	for query, want := range map[string]int{"": 64, "&batch=5": 5, "&partitions=3": 3, "&batch=2&partitions=3": 2, "&batch=1000": 64} {
		group := fmt.Sprintf("g%x", query)
		got := n.get("/api/v1/pop/queue/q?conflation=true&subscriptionMode=all&autopilot=true&consumerGroup=" + group + query).is(200)
		if got.len("messages") != want || strings.Contains(got.body, `"autopilot"`) {
			t.Errorf("%q: %d messages, want %d", query, got.len("messages"), want)
		}
	}
	n.get("/api/v1/pop/queue/q/partition/p69?conflation=true&subscriptionMode=all&consumerGroup=one").is(200).
		equal(`"y"`, "messages", 0, "transactionId").equal(`1`, "partitionsClaimed")
}

// TestConflationListings: the group says what it is, and depth counts what its handler will see.
func TestConflationListings(t *testing.T) {
	n := start(t)
	n.get("/api/v1/pop/queue/q?conflation=true&consumerGroup=g").is(200)
	for p := range 3 {
		for i := range 4 {
			n.push1("q", fmt.Sprint("p", p), fmt.Sprint(i), `1`)
		}
	}
	n.get("/api/v1/resources/queues/q/depth?group=g").is(200).equal(`true`, "conflation").equal(`12`, "pending").
		equal(`3`, "effectivePending").equal(`3`, "effectiveReady")
	n.get("/api/v1/resources/queues/q/depth").is(200).equal(`false`, "conflation").equal(`12`, "effectivePending")
	if list := n.get("/api/v1/consumer-groups").is(200); !strings.Contains(list.body, `"conflation":true`) {
		t.Error(list.body)
	}
}

// TestAutopilotTakesWhatIsReady: a width that was not sent is what is ready, 64 at most.
func TestAutopilotTakesWhatIsReady(t *testing.T) {
	n := start(t)
	for p := range 5 {
		n.push1("q", fmt.Sprint("p", p), "x", `1`)
	}
	n.get("/api/v1/pop/queue/q?autopilot=true&consumerGroup=g&subscriptionMode=all").is(200).equal(`5`, "partitionsClaimed").
		equal(`{"partitions":5,"batch":200}`, "autopilot")
	n.get("/api/v1/pop/queue/q?autopilot=true&partitions=2&consumerGroup=h&subscriptionMode=all").is(200).
		equal(`2`, "partitionsClaimed").equal(`{"partitions":2,"batch":200}`, "autopilot")
}
