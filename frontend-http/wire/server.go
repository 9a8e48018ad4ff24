package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// ServerOptions sets the limits of a Server. The zero value of every field means its default.
type ServerOptions struct {
	// BodyLimit is the largest request body in bytes; a larger one is answered 413. Default 64 MiB.
	BodyLimit int
	// BodyLimitOf gives a route its own limit, from the request's header alone; 0 means BodyLimit. It must be quick and
	// must not keep the header. Default: none.
	BodyLimitOf func(*fasthttp.RequestHeader) int
	// BodyRefused answers a request whose body is larger than its limit in place of 413; false leaves it to 413. The
	// header is complete, the body is not there. Default: none.
	BodyRefused func(*fasthttp.RequestCtx) (answered bool)
	// BodyMemory bounds the bodies of all requests together, in bytes; a request that does not fit is answered 429
	// "overloaded". At least BodyLimit. Default 8 x BodyLimit.
	BodyMemory int
	// HeaderLimit is the largest request line plus headers in bytes; a larger one is answered 431. It is also the size of
	// the read buffer of every connection. Default 16 KiB, for tokens.
	HeaderLimit int
	// ReadTimeout is the time for a whole request from its first byte (of a new connection: from its accept), the body's
	// allowance apart. Slower ones are answered 408. Handlers do not run against it. Default 30 s.
	ReadTimeout time.Duration
	// BodyRateMin, in bytes per second, adds Content-Length / BodyRateMin to ReadTimeout. A chunked body gets no extra
	// time. Default 1 MiB/s.
	BodyRateMin int
	// WriteTimeout is the time for writing one answer. An event stream renews it by itself. Default 30 s.
	WriteTimeout time.Duration
	// IdleTimeout closes a connection that asks nothing for so long. Clients keep theirs for up to 30 s, so a shorter
	// one would reset requests. Default 75 s.
	IdleTimeout time.Duration
	// TLS, when set, is spoken on every connection. Default: plain HTTP.
	TLS *tls.Config
	// ErrorHandler answers the errors that handlers return, except missing routes. Default: the JSON body of a
	// *fiber.Error's status, and 500 without any text of the error for the rest.
	ErrorHandler fiber.ErrorHandler
}

func (o ServerOptions) withDefaults() ServerOptions {
	setDefault(&o.BodyLimit, 64<<20)
	setDefault(&o.BodyMemory, 8*o.BodyLimit)
	o.BodyMemory = max(o.BodyMemory, o.BodyLimit)
	setDefault(&o.HeaderLimit, 16<<10)
	setDefault(&o.ReadTimeout, 30*time.Second)
	setDefault(&o.BodyRateMin, 1<<20)
	setDefault(&o.WriteTimeout, 30*time.Second)
	setDefault(&o.IdleTimeout, 75*time.Second)
	if o.ErrorHandler == nil {
		o.ErrorHandler = answerError
	}
	return o
}

// Server is a fiber app set up for a broker: strict and case-sensitive paths left percent-encoded, whole bodies in
// memory within limits, every answer flushed at once, errors that never echo the request.
//
// Strings and bytes that handlers get from a request live until they return; what is kept longer must be cloned. Bodies
// are read with c.Request().Body(), never c.Body(), which inflates without a limit.
type Server struct {
	// App takes the routes, before Serve.
	App *fiber.App

	opts   ServerOptions
	ln     *Listener
	bodies *bodyBudget
}

// NewServer makes a Server without routes, to run on ln. Shutdown also ends ln.
func NewServer(ln *Listener, opts ServerOptions) *Server {
	s := &Server{opts: opts.withDefaults(), ln: ln}
	s.bodies = newBodyBudget(s.opts.BodyMemory)
	// A setting of the library for the whole process: without it every idle connection keeps its largest body's buffer.
	fasthttp.SetBodySizePoolLimit(keptBody, keptBody)
	s.App = fiber.New(fiber.Config{
		BodyLimit:                    s.opts.BodyLimit,
		ReadBufferSize:               s.opts.HeaderLimit,
		WriteBufferSize:              4 << 10,
		ReadTimeout:                  s.opts.ReadTimeout,
		WriteTimeout:                 s.opts.WriteTimeout,
		IdleTimeout:                  s.opts.IdleTimeout,
		StrictRouting:                true,
		CaseSensitive:                true,
		UnescapePath:                 false,
		Immutable:                    false,
		StreamRequestBody:            false,
		DisablePreParseMultipartForm: true,
		DisableStartupMessage:        true,
		ErrorHandler:                 s.handleError,
	})
	server := s.App.Server()
	server.CloseOnShutdown = true
	server.SecureErrorLogMessage = true
	server.KeepHijackedConns = true // Takeover closes them
	server.HeaderReceived = s.headerReceived
	server.ExpectHandler = s.expect
	server.ErrorHandler = s.answerTransportError
	server.Handler = s.around(server.Handler)
	return s
}

// Serve answers requests until Shutdown, which makes it return nil. It is called once.
func (s *Server) Serve() error {
	var ln net.Listener = s.ln
	if s.opts.TLS != nil {
		ln = tls.NewListener(ln, s.opts.TLS)
	}
	return s.App.Listener(ln)
}

// Shutdown stops accepting, lets running requests end and then closes what is left when ctx ends; answers given
// meanwhile carry "Connection: close". Parked handlers should be released first, by whoever parked them. It returns how
// many connections were closed by force.
func (s *Server) Shutdown(ctx context.Context) (forced int, err error) {
	s.ln.closeSilent()
	err = s.App.ShutdownWithContext(ctx)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		err = nil // reported as forced
	}
	return s.ln.Drain(ctx), err
}

// around runs before and after every handler.
func (s *Server) around(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		s.bodies.running(&ctx.Request.Header)
		switch {
		case encodedBody(&ctx.Request.Header):
			answer(ctx, fasthttp.StatusUnsupportedMediaType, "unsupported_encoding", "Content-Encoding is not supported")
		case !knownMethod(ctx.Method()):
			noSuchRoute(ctx)
		default:
			next(ctx)
		}
		s.bodies.release(&ctx.Request.Header)
		// Besides its own purpose a deadline set here makes fasthttp flush the answer even when another request is already
		// buffered; without it a push would wait for the long poll pipelined behind it.
		_ = ctx.SetWriteDeadline(time.Now().Add(s.opts.WriteTimeout))
	}
}

// headerReceived sets the limits of one request once its header is known.
func (s *Server) headerReceived(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
	limit, timeout := s.bodyLimit(h), s.opts.ReadTimeout
	conf := fasthttp.RequestConfig{MaxRequestBodySize: limit}
	switch n := h.ContentLength(); {
	case n > limit: // refused by its length
	case n > 0:
		timeout += time.Duration(n) * time.Second / time.Duration(s.opts.BodyRateMin)
		conf.ReadTimeout = timeout
		conf.MaxRequestBodySize = s.bodies.take(h, n, time.Now().Add(timeout))
	case n == -1: // chunked
		conf.MaxRequestBodySize = s.bodies.takeUpTo(h, limit, time.Now().Add(timeout))
	}
	return conf
}

func (s *Server) bodyLimit(h *fasthttp.RequestHeader) int {
	if s.opts.BodyLimitOf != nil {
		if n := s.opts.BodyLimitOf(h); n > 0 {
			return n
		}
	}
	return s.opts.BodyLimit
}

// expect refuses a body before the client sends it.
func (s *Server) expect(ctx *fasthttp.RequestCtx) int {
	h := &ctx.Request.Header
	if h.ContentLength() > s.bodyLimit(h) || s.bodies.isShort(h) {
		s.refuseBody(ctx)
		return ctx.Response.StatusCode()
	}
	return fasthttp.StatusContinue
}

// encodedBody reports a request whose body is compressed: inflating it could take a thousand times its size.
func encodedBody(h *fasthttp.RequestHeader) bool {
	for _, v := range h.PeekAll(fasthttp.HeaderContentEncoding) {
		if len(v) > 0 && string(v) != "identity" {
			return true
		}
	}
	return false
}

// knownMethod keeps methods that fiber does not know from its plain-text answer.
func knownMethod(m []byte) bool {
	for _, known := range fiber.DefaultMethods {
		if string(m) == known {
			return true
		}
	}
	return false
}
