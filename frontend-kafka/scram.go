package frontendkafka

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"runtime"
	"strings"

	"github.com/xdg-go/scram"

	"queen/engine/auth"
	"queen/engine/format"
)

// Bounds of the iterations of a user's key: fewer are guessed too fast, more would let strangers keep us busy.
const (
	iterationsMin = 4096
	iterationsMax = 16384
)

// userNameMax bounds the name of a user, in bytes.
const userNameMax = 255

// user is a user of SCRAM as its row holds it: keys that a password can be checked by and not found from.
type user struct {
	V      int      `json:"v"`
	Tenant string   `json:"tenant"`
	SHA256 *userKey `json:"sha256,omitempty"`
	SHA512 *userKey `json:"sha512,omitempty"`

	at format.Place
}

// userKey is the key of one mechanism.
type userKey struct {
	Salt       []byte `json:"salt"`
	Iterations int    `json:"iterations"`
	Stored     []byte `json:"stored"`
	Server     []byte `json:"server"`
}

const userVersion = 1

// hashOf is the hash of a mechanism; nil of none.
func hashOf(m Mechanism) func() hash.Hash {
	switch m {
	case ScramSHA256:
		return sha256.New
	case ScramSHA512:
		return sha512.New
	}
	return nil
}

// generatorOf is the library's form of hashOf.
func generatorOf(m Mechanism) scram.HashGeneratorFcn {
	if m == ScramSHA512 {
		return scram.SHA512
	}
	return scram.SHA256
}

// slot is where the key of a mechanism is.
func (u *user) slot(m Mechanism) **userKey {
	if m == ScramSHA512 {
		return &u.SHA512
	}
	return &u.SHA256
}

// newUserKey makes a key of a password that the client has salted and hashed.
func newUserKey(m Mechanism, salt, salted []byte, iterations int) *userKey {
	h := hashOf(m)
	sign := func(text string) []byte {
		mac := hmac.New(h, salted)
		mac.Write([]byte(text))
		return mac.Sum(nil)
	}
	stored := h()
	stored.Write(sign("Client Key"))
	return &userKey{Salt: salt, Iterations: iterations, Stored: stored.Sum(nil), Server: sign("Server Key")}
}

func decodeUser(b []byte) (*user, error) {
	u := &user{}
	if err := json.Unmarshal(b, u); err != nil {
		return nil, fmt.Errorf("a row of a user does not decode: %w", err)
	}
	if u.V != userVersion {
		return nil, fmt.Errorf("a row of a user has version %d, and %d is known here", u.V, userVersion)
	}
	if _, ok := auth.ParseTenant(u.Tenant); !ok {
		return nil, errors.New("a row of a user names no tenant")
	}
	for _, k := range []*userKey{u.SHA256, u.SHA512} {
		if k != nil && (k.Iterations < 1 || k.Iterations > iterationsMax || len(k.Stored) == 0 || len(k.Server) == 0) {
			return nil, errors.New("a row of a user has a broken key")
		}
	}
	return u, nil
}

// userNamed finds a user; nil when there is none.
func (f *Frontend) userNamed(name string) (*user, error) {
	select {
	case <-f.attached:
	default:
		return nil, errors.New("the node is starting")
	}
	row, ok := f.rows.AdminRow(format.SystemTenant, format.AdminKafkaUser, name)
	if !ok {
		return nil, nil
	}
	u, err := decodeUser(row.Value)
	if err == nil {
		u.at = row.At
	}
	return u, err
}

func (f *Frontend) hasUser(name string) bool {
	u, err := f.userNamed(name)
	return err == nil && u != nil
}

// principal is what a user may do.
func (f *Frontend) principal(name string, u *user) *auth.Principal {
	t, _ := auth.ParseTenant(u.Tenant)
	return &auth.Principal{Tenant: t, Subject: name, Roles: f.opts.ScramRoles}
}

// newScram begins an exchange. A user that is not there gets a salt that is always the same, so that nobody learns who
// is, and fails at the proof.
func (f *Frontend) newScram(m Mechanism) (*scram.ServerConversation, error) {
	server, err := generatorOf(m).NewServer(func(name string) (scram.StoredCredentials, error) {
		u, err := f.userNamed(name)
		if err != nil {
			return scram.StoredCredentials{}, err
		}
		if u != nil {
			if k := *u.slot(m); k != nil {
				return k.credentials(), nil
			}
		}
		mac := hmac.New(hashOf(m), f.decoy[:])
		mac.Write([]byte(name))
		sum := mac.Sum(nil)
		return (&userKey{Salt: sum[:18], Iterations: iterationsMin, Stored: sum, Server: sum}).credentials(), nil
	})
	if err != nil {
		return nil, err
	}
	return server.NewConversation(), nil
}

func (k *userKey) credentials() scram.StoredCredentials {
	return scram.StoredCredentials{KeyFactors: scram.KeyFactors{Salt: string(k.Salt), Iters: k.Iterations}, StoredKey: k.Stored, ServerKey: k.Server}
}

// scramStep takes the client's next message.
func (c *conn) scramStep(token []byte) (answer []byte, done bool, err error) {
	s, m := c.sasl.scram, c.sasl.chosen
	text, err := s.Step(string(token))
	name := s.Username()
	switch {
	case err != nil || len(name) > userNameMax:
		return nil, false, errCredentials
	case s.AuthzID() != "" && s.AuthzID() != name:
		return nil, false, errCredentials
	case !s.Done():
		return []byte(text), false, nil
	case !s.Valid():
		return nil, false, errCredentials
	}
	if err := c.identifyUser(name, m); err != nil {
		return nil, false, err
	}
	return []byte(text), true, nil
}

// identifyUser notes a user whose password was right. It stays good as long as its key does.
func (c *conn) identifyUser(name string, m Mechanism) error {
	u, err := c.f.userNamed(name)
	if err != nil || u == nil || *u.slot(m) == nil {
		return errCredentials
	}
	key := *u.slot(m)
	p := c.f.principal(name, u)
	return c.identified(p, func(context.Context) (*auth.Principal, error) {
		now, err := c.f.userNamed(name)
		switch {
		case err != nil:
			return nil, err
		case now == nil || *now.slot(m) == nil || subtle.ConstantTimeCompare((*now.slot(m)).Stored, key.Stored) != 1:
			return nil, errors.New("the user or its password was changed")
		}
		return p, nil
	})
}

// plainUser judges the password of a user of SCRAM that came by PLAIN. Hashing takes milliseconds, so few do it at a time.
func (c *conn) plainUser(name, password string) error {
	if len(name) > userNameMax {
		return errCredentials
	}
	select {
	case c.f.hashing <- struct{}{}:
		defer func() { <-c.f.hashing }()
	case <-c.waiting.Done():
		return errHungUp
	}
	u, err := c.f.userNamed(name)
	if err != nil {
		return &fault{errCredentials.code, "Authentication failed: " + err.Error()}
	}
	m, key := ScramSHA256, &userKey{Salt: c.f.decoy[:], Iterations: iterationsMin, Stored: c.f.decoy[:]}
	if u != nil && u.SHA256 != nil {
		key = u.SHA256
	} else if u != nil && u.SHA512 != nil {
		m, key = ScramSHA512, u.SHA512
	}
	client, err := generatorOf(m).NewClient(name, password, "")
	if err != nil {
		return errCredentials
	}
	got, err := client.GetStoredCredentialsWithError(key.credentials().KeyFactors)
	if err != nil || u == nil || subtle.ConstantTimeCompare(got.StoredKey, key.Stored) != 1 {
		return errCredentials
	}
	return c.identifyUser(name, m)
}

// newDecoy is the secret that decoys are made with, new in every process.
func newDecoy() (b [32]byte) {
	_, _ = rand.Read(b[:]) // it never fails
	return b
}

// hashers is how many passwords are hashed at a time.
func hashers() int { return max(1, runtime.GOMAXPROCS(0)/2) }

// cleanName is a user's name as it is compared; SASLprep leaves such names alone.
func cleanName(name string) bool {
	return name != "" && len(name) <= userNameMax && !strings.ContainsFunc(name, func(r rune) bool { return r < 0x20 || r == 0x7f })
}
