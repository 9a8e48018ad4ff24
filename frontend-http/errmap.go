package frontendhttp

import (
	"context"
	"errors"
	"strconv"
	"time"

	"queen/engine"
)

// wireError is how an engine code looks on this wire.
type wireError struct {
	status int
	// code is the "code" of the body.
	code string
	// item starts the "error" of one refused item inside a 200 or 201; clients match on these words.
	item string
}

// wireErrors maps every code of the engine. A call refused for its state answers 409, which no client retries.
var wireErrors = map[engine.ErrorCode]wireError{
	engine.CodeBadRequest:       {400, "bad_request", "bad_request"},
	engine.CodeNameTooLong:      {413, "name_too_long", "name_too_long"},
	engine.CodeTooLarge:         {413, "too_large", "too_large"},
	engine.CodeUnknownQueue:     {404, "unknown_queue", "unknown queue"},
	engine.CodeUnknownPartition: {404, "unknown_partition", "unknown partition"},
	engine.CodeUnknownGroup:     {404, "unknown_group", "unknown consumer group"},
	engine.CodeNotFound:         {404, "not_found", "not found"},
	engine.CodeOffsetOutOfRange: {404, "offset_out_of_range", "offset out of range"},
	engine.CodeBadStatus:        {400, "bad_status", "bad_status"},
	engine.CodeLeaseInvalid:     {409, "lease_invalid", "invalid or expired lease"},
	engine.CodeGroupHeld:        {409, "group_held", "group_held"},
	engine.CodeNotLeased:        {409, "not_leased", "consumer not found"},
	engine.CodeUnresolvable:     {409, "unresolvable", "unresolvable"},
	engine.CodeAlreadyCommitted: {409, "already_committed", "already committed"},
	engine.CodeGone:             {404, "gone", "gone"},
	engine.CodeSnapshotExpired:  {410, "snapshot_expired", "snapshot_expired"},
	engine.CodeNotBuilt:         {501, "not_built", "not_built"},
	engine.CodeEncryption:       {409, "encryption_unavailable", "encryption_unavailable"},
	engine.CodeIdempotencyClash: {422, "idempotency_mismatch", "idempotency_mismatch"},
	engine.CodeRejectedAck:      {409, "rejected_ack", "rejected_ack"},
	engine.CodeDuplicate:        {409, "duplicate", "duplicate"},
	engine.CodeKVPrecondition:   {409, "kv_precondition", "kv_precondition"},
	engine.CodeRolledBack:       {409, "rolled_back", "rolled_back"},
	engine.CodeQueueFull:        {429, "queue_full", "queue_full"},
	engine.CodeQuotaExceeded:    {403, "quota_exceeded", "quota_exceeded"},
	engine.CodeRateLimited:      {429, "rate_limited", "rate_limited"},
	engine.CodePaused:           {503, "paused", "paused"},
	// No route of ours produces record batches; a call that met one of these would be a conflict.
	engine.CodeOutOfSequence:     {409, "out_of_sequence", "out_of_sequence"},
	engine.CodeDuplicateSequence: {409, "duplicate_sequence", "duplicate_sequence"},
	engine.CodeProducerEpoch:     {409, "producer_epoch", "producer_epoch"},
	engine.CodeProducerFenced:    {409, "producer_fenced", "producer_fenced"},
	engine.CodeProducerMapping:   {409, "producer_mapping", "producer_mapping"},
	engine.CodeTxnState:          {409, "txn_state", "txn_state"},
	engine.CodeTxnBusy:           {409, "txn_busy", "txn_busy"},
	engine.CodeOverloaded:        {429, "overloaded", "overloaded"},
	engine.CodeStorageFull:       {507, "storage_full", "storage_full"},
	engine.CodeTimeout:           {503, "timeout", "timeout"},
	engine.CodeOutcomeUnknown:    {503, "outcome_unknown", "outcome_unknown"},
	engine.CodeNoLeader:          {503, "no_leader", "no_leader"},
	engine.CodeRetry:             {503, "retry", "retry"},
	engine.CodeClosed:            {503, "closed", "closed"},
	engine.CodeCorrupt:           {500, "corrupt", "corrupt"},
	engine.CodeInternal:          {500, "internal", "internal"},
}

// readErrors names what went wrong with one entry of a read by offset.
var readErrors = map[engine.ErrorCode]string{
	engine.CodeUnknownQueue:     "UNKNOWN_TOPIC_OR_PARTITION",
	engine.CodeUnknownPartition: "UNKNOWN_TOPIC_OR_PARTITION",
	engine.CodeOffsetOutOfRange: "OFFSET_OUT_OF_RANGE",
	engine.CodeCorrupt:          "CORRUPT_MESSAGE",
	engine.CodeBadRequest:       "INVALID_REQUEST",
	engine.CodeEncryption:       "ENCRYPTION_UNAVAILABLE",
}

func readError(e *engine.Error) string {
	if s, ok := readErrors[e.Code]; ok {
		return s
	}
	return "UNKNOWN_SERVER_ERROR"
}

// itemError is the text of one refused item: words clients match on, then the engine's sentence.
func itemError(e *engine.Error) string {
	w, ok := wireErrors[e.Code]
	if !ok {
		return "internal"
	}
	if e.Message == "" || len(e.Message) >= len(w.item) && e.Message[:len(w.item)] == w.item {
		if e.Message == "" {
			return w.item
		}
		return e.Message
	}
	return w.item + ": " + e.Message
}

// asEngineError finds the engine's error; what is none is a fault of ours, or the end of a context.
func asEngineError(err error) *engine.Error {
	var e *engine.Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &engine.Error{Code: engine.CodeTimeout, Outcome: engine.OutcomeUnknown, RetryAfter: time.Second,
			Message: "the call's deadline passed", Cause: err}
	}
	return &engine.Error{Code: engine.CodeInternal, Cause: err}
}

// fail answers an error in the shape of the route's family.
func (c *call) fail(err error) {
	c.ctx.Response.ResetBody()
	if c.failKeyed(err) || c.failEphemeral(err) {
		return
	}
	var r *refusal
	if !errors.As(err, &r) {
		e := asEngineError(err)
		w, ok := wireErrors[e.Code]
		if !ok {
			w = wireErrors[engine.CodeInternal]
		}
		r = &refusal{status: w.status, code: w.code, text: e.Message, field: e.Field}
		if w.status >= 500 && w.code == "internal" {
			c.f.opts.Logger.Error("request failed", "event", "http_internal", "route", c.route.Path, "err", err)
			r.text = "Internal Server Error"
		}
		if r.text == "" {
			r.text = w.item
		}
		if w.status == 429 || w.status == 503 {
			c.ctx.Response.Header.Set("Retry-After", strconv.Itoa(retryAfter(e.Code, e.RetryAfter)))
		}
	}
	c.refuse(r)
}

// retryAfter is whole seconds: 1 to 5 while overloaded.
func retryAfter(code engine.ErrorCode, d time.Duration) int {
	s := int(min((d+time.Second-1)/time.Second, 3600))
	if code == engine.CodeOverloaded {
		s = min(s, 5)
	}
	return max(s, 1)
}

func (c *call) refuse(r *refusal) {
	o := out{c.buffer()}
	o.open('{')
	switch {
	case r.status == 400 && c.route.Errors == familyPop:
		o.bool("success", false)
		o.str("error", r.text)
		o.key("messages").open('[').close(']')
	case r.status == 400 && c.route.Errors == familyRead:
		o.str("error", r.text)
	default:
		o.str("error", r.text)
		if r.code != "" {
			o.str("code", r.code)
		}
		if r.status == 400 && r.field != "" {
			o.str("invalid", r.field)
		}
	}
	o.close('}')
	c.send(r.status, o.b)
}
