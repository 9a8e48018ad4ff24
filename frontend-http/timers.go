package frontendhttp

import (
	"cmp"
	"encoding/base64"
	"errors"
	"strings"

	"queen/engine"
	"queen/engine/auth"
	"queen/engine/format"
)

func timerRoutes() []*route {
	return []*route{
		{Method: "POST", Path: "/api/v1/timers", Access: writeOnly, Mark: common,
			Summary: "Schedule, pause, resume and cancel messages for later.", Request: "TimerCall", Response: "TimerResults",
			Status: 200, Errors: familyTimers, Op: "timers", Keyed: true, Handle: timers},
		{Method: "DELETE", Path: "/api/v1/timers/:queue/*timerKey", Access: readWrite, Mark: common,
			Summary: "Cancel one timer.", Query: []param{{Name: "txn", Type: "string"}}, Response: "TimerResult",
			Status: 200, Errors: familyTimers, Op: "timers", Keyed: true, Frees: true, Handle: cancelTimer, split: splitFirst},
		{Method: "GET", Path: "/api/v1/timers/:queue/*timerKey", Access: readOnly, Mark: common,
			Summary: "Look at one timer.", Response: "TimerRead", Status: 200, Errors: familyTimers,
			Handle: getTimer, split: splitFirst},
		{Method: "GET", Path: "/api/v1/timers/:queue", Access: readOnly, Mark: common,
			Summary: "List the timers of a queue, or count those with a prefix.",
			Query: []param{{Name: "after", Type: "string"}, {Name: "limit", Type: "integer"},
				{Name: "mode", Type: "string", About: "count"}, {Name: "prefix", Type: "string"}},
			Response: "TimerList", Status: 200, Errors: familyTimers, Handle: listTimers, split: oneSegment},
	}
}

// timers answers POST /api/v1/timers: one result per op, in order, or why nothing of the call took place.
func timers(c *call) error {
	b := timerBatch{now: format.Wall(c.f.opts.Clock.Now())}
	err := operations(c.body(), timerOps, func(kind, detail string) error {
		if kind == "many" {
			return timersBad("timers_too_many_ops", detail)
		}
		return timersBad("timers_bad_body", detail)
	}, func(_ int, ms jsonObject) error { return orNil(b.add(ms)) })
	if err != nil {
		return err
	}
	var results []engine.Result
	if len(b.ops) > 0 {
		ops := make([]engine.Op, len(b.ops))
		schedules := false
		for i := range b.ops {
			ops[i] = &b.ops[i]
			schedules = schedules || b.ops[i].Op == format.TimerSchedule
		}
		if schedules {
			if err := c.charge(auth.KVWrites, 1); err != nil {
				return err
			}
		}
		if results, err = c.commitTimers(ops); err != nil {
			return err
		}
	}
	o := out{c.buffer()}
	o.open('{').key("results").open('[')
	for i := range results {
		o.open('{')
		o.num("index", int64(i))
		o.timerItem(&b.ops[i], b.txns[i], &results[i].Timer)
		o.close('}')
	}
	o.close(']').close('}')
	c.send(200, o.b)
	return nil
}

// commitTimers carries a call out as a whole: the answer to one op that is refused has no room for what became of the
// others. A single op is whole by itself and needs no transaction.
func (c *call) commitTimers(ops []engine.Op) ([]engine.Result, error) {
	ctx, cancel := c.deadline(writeDeadline)
	defer cancel()
	results, err := c.engine.Do(ctx, c.caller, engine.Batch{Ops: ops, Atomic: len(ops) > 1})
	var e *engine.Error
	switch {
	case errors.As(err, &e) && e.Failed != nil:
		named := *e
		named.Message = inOperation(e.Failed.Op, cmp.Or(e.Message, string(e.Code)))
		return nil, &named
	case err == nil && len(ops) == 1 && results[0].Err != nil:
		return nil, results[0].Err
	}
	return results, err
}

// timerStatuses are the words for what became of a timer.
var timerStatuses = map[format.TimerStatus]string{
	format.TimerScheduled: "scheduled", format.TimerRescheduled: "rescheduled",
	format.TimerCancelled: "cancelled", format.TimerAbsent: "absent",
	format.TimerPaused: "paused", format.TimerResumed: "resumed",
}

func (o *out) timerItem(op *engine.Timer, txn string, it *engine.TimerItem) {
	o.bool("ok", it.Status != format.TimerAbsent)
	o.str("status", timerStatuses[it.Status])
	o.str("queue", op.Queue)
	o.str("timerKey", op.Key)
	if txn == "" && !it.MessageID.IsZero() {
		// Named by its message, as a push without an id is: a minted name would make a repeat under the same
		// Idempotency-Key look like another call.
		o.uuid("txn", it.MessageID)
	} else {
		o.strOrNull("txn", txn)
	}
	if op.Op == format.TimerSchedule {
		o.uuid("messageId", it.MessageID)
	}
	if it.Due != 0 {
		o.time("deliverAt", it.Due)
	}
}

// cancelTimer answers DELETE /api/v1/timers/:queue/*timerKey. Nothing there is an answer, not an error (S-tmr-9).
func cancelTimer(c *call) error {
	op, err := c.timerPath()
	if err != nil {
		return err
	}
	op.Op = format.TimerCancel
	q := c.query()
	txn := q.text("txn")
	if q.err != nil {
		return timersBad("timers_bad_request", q.err.Error())
	}
	if len(txn) > format.MaxTransactionID {
		return timersBad("timers_bad_txn", "txn must be at most 65535 bytes")
	}
	op.Message.TransactionID = txn // told back, and so a part of what is asked for
	results, err := c.commitTimers([]engine.Op{&op})
	if err != nil {
		return err
	}
	o := out{c.buffer()}
	o.open('{')
	o.timerItem(&op, txn, &results[0].Timer)
	o.close('}')
	c.send(200, o.b)
	return nil
}

func (c *call) timerPath() (op engine.Timer, err error) {
	if op.Queue, err = c.name(0); err == nil {
		op.Key, err = c.name(1)
	}
	if err != nil {
		return op, timersBad("timers_bad_request", err.Error())
	}
	if op.Queue == "" {
		return op, timersBad("timers_queue_required", "the queue must not be empty")
	}
	if op.Key == "" || len(op.Key) > engine.MaxKVKey {
		return op, timersBad("timers_bad_key", "timerKey must be 1 to 512 bytes")
	}
	return op, nil
}

// getTimer answers GET /api/v1/timers/:queue/*timerKey.
func getTimer(c *call) error {
	op, err := c.timerPath()
	if err != nil {
		return err
	}
	ctx, cancel := c.deadline(readDeadline)
	defer cancel()
	t, found, err := c.engine.Keyed().Timer(ctx, c.caller, op.Queue, op.Key)
	if err != nil {
		return err
	}
	o := out{c.buffer()}
	o.open('{')
	o.bool("found", found)
	if found {
		o.str("queue", t.Queue)
		o.timerRow(&t)
		shown, masked := c.f.opts.Masks.Payload(t.Queue, t.Message.Payload)
		o.str("payload", base64.StdEncoding.EncodeToString(shown))
		if masked {
			o.bool("payloadMasked", true)
		}
		o.strOrNull("producerSub", "")
		o.bool("payloadZstd", false)
		o.bool("encrypted", false)
		o.time("createdAt", t.Created)
		o.time("updatedAt", t.Updated)
	}
	o.close('}')
	c.send(200, o.b)
	return nil
}

func (o *out) timerRow(t *engine.TimerInfo) {
	o.str("timerKey", t.Key)
	o.str("partition", t.Partition)
	o.time("deliverAt", t.Due)
	if t.TransactionID == "" && !t.MessageID.IsZero() {
		o.uuid("txn", t.MessageID)
	} else {
		o.strOrNull("txn", t.TransactionID)
	}
	o.uuid("messageId", t.MessageID)
	o.count("attempts", uint64(t.Attempts))
	o.strOrNull("lastError", t.LastError)
	o.bool("claimed", false)
	o.bool("paused", t.Paused)
	if t.Cron == "" {
		return
	}
	o.str("cron", t.Cron)
	o.strOrNull("tz", t.Zone)
	o.str("catchUp", [...]string{"one", "all", "skip"}[t.CatchUp])
	o.count("fires", t.Fires)
	if t.MaxFires != 0 {
		o.count("maxFires", t.MaxFires)
	}
	if t.Until != 0 {
		o.time("until", t.Until)
	}
}

// listTimers answers GET /api/v1/timers/:queue.
func listTimers(c *call) error {
	queue, err := c.name(0)
	if err != nil || queue == "" {
		return timersBad("timers_queue_required", "the path must name a queue")
	}
	q := c.query()
	switch mode := q.text("mode"); mode {
	case "":
		if q.has("prefix") {
			return timersBad("timers_count_mode_required", "prefix goes with mode=count only")
		}
	case "count":
		return c.countTimers(queue, &q)
	default:
		return timersBad("timers_read_mode_unknown", "mode must be count")
	}
	page := engine.Page{After: q.text("after"), Limit: int(q.within("limit", 100, 1, maxPage))}
	if q.err != nil {
		return timersBad("timers_bad_request", q.err.Error())
	}
	ctx, cancel := c.deadline(readDeadline)
	defer cancel()
	rows, next, err := c.engine.Keyed().Timers(ctx, c.caller, queue, page)
	if err != nil {
		return err
	}
	o := out{c.buffer()}
	o.open('{').key("rows").open('[')
	for i := range rows {
		o.open('{')
		o.timerRow(&rows[i])
		o.close('}')
	}
	o.close(']')
	o.bool("truncated", next != "")
	o.strOrNull("nextAfter", next)
	o.close('}')
	c.send(200, o.b)
	return nil
}

func (c *call) countTimers(queue string, q *query) error {
	prefix := q.text("prefix")
	switch {
	case q.err != nil:
		return timersBad("timers_bad_request", q.err.Error())
	case q.has("after") || q.has("limit"):
		return timersBad("timers_count_no_paging", "after and limit do not go with mode=count")
	case prefix == "" || len(prefix) > 128 || strings.IndexByte(prefix, 0) >= 0:
		return timersBad("timers_count_prefix_required", "prefix must be 1 to 128 bytes without NUL")
	}
	ctx, cancel := c.deadline(readDeadline)
	defer cancel()
	n, err := c.engine.Keyed().CountTimers(ctx, c.caller, queue, prefix)
	if err != nil {
		return err
	}
	o := out{c.buffer()}
	o.open('{')
	o.count("count", n)
	o.close('}')
	c.send(200, o.b)
	return nil
}
