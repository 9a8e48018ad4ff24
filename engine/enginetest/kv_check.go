package enginetest

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"queen/engine"
	"queen/engine/format"
	"queen/engine/value"
)

// What one call may hold (S-kv-19, S-lock-11, S-tmr-13, S-txn-13, S-txn-18): of KV ops and keys alone, and beside
// other ops in a transaction; then of the others.
const (
	callOps, callKeys   = 256, 1024
	mixedOps, mixedKeys = 64, 256
	callLocks           = 64
	callSlots           = 4096
	callTimers          = 256
	callPositions       = 16_384
	maxVersion          = 1 << 53
)

// namespaceForm is S-kv-14 of names, and with a tilde those of the engine's own rows.
var namespaceForm = regexp.MustCompile(`^[~a-z0-9][a-z0-9._-]{0,63}$`)

func bad(field, message string) *engine.Error {
	return &engine.Error{Code: engine.CodeBadRequest, Field: field, Message: message}
}

func tooLarge(field, message string) *engine.Error {
	return &engine.Error{Code: engine.CodeTooLarge, Field: field, Message: message}
}

// compact is a JSON text without spaces between its tokens, nil when it is none.
func compact(text []byte) []byte {
	out, _ := value.Compact(text)
	return out
}

func finite(n format.Number) bool {
	return n.Kind != format.FloatNumber || !math.IsNaN(n.Float) && !math.IsInf(n.Float, 0)
}

func badKey(field, key string) *engine.Error {
	if key == "" || len(key) > engine.MaxKVKey || strings.ContainsRune(key, 0) {
		return bad(field, "a key has 1 to 512 bytes and no NUL")
	}
	return nil
}

// checkKV is what a KV op must be like to be judged at all.
func checkKV(op *engine.KV, atomic bool) *engine.Error {
	if op.Kind < engine.KVGet || op.Kind > engine.KVCheck {
		return bad("op", "unknown KV op")
	}
	if !namespaceForm.MatchString(op.Namespace) {
		return bad("ns", "not a namespace")
	}
	keys := op.Keys
	if op.Kind != engine.KVGetMany {
		keys = []string{op.Key}
	}
	if len(keys) == 0 {
		return bad("keys", "no keys")
	}
	for _, key := range keys {
		if e := badKey("key", key); e != nil {
			return e
		}
	}
	switch {
	case op.Limit < 0:
		return bad("limit", "a negative limit")
	case op.Snapshot != "" && op.Kind != engine.KVPrefix || len(op.Snapshot) > 64:
		return bad("snapshot", "not a page of a snapshot")
	case op.Required && (kvReads(op.Kind) || !atomic && op.Kind != engine.KVCheck):
		return bad("required", "only a condition of an atomic batch can be required")
	case op.HasExpect && (kvReads(op.Kind) || op.Kind == engine.KVIncr), op.Kind == engine.KVCheck && !op.HasExpect, op.Expect > maxVersion:
		return bad("expect", "not a condition of this op")
	case op.Keep < 0:
		return bad("ttlSeconds", "a negative lifetime")
	}
	return checkKVValue(op)
}

func checkKVValue(op *engine.KV) *engine.Error {
	switch op.Kind {
	case engine.KVPut:
		limit := engine.MaxKVValue
		if strings.HasPrefix(op.Namespace, "~") {
			limit = 1 << 20
		}
		if text := compact(op.Value); text == nil {
			return bad("value", "not JSON")
		} else if len(text) > limit {
			return tooLarge("value", "the value is too large")
		}
	case engine.KVIncr:
		if op.Delta.Kind == format.NotANumber || !finite(op.Delta) || !finite(op.Min) || !finite(op.Max) {
			return bad("delta", "not a finite number")
		}
	}
	return nil
}

func checkLockName(name string) *engine.Error {
	control := func(r rune) bool { return unicode.IsControl(r) || r == '#' }
	if name == "" || len(name) > 256 || strings.ContainsFunc(name, control) || !utf8.ValidString(name) {
		return bad("name", "a lock's name has 1 to 256 bytes, no control character and no #")
	}
	return nil
}

func checkLock(op *engine.Lock) *engine.Error {
	if e := checkLockName(op.Name); e != nil {
		return e
	}
	switch {
	case op.Op < format.LockAcquire || op.Op > format.LockRelease:
		return bad("op", "unknown lock op")
	case len(op.Owner) > 256 || strings.ContainsFunc(op.Owner, unicode.IsControl) || !utf8.ValidString(op.Owner):
		return bad("owner", "an owner has at most 256 bytes and no control character")
	case op.Limit > engine.MaxLockSlots:
		return bad("limit", "too many slots")
	case op.Op != format.LockRelease && op.TTL <= 0:
		return bad("ttlSeconds", "a permit needs a lifetime")
	case op.Op != format.LockAcquire && op.Slot >= engine.MaxLockSlots:
		return bad("slot", "no such slot")
	case op.Op != format.LockAcquire && (op.Token == 0 || op.Token > maxVersion):
		return bad("token", "not a token")
	}
	return nil
}

func checkPosition(op *engine.CommitOffset) *engine.Error {
	other := op.Partition
	if len(op.Group) > len(other) {
		other = op.Group
	}
	switch {
	case len(op.Metadata) > 4096:
		return tooLarge("metadata", "at most 4096 bytes")
	case op.Start != 0 && op.Start != format.StartNew && op.Start != format.StartAll:
		return bad("subscriptionMode", "a position starts a group at new or all")
	case op.Forget && (op.Offset != 0 || op.Metadata != ""):
		return bad("offset", "a position is set or forgotten")
	}
	return checkNames(op.Queue, other)
}

// checkOps holds ops against what each must be like, and the call against what it may hold. refused has
// one entry per op; whole is about the call.
func (s *state) checkOps(t format.Tenant, b *engine.Batch) (refused []*engine.Error, whole *engine.Error) {
	refused = make([]*engine.Error, len(b.Ops))
	seen := map[string]bool{}
	twice := func(name, field string) *engine.Error {
		if seen[name] {
			return bad(field, "named twice in one call")
		}
		seen[name] = true
		return nil
	}
	n := newTally(b)
	for i, op := range b.Ops {
		var e, again *engine.Error
		switch op := op.(type) {
		case *engine.KV:
			if e = checkKV(op, b.Atomic); e == nil && op.Kind >= engine.KVPut && op.Kind <= engine.KVIncr {
				again = twice(fmt.Sprintf("kv %q %q", op.Namespace, op.Key), "key")
			}
		case *engine.Lock:
			if e = checkLock(op); e == nil {
				again = twice(fmt.Sprintf("lock %q", op.Name), "name")
			}
		case *engine.Timer:
			if e = s.checkTimer(t, op); e == nil {
				again = twice(fmt.Sprintf("timer %q %q", op.Queue, op.Key), "timerKey")
			}
		case *engine.CommitOffset:
			e = checkPosition(op)
		}
		if refused[i] = e; again != nil {
			return refused, again
		}
	}
	return refused, n.over(b.Atomic)
}

// tally counts what a call holds.
type tally struct{ ops, keys, locks, slots, timers, positions, others int }

func newTally(b *engine.Batch) (n tally) {
	for _, op := range b.Ops {
		switch op := op.(type) {
		case *engine.KV:
			n.ops++
			switch {
			case op.Kind == engine.KVGetMany:
				n.keys += len(op.Keys)
			case op.Kind == engine.KVPrefix && op.Limit == 0:
				n.keys += 100
			case op.Kind == engine.KVPrefix:
				n.keys += min(op.Limit, 1000)
			default:
				n.keys++
			}
		case *engine.Lock:
			n.locks++
			n.slots += int(max(op.Limit, 1))
		case *engine.Timer:
			n.timers++
		case *engine.CommitOffset:
			n.positions++
		default:
			n.others++
		}
	}
	return n
}

func (n *tally) over(atomic bool) *engine.Error {
	ops, keys := callOps, callKeys
	if atomic && n.others+n.timers+n.positions > 0 {
		ops, keys = mixedOps, mixedKeys
	}
	switch {
	case n.ops > ops || n.locks > callLocks || n.timers > callTimers || n.positions > callPositions:
		return bad("operations", "too many ops in one call")
	case n.keys > keys || n.slots > callSlots:
		return bad("keys", "too many keys in one call")
	}
	return nil
}
