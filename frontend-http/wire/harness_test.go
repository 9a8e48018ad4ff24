package wire

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
)

// patience is how long a test waits for something that must happen; it fails the test and never makes one pass.
const patience = 20 * time.Second

// harness is a server on a real socket.
type harness struct {
	t      *testing.T
	ln     *Listener
	srv    *Server
	served chan error
}

// start runs a server with the given routes; the test's end shuts it down and checks that it ended cleanly.
func start(t *testing.T, lo Options, so ServerOptions, routes func(*fiber.App)) *harness {
	t.Helper()
	lo.Addr = "127.0.0.1:0"
	ln, err := Listen(lo)
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{t: t, ln: ln, srv: NewServer(ln, so), served: make(chan error, 1)}
	routes(h.srv.App)
	go func() { h.served <- h.srv.Serve() }()
	t.Cleanup(func() { h.shutdown(patience) })
	return h
}

// shutdown may be called by the test before its end; the second call does nothing.
func (h *harness) shutdown(wait time.Duration) (forced int) {
	h.t.Helper()
	if h.served == nil {
		return 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	forced, err := h.srv.Shutdown(ctx)
	if err != nil {
		h.t.Errorf("shutdown: %v", err)
	}
	if err := await(h.t, h.served, "Serve to return"); err != nil {
		h.t.Errorf("serve: %v", err)
	}
	h.served = nil
	return forced
}

// dial opens a client connection that the test's end closes.
func (h *harness) dial() *client {
	h.t.Helper()
	nc, err := net.Dial("tcp", h.ln.Addr().String())
	if err != nil {
		h.t.Fatal(err)
	}
	return h.client(nc, nc.(*net.TCPConn))
}

func (h *harness) dialTLS() *client {
	h.t.Helper()
	nc, err := net.Dial("tcp", h.ln.Addr().String())
	if err != nil {
		h.t.Fatal(err)
	}
	tc := tls.Client(nc, &tls.Config{InsecureSkipVerify: true})
	if err := tc.Handshake(); err != nil {
		h.t.Fatal(err)
	}
	return h.client(tc, nc.(*net.TCPConn))
}

func (h *harness) client(nc net.Conn, tcp *net.TCPConn) *client {
	h.t.Cleanup(func() { _ = tcp.Close() })
	_ = nc.SetDeadline(time.Now().Add(patience))
	return &client{t: h.t, Conn: nc, tcp: tcp, r: bufio.NewReader(nc)}
}

// client speaks raw HTTP, so that a test decides every byte and every close.
type client struct {
	net.Conn
	t   *testing.T
	tcp *net.TCPConn
	r   *bufio.Reader
}

// get is the request for a path, ready to send.
func get(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: queen\r\n\r\n" }

func (c *client) send(s string) {
	c.t.Helper()
	if _, err := io.WriteString(c, s); err != nil {
		c.t.Fatal(err)
	}
}

// receive reads one answer and its body.
func (c *client) receive() (status int, body string) {
	c.t.Helper()
	res, err := http.ReadResponse(c.r, nil)
	if err != nil {
		c.t.Fatalf("read answer: %v", err)
	}
	b, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatalf("read body: %v", err)
	}
	return res.StatusCode, string(b)
}

func (c *client) expect(status int, bodyPart string) {
	c.t.Helper()
	got, body := c.receive()
	if got != status || !strings.Contains(body, bodyPart) {
		c.t.Fatalf("answer %d %q, want %d with %q", got, body, status, bodyPart)
	}
}

// expectClosed reads the rest of the connection, which must be empty.
func (c *client) expectClosed() {
	c.t.Helper()
	rest, err := io.ReadAll(c.r)
	if len(rest) > 0 || err != nil {
		c.t.Fatalf("expected a clean close, got %q, %v", rest, err)
	}
}

// The ways a client leaves.

func (c *client) fin()  { _ = c.tcp.Close() }
func (c *client) half() { _ = c.tcp.CloseWrite() }
func (c *client) rst() {
	_ = c.tcp.SetLinger(0)
	_ = c.tcp.Close()
}

// await takes a value that must come.
func await[T any](t *testing.T, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		buf := make([]byte, 1<<20)
		t.Fatalf("waited in vain for %s\n%s", what, buf[:runtime.Stack(buf, true)])
		panic("unreachable")
	}
}

// until spins, yielding, on a condition that has no event of its own (a counter, the kernel's view of a socket).
func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for give := time.Now().Add(patience); !cond(); runtime.Gosched() {
		if time.Now().After(give) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// lot parks requests and says what became of them.
type lot struct {
	arm     chan struct{} // when not nil: handlers wait for the client to be gone before they park
	parked  chan *Conn
	gone    chan *Conn
	release chan struct{}
}

func newLot() *lot {
	return &lot{parked: make(chan *Conn, 4096), gone: make(chan *Conn, 4096), release: make(chan struct{})}
}

// park answers 204 when released and notes a client that left.
func (l *lot) park(c *fiber.Ctx) error {
	conn := From(c.Context())
	if l.arm != nil {
		<-l.arm
	}
	gone, unpark := conn.Park()
	defer unpark()
	l.parked <- conn
	select {
	case <-gone:
		l.gone <- conn
	case <-l.release:
	}
	return c.SendStatus(fiber.StatusNoContent)
}

func (l *lot) routes(app *fiber.App) {
	app.Get("/park", l.park)
	app.Get("/ok", func(c *fiber.Ctx) error { return c.SendString("ok") })
	app.Post("/push", func(c *fiber.Ctx) error { return c.SendString("pushed") })
}

// selfSigned is a certificate for TLS tests.
func selfSigned(t *testing.T) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}
