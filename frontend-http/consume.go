package frontendhttp

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // RFC 6455 names it; nothing secret depends on it
	"encoding/base64"
	"net/url"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"queen/engine"
	"queen/frontend-http/wire"
)

// StreamOptions sets the limits of consume streams and watches. The zero value of every field means its default.
type StreamOptions struct {
	// Heartbeat is how often an idle stream shows that it lives: a ping, or a comment of an event stream. Default 15 s.
	Heartbeat time.Duration
	// Stall is how long a client may take nothing of what is being written to it; then its stream is closed and its
	// leases are handed back. Default 10 s.
	Stall time.Duration
	// Silence is how long a WebSocket may send nothing, pongs included, before it is closed. Default 3 x Heartbeat.
	Silence time.Duration
	// Origins are the values of the Origin header, like "https://app.example", that may open a WebSocket besides that
	// of the broker's own host; "*" allows all. Requests without an Origin come from no browser and pass. Default: none.
	Origins []string
}

func (o StreamOptions) withDefaults() StreamOptions {
	if o.Heartbeat <= 0 {
		o.Heartbeat = 15 * time.Second
	}
	if o.Stall <= 0 {
		o.Stall = 10 * time.Second
	}
	if o.Silence <= 0 {
		o.Silence = 3 * o.Heartbeat
	}
	return o
}

func consumeRoutes() []*route {
	return []*route{{Method: "GET", Path: "/api/v1/consume", Access: readWrite, Mark: additional, Socket: true,
		Summary: "Consume a queue as a stream: a WebSocket, or an event stream with Accept: text/event-stream, whose " +
			"query is that of the open frame. One event is one message; its id is partitionId:offset.",
		Query: []param{
			{Name: "queue", Type: "string", About: "Required for an event stream."},
			{Name: "partition", Type: "string", About: "Consume this partition only."},
			{Name: "consumerGroup", Type: "string", About: "Default: queue mode."},
			{Name: "subscriptionMode", Type: "string", About: "Where a new consumer group starts: new (default) or all."},
			{Name: "subscriptionFrom", Type: "string", About: "now, or the ISO-8601 instant at which a new group starts."},
			{Name: "leaseSeconds", Type: "integer", About: "Length of the leases; default the queue's leaseTime at the start."},
			{Name: "maxInFlight", Type: "integer", About: "Bound of one claim of an event stream, in messages: 1 to 10000, default 256."},
			{Name: "maxInFlightBytes", Type: "integer", About: "The same in payload bytes: 1 to 67108864, default 8388608."},
			{Name: "batch", Type: "integer", About: "Messages of one claim: 1 to 10000, default 200."},
			{Name: "partitions", Type: "integer", About: "Partitions one claim may span, 1 to 64; default 1."},
			{Name: "commitOnDelivery", Type: "boolean", About: "Move the cursor at delivery; no lease, at most once."},
		},
		Response: "Events", Status: 200, Events: consumeEvents, Handle: consumeStream}}
}

// consumeStream answers GET /api/v1/consume, as a WebSocket or as an event stream.
func consumeStream(c *call) error {
	h := &c.ctx.Request.Header
	switch {
	case hasToken(h.Peek(fiber.HeaderUpgrade), "websocket"):
		return c.openSocket()
	case accepts(h.Peek(fiber.HeaderAccept), "text/event-stream"):
		return c.openEvents()
	}
	c.ctx.Response.Header.Set(fiber.HeaderUpgrade, "websocket")
	return &refusal{status: fiber.StatusUpgradeRequired, code: "upgrade_required",
		text: "this route wants a WebSocket handshake, or Accept: text/event-stream"}
}

// openSocket answers the handshake of RFC 6455, or says why not.
func (c *call) openSocket() error {
	h := &c.ctx.Request.Header
	key := bytes.TrimSpace(h.Peek("Sec-WebSocket-Key"))
	nonce, err := base64.StdEncoding.DecodeString(string(key))
	switch {
	case !hasToken(h.Peek(fiber.HeaderConnection), "upgrade"):
		return badRequest("header Connection must hold Upgrade")
	case err != nil || len(nonce) != 16:
		return badRequest("header Sec-WebSocket-Key must be the base64 text of 16 bytes")
	case string(h.Peek("Sec-WebSocket-Version")) != "13":
		c.ctx.Response.Header.Set("Sec-WebSocket-Version", "13")
		return &refusal{status: fiber.StatusUpgradeRequired, code: "bad_request", text: "header Sec-WebSocket-Version must be 13"}
	case !c.originAllowed():
		return &refusal{status: fiber.StatusForbidden, code: "origin_refused", text: "this Origin may not open a stream"}
	}
	head := "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " +
		acceptKey(key) + "\r\n\r\n"
	f, e, caller := c.f, c.engine, c.caller
	wire.Takeover(c.ctx, func(conn *wire.Stream) { f.serveSocket(conn, e, caller, head) })
	return nil
}

// acceptKey proves to the client that its handshake was understood (RFC 6455 4.2.2).
func acceptKey(key []byte) string {
	sum := sha1.Sum(append(bytes.Clone(key), "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"...)) //nolint:gosec // see the import
	return base64.StdEncoding.EncodeToString(sum[:])
}

// originAllowed keeps pages of other sites from using the credentials that a browser sends along: browsers open
// WebSockets across origins without asking.
func (c *call) originAllowed() bool {
	origin := string(c.ctx.Request.Header.Peek(fiber.HeaderOrigin))
	if origin == "" {
		return true
	}
	for _, o := range c.f.opts.Streams.Origins {
		if o == "*" || strings.EqualFold(o, origin) {
			return true
		}
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, string(c.ctx.Host()))
}

// hasToken looks for a token in a comma-separated header, in any case.
func hasToken(header []byte, token string) bool {
	for part := range strings.SplitSeq(string(header), ",") {
		if strings.EqualFold(strings.TrimSpace(part), token) {
			return true
		}
	}
	return false
}

// accepts looks for a media type in an Accept header; parameters do not count.
func accepts(header []byte, media string) bool {
	for part := range strings.SplitSeq(string(header), ",") {
		kind, _, _ := strings.Cut(part, ";")
		if strings.EqualFold(strings.TrimSpace(kind), media) {
			return true
		}
	}
	return false
}

// newStreamEncoder prepares what all messages of a delivery share.
func newStreamEncoder(d *engine.Delivery) popEncoder {
	e := popEncoder{d: d, claim: -1}
	b := append([]byte(nil), `,"leaseId":`...)
	b = appendString(b, d.Lease)
	b = append(b, `,"consumerGroup":`...)
	b = appendString(b, d.Group)
	e.common = append(b, `,"deliveryAttempt":`...)
	return e
}
