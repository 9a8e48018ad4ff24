package wire

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

func echoRoutes(app *fiber.App) {
	app.Post("/push", func(c *fiber.Ctx) error { return c.Send(c.Request().Body()) })
	app.Get("/ok", func(c *fiber.Ctx) error { return c.SendString("ok") })
	app.Get("/empty", func(c *fiber.Ctx) error { return c.SendStatus(fiber.StatusNoContent) })
	app.Get("/path/:a/*", func(c *fiber.Ctx) error { return c.SendString(c.Params("a") + "|" + c.Params("*")) })
	app.Get("/fail", func(*fiber.Ctx) error { return errors.New("secret detail") })
}

// A client that uploads eight times the limit must read its 413, every time: without the lingering close most see a
// connection reset.
func TestUploaderSeesIts413(t *testing.T) {
	h := start(t, Options{}, ServerOptions{BodyLimit: 1 << 20, BodyMemory: 64 << 20}, echoRoutes)
	body := bytes.Repeat([]byte("x"), 8<<20)
	for name, reader := range map[string]func() io.Reader{
		"content-length": func() io.Reader { return bytes.NewReader(body) },
		"chunked":        func() io.Reader { return struct{ io.Reader }{bytes.NewReader(body)} },
	} {
		t.Run(name, func(t *testing.T) {
			var wg sync.WaitGroup
			slots := make(chan struct{}, 8)
			for range 60 {
				slots <- struct{}{}
				wg.Go(func() {
					defer func() { <-slots }()
					tr := &http.Transport{DisableKeepAlives: true}
					res, err := (&http.Client{Transport: tr}).Post("http://"+h.ln.Addr().String()+"/push", "", reader())
					if err != nil {
						t.Errorf("upload: %v", err)
						return
					}
					text, err := io.ReadAll(res.Body)
					_ = res.Body.Close()
					if err != nil || res.StatusCode != 413 || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/plain") {
						t.Errorf("answer %d %q %q, %v", res.StatusCode, res.Header.Get("Content-Type"), text, err)
					}
				})
			}
			wg.Wait()
		})
	}
	until(t, "every upload is closed", func() bool { return h.ln.Metrics().Open == 0 })
}

func TestExpectedBodyTooLargeIsRefusedBeforeItIsSent(t *testing.T) {
	h := start(t, Options{}, ServerOptions{BodyLimit: 100}, echoRoutes)
	c := h.dial()
	c.send("POST /push HTTP/1.1\r\nHost: q\r\nExpect: 100-continue\r\nContent-Length: 101\r\n\r\n")
	c.expect(413, "Payload Too Large")
	c.half()
	c.expectClosed()

	c = h.dial()
	c.send("POST /push HTTP/1.1\r\nHost: q\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
	c.expect(100, "")
	c.send("abc")
	c.expect(200, "abc")
}

func TestRouteMayHaveItsOwnBodyLimit(t *testing.T) {
	h := start(t, Options{}, ServerOptions{BodyLimit: 10, BodyLimitOf: func(h *fasthttp.RequestHeader) int {
		if string(h.RequestURI()) == "/push?big" {
			return 20
		}
		return 0
	}}, echoRoutes)
	post := func(uri, body string) string {
		return "POST " + uri + " HTTP/1.1\r\nHost: q\r\nContent-Length: 15\r\n\r\n" + body
	}
	c := h.dial()
	c.send(post("/push?big", "123456789012345"))
	c.expect(200, "123456789012345")
	c.send(post("/push", "123456789012345"))
	c.expect(413, "")
}

func TestErrorsNeverEchoTheRequest(t *testing.T) {
	h := start(t, Options{}, ServerOptions{BodyLimit: 1 << 20}, echoRoutes)
	secret := "Authorization: Bearer tops3cret\r\n"
	for _, tc := range []struct {
		name, request string
		status        int
		body          string
	}{
		{"missing route", "GET /tops3cret HTTP/1.1\r\nHost: q\r\n" + secret + "\r\n", 404,
			`{"error":"Not Found","code":"no_such_route"}`},
		{"other method", "DELETE /ok HTTP/1.1\r\nHost: q\r\n" + secret + "\r\n", 404,
			`{"error":"Not Found","code":"no_such_route"}`},
		{"unknown method", "BREW /ok HTTP/1.1\r\nHost: q\r\n\r\n", 404, `{"error":"Not Found","code":"no_such_route"}`},
		{"case matters", get("/OK"), 404, "no_such_route"},
		{"trailing slash matters", get("/ok/"), 404, "no_such_route"},
		{"malformed", "tops3cret\r\n" + secret + "\r\n", 400, `{"error":"Malformed HTTP request","code":"bad_request"}`},
		{"two lengths", "POST /push HTTP/1.1\r\nHost: q\r\n" + secret + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
			400, `{"error":"Malformed HTTP request","code":"bad_request"}`},
		{"no host", "GET /ok HTTP/1.1\r\n" + secret + "\r\n", 400, "bad_request"},
		{"headers too large", "GET /ok HTTP/1.1\r\nHost: q\r\n" + secret + "X: " + strings.Repeat("x", 17<<10) + "\r\n\r\n",
			431, `{"error":"Request header fields too large","code":"bad_request"}`},
		{"handler error", get("/fail"), 500, `{"error":"Internal Server Error","code":"internal"}`},
		{"compressed", "POST /push HTTP/1.1\r\nHost: q\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nab", 415,
			`{"error":"Content-Encoding is not supported","code":"unsupported_encoding"}`},
		{"broken chunk", "POST /push HTTP/1.1\r\nHost: q\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400, "bad_request"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := h.dial()
			c.t = t
			c.send(tc.request)
			res, err := http.ReadResponse(c.r, nil)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(res.Body)
			if res.StatusCode != tc.status || !strings.Contains(string(body), tc.body) {
				t.Errorf("answer %d %s, want %d %s", res.StatusCode, body, tc.status, tc.body)
			}
			if ct := res.Header.Get("Content-Type"); ct != "application/json" {
				t.Errorf("content type %q", ct)
			}
			if res.Header.Get("Allow") != "" {
				t.Error("an Allow header")
			}
			if strings.Contains(string(body), "s3cret") || strings.Contains(string(body), "secret") {
				t.Errorf("echoes the request: %s", body)
			}
		})
	}
}

func TestRefusedEncodingKeepsTheConnectionInStep(t *testing.T) {
	h := start(t, Options{}, ServerOptions{}, echoRoutes)
	c := h.dial()
	c.send("POST /push HTTP/1.1\r\nHost: q\r\nContent-Encoding: gzip\r\nContent-Length: 28\r\n\r\nGET /stolen HTTP/1.1\r\n\r\n1234")
	c.expect(415, "")
	c.send("POST /push HTTP/1.1\r\nHost: q\r\nContent-Encoding: identity\r\nContent-Length: 2\r\n\r\nab")
	c.expect(200, "ab")
}

func TestPathsArriveAsSent(t *testing.T) {
	h := start(t, Options{}, ServerOptions{}, echoRoutes)
	c := h.dial()
	for target, want := range map[string]string{
		"/path/a%2Fb/c":         "a%2Fb|c",
		"/path/ns/a//b/":        "ns|a//b/",
		"/path/ns/a/../b":       "ns|a/../b",
		"/path/%F0%9F%98%80/+%": "%F0%9F%98%80|+%",
	} {
		c.send(get(target))
		c.expect(200, want)
	}
}

// 204 must carry neither body nor length: some clients drop the connection otherwise.
func TestNoContentHasNoBodyAndNoLength(t *testing.T) {
	h := start(t, Options{}, ServerOptions{}, echoRoutes)
	c := h.dial()
	c.send("GET /empty HTTP/1.1\r\nHost: q\r\nConnection: close\r\n\r\n")
	raw, err := io.ReadAll(c.r)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(string(raw), "\r\n\r\n")
	lower := strings.ToLower(head)
	if !strings.HasPrefix(head, "HTTP/1.1 204 ") || rest != "" || strings.Contains(lower, "content-length") ||
		strings.Contains(lower, "content-type") || strings.Contains(lower, "transfer-encoding") {
		t.Errorf("answer %q", raw)
	}
}

// Silent and dripping clients are cut off, while a parked request may outlive the same timeout.
func TestSlowClientsAreCutOff(t *testing.T) {
	const timeout = 150 * time.Millisecond
	l := newLot()
	h := start(t, Options{}, ServerOptions{ReadTimeout: timeout, BodyRateMin: 1 << 30}, l.routes)
	parked := h.dial()
	parked.send(get("/park"))
	await(t, l.parked, "the park")
	for name, first := range map[string]string{
		"header": "GET /ok HTTP/1.1\r\nX-",
		"body":   "POST /push HTTP/1.1\r\nHost: q\r\nContent-Length: 100000\r\n\r\nx",
		"chunks": "POST /push HTTP/1.1\r\nHost: q\r\nTransfer-Encoding: chunked\r\n\r\n1000\r\nx",
	} {
		t.Run(name, func(t *testing.T) {
			c := h.dial()
			c.send(first)
			stop := make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() { // a byte often enough that an inactivity timeout would never end it
				drip := time.NewTicker(timeout / 10)
				defer drip.Stop()
				for {
					select {
					case <-stop:
						return
					case <-drip.C:
						_, _ = io.WriteString(c, "x")
					}
				}
			})
			c.expect(408, `"code":"timeout"`)
			close(stop)
			wg.Wait()
		})
	}
	t.Run("silent", func(t *testing.T) {
		c := h.dial()
		c.expect(408, `"code":"timeout"`)
		c.expectClosed()
	})
	close(l.release)
	parked.expect(204, "")
}

// The Content-Length raises the read timeout: here the base is far below what the pause needs.
func TestLargeBodiesGetMoreTime(t *testing.T) {
	h := start(t, Options{}, ServerOptions{ReadTimeout: 50 * time.Millisecond, BodyRateMin: 1}, echoRoutes)
	c := h.dial()
	c.send("POST /push HTTP/1.1\r\nHost: q\r\nContent-Length: 60\r\n\r\n")
	late := h.dial() // times out while the body is awaited
	late.expect(408, "")
	c.send(strings.Repeat("x", 60))
	c.expect(200, "xxx")
}

// fasthttp would hold the first answer back until the parked one is done.
func TestPipelinedAnswersAreNotHeldBack(t *testing.T) {
	l := newLot()
	h := start(t, Options{}, ServerOptions{}, l.routes)
	push := "POST /push HTTP/1.1\r\nHost: q\r\nContent-Length: 1\r\n\r\nx"
	t.Run("whole requests", func(t *testing.T) {
		c := h.dial()
		c.send(push + get("/park") + push)
		await(t, l.parked, "the park")
		c.expect(200, "pushed")
		l.release <- struct{}{}
		c.expect(204, "")
		c.expect(200, "pushed")
	})
	t.Run("second body still coming", func(t *testing.T) {
		c := h.dial()
		c.send(push + strings.TrimSuffix(push, "x"))
		c.expect(200, "pushed")
		c.send("x")
		c.expect(200, "pushed")
	})
}
