package engine

import (
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"queen/engine/format"
	"queen/engine/value"
)

// Bounds of one call (S-kv-19, S-lock-11, S-txn-13, S-txn-18): KV ops and keys when the call holds nothing else,
// and inside a transaction with other parts; locks and the slots they name; timers; positions.
const (
	maxKVOps, maxKVKeys   = 256, 1024
	maxTxnKV, maxTxnKeys  = 64, 256
	maxLockOps, maxSlots  = 64, 4096
	maxTimerOps           = 256
	maxPositionOps        = 16_384
	maxExpect             = 1 << 53
	defaultPage, pageRows = 100, 1000
	// leastKeep is the shortest lifetime of a row, microseconds.
	leastKeep = 1000
)

// callShape is what is counted of a call before any of it is encoded.
type callShape struct {
	kv, keys, locks, slots, timers, positions, others int
	// writes says that a KV op changes something.
	writes bool
}

func shapeOf(ops []Op) (s callShape) {
	for _, op := range ops {
		switch op := op.(type) {
		case *KV:
			s.kv++
			s.keys += keysOf(op)
			s.writes = s.writes || !op.Kind.looks()
		case *Lock:
			s.locks++
			s.slots += int(max(op.Limit, 1))
		case *Timer:
			s.timers++
		case *CommitOffset:
			s.positions++
		default:
			s.others++
		}
	}
	return s
}

// keysOf is how many keys an op may read: a page counts as its limit.
func keysOf(op *KV) int {
	switch op.Kind {
	case KVGetMany:
		return len(op.Keys)
	case KVPrefix:
		return pageLimit(op.Limit)
	}
	return 1
}

func pageLimit(limit int) int {
	if limit <= 0 {
		return defaultPage
	}
	return min(limit, pageRows)
}

// keyed reports that the call holds ops about keyed rows, so that there is something to check.
func (s *callShape) keyed() bool { return s.kv+s.locks+s.timers+s.positions > 0 }

func (s *callShape) check(atomic bool) *Error {
	ops, keys := maxKVOps, maxKVKeys
	if atomic && s.others+s.timers+s.positions > 0 {
		ops, keys = maxTxnKV, maxTxnKeys
	}
	over := func(n, limit int, what string) *Error {
		if n <= limit {
			return nil
		}
		return errBad("operations", strconv.Itoa(limit), "too many "+what+" in one call")
	}
	for _, err := range []*Error{over(s.kv, ops, "KV ops"), over(s.keys, keys, "keys"), over(s.locks, maxLockOps, "lock ops"),
		over(s.slots, maxSlots, "lock slots"), over(s.timers, maxTimerOps, "timer ops"), over(s.positions, maxPositionOps, "positions")} {
		if err != nil {
			return err
		}
	}
	return nil
}

// looks reports an op that changes nothing.
func (k KVKind) looks() bool { return k.reads() || k == KVCheck }

// reads reports an op that only answers with rows.
func (k KVKind) reads() bool { return k == KVGet || k == KVGetMany || k == KVPrefix }

// changed names what an op changes: a key, a lock or a timer.
type changed struct {
	kind   byte
	of, at string
}

// changedBy is what an op changes, with the name of its field; the field is empty for other ops.
func changedBy(op Op) (c changed, field string) {
	switch op := op.(type) {
	case *KV:
		if !op.Kind.looks() {
			return changed{'k', op.Namespace, op.Key}, "key"
		}
	case *Lock:
		return changed{'l', op.Name, ""}, "name"
	case *Timer:
		return changed{'t', op.Queue, op.Key}, "timerKey"
	}
	return c, ""
}

// distinct refuses what one call may name once: a key that is written, a lock, a timer. A call that changes one thing, as
// most do, needs no table.
func distinct(ops []Op) *Error {
	var first changed
	var seen map[changed]bool
	for _, op := range ops {
		c, field := changedBy(op)
		switch {
		case field == "":
			continue
		case first.kind == 0:
			first = c
			continue
		case seen == nil:
			seen = make(map[changed]bool, len(ops))
			seen[first] = true
		}
		if seen[c] {
			return errBad(field, "1", "a call changes each key, lock and timer once")
		}
		seen[c] = true
	}
	return nil
}

// checkKV holds a KV op against its bounds. Whatever passes can be encoded, and decodes again.
func checkKV(op *KV, atomic bool) *Error {
	if op.Kind < KVGet || op.Kind > KVCheck {
		return errBad("op", "", "unknown KV op")
	}
	if err := checkNamespace(op.Namespace); err != nil {
		return err
	}
	if op.Kind != KVGetMany {
		if err := checkKey("key", op.Key); err != nil {
			return err
		}
	} else if len(op.Keys) == 0 {
		return errBad("keys", "", "no keys are named")
	}
	for _, key := range op.Keys {
		if err := checkKey("keys", key); err != nil {
			return err
		}
	}
	switch {
	case op.Limit < 0:
		return errBad("limit", "0 or more", "limit must not be negative")
	case op.Snapshot != "" && op.Kind != KVPrefix || len(op.Snapshot) > maxSnapshotToken:
		return errBad("snapshot", "64 bytes", "only pages of a prefix are read from a snapshot, which is named by what began it")
	case op.Required && (op.Kind.reads() || !atomic && op.Kind != KVCheck):
		return errBad("required", "", "only a condition of an atomic batch can be required")
	case op.HasExpect && (op.Kind.reads() || op.Kind == KVIncr), op.Kind == KVCheck && !op.HasExpect:
		return errBad("expect", "", "a check needs expect, reads and increments take none")
	case op.Expect > maxExpect:
		return errBad("expect", "2^53", "no version is that high")
	case op.Keep < 0:
		return errBad("ttlSeconds", "0 or more", "a lifetime must not be negative")
	case op.Kind == KVIncr && (op.Delta.Kind == format.NotANumber || !finite(op.Delta) || !finite(op.Min) || !finite(op.Max)):
		return errBad("delta", "", "delta, min and max are finite numbers")
	}
	return nil
}

// checkNamespace allows what callers may name and, behind a tilde, the engine's own rows (S-kv-14).
func checkNamespace(ns string) *Error {
	ok := len(ns) >= 1 && len(ns) <= MaxKVNamespace
	for i := 0; ok && i < len(ns); i++ {
		c := ns[i]
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', i == 0 && c == format.InternalNamespace:
		case i > 0 && (c == '.' || c == '_' || c == '-'):
		default:
			ok = false
		}
	}
	if !ok {
		return errBad("ns", "64 characters of a-z 0-9 . _ -, the first a letter or digit", "not a namespace")
	}
	return nil
}

func checkKey(field, key string) *Error {
	if key == "" || len(key) > MaxKVKey || strings.IndexByte(key, 0) >= 0 {
		return errBad(field, "1 to 512 bytes, no NUL", "not a key")
	}
	return nil
}

func finite(n format.Number) bool {
	return n.Kind != format.FloatNumber || !math.IsNaN(n.Float) && !math.IsInf(n.Float, 0)
}

// compactJSON checks a value and copies it without the space between its tokens.
func compactJSON(ns string, text []byte) ([]byte, *Error) {
	out, ok := value.Compact(text)
	if !ok {
		return nil, errBad("value", "", "the value is not JSON")
	}
	limit, said := format.MaxKVValue, "64 KiB"
	if ns[0] == format.InternalNamespace {
		limit, said = format.MaxKVInternal, "1 MiB"
	}
	if len(out) > limit {
		return nil, &Error{Code: CodeTooLarge, Field: "value", Limit: said, Message: "the value is too large"}
	}
	return out, nil
}

func checkLock(op *Lock) *Error {
	if err := checkLockName(op.Name); err != nil {
		return err
	}
	switch {
	case op.Op < format.LockAcquire || op.Op > format.LockRelease:
		return errBad("op", "", "unknown lock op")
	case len(op.Owner) > format.MaxLockOwner || !plain(op.Owner):
		return errBad("owner", "256 bytes, no control characters", "not an owner")
	case op.Limit > MaxLockSlots:
		return errBad("limit", "1024", "a lock has at most 1024 slots")
	case op.Op != format.LockRelease && op.TTL <= 0:
		return errBad("ttlSeconds", "above 0", "a permit needs a lifetime")
	case op.Op != format.LockAcquire && op.Slot >= MaxLockSlots:
		return errBad("slot", "1023", "no such slot")
	case op.Op != format.LockAcquire && (op.Token == 0 || op.Token > maxExpect):
		return errBad("token", "1 to 2^53", "a permit is named by its token")
	}
	return nil
}

func checkLockName(name string) *Error {
	if name == "" || len(name) > format.MaxLockName || !plain(name) || strings.IndexByte(name, '#') >= 0 {
		return errBad("name", "1 to 256 bytes, no control characters, no #", "not the name of a lock")
	}
	return nil
}

// plain reports valid text without control characters.
func plain(s string) bool { return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl) }
