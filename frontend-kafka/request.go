package frontendkafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
)

// The keys of requests that carry records.
const (
	produceKey = 0
	fetchKey   = 1
)

// request is one decoded request.
type request struct {
	key, version int16
	correlation  int32
	// client is the client id; "" when there is none.
	client string
	// req is the body; its byte slices lie in the frame, which nothing reuses.
	req kmsg.Request
	api *api
	// size is that of its frame, in bytes.
	size int
	// charged is what the frame holds of the budget, for requests that a handler took by itself.
	charged charge
}

// errRefused closes the connection over a request.
type errRefused struct {
	key, version int16
	client, why  string
}

func (e errRefused) Error() string {
	return fmt.Sprintf("client id %q, %s (key %d) version %d: %s", e.client, kmsg.NameForKey(e.key), e.key, e.version, e.why)
}

// parse reads the header and the body of a frame. A version of ApiVersions above ours is no error: the request then has
// no body.
func (c *conn) parse(fr frame) (*request, error) {
	b := fr.bytes
	if len(b) < 8 {
		return nil, errFrame{len(b), c.f.opts.MaxFrame}
	}
	r := &request{key: int16(binary.BigEndian.Uint16(b)), version: int16(binary.BigEndian.Uint16(b[2:])),
		correlation: int32(binary.BigEndian.Uint32(b[4:])), size: len(b), charged: fr.charged}
	rd := kbin.Reader{Src: b[8:]}
	if id := rd.NullableString(); id != nil {
		r.client = *id
	}
	if !rd.Ok() {
		return nil, r.refused("the header is cut short")
	}
	r.api = c.f.table[r.key]
	switch {
	case r.api == nil:
		return nil, r.refused("the key is not served")
	case r.key == apiVersionsKey && (r.version > r.api.max || r.version < 0):
		return r, nil
	case r.version < r.api.min || r.version > r.api.max:
		return nil, r.refused(fmt.Sprintf("versions %d to %d are served", r.api.min, r.api.max))
	}
	r.req = kmsg.RequestForKey(r.key)
	r.req.SetVersion(r.version)
	if r.req.IsFlexible() {
		kmsg.SkipTags(&rd)
		if !rd.Ok() {
			return nil, r.refused("the header is cut short")
		}
	}
	if r.key == produceKey {
		if err := checkProduce(r.version, rd.Src); err != nil {
			return nil, r.refused(err.Error())
		}
	}
	if err := decode(r.req, rd.Src); err != nil {
		return nil, r.refused("the body does not decode: " + err.Error())
	}
	return r, nil
}

// decode reads a body. The codecs are generated and not ours: what they do with bytes of strangers must not end the
// process.
func decode(req kmsg.Request, b []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("decoding failed: %v", p)
		}
	}()
	return req.ReadFrom(b)
}

func (r *request) refused(why string) error { return errRefused{r.key, r.version, r.client, why} }

// handle answers one frame; an error ends the connection.
func (c *conn) handle(fr frame) error {
	if c.sasl.raw {
		return c.rawToken(fr.bytes)
	}
	r, err := c.parse(fr)
	if err != nil {
		return err
	}
	start := c.f.opts.Clock.Mono()
	resp, err := c.dispatch(r)
	if err != nil {
		return err
	}
	c.f.metrics.served(r.key, c.f.opts.Clock.Mono()-start)
	c.append(r, resp)
	for i := range c.also {
		c.append(c.also[i].r, c.also[i].resp)
	}
	clear(c.also)
	c.also = c.also[:0]
	return nil
}

// dispatch calls the handler of a request, if the client may.
func (c *conn) dispatch(r *request) (kmsg.Response, error) {
	a := r.api
	if !a.early {
		if err := c.admitted(); err != nil {
			return nil, r.refused(err.Error())
		}
		if !c.f.ready(c.waiting) {
			return nil, errHungUp
		}
		c.countCall()
		if !c.may(a.level) {
			return c.refuse(r, authorizationCode(a), errors.New("the caller's roles do not allow it"))
		}
	}
	resp, err := a.handle(c.ctx, c, r)
	if err == nil {
		return resp, nil
	}
	var e *engine.Error
	if errors.As(err, &e) {
		return c.refuse(r, codeOf(e), e)
	}
	return nil, wrapRefused(r, err)
}

// ready waits for the engine; false when ctx ends before. What a client sent before it hung up counts once there is one.
func (f *Frontend) ready(ctx context.Context) bool {
	select {
	case <-f.attached:
		return true
	default:
	}
	select {
	case <-f.attached:
		return true
	case <-ctx.Done():
		return false
	}
}

func wrapRefused(r *request, err error) error {
	if errors.Is(err, errHungUp) {
		return err
	}
	return r.refused(err.Error())
}

// refuse answers a request with one code everywhere, or ends the connection where its answer has no place for one: a
// produce request with acks 0 has no answer at all.
func (c *conn) refuse(r *request, code int16, why error) (kmsg.Response, error) {
	p, ok := r.req.(*kmsg.ProduceRequest)
	if r.api.refuse == nil || ok && p.Acks == 0 {
		return nil, r.refused(why.Error())
	}
	return r.api.refuse(r, code), nil
}

// append encodes an answer; nil is none. Clients are held to their quotas of bytes here, producers held back for consumers that
// fall behind, and told for how long.
func (c *conn) append(r *request, resp kmsg.Response) {
	if r.key == produceKey {
		told(resp, max(c.charge(r, producerRate, r.size), c.makeWay(r.size)))
	}
	if resp == nil {
		return
	}
	at, began := len(c.out), c.f.opts.Clock.Mono()
	c.encode(r, resp)
	if r.key == fetchKey {
		c.lag.served += c.f.opts.Clock.Mono() - began
		if d := c.charge(r, consumerRate, len(c.out)-at); told(resp, d) {
			c.out = c.out[:at]
			c.encode(r, resp)
		}
	}
}

// told puts the wait into an answer that has room for it and does not already tell of a longer one.
func told(resp kmsg.Response, d time.Duration) bool {
	t, ok := resp.(interface {
		kmsg.ThrottleResponse
		kmsg.SetThrottleResponse
	})
	millis := int32(d / time.Millisecond)
	if !ok || millis == 0 {
		return false
	}
	before, _ := t.Throttle()
	t.SetThrottle(max(before, millis))
	return millis > before
}

// encode appends an answer with its header.
func (c *conn) encode(r *request, resp kmsg.Response) {
	at := len(c.out)
	c.out = append(c.out, 0, 0, 0, 0)
	c.out = binary.BigEndian.AppendUint32(c.out, uint32(r.correlation))
	// The header of ApiVersions is never flexible: the client does not know yet what it may expect.
	if resp.IsFlexible() && r.key != apiVersionsKey {
		c.out = append(c.out, 0)
	}
	c.out = resp.AppendTo(c.out)
	binary.BigEndian.PutUint32(c.out[at:], uint32(len(c.out)-at-4))
}

// next takes the next request of the connection if it has already been read and is of a key, for handlers that carry
// out several at once. The answer goes to c.answer, in the order the requests were taken. A frame that does not parse
// stays for the ordinary way.
func (c *conn) next(key int16) *request {
	var r *request
	c.in.takeIf(func(fr frame) bool {
		if k, ok := fr.key(); !ok || k != key {
			return false
		}
		var err error
		r, err = c.parse(fr)
		return err == nil
	})
	return r
}

// answer sets the answer of a request that next gave; nil is none. It goes out after the handler's own.
func (c *conn) answer(r *request, resp kmsg.Response) {
	r.charged.give()
	c.f.metrics.served(r.key, 0)
	c.also = append(c.also, answer{r, resp})
}

// within bounds a call by the milliseconds that a request gives it, at most a minute and 10 s when it gives none.
func within(ctx context.Context, millis int32) (context.Context, context.CancelFunc) {
	d := min(time.Duration(millis)*time.Millisecond, time.Minute)
	if d <= 0 {
		d = 10 * time.Second
	}
	return context.WithTimeout(ctx, d)
}
