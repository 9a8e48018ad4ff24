package frontendmcp

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/format"
)

// TestPurgeTellsWhatGoes: a purge by ids or by an error removes what it names and nothing else, its plan counts what goes
// with it, and an id that is not there is gone.
func TestPurgeTellsWhatGoes(t *testing.T) {
	r := newRig(t, nil)
	r.configure("jobs", format.QueueOptions{RetryLimit: 0, Set: format.OptRetryLimit})
	r.push("jobs", "a", `1`, `2`, `3`)
	for _, group := range []string{"g1", "g2"} {
		for range 3 {
			r.settle(r.pop(popAll("jobs", group, 0, 1)), format.AckFailed)
		}
	}
	s := r.connect(Identity{}, nil)
	list := func() (out []map[string]any) {
		for _, x := range ask(t, s, "dlq_list", map[string]any{"queue": "jobs"})["rows"].([]any) {
			out = append(out, x.(map[string]any))
		}
		return out
	}
	all := list()
	require.Len(t, all, 6)
	purge := func(args map[string]any, planned, removed float64) map[string]any {
		plan := ask(t, s, "dlq_purge", args)
		require.Equal(t, planned, plan["plan"].(map[string]any)["counts"].(map[string]any)["dead_letters"])
		args["confirm_token"] = plan["confirm_token"]
		done := ask(t, s, "dlq_purge", args)
		require.Equal(t, removed, done["plan"].(map[string]any)["counts"].(map[string]any)["dead_letters"])
		return done
	}
	missing := "ffffffffffffffffffffffffffffffff"[:len(all[0]["dlq_id"].(string))]
	done := purge(map[string]any{"dlq_ids": []string{all[0]["dlq_id"].(string), missing}}, 2, 2)
	verdicts := done["verdicts"].([]any)
	require.Equal(t, "removed", verdicts[0].(map[string]any)["verdict"])
	require.Equal(t, "gone", verdicts[1].(map[string]any)["verdict"])
	require.Len(t, list(), 4, "the other group's went with it")
	require.Empty(t, purge(map[string]any{"queue": "jobs", "error_contains": "no such error"}, 0, 0)["verdicts"])
	require.Len(t, list(), 4)
	purge(map[string]any{"queue": "jobs", "group": "g1"}, 2, 2)
	require.Len(t, list(), 2)
}

// TestReplayForOneGroup: a replay with group_only, by ids or by a queue, is for who gave the messages up; a plan without it is
// no plan with it.
func TestReplayForOneGroup(t *testing.T) {
	r := newRig(t, nil)
	r.configure("jobs", format.QueueOptions{RetryLimit: 0, Set: format.OptRetryLimit})
	r.push("jobs", "a", `1`, `2`)
	for range 2 {
		r.settle(r.pop(popAll("jobs", "poor", 0, 1)), format.AckFailed)
		r.settle(r.pop(popAll("jobs", "rich", 0, 1)), format.AckCompleted)
	}
	s := r.connect(Identity{}, nil)
	rows := ask(t, s, "dlq_list", map[string]any{"queue": "jobs"})["rows"].([]any)
	require.Len(t, rows, 2)
	args := map[string]any{"dlq_ids": []string{rows[1].(map[string]any)["dlq_id"].(string)}}
	args["confirm_token"] = ask(t, s, "dlq_replay", args)["confirm_token"]
	args["group_only"] = true
	require.Equal(t, "confirm_invalid", refused(t, s, "dlq_replay", args).Code)
	for _, args := range []map[string]any{{"dlq_ids": args["dlq_ids"], "group_only": true}, {"queue": "jobs", "group_only": true}} {
		plan := ask(t, s, "dlq_replay", args)
		require.Contains(t, plan["plan"].(map[string]any)["effects"].([]any)[0], "gave them up only")
		args["confirm_token"] = plan["confirm_token"]
		require.Equal(t, true, ask(t, s, "dlq_replay", args)["done"])
	}
	end := time.Now().Add(patience) // the job is in the background
	for len(ask(t, s, "dlq_list", map[string]any{"queue": "jobs"})["rows"].([]any)) > 0 {
		require.True(t, time.Now().Before(end), "the job does not end")
	}
	require.Nil(t, r.pop(popAll("jobs", "rich", 0, 10)))
	require.Len(t, r.pop(popAll("jobs", "poor", 0, 10)).Claims, 1)
}

// TestTrace: a message is found by its id alone, with the times that are kept of it in order; an id that nobody knows is said
// to be unknown.
func TestTrace(t *testing.T) {
	r := newRig(t, nil)
	r.configure("jobs", format.QueueOptions{RetryLimit: 0, Set: format.OptRetryLimit})
	r.push("jobs", "a", `1`)
	r.do(&engine.Append{Queue: "jobs", Partition: "b", Messages: []engine.Message{{Payload: []byte(`2`), TransactionID: "wanted"}}})
	r.pass(time.Second)
	pop := popAll("jobs", "fails", time.Hour, 1)
	pop.Scope.Partition, pop.Scope.Pinned = "b", true
	r.settle(r.pop(pop), format.AckFailed)
	r.pass(time.Second)
	pop.Group = "holds"
	require.NotNil(t, r.pop(pop))
	s := r.connect(Identity{}, nil)
	out := ask(t, s, "message_trace", map[string]any{"queue": "jobs", "transaction_id": "wanted"})
	require.Equal(t, "b", out["partition"])
	var kinds []string
	for _, x := range out["events"].([]any) {
		e := x.(map[string]any)
		kinds = append(kinds, e["kind"].(string))
		if e["kind"] == "lease" {
			require.Equal(t, "holds", e["group"])
		}
	}
	require.Equal(t, []string{"push", "dlq", "lease"}, kinds)
	again := ask(t, s, "message_trace", map[string]any{"transaction_id": "wanted"})
	require.Equal(t, []any{"jobs", "b", out["message"]}, []any{again["queue"], again["partition"], again["message"]}, "looked for in every queue")
	require.Equal(t, "not_found", refused(t, s, "message_trace", map[string]any{"transaction_id": "none"}).Code)
	require.Equal(t, "queue", refused(t, s, "message_trace", map[string]any{"partition": "b", "transaction_id": "wanted"}).Field)
	require.Equal(t, "not_found", refused(t, s, "message_trace", map[string]any{"queue": "jobs", "transaction_id": "none"}).Code)
	require.Equal(t, "unknown_queue", refused(t, s, "message_trace", map[string]any{"queue": "none", "transaction_id": "none"}).Code)
}

// TestTraceTellsFailures: what failed is told with how often, and with when it is handed out again; what waits behind it did not
// fail.
func TestTraceTellsFailures(t *testing.T) {
	r := newRig(t, nil)
	r.configure("jobs", format.QueueOptions{RetryLimit: 5, RetryDelayMs: 60_000, Set: format.OptRetryLimit | format.OptRetryDelay})
	r.do(&engine.Append{Queue: "jobs", Partition: "a", Messages: []engine.Message{{Payload: []byte(`1`), TransactionID: "fails"},
		{Payload: []byte(`2`), TransactionID: "waits"}}})
	r.settle(r.pop(popAll("jobs", "g", time.Hour, 1)), format.AckFailed)
	s := r.connect(Identity{}, nil)
	events := func(id string) []any {
		return ask(t, s, "message_trace", map[string]any{"queue": "jobs", "transaction_id": id})["events"].([]any)
	}
	require.Len(t, events("waits"), 1)
	all := events("fails")
	require.Len(t, all, 3)
	retry, nack := all[1].(map[string]any), all[2].(map[string]any)
	require.Equal(t, []any{"retry", "g", timeText(r.f.now() + 60e6)}, []any{retry["kind"], retry["group"], retry["at"]})
	require.Equal(t, []any{"nack", "g", nil, 1.0}, []any{nack["kind"], nack["group"], nack["at"], nack["count"]})
}

// TestTraceByTraceID: the first message with a trace id is traced, one without an id of its own too; what names none or two
// messages is refused.
func TestTraceByTraceID(t *testing.T) {
	r := newRig(t, nil)
	r.push("jobs", "a", `1`, `2`)
	trace := format.UUID{15: 7}
	r.do(&engine.Append{Queue: "jobs", Partition: "b", Messages: []engine.Message{{Payload: []byte(`3`)}, {Payload: []byte(`4`), TraceID: trace},
		{Payload: []byte(`5`), TraceID: trace}}})
	s := r.connect(Identity{}, nil)
	r.push("first", "a", `0`) // a queue in front of it that has no such message
	for _, args := range []map[string]any{{"queue": "jobs", "trace_id": trace.String()}, {"queue": "jobs", "partition": "b", "trace_id": trace.String()},
		{"trace_id": trace.String()}} {
		out := ask(t, s, "message_trace", args)
		m := out["message"].(map[string]any)
		require.Equal(t, []any{"b", "4", "1", trace.String()}, []any{out["partition"], m["payload"], m["offset"], m["trace_id"]})
		require.Len(t, out["events"], 1)
	}
	for _, c := range []struct {
		code, field string
		args        map[string]any
	}{
		{"not_found", "trace_id", map[string]any{"queue": "jobs", "trace_id": format.UUID{15: 8}.String()}},
		{"not_found", "trace_id", map[string]any{"trace_id": format.UUID{15: 8}.String()}},
		{"not_found", "trace_id", map[string]any{"queue": "jobs", "partition": "a", "trace_id": trace.String()}},
		{"bad_request", "trace_id", map[string]any{"queue": "jobs", "trace_id": "x"}},
		{"bad_request", "trace_id", map[string]any{"queue": "jobs", "trace_id": format.UUID{}.String()}},
		{"bad_request", "transaction_id", map[string]any{"queue": "jobs"}},
		{"bad_request", "transaction_id", map[string]any{"queue": "jobs", "trace_id": trace.String(), "transaction_id": "t"}},
	} {
		e := refused(t, s, "message_trace", c.args)
		require.Equal(t, []string{c.code, c.field}, []string{e.Code, e.Field}, "%v", c.args)
	}
}
