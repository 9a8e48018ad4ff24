package frontendmcp

import (
	"context"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"queen/engine"
	"queen/engine/format"
)

// callTime bounds one call: no tool may hold a connection for longer.
const callTime = 30 * time.Second

// call is one call of a tool.
type call struct {
	f      *Frontend
	ctx    context.Context
	cancel context.CancelFunc
	tool   *tool
	req    *mcp.CallToolRequest
	id     *Identity
	caller engine.Caller
	engine engine.Engine
	// room is what is left of the answer's size; see page.
	room int
	// links stand beside the answer.
	links []*mcp.ResourceLink
}

// begin admits a call; the error is a *toolError.
func (f *Frontend) begin(ctx context.Context, t *tool, req *mcp.CallToolRequest) (*call, error) {
	id := identityOf(ctx)
	e := f.attached()
	if e == nil {
		return nil, &toolError{Code: "starting", Message: "the node is still starting", Retryable: true, RetryAfterMs: 1000}
	}
	if err := f.rates.enter(id, f.opts.Clock.Mono()); err != nil {
		return nil, err
	}
	c := &call{f: f, tool: t, req: req, id: id, caller: id.caller(), engine: e, room: defaultRoom}
	c.ctx, c.cancel = context.WithTimeout(ctx, callTime)
	if id.gone != nil && t != nil && t.readOnly() { // what writes goes on, as clients of earlier revisions expect
		stop, cancel := context.AfterFunc(id.gone, c.cancel), c.cancel
		c.cancel = func() { stop(); cancel() }
	}
	return c, nil
}

func (c *call) end() {
	c.cancel()
	c.f.rates.leave(c.id)
}

// meta starts an answer.
func (c *call) meta() Meta { return Meta{AsOf: timeText(c.f.now()), Node: c.f.opts.Node} }

// timeText is RFC 3339 in UTC with microseconds; "" for no time.
func timeText(w format.Wall) string {
	if w == 0 {
		return ""
	}
	return time.UnixMicro(int64(w)).UTC().Format("2006-01-02T15:04:05.000000Z")
}

// maybeTime is timeText for a field that is null when there is no time.
func maybeTime(w format.Wall) *string {
	if w == 0 {
		return nil
	}
	s := timeText(w)
	return &s
}

// ageSeconds is how long ago a time was; null when there is none.
func (c *call) ageSeconds(w format.Wall) *float64 {
	if w == 0 {
		return nil
	}
	age := float64(max(c.f.now()-w, 0)) / 1e6
	return &age
}

// timeOf reads a time argument; "" is none.
func timeOf(field, text string) (format.Wall, error) {
	if text == "" {
		return 0, nil
	}
	when, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return 0, badArgument(field, field+" is no RFC 3339 time")
	}
	return format.Wall(when.UnixMicro()), nil
}

// notify tells a client that asked for it how far a call got. A client that can not be told is not waited for.
func (c *call) notify(done, of float64) {
	token := c.req.Params.GetProgressToken()
	if token == nil || c.req.Session == nil {
		return
	}
	_ = c.req.Session.NotifyProgress(c.ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: done, Total: of})
}

// number reads digits.
func number(text string) (uint64, bool) {
	n, err := strconv.ParseUint(text, 10, 63)
	return n, err == nil
}
