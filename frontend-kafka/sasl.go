package frontendkafka

import (
	"errors"
	"slices"
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

// saslState is where a connection is in authenticating.
type saslState struct {
	// raw says that the next frame is a bare token: what a handshake of version 0 leads to.
	raw bool
}

// admitted is why a request that needs a known client can not be carried out; nil when it can.
func (c *conn) admitted() error {
	if len(c.l.SASL) == 0 || c.principal != nil {
		return nil
	}
	return errors.New("the client has not authenticated")
}

// rawToken takes a token that has no request around it.
func (c *conn) rawToken([]byte) error { return errors.New("no token was expected") }
