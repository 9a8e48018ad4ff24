package frontendhttp

import (
	"errors"
	"strconv"
	"time"

	"queen/engine"
)

// ephemeralCodes are the codes of the family, of engine codes that have one of their own here (http-api 12).
var ephemeralCodes = map[engine.ErrorCode]wireError{
	engine.CodeBadRequest:    {status: 400, code: "ephemeral_bad_request"},
	engine.CodeNameTooLong:   {status: 400, code: "ephemeral_bad_request"},
	engine.CodeTooLarge:      {status: 403, code: "ephemeral_quota_exceeded"},
	engine.CodeQuotaExceeded: {status: 403, code: "ephemeral_quota_exceeded"},
	engine.CodeUnknownQueue:  {status: 404, code: "ephemeral_queue_not_found"},
	engine.CodeQueueFull:     {status: 429, code: "queue_full"},
	engine.CodeRateLimited:   {status: 429, code: "rate_limited"},
	engine.CodePaused:        {status: 503, code: "ephemeral_disabled"},
	engine.CodeOverloaded:    {status: 503, code: "ephemeral_unavailable"},
	engine.CodeClosed:        {status: 503, code: "ephemeral_unavailable"},
	engine.CodeRetry:         {status: 503, code: "ephemeral_unavailable"},
}

// failEphemeral answers an error of the family, always {"error","code"}; false when it is none of its own.
func (c *call) failEphemeral(err error) bool {
	if c.route.Errors != familyEphemeral {
		return false
	}
	var plain *refusal
	if errors.As(err, &plain) {
		if plain.status != 400 || plain.code == "" {
			return false // credentials and the like look the same everywhere
		}
		c.ephemeralError(wireError{status: 400, code: "ephemeral_bad_request"}, plain.text, 0)
		return true
	}
	e := asEngineError(err)
	w, ok := ephemeralCodes[e.Code]
	if ok {
		c.ephemeralError(w, e.Message, e.RetryAfter)
	}
	return ok
}

func (c *call) ephemeralError(w wireError, text string, after time.Duration) {
	if w.status == 429 || w.status == 503 {
		seconds := (after + time.Second - 1) / time.Second
		c.ctx.Response.Header.Set("Retry-After", strconv.Itoa(max(int(seconds), 1)))
	}
	o := out{c.buffer()}
	o.open('{')
	o.str("error", text)
	o.str("code", w.code)
	o.close('}')
	c.send(w.status, o.b)
}
