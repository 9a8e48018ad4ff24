package wire

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/gofiber/fiber/v2"
)

// TestFullDescriptorTable runs itself again as a process with few descriptors: a client that connects while none is
// left must be served once one is free. Without the retry the server's accept loop would end for good.
func TestFullDescriptorTable(t *testing.T) {
	const child = "WIRE_TEST_FEW_FILES"
	if os.Getenv(child) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestFullDescriptorTable$", "-test.v")
		cmd.Env = append(os.Environ(), child+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("child: %v\n%s", err, out)
		}
		return
	}
	h := start(t, Options{MaxConns: 1000}, ServerOptions{}, echoRoutes)
	before := h.dial() // the network stack has what it needs
	before.send(get("/ok"))
	before.expect(200, "ok")
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 64, Max: 64}); err != nil {
		t.Fatal(err)
	}
	var fill []*os.File
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		fill = append(fill, f)
	}
	_ = fill[0].Close() // one descriptor, for the client's end; the server finds none for its own
	c := h.dial()
	until(t, "accept fails", func() bool { return h.ln.Metrics().FilesExhausted >= 3 })
	before.send(get("/ok"))
	before.expect(200, "ok")
	for _, f := range fill[1:] {
		_ = f.Close()
	}
	c.send(get("/ok"))
	c.expect(200, "ok")
}

func TestConnectionsAboveTheCapAreAnswered503(t *testing.T) {
	h := start(t, Options{MaxConns: 2}, ServerOptions{}, echoRoutes)
	a, b := h.dial(), h.dial()
	for _, c := range []*client{a, b} {
		c.send(get("/ok"))
		c.expect(200, "ok")
	}
	refused := h.dial()
	refused.send(get("/ok"))
	res, err := http.ReadResponse(refused.r, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 503 || res.Header.Get("Retry-After") != "1" || !res.Close ||
		string(body) != `{"error":"Too many connections","code":"too_many_connections"}` {
		t.Errorf("answer %d %v %q, %v", res.StatusCode, res.Header, body, err)
	}
	refused.fin()
	for range 10 { // uploading clients see it as well
		tr := &http.Transport{DisableKeepAlives: true}
		res, err := (&http.Client{Transport: tr}).Post("http://"+h.ln.Addr().String()+"/push", "",
			bytes.NewReader(make([]byte, 8<<20)))
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != 503 {
			t.Errorf("upload answered %d", res.StatusCode)
		}
	}
	a.fin()
	until(t, "a place is free", func() bool { return h.ln.Metrics().Open == 1 })
	again := h.dial()
	again.send(get("/ok"))
	again.expect(200, "ok")
	if m := h.ln.Metrics(); m.Refused != 11 || m.Accepted != 3 {
		t.Errorf("metrics %+v", m)
	}
}

// More refusals than can be answered at once are closed, and none of them holds a place.
func TestManyConnectionsAboveTheCap(t *testing.T) {
	h := start(t, Options{MaxConns: 1}, ServerOptions{}, echoRoutes)
	first := h.dial()
	first.send(get("/ok"))
	first.expect(200, "ok")
	for range 3 * refusingMax {
		h.dial()
	}
	until(t, "all are refused", func() bool { return h.ln.Metrics().Refused == 3*refusingMax })
	if n := h.ln.refusing.Load(); n > refusingMax {
		t.Errorf("%d refusals at once", n)
	}
	first.send(get("/ok"))
	first.expect(200, "ok")
}

// A drain that has time: parked requests are answered with Connection: close, idle and silent connections are closed,
// nobody is forced, and new clients are refused by the kernel.
func TestShutdownLetsRequestsEnd(t *testing.T) {
	l := newLot()
	h := start(t, Options{}, ServerOptions{}, l.routes)
	idle, silent, busy := h.dial(), h.dial(), h.dial()
	idle.send(get("/ok"))
	idle.expect(200, "ok")
	busy.send(get("/park"))
	await(t, l.parked, "the park")
	until(t, "the silent one is accepted", func() bool { return h.ln.Metrics().Open == 3 })

	forced := make(chan int, 1)
	go func() { forced <- h.shutdown(patience) }()
	silent.expectClosed()
	idle.expectClosed()
	close(l.release)
	res, err := http.ReadResponse(busy.r, nil)
	if err != nil || res.StatusCode != 204 || !res.Close {
		t.Errorf("answer of the parked request: %+v, %v", res, err)
	}
	busy.expectClosed()
	if n := await(t, forced, "the shutdown"); n != 0 {
		t.Errorf("%d connections forced", n)
	}
	if m := h.ln.Metrics(); m.Open != 0 || m.Parked != 0 || len(l.gone) != 0 {
		t.Errorf("metrics %+v, %d declared gone", m, len(l.gone))
	}
}

// A drain without time: the parked handler is told that its connection is gone, and its answer counts as failed.
func TestShutdownForcesWhatRemains(t *testing.T) {
	parked, verdict := make(chan struct{}), make(chan bool, 1)
	h := start(t, Options{}, ServerOptions{}, func(app *fiber.App) {
		app.Get("/park", func(c *fiber.Ctx) error {
			conn := From(c.Context())
			gone, unpark := conn.Park()
			defer unpark()
			close(parked)
			<-gone
			conn.Deliver(func(ok bool) { verdict <- ok })
			return nil
		})
	})
	c := h.dial()
	c.send(get("/park"))
	await(t, parked, "the park")
	if forced := h.shutdown(1); forced != 1 {
		t.Errorf("%d connections forced, want 1", forced)
	}
	if await(t, verdict, "the verdict") {
		t.Error("an answer that could not be sent counts as delivered")
	}
	c.expectClosed()
}

func TestDrainWithoutServe(t *testing.T) {
	ln, err := Listen(Options{Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	if n := ln.Drain(t.Context()); n != 0 {
		t.Errorf("%d forced", n)
	}
	if err := ln.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	if n := ln.Drain(t.Context()); n != 0 {
		t.Errorf("second drain: %d forced", n)
	}
}

func TestListenReportsAnAddressInUse(t *testing.T) {
	ln, err := Listen(Options{Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Drain(t.Context())
	if second, err := Listen(Options{Addr: ln.Addr().String()}); err == nil {
		second.Drain(t.Context())
		t.Error("bound twice")
	}
}
