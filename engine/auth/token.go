package auth

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Algorithms are the signatures that tokens may carry.
var Algorithms = []string{"HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "EdDSA"}

// TokenOptions says which tokens are taken and how they are read. At least one of Secret, PublicKeys and KeySet is
// needed; each serves the algorithms of its own kind only.
type TokenOptions struct {
	// Secret verifies HS256, HS384 and HS512.
	Secret []byte
	// PublicKeys are keys or certificates in PEM; they verify RS256, RS384, RS512 and EdDSA.
	PublicKeys []byte
	// KeySet are public keys that are fetched; Tokens.Close closes it.
	KeySet *KeySet

	// Algorithms restricts what is taken; empty is everything that the keys can verify.
	Algorithms []string
	// Issuer and Audience must be met when they are set; of several audiences one is enough.
	Issuer   string
	Audience []string
	// Leeway is how far the issuer's clock may be off.
	Leeway time.Duration
	// AllowNoExpiry takes tokens that never end.
	AllowNoExpiry bool

	// RolesClaim and RolesArrayClaim name the claims with one role and with a list; default role and roles. A name with
	// dots reaches into objects unless there is a claim of just that name.
	RolesClaim, RolesArrayClaim string
	// RoleNames maps what these claims say; default RoleNames of the package. Other words are no role.
	RoleNames map[string]Roles
	// TenantClaim names the claim with the tenant, a list of them, or "*" for any. When it is set a token without it is
	// refused; when it is empty every token is the default tenant's.
	TenantClaim string

	// Now is the time; required.
	Now func() time.Time
}

// Tokens judges JSON Web Tokens.
type Tokens struct {
	opts   TokenOptions
	parser *jwt.Parser
	public []signingKey
	cache  tokenCache
}

// NewTokens checks the options and joins what is wrong with them.
func NewTokens(o TokenOptions) (*Tokens, error) {
	if o.RolesClaim == "" {
		o.RolesClaim = "role"
	}
	if o.RolesArrayClaim == "" {
		o.RolesArrayClaim = "roles"
	}
	if o.RoleNames == nil {
		o.RoleNames = RoleNames
	}
	t := &Tokens{opts: o}
	var errs []error
	if len(o.PublicKeys) > 0 {
		var err error
		if t.public, err = parsePublicKeys(o.PublicKeys); err != nil {
			errs = append(errs, err)
		}
	}
	if len(o.Secret) == 0 && len(o.PublicKeys) == 0 && o.KeySet == nil {
		errs = append(errs, errors.New("tokens need a secret, a public key or a key set"))
	}
	for _, a := range o.Algorithms {
		switch {
		case !slices.Contains(Algorithms, a):
			errs = append(errs, fmt.Errorf("there is no algorithm %q: there are %s", a, strings.Join(Algorithms, ", ")))
		case len(errs) == 0 && !t.takes(a):
			errs = append(errs, fmt.Errorf("no key is given that could verify %s", a))
		}
	}
	options := []jwt.ParserOption{jwt.WithTimeFunc(o.Now), jwt.WithLeeway(o.Leeway), jwt.WithIssuedAt()}
	if !o.AllowNoExpiry {
		options = append(options, jwt.WithExpirationRequired())
	}
	if o.Issuer != "" {
		options = append(options, jwt.WithIssuer(o.Issuer))
	}
	if len(o.Audience) > 0 {
		options = append(options, jwt.WithAudience(o.Audience...))
	}
	t.parser = jwt.NewParser(options...)
	t.cache.init()
	return t, errors.Join(errs...)
}

// Close ends what runs in the background.
func (t *Tokens) Close() {
	if t.opts.KeySet != nil {
		t.opts.KeySet.Close()
	}
}

// Authenticate judges a token.
func (t *Tokens) Authenticate(ctx context.Context, token string) (*Principal, error) {
	now := t.opts.Now()
	generation := uint64(0)
	if t.opts.KeySet != nil {
		t.opts.KeySet.refresh()
		generation = t.opts.KeySet.generation.Load()
	}
	if p := t.cache.get(token, generation, now); p != nil {
		return p, nil
	}
	claims := jwt.MapClaims{}
	_, err := t.parser.ParseWithClaims(token, claims, func(parsed *jwt.Token) (any, error) { return t.keys(ctx, parsed) })
	if err != nil {
		return nil, t.reasonOf(token, claims, err)
	}
	p, err := t.principal(claims)
	if err != nil {
		return nil, err
	}
	t.cache.put(token, generation, now, t.until(claims, now), p)
	return p, nil
}

// until is when a verdict of now must be taken back at the latest.
func (t *Tokens) until(claims jwt.MapClaims, now time.Time) time.Time {
	end := now.Add(verdictAge)
	if exp, err := claims.GetExpirationTime(); err == nil && exp != nil && exp.Add(t.opts.Leeway).Before(end) {
		end = exp.Add(t.opts.Leeway)
	}
	return end
}

// family is the kind of key an algorithm needs.
func family(alg string) string { return alg[:2] }

// takes tells whether an algorithm is allowed and some key could serve it.
func (t *Tokens) takes(alg string) bool {
	if !slices.Contains(Algorithms, alg) || len(t.opts.Algorithms) > 0 && !slices.Contains(t.opts.Algorithms, alg) {
		return false
	}
	if family(alg) == "HS" {
		return len(t.opts.Secret) > 0
	}
	return t.opts.KeySet != nil || slices.ContainsFunc(t.public, func(k signingKey) bool { return k.fits(alg) })
}

// fits tells whether a key may verify an algorithm: by its kind, which an attacker does not choose, and by what its
// issuer said about it.
func (k signingKey) fits(alg string) bool {
	if k.alg != "" && k.alg != alg {
		return false
	}
	switch k.key.(type) {
	case *rsa.PublicKey:
		return family(alg) == "RS"
	case ed25519.PublicKey:
		return alg == "EdDSA"
	}
	return false
}

// keys finds the keys that may have signed a token.
func (t *Tokens) keys(ctx context.Context, token *jwt.Token) (any, error) {
	alg := token.Method.Alg()
	if !t.takes(alg) {
		return nil, BadAlgorithm
	}
	if _, ok := token.Header["crit"]; ok {
		return nil, BadHeader // it must be understood, and nothing of the kind is
	}
	if family(alg) == "HS" {
		return t.opts.Secret, nil
	}
	id, named := token.Header["kid"].(string)
	if token.Header["kid"] != nil && !named {
		return nil, BadHeader
	}
	var keys jwt.VerificationKeySet
	for _, k := range t.public {
		if k.fits(alg) {
			keys.Keys = append(keys.Keys, k.key)
		}
	}
	if t.opts.KeySet != nil {
		found, err := t.opts.KeySet.find(ctx, id, func(k signingKey) bool { return k.fits(alg) })
		if err != nil && len(keys.Keys) == 0 {
			return nil, err
		}
		for _, k := range found {
			keys.Keys = append(keys.Keys, crypto.PublicKey(k))
		}
	}
	return keys, nil
}

// reasonOf sorts what the library found. Of several problems with the claims the first of these is told.
func (t *Tokens) reasonOf(token string, claims jwt.MapClaims, err error) error {
	var r Reason
	switch {
	case errors.As(err, &r):
		return r
	case errors.Is(err, jwt.ErrTokenMalformed):
		return malformed(token)
	case errors.Is(err, jwt.ErrTokenUnverifiable):
		if malformed(token) == BadHeader {
			return BadHeader
		}
		return BadAlgorithm
	case errors.Is(err, jwt.ErrTokenSignatureInvalid):
		return BadSignature
	case errors.Is(err, jwt.ErrTokenExpired):
		return Expired
	case errors.Is(err, jwt.ErrTokenNotValidYet):
		return NotYetValid
	case errors.Is(err, jwt.ErrTokenUsedBeforeIssued):
		return IssuedInFuture
	case errors.Is(err, jwt.ErrTokenInvalidIssuer):
		return BadIssuer
	case errors.Is(err, jwt.ErrTokenInvalidAudience):
		return BadAudience
	case !errors.Is(err, jwt.ErrTokenRequiredClaimMissing):
		return BadClaims
	case !t.opts.AllowNoExpiry && claims["exp"] == nil:
		return NoExpiry
	case t.opts.Issuer != "" && claims["iss"] == nil:
		return BadIssuer
	}
	return BadAudience
}

// malformed tells a token whose header is none from one whose other parts are.
func malformed(token string) Reason {
	head, rest, ok := strings.Cut(token, ".")
	raw, err := base64.RawURLEncoding.DecodeString(head)
	var header struct {
		Alg string `json:"alg"`
	}
	if !ok || strings.Count(rest, ".") != 1 || err != nil || json.Unmarshal(raw, &header) != nil || header.Alg == "" {
		return BadHeader
	}
	return BadSignature
}

// parsePublicKeys reads public keys and certificates in PEM.
func parsePublicKeys(data []byte) (keys []signingKey, err error) {
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		var key any
		switch block.Type {
		case "PUBLIC KEY":
			key, err = x509.ParsePKIXPublicKey(block.Bytes)
		case "RSA PUBLIC KEY":
			key, err = x509.ParsePKCS1PublicKey(block.Bytes)
		case "CERTIFICATE":
			var c *x509.Certificate
			if c, err = x509.ParseCertificate(block.Bytes); err == nil {
				key = c.PublicKey
			}
		default:
			err = fmt.Errorf("a PEM block %q, want PUBLIC KEY, RSA PUBLIC KEY or CERTIFICATE", block.Type)
		}
		if err == nil {
			err = checkPublicKey(key)
		}
		if err != nil {
			return nil, fmt.Errorf("public key: %w", err)
		}
		keys = append(keys, signingKey{key: key})
	}
	if len(keys) == 0 {
		return nil, errors.New("public key: there is no PEM block")
	}
	return keys, nil
}
