package frontendhttp

import (
	"testing"
)

// TestLifeOfAMessage follows the five-minute guide: configure, push, pop, ack, pop again.
func TestLifeOfAMessage(t *testing.T) {
	n := start(t)
	n.post("/api/v1/configure", `{"queue":"orders","namespace":null,"task":null,"options":{"leaseTime":300,"retryLimit":3,`+
		`"priority":0,"delayedProcessing":0,"windowBuffer":0,"maxSize":0,"retentionSeconds":0,`+
		`"completedRetentionSeconds":0,"encryptionEnabled":false}}`).is(200).equal(`true`, "configured").
		equal(`300`, "options", "leaseTime")
	n.push1("orders", "customer-42", "order-9-created", `{"orderId":9}`).equal(`0`, 0, "offset").
		equal(`"queued"`, 0, "status")
	p := n.get("/api/v1/pop/queue/orders?autopilot=true&wait=false&timeout=30000&consumerGroup=billing&subscriptionMode=all").
		is(200)
	p.equal(`{"orderId":9}`, "messages", 0, "data").equal(`1`, "messages", 0, "deliveryAttempt").
		equal(`"billing"`, "messages", 0, "consumerGroup").equal(`"customer-42"`, "partition")
	a := n.post("/api/v1/ack", `{"transactionId":"order-9-created","partitionId":"`+p.str("messages", 0, "partitionId")+
		`","status":"completed","error":null,"consumerGroup":"billing","leaseId":"`+p.str("leaseId")+`"}`).is(200)
	a.equal(`true`, 0, "success").equal(`null`, 0, "error").equal(`true`, 0, "leaseReleased")
	empty := n.get("/api/v1/pop/queue/orders?batch=1&wait=false&timeout=30000&consumerGroup=billing").is(204)
	if empty.body != "" || empty.header.Get("Content-Length") != "" {
		t.Fatalf("204 with length %q and body %q", empty.header.Get("Content-Length"), empty.body)
	}
}
