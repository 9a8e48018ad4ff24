package frontendmcp

import (
	"sync"

	"queen/engine/format"
)

// Limits of one caller.
const (
	maxConcurrent  = 8
	callsPerSecond = 20
	callsBurst     = 40
	maxTracked     = 10_000
)

// rates holds callers to so many calls at a time and a second. A caller is a subject of a tenant; all that nobody asked
// who they are count as one.
type rates struct {
	// unlimited lets tests call as often as they like.
	unlimited bool

	mu      sync.Mutex
	callers map[callerKey]*callerRate
}

type callerKey struct {
	tenant  format.Tenant
	subject string
}

// callerRate is what one caller has left. It is forgotten when it is full again and nothing runs.
type callerRate struct {
	running int
	left    float64
	at      int64 // clock.Mono
}

func newRates() *rates { return &rates{callers: map[callerKey]*callerRate{}} }

func keyOf(id *Identity) callerKey { return callerKey{id.Tenant, id.subject()} }

// enter takes a place, which leave gives back; the error is a *toolError.
func (r *rates) enter(id *Identity, mono int64) error {
	if id.inner {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	k := keyOf(id)
	c := r.callers[k]
	if c == nil {
		if len(r.callers) >= maxTracked {
			r.forgetLocked(mono)
		}
		if len(r.callers) >= maxTracked {
			return &toolError{Code: "rate_limited", Message: "too many callers at a time", Retryable: true, RetryAfterMs: 1000}
		}
		c = &callerRate{left: callsBurst, at: mono}
		r.callers[k] = c
	}
	if c.fill(mono); r.unlimited {
		c.left = callsBurst
	}
	if c.running >= maxConcurrent {
		return &toolError{Code: "rate_limited", Message: "too many calls of this caller run already", Field: "concurrent calls",
			Limit: "8", Retryable: true, RetryAfterMs: 200}
	}
	if c.left < 1 {
		return &toolError{Code: "rate_limited", Message: "this caller calls too often", Field: "calls a second", Limit: "20",
			Retryable: true, RetryAfterMs: int64((1 - c.left) / callsPerSecond * 1000)}
	}
	c.left--
	c.running++
	return nil
}

func (c *callerRate) fill(mono int64) {
	c.left = min(callsBurst, c.left+float64(mono-c.at)/1e6*callsPerSecond)
	c.at = mono
}

func (r *rates) leave(id *Identity) {
	if id.inner {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.callers[keyOf(id)]; c != nil {
		c.running--
	}
}

// forgetLocked drops callers that are as new.
func (r *rates) forgetLocked(mono int64) {
	for k, c := range r.callers {
		if c.fill(mono); c.running == 0 && c.left >= callsBurst {
			delete(r.callers, k)
		}
	}
}
