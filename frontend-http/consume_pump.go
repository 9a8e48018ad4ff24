package frontendhttp

import (
	"errors"
	"strings"
	"time"

	"github.com/gobwas/ws"

	"queen/engine"
)

// longWait is how long a pop of a stream may wait. Every pop that comes back with nothing costs some memory and time, so
// an idle stream waits as long as an engine lets it.
const longWait = time.Minute

// minPause keeps a pop that comes back empty before its time from spinning.
const minPause = 10 * time.Millisecond

// pump pops while the window has room and writes what it gets, until the stream ends, and clears up then.
func (s *socket) pump() {
	defer s.finish()
	for s.ctx.Err() == nil {
		began := s.f.opts.Clock.Mono()
		messages, bytes := s.window.room(began)
		if messages == 0 {
			s.awaitRoom()
			continue
		}
		req := s.order.pop
		req.Batch, req.MaxBytes, req.Wait = min(req.Batch, messages), bytes, longWait
		s.f.parked.Add(1)
		d, err := s.engine.Pop(s.ctx, s.caller, req)
		s.f.parked.Add(-1)
		switch {
		case s.ctx.Err() != nil:
			if d != nil {
				d.Abandon()
			}
			return
		case err != nil:
			if !s.survives(err) {
				return
			}
		case d == nil && s.f.opts.Clock.Mono()-began < longWait.Microseconds()/2:
			s.pause(minPause, false)
		case d == nil:
		default:
			s.deliver(d, bytes)
		}
	}
}

// survives tells the client what the engine refused, and waits when trying again may help.
func (s *socket) survives(err error) bool {
	if s.fail(nil, err) != nil {
		return false
	}
	if !passing(err) {
		s.end(ws.StatusInternalServerError, err)
		return false
	}
	s.pause(max(min(asEngineError(err).RetryAfter, 5*retryPause), retryPause), false)
	return s.ctx.Err() == nil
}

// pause waits; with room it also ends when something came back.
func (s *socket) pause(d time.Duration, room bool) {
	var changed <-chan struct{}
	if room {
		changed = s.window.changed
	}
	t := s.f.opts.Clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
	case <-changed:
	case <-s.ctx.Done():
	}
}

// awaitRoom waits until the client settles or grants something, or a lease is over.
func (s *socket) awaitRoom() {
	wait := longWait
	if at := s.window.nextExpiry(); at != 0 {
		wait = min(wait, max(time.Duration(at-s.f.opts.Clock.Mono())*time.Microsecond, minPause))
	}
	s.pause(wait, true)
}

// deliver writes one claim as a run of message frames. room are the bytes that were left.
func (s *socket) deliver(d *engine.Delivery, room int64) {
	if len(d.Claims) == 0 {
		d.Abandon()
		return
	}
	p := writeBuffers.Get().(*[]byte)
	e := newStreamEncoder(d)
	b, shares, size, err := encodeFrames((*p)[:0], &e)
	defer func() { putBuffer(p, b) }()
	switch {
	case err != nil:
		d.Abandon()
		if !s.survives(err) {
			s.end(ws.StatusInternalServerError, err) // nothing, when survives has ended it
		}
		return
	case size > room && !s.window.idle():
		// The engine gives at least one message, however large. It goes back until nothing else is in flight.
		d.Abandon()
		s.awaitRoom()
		return
	}
	until := s.f.opts.Clock.Mono() + s.order.pop.Lease.Microseconds()
	s.window.sending(d, shares, until)
	if err := s.send(b); err != nil {
		s.window.unsent(d.Lease)
		d.Abandon()
		return
	}
	s.f.metrics.delivered(s.f.now(), e.oldest)
	d.Delivered()
}

// encodeFrames appends one frame per message and lists, per claim, what is in it.
func encodeFrames(b []byte, e *popEncoder) (_ []byte, shares [][]sent, size int64, err error) {
	shares = make([][]sent, len(e.d.Claims))
	for m, err := range e.d.Messages() {
		if err != nil {
			return b, nil, 0, err
		}
		var start int
		b, start = beginFrame(b)
		b = append(b, `{"type":"message"`...)
		at := len(b)
		b = e.message(b, &m)
		b[at] = ',' // the brace that message begins with
		b = endFrame(b, start)
		one := sent{offset: m.Offset, id: strings.Clone(m.TransactionID), bytes: int64(len(m.Payload))}
		shares[m.Claim] = append(shares[m.Claim], one)
		size += one.bytes
	}
	return b, shares, size, nil
}

// refusalOf is what an error looks like outside of an HTTP answer; faults of ours are logged and not shown.
func (f *Frontend) refusalOf(where string, err error) *refusal {
	var r *refusal
	if errors.As(err, &r) {
		return r
	}
	e := asEngineError(err)
	w, ok := wireErrors[e.Code]
	if !ok {
		w = wireErrors[engine.CodeInternal]
	}
	r = &refusal{status: w.status, code: w.code, text: e.Message, field: e.Field}
	if w.code == "internal" {
		f.opts.Logger.Error("request failed", "event", "http_internal", "route", where, "err", err)
		r.text = "Internal Server Error"
	}
	if r.text == "" {
		r.text = w.item
	}
	return r
}
