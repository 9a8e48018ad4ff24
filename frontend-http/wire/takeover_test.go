package wire

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
)

// TestTakeoverReadsWhatCameEarly sends bytes with the request and after it, over TCP and TLS, and reads all back.
func TestTakeoverReadsWhatCameEarly(t *testing.T) {
	routes := func(app *fiber.App) {
		app.Get("/echo", func(c *fiber.Ctx) error {
			_ = c.SendString("dropped")
			Takeover(c.Context(), func(s *Stream) {
				if s.Wire == nil || !s.Wire.Alive() {
					t.Error("a live stream is not alive")
				}
				var b [8]byte
				for {
					n, err := s.Read(b[:])
					if err != nil {
						return
					}
					if err := s.Send(b[:n], patience); err != nil {
						return
					}
				}
			})
			return nil
		})
	}
	early := strings.Repeat("early ", 200)
	for _, secure := range []bool{false, true} {
		so := ServerOptions{}
		if secure {
			so.TLS = selfSigned(t)
		}
		h := start(t, Options{}, so, routes)
		dial := h.dial
		if secure {
			dial = h.dialTLS
		}
		c := dial()
		_ = c.SetDeadline(time.Now().Add(patience))
		if _, err := io.WriteString(c, "GET /echo HTTP/1.1\r\nHost: h\r\n\r\n"+early); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{early, "late"} {
			if want == "late" {
				if _, err := io.WriteString(c, want); err != nil {
					t.Fatal(err)
				}
			}
			got := make([]byte, len(want))
			if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
				t.Fatalf("secure %v: %v, %q", secure, err, got)
			}
		}
		if open := h.ln.Metrics().Open; open != 1 {
			t.Errorf("%d connections open", open)
		}
		_ = c.Close()
		if forced := h.shutdown(patience); forced != 0 {
			t.Errorf("%d streams were closed by force", forced)
		}
	}
}

// TestStalledSendGivesUp writes to a client that reads nothing.
func TestStalledSendGivesUp(t *testing.T) {
	failed := make(chan error, 1)
	h := start(t, Options{}, ServerOptions{}, func(app *fiber.App) {
		app.Get("/flood", func(c *fiber.Ctx) error {
			Takeover(c.Context(), func(s *Stream) { failed <- s.Send(make([]byte, 64<<20), 50*time.Millisecond) })
			return nil
		})
	})
	c := h.dial()
	if _, err := io.WriteString(c, "GET /flood HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := await(t, failed, "the write to fail"); err == nil {
		t.Fatal("64 MiB went into a socket that nobody reads")
	}
}
