package frontendhttp

import (
	"errors"
	"strings"

	"github.com/gofiber/fiber/v2"

	"queen/engine/auth"
)

// authenticate finds the principal and holds it to the level of the route. It is nil when nobody is asked: Auth is not
// set, or the route is open and no credential was shown. A credential that is shown on an open route is judged, because
// the answer may depend on it, but a bad one does not close the route.
func (c *call) authenticate() (*auth.Principal, error) {
	if c.f.opts.Auth == nil {
		return nil, nil
	}
	h := &c.ctx.Request.Header
	shown := auth.FromHeaders(string(h.Peek(fiber.HeaderAuthorization)), string(h.Peek("X-API-Key")))
	open := c.open()
	if open && shown.Secret == "" {
		return nil, nil
	}
	p, err := c.f.opts.Auth.Authenticate(c.f.stopping, shown)
	switch {
	case open && err != nil:
		return nil, nil
	case err != nil:
		return nil, c.unauthenticated(err)
	case !open && !p.May(auth.Level(c.route.Access)):
		return nil, &refusal{status: fiber.StatusForbidden, text: string(auth.Denied)}
	}
	return p, nil
}

// open tells whether the route answers anybody.
func (c *call) open() bool {
	if c.route.Access == public && !c.route.Closable {
		return true
	}
	path := string(c.ctx.Path())
	for _, skip := range c.f.opts.SkipPaths {
		if path == skip || len(skip) > 1 && skip[len(skip)-1] == '/' && strings.HasPrefix(path, skip) {
			return true
		}
	}
	return false
}

// unauthenticated is the answer for a reason; what is none is a fault of ours.
func (c *call) unauthenticated(err error) error {
	var reason auth.Reason
	if !errors.As(err, &reason) {
		return err
	}
	if reason == auth.Unavailable {
		c.ctx.Response.Header.Set("Retry-After", "1")
		return &refusal{status: fiber.StatusServiceUnavailable, code: "retry", text: string(reason)}
	}
	c.ctx.Response.Header.Set(fiber.HeaderWWWAuthenticate, "Bearer")
	return &refusal{status: fiber.StatusUnauthorized, text: string(reason)}
}
