//go:build linux

package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"testing"

	"github.com/gofiber/fiber/v2"
	"golang.org/x/sys/unix"
)

// unread is how many bytes from the client wait in the kernel.
func unread(c *Conn) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := unix.IoctlGetInt(c.mu.fd, unix.TIOCINQ)
	if err != nil {
		return -1
	}
	return n
}

// Every way a client can leave a parked request must be noticed, also behind unread bytes.
func TestParkedHandlerLearnsThatItsClientLeft(t *testing.T) {
	fin, rst, half := (*client).fin, (*client).rst, (*client).half
	for _, tc := range []struct {
		name   string
		tls    bool
		before string // requests answered on the connection first
		later  string // sent once the request is parked
		same   string // sent in the packet of the parked request
		leave  func(*client)
	}{
		{name: "fin", leave: fin},
		{name: "rst", leave: rst},
		{name: "half close", leave: half},
		{name: "reused, fin", before: get("/ok"), leave: fin},
		{name: "reused, rst", before: get("/ok"), leave: rst},
		{name: "reused, half close", before: get("/ok"), leave: half},
		{name: "pipelined in the same packet, fin", same: get("/ok"), leave: fin},
		{name: "pipelined in the same packet, rst", same: get("/ok"), leave: rst},
		{name: "pipelined later, fin", later: get("/ok"), leave: fin},
		{name: "pipelined later, rst", later: get("/ok"), leave: rst},
		{name: "pipelined later, half close", later: get("/ok"), leave: half},
		{name: "tls close", tls: true, leave: func(c *client) { _ = c.Conn.(*tls.Conn).Close() }},
		{name: "tls abrupt fin", tls: true, leave: fin},
		{name: "tls rst", tls: true, leave: rst},
		{name: "tls half close", tls: true, leave: half},
		{name: "tls pipelined later, close", tls: true, later: get("/ok"),
			leave: func(c *client) { _ = c.Conn.(*tls.Conn).Close() }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var so ServerOptions
			if tc.tls {
				so.TLS = selfSigned(t)
			}
			l := newLot()
			h := start(t, Options{}, so, l.routes)
			c := h.dial
			if tc.tls {
				c = h.dialTLS
			}
			leaver, stayer := c(), c()
			stayer.send(get("/park"))
			stays := await(t, l.parked, "the stayer to park")
			if tc.before != "" {
				leaver.send(tc.before)
				leaver.expect(200, "ok")
			}
			leaver.send(get("/park") + tc.same)
			conn := await(t, l.parked, "the leaver to park")
			if tc.later != "" {
				leaver.send(tc.later)
				until(t, "the bytes are there", func() bool { return unread(conn) > 0 })
			}
			// The departure of another one, told later than any false alarm about the bytes would be.
			canary := c()
			canary.send(get("/park"))
			bird := await(t, l.parked, "the canary to park")
			canary.fin()
			if await(t, l.gone, "the canary's departure") != bird {
				t.Fatal("declared gone before it left")
			}
			if !conn.Alive() {
				t.Error("not alive before it left")
			}
			tc.leave(leaver)
			if got := await(t, l.gone, "the departure to be noticed"); got != conn {
				t.Fatal("the wrong request was told")
			}
			if conn.Alive() {
				t.Error("alive after it left")
			}
			if !stays.Alive() {
				t.Error("the other client is not alive")
			}
			close(l.release)
			stayer.expect(204, "")
			if len(l.gone) > 0 {
				t.Error("the other client was declared gone")
			}
		})
	}
}

func TestParkAfterTheClientLeft(t *testing.T) {
	for name, leave := range map[string]func(*client){"fin": (*client).fin, "rst": (*client).rst} {
		t.Run(name, func(t *testing.T) {
			l := newLot()
			l.arm = make(chan struct{})
			seen := make(chan *Conn, 1)
			h := start(t, Options{}, ServerOptions{}, func(app *fiber.App) {
				app.Get("/park", func(c *fiber.Ctx) error {
					seen <- From(c.Context())
					return l.park(c)
				})
			})
			c := h.dial()
			c.send(get("/park"))
			conn := await(t, seen, "the request")
			leave(c)
			until(t, "the kernel knows", func() bool { return !conn.Alive() })
			close(l.arm)
			await(t, l.gone, "the departure to be noticed")
		})
	}
}

func TestParkContextEndsWithItsCause(t *testing.T) {
	parked, cause := make(chan struct{}), make(chan error, 2)
	h := start(t, Options{}, ServerOptions{}, func(app *fiber.App) {
		app.Get("/park", func(c *fiber.Ctx) error {
			ctx, unpark := From(c.Context()).ParkContext(context.Background())
			close(parked)
			<-ctx.Done()
			unpark()
			unpark()
			cause <- context.Cause(ctx)
			return nil
		})
	})
	c := h.dial()
	c.send(get("/park"))
	await(t, parked, "the park")
	c.fin()
	if err := await(t, cause, "the end of the context"); !errors.Is(err, ErrClientGone) {
		t.Errorf("cause %v", err)
	}
	if n := h.ln.Metrics().Parked; n != 0 {
		t.Errorf("%d parks left", n)
	}
}

// A connection serves many parks in turn, and a released one never fires into the next.
func TestParkAgainOnTheSameConnection(t *testing.T) {
	l := newLot()
	h := start(t, Options{}, ServerOptions{}, l.routes)
	c := h.dial()
	for range 50 {
		c.send(get("/park"))
		await(t, l.parked, "the park")
		l.release <- struct{}{}
		c.expect(204, "")
	}
	if len(l.gone) > 0 {
		t.Error("a staying client was declared gone")
	}
	until(t, "nothing is parked", func() bool { return h.ln.Metrics().Parked == 0 })
	if n := h.ln.Metrics().WatchErrors; n != 0 {
		t.Errorf("%d watch errors", n)
	}
}

// Two thousand parked requests are answered at once, park again, and all learn at once that their clients left.
func TestManyParkedRequests(t *testing.T) {
	const n = 2000
	l := newLot()
	h := start(t, Options{MaxConns: n}, ServerOptions{}, l.routes)
	clients := make([]*client, n)
	for i := range clients {
		clients[i] = h.dial()
	}
	parkAll := func() {
		for _, c := range clients {
			c.send(get("/park"))
		}
		for range n {
			await(t, l.parked, "every request to park")
		}
		if m := h.ln.Metrics(); m.Parked != n || m.Open != n {
			t.Fatalf("parked %d, open %d", m.Parked, m.Open)
		}
	}
	parkAll()
	for range n {
		l.release <- struct{}{}
	}
	for _, c := range clients {
		c.expect(204, "")
	}
	parkAll()
	for _, c := range clients {
		c.fin()
	}
	seen := make(map[*Conn]bool, n)
	for range n {
		seen[await(t, l.gone, "every departure")] = true
	}
	if len(seen) != n {
		t.Errorf("%d different connections, want %d", len(seen), n)
	}
	until(t, "all is closed", func() bool { m := h.ln.Metrics(); return m.Open == 0 && m.Parked == 0 })
}

func TestNilConnIsForeign(t *testing.T) {
	var c *Conn
	gone, unpark := c.Park()
	unpark()
	select {
	case <-gone:
		t.Error("a foreign connection fired")
	default:
	}
	settled := 0
	c.Deliver(func(ok bool) {
		if ok {
			settled++
		}
	})
	c.LingerOnClose()
	if !c.Alive() || settled != 1 {
		t.Errorf("alive %v, settled %d", c.Alive(), settled)
	}
}
