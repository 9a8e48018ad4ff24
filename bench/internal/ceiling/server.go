package ceiling

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Options bound what is held. Zero values take the defaults.
type Options struct {
	// KeepBytes is how much of the batches produced last is kept for fetches, 128 MiB by default.
	KeepBytes int
	// PartitionsMax is the most a topic can have, 1,000,000 by default.
	PartitionsMax int
}

// requestMax bounds what the length of a request may announce.
const requestMax = 128 << 20

// Server answers on one listener.
type Server struct {
	o        Options
	listener net.Listener
	host     string
	port     int32
	store    store
	conns    sync.WaitGroup
	mu       struct {
		sync.Mutex
		open   map[net.Conn]bool
		closed bool
	}
	stop chan struct{} // closed by Close: parked fetches answer
}

// Listen answers at an address until Close.
func Listen(addr string, o Options) (*Server, error) {
	if o.KeepBytes == 0 {
		o.KeepBytes = 128 << 20
	}
	if o.PartitionsMax == 0 {
		o.PartitionsMax = 1_000_000
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("ceiling: %w", err)
	}
	s := &Server{o: o, listener: l, stop: make(chan struct{})}
	host, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("ceiling: %w", err), l.Close())
	}
	n, _ := strconv.Atoi(port)
	s.host, s.port = host, int32(n)
	s.store.init(o.KeepBytes)
	s.mu.open = map[net.Conn]bool{}
	s.conns.Go(s.accept)
	return s, nil
}

// Addr is where the server listens.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Close hangs up on everybody and returns when nothing runs any more.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.mu.closed {
		s.mu.Unlock()
		return nil
	}
	s.mu.closed = true
	close(s.stop)
	err := s.listener.Close()
	for c := range s.mu.open {
		c.Close()
	}
	s.mu.Unlock()
	s.conns.Wait()
	return err
}

func (s *Server) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.mu.closed {
			s.mu.Unlock()
			c.Close()
			return
		}
		s.mu.open[c] = true
		s.mu.Unlock()
		s.conns.Go(func() {
			s.serve(c)
			c.Close()
			s.mu.Lock()
			delete(s.mu.open, c)
			s.mu.Unlock()
		})
	}
}

// serve answers the requests of a connection one after another, until something is not understood.
func (s *Server) serve(c net.Conn) {
	br := bufio.NewReaderSize(c, 64<<10)
	var size [4]byte
	var out []byte
	for {
		if _, err := io.ReadFull(br, size[:]); err != nil {
			return
		}
		n := binary.BigEndian.Uint32(size[:])
		if n > requestMax {
			return
		}
		// Batches are kept where they were read, so that each request has a buffer of its own.
		body := make([]byte, n)
		if _, err := io.ReadFull(br, body); err != nil {
			return
		}
		var ok bool
		if out, ok = s.answer(out[:0], body); !ok {
			return
		}
		if len(out) == 0 {
			continue // a produce that asks for no answer
		}
		if _, err := c.Write(out); err != nil {
			return
		}
		if cap(out) > 8<<20 {
			out = nil
		}
	}
}

// answer appends the response to a request with its length, or nothing when none is due; false for what is not understood.
func (s *Server) answer(out, body []byte) ([]byte, bool) {
	r := kbin.Reader{Src: body}
	key, version, correlation := r.Int16(), r.Int16(), r.Int32()
	r.NullableString()
	req := kmsg.RequestForKey(key)
	if r.Complete() != nil || req == nil {
		return out, false
	}
	v, known := versions[key]
	if !known {
		return out, false
	}
	if version < v.min || version > v.max {
		if key != apiVersions {
			return out, false
		}
		version = 0
		refused := &kmsg.ApiVersionsResponse{ErrorCode: errUnsupportedVersion, ApiKeys: advertised()}
		return appendResponse(out, refused, correlation, false), true
	}
	req.SetVersion(version)
	if req.IsFlexible() {
		kmsg.SkipTags(&r)
	}
	if err := req.ReadFrom(r.Src); err != nil {
		return out, false
	}
	resp := s.handle(req)
	if resp == nil {
		return out, true
	}
	resp.SetVersion(version)
	return appendResponse(out, resp, correlation, req.IsFlexible() && key != apiVersions), true
}

func appendResponse(out []byte, resp kmsg.Response, correlation int32, flexible bool) []byte {
	start := len(out)
	out = append(out, 0, 0, 0, 0)
	out = kbin.AppendInt32(out, correlation)
	if flexible {
		out = append(out, 0)
	}
	out = resp.AppendTo(out)
	binary.BigEndian.PutUint32(out[start:], uint32(len(out)-start-4))
	return out
}
