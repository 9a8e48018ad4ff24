package frontendhttp

import (
	"context"
	"strconv"
	"strings"
	"time"

	"queen/engine"
	"queen/frontend-http/wire"
)

// eventHead is the answer that begins an event stream. It ends with its connection, so nothing frames its body.
const eventHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n" +
	"X-Accel-Buffering: no\r\nConnection: close\r\n\r\n"

// rememberedLeases bounds the leases that an event stream can hand back at its end; older ones run out.
const rememberedLeases = 1024

// events is one event stream (server-sent events). One goroutine serves it. It ends when the client goes, takes
// nothing for StreamOptions.Stall, or Shutdown begins.
type events struct {
	f      *Frontend
	conn   *wire.Stream
	engine engine.Engine
	caller engine.Caller
	ctx    context.Context
}

// streamEvents takes the connection over and runs serve on it.
func (c *call) streamEvents(serve func(*events)) {
	f, e, caller := c.f, c.engine, c.caller
	wire.Takeover(c.ctx, func(conn *wire.Stream) {
		ctx, unpark := conn.Wire.ParkContext(f.stopping)
		defer unpark()
		s := &events{f: f, conn: conn, engine: e, caller: caller, ctx: ctx}
		// A write must not outlive the client.
		defer context.AfterFunc(ctx, conn.Cut)()
		if s.send([]byte(eventHead)) == nil {
			serve(s)
		}
	})
}

func (s *events) send(b []byte) error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	return s.conn.Send(b, s.f.opts.Streams.Stall)
}

// beat is a comment, which clients skip.
func (s *events) beat() error { return s.send([]byte(":\n\n")) }

// fail is an event of type error; the stream ends after it unless the caller goes on.
func (s *events) fail(where string, err error) error {
	r := s.f.refusalOf(where, err)
	o := out{[]byte("event: error\ndata: ")}
	o.b = append(o.b, '{')
	o.str("code", r.code)
	o.str("error", r.text)
	o.close('}')
	return s.send(append(o.b, '\n', '\n'))
}

// pause waits; false when the stream is over.
func (s *events) pause(d time.Duration) bool {
	t := s.f.opts.Clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
		return true
	case <-s.ctx.Done():
		return false
	}
}

// openEvents reads the query and answers an event stream of messages. What is wrong is still answered as JSON.
func (c *call) openEvents() error {
	q := c.query()
	in := q.openQuery()
	if q.err != nil {
		return q.err
	}
	r, err := in.order()
	if err != nil {
		return err
	}
	if err := r.fixLease(c.f.stopping, c.engine, c.caller); err != nil {
		return err
	}
	// The names came from the request's buffer.
	r.pop.Scope.Queue, r.pop.Scope.Partition = strings.Clone(r.pop.Scope.Queue), strings.Clone(r.pop.Scope.Partition)
	r.pop.Batch, r.pop.MaxBytes, r.pop.Wait = min(r.pop.Batch, r.messages), r.bytes, c.f.opts.Streams.Heartbeat
	c.streamEvents(func(s *events) { s.consume(r.pop) })
	return nil
}

// consume writes messages as they come. Acks, where the pops take leases, come over other requests, so nothing but the
// lease rules and the socket holds the stream back.
func (s *events) consume(req engine.PopRequest) {
	req.Alive = s.conn.Wire.Alive
	var held heldLeases
	defer func() { held.release(s) }()
	for s.ctx.Err() == nil {
		began := s.f.opts.Clock.Mono()
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
			if s.fail("/api/v1/consume", err) != nil || !passing(err) || !s.pause(retryPause) {
				return
			}
		case d == nil:
			if s.f.opts.Clock.Mono()-began < req.Wait.Microseconds()/2 {
				if !s.pause(minPause) {
					return
				}
			} else if s.beat() != nil {
				return
			}
		case !s.deliver(d, req.Lease, &held):
			return
		}
	}
}

// passing says that the same call may succeed later.
func passing(err error) bool {
	e := asEngineError(err)
	status := wireErrors[e.Code].status
	return e.Code != engine.CodeClosed && (status == 429 || status == 503 || status == 507)
}

// deliver writes one claim: an event per message, with partitionId:offset as its id.
func (s *events) deliver(d *engine.Delivery, lease time.Duration, held *heldLeases) bool {
	p := writeBuffers.Get().(*[]byte)
	e := newStreamEncoder(d)
	b := (*p)[:0]
	defer func() { putBuffer(p, b) }()
	for m, err := range d.Messages() {
		if err != nil {
			d.Abandon()
			return s.fail("/api/v1/consume", err) == nil && passing(err) && s.pause(retryPause)
		}
		b = append(b, "event: message\nid: "...)
		b = strconv.AppendUint(b, uint64(d.Claims[m.Claim].PartitionID), 10)
		b = append(b, ':')
		b = strconv.AppendUint(b, uint64(m.Offset), 10)
		b = append(b, "\ndata: "...)
		from := len(b)
		b = e.message(b, &m)
		oneLine(b[from:])
		b = append(b, '\n', '\n')
	}
	if s.send(b) != nil {
		d.Abandon()
		return false
	}
	s.f.metrics.delivered(s.f.now(), e.oldest)
	d.Delivered()
	held.add(d.Lease, s.f.opts.Clock.Mono(), lease)
	return true
}

// heldLeases are those that an event stream gave out, oldest first.
type heldLeases []heldLease

type heldLease struct {
	id    string
	until int64
}

// add remembers a lease and forgets those that are over. All have the same length, so the first is over first.
func (h *heldLeases) add(id string, now int64, length time.Duration) {
	if id == "" {
		return
	}
	l := *h
	for len(l) > 0 && (l[0].until <= now || len(l) >= rememberedLeases) {
		l = l[1:]
	}
	*h = append(l, heldLease{id, now + length.Microseconds()})
}

// release hands back what is still leased and untouched; what was settled meanwhile is refused, which is meant.
func (h *heldLeases) release(s *events) {
	if len(*h) == 0 {
		return
	}
	ops := make([]engine.Op, len(*h))
	for i := range *h {
		ops[i] = &engine.Release{Lease: (*h)[i].id}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*partingTime)
	defer cancel()
	_, _ = s.engine.Do(ctx, s.caller, engine.Batch{Ops: ops})
}
