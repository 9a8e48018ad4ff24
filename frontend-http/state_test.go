package frontendhttp

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"queen/engine/clock"
)

// TestKVVerdicts: what clients read of each op (S-kv-1 to 16).
func TestKVVerdicts(t *testing.T) {
	n := start(t)
	kv := func(ops string) answer { return n.post("/api/v1/kv", `{"operations":[`+ops+`]}`).is(200) }
	a := kv(`{"op":"putIfAbsent","ns":"n","key":"a","value":{"x": [1, null]},"ttlSeconds":60}`)
	a.equal(`{"x":[1,null]}`, "results", 0, "value").equal(`true`, "results", 0, "applied").equal(`"a"`, "results", 0, "key")
	version := a.at("results", 0, "version")
	kv(`{"op":"putIfAbsent","ns":"n","key":"a","value":2,"forever":true}`).equal(`false`, "results", 0, "applied").
		equal(`"exists"`, "results", 0, "reason").equal(`{"x":[1,null]}`, "results", 0, "value").
		equal(fmt.Sprint(version), "results", 0, "version")
	kv(`{"op":"put","ns":"n","key":"none","value":2,"forever":true,"expect":7}`).equal(`"absent"`, "results", 0, "reason")
	kv(`{"op":"put","ns":"n","key":"a","value":2,"forever":true,"expect":999}`).equal(`"version"`, "results", 0, "reason")
	kv(`{"op":"delete","ns":"n","key":"none"}`).equal(`false`, "results", 0, "applied").equal(`"absent"`, "results", 0, "reason")
	kv(`{"op":"incr","ns":"n","key":"a","delta":1,"forever":true}`).equal(`"type"`, "results", 0, "reason")
	for i, want := range []string{`1`, `2`, `2`} {
		kv(`{"op":"incr","ns":"n","key":"c","delta":1,"max":2,"forever":true}`).equal(want, "results", 0, "value").
			equal(fmt.Sprint(i < 2), "results", 0, "applied")
	}
	kv(`{"op":"get","ns":"n","key":"c"},{"op":"get","ns":"n","key":"none"}`).equal(`true`, "results", 0, "found").
		equal(`null`, "results", 0, "expiresAt").equal(`false`, "results", 1, "found")
	kv(`{"op":"put","ns":"n","key":"z","value":null,"forever":true},{"op":"get","ns":"n","key":"z"}`).
		equal(`true`, "results", 1, "found").equal(`null`, "results", 1, "value")
	kv(`{"op":"getMany","ns":"n","keys":["z","x","a"]}`).equal(`"a"`, "results", 0, "rows", 0, "key").
		equal(`"z"`, "results", 0, "rows", 1, "key").equal(`["x"]`, "results", 0, "missing")
	kv(`{"op":"check","ns":"n","key":"none","expect":0}`).equal(`true`, "results", 0, "applied").lacks("results", 0, "value")
	lost := kv(`{"op":"put","ns":"n","key":"fresh","value":1,"forever":true},` +
		`{"op":"check","ns":"n","key":"c","expect":1,"required":true}`)
	lost.equal(`false`, "ok").equal(`"kv_precondition"`, "reason").equal(`1`, "failedIndex").equal(`"version"`, "kvReason").
		equal(`2`, "value").lacks("results")
	n.get("/api/v1/kv/n/fresh").is(200).equal(`false`, "found")
	if etag := n.get("/api/v1/kv/n/c").is(200).equal(`2`, "value").header.Get("ETag"); len(etag) < 3 || etag[0] != '"' {
		t.Errorf("ETag %q", etag)
	}
	n.do("PUT", "/api/v1/kv/n/d%2Fe/f", `{"value":"v","ttlSeconds":5}`).is(200).equal(`"d/e/f"`, "key")
	n.do("DELETE", "/api/v1/kv/n/d/e/f", ``).is(200).equal(`true`, "applied")
	n.get("/api/v1/resources/kv/namespaces").is(200).equal(`[{"keys":3,"namespace":"n"}]`, "namespaces")
}

// TestKVPages: a prefix is read page by page, and no neighbour of it.
func TestKVPages(t *testing.T) {
	n := start(t)
	var ops []string
	for i := range 25 {
		ops = append(ops, fmt.Sprintf(`{"op":"put","ns":"n","key":"p/%02d","value":%d,"forever":true}`, i, i))
	}
	ops = append(ops, `{"op":"put","ns":"n","key":"q","value":0,"forever":true}`)
	n.post("/api/v1/kv", `[`+strings.Join(ops, ",")+`]`).is(200)
	after, seen := "", 0
	for page := 0; page < 4; page++ {
		a := n.post("/api/v1/kv", `[{"op":"getPrefix","ns":"n","prefix":"p/","limit":10,"after":"`+after+`"}]`).is(200)
		seen += a.len("results", 0, "rows")
		if fmt.Sprint(a.at("results", 0, "truncated")) == "false" {
			a.equal(`null`, "results", 0, "nextAfter")
			break
		}
		after = a.str("results", 0, "nextAfter")
	}
	if seen != 25 {
		t.Errorf("%d rows over the pages, want 25", seen)
	}
	n.post("/api/v1/kv", `[{"op":"getPrefix","ns":"n","prefix":"p","keysOnly":true}]`).is(200).
		lacks("results", 0, "rows", 0, "value")
}

// TestLockVerdicts: a lock, its holders, and the token that fences a transaction (S-lock-1 to 11).
func TestLockVerdicts(t *testing.T) {
	n := start(t)
	locks := func(ops string) answer { return n.post("/api/v1/locks", `{"operations":[`+ops+`]}`).is(200) }
	a := locks(`{"op":"acquire","name":"l","ttlSeconds":30,"owner":"w1"}`).equal(`true`, "results", 0, "acquired").
		equal(`0`, "results", 0, "slot").equal(`"queen-locks"`, "results", 0, "guard", "ns").
		equal(`"l#0"`, "results", 0, "guard", "key").equal(`true`, "results", 0, "guard", "required")
	token := fmt.Sprint(a.at("results", 0, "token"))
	locks(`{"op":"acquire","name":"l","ttlSeconds":30,"owner":"w1"}`).equal(token, "results", 0, "token").
		equal(`true`, "results", 0, "already")
	locks(`{"op":"acquire","name":"l","ttlSeconds":30,"owner":"w2"}`).equal(`false`, "results", 0, "acquired").
		equal(`"held"`, "results", 0, "reason").equal(`[{"owner":"w1","slot":0}]`, "results", 0, "holders")
	n.get("/api/v1/kv/queen-locks/l%230").is(200).equal(`"w1"`, "value", "owner")
	r := locks(`{"op":"renew","name":"l","token":`+token+`,"ttlSeconds":30,"slot":0,"owner":"w1"}`).
		equal(`true`, "results", 0, "renewed")
	next := fmt.Sprint(r.at("results", 0, "token"))
	guard := func(token string) answer {
		return n.post("/api/v1/transaction", `{"operations":[{"type":"push","queue":"g","payload":1}],"kv":[{"op":"check",`+
			`"ns":"queen-locks","key":"l#0","expect":`+token+`,"required":true}]}`).is(200)
	}
	guard(token).equal(`false`, "success").equal(`"kv_precondition"`, "reason").equal(`1`, "failedIndex")
	guard(next).equal(`true`, "success")
	locks(`{"op":"release","name":"l","token":`+token+`}`).equal(`false`, "results", 0, "released").
		equal(`"lost"`, "results", 0, "reason")
	locks(`{"op":"release","name":"l","token":`+next+`}`).equal(`true`, "results", 0, "released")
	locks(`{"op":"get","name":"l"}`).equal(`false`, "results", 0, "held").equal(`[]`, "results", 0, "holders")
	for i := range 3 {
		locks(fmt.Sprintf(`{"op":"acquire","name":"s","ttlSeconds":30,"owner":"o%d","limit":3}`, i)).
			equal(fmt.Sprint(i), "results", 0, "slot")
	}
	locks(`{"op":"acquire","name":"s","ttlSeconds":30,"owner":"late","limit":3}`).equal(`false`, "results", 0, "acquired")
	locks(`{"op":"get","name":"s"}`).equal(`"o2"`, "results", 0, "holders", 2, "owner")
}

// TestTimerVerdicts: schedule, replace, look, list, count, cancel (S-tmr-1, 2, 9, 15).
func TestTimerVerdicts(t *testing.T) {
	n := startWith(t, Options{Clock: clock.NewFake(time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC).UnixMicro())})
	op := func(ops string) answer { return n.post("/api/v1/timers", `{"operations":[`+ops+`]}`).is(200) }
	a := op(`{"op":"schedule","queue":"r","timerKey":"a/1","delayMs":60000,"payload":"eyJuIjo5fQ==","txn":"t1"}`).
		equal(`"scheduled"`, "results", 0, "status").equal(`"t1"`, "results", 0, "txn").equal(`true`, "results", 0, "ok").
		equal(`"2026-11-29T10:01:00.000000Z"`, "results", 0, "deliverAt")
	if a.str("results", 0, "messageId") == "" {
		t.Error("no messageId")
	}
	b := op(`{"op":"schedule","queue":"r","timerKey":"a/1","at":"2026-11-29T12:00:00Z","payload":"MQ=="},` +
		`{"op":"cancel","queue":"r","timerKey":"none","txn":"x"}`)
	b.equal(`"rescheduled"`, "results", 0, "status").equal(`"2026-11-29T12:00:00.000000Z"`, "results", 0, "deliverAt").
		equal(`"absent"`, "results", 1, "status").equal(`false`, "results", 1, "ok").equal(`"x"`, "results", 1, "txn")
	if b.str("results", 0, "txn") == "t1" {
		t.Error("a replaced timer kept its txn")
	}
	n.get("/api/v1/timers/r/a%2F1").is(200).equal(`true`, "found").equal(`"MQ=="`, "payload").equal(`"Default"`, "partition")
	n.get("/api/v1/timers/r/other").is(200).equal(`false`, "found")
	n.get("/api/v1/timers/r?limit=10").is(200).equal(`"a/1"`, "rows", 0, "timerKey").lacks("rows", 0, "payload")
	n.get("/api/v1/timers/r?mode=count&prefix=a").is(200).equal(`1`, "count")
	n.do("DELETE", "/api/v1/timers/r/a%2F1?txn=y", "").is(200).equal(`"cancelled"`, "status").equal(`"y"`, "txn")
	n.do("DELETE", "/api/v1/timers/r/a%2F1", "").is(200).equal(`"absent"`, "status").equal(`false`, "ok")
}

// TestTimerPauseAndEnd: a recurring timer tells how often it fired and when it ends; paused it does not fire, resumed it goes on
// as its catchUp says.
func TestTimerPauseAndEnd(t *testing.T) {
	n, clock := startNodeOn(t)
	op := func(ops string) answer { return n.post("/api/v1/timers", `{"operations":[`+ops+`]}`).is(200) }
	hold := func(verb string) answer { return op(`{"op":"` + verb + `","queue":"r","timerKey":"m"}`) }
	wait := func(fires int) { // for the node's own loop
		t.Helper()
		for end := time.Now().Add(patience); n.get("/api/v1/timers/r/m").is(200).at("fires") != json.Number(fmt.Sprint(fires)); {
			if time.Now().After(end) {
				t.Fatalf("not %d fires: %s", fires, n.get("/api/v1/timers/r/m").body)
			}
			runtime.Gosched()
		}
	}
	hold("pause").equal(`false`, "results", 0, "ok").equal(`"absent"`, "results", 0, "status").lacks("results", 0, "deliverAt")
	op(`{"op":"schedule","queue":"r","timerKey":"m","cron":"* * * * *","maxFires":5,"until":"2026-11-29T23:00:00Z","payload":"MQ=="}`)
	n.get("/api/v1/timers/r/m").is(200).equal(`5`, "maxFires").equal(`"2026-11-29T23:00:00.000000Z"`, "until").equal(`false`, "paused").
		equal(`0`, "fires")
	clock.Advance(time.Minute)
	wait(1)
	hold("pause").equal(`true`, "results", 0, "ok").equal(`"paused"`, "results", 0, "status").
		equal(`"2026-11-29T10:02:00.000000Z"`, "results", 0, "deliverAt").lacks("results", 0, "messageId")
	hold("pause").equal(`"paused"`, "results", 0, "status")
	clock.Advance(10 * time.Minute)
	n.push1("r", "other", "a", `1`) // an entry, after which the loop looks what is due
	n.get("/api/v1/timers/r").is(200).equal(`true`, "rows", 0, "paused").equal(`1`, "rows", 0, "fires").equal(`5`, "rows", 0, "maxFires")
	n.post("/api/v1/transaction", `{"timers":[{"op":"resume","queue":"r","timerKey":"m"}]}`).is(200).equal(`true`, "success").
		equal(`"resumed"`, "results", 0, "status")
	wait(2) // one for all that were missed
	n.get("/api/v1/timers/r/m").is(200).equal(`false`, "paused").equal(`"2026-11-29T10:12:00.000000Z"`, "deliverAt")
}

// TestTimerCallIsWhole: a call with a bad op schedules, replaces and cancels nothing, whoever refuses the op, and says which one it
// is; cancels of nothing are no refusal.
func TestTimerCallIsWhole(t *testing.T) {
	n := startNode(t)
	op := func(key, rest string) string {
		return `{"op":"schedule","queue":"r","timerKey":"` + key + `","payload":"MQ==",` + rest + `}`
	}
	call := func(ops ...string) answer {
		return n.post("/api/v1/timers", `{"operations":[`+strings.Join(ops, ",")+`]}`)
	}
	call(op("old", `"delayMs":60000,"txn":"first"`)).is(200)
	cancel := `{"op":"cancel","queue":"r","timerKey":"old"}`
	for bad, reason := range map[string]string{
		`"cron":"61 * * * *"`:           "timers_bad_cron",
		`"cron":"* * * * *","txn":"id"`: "timers_bad_request", // what only the engine knows of
	} {
		for _, ops := range [][]string{{op("a", `"delayMs":60000`), op("b", bad)}, {cancel, op("b", bad)},
			{op("old", `"delayMs":5,"txn":"second"`), op("b", bad), op("c", `"delayMs":1`)}} {
			a := call(ops...).is(400).equal(`"`+reason+`"`, "reason")
			if d := a.str("detail"); !strings.HasPrefix(d, "operation 1: ") {
				t.Errorf("%s: %q does not say which op", bad, d)
			}
		}
	}
	n.get("/api/v1/timers/r").is(200).equal(`"old"`, "rows", 0, "timerKey").equal(`"first"`, "rows", 0, "txn").lacks("rows", 1)
	call(op("a", `"delayMs":60000`), `{"op":"cancel","queue":"r","timerKey":"none"}`, cancel).is(200).
		equal(`"scheduled"`, "results", 0, "status").equal(`"absent"`, "results", 1, "status").equal(`"cancelled"`, "results", 2, "status")
}

// TestTransactionStep: one call commits a worker's whole step; each refusal leaves nothing (S-txn-1 to 15).
func TestTransactionStep(t *testing.T) {
	n := start(t)
	n.push1("orders", "p", "o1", `{"n":1}`)
	n.push1("orders", "p", "o2", `{"n":2}`)
	pop := n.get("/api/v1/pop/queue/orders?consumerGroup=g&subscriptionMode=all").is(200)
	partition, lease := pop.str("partitionId"), pop.str("leaseId")
	step := func(id, lease, receipt string) answer {
		return n.post("/api/v1/transaction", `{"operations":[{"type":"ack","transactionId":"`+id+`","partitionId":"`+partition+
			`","leaseId":"`+lease+`","consumerGroup":"g"},{"type":"push","items":[{"queue":"receipts","partition":"c",`+
			`"transactionId":"`+receipt+`","payload":{"n":9}},{"queue":"receipts","partition":"c","transactionId":"`+receipt+
			`","payload":{"n":9}}]}],"requiredLeases":["`+lease+`"],"kv":[{"op":"incr","ns":"n","key":"steps","delta":1,`+
			`"forever":true}],"timers":[{"op":"schedule","queue":"r","timerKey":"`+id+`","delayMs":86400000,"txn":"x",`+
			`"payload":"MQ=="}],"positions":[{"queue":"orders","consumerGroup":"other","partition":"p","offset":1}]}`).is(200)
	}
	step("o1", "0199b1d9-0000-7000-8000-0000000000ff", "r1").equal(`false`, "success").equal(`"rejected_ack"`, "reason").
		equal(`[]`, "results")
	n.get("/api/v1/kv/n/steps").is(200).equal(`false`, "found")
	a := step("o1", lease, "r1").equal(`true`, "success")
	a.equal(`"ack"`, "results", 0, "type").equal(`"o1"`, "results", 0, "transactionId").equal(`false`, "results", 0, "dlq")
	a.equal(`"push"`, "results", 1, "type").equal(`"receipts"`, "results", 1, "queueName").lacks("results", 1, "duplicate")
	a.equal(`true`, "results", 2, "duplicate").equal(`2`, "results", 2, "index")
	a.equal(`"incr"`, "results", 3, "op").equal(`1`, "results", 3, "value").equal(`0`, "results", 3, "opIndex")
	a.equal(`"scheduled"`, "results", 4, "status").equal(`"position"`, "results", 5, "type")
	step("o2", lease, "r1").equal(`"duplicate"`, "reason")
	n.get("/api/v1/kv/n/steps").is(200).equal(`1`, "value")
	n.post("/api/v1/transaction", `{"positions":[{"queue":"nowhere","consumerGroup":"g","offset":1}]}`).is(200).
		equal(`"queue_not_found"`, "reason")
	once := `{"kv":[{"op":"putIfAbsent","ns":"once","key":"k","value":true,"ttlSeconds":60,"required":true}]}`
	n.post("/api/v1/transaction", once).is(200).equal(`true`, "success")
	n.post("/api/v1/transaction", once).is(200).equal(`"kv_precondition"`, "reason").equal(`0`, "failedIndex").
		equal(`"exists"`, "kvReason").equal(`true`, "value")
}

// TestStreamCycle: state, sink and source ack are one step (S-str-1 to 8).
func TestStreamCycle(t *testing.T) {
	n := start(t)
	reg := func(hash, more string) answer {
		return n.post("/streams/v1/queries", `{"name":"sum","source_queue":"sales","config_hash":"`+hash+`"`+more+`}`)
	}
	id := reg("h1", "").is(200).equal(`true`, "fresh").str("query_id")
	reg("h1", "").is(200).equal(`false`, "fresh").equal(`"`+id+`"`, "query_id")
	reg("h2", "").is(409).equal(`false`, "success")
	for i := range 4 {
		n.push1("sales", "p", fmt.Sprintf("s%d", i), fmt.Sprint(i))
	}
	pop := n.get("/api/v1/pop/queue/sales?consumerGroup=streams.x&subscriptionMode=all").is(200)
	partition, lease := pop.str("partitionId"), pop.str("leaseId")
	cycle := func(rest string) answer {
		return n.post("/streams/v1/cycle", `{"query_id":"`+id+`","partition_id":"`+partition+
			`","consumer_group":"streams.x",`+rest+`}`).is(200)
	}
	ack := func(lease, status string, count int) string {
		return fmt.Sprintf(`"ack":{"transactionId":"s3","leaseId":%q,"status":%q,"count":%d}`, lease, status, count)
	}
	write := `"state_ops":[{"type":"upsert","key":"w\u001f1","value":{"acc":3,"windowEnd":5}},{"type":"upsert","key":"w2",` +
		`"value":{"windowEnd":50}}],"push_items":[{"queue":"","payload":0},{"queue":"sink","partition":"a","payload":{"sum":3}}]`
	cycle(`"state_ops":[{"type":"frob","key":"k"}],`+ack(lease, "completed", 4)).equal(`false`, "success")
	cycle(write+`,`+ack("0199b1d9-0000-7000-8000-0000000000ff", "completed", 4)).equal(`false`, "success")
	get := func(filter string) answer {
		return n.post("/streams/v1/state/get", `{"query_id":"`+id+`","partition_id":"`+partition+`"`+filter+`}`).is(200)
	}
	get("").equal(`[]`, "rows")
	cycle(write+`,"release_lease":false,`+ack(lease, "completed", 3)).equal(`true`, "success").
		equal(`2`, "state_ops_applied").equal(`"sink"`, "push_results", 0, "queue").equal(`0`, "push_results", 0, "baseOffset").
		equal(`false`, "ack_result", "lease_released").equal(`3`, "ack_result", "count")
	get("").equal(`"w\u001f1"`, "rows", 0, "key").equal(`"w2"`, "rows", 1, "key")
	get(`,"ripe_at_or_before":5`).equal(`"w\u001f1"`, "rows", 0, "key").lacks("rows", 1)
	get(`,"keys":["w2","none"]`).equal(`"w2"`, "rows", 0, "key").lacks("rows", 1)
	cycle(ack(lease, "", 1)).equal(`true`, "ack_result", "lease_released")
	flush := `"state_ops":[{"type":"delete","key":"w2"}],"push_items":[{"queue":"sink","partition":"a","payload":1}],"ack":null`
	cycle(flush).equal(`true`, "success").equal(`null`, "ack_result")
	cycle(flush).equal(`false`, "success")
	reg("h2", `,"reset":true`).is(200).equal(`true`, "reset").equal(`"`+id+`"`, "query_id")
	get("").equal(`[]`, "rows")
	n.post("/streams/v1/state/get", `{"query_id":"`+id+`"}`).is(400)
	n.post("/streams/v1/queries", `{"name":"x"}`).is(400)
}

// TestTraces: by address oldest first, by name newest first, names with their counts (S-trc-1).
func TestTraces(t *testing.T) {
	n := start(t)
	n.push1("q", "p", "m1", `1`)
	partition := n.get("/api/v1/pop/queue/q?subscriptionMode=all").is(200).str("partitionId")
	for i, names := range []string{`"a"`, `["a","b","a"]`, `null`} {
		n.post("/api/v1/traces", fmt.Sprintf(`{"transactionId":"m1","partitionId":%q,"traceNames":%s,"data":{"i":%d}}`,
			partition, names, i)).is(201).equal(`true`, "success")
	}
	a := n.get("/api/v1/traces/"+partition+"/m1").is(200).equal(`{"i":0}`, "traces", 0, "data").
		equal(`{"i":2}`, "traces", 2, "data").equal(`"info"`, "traces", 0, "event_type")
	a.equal(`["a","b"]`, "traces", 1, "trace_names")
	n.get("/api/v1/traces/"+partition+"/none").is(200).equal(`[]`, "traces")
	n.get("/api/v1/traces/by-name/a?limit=1").is(200).equal(`2`, "total").equal(`"q"`, "traces", 0, "queue_name").
		equal(`1`, "pagination", "limit")
	n.get("/api/v1/traces/names").is(200).equal(`"a"`, "trace_names", 0, "trace_name").
		equal(`2`, "trace_names", 0, "trace_count").equal(`1`, "trace_names", 0, "message_count").
		equal(`"b"`, "trace_names", 1, "trace_name")
	n.post("/api/v1/traces", `{"transactionId":"m1","partitionId":"1"}`).is(400)
	n.post("/api/v1/traces", `{"transactionId":"m1","partitionId":"1","data":1,"traceNames":"`+strings.Repeat("n", 512)+`"}`).
		is(400).equal(`"name_too_long"`, "code")
}

// TestTracesExpire: a note is gone seven days after it was made, from every list and before any sweep (S-ret-9).
func TestTracesExpire(t *testing.T) {
	n, c := startNodeOn(t)
	n.push1("q", "p", "m1", `1`)
	partition := n.get("/api/v1/pop/queue/q?subscriptionMode=all").is(200).str("partitionId")
	left := func(want string) {
		t.Helper()
		n.get("/api/v1/traces/by-name/a").is(200).equal(want, "total")
		if got := len(n.get("/api/v1/traces/" + partition + "/m1").is(200).at("traces").([]any)); fmt.Sprint(got) != want {
			t.Fatalf("%d notes of the message, want %s", got, want)
		}
	}
	for range 2 {
		n.post("/api/v1/traces", fmt.Sprintf(`{"transactionId":"m1","partitionId":%q,"traceNames":"a","data":1}`, partition)).is(201)
		c.Advance(time.Hour)
	}
	left("2")
	c.Advance(7*24*time.Hour - 2*time.Hour - time.Second)
	left("2")
	c.Advance(2 * time.Second)
	left("1")
	c.Advance(time.Hour)
	left("0")
	n.get("/api/v1/traces/names").is(200).equal(`[]`, "trace_names")
}

// TestRepeatedCallUnderAKey: a call that was answered is answered alike again, whatever the broker minted for it.
func TestRepeatedCallUnderAKey(t *testing.T) {
	n := start(t)
	call := func(path, body string) answer {
		return n.do("POST", path, body, "Idempotency-Key: k-"+path)
	}
	timer := `{"op":"schedule","queue":"r","timerKey":"a","delayMs":60000,"payload":"MQ=="}`
	first := call("/api/v1/timers", `[`+timer+`]`).is(200).equal(`"scheduled"`, "results", 0, "status")
	call("/api/v1/timers", `[`+timer+`]`).is(200).equal(`"scheduled"`, "results", 0, "status").
		equal(`"`+first.str("results", 0, "txn")+`"`, "results", 0, "txn").
		equal(`"`+first.str("results", 0, "messageId")+`"`, "results", 0, "messageId")
	call("/api/v1/timers", `[`+strings.Replace(timer, "60000", "60001", 1)+`]`).is(422)
	step := `{"timers":[` + strings.Replace(timer, `"a"`, `"b"`, 1) + `],"kv":[{"op":"incr","ns":"n","key":"c","delta":1,"forever":true}]}`
	for range 2 {
		call("/api/v1/transaction", step).is(200).equal(`true`, "success").equal(`1`, "results", 0, "value")
	}
	n.get("/api/v1/kv/n/c").is(200).equal(`1`, "value")
	kv := `[{"op":"incr","ns":"n","key":"d","delta":1,"forever":true}]`
	for range 2 {
		call("/api/v1/kv", kv).is(200).equal(`1`, "results", 0, "value")
	}
}
