package frontendhttp

import (
	"fmt"
	"strings"
	"time"

	"queen/engine"
	"queen/engine/format"
)

// Limits of a KV call, and of the kv part of a transaction (S-kv-19, S-txn-13).
const (
	kvOps, kvKeys       = 256, 1024
	kvTxnOps, kvTxnKeys = 64, 256
	kvPrefixDefault     = 100
	kvPrefixMax         = 1000
)

// kvBatch is the decoded ops of one call, in order.
type kvBatch struct {
	ops []engine.KV
	// names are the ops' names as sent: putIfAbsent is a KVPut to the engine.
	names  []string
	writes bool
	keys   int
	// transaction forbids getPrefix and lowers the limits.
	transaction bool
	// held tells which keys a write of the call names.
	held map[string]bool
}

// add decodes one op.
func (b *kvBatch) add(ms jsonObject) *keyedRefusal {
	name, _ := ms.text("op")
	op, err := b.decode(name, ms)
	if err != nil {
		return err
	}
	maxKeys := kvKeys
	if b.transaction {
		maxKeys = kvTxnKeys
	}
	switch {
	case op.Kind == engine.KVGetMany:
		b.keys += len(op.Keys)
	case op.Kind == engine.KVPrefix:
		b.keys += op.Limit
	default:
		b.keys++
	}
	if b.keys > maxKeys {
		return kvBad("kv_too_many_keys", fmt.Sprintf("more than %d keys in one call", maxKeys))
	}
	if writesKey(&op) && b.repeats(&op) {
		return kvBad("kv_duplicate_key_in_call", "the call writes "+op.Key+" twice")
	}
	b.ops, b.names = append(b.ops, op), append(b.names, name)
	return nil
}

// writesKey reports an op that changes its key.
func writesKey(op *engine.KV) bool {
	return op.Kind == engine.KVPut || op.Kind == engine.KVDelete || op.Kind == engine.KVIncr
}

// repeats notes a write and reports that an op before it writes the same key. There is no table until a second one writes.
func (b *kvBatch) repeats(op *engine.KV) bool {
	if !b.writes {
		b.writes = true
		return false
	}
	name := func(op *engine.KV) string { return op.Namespace + "\x00" + op.Key }
	if b.held == nil {
		b.held = map[string]bool{}
		for i := range b.ops {
			if writesKey(&b.ops[i]) {
				b.held[name(&b.ops[i])] = true
			}
		}
	}
	was := b.held[name(op)]
	b.held[name(op)] = true
	return was
}

func (b *kvBatch) decode(name string, ms jsonObject) (op engine.KV, bad *keyedRefusal) {
	if ms.has("tenant") || ms.has("tenantId") {
		return op, kvBad("kv_tenant_not_an_input", "the tenant comes from the credentials")
	}
	if op.Namespace, bad = kvNamespace(ms, "ns"); bad != nil {
		return op, bad
	}
	switch name {
	case "get":
		op.Kind = engine.KVGet
		op.Key, bad = kvKey(ms.text("key"))
	case "getMany":
		bad = decodeGetMany(&op, ms)
	case "getPrefix":
		if b.transaction {
			return op, kvBad("kv_get_prefix_not_allowed_in_transaction", "getPrefix is not allowed in a transaction")
		}
		bad = decodePrefix(&op, ms)
	case "put", "putIfAbsent", "delete", "incr", "check":
		bad = decodeKVWrite(&op, name, ms)
	default:
		return op, kvBad("kv_unknown_op", "unknown op "+name)
	}
	return op, bad
}

func decodeGetMany(op *engine.KV, ms jsonObject) *keyedRefusal {
	op.Kind = engine.KVGetMany
	keys, err := stringList(ms.get("keys"))
	if err != nil || len(keys) == 0 {
		return kvBad("kv_bad_request", "keys must be a non-empty array of strings")
	}
	for _, k := range keys {
		if _, bad := kvKey(k, true); bad != nil {
			return bad
		}
	}
	op.Keys = keys
	return nil
}

func decodePrefix(op *engine.KV, ms jsonObject) *keyedRefusal {
	op.Kind = engine.KVPrefix
	var ok bool
	if op.Key, ok = ms.text("prefix"); !ok || op.Key == "" {
		return kvBad("kv_prefix_required", "prefix must be a non-empty string")
	}
	if len(op.Key) > engine.MaxKVKey {
		return kvBad("kv_bad_key", "prefix exceeds 512 bytes")
	}
	if op.After, ok = ms.textOr("after", ""); !ok {
		return kvBad("kv_bad_key", "after must be a string")
	}
	op.Limit = kvPrefixDefault
	if raw := ms.get("limit"); !absent(raw) {
		n, ok := wholeNumber(raw)
		if !ok {
			return kvBad("kv_bad_request", "limit must be an integer")
		}
		op.Limit = int(min(max(n, 1), kvPrefixMax))
	}
	if op.KeysOnly, ok = ms.truth("keysOnly"); !ok {
		return kvBad("kv_bad_request", "keysOnly must be true or false")
	}
	if op.Snapshot, ok = ms.textOr("snapshot", ""); !ok {
		return kvBad("kv_bad_request", "snapshot must be a string: new, or what the first page answered")
	}
	return nil
}

// decodeKVWrite reads the ops that write, and check.
func decodeKVWrite(op *engine.KV, name string, ms jsonObject) (bad *keyedRefusal) {
	if op.Key, bad = kvKey(ms.text("key")); bad != nil {
		return bad
	}
	var ok bool
	if op.Required, ok = ms.truth("required"); !ok {
		return kvBad("kv_bad_request", "required must be true or false")
	}
	if bad = kvExpect(op, name, ms); bad != nil {
		return bad
	}
	switch name {
	case "delete":
		op.Kind = engine.KVDelete
		return nil
	case "check":
		op.Kind = engine.KVCheck
		return nil
	case "incr":
		op.Kind = engine.KVIncr
		if bad = kvCounter(op, ms); bad != nil {
			return bad
		}
	default:
		op.Kind = engine.KVPut
		raw := ms.get("value")
		if raw == nil {
			return kvBad("kv_bad_request", "value is missing")
		}
		if op.Value = compact(raw); len(op.Value) > engine.MaxKVValue {
			return tooLarge("kv_value_too_large", "value exceeds 65536 bytes of compact JSON")
		}
	}
	return kvExpiry(op, ms)
}

func kvExpect(op *engine.KV, name string, ms jsonObject) *keyedRefusal {
	raw := ms.get("expect")
	switch {
	case name == "putIfAbsent" && raw == nil:
		op.HasExpect = true
		return nil
	case raw == nil && name == "check":
		return kvBad("kv_bad_expect", "check needs expect")
	case raw == nil:
		return nil
	case name == "putIfAbsent" || name == "incr":
		return kvBad("kv_bad_expect", name+" takes no expect")
	}
	n, ok := wholeNumber(raw)
	if !ok || n < 0 {
		return kvBad("kv_bad_expect", "expect must be an integer of 0 or more")
	}
	op.HasExpect, op.Expect = true, uint64(n)
	return nil
}

func kvCounter(op *engine.KV, ms jsonObject) *keyedRefusal {
	var ok bool
	if op.Delta, ok = number(ms.get("delta")); !ok {
		return kvBad("kv_bad_request", "delta must be a number")
	}
	for _, bound := range []struct {
		key string
		to  *format.Number
	}{{"min", &op.Min}, {"max", &op.Max}} {
		if raw := ms.get(bound.key); !absent(raw) {
			if *bound.to, ok = number(raw); !ok {
				return kvBad("kv_bad_request", bound.key+" must be a number")
			}
		}
	}
	return nil
}

// maxSeconds bounds lifetimes, a thousand years: beyond it microseconds overflow.
const maxSeconds = 1000 * 366 * 86400

// kvExpiry reads exactly one of ttlSeconds and forever (S-kv-12).
func kvExpiry(op *engine.KV, ms jsonObject) *keyedRefusal {
	forever, ok := ms.truth("forever")
	if !ok {
		return kvBad("kv_bad_ttl", "forever must be true or false")
	}
	ttl := ms.get("ttlSeconds")
	if absent(ttl) != forever {
		return kvBad("kv_expiry_not_specified", "exactly one of ttlSeconds and forever is needed")
	}
	if forever {
		return nil
	}
	n, ok := wholeNumber(ttl)
	if !ok || n <= 0 || n > maxSeconds {
		return kvBad("kv_bad_ttl", "ttlSeconds must be an integer above 0, and at most 1000 years")
	}
	op.Keep = seconds(n)
	return nil
}

// seconds is saturated: the longest duration is 292 years.
func seconds(n int64) time.Duration {
	const longest = int64(1<<63-1) / int64(time.Second)
	return time.Duration(min(n, longest)) * time.Second
}

func kvNamespace(ms jsonObject, key string) (string, *keyedRefusal) {
	ns, ok := ms.text(key)
	if !ok || !validNamespace(ns) {
		return "", kvBad("kv_bad_namespace", key+" must match ^[a-z0-9][a-z0-9._-]{0,63}$")
	}
	return ns, nil
}

func validNamespace(ns string) bool {
	if len(ns) == 0 || len(ns) > engine.MaxKVNamespace {
		return false
	}
	for i := range len(ns) {
		c := ns[i]
		letter := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || c != '.' && c != '_' && c != '-') {
			return false
		}
	}
	return true
}

func kvKey(key string, ok bool) (string, *keyedRefusal) {
	switch {
	case !ok || key == "":
		return "", kvBad("kv_bad_key", "key must be a string of 1 to 512 bytes")
	case len(key) > engine.MaxKVKey:
		return "", tooLarge("kv_key_too_large", "key exceeds 512 bytes")
	case strings.IndexByte(key, 0) >= 0:
		return "", kvBad("kv_bad_key", "key must not contain NUL")
	}
	return key, nil
}
