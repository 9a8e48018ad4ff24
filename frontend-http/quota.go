package frontendhttp

import (
	"errors"

	"queen/engine"
	"queen/engine/auth"
)

// admit takes the request from its tenant's plan. Public routes cost nothing: probes must get through.
func (c *call) admit() error {
	if c.free() {
		return nil
	}
	return c.charge(auth.Requests, 1)
}

// free says that the plan does not count the request.
func (c *call) free() bool { return c.route.Access == public || c.route.Frees }

// charge takes from a bucket of the tenant's plan, or refuses the call.
func (c *call) charge(b auth.Bucket, n int) error {
	if ok, after := c.f.opts.Quotas.Take(auth.Tenant(c.caller.Tenant), b, n); !ok {
		return &engine.Error{Code: engine.CodeRateLimited, RetryAfter: after, Field: b.String(),
			Message: "the tenant's plan allows fewer " + b.String() + " a second"}
	}
	return nil
}

// settle gives the request back when the plan refused the call after all: what was denied costs nothing (S-ten-8).
func (c *call) settle(err error) error {
	if err == nil {
		return nil
	}
	var e *engine.Error
	if !c.free() && errors.As(err, &e) && (e.Code == engine.CodeRateLimited || e.Code == engine.CodeQuotaExceeded) {
		c.f.opts.Quotas.Give(auth.Tenant(c.caller.Tenant), auth.Requests, 1)
	}
	return err
}
