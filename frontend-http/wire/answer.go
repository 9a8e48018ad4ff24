package wire

import (
	"encoding/json"
	"errors"
	"net"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// errorBody is the shape of every error this package answers, 413 apart.
type errorBody struct {
	Error string `json:"error"`
	Code  string `json:"code"`
}

// answer writes an error body in JSON.
func answer(ctx *fasthttp.RequestCtx, status int, code, text string) {
	body, err := json.Marshal(errorBody{Error: text, Code: code})
	if err != nil {
		body = []byte(`{"error":"Internal Server Error","code":"internal"}`)
	}
	ctx.SetStatusCode(status)
	ctx.SetContentType("application/json")
	ctx.SetBody(body)
}

// noSuchRoute is the one answer for an unknown path and for a known path with another method, for which fiber has
// already set an Allow header.
func noSuchRoute(ctx *fasthttp.RequestCtx) {
	ctx.Response.Header.Del(fasthttp.HeaderAllow)
	answer(ctx, fasthttp.StatusNotFound, "no_such_route", "Not Found")
}

// refuseBody answers a body that is too large for its route, in plain text as clients expect it, or too large for the
// memory that is left. The connection closes while the body may still be coming in, hence the linger.
func (s *Server) refuseBody(ctx *fasthttp.RequestCtx) {
	if s.bodies.release(&ctx.Request.Header) {
		ctx.Response.Header.Set(fasthttp.HeaderRetryAfter, "1")
		answer(ctx, fasthttp.StatusTooManyRequests, "overloaded", "Too many request bodies in memory")
	} else if s.opts.BodyRefused == nil || !s.opts.BodyRefused(ctx) {
		ctx.SetContentType("text/plain; charset=utf-8")
		ctx.SetStatusCode(fasthttp.StatusRequestEntityTooLarge)
		ctx.SetBodyString("Payload Too Large")
	}
	From(ctx).LingerOnClose()
	ctx.SetConnectionClose()
}

// answerTransportError answers a request that fasthttp could not read; the connection closes afterwards. The error's
// own text quotes the request, credentials included, so it is never sent.
func (s *Server) answerTransportError(ctx *fasthttp.RequestCtx, err error) {
	var (
		small  *fasthttp.ErrSmallBuffer
		netErr net.Error
	)
	defer s.bodies.release(&ctx.Request.Header)
	switch {
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		s.refuseBody(ctx)
		return
	case errors.As(err, &small):
		answer(ctx, fasthttp.StatusRequestHeaderFieldsTooLarge, "bad_request", "Request header fields too large")
	case errors.As(err, &netErr) && netErr.Timeout():
		answer(ctx, fasthttp.StatusRequestTimeout, "timeout", "The request was not received in time")
		return // what the peer has sent is read; lingering would only hold the descriptor
	default:
		answer(ctx, fasthttp.StatusBadRequest, "bad_request", "Malformed HTTP request")
	}
	From(ctx).LingerOnClose()
}

// handleError sorts what fiber and the handlers return.
func (s *Server) handleError(c *fiber.Ctx, err error) error {
	var fe *fiber.Error
	if errors.As(err, &fe) && (fe.Code == fiber.StatusNotFound || fe.Code == fiber.StatusMethodNotAllowed) {
		noSuchRoute(c.Context())
		return nil
	}
	return s.opts.ErrorHandler(c, err)
}

// answerError is the default ServerOptions.ErrorHandler.
func answerError(c *fiber.Ctx, err error) error {
	var fe *fiber.Error
	if !errors.As(err, &fe) || fe.Code >= 500 {
		answer(c.Context(), fasthttp.StatusInternalServerError, "internal", "Internal Server Error")
		return nil
	}
	answer(c.Context(), fe.Code, "bad_request", fasthttp.StatusMessage(fe.Code))
	return nil
}
