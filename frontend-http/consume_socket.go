package frontendhttp

import (
	"bufio"
	"context"
	"sync"
	"time"

	"github.com/gobwas/ws"

	"queen/engine"
	"queen/frontend-http/wire"
)

const (
	// openPatience is how long a client may take for its open frame.
	openPatience = 10 * time.Second
	// partingTime bounds what a stream still does after its end was decided: a release, a close frame.
	partingTime = time.Second
	// retryPause is the wait after an engine's refusal that names none.
	retryPause = time.Second
)

// socket is one consume stream over a WebSocket. Two goroutines serve it: one reads the client's frames and carries
// them out, one after another; the other, the pump, pops and writes messages. An idle stream is two parked goroutines
// and a read buffer of 512 bytes.
//
// Its leases are ordinary ones: they run out unless the client settles or extends them, whether or not the stream
// lives. What is still leased when it ends is handed back uncounted.
type socket struct {
	f      *Frontend
	conn   *wire.Stream
	engine engine.Engine
	caller engine.Caller
	group  string
	order  order
	window *window // nil until the stream is open

	ctx  context.Context // ends with the stream, or when Shutdown begins
	stop context.CancelCauseFunc
	done chan struct{} // closed by the pump; nil until the stream is open

	mu struct {
		sync.Mutex      // one frame after another; held while writing, so never while holding window's
		failed     bool // a write failed: nothing more is written
	}
}

// writeBuffers hold frames while they are written; an idle stream has none.
var writeBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// keptWrite is the largest buffer that goes back into the pool.
const keptWrite = 1 << 20

func putBuffer(p *[]byte, b []byte) {
	if cap(b) <= keptWrite {
		*p = b[:0]
		writeBuffers.Put(p)
	}
}

// serveSocket runs one stream to its end. head is the answer to the handshake.
func (f *Frontend) serveSocket(conn *wire.Stream, e engine.Engine, caller engine.Caller, head string) {
	s := &socket{f: f, conn: conn, engine: e, caller: caller}
	s.ctx, s.stop = context.WithCancelCause(f.stopping)
	defer s.stop(nil)
	// The end of the context interrupts a read at once. A write gets a moment more, unless the client is gone.
	defer context.AfterFunc(s.ctx, func() {
		_ = conn.SetReadDeadline(time.Unix(1, 0))
	})()
	err := s.serve(head)
	s.finish(err)
}

// serve reads frames until the stream must end, and says why.
func (s *socket) serve(head string) (err error) {
	onOwnStack(func() { err = s.send([]byte(head)) })
	if err != nil {
		return err
	}
	in := frameReader{conn: s.conn, r: bufio.NewReaderSize(s.conn, 512), silence: openPatience,
		stopped: func() bool { return s.ctx.Err() != nil },
		control: func(op ws.OpCode, p []byte) error { return s.send(controlFrame(op, p)) }}
	for {
		b, err := in.next()
		if err != nil {
			return err
		}
		var over bool
		onOwnStack(func() { over, err = s.take(b) })
		switch {
		case err != nil:
			return err
		case over:
			return errClosedByPeer
		case s.window != nil:
			in.silence = s.f.opts.Streams.Silence
		}
	}
}

// onOwnStack keeps the stack of a goroutine that is going to wait small: a stack that deep calls have grown would stay
// as it is, times the number of streams.
func onOwnStack(deep func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		deep()
	}()
	<-done
}

// finish ends the pump, hands back what is leased and says goodbye. The leases go first: they matter more, and a
// client that has gone answers nothing.
func (s *socket) finish(err error) {
	code, gone := closeCode(err), !s.conn.Wire.Alive()
	switch {
	case s.ctx.Err() != nil && s.f.stopping.Err() != nil:
		code = ws.StatusGoingAway
	case s.ctx.Err() != nil:
		code = ws.StatusInternalServerError
	}
	s.stop(err)
	if s.done != nil {
		patience := time.Duration(0) // a write of the pump waits for nobody who is gone
		if !gone {
			patience = partingTime
		}
		cut := time.AfterFunc(patience, s.conn.Cut)
		<-s.done
		cut.Stop()
		s.release()
	}
	if text := code == ws.StatusMessageTooBig || code == ws.StatusUnsupportedData ||
		code == ws.StatusInvalidFramePayloadData || code == ws.StatusProtocolError; text && !gone {
		_ = s.fail(nil, &refusal{code: "bad_frame", text: err.Error()})
	}
	if !gone {
		_ = s.send(controlFrame(ws.OpClose, ws.NewCloseFrameBody(code, "")))
		s.conn.Wire.LingerOnClose()
	}
}

// release hands back what is leased. An engine that does not answer in time leaves it to the leases' ends.
func (s *socket) release() {
	ops := s.window.held(s.group, s.f.opts.Clock.Mono())
	if len(ops) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*partingTime)
	defer cancel()
	_, _ = s.engine.Do(ctx, s.caller, engine.Batch{Ops: ops})
}

// send writes whole frames. A failed write ends the stream: part of a frame may be out.
func (s *socket) send(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.failed {
		return errClosedByPeer
	}
	stall := s.f.opts.Streams.Stall
	if s.ctx.Err() != nil {
		stall = min(stall, partingTime)
	}
	err := s.conn.Send(b, stall)
	if err != nil {
		s.mu.failed = true
		s.stop(err)
	}
	return err
}

// sendText writes one text frame: an object whose members fill appends.
func (s *socket) sendText(fill func(*out)) error {
	p := writeBuffers.Get().(*[]byte)
	b, start := beginFrame((*p)[:0])
	o := out{append(b, '{')}
	fill(&o)
	o.close('}')
	b = endFrame(o.b, start)
	err := s.send(b)
	putBuffer(p, b)
	return err
}

// fail tells the client about an error; id is that of the frame it answers, if it had one.
func (s *socket) fail(id []byte, err error) error {
	r := s.f.refusalOf("/api/v1/consume", err)
	return s.sendText(func(o *out) {
		o.str("type", "error")
		if id != nil {
			o.raw("id", id)
		}
		o.str("code", r.code)
		o.str("error", r.text)
		if r.field != "" {
			o.str("field", r.field)
		}
	})
}
