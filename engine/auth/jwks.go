package auth

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/MicahParks/jwkset"
)

// rsaBitsMin is the smallest RSA key whose signatures are taken.
const rsaBitsMin = 2048

// signingKey is one public key of a set.
type signingKey struct {
	id, alg string
	key     crypto.PublicKey
}

// Fetch brings the bytes of a key set.
type Fetch func(ctx context.Context) ([]byte, error)

// KeySetBytes bounds a key set; a Fetch need not bring more than that and one byte.
const KeySetBytes = 1 << 20

const keySetKeys = 256

// parseKeySet reads a JWK set. Keys of other kinds and uses are left out; symmetric ones too, for a set is public. A set
// without one key that can verify a token is an error.
func parseKeySet(data []byte) ([]signingKey, error) {
	if len(data) > KeySetBytes {
		return nil, fmt.Errorf("a key set of more than %d bytes", KeySetBytes)
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(data, &set); err != nil {
		return nil, fmt.Errorf("no key set: %w", err)
	}
	if len(set.Keys) > keySetKeys {
		return nil, fmt.Errorf("a key set of %d keys, at most %d", len(set.Keys), keySetKeys)
	}
	var keys []signingKey
	var skipped error
	for i, raw := range set.Keys {
		jwk, err := jwkset.NewJWKFromRawJSON(raw, jwkset.JWKMarshalOptions{}, jwkset.JWKValidateOptions{SkipAll: true})
		if err != nil {
			skipped = errors.Join(skipped, fmt.Errorf("key %d: %w", i+1, err))
			continue
		}
		m := jwk.Marshal()
		if m.USE != "" && m.USE != jwkset.UseSig {
			continue
		}
		if err := checkPublicKey(jwk.Key()); err != nil {
			skipped = errors.Join(skipped, fmt.Errorf("key %d: %w", i+1, err))
			continue
		}
		keys = append(keys, signingKey{id: m.KID, alg: string(m.ALG), key: jwk.Key()})
	}
	if len(keys) == 0 {
		return nil, errors.Join(errors.New("the key set holds no RSA or Ed25519 key for signatures"), skipped)
	}
	return keys, nil
}

// checkPublicKey tells whether signatures of a key are taken.
func checkPublicKey(key any) error {
	switch k := key.(type) {
	case *rsa.PublicKey:
		if k.N.BitLen() < rsaBitsMin {
			return fmt.Errorf("an RSA key of %d bits, at least %d", k.N.BitLen(), rsaBitsMin)
		}
		return nil
	case ed25519.PublicKey:
		if len(k) != ed25519.PublicKeySize {
			return fmt.Errorf("an Ed25519 key of %d bytes, want %d", len(k), ed25519.PublicKeySize)
		}
		return nil
	}
	return fmt.Errorf("a %T, want RSA or Ed25519", key)
}

// KeySet is a cached set of public keys that is fetched again now and then, and when a token names an unknown one.
type KeySet struct {
	opts KeySetOptions
	keys atomic.Pointer[[]signingKey]
	// generation counts the different sets; what was judged by an earlier one is judged again.
	generation atomic.Uint64

	ctx   context.Context // ends the fetches when the set is closed
	close context.CancelFunc
	wg    sync.WaitGroup

	mu struct {
		sync.Mutex
		tried   time.Time         // when the last fetch began; zero is never
		fetched time.Time         // when the last good one did
		running chan struct{}     // closed when the fetch under way ends; nil is none
		digest  [sha256.Size]byte // of the set there is
		failed  string            // the error that was told last
		closed  bool
	}
}

// KeySetOptions says where a KeySet comes from.
type KeySetOptions struct {
	// Fetch brings it; required.
	Fetch Fetch
	// Refresh is how old a set may be before it is fetched again, in the background; default one hour. A key that the
	// issuer withdrew is honoured that much longer.
	Refresh time.Duration
	// Pause is the least time between fetches whatever tokens name; default 10 s.
	Pause time.Duration
	// Timeout bounds one fetch; default 5 s.
	Timeout time.Duration
	// Now is the time; required.
	Now func() time.Time
	// Told gets nil when a new set was fetched or an old one again after an error, and the error when not; the same error
	// once. Default: nobody.
	Told func(error)
}

// NewKeySet makes a KeySet; nothing is fetched before First or the first question.
func NewKeySet(o KeySetOptions) *KeySet {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&o.Refresh, time.Hour)
	def(&o.Pause, 10*time.Second)
	def(&o.Timeout, 5*time.Second)
	if o.Told == nil {
		o.Told = func(error) {}
	}
	s := &KeySet{opts: o}
	s.ctx, s.close = context.WithCancel(context.Background())
	return s
}

// Close ends a fetch under way and waits for it.
func (s *KeySet) Close() {
	s.close()
	s.mu.Lock()
	s.mu.closed = true
	s.mu.Unlock()
	s.wg.Wait()
}

// First fetches the set for the first time. An error leaves the KeySet usable: it tries again when it is asked.
func (s *KeySet) First(ctx context.Context) error {
	s.await(ctx, s.begin(true))
	if s.keys.Load() == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		return errors.New(s.mu.failed)
	}
	return nil
}

// find returns the keys that may have made a signature, by the id the token names (empty is none) and a test of their
// kind. It waits for a fetch when there is no set yet, or none with that id, at most once per Pause.
func (s *KeySet) find(ctx context.Context, id string, fits func(signingKey) bool) ([]crypto.PublicKey, error) {
	found, known := s.cached(id, fits)
	if known {
		s.refresh()
	} else if wait := s.begin(false); wait != nil {
		s.await(ctx, wait)
		found, known = s.cached(id, fits)
	}
	switch {
	case len(found) > 0:
		return found, nil
	case known:
		return nil, BadAlgorithm
	case s.keys.Load() == nil:
		return nil, Unavailable
	}
	return nil, UnknownKey
}

// cached looks into the set there is; known tells whether it has the id at all. Without an id every key counts.
func (s *KeySet) cached(id string, fits func(signingKey) bool) (found []crypto.PublicKey, known bool) {
	keys := s.keys.Load()
	if keys == nil {
		return nil, false
	}
	for _, k := range *keys {
		if id != "" && k.id != id {
			continue
		}
		known = true
		if fits(k) {
			found = append(found, k.key)
		}
	}
	return found, known
}

// refresh starts a fetch of a set that is too old. Nobody waits for it.
func (s *KeySet) refresh() {
	s.mu.Lock()
	old := !s.mu.fetched.IsZero() && s.opts.Now().Sub(s.mu.fetched) >= s.opts.Refresh
	s.mu.Unlock()
	if old {
		s.begin(false)
	}
}

// begin starts a fetch and returns what is closed at its end: that of the fetch under way when there is one, nil when
// the pause since the last is not over.
func (s *KeySet) begin(force bool) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.running != nil {
		return s.mu.running
	}
	now := s.opts.Now()
	since := now.Sub(s.mu.tried)
	if s.mu.closed || !force && !s.mu.tried.IsZero() && since >= 0 && since < s.opts.Pause {
		return nil
	}
	s.mu.tried = now
	done := make(chan struct{})
	s.mu.running = done
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		s.fetch(now, done)
	}()
	return done
}

func (s *KeySet) await(ctx context.Context, done <-chan struct{}) {
	if done == nil {
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// fetch brings one set; a failure keeps the one there is.
func (s *KeySet) fetch(began time.Time, done chan struct{}) {
	ctx, cancel := context.WithTimeout(s.ctx, s.opts.Timeout)
	defer cancel()
	data, err := s.opts.Fetch(ctx)
	var keys []signingKey
	if err == nil {
		keys, err = parseKeySet(data)
	}
	s.mu.Lock()
	quiet := err != nil && err.Error() == s.mu.failed
	healed := s.mu.failed != ""
	s.mu.failed = ""
	if err != nil {
		s.mu.failed = err.Error()
	} else {
		s.mu.fetched = began
		if digest := sha256.Sum256(data); s.keys.Load() == nil || digest != s.mu.digest {
			s.mu.digest = digest
			s.keys.Store(&keys)
			s.generation.Add(1)
		} else {
			quiet = !healed
		}
	}
	s.mu.running = nil
	s.mu.Unlock()
	close(done)
	if !quiet && s.ctx.Err() == nil {
		s.opts.Told(err)
	}
}
