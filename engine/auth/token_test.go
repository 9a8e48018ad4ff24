package auth

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
)

const testSecret = "0123456789abcdef0123456789abcdef"

// keysOnce makes the asymmetric keys once: RSA keys take long.
var keysOnce = sync.OnceValue(func() (k struct {
	rsa, otherRSA *rsa.PrivateKey
	ed, otherEd   ed25519.PrivateKey
}) {
	for _, to := range []**rsa.PrivateKey{&k.rsa, &k.otherRSA} {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			panic(err)
		}
		*to = key
	}
	for _, to := range []*ed25519.PrivateKey{&k.ed, &k.otherEd} {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			panic(err)
		}
		*to = key
	}
	return k
})

func publicPEM(t testing.TB, keys ...crypto.PublicKey) (out []byte) {
	t.Helper()
	for _, k := range keys {
		der, err := x509.MarshalPKIXPublicKey(k)
		require.NoError(t, err)
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})...)
	}
	return out
}

// manual is a clock that a test moves.
type manual struct{ nanos atomic.Int64 }

func newManual() *manual {
	m := &manual{}
	m.nanos.Store(time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC).UnixNano())
	return m
}
func (m *manual) Now() time.Time          { return time.Unix(0, m.nanos.Load()).UTC() }
func (m *manual) advance(d time.Duration) { m.nanos.Add(int64(d)) }

// sign makes a token; header members replace the usual ones, nil takes them out.
func sign(t testing.TB, method jwt.SigningMethod, key any, claims jwt.MapClaims, header map[string]any) string {
	t.Helper()
	token := jwt.NewWithClaims(method, claims)
	for name, v := range header {
		token.Header[name] = v
		if v == nil {
			delete(token.Header, name)
		}
	}
	s, err := token.SignedString(key)
	require.NoError(t, err)
	return s
}

func good(now time.Time, more jwt.MapClaims) jwt.MapClaims {
	c := jwt.MapClaims{"sub": "worker", "role": "read-write", "exp": now.Add(time.Hour).Unix(), "iat": now.Unix()}
	for k, v := range more {
		c[k] = v
		if v == nil {
			delete(c, k)
		}
	}
	return c
}

func tokensFor(t testing.TB, o TokenOptions) *Tokens {
	t.Helper()
	tokens, err := NewTokens(o)
	require.NoError(t, err)
	t.Cleanup(tokens.Close)
	return tokens
}

// TestAlgorithms: every algorithm is taken with its own key and refused with another's, cut short, or altered.
func TestAlgorithms(t *testing.T) {
	clock, k := newManual(), keysOnce()
	tokens := tokensFor(t, TokenOptions{Secret: []byte(testSecret), Now: clock.Now,
		PublicKeys: publicPEM(t, k.rsa.Public(), k.ed.Public())})
	for _, alg := range Algorithms {
		method := jwt.GetSigningMethod(alg)
		var key, other any
		switch family(alg) {
		case "HS":
			key, other = []byte(testSecret), []byte("another secret of the same length")
		case "RS":
			key, other = k.rsa, k.otherRSA
		default:
			key, other = k.ed, k.otherEd
		}
		token := sign(t, method, key, good(clock.Now(), nil), nil)
		p, err := tokens.Authenticate(context.Background(), token)
		require.NoError(t, err, alg)
		require.Equal(t, &Principal{Tenant: DefaultTenant, Subject: "worker", Roles: ReadWrite,
			Expires: clock.Now().Add(time.Hour).UTC()}, p, alg)

		_, err = tokens.Authenticate(context.Background(), sign(t, method, other, good(clock.Now(), nil), nil))
		require.Equal(t, BadSignature, err, alg)
		parts := strings.Split(token, ".")
		forged := parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"root","role":"admin","exp":99999999999}`)) +
			"." + parts[2]
		for _, bad := range []string{forged, parts[0] + "." + parts[1] + ".", parts[0] + "." + parts[1] + ".AAAA",
			parts[0] + "." + parts[1] + ".%%%"} {
			_, err = tokens.Authenticate(context.Background(), bad)
			require.Equal(t, BadSignature, err, "%s: %s", alg, bad)
		}
	}
}

// TestAlgorithmConfusion: the key decides which algorithms there are, never the token.
func TestAlgorithmConfusion(t *testing.T) {
	clock, k := newManual(), keysOnce()
	public := publicPEM(t, k.rsa.Public())
	der, err := x509.MarshalPKIXPublicKey(k.rsa.Public())
	require.NoError(t, err)
	byKey := tokensFor(t, TokenOptions{PublicKeys: public, Now: clock.Now})
	bySecret := tokensFor(t, TokenOptions{Secret: []byte(testSecret), Now: clock.Now})
	both := tokensFor(t, TokenOptions{Secret: []byte(testSecret), PublicKeys: public, Now: clock.Now})
	narrow := tokensFor(t, TokenOptions{Secret: []byte(testSecret), PublicKeys: public, Algorithms: []string{"RS256"}, Now: clock.Now})
	set := tokensFor(t, TokenOptions{Now: clock.Now, KeySet: fixedSet(clock,
		jwk("a", "", k.rsa.Public()), `{"kty":"oct","kid":"s","k":"`+base64.RawURLEncoding.EncodeToString([]byte(testSecret))+`"}`)})

	claims := good(clock.Now(), jwt.MapClaims{"role": "admin"})
	none := sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, claims, nil)
	for name, c := range map[string]struct {
		tokens *Tokens
		token  string
		want   Reason
	}{
		"HS with the PEM as secret":      {byKey, sign(t, jwt.SigningMethodHS256, public, claims, nil), BadAlgorithm},
		"HS with the DER as secret":      {byKey, sign(t, jwt.SigningMethodHS512, der, claims, nil), BadAlgorithm},
		"HS with the PEM, secret too":    {both, sign(t, jwt.SigningMethodHS256, public, claims, nil), BadSignature},
		"HS with the PEM, key set":       {set, sign(t, jwt.SigningMethodHS256, public, claims, map[string]any{"kid": "a"}), BadAlgorithm},
		"HS with a key of the set":       {set, sign(t, jwt.SigningMethodHS256, []byte(testSecret), claims, map[string]any{"kid": "s"}), BadAlgorithm},
		"EdDSA with the id of RSA":       {set, sign(t, jwt.SigningMethodEdDSA, k.ed, claims, map[string]any{"kid": "a"}), BadAlgorithm},
		"RS where there is a secret":     {bySecret, sign(t, jwt.SigningMethodRS256, k.rsa, claims, nil), BadAlgorithm},
		"EdDSA where there is RSA":       {byKey, sign(t, jwt.SigningMethodEdDSA, k.ed, claims, nil), BadAlgorithm},
		"PS is not RS":                   {byKey, sign(t, jwt.SigningMethodPS256, k.rsa, claims, nil), BadAlgorithm},
		"allowed by key, not by list":    {narrow, sign(t, jwt.SigningMethodHS256, []byte(testSecret), claims, nil), BadAlgorithm},
		"RS512 where the list has RS256": {narrow, sign(t, jwt.SigningMethodRS512, k.rsa, claims, nil), BadAlgorithm},
		"none":                           {both, none, BadAlgorithm},
		"None":                           {both, header(`{"alg":"None","typ":"JWT"}`) + none[strings.Index(none, "."):], BadAlgorithm},
		"unknown":                        {both, header(`{"alg":"XX256"}`) + none[strings.Index(none, "."):], BadAlgorithm},
		"no algorithm":                   {both, header(`{"typ":"JWT"}`) + none[strings.Index(none, "."):], BadHeader},
	} {
		_, err := c.tokens.Authenticate(context.Background(), c.token)
		require.Equal(t, c.want, err, name)
	}
}

func header(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

// TestClaims: each claim that is wrong is told by its own reason, within the leeway it is not wrong.
func TestClaims(t *testing.T) {
	clock := newManual()
	tokens := tokensFor(t, TokenOptions{Secret: []byte(testSecret), Now: clock.Now, Issuer: "issuer",
		Audience: []string{"queen", "broker"}, Leeway: 30 * time.Second, TenantClaim: "org.tenant"})
	now := clock.Now()
	const tenant = "11111111-1111-1111-1111-111111111111"
	base := jwt.MapClaims{"iss": "issuer", "aud": "queen", "org": map[string]any{"tenant": tenant}}
	for name, c := range map[string]struct {
		more jwt.MapClaims
		want error
	}{
		"good":                   {nil, nil},
		"audience in a list":     {jwt.MapClaims{"aud": []string{"x", "broker"}}, nil},
		"expired in the leeway":  {jwt.MapClaims{"exp": now.Add(-29 * time.Second).Unix()}, nil},
		"expired":                {jwt.MapClaims{"exp": now.Add(-31 * time.Second).Unix()}, Expired},
		"expired and more":       {jwt.MapClaims{"exp": 1, "iss": "x", "aud": "x"}, Expired},
		"expiry out of range":    {jwt.MapClaims{"exp": -1e300}, Expired},
		"expiry that is a word":  {jwt.MapClaims{"exp": "tomorrow"}, BadClaims},
		"no expiry":              {jwt.MapClaims{"exp": nil}, NoExpiry},
		"not before, leeway":     {jwt.MapClaims{"nbf": now.Add(29 * time.Second).Unix()}, nil},
		"not before":             {jwt.MapClaims{"nbf": now.Add(31 * time.Second).Unix()}, NotYetValid},
		"issued ahead, leeway":   {jwt.MapClaims{"iat": now.Add(29 * time.Second).Unix()}, nil},
		"issued ahead":           {jwt.MapClaims{"iat": now.Add(31 * time.Second).Unix()}, IssuedInFuture},
		"no issue time":          {jwt.MapClaims{"iat": nil}, nil},
		"other issuer":           {jwt.MapClaims{"iss": "Issuer"}, BadIssuer},
		"no issuer":              {jwt.MapClaims{"iss": nil}, BadIssuer},
		"other audience":         {jwt.MapClaims{"aud": []string{"x"}}, BadAudience},
		"no audience":            {jwt.MapClaims{"aud": nil}, BadAudience},
		"subject that is none":   {jwt.MapClaims{"sub": 7}, BadClaims},
		"subject without an end": {jwt.MapClaims{"sub": strings.Repeat("x", subjectBytes+1)}, BadClaims},
		"no tenant":              {jwt.MapClaims{"org": nil}, BadTenant},
		"tenant that is none":    {jwt.MapClaims{"org": map[string]any{"tenant": "acme"}}, BadTenant},
		"tenant as a URN":        {jwt.MapClaims{"org": map[string]any{"tenant": "urn:uuid:" + tenant}}, BadTenant},
		"tenant of no text":      {jwt.MapClaims{"org": map[string]any{"tenant": []any{tenant, 1}}}, BadTenant},
		"no tenants":             {jwt.MapClaims{"org": map[string]any{"tenant": []any{}}}, BadTenant},
	} {
		claims := good(now, base)
		for k, v := range c.more {
			claims[k] = v
			if v == nil {
				delete(claims, k)
			}
		}
		p, err := tokens.Authenticate(context.Background(), sign(t, jwt.SigningMethodHS256, []byte(testSecret), claims, nil))
		require.Equal(t, c.want, err, name)
		if err == nil {
			want, _ := ParseTenant(tenant)
			require.Equal(t, want, p.Tenant, name)
		}
	}
	forever := tokensFor(t, TokenOptions{Secret: []byte(testSecret), Now: clock.Now, AllowNoExpiry: true})
	_, err := forever.Authenticate(context.Background(), sign(t, jwt.SigningMethodHS256, []byte(testSecret), jwt.MapClaims{}, nil))
	require.NoError(t, err)
}

// TestHeaders: what is no token at all.
func TestHeaders(t *testing.T) {
	clock := newManual()
	tokens := tokensFor(t, TokenOptions{Secret: []byte(testSecret), Now: clock.Now})
	goodToken := sign(t, jwt.SigningMethodHS256, []byte(testSecret), good(clock.Now(), nil), nil)
	rest := goodToken[strings.Index(goodToken, "."):]
	for name, token := range map[string]string{
		"word": "token", "two parts": "a.b", "four parts": goodToken + ".x", "no base64": "%%" + rest,
		"no JSON": header("hello") + rest, "no object": header(`["HS256"]`) + rest, "dots": "..",
		"algorithm that is a number": header(`{"alg":256}`) + rest, "empty header": rest,
		"critical extension": sign(t, jwt.SigningMethodHS256, []byte(testSecret), good(clock.Now(), nil), map[string]any{"crit": []string{"exp"}}),
	} {
		_, err := tokens.Authenticate(context.Background(), token)
		require.Equal(t, BadHeader, err, name)
	}
	k := keysOnce()
	byKey := tokensFor(t, TokenOptions{PublicKeys: publicPEM(t, k.ed.Public()), Now: clock.Now})
	_, err := byKey.Authenticate(context.Background(), sign(t, jwt.SigningMethodEdDSA, k.ed, good(clock.Now(), nil), map[string]any{"kid": 7}))
	require.Equal(t, BadHeader, err)
}

// TestRolesOfClaims: one role, a list, both; names of the issuer's own; words that are no role give nothing.
func TestRolesOfClaims(t *testing.T) {
	clock := newManual()
	plain := tokensFor(t, TokenOptions{Secret: []byte(testSecret), Now: clock.Now})
	own := tokensFor(t, TokenOptions{Secret: []byte(testSecret), Now: clock.Now, RolesClaim: "groups",
		RolesArrayClaim: "realm.roles", RoleNames: map[string]Roles{"boss": Admin, "reader": ReadOnly}})
	for name, c := range map[string]struct {
		tokens *Tokens
		claims jwt.MapClaims
		want   Roles
	}{
		"one":             {plain, jwt.MapClaims{"role": "read-only"}, ReadOnly},
		"list":            {plain, jwt.MapClaims{"role": nil, "roles": []string{"write-only", "read-only"}}, WriteOnly | ReadOnly},
		"both":            {plain, jwt.MapClaims{"role": "write-only", "roles": []string{"admin"}}, WriteOnly | Admin},
		"unknown":         {plain, jwt.MapClaims{"role": "Admin", "roles": []string{"root", ""}}, 0},
		"none":            {plain, jwt.MapClaims{"role": nil}, 0},
		"list of no text": {plain, jwt.MapClaims{"role": nil, "roles": []any{"admin", 1}}, 0},
		"object":          {plain, jwt.MapClaims{"role": map[string]any{"admin": true}}, 0},
		"own names":       {own, jwt.MapClaims{"groups": []string{"boss"}, "realm": map[string]any{"roles": []string{"reader"}}}, Admin | ReadOnly},
		"own names only":  {own, jwt.MapClaims{"role": "admin", "groups": "admin"}, 0},
		"exact before":    {own, jwt.MapClaims{"realm.roles": "boss", "realm": map[string]any{"roles": "reader"}}, Admin},
	} {
		p, err := c.tokens.Authenticate(context.Background(),
			sign(t, jwt.SigningMethodHS256, []byte(testSecret), good(clock.Now(), c.claims), nil))
		require.NoError(t, err, name)
		require.Equal(t, c.want, p.Roles, name)
	}
}

// TestCachedVerdictEnds: a token that was found good is refused once it has expired, although it is remembered, and the
// memory of tokens is bounded.
func TestCachedVerdictEnds(t *testing.T) {
	clock := newManual()
	tokens := tokensFor(t, TokenOptions{Secret: []byte(testSecret), Now: clock.Now, Leeway: time.Second})
	token := sign(t, jwt.SigningMethodHS256, []byte(testSecret), good(clock.Now(), jwt.MapClaims{"exp": clock.Now().Add(10 * time.Second).Unix()}), nil)
	first, err := tokens.Authenticate(context.Background(), token)
	require.NoError(t, err)
	second, err := tokens.Authenticate(context.Background(), token)
	require.NoError(t, err)
	require.Same(t, first, second, "it was judged again")
	clock.advance(11 * time.Second)
	_, err = tokens.Authenticate(context.Background(), token)
	require.Equal(t, Expired, err)
	for i := range 3 * verdicts {
		tokens.cache.put(fmt.Sprint(i), 0, clock.Now(), clock.Now().Add(time.Hour), first)
		require.LessOrEqual(t, len(tokens.cache.mu.held), verdicts)
	}
}

// TestOptionsOfTokens: what can not verify anything stops the boot.
func TestOptionsOfTokens(t *testing.T) {
	k := keysOnce()
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(k.ed)
	require.NoError(t, err)
	for want, o := range map[string]TokenOptions{
		"need a secret":               {},
		"no PEM block":                {PublicKeys: []byte("key")},
		"RSA key of 1024 bits":        {PublicKeys: publicPEM(t, small.Public())},
		`PEM block "PRIVATE KEY"`:     {PublicKeys: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})},
		`no algorithm "RS1024"`:       {Secret: []byte("s"), Algorithms: []string{"RS1024"}},
		"no key is given that could":  {Secret: []byte("s"), Algorithms: []string{"HS256", "RS256"}},
		"could verify EdDSA":          {PublicKeys: publicPEM(t, k.rsa.Public()), Algorithms: []string{"EdDSA"}},
		"public key: x509: malformed": {PublicKeys: pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte("x")})},
	} {
		o.Now = time.Now
		_, err := NewTokens(o)
		if want == "public key: x509: malformed" {
			require.Error(t, err)
			continue
		}
		require.ErrorContains(t, err, want)
	}
}

// FuzzToken: no input panics, and none that was not signed is taken.
func FuzzToken(f *testing.F) {
	clock := newManual()
	tokens := tokensFor(f, TokenOptions{Secret: []byte(testSecret), Now: clock.Now})
	signed := sign(f, jwt.SigningMethodHS256, []byte(testSecret), good(clock.Now(), nil), nil)
	f.Add(signed + "x")
	f.Add("..")
	f.Add(header(`{"alg":"none"}`) + "." + header(`{"exp":99999999999}`) + ".")
	f.Fuzz(func(t *testing.T, token string) {
		p, err := tokens.Authenticate(context.Background(), token)
		if err == nil && token != signed {
			t.Fatalf("%q was taken for %+v", token, p)
		}
		if _, ok := err.(Reason); err != nil && !ok {
			t.Fatalf("%q: %T is no reason", token, err)
		}
	})
}

// jwk is a public key as a set lists it.
func jwk(id, alg string, key crypto.PublicKey) string {
	m := map[string]string{"kid": id, "use": "sig"}
	if alg != "" {
		m["alg"] = alg
	}
	switch k := key.(type) {
	case *rsa.PublicKey:
		m["kty"], m["n"], m["e"] = "RSA", base64.RawURLEncoding.EncodeToString(k.N.Bytes()), "AQAB"
	case ed25519.PublicKey:
		m["kty"], m["crv"], m["x"] = "OKP", "Ed25519", base64.RawURLEncoding.EncodeToString(k)
	}
	out, _ := json.Marshal(m)
	return string(out)
}

func setOf(keys ...string) string { return `{"keys":[` + strings.Join(keys, ",") + `]}` }

func fixedSet(clock *manual, keys ...string) *KeySet {
	return NewKeySet(KeySetOptions{Now: clock.Now,
		Fetch: func(context.Context) ([]byte, error) { return []byte(setOf(keys...)), nil }})
}

var jwtHS256 = jwt.SigningMethodHS256
