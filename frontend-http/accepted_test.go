package frontendhttp

import (
	"strings"
	"testing"
)

// TestNothingIsAcceptedWithoutEffect: what a call says is done or refused by name, never passed over.
func TestNothingIsAcceptedWithoutEffect(t *testing.T) {
	n := start(t)
	for _, c := range []struct{ method, target, body, header, code, reason, says string }{
		{"POST", "/api/v1/locks", `[{"op":"acquire","name":"l","ttlSeconds":9,"forever":true}]`, "", "locks_bad_request", "locks_bad_ttl", "forever"},
		{"POST", "/api/v1/locks", `[{"op":"acquire","name":"l","forever":true}]`, "", "locks_bad_request", "locks_bad_ttl", "forever"},
		{"POST", "/api/v1/locks", `[{"op":"renew","name":"l","token":1,"ttlSeconds":9,"forever":"yes"}]`, "", "locks_bad_request", "locks_bad_ttl", "forever"},
		{"GET", "/api/v1/timers/q?prefix=a", "", "", "timers_bad_request", "timers_count_mode_required", "mode=count"},
		{"POST", "/api/v1/ephemeral/push", `{"queue":"e","message":[{"payload":1}]}`, "", "", "ephemeral_bad_request", "messages"},
		{"POST", "/api/v1/ephemeral/ack", `{"queue":"e","ack":[]}`, "", "", "ephemeral_bad_request", "acks"},
		{"POST", "/api/v1/ephemeral/configure", `{"queue":"e","maxLength":5}`, "", "", "ephemeral_bad_request", "maxLength"},
		{"POST", "/api/v1/ephemeral/configure", `{"queue":"e","options":{},"windowBuffer":{"ms":5}}`, "", "", "ephemeral_bad_request", "windowBuffer"},
		{"POST", "/api/v1/push", `{"items":[]}`, "Idempotency-Key:", "", "bad_request", "Idempotency-Key"},
		{"POST", "/api/v1/push", `{"items":[]}`, "Idempotency-Key: a\r\nIdempotency-Key: b", "", "bad_request", "Idempotency-Key"},
		{"POST", "/api/v1/push", `{"items":[]}`, "Idempotency-Key: " + strings.Repeat("k", 256), "", "bad_request", "Idempotency-Key"},
		{"PUT", "/api/v1/kv/n/k", `{"value":1,"forever":true}`, "Idempotency-Key:", "kv_bad_request", "kv_bad_request", "Idempotency-Key"},
	} {
		var headers []string
		if c.header != "" {
			headers = append(headers, c.header)
		}
		a := n.do(c.method, c.target, c.body, headers...).is(400)
		code, text := "code", "error"
		if c.code != "" {
			a.equal(`"`+c.code+`"`, "error")
			code, text = "reason", "detail"
		}
		if got := a.str(code); got != c.reason || !strings.Contains(a.str(text), c.says) {
			t.Errorf("%s %s %s: %s", c.method, c.target, c.body, a.body)
		}
	}
	n.post("/api/v1/locks", `[{"op":"acquire","name":"l","ttlSeconds":9,"forever":false}]`).is(200).equal(`true`, "results", 0, "acquired")
	n.post("/api/v1/ephemeral/push", `{"queue":"e","messages":[]}`).is(201).equal(`0`, "pushed")
	n.get("/api/v1/timers/q?mode=count&prefix=a").is(200).equal(`0`, "count")
}

// TestDeleteOfAKeyTellsItsVersion (S-kv-14): the end of a row has a version of its own, between those of the rows before
// and after it.
func TestDeleteOfAKeyTellsItsVersion(t *testing.T) {
	n := start(t)
	put := func() int64 {
		return n.do("PUT", "/api/v1/kv/n/k", `{"value":1,"forever":true}`).is(200).num("version")
	}
	before := put()
	gone := n.do("DELETE", "/api/v1/kv/n/k", "").is(200).equal(`true`, "applied").equal(`null`, "value").num("version")
	after := put()
	if before >= gone || gone >= after {
		t.Errorf("versions %d, %d, %d", before, gone, after)
	}
	n.post("/api/v1/kv", `[{"op":"delete","ns":"n","key":"none"}]`).is(200).equal(`"absent"`, "results", 0, "reason").
		equal(`null`, "results", 0, "version")
}

// TestTimerCancelUnderAKey: a cancel that is sent again under its key answers what it answered, though the timer was
// scheduled anew meanwhile.
func TestTimerCancelUnderAKey(t *testing.T) {
	n := start(t)
	const op = `{"operations":[{"op":"schedule","queue":"r","timerKey":"a","delayMs":60000,"payload":"MQ=="}]}`
	n.post("/api/v1/timers", op).is(200)
	cancel := func(query string) answer {
		return n.do("DELETE", "/api/v1/timers/r/a"+query, "", "Idempotency-Key: c")
	}
	first := cancel("?txn=x").is(200).equal(`"cancelled"`, "status")
	n.post("/api/v1/timers", op).is(200).equal(`"scheduled"`, "results", 0, "status")
	if again := cancel("?txn=x").is(200); again.body != first.body {
		t.Errorf("first %s, again %s", first.body, again.body)
	}
	n.get("/api/v1/timers/r/a").is(200).equal(`true`, "found")
	cancel("?txn=y").is(422).equal(`"idempotency_mismatch"`, "error")
}

// TestKeyedRoutesAreDocumented: every route that reads the header says so, and no other does.
func TestKeyedRoutesAreDocumented(t *testing.T) {
	doc := loadDocument(t, start(t))
	keyed := 0
	for _, r := range table() {
		p := doc.Paths.Value(documentPath(r.Path)).GetOperation(r.Method).Parameters.GetByInAndName("header", "Idempotency-Key")
		if (p != nil) != r.Keyed {
			t.Errorf("%s %s: documented %v, read %v", r.Method, r.Path, p != nil, r.Keyed)
		}
		if r.Keyed {
			keyed++
		}
	}
	if keyed < 10 {
		t.Errorf("%d routes take a key", keyed)
	}
}
