package auth

import (
	"context"
	"crypto"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
)

// issuer serves a key set that a test changes.
type issuer struct {
	*httptest.Server
	asked  atomic.Int64
	status atomic.Int64
	body   atomic.Pointer[string]
	// hold, when set, is received from before an answer.
	hold atomic.Pointer[chan struct{}]
}

func newIssuer(t testing.TB, keys ...string) *issuer {
	i := &issuer{}
	i.status.Store(200)
	i.serve(keys...)
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.asked.Add(1)
		if hold := i.hold.Load(); hold != nil {
			select {
			case <-*hold:
			case <-r.Context().Done():
			}
		}
		w.WriteHeader(int(i.status.Load()))
		_, _ = io.WriteString(w, *i.body.Load())
	}))
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) fetch(ctx context.Context) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, i.URL, nil)
	if err != nil {
		return nil, err
	}
	res, err := i.Client().Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return nil, errors.New(res.Status)
	}
	return io.ReadAll(res.Body)
}

func (i *issuer) serve(keys ...string) { s := setOf(keys...); i.body.Store(&s) }

type rotation struct {
	*testing.T
	*issuer
	clock  *manual
	tokens *Tokens
	set    *KeySet
	told   []string
	mu     sync.Mutex
}

func newRotation(t *testing.T, keys ...string) *rotation {
	r := &rotation{T: t, issuer: newIssuer(t, keys...), clock: newManual()}
	r.set = NewKeySet(KeySetOptions{Fetch: r.fetch, Now: r.clock.Now, Refresh: time.Hour,
		Pause: 10 * time.Second, Timeout: time.Minute, Told: func(err error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.told = append(r.told, "")
			if err != nil {
				r.told[len(r.told)-1] = err.Error()
			}
		}})
	r.tokens = tokensFor(t, TokenOptions{KeySet: r.set, Now: r.clock.Now})
	return r
}

func (r *rotation) try(alg string, key crypto.PrivateKey, id any) error {
	r.Helper()
	_, err := r.tokens.Authenticate(context.Background(), sign(r.T, jwt.GetSigningMethod(alg), key,
		good(r.clock.Now(), jwt.MapClaims{"exp": r.clock.Now().Add(10 * time.Hour).Unix()}), map[string]any{"kid": id}))
	return err
}

// TestKeySetRotation: an unknown id makes the set be fetched again, at most once per pause whatever tokens name; a key
// that was withdrawn stops working with the next fetch, also for a token that was found good before.
func TestKeySetRotation(t *testing.T) {
	k := keysOnce()
	r := newRotation(t, jwk("old", "RS256", k.rsa.Public()))
	require.NoError(t, r.set.First(context.Background()))
	require.NoError(t, r.try("RS256", k.rsa, "old"))
	require.NoError(t, r.try("RS256", k.rsa, nil), "without an id every key counts")
	require.Equal(t, BadAlgorithm, r.try("RS384", k.rsa, "old"), "the issuer said RS256")
	require.Equal(t, BadSignature, r.try("RS256", k.otherRSA, "old"))
	require.EqualValues(t, 1, r.asked.Load())

	r.serve(jwk("new", "", k.ed.Public()))
	for range 100 {
		require.Equal(t, UnknownKey, r.try("EdDSA", k.ed, "new"), "the pause is not over")
	}
	require.EqualValues(t, 1, r.asked.Load())
	r.clock.advance(10 * time.Second)
	require.NoError(t, r.try("EdDSA", k.ed, "new"))
	require.EqualValues(t, 2, r.asked.Load())
	require.Equal(t, UnknownKey, r.try("RS256", k.rsa, "old"), "a withdrawn key still worked")
	r.clock.advance(time.Minute)
	require.Equal(t, UnknownKey, r.try("RS256", k.rsa, "other"))
	require.EqualValues(t, 3, r.asked.Load())

	before := r.set.generation.Load()
	r.clock.advance(time.Hour)
	r.serve(jwk("newest", "", k.otherEd.Public()))
	_ = r.try("EdDSA", k.ed, "new") // known, so nobody waits: the fetch runs behind it
	waitFor(t, func() bool { return r.set.generation.Load() == before+1 })
	require.Equal(t, UnknownKey, r.try("EdDSA", k.ed, "new"))
	require.NoError(t, r.try("EdDSA", k.otherEd, "newest"))
}

// TestKeySetOutage: an issuer that fails leaves the keys there are; one that never answered makes the caller come again.
func TestKeySetOutage(t *testing.T) {
	k := keysOnce()
	r := newRotation(t)
	require.ErrorContains(t, r.set.First(context.Background()), "holds no RSA or Ed25519 key")
	require.Equal(t, Unavailable, r.try("EdDSA", k.ed, "a"))
	r.clock.advance(10 * time.Second)
	r.status.Store(500)
	require.Equal(t, Unavailable, r.try("EdDSA", k.ed, "a"))
	r.clock.advance(10 * time.Second)
	require.Equal(t, Unavailable, r.try("EdDSA", k.ed, "a"))
	r.clock.advance(10 * time.Second)
	r.status.Store(200)
	r.serve(jwk("a", "", k.ed.Public()))
	require.NoError(t, r.try("EdDSA", k.ed, "a"))

	for _, broken := range []string{"", "{", `{"keys":[]}`, setOf(`{"kty":"EC","crv":"P-256","kid":"a"}`), setOf(strings.Repeat(`{},`, keySetKeys) + `{}`),
		strings.Repeat(" ", KeySetBytes+1), setOf(`{"kty":"OKP","crv":"Ed25519","x":"AAAA","kid":"a"}`), setOf(`{"kty":"RSA","n":"AQAB","e":"AQAB","kid":"a"}`)} {
		r.body.Store(&broken)
		r.clock.advance(10 * time.Second)
		require.Equal(t, UnknownKey, r.try("EdDSA", k.otherEd, "b"))
		require.NoError(t, r.try("EdDSA", k.ed, "a"), "a broken set replaced a good one: %.60q", broken)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := 1; i < len(r.told); i++ {
		require.NotEqual(t, r.told[i-1], r.told[i], "the same was told twice")
	}
}

// TestOneFetchAtATime: tokens with unknown ids that come together wait for one fetch, and give up with their caller.
func TestOneFetchAtATime(t *testing.T) {
	k := keysOnce()
	r := newRotation(t, jwk("a", "", k.ed.Public()))
	hold := make(chan struct{})
	r.hold.Store(&hold)
	errs := make(chan error, 20)
	token := sign(t, jwt.SigningMethodEdDSA, k.ed, good(r.clock.Now(), nil), map[string]any{"kid": "a"})
	for range cap(errs) {
		go func() {
			_, err := r.tokens.Authenticate(context.Background(), token)
			errs <- err
		}()
	}
	waitFor(t, func() bool { return r.asked.Load() == 1 })
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := r.tokens.Authenticate(gone, token)
	require.Equal(t, Unavailable, err)
	close(hold)
	for range cap(errs) {
		require.NoError(t, <-errs)
	}
	require.EqualValues(t, 1, r.asked.Load())
}

// TestCloseEndsAFetch: Close returns although the issuer never answers, and nothing is fetched afterwards.
func TestCloseEndsAFetch(t *testing.T) {
	k := keysOnce()
	r := newRotation(t)
	hold := make(chan struct{})
	defer close(hold)
	r.hold.Store(&hold)
	done := make(chan error, 1)
	go func() { done <- r.set.First(context.Background()) }()
	waitFor(t, func() bool { return r.asked.Load() == 1 })
	r.set.Close()
	require.ErrorContains(t, <-done, "context canceled")
	r.clock.advance(time.Hour)
	require.Equal(t, Unavailable, r.try("EdDSA", k.ed, "a"))
	require.EqualValues(t, 1, r.asked.Load())
}

func waitFor(t testing.TB, cond func() bool) {
	t.Helper()
	require.Eventually(t, cond, 20*time.Second, time.Millisecond)
}
