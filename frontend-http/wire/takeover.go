package wire

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// earlyMax bounds what a client may have sent after its request and before the takeover, bytes.
const earlyMax = 64 << 10

var errTooEarly = errors.New("wire: the client sent too much before the stream began")

// Stream is a connection that was taken over from the request loop: no request will be read from it any more and
// nothing of the request, its buffers included, is kept. At a time one goroutine may read and one may write.
type Stream struct {
	net.Conn             // the connection as it was spoken on, TLS included
	Wire     *Conn       // the accepted connection, for Alive and ParkContext
	cut      atomic.Bool // Cut was called
	early    []byte      // read with the request, not yet by Read
	kept     bool        // Keep was called
}

// Takeover makes the connection of a request a Stream once the handler has returned. No answer is written: what the
// handler put into the response is dropped, and serve writes whatever the client is to see. serve runs on a goroutine
// of its own; the connection is closed when it returns, unless serve kept it. Drain waits for it like for any connection.
func Takeover(ctx *fasthttp.RequestCtx, serve func(*Stream)) {
	conn := From(ctx)
	ctx.HijackSetNoResponse(true)
	ctx.Hijack(func(hijacked net.Conn) {
		raw := hijacked.(interface{ UnsafeConn() net.Conn }).UnsafeConn()
		early, err := readEarly(raw, hijacked)
		if err != nil {
			_ = raw.Close() // serve runs all the same: it may own something that has to be closed
		}
		// The library frees the request and its 16 KiB read buffer when this function returns, which is why the stream
		// does not run inside it.
		go func() {
			s := &Stream{Conn: raw, Wire: conn, early: early}
			defer func() {
				if !s.kept {
					_ = s.Close()
				}
			}()
			serve(s)
		}()
	})
}

// readEarly takes what the request loop has read ahead. A deadline in the past keeps the read from waiting for more.
func readEarly(raw, hijacked net.Conn) (early []byte, err error) {
	if err := raw.SetReadDeadline(time.Unix(1, 0)); err != nil {
		return nil, err
	}
	var buf [512]byte
	for err == nil {
		var n int
		n, err = hijacked.Read(buf[:])
		early = append(early, buf[:n]...)
		if len(early) > earlyMax {
			return nil, errTooEarly
		}
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, err
	}
	return early, raw.SetReadDeadline(time.Time{})
}

// Read returns what the client sent early first.
func (s *Stream) Read(p []byte) (int, error) {
	if len(s.early) > 0 {
		n := copy(p, s.early)
		if s.early = s.early[n:]; len(s.early) == 0 {
			s.early = nil
		}
		return n, nil
	}
	return s.Conn.Read(p)
}

// Keep lets the stream outlive serve: whoever keeps it closes it. serve's own goroutine calls it.
func (s *Stream) Keep() { s.kept = true }

// Await runs ready on a goroutine of its own once there is something to read: bytes, the peer's end, or the end from this
// side. Nobody may read before that, so that a stream whose client is quiet needs neither a goroutine nor a buffer for
// it. It reports false when that can not be watched: then ready does not run, and the caller reads on.
//
// Bytes that were read from the connection and not taken yet (by TLS, by a bufio.Reader) wake nobody: Await is for a
// caller whose last read met its deadline.
func (s *Stream) Await(ready func()) bool {
	return s.Wire.await(func() { go ready() }) // the watcher's goroutine must not be held up
}

// chunk is what one write deadline covers, bytes: a slow reader that still reads is not a stalled one.
const chunk = 64 << 10

// Send writes all of b; every chunk of 64 KiB has stall to go out. One goroutine may call it at a time.
func (s *Stream) Send(b []byte, stall time.Duration) error {
	for len(b) > 0 {
		n := min(len(b), chunk)
		if err := s.SetWriteDeadline(time.Now().Add(stall)); err != nil {
			return err
		}
		if s.cut.Load() {
			return net.ErrClosed // a deadline set after Cut's must not outlive it
		}
		if _, err := s.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// Cut ends the Send under way and all later ones. It may be called from any goroutine; reading goes on.
func (s *Stream) Cut() {
	s.cut.Store(true)
	_ = s.SetWriteDeadline(time.Unix(1, 0))
}
