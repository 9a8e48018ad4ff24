package wire

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

func TestBodyBudget(t *testing.T) {
	const mib = 1 << 20
	b := newBodyBudget(8 * mib)
	heads := make([]fasthttp.RequestHeader, 8)
	soon := time.Now().Add(time.Hour)
	check := func(what string, got, want int) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
	}
	check("small bodies are free", b.take(&heads[0], smallBody, soon), smallBody)
	check("exact", b.take(&heads[1], 5*mib, soon), 5*mib)
	check("does not fit", b.take(&heads[2], 4*mib, soon), 1)
	if !b.isShort(&heads[2]) || b.isShort(&heads[1]) {
		t.Error("isShort")
	}
	check("chunked gets a quarter of the rest", b.takeUpTo(&heads[3], 4*mib, soon), 3*mib/4)
	check("the same header again replaces its share", b.take(&heads[3], 3*mib, soon), 3*mib)
	check("chunked with nothing left", b.takeUpTo(&heads[4], 4*mib, soon), smallBody)
	if !b.release(&heads[2]) || !b.release(&heads[4]) || b.release(&heads[1]) || b.release(&heads[1]) {
		t.Error("short ones were not reported")
	}
	check("released", b.take(&heads[5], 5*mib, time.Now().Add(-time.Second)), 5*mib)
	check("a lapsed share is reclaimed", b.take(&heads[6], 5*mib, time.Now().Add(-time.Second)), 5*mib)
	b.running(&heads[6])
	check("a running one is not", b.take(&heads[7], 5*mib, soon), 1)
	for i := range heads {
		b.release(&heads[i])
	}
	if b.mu.free != 8*mib || len(b.mu.held) != 0 || b.shares.Load() != 0 {
		t.Errorf("%d free, %d held", b.mu.free, len(b.mu.held))
	}
}

// Announced bodies that do not fit into memory together are refused, and fit again when the others are done or broken.
func TestBodiesTogetherAreBounded(t *testing.T) {
	const limit = 1 << 20
	entered, proceed := make(chan struct{}), make(chan struct{})
	h := start(t, Options{}, ServerOptions{BodyLimit: limit, BodyMemory: 2 * limit}, func(app *fiber.App) {
		app.Post("/push", func(c *fiber.Ctx) error {
			entered <- struct{}{}
			<-proceed
			return c.SendString("pushed")
		})
	})
	head := fmt.Sprintf("POST /push HTTP/1.1\r\nHost: q\r\nContent-Length: %d\r\n", limit)
	body := strings.Repeat("x", limit)
	running, reading := h.dial(), h.dial()
	running.send(head + "\r\n" + body)
	await(t, entered, "the first handler")
	reading.send(head + "\r\n")
	until(t, "the second body is awaited", func() bool { return h.srv.bodies.shares.Load() == 2 })

	for name, request := range map[string]string{
		"length":  head + "\r\n" + body,
		"expect":  head + "Expect: 100-continue\r\n\r\n",
		"chunked": "POST /push HTTP/1.1\r\nHost: q\r\nTransfer-Encoding: chunked\r\n\r\n80000\r\n" + body[:1<<19],
	} {
		t.Run(name, func(t *testing.T) {
			c := h.dial()
			c.t = t
			go func() { _, _ = io.WriteString(c, request) }()
			c.expect(429, `"code":"overloaded"`)
		})
	}
	c := h.dial()
	c.send("POST /push HTTP/1.1\r\nHost: q\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n")
	await(t, entered, "a short chunked body")
	proceed <- struct{}{}
	proceed <- struct{}{}
	running.expect(200, "pushed")
	c.expect(200, "pushed")
	reading.fin()
	until(t, "all shares are back", func() bool { return h.srv.bodies.shares.Load() == 0 })
}

// An idle connection must not keep the buffer of the largest body it ever sent.
func TestIdleConnectionsKeepNoLargeBodies(t *testing.T) {
	const n, size = 32, 4 << 20
	h := start(t, Options{}, ServerOptions{}, echoRoutes)
	body := strings.Repeat("x", size)
	clients := make([]*client, n)
	for i := range clients {
		c := h.dial()
		clients[i] = c
		go func() {
			_, _ = fmt.Fprintf(c, "POST /push HTTP/1.1\r\nHost: q\r\nContent-Length: %d\r\n\r\n%s", size, body)
		}()
		c.expect(200, "")
	}
	var ms runtime.MemStats
	until(t, "the buffers are garbage", func() bool {
		runtime.GC()
		runtime.ReadMemStats(&ms)
		return ms.HeapAlloc < n*size/4
	})
	if open := h.ln.Metrics().Open; open != n {
		t.Errorf("%d connections open", open)
	}
	runtime.KeepAlive(clients)
}
