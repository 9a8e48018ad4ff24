package frontendkafka

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"
)

const (
	acceptBackoffMin = 5 * time.Millisecond
	acceptBackoffMax = time.Second
)

// accept takes connections until the listener is closed. Faults of accepting pass, among them a full table of
// descriptors: they are waited out.
func (f *Frontend) accept(l *Listener) error {
	var backoff time.Duration
	for {
		nc, err := l.Listener.Accept()
		switch {
		case err == nil:
			backoff = 0
			f.admit(l, nc)
			continue
		case errors.Is(err, net.ErrClosed) || f.stopping.Err() != nil:
			return nil
		}
		if backoff == 0 {
			f.opts.Logger.Warn("kafka: accept failed, retrying", "listener", l.Name, "err", err)
		}
		backoff = min(max(2*backoff, acceptBackoffMin), acceptBackoffMax)
		pause := time.NewTimer(backoff)
		select {
		case <-pause.C:
		case <-f.stopping.Done():
		}
		pause.Stop()
	}
}

// admit starts a connection, or closes it when there are too many.
func (f *Frontend) admit(l *Listener, nc net.Conn) {
	c := newConn(f, l, nc)
	if !f.conns.add(c, f.opts.MaxConns) {
		f.metrics.refused.Inc()
		c.log("there are too many connections", "limit", f.opts.MaxConns)
		_ = nc.Close()
		c.cancel()
		return
	}
	f.metrics.connections.WithLabelValues(l.Name).Inc()
	go c.serve()
}

// connSet are the open connections.
type connSet struct {
	mu       sync.Mutex
	open     map[*conn]struct{}
	draining bool
	running  sync.WaitGroup
}

// add counts a connection; false when there are most, or when the node stops.
func (s *connSet) add(c *conn, most int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining || len(s.open) >= most {
		return false
	}
	s.open[c] = struct{}{}
	s.running.Add(1)
	return true
}

func (s *connSet) remove(c *conn) {
	s.mu.Lock()
	delete(s.open, c)
	s.mu.Unlock()
	s.running.Done()
}

func (s *connSet) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// drain makes every connection stop reading; what was read is still answered.
func (s *connSet) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	for c := range s.open {
		_ = c.raw.SetReadDeadline(past)
	}
}

// past is a deadline that makes a blocked read return.
var past = time.Unix(1, 0)

// cut closes every connection.
func (s *connSet) cut() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		_ = c.raw.Close()
	}
	return len(s.open)
}

// handshake starts TLS where the listener has it.
func (c *conn) handshake() error {
	if c.l.TLS == nil {
		return nil
	}
	t := tls.Server(c.raw, c.l.TLS)
	ctx, cancel := context.WithTimeout(c.f.stopping, c.f.opts.FrameTimeout)
	defer cancel()
	if err := t.HandshakeContext(ctx); err != nil {
		return err
	}
	c.nc = t
	return nil
}
