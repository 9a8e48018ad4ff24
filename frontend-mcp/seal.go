package frontendmcp

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/format"
)

// confirmNamespace holds what makes a confirmation good at every node, and once: the keys that seal tokens, one of each day,
// and a row for every token that was used. No caller's namespace begins with a tilde, and the rows are of the system's tenant.
const confirmNamespace = "~mcp-confirm"

const (
	// keySpan is for how long one key seals, microseconds of the calendar.
	keySpan = int64(24 * time.Hour / time.Microsecond)
	// keyKept is the life of a key's row, which may be made as its day begins and opens tokens until a while after its end.
	keyKept = 48 * time.Hour
	// spentKept is the life of the row of a used token. It is longer than the token's own, so that no node whose clock is behind
	// finds the row gone and the token still young.
	spentKept = time.Hour
	// maxSkew is by how many seconds the clock of the node that sealed a token may be ahead.
	maxSkew = 60
	// maxSpent bounds the used tokens that a process remembers by itself.
	maxSpent = 10_000
	// ownKey stands in a token in the place of the day for the key of the process.
	ownKey = int64(math.MaxUint32)
	// dayBytes is the length of that place.
	dayBytes = 4
)

// system owns the rows of confirmNamespace.
var system = engine.Caller{Tenant: format.SystemTenant}

// sealer makes and judges confirmations, with keys that all nodes share. Where the broker can not write, as on a full disk, of
// which a purge may be the cure, it uses a key of its own: such a token is good at this process only, which remembers its use.
type sealer struct {
	own  cipher.AEAD
	rand clock.Rand

	mu     sync.Mutex
	shared map[int64]cipher.AEAD // by day
	spent  map[string]int64      // nonce of an own token -> its end, clock.Mono
}

func newSealer(r clock.Rand) (*sealer, error) {
	own, err := newAEAD(newKey(r))
	return &sealer{own: own, rand: r, shared: map[int64]cipher.AEAD{}, spent: map[string]int64{}}, err
}

func newKey(r clock.Rand) []byte {
	key := make([]byte, 32)
	r.Fill(key)
	return key
}

func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// forget drops the keys that were read from a broker.
func (s *sealer) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.shared)
}

func (s *sealer) known(day int64) cipher.AEAD {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shared[day]
}

// keep remembers the key of a day and drops those of days that are over.
func (s *sealer) keep(day, today int64, a cipher.AEAD) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for old := range s.shared {
		if old < today-1 {
			delete(s.shared, old)
		}
	}
	s.shared[day] = a
}

// spend uses up a token that was sealed with the process's own key.
func (s *sealer) spend(nonce string, until, now int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, used := s.spent[nonce]; used {
		return errSpent()
	}
	if len(s.spent) >= maxSpent {
		for k, end := range s.spent {
			if end < now {
				delete(s.spent, k)
			}
		}
		if len(s.spent) >= maxSpent {
			return &toolError{Code: "rate_limited", Message: "too many confirmations are open", Retryable: true, RetryAfterMs: 1000}
		}
	}
	s.spent[nonce] = until
	return nil
}

func errSpent() error { return refusedToken("confirm_used", "the confirmation was used before") }

// confirmation is what a token holds. Whoever has the token can not read or change it.
type confirmation struct {
	// Until is by the calendar, or by clock.Mono in a token of the process's own key.
	Until   int64             `json:"u"`
	Tenant  []byte            `json:"t"`
	Subject string            `json:"p"`
	Tool    string            `json:"n"`
	Args    []byte            `json:"a"`
	Counts  map[string]uint64 `json:"c"`
	// Person says that a person was asked: the token counts only with the person's answer.
	Person bool `json:"h,omitempty"`

	// nonce and own come from around the sealed text.
	nonce string
	own   bool
}

// left is for how many microseconds a token still counts.
func (s *confirmation) left(c *call) int64 { return s.Until - c.sealTime(s.own) }

// sealTime is the time that tokens are judged by.
func (c *call) sealTime(own bool) int64 {
	if own {
		return c.f.opts.Clock.Mono()
	}
	return int64(c.f.now())
}

// seal makes a token of a confirmation that counts from now on: its bytes are the day of the key, a nonce, the sealed text.
func (c *call) seal(what confirmation) (string, error) {
	s := c.f.sealer
	day, key := ownKey, s.own
	if st, err := c.engine.Status(c.ctx); err == nil && st.CanWrite {
		today := c.today()
		shared, err := c.sharedKey(today, true)
		if err == nil {
			day, key = today, shared
		} else {
			c.f.opts.Logger.Warn("a confirmation is good at this node only", "event", "mcp_confirm_own", "err", err)
		}
	}
	what.Until = c.sealTime(day == ownKey) + confirmTime*1e6
	text, err := json.Marshal(what)
	if err != nil {
		return "", err
	}
	token := binary.BigEndian.AppendUint32(nil, uint32(day))
	nonce := make([]byte, key.NonceSize())
	s.rand.Fill(nonce)
	token = append(token, nonce...)
	return base64.RawURLEncoding.EncodeToString(key.Seal(token, nonce, text, token[:dayBytes])), nil
}

// unseal reads a token; false when it is not one of ours.
func (c *call) unseal(token string) (what *confirmation, ok bool, err error) {
	what = &confirmation{}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(raw) < dayBytes {
		return what, false, nil
	}
	day, key := int64(binary.BigEndian.Uint32(raw)), c.f.sealer.own
	if what.own = day == ownKey; !what.own {
		if today := c.today(); day < today-1 || day > today+1 { // only what may be there is looked for
			return what, false, nil
		}
		if key, err = c.sharedKey(day, false); err != nil || key == nil {
			return what, false, err
		}
	}
	end := dayBytes + key.NonceSize()
	if len(raw) < end {
		return what, false, nil
	}
	nonce := raw[dayBytes:end]
	text, err := key.Open(nil, nonce, raw[end:], raw[:dayBytes])
	if err != nil || json.Unmarshal(text, what) != nil {
		return what, false, nil
	}
	what.nonce = string(nonce)
	return what, true, nil
}

func (c *call) today() int64 { return int64(c.f.now()) / keySpan }

// sharedKey is the key of a day. With create it is made where there is none, else nil stands for none.
func (c *call) sharedKey(day int64, create bool) (cipher.AEAD, error) {
	s := c.f.sealer
	if a := s.known(day); a != nil {
		return a, nil
	}
	name := "key/" + strconv.FormatInt(day, 10)
	item, err := c.confirmRow(name)
	switch {
	case err != nil:
		return nil, err
	case item.Found:
	case !create:
		return nil, nil
	default:
		text, err := json.Marshal(newKey(s.rand))
		if err != nil {
			return nil, err
		}
		if item, err = c.putIfAbsent(name, text, keyKept); err != nil { // where another node was first, the row is that one's
			return nil, err
		}
	}
	var key []byte
	if err := json.Unmarshal(item.Row.Value, &key); err != nil || len(key) != 32 {
		return nil, fmt.Errorf("frontend-mcp: the row %s of %s is no key", name, confirmNamespace)
	}
	a, err := newAEAD(key)
	if err != nil {
		return nil, err
	}
	s.keep(day, c.today(), a)
	return a, nil
}

// confirmRow reads a row of confirmNamespace.
func (c *call) confirmRow(key string) (engine.KVItem, error) {
	items, err := c.engine.Keyed().KV(c.ctx, system, []engine.KV{{Kind: engine.KVGet, Namespace: confirmNamespace, Key: key}})
	if err != nil {
		return engine.KVItem{}, err
	}
	return items[0], nil
}

// putIfAbsent writes a row of confirmNamespace unless there is one: then that one is answered, and not applied.
func (c *call) putIfAbsent(key string, value []byte, keep time.Duration) (engine.KVItem, error) {
	res, err := c.engine.Do(c.ctx, system, engine.Batch{Ops: []engine.Op{&engine.KV{Kind: engine.KVPut, Namespace: confirmNamespace,
		Key: key, Value: value, HasExpect: true, Keep: keep}}})
	if err != nil {
		return engine.KVItem{}, err
	}
	if res[0].Err != nil {
		return engine.KVItem{}, res[0].Err
	}
	return res[0].KV, nil
}

// spend uses a token up, before what it allows is done: nothing is, unless the use is durable.
func (c *call) spend(what *confirmation) error {
	if what.own {
		return c.f.sealer.spend(what.nonce, what.Until, c.sealTime(true))
	}
	name := "used/" + base64.RawURLEncoding.EncodeToString([]byte(what.nonce))
	item, err := c.confirmRow(name)
	if err == nil && item.Found {
		return errSpent() // a replay writes nothing
	}
	if err == nil {
		item, err = c.putIfAbsent(name, []byte("1"), spentKept)
	}
	var why *toolError
	switch {
	case err == nil && item.Applied:
		return nil
	case err == nil:
		return errSpent()
	case !errors.As(asToolError(err, nil), &why):
		return err
	}
	return &toolError{Code: why.Code, Message: "the use of the confirmation could not be recorded, so nothing was done", Field: "confirm_token",
		Hint: "call the tool without confirm_token to get a new plan", Retryable: why.Retryable, RetryAfterMs: why.RetryAfterMs}
}
