package auth

import (
	"context"
	"strings"
)

// KeyPrefix starts every API key, so that one can be told from a token wherever it turns up.
const KeyPrefix = "qk_"

// Credentials are what a caller shows. At most one of the two forms is set; neither is no credential at all.
type Credentials struct {
	// Secret is a token or an API key.
	Secret string
	// Username and Password are those of SASL PLAIN: the name of an API key and the key, or any name and a token.
	Username, Password string
}

// FromHeaders takes the credential out of the values of Authorization and X-API-Key. "Bearer x" and a bare x are the
// same; the scheme may be in any case. Authorization wins.
func FromHeaders(authorization, apiKey string) Credentials {
	const scheme = "bearer "
	secret := strings.TrimSpace(authorization)
	if len(secret) >= len(scheme) && strings.EqualFold(secret[:len(scheme)], scheme) {
		secret = strings.TrimSpace(secret[len(scheme):])
	} else if strings.EqualFold(secret, "bearer") {
		secret = ""
	}
	if secret == "" {
		secret = strings.TrimSpace(apiKey)
	}
	return Credentials{Secret: secret}
}

// Authenticator turns credentials into a principal. The error is a Reason.
type Authenticator interface {
	Authenticate(ctx context.Context, c Credentials) (*Principal, error)
}

// Chain authenticates by API keys and tokens, each of which may be nil.
type Chain struct {
	Keys   *Keys
	Tokens *Tokens
}

var _ Authenticator = (*Chain)(nil)

// Authenticate judges an API key by the keys and anything else as a token. A user name must be the name of the key; with
// a token it is not looked at.
func (a *Chain) Authenticate(ctx context.Context, c Credentials) (*Principal, error) {
	secret := c.Secret
	if secret == "" {
		secret = c.Password
	}
	switch {
	case secret == "":
		return nil, Required
	case strings.HasPrefix(secret, KeyPrefix):
		if a.Keys == nil {
			return nil, BadAPIKey
		}
		p, err := a.Keys.Authenticate(secret)
		if err == nil && c.Username != "" && c.Username != p.Subject {
			return nil, BadAPIKey
		}
		return p, err
	case a.Tokens == nil:
		return nil, BadHeader
	}
	return a.Tokens.Authenticate(ctx, secret)
}

// Close ends what runs in the background.
func (a *Chain) Close() {
	if a.Tokens != nil {
		a.Tokens.Close()
	}
}
