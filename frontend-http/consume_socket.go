package frontendhttp

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobwas/ws"

	"queen/engine"
	"queen/engine/clock"
	"queen/frontend-http/wire"
)

const (
	// openPatience is how long a client may take for its open frame.
	openPatience = 10 * time.Second
	// attention is how long a goroutine waits for a client's next frame before the stream waits without one. It spares
	// clients that say something all the time the way through the kernel's event queue.
	attention = 100 * time.Millisecond
	// partingTime bounds what a stream still does after its end was decided: a release, a close frame.
	partingTime = time.Second
	// retryPause is the wait after an engine's refusal that names none.
	retryPause = time.Second
)

// socket is one consume stream over a WebSocket. Up to three goroutines serve it: the pump pops and writes messages; a
// listener reads the client's frames and carries them out, one after another; a timer pings. An idle stream has the
// pump alone, parked in a pop: its listener leaves when the client is quiet and comes back with the next byte.
//
// Whatever ends the stream calls end; the pump then clears up (finish). Before the open frame there is no pump, and the
// listener stays and does it.
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

	ctx    context.Context // ends with the stream, or when Shutdown begins
	stop   context.CancelCauseFunc
	unhook func() bool // ends the watch over Shutdown

	listening sync.Mutex   // held by the listener
	born      time.Time    // the zero of heard
	heard     atomic.Int64 // when the client was last heard of, nanoseconds
	pinged    int64        // clock.Mono of the last ping; the timer's own

	mu struct {
		sync.Mutex             // one frame after another; held while writing, so never while holding window's
		failed     bool        // a write failed, or the close frame is out: nothing more is written
		pinger     clock.Timer // runs ping; nil before the stream is open and after its end
	}
}

// ending is the cause of a socket's context: why it ended, and the status that its client is told.
type ending struct {
	code ws.StatusCode
	err  error
}

func (e *ending) Error() string { return e.err.Error() }

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

// serveSocket begins one stream, which outlives it. head is the answer to the handshake.
func (f *Frontend) serveSocket(conn *wire.Stream, e engine.Engine, caller engine.Caller, head string) {
	s := &socket{f: f, conn: conn, engine: e, caller: caller, born: time.Now()}
	s.ctx, s.stop = context.WithCancelCause(f.stopping)
	s.unhook = context.AfterFunc(f.stopping, func() { s.end(ws.StatusGoingAway, context.Canceled) })
	conn.Keep()
	_ = s.send([]byte(head)) // a failure ends the stream, which the listener sees
	s.listen()
}

// listen reads frames and carries them out until the stream ends or the client is quiet.
func (s *socket) listen() {
	s.listening.Lock()
	in := newFrameReader(s)
	for s.ctx.Err() == nil {
		if s.window != nil && s.rest(in) {
			return
		}
		if s.ctx.Err() == nil {
			s.step(in)
		}
	}
	in.free()
	s.listening.Unlock()
	if s.window == nil {
		s.finish()
	}
}

// rest gives the listener's goroutine and buffers back when the client is quiet; listen runs again when it is not. It
// reports false when there is something to read, and where nobody can tell when there will be.
func (s *socket) rest(in *frameReader) bool {
	silence := s.f.opts.Streams.Silence
	quiet, err := in.quiet(min(attention, silence))
	switch {
	case err != nil:
		s.end(closeCode(err), err)
	case quiet && s.silent() >= silence:
		s.end(ws.StatusGoingAway, errSilent)
	case quiet && s.conn.Await(s.listen):
		// The next listener may be there already: it waits for the lock.
		in.free()
		s.listening.Unlock()
		return true
	}
	return false
}

// step reads one frame and carries out what it completes.
func (s *socket) step(in *frameReader) {
	patience := openPatience
	if s.window != nil {
		patience = s.f.opts.Streams.Silence
	}
	text, whole, err := in.next(patience)
	over := false
	if err == nil && whole {
		over, err = s.take(text)
		s.hear()
	}
	switch {
	case err != nil:
		s.end(closeCode(err), err)
	case over:
		s.end(ws.StatusNormalClosure, errClosedByPeer)
	}
}

// hear notes that the client lives; silent is how long ago that was.
func (s *socket) hear()                 { s.heard.Store(int64(time.Since(s.born))) }
func (s *socket) silent() time.Duration { return time.Since(s.born) - time.Duration(s.heard.Load()) }

// ping shows that the stream lives, also between messages: a client with nothing to say must still be heard. It ends
// one whose client is not, unless a listener is there, which does that itself.
func (s *socket) ping() {
	o := &s.f.opts.Streams
	left := o.Silence - s.silent()
	if left <= 0 && s.listening.TryLock() {
		s.listening.Unlock()
		s.end(ws.StatusGoingAway, errSilent)
		return
	}
	now := s.f.opts.Clock.Mono()
	if now-s.pinged >= o.Heartbeat.Microseconds() {
		if s.send(controlFrame(ws.OpPing, nil)) != nil {
			return
		}
		s.pinged = now
	}
	next := o.Heartbeat - time.Duration(now-s.pinged)*time.Microsecond
	if left > 0 {
		next = min(next, left)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.pinger != nil {
		s.mu.pinger.Reset(max(next, time.Millisecond))
	}
}

// begin starts what an open stream has.
func (s *socket) begin() {
	o := &s.f.opts.Streams
	s.pinged = s.f.opts.Clock.Mono()
	s.mu.Lock()
	s.mu.pinger = s.f.opts.Clock.AfterFunc(min(o.Heartbeat, o.Silence), s.ping)
	s.mu.Unlock()
	go s.pump()
}

// end ends the stream; the first reason counts. What waits for the client is interrupted: a read at once, a write after
// a moment more, unless the client is gone.
func (s *socket) end(code ws.StatusCode, err error) {
	s.stop(&ending{code, err}) // before the deadline: see frameReader.within
	_ = s.conn.SetReadDeadline(time.Unix(1, 0))
	patience := time.Duration(0)
	if s.conn.Wire.Alive() {
		patience = partingTime
	}
	time.AfterFunc(patience, func() {
		if s.mu.TryLock() {
			s.mu.Unlock() // nobody writes, and what will be written is bounded by itself
			return
		}
		s.conn.Cut()
	})
}

// finish hands back what is leased, says goodbye and closes. The leases go first: they matter more, and a client that
// has gone answers nothing.
func (s *socket) finish() {
	s.end(ws.StatusInternalServerError, errClosedByPeer) // nothing, when it was ended for a reason
	s.unhook()
	s.listening.Lock() // the listener is on its way out
	s.mu.Lock()
	if s.mu.pinger != nil {
		s.mu.pinger.Stop()
		s.mu.pinger = nil
	}
	s.mu.Unlock()
	s.listening.Unlock()
	gone := !s.conn.Wire.Alive()
	if s.window != nil {
		s.release()
	}
	if !gone {
		s.goodbye()
		s.conn.Wire.LingerOnClose()
	}
	_ = s.conn.Close()
}

// goodbye tells why the stream ends.
func (s *socket) goodbye() {
	code := ws.StatusGoingAway // Shutdown, which may come to the context before its hook does
	var why *ending
	if errors.As(context.Cause(s.ctx), &why) {
		code = why.code
	}
	switch code {
	case ws.StatusMessageTooBig, ws.StatusUnsupportedData, ws.StatusInvalidFramePayloadData, ws.StatusProtocolError:
		_ = s.fail(nil, &refusal{code: "bad_frame", text: why.err.Error()})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.sendLocked(controlFrame(ws.OpClose, ws.NewCloseFrameBody(code, "")))
	s.mu.failed = true
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
	return s.sendLocked(b)
}

func (s *socket) sendLocked(b []byte) error {
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
		s.end(ws.StatusInternalServerError, err)
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
