package frontendhttp

import (
	"errors"
	"strconv"

	"queen/engine"
)

// keyedRefusal is a refusal of the KV, lock and timer routes: {"error","reason","detail"}. The code is in error.
type keyedRefusal struct {
	status               int
	code, reason, detail string
}

func (r *keyedRefusal) Error() string { return r.detail }

func kvBad(reason, detail string) *keyedRefusal {
	return &keyedRefusal{400, "kv_bad_request", reason, detail}
}

func locksBad(reason, detail string) *keyedRefusal {
	return &keyedRefusal{400, "locks_bad_request", reason, detail}
}

func timersBad(reason, detail string) *keyedRefusal {
	return &keyedRefusal{400, "timers_bad_request", reason, detail}
}

func tooLarge(reason, detail string) *keyedRefusal {
	return &keyedRefusal{413, "payload_too_large", reason, detail}
}

// keyedFault says how an error of the engine looks on these routes. The name is the family's: "kv" for KV and locks,
// "timers" for timers.
func keyedFault(family string, e *engine.Error) *keyedRefusal {
	r := &keyedRefusal{detail: e.Message}
	r.status = wireErrors[e.Code].status
	switch e.Code {
	case engine.CodeTimeout, engine.CodeOutcomeUnknown:
		r.code, r.reason = family+"_unavailable", family+"_timeout"
	case engine.CodeRetry, engine.CodeClosed:
		r.code, r.reason = family+"_unavailable", family+"_retry"
	case engine.CodeNoLeader:
		r.code, r.reason = family+"_unavailable", family+"_no_leader"
	case engine.CodePaused:
		r.code, r.reason = family+"_disabled", family+"_disabled"
	case engine.CodeTooLarge:
		r.code, r.reason = "payload_too_large", family+"_too_large"
	case engine.CodeBadRequest:
		r.code, r.reason = family+"_bad_request", family+"_bad_request"
	case engine.CodeInternal, engine.CodeCorrupt:
		r.status, r.code, r.reason = 500, family+"_error", wireErrors[e.Code].code
	default:
		r.code, r.reason = wireErrors[e.Code].code, wireErrors[e.Code].code
	}
	if r.status == 0 {
		r.status, r.code = 500, family+"_error"
	}
	if r.detail == "" {
		r.detail = r.reason
	}
	return r
}

// refuseKeyed answers in the family's shape.
func (c *call) refuseKeyed(r *keyedRefusal, after int) {
	if r.status == 429 || r.status == 503 {
		c.ctx.Response.Header.Set("Retry-After", strconv.Itoa(after))
	}
	o := out{c.buffer()}
	o.open('{')
	o.str("error", r.code)
	o.str("reason", r.reason)
	o.str("detail", r.detail)
	o.close('}')
	c.send(r.status, o.b)
}

// failKeyed answers an error in the shapes of the keyed families and of transactions; false when it is none of theirs.
func (c *call) failKeyed(err error) bool {
	var keyed *keyedRefusal
	var txn *refusedTxn
	var plain *refusal
	var stream *streamFailure
	switch {
	case errors.As(err, &stream):
		c.failStream(stream)
		return true
	case errors.As(err, &txn):
		c.refuseTxn(txn)
		return true
	case errors.As(err, &keyed):
		c.refuseKeyed(keyed, 1)
		return true
	case c.route.Errors != familyKV && c.route.Errors != familyTimers:
		return false
	}
	family := "kv"
	if c.route.Errors == familyTimers {
		family = "timers"
	}
	if errors.As(err, &plain) {
		if plain.status != 400 || plain.code == "" {
			return false // credentials and the like look the same everywhere
		}
		c.refuseKeyed(&keyedRefusal{400, family + "_bad_request", family + "_bad_request", plain.text}, 1)
		return true
	}
	e := asEngineError(err)
	r := keyedFault(family, e)
	if r.status == 500 {
		c.f.opts.Logger.Error("request failed", "event", "http_internal", "route", c.route.Path, "err", err)
		r.detail = "Internal Server Error"
	}
	c.refuseKeyed(r, retryAfter(e.Code, e.RetryAfter))
	return true
}
