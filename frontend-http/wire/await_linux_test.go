package wire

import (
	"io"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
)

// TestAwaitWakesForBytesAndForEveryEnd: a stream that holds no goroutine wakes once for what its client sends, for its
// client's end and for its own, over TCP and TLS.
func TestAwaitWakesForBytesAndForEveryEnd(t *testing.T) {
	for _, secure := range []bool{false, true} {
		streams, woken := make(chan *Stream, 1), make(chan struct{}, 8)
		ready := func() { woken <- struct{}{} }
		so := ServerOptions{}
		if secure {
			so.TLS = selfSigned(t)
		}
		h := start(t, Options{}, so, func(app *fiber.App) {
			app.Get("/rest", func(c *fiber.Ctx) error {
				Takeover(c.Context(), func(s *Stream) {
					s.Keep()
					if !s.Await(ready) {
						t.Error("the stream can not be watched")
					}
					streams <- s
				})
				return nil
			})
		})
		dial := h.dial
		if secure {
			dial = h.dialTLS
		}
		c := dial()
		c.send(get("/rest"))
		s := await(t, streams, "the stream")
		if len(woken) > 0 {
			t.Error("woken by nothing")
		}
		if _, err := io.WriteString(c, "word"); err != nil {
			t.Fatal(err)
		}
		await(t, woken, "the wake for bytes")
		got := make([]byte, 4)
		_ = s.SetReadDeadline(time.Now().Add(patience))
		if _, err := io.ReadFull(s, got); err != nil || string(got) != "word" {
			t.Fatalf("secure %v: %v, %q", secure, err, got)
		}
		if len(woken) > 0 || !s.Await(ready) {
			t.Error("woken twice, or not to be watched again")
		}
		c.fin()
		await(t, woken, "the wake for the client's end")
		if _, err := s.Read(got); err == nil {
			t.Error("read from a client that is gone")
		}
		_ = s.Close()

		c = dial()
		c.send(get("/rest"))
		s = await(t, streams, "the stream")
		_ = s.Close()
		await(t, woken, "the wake for the stream's own end")
		if s.Await(ready) {
			t.Error("a closed stream is watched")
		}
		until(t, "nothing is watched", func() bool { m := h.ln.Metrics(); return m.Open == 0 && m.Parked == 0 })
	}
}
