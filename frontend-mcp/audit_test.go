package frontendmcp

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/auth"
	"queen/engine/format"
)

// TestAudit: what writes is told in the log and, when it did something, in the audit queue, with who and what and without
// what was written.
func TestAudit(t *testing.T) {
	var log bytes.Buffer
	r := newRig(t, func(o *Options) { o.Logger = textLogger(&log) })
	s := r.connect(Identity{Principal: &auth.Principal{Roles: auth.Admin, Subject: "boss"}}, nil)
	ask(t, s, "message_push", map[string]any{"queue": "q", "partition": "p", "messages": []any{map[string]any{"transaction_id": "t", "payload": "secret-word"}}})
	ask(t, s, "queue_delete", map[string]any{"queue": "q"})
	out := ask(t, s, "message_peek", map[string]any{"queue": AuditQueue, "partition": auditPartition})
	rows := out["messages"].([]any)
	require.Len(t, rows, 1, "the plan is no deed")
	record := rows[0].(map[string]any)["payload"].(string)
	for _, want := range []string{`"subject":"boss"`, `"tool":"message_push"`, `"verdict":"done"`, format.DefaultTenant.String(), `"client":"test 1"`} {
		require.Contains(t, record, want)
	}
	require.Contains(t, log.String(), "verdict=planned")
	require.NotContains(t, log.String()+record, "secret-word")
}

// TestAuditIsKept: no tool that writes takes the audit queue for its queue, before it is there and after, nor its dead letters
// by their ids; reading tools do.
func TestAuditIsKept(t *testing.T) {
	r := newRig(t, nil)
	r.f.rates.unlimited = true
	s := r.connect(Identity{}, nil)
	q := AuditQueue
	forbidden := map[string]map[string]any{
		"message_push":    {"queue": q, "partition": auditPartition, "messages": []any{map[string]any{"transaction_id": "t", "payload": "forged"}}},
		"queue_create":    {"queue": q, "options": map[string]any{"ttl": 1}},
		"queue_configure": {"queue": q, "set": map[string]any{"retentionBytes": 1}, "dry_run": false},
		"queue_delete":    {"queue": q}, "partition_purge": {"queue": q, "partition": auditPartition},
		"group_seek": {"queue": q, "group": "watch", "to": "end"}, "group_delete": {"queue": q, "group": "watch"},
		"message_take": {"queue": q, "group": "watch"}, "dlq_replay": {"queue": q}, "dlq_purge": {"queue": q},
		"timer_schedule": {"queue": q, "key": "k", "delay_s": 1, "payload": "forged"}, "timer_cancel": {"queue": q, "key": "k"},
		"timer_hold": {"queue": q, "key": "k", "paused": true},
	}
	list, err := s.ListTools(r.ctx, nil)
	require.NoError(t, err)
	for _, x := range list.Tools {
		members, _ := x.InputSchema.(map[string]any)["properties"].(map[string]any)
		if members["queue"] != nil && !x.Annotations.ReadOnlyHint {
			require.Contains(t, forbidden, x.Name, "a tool that writes to a queue is in no test")
		}
	}
	for name, args := range forbidden {
		e := refused(t, s, name, args)
		require.Equal(t, []string{"audit_queue", "queue", "none"}, []string{e.Code, e.Field, e.Outcome}, name)
	}
	_, err = r.engine.Catalog().Queue(r.ctx, r.caller, AuditQueue)
	require.Equal(t, engine.CodeUnknownQueue, codeOf(err), "a refusal made the queue")

	ask(t, s, "queue_create", map[string]any{"queue": "q"})
	r.settle(r.pop(popAll(AuditQueue, "watch", 0, 1)), format.AckDLQ)
	for name, args := range forbidden {
		require.Equal(t, "audit_queue", refused(t, s, name, args).Code, name)
	}
	dead, err := r.engine.Catalog().DeadLetters(r.ctx, r.caller, engine.DeadLetterFilter{Queue: AuditQueue})
	require.NoError(t, err)
	require.Len(t, dead, 1)
	for _, name := range []string{"dlq_replay", "dlq_purge"} {
		require.Equal(t, "audit_queue", refused(t, s, name, map[string]any{"dlq_ids": []string{hex.EncodeToString(dead[0].ID[:])}}).Code, name)
	}
	require.Equal(t, "bad_request", refused(t, s, "group_delete", map[string]any{"queue": "", "group": "watch"}).Code, "of every queue")
	require.Len(t, ask(t, s, "message_peek", map[string]any{"queue": AuditQueue, "partition": auditPartition})["messages"], 1)
}
