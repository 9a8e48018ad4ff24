package wire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Options says how a Listener accepts and closes. The zero value of every field but Addr means its default.
type Options struct {
	// Addr is the TCP address, "host:port". Port 0 takes a free one; Addr of the Listener tells which.
	Addr string
	// MaxConns caps open connections; the next one is answered 503 and closed. Default: three quarters of the process's
	// descriptor limit, which leaves the rest to storage and to refusals. Too high lets clients starve the segment files
	// of descriptors.
	MaxConns int
	// UserTimeout is how long written bytes may stay unacknowledged before the kernel gives the connection up
	// (TCP_USER_TIMEOUT). It also bounds keepalive probing of a silent peer. Default 20 s.
	UserTimeout time.Duration
	// KeepAlive is the silence before the first keepalive probe and the interval between probes. Default 15 s.
	KeepAlive time.Duration
	// LingerTime bounds a lingering close. Default 500 ms.
	LingerTime time.Duration
	// LingerBytes bounds what a lingering close reads and throws away. Default 64 MiB.
	LingerBytes int64
	// ResetWindow is how long after the answer a reset still counts as "the answer was lost". A later reset is taken for
	// a client that read its answer and closed abruptly. Default 1 s.
	ResetWindow time.Duration
	// Logger receives the few lines about exhausted descriptors. Default: none.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.MaxConns <= 0 {
		o.MaxConns = defaultMaxConns()
	}
	setDefault(&o.UserTimeout, 20*time.Second)
	setDefault(&o.KeepAlive, 15*time.Second)
	setDefault(&o.LingerTime, 500*time.Millisecond)
	setDefault(&o.LingerBytes, 64<<20)
	setDefault(&o.ResetWindow, time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// setDefault replaces a value that is zero or negative.
func setDefault[T ~int64 | ~int](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}

// defaultMaxConns is three quarters of the descriptor limit, or 4096 where the limit can not be read.
func defaultMaxConns() int {
	var lim syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &lim); err != nil || lim.Cur > 1<<20 {
		return 4096
	}
	return max(1, int(lim.Cur)*3/4)
}

const (
	acceptBackoffMin = 5 * time.Millisecond
	acceptBackoffMax = time.Second
)

// Listener accepts TCP connections and hands them out as *Conn. It implements net.Listener.
//
// Close only stops accepting, because fasthttp calls it at the start of a shutdown while handlers are still parked;
// Drain ends the connections and frees everything else.
type Listener struct {
	opts  Options
	tcp   *net.TCPListener
	start time.Time // the zero of the monotonic times kept in deliveries
	watch *watcher

	// closed ends when Close is called; it cuts an accept back-off short.
	closed    chan struct{}
	closeOnce sync.Once
	refusals  sync.WaitGroup

	mu struct {
		sync.Mutex
		conns    map[*Conn]struct{} // at most opts.MaxConns
		draining bool
		empty    chan struct{} // closed once draining and conns is empty
	}

	accepted, refused, acceptErrors, filesExhausted, lingered atomic.Uint64
	deliveriesFailed, watchErrors                             atomic.Uint64
	refusing                                                  atomic.Int64
}

var _ net.Listener = (*Listener)(nil)

// Listen binds opts.Addr. The caller owns the Listener and ends it with Drain.
func Listen(opts Options) (*Listener, error) {
	opts = opts.withDefaults()
	lc := net.ListenConfig{KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: opts.KeepAlive, Interval: opts.KeepAlive, Count: 9,
	}}
	ln, err := lc.Listen(context.Background(), "tcp", opts.Addr)
	if err != nil {
		return nil, fmt.Errorf("wire: listen: %w", err)
	}
	watch, err := newWatcher()
	if err != nil {
		_ = ln.Close()
		return nil, fmt.Errorf("wire: listen on %s: %w", opts.Addr, err)
	}
	l := &Listener{
		opts: opts, tcp: ln.(*net.TCPListener), start: time.Now(), watch: watch, closed: make(chan struct{}),
	}
	l.mu.conns = make(map[*Conn]struct{})
	l.mu.empty = make(chan struct{})
	return l, nil
}

// Addr is the bound address, with the real port.
func (l *Listener) Addr() net.Addr { return l.tcp.Addr() }

// Accept returns the next connection. A full descriptor table and other passing faults are waited out; the only errors
// are net.ErrClosed after Close and faults that no retry can heal.
func (l *Listener) Accept() (net.Conn, error) {
	var backoff time.Duration
	for {
		tcp, err := l.tcp.AcceptTCP()
		if err == nil {
			backoff = 0
			if c := l.admit(tcp); c != nil {
				return c, nil
			}
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return nil, net.ErrClosed
		}
		l.acceptErrors.Add(1)
		if !passing(err) {
			return nil, fmt.Errorf("wire: accept on %s: %w", l.Addr(), err)
		}
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			l.filesExhausted.Add(1)
		}
		if backoff == 0 {
			l.opts.Logger.Warn("http: accept failed, retrying", "addr", l.Addr().String(), "err", err)
		}
		backoff = min(max(2*backoff, acceptBackoffMin), acceptBackoffMax)
		if !l.pause(backoff) {
			return nil, net.ErrClosed
		}
	}
}

// pause waits d and reports false when the listener was closed meanwhile.
func (l *Listener) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-l.closed:
		return false
	}
}

// passing tells accept errors that go away from those that stay. accept(2) lists the network errors that belong to the
// one connection that was being accepted, not to the listener.
func passing(err error) bool {
	for _, e := range []syscall.Errno{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED, syscall.ECONNRESET,
		syscall.EINTR, syscall.EAGAIN, syscall.EPERM, syscall.EPROTO, syscall.ENETDOWN, syscall.ENOPROTOOPT,
		syscall.EHOSTDOWN, syscall.EHOSTUNREACH, syscall.EOPNOTSUPP, syscall.ENETUNREACH, syscall.ETIMEDOUT,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// admit wraps an accepted connection, or answers it away and returns nil when the cap is reached.
func (l *Listener) admit(tcp *net.TCPConn) *Conn {
	c, err := newConn(l, tcp)
	if err != nil {
		_ = tcp.Close()
		return nil
	}
	l.mu.Lock()
	full, draining := len(l.mu.conns) >= l.opts.MaxConns, l.mu.draining
	if !full && !draining {
		l.mu.conns[c] = struct{}{}
	}
	if full && !draining {
		l.refusals.Add(1) // under mu, so that Drain, which sets draining first, waits for it
	}
	l.mu.Unlock()
	switch {
	case draining:
		_ = tcp.Close()
		return nil
	case full:
		l.refused.Add(1)
		l.refuse(tcp)
		return nil
	}
	l.accepted.Add(1)
	return c
}

// forget drops a closed connection from the table and wakes Drain when it was the last one.
func (l *Listener) forget(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.mu.conns, c)
	l.signalIfEmptyLocked()
}

func (l *Listener) signalIfEmptyLocked() {
	if !l.mu.draining || len(l.mu.conns) > 0 {
		return
	}
	select {
	case <-l.mu.empty:
	default:
		close(l.mu.empty)
	}
}

// Close stops accepting. Open connections and parked handlers are left alone. It may be called more than once.
func (l *Listener) Close() error {
	err := net.ErrClosed
	l.closeOnce.Do(func() {
		close(l.closed)
		err = l.tcp.Close()
	})
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Drain stops accepting, closes connections that never sent a byte, waits for the others to end and, when ctx ends
// first, closes those that remain: their parked handlers are released and their unsent answers count as failed. It
// returns how many were closed by force. The Listener holds no descriptor and no goroutine of its own afterwards.
func (l *Listener) Drain(ctx context.Context) (forced int) {
	_ = l.Close()
	l.mu.Lock()
	l.mu.draining = true
	l.signalIfEmptyLocked()
	l.mu.Unlock()
	l.closeSilent()
	select {
	case <-l.mu.empty:
	case <-ctx.Done():
		for _, c := range l.open() {
			if c.closeNow() == nil {
				forced++
			}
		}
	}
	l.refusals.Wait()
	l.watch.close()
	return forced
}

// closeSilent closes connections that never sent a byte; a shutdown would otherwise wait for their read timeout.
func (l *Listener) closeSilent() {
	for _, c := range l.open() {
		if !c.spoke.Load() {
			_ = c.closeNow()
		}
	}
}

// open copies the table, so that connections can be closed without the lock.
func (l *Listener) open() []*Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	conns := make([]*Conn, 0, len(l.mu.conns))
	for c := range l.mu.conns {
		conns = append(conns, c)
	}
	return conns
}

// now is the monotonic time since the listener was made; never 0, which means "not yet" in a delivery.
func (l *Listener) now() time.Duration { return max(1, time.Since(l.start)) }

// Metrics is a snapshot of a Listener's counters.
type Metrics struct {
	Accepted         uint64 // connections handed to the server
	Refused          uint64 // connections answered 503 because MaxConns was reached
	AcceptErrors     uint64 // failed accept calls of any kind
	FilesExhausted   uint64 // of these, by a full descriptor table (EMFILE, ENFILE)
	Lingered         uint64 // closes that drained the peer first
	DeliveriesFailed uint64 // answers settled as not delivered
	WatchErrors      uint64 // parks that could not be watched; Alive still covers them
	Open             int    // connections open now
	Parked           int    // handlers parked now
}

// Metrics reads the counters; they are not mutually consistent.
func (l *Listener) Metrics() Metrics {
	l.mu.Lock()
	open := len(l.mu.conns)
	l.mu.Unlock()
	return Metrics{
		Accepted: l.accepted.Load(), Refused: l.refused.Load(), AcceptErrors: l.acceptErrors.Load(),
		FilesExhausted: l.filesExhausted.Load(), Lingered: l.lingered.Load(),
		DeliveriesFailed: l.deliveriesFailed.Load(), WatchErrors: l.watchErrors.Load(),
		Open: open, Parked: l.watch.len(),
	}
}
