package frontendkafka

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
	"queen/engine/auth"
	"queen/engine/format"
)

const (
	// strangerFrame is the largest frame of a client that must authenticate and has not.
	strangerFrame = 64 << 10
	// otherFrame is the largest frame of a request that carries no records: its decoded form can be fifty times its size.
	otherFrame = 8 << 20
	// readBuffer is the memory for reading of an idle connection; longer frames are read into their own.
	readBuffer = 8 << 10
	// writeChunk is what must be written within FrameTimeout; outKept is the memory that is kept for the next answer.
	writeChunk = 256 << 10
	outKept    = 256 << 10
)

// conn is one connection. What has no lock is the handling goroutine's.
type conn struct {
	f *Frontend
	l *Listener
	// raw is the accepted connection, nc what is spoken over: the same, or TLS on it.
	raw, nc net.Conn
	in      *inbox
	// ctx is the context of calls: it ends when the connection is cut, and not by a hang-up, because what a client sent
	// before it closed counts. waiting is for calls that only wait: it ends with a hang-up and when the node stops.
	ctx, waiting context.Context
	cancel       context.CancelFunc
	hungUp       context.CancelFunc
	// known is set once the client may send large frames: the reading goroutine looks at it.
	known atomic.Bool

	// software is what ApiVersions told of the client; nil when it did not. Both goroutines log it.
	software  atomic.Pointer[string]
	principal *auth.Principal
	sasl      saslState
	out       []byte
	also      []answer
	throttled time.Duration
	// fetches is what is remembered of fetch sessions; held are bytes of records in answers that are not written yet.
	// listed is the room for partitions of such answers.
	fetches fetchMemory
	held    int64
	listed  []charge
	// lag is how far behind the connection's consumer is, written what its producer wrote.
	lag     lag
	written written
}

// answer is a further answer of a handler that took several requests.
type answer struct {
	r    *request
	resp kmsg.Response
}

func newConn(f *Frontend, l *Listener, nc net.Conn) *conn {
	c := &conn{f: f, l: l, raw: nc, nc: nc, in: newInbox()}
	c.ctx, c.cancel = context.WithCancel(f.ended)
	waiting, hungUp := context.WithCancel(c.ctx)
	// The end of the node's stopping is the end of every wait.
	unhook := context.AfterFunc(f.stopping, hungUp)
	c.waiting, c.hungUp = waiting, func() { unhook(); hungUp() }
	c.known.Store(len(l.SASL) == 0)
	return c
}

// serve runs the connection to its end.
func (c *conn) serve() {
	defer func() {
		_ = c.nc.Close()
		c.cancel()
		c.hungUp()
		c.endSessions()
		c.lag.leave()
		c.wrote()
		c.f.conns.remove(c)
	}()
	if err := c.handshake(); err != nil {
		c.log("the TLS handshake failed", "err", err)
		return
	}
	go c.read()
	for {
		fr, ok := c.in.take()
		if !ok {
			break
		}
		err := c.handle(fr)
		fr.charged.give()
		// A client that is held back is told so, and why, before the wait.
		if err == nil && (c.in.empty() || len(c.out) >= writeChunk || c.throttled > 0) {
			err = c.flush()
		}
		if err != nil {
			c.ended(err)
			break
		}
		if c.sasl.refused {
			c.refusedLogin()
			break
		}
		c.pause()
	}
	// The reader ends with the socket, or with the context where it waits for others; what it still puts in is let go of.
	_ = c.nc.Close()
	c.cancel()
	for fr, ok := c.in.take(); ok; fr, ok = c.in.take() {
		fr.charged.give()
	}
}

// read takes frames off the socket until it ends.
func (c *conn) read() {
	br := bufio.NewReaderSize(c.nc, readBuffer)
	connected := time.Now()
	for c.in.wait(c.ctx.Done()) {
		fr, err := c.readFrame(br, connected)
		if err != nil {
			if c.f.stopping.Err() == nil {
				c.hungUp()
			}
			if reason := readReason(err); reason != "" && c.f.stopping.Err() == nil {
				c.log(reason, "err", err)
			}
			break
		}
		c.f.metrics.received.Add(float64(4 + len(fr.bytes)))
		c.in.put(fr)
	}
	c.in.close()
}

// errFrame is a frame that is refused for its size.
type errFrame struct{ size, limit int }

func (e errFrame) Error() string {
	return fmt.Sprintf("a frame of %d bytes: 8 to %d are taken here", e.size, e.limit)
}

// errIdle ends a connection that was silent for too long.
var errIdle = errors.New("idle for too long")

// readReason is why the end of reading is worth a line; "" when a client just hung up.
func readReason(err error) string {
	var bad errFrame
	switch {
	case errors.As(err, &bad):
		return "the frame is refused"
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "the rest of a frame did not come in time"
	}
	return ""
}

// readFrame reads one frame. The wait for its first byte is bounded by IdleTimeout while nothing is being handled.
func (c *conn) readFrame(br *bufio.Reader, connected time.Time) (frame, error) {
	if err := c.awaitByte(br, connected); err != nil {
		return frame{}, err
	}
	_ = c.raw.SetReadDeadline(time.Now().Add(c.f.opts.FrameTimeout))
	c.stopReading()
	var head [6]byte
	if _, err := io.ReadFull(br, head[:4]); err != nil {
		return frame{}, err
	}
	size := int(int32(binary.BigEndian.Uint32(head[:4])))
	known := c.known.Load()
	limit := strangerFrame
	if known {
		limit = c.f.opts.MaxFrame
	}
	if size < 2 || size > limit {
		return frame{}, errFrame{size, limit}
	}
	if _, err := io.ReadFull(br, head[4:]); err != nil {
		return frame{}, err
	}
	if key := int16(binary.BigEndian.Uint16(head[4:])); key != produceKey && size > otherFrame {
		return frame{}, errFrame{size, otherFrame}
	}
	return c.readBody(br, head[4:], size)
}

// awaitByte waits for the first byte of a frame.
func (c *conn) awaitByte(br *bufio.Reader, connected time.Time) error {
	for {
		deadline := time.Now().Add(c.f.opts.IdleTimeout)
		if !c.known.Load() {
			deadline = connected.Add(c.f.opts.FrameTimeout)
		}
		_ = c.raw.SetReadDeadline(deadline)
		c.stopReading()
		_, err := br.Peek(1)
		switch {
		case err == nil || !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		case c.f.stopping.Err() != nil || c.in.idle() || !c.known.Load():
			return errIdle
		}
	}
}

// stopReading keeps a deadline that was just set from hiding the one of a drain.
func (c *conn) stopReading() {
	if c.f.stopping.Err() != nil {
		_ = c.raw.SetReadDeadline(past)
	}
}

// readBody reads a frame of size bytes that starts with head. Memory is taken as bytes come, so that an announced size
// costs nothing, and from the budget of all connections unless it is little and all that the connection has.
func (c *conn) readBody(br *bufio.Reader, head []byte, size int) (frame, error) {
	first := min(size, smallFrame)
	buf := make([]byte, first)
	n := copy(buf, head)
	if _, err := io.ReadFull(br, buf[n:]); err != nil {
		return frame{}, err
	}
	if size == first && c.in.idle() {
		return frame{bytes: buf}, nil
	}
	charged, err := c.f.budget.take(c.ctx, c.in, int16(binary.BigEndian.Uint16(head)), int64(size))
	if err != nil {
		return frame{}, err
	}
	if size == first {
		return frame{bytes: buf, charged: charged}, nil
	}
	_ = c.raw.SetReadDeadline(time.Now().Add(c.f.opts.FrameTimeout))
	c.stopReading()
	whole := make([]byte, size)
	copy(whole, buf)
	if _, err := io.ReadFull(br, whole[first:]); err != nil {
		charged.give()
		return frame{}, err
	}
	return frame{bytes: whole, charged: charged}, nil
}

// flush writes the answers that are ready. A client that takes less than writeChunk in FrameTimeout is given up.
func (c *conn) flush() error {
	rest := c.out
	due, listing := c.listingDue()
	for len(rest) > 0 {
		if !listing {
			due = time.Now().Add(c.f.opts.FrameTimeout)
		}
		_ = c.raw.SetWriteDeadline(due)
		n, err := c.nc.Write(rest[:min(len(rest), writeChunk)])
		c.f.metrics.sent.Add(float64(n))
		if err != nil {
			return errHungUp
		}
		rest = rest[n:]
	}
	c.wrote()
	if c.out = c.out[:0]; cap(c.out) > outKept {
		c.out = nil
	}
	return nil
}

// errHungUp ends a connection without a line in the log.
var errHungUp = errors.New("the client hung up")

// ended tells why this side closes the connection.
func (c *conn) ended(err error) {
	if !errors.Is(err, errHungUp) {
		c.log("the connection is closed", "err", err)
	}
}

// refusedLogin ends a connection whose client showed a bad credential.
func (c *conn) refusedLogin() {
	c.log("the credentials are refused")
	if c.flush() == nil {
		c.linger()
	}
}

// log writes one line about the connection.
func (c *conn) log(what string, args ...any) {
	software := ""
	if s := c.software.Load(); s != nil {
		software = *s
	}
	c.f.opts.Logger.Warn("kafka: "+what, append([]any{"listener", c.l.Name, "client", c.raw.RemoteAddr().String(),
		"software", software}, args...)...)
}

// pause holds the next request back for as long as the last answer told the client to wait. The connection is not read
// from meanwhile.
func (c *conn) pause() {
	if c.throttled <= 0 {
		return
	}
	c.in.pause(true)
	defer c.in.pause(false)
	c.lag.end() // what it falls behind by while it waits is not for want of reads
	t := c.f.opts.Clock.NewTimer(min(c.throttled, 30*time.Second))
	defer t.Stop()
	c.throttled = 0
	select {
	case <-t.C():
	case <-c.waiting.Done():
	}
}

// caller is who the engine is told.
func (c *conn) caller() engine.Caller {
	if c.principal == nil {
		return engine.Caller{Tenant: format.DefaultTenant}
	}
	return engine.Caller{Tenant: format.Tenant(c.principal.Tenant), Subject: c.principal.Subject}
}

// may tells whether the client's roles satisfy a level; where nobody is asked, everybody may do everything.
func (c *conn) may(l auth.Level) bool {
	return len(c.l.SASL) == 0 || c.principal != nil && c.principal.May(l)
}
