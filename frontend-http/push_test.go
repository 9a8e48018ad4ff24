package frontendhttp

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"queen/engine"
	"queen/engine/enginetest"
)

// TestPushKeepsRequestOrder: items of many queues and partitions, keys in any order, come back one result each in
// request order, and each partition holds its items in request order (S-push-1, S-push-5).
func TestPushKeepsRequestOrder(t *testing.T) {
	n := start(t)
	a := n.post("/api/v1/push", `{"other":{"items":[1]},"items":[
		{"payload":0,"queue":"a","partition":"x"},
		{"queue":"b","payload":1},
		{"transactionId":"t2","payload":2,"partition":"x","queue":"a","unknown":[{}]},
		{"queue":"a","partition":"y","payload":3,"transactionId":null,"traceId":null},
		{"queue":"b","partition":null,"payload":4},
		{"queue":"b","partition":"","payload":5}],"more":null}`).is(201)
	if a.len() != 6 {
		t.Fatalf("%d results", a.len())
	}
	for i, want := range []struct{ queue, offset string }{
		{`"a"`, "0"}, {`"b"`, "0"}, {`"a"`, "1"}, {`"a"`, "0"}, {`"b"`, "1"}, {`"b"`, "2"},
	} {
		a.equal(fmt.Sprint(i), i, "index").equal(want.queue, i, "queueName").equal(want.offset, i, "offset").
			equal(`"queued"`, i, "status")
	}
	a.equal(`"t2"`, 2, "transaction_id")
	if a.str(0, "transaction_id") != a.str(0, "message_id") {
		t.Error("a message without an id is not keyed by its message id")
	}
	p := n.get("/api/v1/pop/queue/a/partition/x?subscriptionMode=all&consumerGroup=g").is(200)
	p.equal(`0`, "messages", 0, "data").equal(`2`, "messages", 1, "data")
	n.get("/api/v1/pop/queue/b/partition/Default").is(200).equal(`1`, "messages", 0, "data").
		equal(`4`, "messages", 1, "data").equal(`5`, "messages", 2, "data")
}

// TestPayloadsComeBackAsTheyWere: every byte of a payload is kept, white space and odd numbers included (S-push-9).
func TestPayloadsComeBackAsTheyWere(t *testing.T) {
	payloads := []string{`null`, `{}`, `[]`, `""`, `true`, `-0`, `1e400`, `9007199254740993`, `0.10`,
		`{"a" : [1,  2,{"b":"\u00e9\ud83d\ude00é😀"}] ,"a":2}`, `"\u2028<>&` + "\u2028" + `\/"`,
		strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
		`"` + strings.Repeat("x", 2<<20) + `"`}
	n := start(t)
	for i, p := range payloads {
		n.push1("q", fmt.Sprint("p", i), "t", p)
		a := n.get(fmt.Sprintf("/api/v1/pop/queue/q/partition/p%d", i)).is(200)
		if !strings.Contains(a.body, `"data":`+p+`,"producerSub":null`) {
			t.Errorf("payload %s came back as %s", cut(p), cut(a.body))
		}
		f := n.post("/api/v1/fetch", fmt.Sprintf(`{"entries":[{"queue":"q","partition":"p%d","offset":0}]}`, i)).is(200)
		if !strings.Contains(f.body, `"payload":`+p+`,"ts":"`) {
			t.Errorf("payload %s was fetched as %s", cut(p), cut(f.body))
		}
	}
}

func TestPushRefusals(t *testing.T) {
	n := start(t)
	item := func(s string) string { return `{"items":[{"queue":"ok","payload":1},` + s + `]}` }
	long := strings.Repeat("n", 450)
	for _, c := range []struct {
		body   string
		status int
		code   string
	}{
		{``, 400, "bad_body"}, {`{`, 400, "bad_body"}, {`[]`, 400, "bad_body"}, {`null`, 400, "bad_body"},
		{`{}`, 400, "bad_body"}, {`{"Items":[]}`, 400, "bad_body"}, {`{"items":null}`, 400, "bad_body"},
		{`{"items":{}}`, 400, "bad_body"}, {`{"items":"x"}`, 400, "bad_body"}, {`{"items":[]}x`, 400, "bad_body"},
		{`{"items":[]}{"items":[]}`, 400, "bad_body"}, {`{"items":[],"items":[]}`, 400, "bad_body"},
		{"\xef\xbb\xbf" + `{"items":[]}`, 400, "bad_body"}, {`{"items":[],}`, 400, "bad_body"},
		{item(`null`), 400, "bad_body"}, {item(`1`), 400, "bad_body"}, {item(`[]`), 400, "bad_body"},
		{item(`{}`), 400, "bad_body"}, {item(`{"queue":"q"}`), 400, "bad_body"},
		{item(`{"payload":1}`), 400, "bad_body"}, {item(`{"queue":null,"payload":1}`), 400, "bad_body"},
		{item(`{"queue":7,"payload":1}`), 400, "bad_body"}, {item(`{"queue":["q"],"payload":1}`), 400, "bad_body"},
		{item(`{"queue":"q","data":1}`), 400, "bad_body"},
		{item(`{"queue":"q","partition":7,"payload":1}`), 400, "bad_body"},
		{item(`{"queue":"q","transactionId":7,"payload":1}`), 400, "bad_body"},
		{item(`{"queue":"q","payload":01}`), 400, "bad_body"}, {item(`{"queue":"q","payload":tru}`), 400, "bad_body"},
		{item(`{"queue":"q","payload":NaN}`), 400, "bad_body"}, {item(`{"queue":"q","payload":[1,]}`), 400, "bad_body"},
		{item(`{"queue":"q","payload":"` + "\x01" + `"}`), 400, "bad_body"},
		{item(`{"queue":"q","payload":"` + "\xff" + `"}`), 400, "bad_body"},
		{item(`{"queue":"q","payload":"\x"}`), 400, "bad_body"},
		{item(`{"queue":"q","payload":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`), 400, "bad_body"},
		{strings.Repeat(`{"items":[`, 20000), 400, "bad_body"},
		{item(`{"queue":"q","payload":1,"transactionId":"` + strings.Repeat("t", 65536) + `"}`), 400, "bad_request"},
		{item(`{"queue":"` + long + `","payload":1}`), 413, "name_too_long"},
		{item(`{"queue":"q","partition":"` + long + `","payload":1}`), 413, "name_too_long"},
	} {
		a := n.post("/api/v1/push", c.body).is(c.status)
		if a.str("code") != c.code || a.str("error") == "" {
			t.Errorf("%s: %s", cut(c.body), a.body)
		}
	}
	n.get("/api/v1/pop/queue/ok").is(204) // nothing of a refused call was written
	n.post("/api/v1/push", item(`{"queue":"q","payload":1,"transactionId":"`+strings.Repeat("t", 65535)+`"}`)).is(201)
	n.post("/api/v1/push", `{"items":[]}`).is(201).equal(`[]`)
	n.post("/api/v1/push", `{"items":[{"queue":"`+strings.Repeat("n", 404)+`","payload":1}]}`).is(201)
}

// TestNamesHaveNoCharacterRules: awkward names round-trip through bodies and raw paths (S-id-5).
func TestNamesHaveNoCharacterRules(t *testing.T) {
	n := start(t)
	for _, name := range []string{"a b", "a/b", "ä:ö", "😀", `"\`, "a%2Fb", "a/partition/b", "\t", "?&#+"} {
		n.push1(name, name, "t", `1`)
		target := "/api/v1/pop/queue/" + url.PathEscape(name) + "/partition/" + url.PathEscape(name)
		a := n.get(target).is(200)
		if a.str("queue") != name || a.str("messages", 0, "partition") != name {
			t.Errorf("%q came back as %s", name, a.body)
		}
	}
	// The SDK encodes spaces and non-ASCII but no slash.
	n.push1("in/voices", "eu/1", "t", `1`)
	n.get("/api/v1/pop/queue/in/voices/partition/eu%2F1?consumerGroup=g&subscriptionMode=all").is(200).
		equal(`"eu/1"`, "partition")
	n.get("/api/v1/pop/queue/in/voices/partition/x/partition/eu/1").is(204)
	n.get("/api/v1/pop/queue/in/voices").is(200).equal(`"in/voices"`, "queue")
	n.get("/api/v1/resources/queues/in/voices/depth").is(200).equal(`"in/voices"`, "queue")
	n.get("/api/v1/resources/queues/in%2Fvoices").is(200).equal(`"in/voices"`, "name")
	n.do("DELETE", "/api/v1/resources/queues/in/voices", "").is(200).equal(`true`, "deleted")
	n.push1("", "p", "t", `1`)
	n.get("/api/v1/pop/queue/").is(200).equal(`""`, "queue")
	n.get("/api/v1/resources/queues/").is(200).equal(`""`, "name")
	n.do("DELETE", "/api/v1/resources/queues/", "").is(200).equal(`true`, "deleted")
	n.get("/api/v1/pop/queue/%zz").is(400).equal(`false`, "success").equal(`[]`, "messages")
	n.get("/api/v1/pop/queue/%ff").is(400)
}

// TestDuplicates: one id is stored once per partition; repeats tell the original's id and offset (S-dup-1 to 5).
func TestDuplicates(t *testing.T) {
	n := start(t)
	first := n.push1("q", "p", "id", `1`)
	again := n.push1("q", "p", "id", `2`).equal(`"duplicate"`, 0, "status").equal(`0`, 0, "offset")
	if again.str(0, "message_id") != first.str(0, "message_id") {
		t.Error("a duplicate names another message")
	}
	n.push1("q", "other", "id", `1`).equal(`"queued"`, 0, "status")
	n.post("/api/v1/configure", `{"queue":"off","options":{"dedupWindowSeconds":0}}`).is(200)
	a := n.post("/api/v1/push", `{"items":[{"queue":"off","transactionId":"x","payload":1},`+
		`{"queue":"off","payload":1},{"queue":"off","transactionId":"x","payload":2}]}`).is(201)
	a.equal(`"queued"`, 0, "status").equal(`"queued"`, 1, "status").equal(`"duplicate"`, 2, "status")
	if a.str(0, "message_id") != a.str(2, "message_id") {
		t.Error("a repeat in one call names another message")
	}
	n.push1("off", "Default", "x", `3`).equal(`"queued"`, 0, "status")
}

func TestTraceIDs(t *testing.T) {
	n := start(t)
	const id = "4f2a6b1e-93c8-4d51-8a07-1c2d3e4f5a6b"
	n.post("/api/v1/push", `{"items":[{"queue":"q","payload":1,"traceId":"`+id+`"},`+
		`{"queue":"q","payload":2,"traceId":"not one"},{"queue":"q","payload":3,"traceId":{"a":1}}]}`).is(201)
	n.get("/api/v1/pop/queue/q").is(200).equal(`"`+id+`"`, "messages", 0, "traceId").
		equal(`null`, "messages", 1, "traceId").equal(`null`, "messages", 2, "traceId")
}

// TestHundredThousandItems: no count limit of ours; one result each.
func TestHundredThousandItems(t *testing.T) {
	n := startWith(t, Options{Engine: newSink()})
	var b strings.Builder
	b.WriteString(`{"items":[`)
	items := 100_000
	if testing.Short() {
		items = 20_000
	}
	for i := range items {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"queue":"q","partition":"p%d","transactionId":"t%d","payload":%d}`, i%997, i, i)
	}
	b.WriteString(`]}`)
	a := n.post("/api/v1/push", b.String()).is(201)
	if a.len() != items {
		t.Fatalf("%d results", a.len())
	}
	for _, i := range []int{0, 1, 996, 997, items - 1} {
		a.equal(fmt.Sprint(i), i, "index").equal(fmt.Sprintf(`"t%d"`, i), i, "transaction_id").
			equal(fmt.Sprint(i/997), i, "offset")
	}
}

func TestOversizedBody(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.send(fmt.Sprintf("POST /api/v1/push HTTP/1.1\r\nHost: q\r\nContent-Length: %d\r\n\r\n{", 64<<20+1))
	if a := c.receive(); a.status != 413 || !strings.HasPrefix(a.header.Get("Content-Type"), "text/plain") {
		t.Fatalf("%d %q %s", a.status, a.header.Get("Content-Type"), a.body)
	}
}

// TestItemsRefusedByTheEngine: a partition the engine refuses has error items inside the 201 (S-push-13); transactions and
// timers are refused for it as a whole.
func TestItemsRefusedByTheEngine(t *testing.T) {
	n := start(t)
	n.post("/api/v1/configure", `{"queue":"secret","options":{"encryptionEnabled":true}}`).is(200).
		equal(`true`, "options", "encryptionEnabled")
	a := n.post("/api/v1/push", `{"items":[{"queue":"q","payload":1},{"queue":"secret","transactionId":"t","payload":1}]}`).
		is(201).equal(`"queued"`, 0, "status").equal(`"error"`, 1, "status").equal(`null`, 1, "message_id")
	if !strings.Contains(a.str(1, "error"), "encryption_unavailable") {
		t.Error(a.body)
	}
	if strings.Contains(a.body[strings.Index(a.body, `"error"`):], "offset") {
		t.Error("a refused item has an offset")
	}
	n.post("/api/v1/transaction", `{"operations":[{"type":"push","queue":"secret","payload":1}]}`).is(200).
		equal(`"encryption_unavailable"`, "reason")
	n.post("/api/v1/timers", `{"operations":[{"op":"schedule","queue":"secret","timerKey":"k","delayMs":1,"payload":"MQ=="},`+
		`{"op":"cancel","queue":"q","timerKey":"k"}]}`).is(409).equal(`"encryption_unavailable"`, "error")
}

// TestBinaryMessages: raw bytes and headers through push/raw come back identical by pop and by fetch/raw.
func TestBinaryMessages(t *testing.T) {
	n := start(t)
	payload := make([]byte, 256)
	for i := range payload {
		payload[i] = byte(i)
	}
	c := n.dial()
	c.send("POST /api/v1/push/raw?queue=bin&partition=a%2Fb&transactionId=%C3%A9 HTTP/1.1\r\nHost: q\r\n" +
		"Content-Type: image/png\r\nqueen-h-traceparent: 00-abc\r\nQueen-H-x: 1\r\nQUEEN-H-%58: %00%FF%25\r\n" +
		fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(payload), payload))
	c.receive().is(201).equal(`"queued"`, 0, "status").equal(`"é"`, 0, "transaction_id")
	p := n.get("/api/v1/pop/queue/bin?consumerGroup=g&subscriptionMode=all").is(200)
	m := []any{"messages", 0}
	p.equal(`"base64"`, append(m, "encoding")...).equal(`"image/png"`, append(m, "contentType")...)
	if got, err := base64.StdEncoding.DecodeString(p.str(append(m, "data")...)); err != nil || string(got) != string(payload) {
		t.Errorf("payload came back as %x, %v", got, err)
	}
	p.equal(`[{"name":"traceparent","value":"00-abc"},{"name":"x","value":"1"},`+
		`{"name":"X","value":"AP8l","encoding":"base64"}]`, append(m, "headers")...)
	r := n.get("/api/v1/fetch/raw?queue=bin&partition=a/b&offset=0")
	if r.status != 200 || r.body != string(payload) || r.header.Get("Content-Type") != "image/png" {
		t.Errorf("fetch/raw: %d %q %x", r.status, r.header.Get("Content-Type"), r.body)
	}
	for k, want := range map[string]string{"Queen-Offset": "0", "Queen-Transaction-Id": "%C3%A9",
		"Queen-H-Traceparent": "00-abc", "Queen-H-X": "1", "Queen-H-%58": "%00%FF%25"} {
		if got := r.header.Get(k); got != want {
			t.Errorf("%s is %q want %q", k, got, want)
		}
	}
	n.post("/api/v1/push/raw?queue=bin", `{"json": 1}`).is(201)
	n.get("/api/v1/pop/queue/bin/partition/Default").is(200).equal(`{"json":1}`, "messages", 0, "data")
	n.post("/api/v1/push/raw?queue=bin", `{"json": `).is(400).equal(`"bad_body"`, "code")
	n.post("/api/v1/push/raw", `1`).is(400)
	n.post("/api/v1/push/raw?queue=bin", `1`, "Queen-H-a: %zz").is(400)
	n.get("/api/v1/fetch/raw?queue=none&offset=0").is(404).equal(`"unknown_queue"`, "code")
	n.get("/api/v1/fetch/raw?queue=bin&offset=1").is(404)
	n.get("/api/v1/fetch/raw?queue=bin&offset=-1").is(400)
}

func TestIdempotencyKeyReachesTheEngine(t *testing.T) {
	e := newSink()
	n := startWith(t, Options{Engine: e})
	n.post("/api/v1/push", `{"items":[{"queue":"q","payload":1}]}`, "Idempotency-Key: k1").is(201)
	if got := e.caller.Load().Key; got != "k1" {
		t.Errorf("key %q", got)
	}
	n.post("/api/v1/ack", `{"transactionId":"t","partitionId":"1"}`, "Idempotency-Key: k1").is(200)
	if got := e.caller.Load().Key; got != "" {
		t.Errorf("an ack carried key %q", got)
	}
	n.post("/api/v1/push", `{"items":[]}`, "Idempotency-Key: "+strings.Repeat("k", 256)).is(400)
}

// TestStringsOutliveTheRequest: what the engine keeps of a request does not change with the next one on the same
// connection.
func TestStringsOutliveTheRequest(t *testing.T) {
	m := enginetest.NewModel(enginetest.ModelOptions{})
	n := startWith(t, Options{Engine: m})
	c := n.dial()
	body := func(c byte) string {
		s := strings.Repeat(string(c), 40)
		return `{"items":[{"queue":"q` + s + `","partition":"p` + s + `","transactionId":"t` + s + `","payload":"d` + s +
			`"},{"queue":"q` + s + `","partition":"\u0070x` + s + `","transactionId":"\u0074` + s + `","payload":1}]}`
	}
	for _, b := range []byte("abc") {
		c.send(request("POST", "/api/v1/push", body(b)))
		c.receive().is(201)
	}
	for _, b := range []byte("abc") {
		s := strings.Repeat(string(b), 40)
		c.send(request("GET", "/api/v1/pop/queue/q"+s+"/partition/p"+s, ""))
		c.receive().is(200).equal(`"t`+s+`"`, "messages", 0, "transactionId").equal(`"d`+s+`"`, "messages", 0, "data")
		c.send(request("GET", "/api/v1/pop/queue/q"+s+"/partition/px"+s, ""))
		c.receive().is(200).equal(`"t`+s+`"`, "messages", 0, "transactionId")
	}
	rows, _, err := m.Catalog().Queues(context.Background(), defaultCaller, engine.Page{})
	if err != nil || len(rows) != 3 || rows[0].Name != "q"+strings.Repeat("a", 40) {
		t.Errorf("%v %v", rows, err)
	}
}
