package auth

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"queen/engine/auth/live"
)

// A key is KeyPrefix and 32 random bytes in base64url. Being random it needs no slow hash: what is kept is
// "sha256:" and the digest of all its characters in hex.
const (
	keyBytes   = 32
	hashPrefix = "sha256:"
	keysMax    = 100_000
)

// NewKey makes an API key from a cryptographic source, and the hash that goes into the file. The key itself can not be found again.
func NewKey(random func([]byte)) (key, hash string) {
	var secret [keyBytes]byte
	random(secret[:])
	key = KeyPrefix + base64.RawURLEncoding.EncodeToString(secret[:])
	return key, HashKey(key)
}

// HashKey is the hash of a key as the file holds it.
func HashKey(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hashPrefix + hex.EncodeToString(sum[:])
}

// CheckKey tells what is wrong with the form of a key that somebody made up: one that can be guessed would be found by
// its fast hash.
func CheckKey(key string) error {
	secret, ok := strings.CutPrefix(key, KeyPrefix)
	if !ok {
		return fmt.Errorf("a key starts with %s", KeyPrefix)
	}
	if len(secret) < 32 || len(secret) > 256 {
		return fmt.Errorf("a key has 32 to 256 characters after %s: make one with new-key", KeyPrefix)
	}
	return nil
}

// keyFile is the YAML of a key file.
type keyFile struct {
	Keys []keyEntry `yaml:"keys"`
}

type keyEntry struct {
	Name    string    `yaml:"name"`
	Hash    string    `yaml:"hash"`
	Roles   []string  `yaml:"roles"`
	Tenant  string    `yaml:"tenant"`
	Tenants []string  `yaml:"tenants"`
	Expires time.Time `yaml:"expires"`
}

// apiKey is one key as it is kept.
type apiKey struct {
	hash      [sha256.Size]byte
	expires   time.Time // zero is never
	principal Principal
}

// keySet finds keys by the first bytes of their hash, so that no comparison depends on a stored secret bit by bit.
type keySet map[uint64][]*apiKey

// Keys are the API keys of a file.
type Keys struct {
	file *live.Value[keySet]
	now  func() time.Time
}

// OpenKeys reads a key file and follows it; told gets what a change led to, see live.Options. A key that was taken out
// is refused within a second.
func OpenKeys(path string, now func() time.Time, told func(error)) (*Keys, error) {
	file, err := live.Open(live.Options[keySet]{Paths: []string{path}, Now: now, Changed: told,
		Make: func(contents [][]byte) (keySet, error) { return parseKeys(path, contents[0]) }})
	if err != nil {
		return nil, err
	}
	return &Keys{file: file, now: now}, nil
}

// Reload reads the file now.
func (k *Keys) Reload() error { return k.file.Reload() }

// Authenticate judges a key.
func (k *Keys) Authenticate(key string) (*Principal, error) {
	sum := sha256.Sum256([]byte(key))
	for _, candidate := range k.file.Get()[binary.LittleEndian.Uint64(sum[:])] {
		if subtle.ConstantTimeCompare(candidate.hash[:], sum[:]) != 1 {
			continue
		}
		if !candidate.expires.IsZero() && !k.now().Before(candidate.expires) {
			return nil, ExpiredKey
		}
		return &candidate.principal, nil
	}
	return nil, BadAPIKey
}

// CheckKeys tells what is wrong with the contents of a key file.
func CheckKeys(data []byte) error {
	_, err := parseKeys("key file", data)
	return err
}

func parseKeys(path string, data []byte) (keySet, error) {
	var file keyFile
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %s", path, strings.ReplaceAll(err.Error(), "\n", " "))
	}
	if len(file.Keys) > keysMax {
		return nil, fmt.Errorf("%s: %d keys, at most %d", path, len(file.Keys), keysMax)
	}
	set, names, hashes := keySet{}, map[string]bool{}, map[[sha256.Size]byte]bool{}
	for i := range file.Keys {
		e := &file.Keys[i]
		k, err := e.key()
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: key %d (%q): %w", path, i+1, e.Name, err)
		case names[e.Name]:
			return nil, fmt.Errorf("%s: two keys have the name %q", path, e.Name)
		case hashes[k.hash]:
			return nil, fmt.Errorf("%s: key %d (%q): its hash is that of another key", path, i+1, e.Name)
		}
		names[e.Name], hashes[k.hash] = true, true
		at := binary.LittleEndian.Uint64(k.hash[:])
		set[at] = append(set[at], k)
	}
	return set, nil
}

func (e *keyEntry) key() (*apiKey, error) {
	if e.Name == "" || len(e.Name) > 255 {
		return nil, errors.New("a name of 1 to 255 bytes is missing")
	}
	digest, ok := strings.CutPrefix(e.Hash, hashPrefix)
	sum, err := hex.DecodeString(digest)
	if !ok || err != nil || len(sum) != sha256.Size {
		return nil, errors.New("hash must be sha256: and 64 hex digits, as hash-key prints it")
	}
	k := &apiKey{hash: [sha256.Size]byte(sum), expires: e.Expires}
	k.principal.Subject, k.principal.Expires = e.Name, e.Expires.UTC()
	if len(e.Roles) == 0 {
		return nil, errors.New("roles are missing")
	}
	for _, name := range e.Roles {
		role, ok := RoleNames[name]
		if !ok {
			return nil, fmt.Errorf("there is no role %q: there are read-only, write-only, read-write and admin", name)
		}
		k.principal.Roles |= role
	}
	names := e.Tenants
	if e.Tenant != "" {
		names = append([]string{e.Tenant}, names...)
	}
	if len(names) == 0 {
		k.principal.Tenant = DefaultTenant
		return k, nil
	}
	if !k.principal.setTenants(names) {
		return nil, errors.New(`tenant must be a UUID or "*"`)
	}
	return k, nil
}

// setTenants fills in the tenants from their names, the first being the principal's own; "*" alone is any, and the
// default one unless a request says otherwise. False means that a name is none.
func (p *Principal) setTenants(names []string) bool {
	if len(names) == 1 && names[0] == "*" {
		p.Tenant, p.AnyTenant = DefaultTenant, true
		return true
	}
	for i, name := range names {
		t, ok := ParseTenant(name)
		switch {
		case !ok:
			return false
		case i == 0:
			p.Tenant = t
		default:
			p.Tenants = append(p.Tenants, t)
		}
	}
	return len(names) > 0
}
