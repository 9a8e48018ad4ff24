package frontendhttp

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// jsonText is a JSON string of so many bytes, quotes included.
func jsonText(bytes int) string { return `"` + strings.Repeat("x", bytes-2) + `"` }

// several writes n objects, each with its number in place of %d.
func several(n int, object string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = strings.ReplaceAll(object, "%d", strconv.Itoa(i))
	}
	return strings.Join(all, ",")
}

// TestTransactionValidation walks the validation codes of keys and timers inside a transaction: each is told in the
// transaction's own body, and the parts beside the bad one leave no trace.
func TestTransactionValidation(t *testing.T) {
	n := startNode(t)
	put := func(rest string) string { return `{"op":"put","ns":"n","key":"k",` + rest + `}` }
	timer := func(rest string) string {
		return `{"op":"schedule","queue":"q","timerKey":"k","payload":"MQ==",` + rest + `}`
	}
	for _, c := range []struct {
		kv, timers string
		status     int
		reason     string
	}{
		{kv: `{"op":"get","key":"k"}`, status: 400, reason: "kv_bad_namespace"},
		{kv: `{"op":"get","ns":"Upper","key":"k"}`, status: 400, reason: "kv_bad_namespace"},
		{kv: `{"op":"delete","ns":"~traces","key":"k"}`, status: 400, reason: "kv_bad_namespace"},
		{kv: `{"op":"get","ns":"n"}`, status: 400, reason: "kv_bad_key"},
		{kv: `{"op":"get","ns":"n","key":"a\u0000b"}`, status: 400, reason: "kv_bad_key"},
		{kv: `{"op":"get","ns":"n","key":"` + strings.Repeat("k", 513) + `"}`, status: 413, reason: "kv_key_too_large"},
		{kv: put(`"value":1`), status: 400, reason: "kv_expiry_not_specified"},
		{kv: put(`"value":1,"ttlSeconds":0`), status: 400, reason: "kv_bad_ttl"},
		{kv: put(`"value":1,"ttlSeconds":1.5`), status: 400, reason: "kv_bad_ttl"},
		{kv: put(`"value":1,"forever":1`), status: 400, reason: "kv_bad_ttl"},
		{kv: put(`"value":1,"forever":true,"expect":-1`), status: 400, reason: "kv_bad_expect"},
		{kv: `{"op":"check","ns":"n","key":"k"}`, status: 400, reason: "kv_bad_expect"},
		{kv: `{"op":"frob","ns":"n","key":"k"}`, status: 400, reason: "kv_unknown_op"},
		{kv: `{"ns":"n","key":"k"}`, status: 400, reason: "kv_unknown_op"},
		{kv: put(`"value":1,"forever":true,"tenant":"t"`), status: 400, reason: "kv_tenant_not_an_input"},
		{kv: put(`"value":1,"forever":true,"tenantId":"t"`), status: 400, reason: "kv_tenant_not_an_input"},
		{kv: put(`"forever":true`), status: 400, reason: "kv_bad_request"},
		{kv: `{"op":"getMany","ns":"n","keys":[` + several(256, `"k%d"`) + `]}`, status: 400, reason: "kv_too_many_keys"},
		{kv: several(64, `{"op":"get","ns":"n","key":"k%d"}`), status: 400, reason: "kv_too_many_ops"},
		{kv: put(`"forever":true,"value":` + jsonText(65537)), status: 413, reason: "kv_value_too_large"},
		{timers: timer(`"delayMs":7776000001`), status: 403, reason: "timers_horizon"},
		{timers: timer(`"at":"2999-01-01T00:00:00Z"`), status: 403, reason: "timers_horizon"},
		{timers: timer(`"cron":"61 * * * *"`), status: 400, reason: "timers_bad_cron"},
		{timers: timer(`"delayMs":1,"at":"2026-01-01"`), status: 400, reason: "timers_delay_required"},
		{timers: `{"op":"frob","queue":"q","timerKey":"k"}`, status: 400, reason: "timers_bad_op"},
		{timers: `{"op":"cancel","queue":"q","timerKey":"good"}`, status: 400, reason: "timers_duplicate_in_call"},
		{timers: several(256, `{"op":"cancel","queue":"q","timerKey":"k%d"}`), status: 400, reason: "timers_too_many_ops"},
	} {
		kv, timers := `{"op":"put","ns":"n","key":"good","value":1,"forever":true}`, timer(`"delayMs":60000`)
		timers = strings.Replace(timers, `"timerKey":"k"`, `"timerKey":"good"`, 1)
		if c.kv != "" {
			kv += "," + c.kv
		} else {
			timers += "," + c.timers
		}
		a := n.post("/api/v1/transaction", `{"operations":[{"type":"push","queue":"q","payload":1}],"kv":[`+kv+`],"timers":[`+timers+`]}`)
		a.is(c.status).equal(`"`+c.reason+`"`, "reason").equal(`false`, "success").equal(`[]`, "results")
	}
	n.get("/api/v1/kv/n/good").is(200).equal(`false`, "found")
	n.get("/api/v1/timers/q").is(200).equal(`[]`, "rows")
	n.get("/api/v1/resources/queues/q").is(404)
}

// TestTransactionAtItsLimits: what is exactly at a limit commits; one more is refused above.
func TestTransactionAtItsLimits(t *testing.T) {
	n := startNode(t)
	for name, body := range map[string]string{
		"keys":   `{"kv":[{"op":"getMany","ns":"n","keys":[` + several(256, `"k%d"`) + `]}]}`,
		"ops":    `{"kv":[` + several(64, `{"op":"put","ns":"n","key":"k%d","value":1,"forever":true}`) + `]}`,
		"timers": `{"timers":[` + several(256, `{"op":"schedule","queue":"q","timerKey":"k%d","delayMs":7776000000,"payload":"MQ=="}`) + `]}`,
		"key":    `{"kv":[{"op":"put","ns":"n","key":"` + strings.Repeat("k", 512) + `","value":1,"forever":true}]}`,
		"value":  `{"kv":[{"op":"put","ns":"n","key":"v","forever":true,"value":` + jsonText(65536) + `}]}`,
	} {
		if a := n.post("/api/v1/transaction", body).is(200); a.at("success") != true {
			t.Errorf("%s at the limit: %s", name, cut(a.body))
		}
	}
}

// TestKVValueAtTheLimit: a value is measured as compact JSON, on every way in, and read back byte for byte (S-kv-19).
func TestKVValueAtTheLimit(t *testing.T) {
	n := startNode(t)
	list := func(gap string, bytes int) string { // compact, it has so many bytes
		return "[" + gap + "1," + gap + jsonText(bytes-len("[1,]")) + gap + "]"
	}
	spaced := strings.Repeat(" \n\t", 1000)
	ways := map[string]func(key, value string) answer{
		"kv": func(key, value string) answer {
			return n.post("/api/v1/kv", `{"operations":[{"op":"put","ns":"n","key":"`+key+`","value":`+value+`,"forever":true}]}`)
		},
		"path": func(key, value string) answer {
			return n.do("PUT", "/api/v1/kv/n/"+key, `{"value":`+value+`,"forever":true}`)
		},
		"transaction": func(key, value string) answer {
			return n.post("/api/v1/transaction", `{"kv":[{"op":"put","ns":"n","key":"`+key+`","value":`+value+`,"forever":true}]}`)
		},
	}
	for way, put := range ways {
		for i, c := range []struct {
			value, kept string
			status      int
		}{
			{jsonText(65536), jsonText(65536), 200},
			{list("", 65536), list("", 65536), 200},
			{list(spaced, 65536), list("", 65536), 200}, // raw above the limit
			{list("", 65537), "", 413},
			{list(spaced, 65537), "", 413},
		} {
			key := fmt.Sprint(way, i)
			a := put(key, c.value).is(c.status)
			got := n.get("/api/v1/kv/n/" + key).is(200)
			if c.status != 200 {
				a.equal(`"kv_value_too_large"`, "reason")
				got.equal(`false`, "found")
				continue
			}
			got.equal(`true`, "found")
			if !strings.Contains(got.body, `"value":`+c.kept) {
				t.Errorf("%s: the value did not come back as it is compact", key)
			}
		}
	}
}
