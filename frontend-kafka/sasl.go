package frontendkafka

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/xdg-go/scram"

	"queen/engine/auth"
)

// Mechanism is a way to authenticate, by its name on the wire.
type Mechanism string

// The mechanisms that can be offered.
const (
	Plain       Mechanism = "PLAIN"
	ScramSHA256 Mechanism = "SCRAM-SHA-256"
	ScramSHA512 Mechanism = "SCRAM-SHA-512"
)

// offers tells whether clients of the listener may use a mechanism.
func (l *Listener) offers(m Mechanism) bool { return slices.Contains(l.SASL, m) }

// recheckEvery is how often a credential that was taken is judged anew: one that was withdrawn ends its connections.
const recheckEvery = 5 * time.Second

// lingerTime is how long a refused client has to read why before its connection is closed.
const lingerTime = time.Second

// saslState is where a connection is in authenticating.
type saslState struct {
	// chosen is the mechanism of the exchange under way; "" when there is none.
	chosen Mechanism
	// raw says that the next frame is a bare token: what a handshake of version 0 leads to.
	raw bool
	// scram is the exchange of SCRAM.
	scram *scram.ServerConversation
	// again judges the credential anew; nil before there is one. next is when.
	again func(context.Context) (*auth.Principal, error)
	next  int64
	// refused says that the connection is closed after the answer.
	refused bool
}

// errExpired ends a connection whose credential has ended without a new one.
var errExpired = errors.New("the credential has ended and the client has not authenticated again")

// admitted is why a request that needs a known client can not be carried out; nil when it can.
func (c *conn) admitted() error {
	if len(c.l.SASL) == 0 {
		return nil
	}
	if c.principal == nil || c.sasl.again == nil {
		return errors.New("the client has not authenticated")
	}
	now := c.f.opts.Clock.Now()
	if e := c.principal.Expires; !e.IsZero() && now >= e.UnixMicro() {
		return errExpired
	}
	mono := c.f.opts.Clock.Mono()
	if mono < c.sasl.next {
		return nil
	}
	p, err := c.sasl.again(c.ctx)
	switch {
	case err == nil:
		c.principal = p
	case !errors.Is(err, auth.Unavailable): // what can not be judged was good a moment ago
		return err
	}
	c.sasl.next = mono + recheckEvery.Microseconds()
	return nil
}

// choose begins an exchange.
func (c *conn) choose(m Mechanism, raw bool) error {
	if len(c.l.SASL) == 0 {
		return &fault{kerr.IllegalSaslState, "this listener asks nobody to authenticate"}
	}
	if !c.l.offers(m) { // whatever was chosen before stays
		return &fault{kerr.UnsupportedSaslMechanism, "the mechanism is not offered"}
	}
	if c.principal != nil && raw {
		return &fault{kerr.IllegalSaslState, "a client that authenticates again uses SaslAuthenticate"}
	}
	s := &c.sasl
	s.chosen, s.raw, s.scram = m, raw, nil
	if m != Plain {
		var err error
		if s.scram, err = c.f.newScram(m); err != nil {
			return err
		}
	}
	return nil
}

// step takes the client's next token and gives ours; done says that the client is known.
func (c *conn) step(token []byte) (answer []byte, done bool, err error) {
	s := &c.sasl
	switch {
	case s.chosen == "":
		s.refused = len(c.l.SASL) > 0
		return nil, false, &fault{kerr.IllegalSaslState, "no mechanism has been chosen with SaslHandshake"}
	case len(token) > tokenMax:
		err = errCredentials
	case s.chosen == Plain:
		done = true
		err = c.plain(token)
	default:
		answer, done, err = c.scramStep(token)
	}
	if done || err != nil {
		s.chosen, s.raw, s.scram = "", false, nil
	}
	if err != nil {
		s.refused = true
		c.f.metrics.unauthenticated.WithLabelValues(c.l.Name).Inc()
	}
	return answer, done, err
}

// tokenMax bounds a token of any mechanism, in bytes.
const tokenMax = 16 << 10

// errCredentials says nothing about what was wrong: whether there is such a user is nobody's business.
var errCredentials = &fault{kerr.SaslAuthenticationFailed, "Authentication failed: invalid credentials"}

// plain judges a token of PLAIN: authorization id, user and password, with zeros between them.
func (c *conn) plain(token []byte) error {
	parts := strings.Split(string(token), "\x00")
	if len(parts) != 3 || parts[1] == "" || parts[2] == "" {
		return &fault{kerr.SaslAuthenticationFailed, "Authentication failed: want a user name and a password"}
	}
	if parts[0] != "" && parts[0] != parts[1] {
		return &fault{kerr.SaslAuthenticationFailed, "Authentication failed: a client acts for itself only"}
	}
	user, password := parts[1], parts[2]
	if a := c.f.opts.Auth; a != nil {
		again := func(ctx context.Context) (*auth.Principal, error) {
			return a.Authenticate(ctx, auth.Credentials{Username: user, Password: password})
		}
		p, err := again(c.ctx)
		if err == nil {
			return c.identified(p, again)
		}
		var reason auth.Reason
		if !errors.As(err, &reason) || reason == auth.Unavailable || strings.HasPrefix(password, auth.KeyPrefix) {
			return &fault{kerr.SaslAuthenticationFailed, "Authentication failed: " + err.Error()}
		}
		if !c.f.hasUser(user) {
			return &fault{kerr.SaslAuthenticationFailed, "Authentication failed: " + string(reason)}
		}
	}
	return c.plainUser(user, password)
}

// identified notes who the client is. Who authenticates again must be the same: what it has begun here is its own.
func (c *conn) identified(p *auth.Principal, again func(context.Context) (*auth.Principal, error)) error {
	if was := c.principal; was != nil && (was.Tenant != p.Tenant || was.Subject != p.Subject) {
		return &fault{kerr.SaslAuthenticationFailed, "Authentication failed: a connection can not change whose it is"}
	}
	c.principal, c.sasl.again = p, again
	c.sasl.next = c.f.opts.Clock.Mono() + recheckEvery.Microseconds()
	c.known.Store(true)
	return nil
}

// lifetime is how long the client may go on before it must authenticate again, in milliseconds; 0 is for ever.
func (c *conn) lifetime() int64 {
	if c.principal == nil || c.principal.Expires.IsZero() {
		return 0
	}
	return max((c.principal.Expires.UnixMicro()-c.f.opts.Clock.Now())/1000, 1)
}

// rawToken takes a token that has no request around it and answers alike. A refusal has no place for words: the
// connection is closed.
func (c *conn) rawToken(token []byte) error {
	answer, _, err := c.step(token)
	if err != nil {
		return err
	}
	c.out = append(c.out, byte(len(answer)>>24), byte(len(answer)>>16), byte(len(answer)>>8), byte(len(answer)))
	c.out = append(c.out, answer...)
	return nil
}

// linger gives a refused client time to read its answer: an immediate close may take it away from it.
func (c *conn) linger() {
	type halfCloser interface{ CloseWrite() error }
	if h, ok := c.nc.(halfCloser); ok {
		_ = h.CloseWrite()
	}
	t := c.f.opts.Clock.NewTimer(lingerTime)
	defer t.Stop()
	select {
	case <-t.C():
	case <-c.waiting.Done(): // the client has closed, or the node stops
	}
}
