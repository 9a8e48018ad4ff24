package frontendhttp

import (
	"fmt"
	"strings"
	"testing"
)

// TestKVRefusals walks the validation codes of keys: nothing of a refused call reaches the engine.
func TestKVRefusals(t *testing.T) {
	n := start(t)
	big := `"` + strings.Repeat("x", 64<<10) + `"`
	long := strings.Repeat("k", 513)
	for _, c := range []struct {
		op     string
		status int
		reason string
	}{
		{`{"op":"get","key":"k"}`, 400, "kv_bad_namespace"},
		{`{"op":"get","ns":"Upper","key":"k"}`, 400, "kv_bad_namespace"},
		{`{"op":"get","ns":"-a","key":"k"}`, 400, "kv_bad_namespace"},
		{`{"op":"get","ns":"~streams","key":"k"}`, 400, "kv_bad_namespace"},
		{`{"op":"get","ns":"` + strings.Repeat("n", 65) + `","key":"k"}`, 400, "kv_bad_namespace"},
		{`{"op":"get","ns":"n"}`, 400, "kv_bad_key"},
		{`{"op":"get","ns":"n","key":""}`, 400, "kv_bad_key"},
		{`{"op":"get","ns":"n","key":7}`, 400, "kv_bad_key"},
		{`{"op":"get","ns":"n","key":"a\u0000b"}`, 400, "kv_bad_key"},
		{`{"op":"get","ns":"n","key":"` + long + `"}`, 413, "kv_key_too_large"},
		{`{"op":"get","ns":"n","key":"k","tenant":"t"}`, 400, "kv_tenant_not_an_input"},
		{`{"op":"frob","ns":"n","key":"k"}`, 400, "kv_unknown_op"},
		{`{"ns":"n","key":"k"}`, 400, "kv_unknown_op"},
		{`{"op":"getMany","ns":"n","keys":[]}`, 400, "kv_bad_request"},
		{`{"op":"getMany","ns":"n","keys":[1]}`, 400, "kv_bad_request"},
		{`{"op":"getPrefix","ns":"n","prefix":""}`, 400, "kv_prefix_required"},
		{`{"op":"getPrefix","ns":"n"}`, 400, "kv_prefix_required"},
		{`{"op":"put","ns":"n","key":"k","value":1}`, 400, "kv_expiry_not_specified"},
		{`{"op":"put","ns":"n","key":"k","value":1,"ttlSeconds":9,"forever":true}`, 400, "kv_expiry_not_specified"},
		{`{"op":"put","ns":"n","key":"k","value":1,"ttlSeconds":0}`, 400, "kv_bad_ttl"},
		{`{"op":"put","ns":"n","key":"k","value":1,"ttlSeconds":1.5}`, 400, "kv_bad_ttl"},
		{`{"op":"put","ns":"n","key":"k","value":1,"ttlSeconds":"9"}`, 400, "kv_bad_ttl"},
		{`{"op":"put","ns":"n","key":"k","value":1,"forever":"yes"}`, 400, "kv_bad_ttl"},
		{`{"op":"put","ns":"n","key":"k","forever":true}`, 400, "kv_bad_request"},
		{`{"op":"put","ns":"n","key":"k","value":1,"forever":true,"expect":null}`, 400, "kv_bad_expect"},
		{`{"op":"put","ns":"n","key":"k","value":1,"forever":true,"expect":-1}`, 400, "kv_bad_expect"},
		{`{"op":"putIfAbsent","ns":"n","key":"k","value":1,"forever":true,"expect":4}`, 400, "kv_bad_expect"},
		{`{"op":"incr","ns":"n","key":"k","delta":1,"forever":true,"expect":0}`, 400, "kv_bad_expect"},
		{`{"op":"incr","ns":"n","key":"k","delta":"1","forever":true}`, 400, "kv_bad_request"},
		{`{"op":"incr","ns":"n","key":"k","delta":1,"max":"2","forever":true}`, 400, "kv_bad_request"},
		{`{"op":"check","ns":"n","key":"k"}`, 400, "kv_bad_expect"},
		{`{"op":"put","ns":"n","key":"k","value":` + big + `,"forever":true}`, 413, "kv_value_too_large"},
		{`{"op":"delete","ns":"n","key":"k","required":"yes"}`, 400, "kv_bad_request"},
		{`{"op":"delete","ns":"n","key":"k"},{"op":"delete","ns":"n","key":"k"}`, 400, "kv_duplicate_key_in_call"},
	} {
		code := "kv_bad_request"
		if c.status == 413 {
			code = "payload_too_large"
		}
		n.post("/api/v1/kv", `{"operations":[`+c.op+`]}`).is(c.status).equal(`"`+code+`"`, "error").
			equal(`"`+c.reason+`"`, "reason")
	}
	many := strings.TrimSuffix(strings.Repeat(`{"op":"get","ns":"n","key":"k"},`, 257), ",")
	n.post("/api/v1/kv", `[`+many+`]`).is(400).equal(`"kv_too_many_ops"`, "reason")
	keys := strings.TrimSuffix(strings.Repeat(`"k",`, 1025), ",")
	n.post("/api/v1/kv", `[{"op":"getMany","ns":"n","keys":[`+keys+`]}]`).is(400).equal(`"kv_too_many_keys"`, "reason")
	for _, body := range []string{"", "{", "7", `{"operations":7}`, `{"operations":[7]}`, `{}`, `{"operations":[]} x`, "\xff"} {
		n.post("/api/v1/kv", body).is(400).equal(`"kv_bad_body"`, "reason")
	}
	n.get("/api/v1/kv/n/k?x=1").is(400).equal(`"kv_no_query_string"`, "reason")
	n.do("PUT", "/api/v1/kv/n/k", `{"value":1,"forever":true,"key":"k"}`).is(400).equal(`"kv_field_in_path"`, "reason")
	n.do("PUT", "/api/v1/kv/n/k", ``).is(400).equal(`"kv_bad_body"`, "reason")
	n.do("DELETE", "/api/v1/kv/n/k", `{"expect":"x"}`).is(400).equal(`"kv_bad_expect"`, "reason")
}

func TestLockRefusals(t *testing.T) {
	n := start(t)
	for _, c := range []struct{ op, reason string }{
		{`{"op":"frob","name":"l"}`, "locks_unknown_op"},
		{`{"op":"acquire","ttlSeconds":9}`, "locks_bad_name"},
		{`{"op":"acquire","name":"a#b","ttlSeconds":9}`, "locks_bad_name"},
		{`{"op":"acquire","name":"a\u0001b","ttlSeconds":9}`, "locks_bad_name"},
		{`{"op":"acquire","name":"` + strings.Repeat("l", 257) + `","ttlSeconds":9}`, "locks_bad_name"},
		{`{"op":"acquire","name":"l"}`, "locks_ttl_required"},
		{`{"op":"acquire","name":"l","ttlSeconds":0}`, "locks_bad_ttl"},
		{`{"op":"acquire","name":"l","ttlSeconds":9,"owner":7}`, "locks_bad_owner"},
		{`{"op":"acquire","name":"l","ttlSeconds":9,"limit":0}`, "locks_bad_limit"},
		{`{"op":"acquire","name":"l","ttlSeconds":9,"limit":1025}`, "locks_bad_limit"},
		{`{"op":"renew","name":"l","ttlSeconds":9}`, "locks_token_required"},
		{`{"op":"release","name":"l","token":"7"}`, "locks_bad_token"},
		{`{"op":"release","name":"l","token":7,"slot":-1}`, "locks_bad_slot"},
		{`{"op":"get","name":"l","tenantId":"t"}`, "locks_tenant_not_an_input"},
		{`{"op":"get","name":"l"},{"op":"acquire","name":"l","ttlSeconds":9}`, "locks_duplicate_in_call"},
	} {
		n.post("/api/v1/locks", `{"operations":[`+c.op+`]}`).is(400).equal(`"locks_bad_request"`, "error").
			equal(`"`+c.reason+`"`, "reason")
	}
	var many, slots []string
	for i := range 65 {
		many = append(many, fmt.Sprintf(`{"op":"get","name":"l%d"}`, i))
		slots = append(slots, fmt.Sprintf(`{"op":"acquire","name":"l%d","ttlSeconds":9,"limit":1024}`, i))
	}
	n.post("/api/v1/locks", `[`+strings.Join(many, ",")+`]`).is(400).equal(`"locks_too_many_keys"`, "reason")
	n.post("/api/v1/locks", `[`+strings.Join(slots[:5], ",")+`]`).is(400).equal(`"locks_too_many_keys"`, "reason")
	ops := strings.ReplaceAll(strings.Join(slots, ","), "1024", "1")
	n.post("/api/v1/locks", `[`+ops+`]`).is(400).equal(`"locks_too_many_ops"`, "reason")
	n.post("/api/v1/locks", `{`).is(400).equal(`"locks_bad_body"`, "reason")
}

func TestTimerRefusals(t *testing.T) {
	n := start(t)
	for _, c := range []struct {
		op     string
		status int
		reason string
	}{
		{`{"op":"frob","queue":"q","timerKey":"k"}`, 400, "timers_bad_op"},
		{`{"op":"schedule","timerKey":"k","delayMs":1,"payload":"MQ=="}`, 400, "timers_queue_required"},
		{`{"op":"schedule","queue":"q","delayMs":1,"payload":"MQ=="}`, 400, "timers_bad_key"},
		{`{"op":"schedule","queue":"q","timerKey":"k","payload":"MQ=="}`, 400, "timers_delay_required"},
		{`{"op":"schedule","queue":"q","timerKey":"k","delayMs":"1","payload":"MQ=="}`, 400, "timers_delay_required"},
		{`{"op":"schedule","queue":"q","timerKey":"k","delayMs":1,"at":"2026-01-01","payload":"MQ=="}`, 400,
			"timers_delay_required"},
		{`{"op":"schedule","queue":"q","timerKey":"k","at":"soon","payload":"MQ=="}`, 400, "timers_bad_at"},
		{`{"op":"schedule","queue":"q","timerKey":"k","cron":"* * * * *","catchUp":"some","payload":"MQ=="}`, 400,
			"timers_bad_catch_up"},
		{`{"op":"schedule","queue":"q","timerKey":"k","cron":"61 * * * *","payload":"MQ=="}`, 400, "timers_bad_cron"},
		{`{"op":"schedule","queue":"q","timerKey":"k","cron":"@daily","payload":"MQ=="}`, 400, "timers_bad_cron"},
		{`{"op":"schedule","queue":"q","timerKey":"k","cron":"0 0 30 2 *","payload":"MQ=="}`, 400, "timers_bad_cron"},
		{`{"op":"schedule","queue":"q","timerKey":"k","cron":"* * * * *","tz":"Nowhere/At","payload":"MQ=="}`, 400, "timers_bad_cron"},
		{`{"op":"schedule","queue":"q","timerKey":"k","delayMs":1,"tz":"UTC","payload":"MQ=="}`, 400, "timers_bad_request"},
		{`{"op":"schedule","queue":"q","timerKey":"k","delayMs":1}`, 400, "timers_payload_required"},
		{`{"op":"schedule","queue":"q","timerKey":"k","delayMs":1,"payload":"*"}`, 400, "timers_payload_not_base64"},
		{`{"op":"schedule","queue":"q","timerKey":"k","delayMs":1,"payload":"MQ==","payloadZstd":true}`, 400,
			"timers_bad_request"},
		{`{"op":"schedule","queue":"q","timerKey":"k","delayMs":7776000001,"payload":"MQ=="}`, 403, "timers_horizon"},
		{`{"op":"schedule","queue":"q","timerKey":"k","delayMs":1,"payload":"` + strings.Repeat("MTEx", 400_000) + `"}`,
			413, "timers_payload_too_large"},
		{`{"op":"schedule","queue":"q","timerKey":"k","delayMs":1,"payload":"MQ==","producerSub":"x"}`, 400,
			"timers_server_owned_field"},
		{`{"op":"cancel","queue":"q","timerKey":"k","_x":1}`, 400, "timers_server_owned_field"},
		{`{"op":"cancel","queue":"q","timerKey":"k"},{"op":"cancel","queue":"q","timerKey":"k"}`, 400,
			"timers_duplicate_in_call"},
	} {
		n.post("/api/v1/timers", `{"operations":[`+c.op+`]}`).is(c.status).equal(`"`+c.reason+`"`, "reason")
	}
	n.get("/api/v1/timers/q?mode=sum").is(400).equal(`"timers_read_mode_unknown"`, "reason")
	n.get("/api/v1/timers/q?mode=count").is(400).equal(`"timers_count_prefix_required"`, "reason")
	n.get("/api/v1/timers/q?mode=count&prefix=a&limit=3").is(400).equal(`"timers_count_no_paging"`, "reason")
}

// TestTransactionRefusals: bad shapes answer 400 and bad parts 200, both with the transaction's own body.
func TestTransactionRefusals(t *testing.T) {
	n := start(t)
	put := `{"op":"put","ns":"n","key":"k","value":1,"forever":true}`
	for _, c := range []struct {
		body   string
		status int
		reason string
	}{
		{`{}`, 200, "bad_request"},
		{`{"operations":[],"kv":null}`, 200, "bad_request"},
		{`{"operations":{}}`, 400, "bad_request"},
		{`{"kv":{}}`, 400, "bad_request"},
		{`[]`, 400, "bad_request"},
		{`{"operations":[{"queue":"q"}]}`, 400, "bad_request"},
		{`{"operations":[{"type":"kv"}]}`, 400, "bad_request"},
		{`{"operations":[{"type":"push","payload":1}]}`, 200, "bad_request"},
		{`{"operations":[{"type":"push","queue":"q"}]}`, 200, "bad_request"},
		{`{"operations":[{"type":"ack","transactionId":"a","partitionId":"x"}]}`, 200, "bad_request"},
		{`{"operations":[{"type":"ack","transactionId":"a","partitionId":"64","status":"compleet"}]}`, 200, "rejected_ack"},
		{`{"operations":[],"kv":[{"op":"getPrefix","ns":"n","prefix":"a"}]}`, 400,
			"kv_get_prefix_not_allowed_in_transaction"},
		{`{"kv":[{"op":"put","ns":"n","key":"k","value":1}]}`, 400, "kv_expiry_not_specified"},
		{`{"kv":[` + put + `,` + put + `]}`, 400, "kv_duplicate_key_in_call"},
		{`{"kv":[` + strings.TrimSuffix(strings.Repeat(`{"op":"get","ns":"n","key":"k"},`, 65), ",") + `]}`, 400,
			"kv_too_many_ops"},
		{`{"timers":[{"op":"cancel","queue":"q","timerKey":"k","producerSub":"x"}]}`, 400, "timers_server_owned_field"},
		{`{"positions":[{"queue":"q","consumerGroup":"g"}]}`, 200, "bad_request"},
		{`{"positions":[{"queue":"q","consumerGroup":"g","offset":1,"metadata":"` + strings.Repeat("m", 4097) + `"}]}`, 200,
			"too_large"},
	} {
		n.post("/api/v1/transaction", c.body).is(c.status).equal(`false`, "success").equal(`"`+c.reason+`"`, "reason").
			equal(`[]`, "results")
	}
	n.post("/api/v1/transaction", `{"operations":[{"type":"push","queue":"q","payload":1,"transactionId":"`+
		strings.Repeat("t", 65536)+`"}]}`).is(400).equal(`"bad_request"`, "code")
	n.post("/api/v1/transaction", `{"operations":[{"type":"push","queue":"`+strings.Repeat("q", 450)+
		`","payload":1}]}`).is(413).equal(`"name_too_long"`, "code")
}
