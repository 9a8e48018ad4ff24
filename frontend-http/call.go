package frontendhttp

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"queen/engine"
	"queen/engine/auth"
	"queen/engine/format"
	"queen/frontend-http/wire"
)

// Deadlines of calls. A pop ends later than its wait, because a client gives up at timeout + 5 s.
const (
	writeDeadline = 30 * time.Second
	readDeadline  = 30 * time.Second
	popGrace      = 4 * time.Second
)

// call is one request under way. Strings from it live until the handler returns.
type call struct {
	f      *Frontend
	ctx    *fasthttp.RequestCtx
	route  *route
	engine engine.Engine
	caller engine.Caller
	// known says that a principal stands behind caller, consumes that it may take messages.
	known, consumes bool
	// names are those of the path, still percent-encoded.
	names [maxNames]string
	// unmeasured calls are not counted in the operation's duration: they waited on purpose.
	unmeasured bool
}

// run answers one request by one row of the table.
func (f *Frontend) run(fc *fiber.Ctx, r *route, names [maxNames]string) error {
	c := f.calls.Get().(*call)
	*c = call{f: f, ctx: fc.Context(), route: r, names: names}
	began := f.opts.Clock.Mono()
	err := c.serve()
	if err != nil {
		c.fail(err)
	}
	f.metrics.observe(c, f.opts.Clock.Mono()-began)
	*c = call{}
	f.calls.Put(c)
	return nil
}

func (c *call) serve() error {
	if err := c.identify(); err != nil {
		return err
	}
	if err := c.admit(); err != nil {
		return err
	}
	if c.route.Handle == nil {
		return &engine.Error{Code: engine.CodeNotBuilt, Message: "this route is not built yet"}
	}
	if c.engine = c.f.attached(); c.engine == nil && !c.route.Alone {
		return &engine.Error{Code: engine.CodeRetry, RetryAfter: time.Second, Message: "the node is starting"}
	}
	return c.settle(c.route.Handle(c))
}

// identify says who calls and whether it may: the one place where a principal comes from.
func (c *call) identify() error {
	p, err := c.authenticate()
	if err != nil {
		return err
	}
	if c.caller.Tenant, err = c.tenantOf(p); err != nil {
		return err
	}
	c.consumes = c.f.opts.Auth == nil || p != nil && p.May(auth.LevelReadWrite)
	if p != nil {
		c.known, c.caller.Subject = true, p.Subject
	}
	if c.route.Keyed {
		switch keys := c.ctx.Request.Header.PeekAll("Idempotency-Key"); {
		case len(keys) > 1:
			return badRequest("Idempotency-Key must be sent once")
		case len(keys) == 1 && (len(keys[0]) == 0 || len(keys[0]) > 255):
			return badRequest("Idempotency-Key must be 1 to 255 bytes")
		case len(keys) == 1:
			c.caller.Key = string(keys[0])
		}
	}
	return nil
}

// refusal is an answer that the engine knows nothing about. An empty code leaves the key out.
type refusal struct {
	status     int
	code, text string
	// field is told as "invalid" when it is not empty.
	field string
}

func (r *refusal) Error() string { return r.text }

func badBody(text string) error {
	return &refusal{status: fiber.StatusBadRequest, code: "bad_body", text: "bad body: " + text}
}

func badRequest(text string) error {
	return &refusal{status: fiber.StatusBadRequest, code: "bad_request", text: text}
}

func notFound(text string) error {
	return &refusal{status: fiber.StatusNotFound, code: "not_found", text: text}
}

// conn is the connection of the call, nil in no case that matters: its methods work on nil.
func (c *call) conn() *wire.Conn { return wire.From(c.ctx) }

// deadline is a context that ends after d. Hang-ups do not end it: a write is not taken back.
func (c *call) deadline(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}

// body is the request's body as sent; wire has refused compressed ones.
func (c *call) body() []byte { return c.ctx.Request.Body() }

// name decodes a name of the path once.
func (c *call) name(i int) (string, error) {
	s, err := url.PathUnescape(c.names[i])
	if err != nil || !utf8.ValidString(s) {
		return "", badRequest("the path has an invalid percent-escape or is not UTF-8")
	}
	return strings.Clone(s), nil
}

// buffer is the response's own buffer, empty; hand it to send.
func (c *call) buffer() []byte { return c.ctx.Response.SwapBody(nil)[:0] }

// send answers JSON. The buffer belongs to the response afterwards.
func (c *call) send(status int, body []byte) {
	c.ctx.SetStatusCode(status)
	c.ctx.SetContentType("application/json")
	c.ctx.Response.SwapBody(body)
}

// nothing answers 204.
func (c *call) nothing() { c.ctx.SetStatusCode(fiber.StatusNoContent) }

// decode reads a JSON body for the routes that are not hot: unknown keys are ignored, wrong types refused.
func (c *call) decode(v any) error {
	body := c.body()
	if !utf8.Valid(body) {
		return badBody("not UTF-8")
	}
	if err := json.Unmarshal(body, v); err != nil {
		return badBody(jsonProblem(err))
	}
	return nil
}

// decodeOptional is decode, with an empty body for "{}".
func (c *call) decodeOptional(v any) error {
	if len(c.body()) == 0 {
		return nil
	}
	return c.decode(v)
}

// jsonProblem says what is wrong without the names of Go types.
func jsonProblem(err error) string {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		where := wrong.Field
		if where == "" {
			where = "the body"
		}
		return where + " can not be a " + wrong.Value
	}
	return err.Error()
}

// query reads typed parameters and keeps the first problem.
type query struct {
	args *fasthttp.Args
	err  error
}

func (c *call) query() query { return query{args: c.ctx.QueryArgs()} }

func (q *query) bad(key, want string) {
	if q.err == nil {
		q.err = badRequest("query parameter " + key + " must be " + want)
	}
}

// has tells an absent parameter from an empty one.
func (q *query) has(key string) bool { return q.args.Has(key) }

// text is a copy; "" when absent.
func (q *query) text(key string) string {
	b := q.args.Peek(key)
	if !utf8.Valid(b) {
		q.bad(key, "UTF-8")
		return ""
	}
	return string(b)
}

// integer is absent's value when the parameter is absent.
func (q *query) integer(key string, absent int64) int64 {
	b := q.args.Peek(key)
	if b == nil {
		return absent
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil {
		q.bad(key, "an integer")
	}
	return n
}

// within is integer moved into a range.
func (q *query) within(key string, absent, low, high int64) int64 {
	return min(max(q.integer(key, absent), low), high)
}

func (q *query) boolean(key string) bool {
	switch string(q.args.Peek(key)) {
	case "true":
		return true
	case "false":
	default:
		if q.has(key) {
			q.bad(key, "true or false")
		}
	}
	return false
}

// loose is boolean for the administrative routes, which also take 1, 0, yes and no.
func (q *query) loose(key string, absent bool) bool {
	switch string(q.args.Peek(key)) {
	case "true", "1", "yes":
		return true
	case "false", "0", "no":
		return false
	}
	if q.has(key) {
		q.bad(key, "true or false")
	}
	return absent
}

// instant is 0 when absent or empty.
func (q *query) instant(key string) format.Wall {
	s := q.args.Peek(key)
	if len(s) == 0 {
		return 0
	}
	w, ok := parseInstant(string(s))
	if !ok {
		q.bad(key, "an ISO-8601 instant")
	}
	return w
}

// parseInstant reads an ISO-8601 instant; without a zone it is UTC.
func parseInstant(s string) (format.Wall, bool) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02"} {
		if t, err := time.Parse(layout, s); err == nil {
			return format.Wall(t.UnixMicro()), true
		}
	}
	return 0, false
}
