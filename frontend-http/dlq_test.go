package frontendhttp

import (
	"testing"
)

// buried is a node whose queue q holds three dead letters of group g, with reasons r1 to r3.
func buried(t *testing.T) *worker {
	w := consume(t, 3, "")
	for _, id := range []string{"1", "2", "3"} {
		w.post("/api/v1/ack", `{"transactionId":"m`+id+`","partitionId":"`+w.part+`","status":"dlq","error":"r`+id+
			`","leaseId":"`+w.lease+`","consumerGroup":"g"}`).is(200).equal(`true`, 0, "dlq")
		w.pop()
	}
	return w
}

func TestDeadLetterListing(t *testing.T) {
	w := buried(t)
	a := w.get("/api/v1/dlq?queue=q&limit=100&offset=0").is(200).equal(`3`, "total").
		equal(`{"limit":100,"offset":0}`, "pagination").equal(`"r3"`, "messages", 0, "errorMessage").
		equal(`3`, "messages", 0, "data").equal(`"m3"`, "messages", 0, "transactionId").
		equal(`"g"`, "messages", 0, "consumerGroup").equal(`null`, "messages", 0, "producerSub")
	if a.str("messages", 0, "partitionId") != w.part {
		t.Error(a.body)
	}
	w.get("/api/v1/dlq?queue=q&limit=1&offset=1").is(200).equal(`1`, "total").equal(`"m2"`, "messages", 0, "transactionId")
	w.get("/api/v1/dlq?queue=q&consumerGroup=other").is(200).equal(`[]`, "messages")
	w.get("/api/v1/dlq?queue=q&error=r1&partition=p&from=2000-01-01T00:00:00Z").is(200).equal(`1`, "total")
	w.get("/api/v1/dlq?queue=q&to=2000-01-01T00:00:00Z").is(200).equal(`0`, "total")
	w.get("/api/v1/dlq?queue=none").is(200).equal(`[]`, "messages")
	w.get("/api/v1/dlq?limit=x").is(400)
	w.get("/api/v1/dlq?from=x").is(400)
}

func TestReplay(t *testing.T) {
	w := buried(t)
	id := w.get("/api/v1/dlq?queue=q&error=r2").str("messages", 0, "id")
	a := w.post("/api/v1/dlq/"+id+"/replay", ``).is(200).equal(`"moved"`, "result").equal(`true`, "dlqRowRemoved").
		equal(`"m2"`, "originalTransactionId").equal(`"g"`, "consumerGroup").equal(`"p"`, "partition").
		equal(`"dlq:`+id+`"`, "replayedAs", "transaction_id").equal(`"queued"`, "replayedAs", "status").
		equal(`3`, "replayedAs", "offset").equal(`"q"`, "replayedAs", "queueName")
	if a.str("dlqId") != id {
		t.Error(a.body)
	}
	w.redelivers("dlq:" + id)
	w.post("/api/v1/dlq/"+id+"/replay", `{}`).is(404).equal(`{"success":false,"result":"gone","dlqId":"` + id +
		`","error":"Message not found"}`)
	w.post("/api/v1/dlq/nonsense/replay", `{}`).is(404).equal(`"gone"`, "result")
	for _, body := range []string{`{"queue":""}`, `{"partition":""}`, `{"queue":1}`, `{"target":""}`, `{"target":"g"}`, `[]`} {
		w.post("/api/v1/dlq/"+id+"/replay", body).is(400)
	}
	w.post("/api/v1/messages/"+w.part+"/m3/retry", `{}`).is(200).equal(`"m3"`, "originalTransactionId")
	w.post("/api/v1/messages/"+w.part+"/m3/retry", `{}`).is(404).equal(`null`, "dlqId")
	other := w.get("/api/v1/dlq?queue=q").str("messages", 0, "id")
	w.post("/api/v1/dlq/"+other+"/replay", `{"queue":"fresh","partition":"x y"}`).is(200).equal(`"fresh"`, "queue").
		equal(`"x y"`, "partition")
	w.get("/api/v1/pop/queue/fresh/partition/x y").is(400) // a raw space is no HTTP
	w.get("/api/v1/pop/queue/fresh/partition/x%20y").is(200).equal(`1`, "messages", 0, "data")
	w.get("/api/v1/dlq?queue=q").is(200).equal(`0`, "total")
}

func TestRemovingDeadLetters(t *testing.T) {
	w := buried(t)
	w.push1("q", "p", "live", `1`)
	w.do("DELETE", "/api/v1/messages/"+w.part+"/live", "").is(404).equal(`"Message not found"`, "error").
		equal(`false`, "success")
	w.do("DELETE", "/api/v1/messages/"+w.part+"/m1", "").is(200).equal(`true`, "success").
		equal(`"m1"`, "transactionId").equal(`"`+w.part+`"`, "partitionId")
	w.do("DELETE", "/api/v1/dlq", "").is(400).equal(`"queue is required"`, "error")
	w.do("DELETE", "/api/v1/dlq?queue=q&consumerGroup=other", "").is(200).equal(`0`, "deleted")
	w.do("DELETE", "/api/v1/dlq?queue=q", "").is(200).equal(`{"success":true,"deleted":2,"queue":"q","consumerGroup":null}`)
	w.get("/api/v1/dlq?queue=q").is(200).equal(`0`, "total")
}
