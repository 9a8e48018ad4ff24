package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// ErrClientGone is the cause of a context that ended because its client closed the connection.
var ErrClientGone = errors.New("wire: the client closed the connection")

// Conn is one accepted connection. Handlers reach it with From; fasthttp uses it as a net.Conn.
//
// All methods for handlers work on a nil *Conn, which stands for a connection that this package did not accept (an
// in-memory one of a test): it is always alive, its Park never fires, and its deliveries succeed.
type Conn struct {
	net.Conn // the accepted connection; embedded as the interface, so that no method writes past Write
	tcp      *net.TCPConn
	ln       *Listener

	pending atomic.Pointer[delivery] // the answer under observation, nil when there is none
	reading atomic.Bool              // the serving goroutine is inside Read
	spoke   atomic.Bool              // the peer has sent at least one byte
	linger  atomic.Bool              // LingerOnClose was called
	closing atomic.Bool              // Close was called

	reads, writes deadline // of either direction

	// mu guards the raw descriptor. INVARIANT: fd is used only with mu held and closed false, and closed is set before the
	// descriptor is closed; so a number that the kernel gave to another connection is never used.
	mu struct {
		sync.Mutex
		fd      int
		closed  bool
		finSent bool
		parked  uint64 // the watcher's key of the current park, 0 for none
	}
}

func newConn(l *Listener, tcp *net.TCPConn) (*Conn, error) {
	c := &Conn{Conn: tcp, tcp: tcp, ln: l}
	c.reads.tell, c.writes.tell = tcp.SetReadDeadline, tcp.SetWriteDeadline
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil, err
	}
	if err := raw.Control(func(fd uintptr) { c.mu.fd = int(fd) }); err != nil {
		return nil, err
	}
	// A kernel without the option still serves; dead peers are then found by keepalive alone.
	_ = setUserTimeout(c.mu.fd, l.opts.UserTimeout)
	return c, nil
}

// From finds the connection a request came on, also beneath TLS. It returns nil when the connection is not one of ours.
func From(ctx *fasthttp.RequestCtx) *Conn { return unwrap(ctx.Conn()) }

func unwrap(nc net.Conn) *Conn {
	for nc != nil {
		if c, ok := nc.(*Conn); ok {
			return c
		}
		inner, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		nc = inner.NetConn()
	}
	return nil
}

// Park watches for the client's departure while the handler waits: gone is closed within milliseconds of a close, reset
// or half-close by the peer, at once when it happened before, and when the connection is closed from this side. The
// handler must call unpark before it returns; it may be called more than once. One park per connection is watched; a
// second one takes over from the first.
//
// gone may lose a race against an answer: call Alive before claiming.
func (c *Conn) Park() (gone <-chan struct{}, unpark func()) {
	ch := make(chan struct{})
	return ch, c.park(func() { close(ch) })
}

// ParkContext is Park as a context: it ends with the cause ErrClientGone when the client goes, or with parent. The
// handler must call unpark before it returns.
func (c *Conn) ParkContext(parent context.Context) (ctx context.Context, unpark func()) {
	ctx, cancel := context.WithCancelCause(parent)
	release := c.park(func() { cancel(ErrClientGone) })
	return ctx, func() {
		release()
		cancel(context.Canceled)
	}
}

// park registers fire, which runs at most once, and returns its deregistration.
func (c *Conn) park(fire func()) (unpark func()) {
	if c == nil {
		return func() {}
	}
	key, open := c.register(false, fire)
	if !open {
		fire()
	}
	return func() {
		if key == 0 {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.mu.parked == key {
			c.unparkLocked()
		}
	}
}

// await is park for who also wants to know of bytes to read, and takes the place of a park. It reports false, and fire
// never runs, when that can not be watched.
func (c *Conn) await(fire func()) bool {
	if c == nil {
		return false
	}
	key, _ := c.register(true, fire)
	return key != 0
}

// register adds fire to the watcher. It returns key 0 when there is nothing to take back, and open false when the
// connection is already closed on this side.
func (c *Conn) register(input bool, fire func()) (key uint64, open bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return 0, false
	}
	c.unparkLocked()
	key, err := c.ln.watch.add(c.mu.fd, input, fire)
	if err != nil && !input { // of a stream that can not be watched no departure is missed: it is read
		c.ln.watchErrors.Add(1)
	}
	if err != nil {
		return 0, true
	}
	c.mu.parked = key
	return key, true
}

// unparkLocked ends the current park, if any, and returns its fire when it had not run.
func (c *Conn) unparkLocked() (fire func()) {
	if c.mu.parked == 0 {
		return nil
	}
	fire = c.ln.watch.remove(c.mu.fd, c.mu.parked)
	c.mu.parked = 0
	return fire
}

// Alive asks the kernel whether the peer still listens: false after its close, reset or half-close. It is the last look
// before a claim is made or answered, and costs one system call.
func (c *Conn) Alive() bool {
	if c == nil {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.mu.closed && peerState(c.mu.fd) == peerOpen
}

// LingerOnClose makes the coming Close end the sending side first and read away what the peer is still sending, within
// the Listener's LingerTime and LingerBytes. Without it, unread bytes make the kernel reset the connection, and the
// peer loses the answer that explains the close.
func (c *Conn) LingerOnClose() {
	if c != nil {
		c.linger.Store(true)
	}
}

// Read reads for the serving goroutine and settles a delivery by what it saw.
func (c *Conn) Read(p []byte) (int, error) {
	c.reading.Store(true)
	n, err := c.Conn.Read(p)
	for n == 0 && c.reads.early(err) {
		n, err = c.Conn.Read(p)
	}
	c.reading.Store(false)
	if n > 0 && !c.spoke.Load() {
		c.spoke.Store(true)
	}
	if d := c.pending.Load(); d != nil {
		c.settleAfterRead(d, n, err)
	}
	return n, err
}

// Write writes for the serving goroutine and notes on a delivery that its answer went out, or failed.
func (c *Conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	for n < len(p) && c.writes.early(err) {
		var more int
		more, err = c.Conn.Write(p[n:])
		n += more
	}
	if d := c.pending.Load(); d != nil {
		c.noteWrite(d, err)
	}
	return n, err
}

// SetReadDeadline implements net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.reads.set(t) }

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.writes.set(t) }

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error { return errors.Join(c.reads.set(t), c.writes.set(t)) }

// Close closes the connection and settles what is pending on it. Called by the serving goroutine it lingers when
// LingerOnClose was called, or when an answer is still under observation: after "Connection: close" no further read
// would ever tell its fate. Called while the serving goroutine reads (an idle connection at shutdown) it is immediate.
func (c *Conn) Close() error {
	if !c.closing.CompareAndSwap(false, true) {
		return net.ErrClosed
	}
	if !c.reading.Load() {
		c.lingerIfAsked()
	}
	return c.closeNow()
}

// lingerIfAsked is the first half of a lingering close.
func (c *Conn) lingerIfAsked() {
	d := c.pending.Load()
	observed := d != nil && d.written()
	if !observed && !c.linger.Load() {
		return
	}
	c.ln.lingered.Add(1)
	if c.SetReadDeadline(time.Now().Add(c.ln.opts.LingerTime)) != nil || c.sendFIN() != nil {
		return
	}
	discard(c, c.ln.opts.LingerBytes, func() bool {
		return !c.linger.Load() && c.pending.Load() == nil
	})
}

// sendFIN ends the sending side. The end itself takes one sequence number, which unacked has to know.
func (c *Conn) sendFIN() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return net.ErrClosed
	}
	c.mu.finSent = true
	return c.tcp.CloseWrite()
}

// closeNow closes without lingering; the second call returns net.ErrClosed.
func (c *Conn) closeNow() error {
	c.mu.Lock()
	if c.mu.closed {
		c.mu.Unlock()
		return net.ErrClosed
	}
	c.mu.closed = true
	fire := c.unparkLocked()
	var s sight
	d := c.pending.Load()
	if d != nil {
		s = c.lookLocked(d)
	}
	c.mu.Unlock()

	if fire != nil {
		fire()
	}
	err := c.Conn.Close()
	if d != nil {
		c.settle(d, s.atClose())
	}
	c.ln.forget(c)
	return err
}

// discardBuffers holds the scratch space of lingering closes.
var discardBuffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

// discard reads until an error, the limit, or until enough says so after a read. The caller has set a deadline.
func discard(r io.Reader, limit int64, enough func() bool) {
	buf := discardBuffers.Get().(*[]byte)
	defer discardBuffers.Put(buf)
	for limit > 0 {
		n, err := r.Read(*buf)
		limit -= int64(n)
		if err != nil || (enough != nil && enough()) {
			return
		}
	}
}
