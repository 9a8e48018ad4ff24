package frontendhttp

import (
	"errors"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"queen/engine/auth"
)

// authenticate finds the principal and holds it to the level of the route. It is nil when nobody is asked: Auth is not
// set, or the route is open and no credential was shown. A credential that is shown on an open route is judged, because
// the answer may depend on it, but a bad one does not close the route.
func (c *call) authenticate() (*auth.Principal, error) {
	if c.f.opts.Auth == nil {
		return nil, nil
	}
	shown := credentials(&c.ctx.Request.Header)
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
	return c.f.skips(string(c.ctx.Path()))
}

// skips tells whether the skip paths name a path.
func (f *Frontend) skips(path string) bool {
	for _, skip := range f.opts.SkipPaths {
		if path == skip || len(skip) > 1 && skip[len(skip)-1] == '/' && strings.HasPrefix(path, skip) {
			return true
		}
	}
	return false
}

// credentials are what a request shows.
func credentials(h *fasthttp.RequestHeader) auth.Credentials {
	return auth.FromHeaders(string(h.Peek(fiber.HeaderAuthorization)), string(h.Peek("X-API-Key")))
}

// strangerBody is the largest body that is read before its sender is known: memory for bodies is shared by all.
const strangerBody = 64 << 10

// bodyLimit is the limit of one request's body: 0 for the server's own, and little for callers who are not known.
func (f *Frontend) bodyLimit(h *fasthttp.RequestHeader) int {
	if n := h.ContentLength(); n != -1 && n <= strangerBody {
		return 0
	}
	if f.known(h) == nil {
		return 0
	}
	if most := f.opts.Server.BodyLimit; most > 0 {
		return min(most, strangerBody)
	}
	return strangerBody
}

// known is why the sender of a large body is not known; nil when it is, or when its path asks nobody.
func (f *Frontend) known(h *fasthttp.RequestHeader) error {
	path, _, _ := strings.Cut(string(h.RequestURI()), "?")
	if f.skips(path) {
		return nil
	}
	_, err := f.opts.Auth.Authenticate(f.stopping, credentials(h))
	return err
}

// bodyRefused answers 401 where a body was too large because nobody knows its sender.
func (f *Frontend) bodyRefused(ctx *fasthttp.RequestCtx) (answered bool) {
	err := f.known(&ctx.Request.Header)
	if err == nil {
		return false
	}
	c := &call{f: f, ctx: ctx, route: &route{}}
	c.fail(c.unauthenticated(err))
	return true
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
