package frontendhttp

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// TestMessageDetail: the keys that the client suite reads, on a leased message, a dead letter and a raw id (S-obs-1).
func TestMessageDetail(t *testing.T) {
	w := consume(t, 2, "")
	a := w.get("/api/v1/messages/" + w.part + "/m1").is(200)
	for _, key := range []string{"id", "transactionId", "partitionId", "partition", "queue", "queuePath", "namespace",
		"task", "status", "payload", "createdAt", "retryCount", "queueConfig", "consumerGroups"} {
		a.at(key)
	}
	a.equal(`"processing"`, "status").equal(`1`, "payload").equal(`1`, "data").equal(`"q/p"`, "queuePath").
		equal(`10`, "queueConfig", "leaseTime").equal(`"g"`, "consumerGroups", 0, "name").
		equal(`"bus"`, "mode", "type").equal(`"2023-11-14T22:13:30.000000Z"`, "leaseExpiresAt")
	w.post("/api/v1/ack", `{"transactionId":"m1","partitionId":"`+w.part+`","status":"dlq","error":"why","leaseId":"`+
		w.lease+`","consumerGroup":"g"}`).is(200)
	w.get("/api/v1/messages/"+w.part+"/m1").is(200).equal(`"dead_letter"`, "status").equal(`"why"`, "errorMessage")
	w.get("/api/v1/messages/"+w.part+"/m2").is(200).equal(`"pending"`, "status")
	w.push1("q", "p", "a/b c", `1`)
	w.get("/api/v1/messages/"+w.part+"/a/b%20c").is(200).equal(`"a/b c"`, "transactionId")
	w.get("/api/v1/messages/" + w.part + "/none").is(404)
	w.get("/api/v1/messages/999/m1").is(404)
	w.get("/api/v1/messages/x/m1").is(404)
	w.post("/api/v1/push/raw?queue=q&partition=p&transactionId=bin", "x", "Content-Type: text/plain")
	b := w.get("/api/v1/messages/" + w.part + "/bin").is(200)
	if b.header.Get("Content-Type") != "application/json" {
		t.Error(b.header)
	}
}

func TestBrowse(t *testing.T) {
	w := consume(t, 3, "")
	w.ack("m1 completed")
	a := w.get("/api/v1/messages?queue=q").is(200).equal(`3`, "total").equal(`"m3"`, "messages", 0, "transactionId").
		equal(`{"hasQueueMode":false,"busGroupsCount":1,"type":"bus"}`, "mode").equal(`true`, "messages", 0, "payloadAvailable")
	a.equal(`{"consumedBy":1,"totalGroups":1}`, "messages", 2, "busStatus")
	w.get("/api/v1/messages?queue=q&status=completed").is(200).equal(`1`, "total").
		equal(`"m1"`, "messages", 0, "transactionId")
	w.get("/api/v1/messages?queue=q&limit=1&offset=1").is(200).equal(`"m2"`, "messages", 0, "transactionId")
	w.get("/api/v1/messages?ns=none").is(200).equal(`[]`, "messages")
	w.get("/api/v1/messages?from=2030-01-01T00:00:00Z").is(200).equal(`0`, "total")
	w.get("/api/v1/messages?status=lost").is(400)
	w.get("/api/v1/messages?limit=ten").is(400)
}

func TestQueueListings(t *testing.T) {
	n := start(t)
	for i := range 3 {
		n.push1(fmt.Sprintf("billing.pay.%d", i), "p", "t", `1`)
	}
	n.get("/api/v1/resources/queues?stats=cached").is(200).equal(`"billing.pay.0"`, "queues", 0, "name").
		equal(`"billing"`, "queues", 0, "namespace").equal(`{"total":1,"pending":1,"processing":0}`, "queues", 0, "messages").
		equal(`1`, "queues", 0, "partitions")
	first := n.get("/api/v1/resources/queues?limit=2").is(200)
	if first.len("queues") != 2 {
		t.Error(first.body)
	}
	n.get("/api/v1/resources/queues?after="+first.str("next")).is(200).equal(`"billing.pay.2"`, "queues", 0, "name")
	d := n.get("/api/v1/resources/queues/billing.pay.1").is(200).equal(`60`, "options", "leaseTime").
		equal(`"billing"`, "options", "namespace").equal(`"p"`, "partitions", 0, "name")
	if got := len(d.at("options").(map[string]any)); got != 21 {
		t.Errorf("%d option keys", got)
	}
	n.get("/api/v1/resources/queues/none").is(404).equal(`"Queue not found"`, "error")
	n.get("/api/v1/resources/queues/none/depth").is(404)
	n.get("/api/v1/resources/queues/billing.pay.1/depth").is(200).equal(`{"queue":"billing.pay.1","group":null,` +
		`"pending":1,"processing":0,"ready":1,"partitionsPending":1,"partitionsReady":1,"conflation":false,` +
		`"effectivePending":1,"effectiveReady":1,"partitions":[{"partition":"p","pending":1,"processing":0,"ready":1}]}`)
	n.get("/api/v1/resources/namespaces").is(200).equal(`{"namespaces":[{"namespace":"billing","queues":3,` +
		`"partitions":3,"messages":{"total":3,"pending":3}}]}`)
	n.get("/api/v1/resources/tasks").is(200).equal(`"pay"`, "tasks", 0, "task")
	n.get("/api/v1/resources/overview").is(200).equal(`3`, "queues").equal(`3`, "messages", "pending").
		equal(`1`, "namespaces")
	n.do("DELETE", "/api/v1/resources/queues/billing.pay.1", "").is(200).
		equal(`{"deleted":true,"queue":"billing.pay.1","existed":true}`)
	n.do("DELETE", "/api/v1/resources/queues/billing.pay.1", "").is(200).equal(`false`, "deleted").
		equal(`false`, "existed")
}

func TestTopPartitions(t *testing.T) {
	w := consume(t, 3, "")
	w.get("/api/v1/resources/partitions?queue=q&limit=610").is(200).equal(`"p"`, "partitions", 0, "partition").
		equal(`3`, "partitions", 0, "pending").equal(`3`, "partitions", 0, "processing").
		equal(`0`, "partitions", 0, "lagSeconds")
	w.get("/api/v1/resources/partitions?limit=x").is(400)
}

// TestTenancy: another tenant sees nothing, and a malformed header is refused.
func TestTenancy(t *testing.T) {
	n := startWith(t, Options{Tenancy: true, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	const a = "x-queen-tenant: 11111111-1111-1111-1111-111111111111"
	n.post("/api/v1/push", `{"items":[{"queue":"q","payload":1}]}`, a).is(201)
	n.get("/api/v1/pop/queue/q").is(204)
	n.get("/api/v1/resources/queues").is(200)
	n.get("/api/v1/pop/queue/q", a).is(200)
	n.get("/api/v1/pop/queue/q", "x-queen-tenant: me").is(400).
		equal(`false`, "success")
	bad := n.get("/api/v1/resources/queues", "x-queen-tenant: me").is(400)
	bad.equal(`{"error":"invalid x-queen-tenant header (must be a UUID)"}`)
	off := start(t)
	off.post("/api/v1/push", `{"items":[{"queue":"q","payload":1}]}`, a).is(201)
	off.get("/api/v1/pop/queue/q").is(200)
}

// TestStringsOnTheWire: what is not UTF-8 or can not stand in a string is escaped, never sent raw.
func TestStringsOnTheWire(t *testing.T) {
	for in, want := range map[string]string{"": `""`, "a": `"a"`, `"\` + "\n\r\t\x00\x1f": `"\"\\\n\r\t\u0000\u001f"`,
		"é😀\u2028": `"é😀` + "\u2028" + `"`, "a\xffb": `"a` + "\ufffd" + `b"`, "\xc3": "\"\ufffd\"",
		"\ufffd": "\"\ufffd\"", "</a>&": `"</a>&"`, "\x7f": "\"\x7f\""} {
		if got := string(appendString(nil, in)); got != want {
			t.Errorf("%q: %s want %s", in, got, want)
		}
	}
	var o out
	o.open('{').key("a").open('[').open('{').close('}').open('{')
	o.str("b", "{")
	o.num("c", -1)
	o.close('}').text("[")
	o.text("")
	o.close(']')
	o.null("d")
	o.close('}')
	if want := `{"a":[{},{"b":"{","c":-1},"[",""],"d":null}`; string(o.b) != want {
		t.Errorf("%s want %s", o.b, want)
	}
	if s := string(appendTime(nil, -1)); !strings.Contains(s, "1969-12-31T23:59:59.999999Z") {
		t.Error(s)
	}
}
