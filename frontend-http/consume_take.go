package frontendhttp

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"time"

	"queen/engine"
	"queen/engine/auth"
)

// clientFrame is any frame of a client but open.
type clientFrame struct {
	Type     string          `json:"type"`
	ID       json.RawMessage `json:"id"`
	Acks     json.RawMessage `json:"acks"`
	Messages *int64          `json:"messages"`
	LeaseID  *string         `json:"leaseId"`
	Seconds  *int64          `json:"seconds"`
}

// frameMembers are those that each type of frame may have, besides type.
var frameMembers = map[string]string{"ack": " id acks ", "credit": " messages ", "extend": " id leaseId seconds ", "close": " "}

// maxFrameID bounds the id of a frame, bytes of its JSON: it is echoed.
const maxFrameID = 255

// take carries one frame out. A bad one is answered with an error frame and the stream goes on; over says that the
// client asked for the end.
func (s *socket) take(b []byte) (over bool, err error) {
	var kind struct {
		Type string          `json:"type"`
		ID   json.RawMessage `json:"id"`
	}
	if err := json.Unmarshal(b, &kind); err != nil {
		return false, s.fail(nil, &refusal{code: "bad_frame", text: jsonProblem(err), field: fieldOf(err)})
	}
	id := []byte(kind.ID)
	if len(id) > maxFrameID || len(id) > 0 && (id[0] == '{' || id[0] == '[') {
		return false, s.fail(nil, &refusal{code: "bad_frame", field: "id", text: "id must be a string or a number of at most 255 bytes"})
	}
	if kind.Type == "open" {
		if err := s.open(b); err != nil {
			return false, s.fail(id, err)
		}
		return false, nil
	}
	var in clientFrame
	allowed, known := frameMembers[kind.Type]
	switch {
	case !known:
		err = &refusal{code: "bad_frame", field: "type", text: "type must be open, ack, credit, extend or close"}
	case s.window == nil && kind.Type != "close":
		err = &refusal{code: "bad_frame", field: "type", text: "the first frame must be open"}
	default:
		err = decodeFrame(b, &in, allowed)
	}
	if err != nil {
		return false, s.fail(id, err)
	}
	switch kind.Type {
	case "close":
		return true, nil
	case "ack":
		err = s.ack(id, in.Acks)
	case "credit":
		err = s.credit(in.Messages)
	case "extend":
		err = s.extend(id, &in)
	}
	if err != nil && s.ctx.Err() == nil {
		err = s.fail(id, err)
	}
	return false, err
}

// decodeFrame refuses members that the frame does not have: an option that does nothing would be a trap.
func decodeFrame(b []byte, v any, allowed string) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(b, &members); err != nil {
		return &refusal{code: "bad_frame", text: jsonProblem(err)}
	}
	for k := range members {
		if k != "type" && !strings.Contains(allowed, " "+k+" ") {
			return &refusal{code: "bad_frame", field: cutField(k), text: "unknown member " + cutField(k)}
		}
	}
	if err := json.Unmarshal(b, v); err != nil {
		return &refusal{code: "bad_frame", field: fieldOf(err), text: jsonProblem(err)}
	}
	return nil
}

func cutField(k string) string {
	if len(k) > 64 {
		return strings.ToValidUTF8(k[:64], "") + "..."
	}
	return k
}

// fieldOf is the member that has the wrong type; "" when the text is no JSON at all.
func fieldOf(err error) string {
	if wrong, ok := err.(*json.UnmarshalTypeError); ok { //nolint:errorlint // json returns it unwrapped
		return wrong.Field
	}
	return ""
}

const openMembers = " queue consumerGroup partition subscriptionMode subscriptionFrom leaseSeconds maxInFlight " +
	"maxInFlightBytes batch partitions commitOnDelivery "

// open starts the pump, which clears up from then on.
func (s *socket) open(b []byte) error {
	if s.window != nil {
		return &refusal{code: "bad_frame", field: "type", text: "the stream is open already"}
	}
	var in openFrame
	if err := decodeFrame(b, &in, openMembers); err != nil {
		return err
	}
	r, err := in.order()
	if err != nil {
		return err
	}
	if err := r.fixLease(s.ctx, s.engine, s.caller); err != nil {
		return err
	}
	r.pop.Alive = s.conn.Wire.Alive
	s.order, s.group, s.window = r, r.pop.Group, newWindow(&r)
	err = s.sendText(func(o *out) {
		o.str("type", "opened")
		o.str("queue", r.pop.Scope.Queue)
		o.str("consumerGroup", in.Group)
		o.num("maxInFlight", int64(r.messages))
		o.num("maxInFlightBytes", r.bytes)
		o.num("leaseSeconds", int64(r.pop.Lease/time.Second))
		o.bool("commitOnDelivery", r.pop.CommitOnDelivery)
	})
	s.begin()
	return err
}

// ack settles messages under the rules of POST /api/v1/ack/batch and tells each one's verdict.
func (s *socket) ack(id []byte, acks json.RawMessage) error {
	if acks == nil {
		return badField("acks", "is required")
	}
	if err := s.charge(); err != nil {
		return err
	}
	a := s.f.acks.Get().(*ackBody)
	defer func() {
		a.reset()
		s.f.acks.Put(a)
	}()
	if err := a.list(acks, s.group); err != nil {
		return err
	}
	var results []engine.Result
	if len(a.ops) > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), writeDeadline)
		defer cancel()
		var err error
		if results, err = s.engine.Do(ctx, s.caller, engine.Batch{Ops: a.ops}); err != nil {
			return err
		}
	}
	for i := range a.acks {
		s.window.acked(&a.acks[i], &results[i])
	}
	return s.sendText(func(o *out) {
		o.str("type", "acked")
		if id != nil {
			o.raw("id", id)
		}
		o.key("results")
		o.b = appendAcked(o.b, a.acks, results)
	})
}

// list decodes bare items, all of one group.
func (a *ackBody) list(items []byte, group string) error {
	if err := a.begin(items); err != nil {
		return err
	}
	a.group = group
	if err := a.items(); err != nil {
		return err
	}
	return a.finish()
}

func (s *socket) credit(n *int64) error {
	switch {
	case n == nil:
		return badField("messages", "is required")
	case *n < 1 || !s.window.credit(*n):
		return badField("messages", "must be 1 or more, and leave the credit at 1048576 or less")
	}
	return nil
}

// extend renews a lease, as POST /api/v1/lease/:leaseId/extend does.
func (s *socket) extend(id []byte, in *clientFrame) error {
	seconds := int64(extendDefault)
	switch {
	case in.LeaseID == nil:
		return badField("leaseId", "is required")
	case in.Seconds != nil && (*in.Seconds < 1 || *in.Seconds > maxLease):
		return badField("seconds", "must be 1 to 31536000")
	case in.Seconds != nil:
		seconds = *in.Seconds
	}
	if err := s.charge(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), writeDeadline)
	defer cancel()
	length := time.Duration(seconds) * time.Second
	until := s.f.opts.Clock.Mono() + length.Microseconds()
	res, err := s.engine.Do(ctx, s.caller, engine.Batch{Ops: []engine.Op{&engine.Extend{Lease: *in.LeaseID, For: length}}})
	if err != nil {
		return err
	}
	item := res[0].Extend
	live := res[0].Err == nil && item.Renewed > 0
	if live {
		s.window.extended(*in.LeaseID, until)
	}
	return s.sendText(func(o *out) {
		o.str("type", "extended")
		if id != nil {
			o.raw("id", id)
		}
		o.str("leaseId", *in.LeaseID)
		o.bool("success", live)
		o.count("renewed", uint64(item.Renewed))
		if live {
			o.time("expiresAt", item.Expires)
		} else {
			o.null("expiresAt")
		}
	})
}

// charge takes one request from the tenant's plan: a frame that writes costs what its route costs.
func (s *socket) charge() error {
	c := call{f: s.f, caller: s.caller}
	return c.charge(auth.Requests, 1)
}

// oneLine makes JSON fit one line of an event stream. Raw line ends in JSON stand between tokens only.
func oneLine(b []byte) {
	for _, end := range []byte{'\n', '\r'} {
		for i := bytes.IndexByte(b, end); i >= 0; {
			b[i] = ' '
			next := bytes.IndexByte(b[i:], end)
			if next < 0 {
				break
			}
			i += next
		}
	}
}
