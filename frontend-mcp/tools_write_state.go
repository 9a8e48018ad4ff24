package frontendmcp

import (
	"bytes"
	"encoding/json"
	"time"

	"queen/engine"
	"queen/engine/auth"
	"queen/engine/format"
)

func writeStateTools() []*tool {
	change := func(t tool) tool {
		t.destructive, t.idempotent = true, true
		return writes(ModeWrite, auth.LevelReadWrite, t)
	}
	once := func(t tool) tool {
		t.idempotent = false
		return t
	}
	return []*tool{
		row(once(change(tool{name: "dlq_replay", title: "Replay dead letters", toolset: "dlq",
			text: "Moves dead letters, by ids or by queue, group and error, back to the tail of their partitions."})), dlqReplay),
		row(writes(ModeAdmin, auth.LevelAdmin, once(change(tool{name: "dlq_purge", title: "Purge dead letters", toolset: "dlq",
			text: "Removes dead letters, by ids or by queue, group and error, for good."}))), dlqPurge),
		row(change(tool{name: "kv_put", title: "Write a key", toolset: "state", text: "Writes a key; if_version 0 wants it absent, another that version."}), kvPut),
		row(change(tool{name: "kv_delete", title: "Delete a key", toolset: "state", text: "Deletes a key, if it is at if_version when that is given."}), kvDelete),
		row(change(tool{name: "timer_schedule", title: "Schedule a timer", toolset: "state",
			text: "Schedules, or replaces, a message for later under a key."}), timerSchedule),
		row(change(tool{name: "timer_cancel", title: "Cancel a timer", toolset: "state", text: "Cancels a pending timer."}), timerCancel),
		row(change(tool{name: "timer_hold", title: "Pause or resume a timer", toolset: "state",
			text: "Holds a timer back, recurring or not, or lets a paused one go on."}), timerHold),
	}
}

type dlqWriteArgs struct {
	IDs           []string `json:"dlq_ids,omitempty" jsonschema:"1 to 100 ids of dlq_list"`
	Queue         string   `json:"queue,omitempty" jsonschema:"instead of ids: all of a queue"`
	Group         string   `json:"group,omitempty"`
	ErrorContains string   `json:"error_contains,omitempty"`
	Confirming
}

type dlqReplayArgs struct {
	dlqWriteArgs
	GroupOnly bool `json:"group_only,omitempty" jsonschema:"only for the consumer groups that gave them up; default for all"`
}

type verdictRow struct {
	ID      string `json:"dlq_id"`
	Verdict string `json:"verdict" jsonschema:"moved, removed, duplicate, gone or the code of a refusal"`
}

type dlqWriteResult struct {
	Planned
	Verdicts []verdictRow `json:"verdicts"`
	JobID    string       `json:"job_id,omitempty" jsonschema:"a replay that goes on in the background"`
}

// ids reads the ids of dead letters.
func (in *dlqWriteArgs) ids() ([]format.DeadLetterID, error) {
	if (len(in.IDs) == 0) == (in.Queue == "") {
		return nil, badArgument("dlq_ids", "either dlq_ids or queue is needed")
	}
	if len(in.IDs) > 100 {
		return nil, &toolError{Code: "bad_request", Message: "dlq_ids is out of its bounds", Field: "dlq_ids", Limit: "1..100"}
	}
	out := make([]format.DeadLetterID, 0, len(in.IDs))
	for _, text := range in.IDs {
		id, ok := deadID(text)
		if !ok {
			return nil, badArgument("dlq_ids", "an id is none of dlq_list")
		}
		out = append(out, id)
	}
	return out, nil
}

// letters counts what a call is about.
func (c *call) letters(in *dlqWriteArgs, ids int) (map[string]uint64, error) {
	if ids > 0 {
		return map[string]uint64{"dead_letters": uint64(ids)}, nil
	}
	if _, err := c.engine.Catalog().Queue(c.ctx, c.caller, in.Queue); err != nil {
		return nil, err
	}
	if ops, ok := engine.OperationsOf(c.engine); ok {
		n, err := ops.CountRedrive(c.ctx, c.caller, engine.RedriveRequest{Queue: in.Queue, Group: in.Group, Error: in.ErrorContains})
		return map[string]uint64{"dead_letters": n.Count}, err
	}
	rows, err := c.engine.Catalog().DeadLetters(c.ctx, c.caller, engine.DeadLetterFilter{Queue: in.Queue, Group: in.Group,
		Error: in.ErrorContains, Limit: maxScan})
	return map[string]uint64{"dead_letters": uint64(len(rows))}, err
}

func (in *dlqWriteArgs) target() (map[string]string, string) {
	t := map[string]string{}
	if in.Queue != "" {
		t["queue"] = in.Queue
	}
	if in.Group != "" {
		t["group"] = in.Group
	}
	if in.Queue == "" {
		return t, "dead letters"
	}
	return t, in.Queue
}

func dlqReplay(c *call, in dlqReplayArgs) (out dlqWriteResult, err error) {
	ids, err := in.ids()
	if err != nil {
		return out, err
	}
	if err := c.keepsAuditLetters(ids); err != nil {
		return out, err
	}
	counts, err := c.letters(&in.dlqWriteArgs, len(ids))
	if err != nil {
		return out, err
	}
	target, name := in.target()
	effect := "The messages are handed out again, to every consumer group, behind what their partitions hold now."
	if in.GroupOnly {
		effect = "The messages are handed out again, to the consumer groups that gave them up only, behind what their partitions hold now."
	}
	asked, err := c.confirm(in.Confirming, []any{in.IDs, in.Queue, in.Group, in.ErrorContains, in.GroupOnly}, name,
		Plan{Action: "replay dead letters", Target: target, Counts: counts, Effects: []string{effect}})
	out.Verdicts = []verdictRow{}
	if err != nil || asked != nil {
		out.Planned = orNone(asked)
		return out, err
	}
	if len(ids) == 0 {
		return c.replayJob(&in, counts)
	}
	b := engine.Batch{}
	for _, id := range ids {
		b.Ops = append(b.Ops, &engine.Redrive{DeadLetter: id, GroupOnly: in.GroupOnly})
	}
	res, err := c.engine.Do(c.ctx, c.caller, b)
	if err != nil {
		return out, err
	}
	moved := uint64(0)
	for i := range res {
		v := verdictRow{ID: in.IDs[i], Verdict: "moved"}
		switch {
		case res[i].Err != nil:
			v.Verdict = string(res[i].Err.Code)
		case res[i].Redrive.Duplicate:
			v.Verdict = "duplicate"
		default:
			moved++
		}
		out.Verdicts = append(out.Verdicts, v)
	}
	out.Planned = c.doneWith(map[string]uint64{"moved": moved})
	return out, nil
}

// replayJob moves everything that a filter selects, in the background.
func (c *call) replayJob(in *dlqReplayArgs, counts map[string]uint64) (out dlqWriteResult, err error) {
	out.Verdicts = []verdictRow{}
	ops, ok := engine.OperationsOf(c.engine)
	if !ok {
		return out, &engine.Error{Code: engine.CodeNotBuilt}
	}
	job, err := ops.StartRedrive(c.ctx, c.caller, engine.RedriveRequest{Queue: in.Queue, Group: in.Group, Error: in.ErrorContains,
		GroupOnly: in.GroupOnly})
	if err != nil {
		return out, err
	}
	out.Planned, out.JobID = c.doneWith(counts), job.ID
	return out, nil
}

type kvPutArgs struct {
	Namespace string `json:"namespace"`
	Key       string `json:"key"`
	Value     any    `json:"value" jsonschema:"any JSON value, stored as it is written here"`
	TTL       int    `json:"ttl_s,omitempty" jsonschema:"seconds to live; default for ever"`
	IfVersion *int64 `json:"if_version,omitempty"`
	Confirming
}

type kvWriteResult struct {
	Planned
	Applied bool   `json:"applied"`
	Version string `json:"version,omitempty"`
}

func kvPut(c *call, in kvPutArgs) (out kvWriteResult, err error) {
	var raw struct {
		Value json.RawMessage `json:"value"`
	}
	if json.Unmarshal(c.req.Params.Arguments, &raw) != nil || len(raw.Value) == 0 {
		return out, badArgument("value", "value is needed")
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw.Value); err != nil {
		return out, badArgument("value", "value is no JSON")
	}
	if in.TTL < 0 {
		return out, badArgument("ttl_s", "ttl_s is negative")
	}
	op := &engine.KV{Kind: engine.KVPut, Namespace: in.Namespace, Key: in.Key, Value: compact.Bytes(), Keep: time.Duration(in.TTL) * time.Second}
	return c.writeKey(in.Confirming, op, in.IfVersion, "write a key", []any{in.Namespace, in.Key, compact.String(), in.TTL, in.IfVersion})
}

type kvDeleteArgs struct {
	Namespace string `json:"namespace"`
	Key       string `json:"key"`
	IfVersion *int64 `json:"if_version,omitempty"`
	Confirming
}

func kvDelete(c *call, in kvDeleteArgs) (out kvWriteResult, err error) {
	op := &engine.KV{Kind: engine.KVDelete, Namespace: in.Namespace, Key: in.Key}
	return c.writeKey(in.Confirming, op, in.IfVersion, "delete a key", []any{in.Namespace, in.Key, in.IfVersion})
}

func (c *call) writeKey(in Confirming, op *engine.KV, ifVersion *int64, action string, args []any) (out kvWriteResult, err error) {
	if err := callersNamespace(op.Namespace); err != nil {
		return out, err
	}
	if ifVersion != nil {
		if *ifVersion < 0 {
			return out, badArgument("if_version", "if_version is negative")
		}
		op.HasExpect, op.Expect = true, uint64(*ifVersion)
	}
	now, err := c.engine.Keyed().KV(c.ctx, c.caller, []engine.KV{{Kind: engine.KVGet, Namespace: op.Namespace, Key: op.Key}})
	if err != nil {
		return out, err
	}
	counts := map[string]uint64{"replaced": 0}
	if now[0].Found {
		counts["replaced"] = 1
	}
	asked, err := c.confirm(in, args, op.Key, Plan{Action: action, Target: map[string]string{"namespace": op.Namespace, "key": op.Key}, Counts: counts,
		Reversible: !now[0].Found, Effects: []string{"What the key holds now is gone; programs that use it see the new state at once."}})
	if err != nil || asked != nil {
		out.Planned = orNone(asked)
		return out, err
	}
	res, err := c.engine.Do(c.ctx, c.caller, engine.Batch{Ops: []engine.Op{op}})
	if err == nil && res[0].Err != nil {
		err = res[0].Err
	}
	if err != nil {
		return out, err
	}
	item := &res[0].KV
	out.Planned, out.Applied = c.done(), item.Applied
	if !item.Applied {
		return out, &toolError{Code: string(engine.CodeKVPrecondition), Message: "the key is not at if_version", Hint: explain(engine.CodeKVPrecondition).Remedy}
	}
	if item.Row.Version > 0 {
		out.Version = digits(item.Row.Version)
	}
	return out, nil
}

type timerScheduleArgs struct {
	Queue         string `json:"queue"`
	Key           string `json:"key"`
	Partition     string `json:"partition,omitempty"`
	DelayS        int    `json:"delay_s,omitempty" jsonschema:"seconds from now"`
	At            string `json:"at,omitempty" jsonschema:"RFC 3339, instead of delay_s"`
	TransactionID string `json:"transaction_id,omitempty"`
	Payload       any    `json:"payload" jsonschema:"any JSON value"`
	Confirming
}

type timerWriteResult struct {
	Planned
	Status string  `json:"status,omitempty"`
	Due    *string `json:"due_at"`
}

var timerStatuses = map[format.TimerStatus]string{format.TimerScheduled: "scheduled", format.TimerRescheduled: "rescheduled",
	format.TimerCancelled: "cancelled", format.TimerAbsent: "absent", format.TimerPaused: "paused", format.TimerResumed: "resumed"}

func timerSchedule(c *call, in timerScheduleArgs) (out timerWriteResult, err error) {
	var raw struct {
		Payload json.RawMessage `json:"payload"`
	}
	var compact bytes.Buffer
	if json.Unmarshal(c.req.Params.Arguments, &raw) != nil || json.Compact(&compact, raw.Payload) != nil || compact.Len() == 0 {
		return out, badArgument("payload", "payload is no JSON value")
	}
	at, err := timeOf("at", in.At)
	if err != nil {
		return out, err
	}
	if in.DelayS < 0 || (in.DelayS == 0) == (at == 0) {
		return out, badArgument("delay_s", "either delay_s, above 0, or at is needed")
	}
	op := &engine.Timer{Op: format.TimerSchedule, Queue: in.Queue, Key: in.Key, Partition: in.Partition, At: at,
		Delay:   time.Duration(in.DelayS) * time.Second,
		Message: engine.Message{TransactionID: in.TransactionID, Payload: compact.Bytes()}}
	return c.writeTimer(in.Confirming, op, "schedule a timer",
		[]any{in.Queue, in.Key, in.Partition, in.DelayS, in.At, in.TransactionID, compact.String()})
}

type timerCancelArgs struct {
	Queue string `json:"queue"`
	Key   string `json:"key"`
	Confirming
}

func timerCancel(c *call, in timerCancelArgs) (out timerWriteResult, err error) {
	return c.writeTimer(in.Confirming, &engine.Timer{Op: format.TimerCancel, Queue: in.Queue, Key: in.Key}, "cancel a timer", []any{in.Queue, in.Key})
}

func (c *call) writeTimer(in Confirming, op *engine.Timer, action string, args []any) (out timerWriteResult, err error) {
	_, found, err := c.engine.Keyed().Timer(c.ctx, c.caller, op.Queue, op.Key)
	if err != nil {
		return out, err
	}
	counts := map[string]uint64{"replaced": 0}
	if found {
		counts["replaced"] = 1
	}
	asked, err := c.confirm(in, args, op.Key, Plan{Action: action, Target: map[string]string{"queue": op.Queue, "key": op.Key}, Counts: counts,
		Reversible: !found, Effects: []string{"A pending timer of that key is replaced or gone."}})
	if err != nil || asked != nil {
		out.Planned = orNone(asked)
		return out, err
	}
	return c.doTimer(op)
}

// doTimer carries out what was planned for a timer.
func (c *call) doTimer(op *engine.Timer) (out timerWriteResult, err error) {
	res, err := c.engine.Do(c.ctx, c.caller, engine.Batch{Ops: []engine.Op{op}})
	if err == nil && res[0].Err != nil {
		err = res[0].Err
	}
	if err != nil {
		return out, err
	}
	out.Planned, out.Status, out.Due = c.done(), timerStatuses[res[0].Timer.Status], maybeTime(res[0].Timer.Due)
	return out, nil
}
