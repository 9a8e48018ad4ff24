package frontendhttp

import (
	"flag"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"queen/engine"
)

// seen are the words that answers of the suite told under the keys that tell codes.
var seen sync.Map

// codeKeys are those keys.
var codeKeys = map[string]bool{"code": true, "error": true, "reason": true, "kvReason": true, "result": true, "status": true,
	"outcome": true}

// note collects the words of an answer.
func note(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			note(e)
		}
	case map[string]any:
		for k, e := range v {
			if word, ok := e.(string); ok && codeKeys[k] && len(word) < 64 {
				seen.Store(word, true)
			}
			note(e)
		}
	}
}

// TestMain runs the suite and then asks whether it provoked every code of the contract. A part of the suite is not asked.
func TestMain(m *testing.M) {
	code := m.Run()
	whole := flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.skip").Value.String() == "" && !testing.Short() &&
		flag.Lookup("test.list").Value.String() == "" && flag.Lookup("test.fuzz").Value.String() == ""
	if code == 0 && whole {
		if bad := unprovoked(func(word string) bool { _, ok := seen.Load(word); return ok }); len(bad) > 0 {
			fmt.Fprintf(os.Stderr, "codes of the contract:\n%s\n", strings.Join(bad, "\n"))
			code = 1
		}
	}
	os.Exit(code)
}

// unprovoked names the codes that no test provoked, those that are called unreachable and were seen all the same, and those
// that stand here twice.
func unprovoked(seen func(word string) bool) (bad []string) {
	listed := map[string]bool{}
	for _, line := range strings.Split(strings.TrimSpace(contractCodes), "\n") {
		words, _, _ := strings.Cut(line, "#")
		for _, word := range strings.Fields(words) {
			if listed[word] {
				continue // one code of several families
			}
			if listed[word] = true; !seen(word) {
				bad = append(bad, word+" was provoked by no test")
			}
		}
	}
	for word, why := range unreachable {
		if listed[word] {
			bad = append(bad, word+" is listed, and as unreachable")
		}
		if why == "" || seen(word) {
			bad = append(bad, word+" is called unreachable and was seen: "+why)
		}
	}
	sort.Strings(bad)
	return bad
}

// contractCodes are the codes, finer codes and words of verdicts of the contract, by family.
const contractCodes = `
retry no_leader timeout outcome_unknown overloaded storage_full name_too_long bad_body bad_request no_such_route internal # the engine
not_built not_found idempotency_mismatch quota_exceeded rate_limited unknown_queue gone moved not_a_cluster # ours and dead letters
rejected_ack duplicate kv_precondition queue_not_found unavailable too_large kv_key_too_large kv_value_too_large # transactions
timers_server_owned_field kv_get_prefix_not_allowed_in_transaction encryption_unavailable
kv_bad_request kv_bad_body kv_bad_namespace kv_bad_key kv_expiry_not_specified kv_bad_ttl kv_bad_expect kv_unknown_op # keys
kv_prefix_required kv_too_many_ops kv_too_many_keys kv_duplicate_key_in_call kv_tenant_not_an_input kv_no_query_string
snapshot_expired kv_field_in_path payload_too_large kv_unavailable kv_timeout kv_retry kv_no_leader kv_disabled kv_error
exists absent version limit type held lost # verdicts of keys and locks
locks_bad_request locks_bad_body locks_unknown_op locks_bad_name locks_ttl_required locks_bad_ttl locks_bad_owner # locks
locks_token_required locks_bad_token locks_bad_slot locks_bad_limit locks_too_many_ops locks_too_many_keys
locks_duplicate_in_call locks_tenant_not_an_input
timers_bad_request timers_bad_body timers_bad_op timers_queue_required timers_delay_required timers_payload_required # timers
timers_payload_not_base64 timers_too_many_ops timer_horizon_exceeded timers_horizon timers_read_mode_unknown
timers_count_prefix_required timers_count_no_paging timers_count_mode_required timers_bad_key timers_bad_txn timers_bad_at
timers_bad_cron timers_bad_catch_up timers_bad_partition timers_duplicate_in_call timers_payload_too_large timers_disabled
timers_bad_max_fires timers_bad_until
timers_unavailable timers_error scheduled rescheduled cancelled paused resumed absent
ephemeral_bad_request ephemeral_quota_exceeded ephemeral_queue_not_found queue_full ephemeral_unavailable ephemeral_disabled # in memory
acked redelivered stale unknown
UNKNOWN_TOPIC_OR_PARTITION OFFSET_OUT_OF_RANGE BAD_CURSOR # reads by offset
queued duplicate error # push
`

// unreachable are codes of the contract that nothing here answers, and why.
var unreachable = map[string]string{
	"standby":                          "there is no standby cluster",
	"reserved":                         "a transaction is one command: no cursor is ever reserved for it",
	"entry_encode_failed":              "what can not be encoded is refused by name before: too_large, bad_request",
	"kv_check_needs_cluster_version_5": "every version of this broker has check",
	"contended":                        "an acquire is one command, judged in the order of the log: it is held or it is not",
	"feature_gated":                    "plans have rates and caps, no features that are switched off",
	"kv_quota_exceeded":                "plans bound the rates of keys, not their number",
	"timers_quota_exceeded":            "plans bound the rates of timers, not their number",
	"too_late":                         "a fire is one command: a cancel comes before or after it",
	"owner_moved":                      "queues in memory are each node's own",
	"ephemeral_forward_failed":         "queues in memory are each node's own: nothing is forwarded",
}

// TestCodesAreJudged: a code that nobody provoked, and one that is called unreachable and was seen, are named.
func TestCodesAreJudged(t *testing.T) {
	all := func(string) bool { return true }
	if bad := unprovoked(all); len(bad) != len(unreachable) {
		t.Errorf("%d of %d unreachable ones are named when all were seen: %v", len(bad), len(unreachable), bad)
	}
	one := func(word string) bool { return unreachable[word] == "" && word != "kv_bad_ttl" }
	if bad := unprovoked(one); len(bad) != 1 || !strings.HasPrefix(bad[0], "kv_bad_ttl ") {
		t.Errorf("%v", bad)
	}
}

// TestFaultsOfTheEngineInEachFamily: what the engine could not do is told in the words of the route's family, with a time
// to try again where trying helps.
func TestFaultsOfTheEngineInEachFamily(t *testing.T) {
	put := `{"operations":[{"op":"put","ns":"n","key":"k","value":1,"forever":true}]}`
	timer := `{"operations":[{"op":"schedule","queue":"q","timerKey":"k","delayMs":1,"payload":"MQ=="}]}`
	for code, want := range map[engine.ErrorCode]struct {
		status          int
		fault, reason   string
		plain, rollback string
	}{
		engine.CodeTimeout:  {503, "_unavailable", "_timeout", "timeout", "internal"},
		engine.CodeRetry:    {503, "_unavailable", "_retry", "retry", "unavailable"},
		engine.CodeNoLeader: {503, "_unavailable", "_no_leader", "no_leader", "internal"},
		engine.CodeInternal: {500, "_error", "internal", "internal", "internal"},
	} {
		s := newSink()
		s.fail = &engine.Error{Code: code, RetryAfter: 3 * time.Second, Message: "it failed", Failed: &engine.FailedOp{}}
		n := startWith(t, Options{Engine: s})
		for family, body := range map[string]string{"kv": put, "timers": timer} {
			a := n.post("/api/v1/"+family, body).is(want.status).equal(`"`+family+want.fault+`"`, "error")
			reason := want.reason
			if strings.HasPrefix(reason, "_") {
				reason = family + reason
			}
			a.equal(`"`+reason+`"`, "reason")
			if after := a.header.Get("Retry-After"); (after == "3") != (want.status == 503) {
				t.Errorf("%s %s: Retry-After %q", family, code, after)
			}
		}
		n.post("/api/v1/push", `{"items":[{"queue":"q","payload":1}]}`).is(want.status).equal(`"`+want.plain+`"`, "code")
		n.post("/api/v1/transaction", `{"operations":[{"type":"push","queue":"q","payload":1}]}`).is(200).
			equal(`"`+want.rollback+`"`, "reason").equal(`false`, "success")
	}
}

// TestTimerFieldsAreRefusedByName are the codes that no other test of timers walks.
func TestTimerFieldsAreRefusedByName(t *testing.T) {
	n := start(t)
	op := func(members string) string {
		return `{"operations":[{"op":"schedule","queue":"q","timerKey":"k","payload":"MQ==",` + members + `}]}`
	}
	for body, reason := range map[string]string{
		op(`"cron":7`):                                        "timers_bad_cron",
		op(`"cron":"* * * * *","tz":7`):                       "timers_bad_cron",
		op(`"cron":"* * * * *","maxFires":0`):                 "timers_bad_max_fires",
		op(`"cron":"* * * * *","maxFires":"3"`):               "timers_bad_max_fires",
		op(`"cron":"* * * * *","maxFires":1.5`):               "timers_bad_max_fires",
		op(`"cron":"* * * * *","until":"soon"`):               "timers_bad_until",
		op(`"cron":"* * * * *","until":7`):                    "timers_bad_until",
		op(`"cron":"* * * * *","until":"1969-01-01"`):         "timers_bad_until",
		op(`"cron":"* * * * *","until":"1999-01-01"`):         "timers_bad_cron",
		op(`"delayMs":1,"maxFires":1`):                        "timers_bad_request",
		op(`"delayMs":1,"until":"2999-01-01"`):                "timers_bad_request",
		op(`"delayMs":1,"partition":""`):                      "timers_bad_partition",
		op(`"delayMs":1,"partition":7`):                       "timers_bad_partition",
		op(`"delayMs":1,"txn":7`):                             "timers_bad_txn",
		`[` + strings.Repeat(`{"op":"cancel"},`, 256) + `{}]`: "timers_queue_required",
		`{"operations":[` + cancels(257) + `]}`:               "timers_too_many_ops",
	} {
		n.post("/api/v1/timers", body).is(400).equal(`"timers_bad_request"`, "error").equal(`"`+reason+`"`, "reason")
	}
	n.post("/api/v1/timers", `{"operations":[`+cancels(256)+`]}`).is(200)
}

func cancels(n int) string {
	var ops []string
	for i := range n {
		ops = append(ops, fmt.Sprintf(`{"op":"cancel","queue":"q","timerKey":"k%d"}`, i))
	}
	return strings.Join(ops, ",")
}
