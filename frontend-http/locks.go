package frontendhttp

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"queen/engine"
	"queen/engine/auth"
	"queen/engine/format"
)

// Limits of a call (S-lock-11).
const (
	lockOps     = 64
	lockSlots   = 4096
	lockGetCost = 1000
	maxLockName = 256
	maxToken    = 1 << 53 // no version is higher
)

func lockRoutes() []*route {
	return []*route{{Method: "POST", Path: "/api/v1/locks", Access: readWrite, Mark: common,
		Summary: "Acquire, renew, release and look at locks and semaphores.", Request: "LockCall",
		Response: "LockResults", Status: 200, Errors: familyKV, Op: "locks", Handle: locks}}
}

// lockBatch is the decoded ops of one call.
type lockBatch struct {
	names []string // acquire, renew, release, get
	ops   []engine.Lock
	slots int
	seen  map[string]bool
}

// locks answers POST /api/v1/locks: the ops are independent of each other.
func locks(c *call) error {
	b := lockBatch{seen: map[string]bool{}}
	err := operations(c.body(), lockOps, func(kind, detail string) error {
		if kind == "many" {
			return locksBad("locks_too_many_ops", detail)
		}
		return locksBad("locks_bad_body", detail)
	}, func(_ int, ms jsonObject) error { return orNil(b.add(ms)) })
	if err != nil {
		return err
	}
	ctx, cancel := c.deadline(writeDeadline)
	defer cancel()
	items, holders, err := c.commitLocks(ctx, &b)
	if err != nil {
		return err
	}
	o := out{c.buffer()}
	o.open('{').key("results").open('[')
	for i := range b.ops {
		o.open('{')
		o.num("index", int64(i))
		o.str("op", b.names[i])
		o.str("name", b.ops[i].Name)
		if b.names[i] == "get" {
			o.bool("held", len(holders[i]) > 0)
			o.holders(holders[i], true)
		} else {
			o.lockItem(b.names[i], &b.ops[i], &items[i])
		}
		o.close('}')
	}
	o.close(']').close('}')
	c.send(200, o.b)
	return nil
}

// commitLocks carries out what changes and reads the rest.
func (c *call) commitLocks(ctx context.Context, b *lockBatch) ([]engine.LockItem, [][]engine.LockHolder, error) {
	items := make([]engine.LockItem, len(b.ops))
	holders := make([][]engine.LockHolder, len(b.ops))
	var ops []engine.Op
	var at, gets []int
	var names []string
	for i := range b.ops {
		if b.names[i] == "get" {
			gets, names = append(gets, i), append(names, b.ops[i].Name)
			continue
		}
		at, ops = append(at, i), append(ops, &b.ops[i])
	}
	if err := c.chargeLocks(b); err != nil {
		return nil, nil, err
	}
	if len(ops) > 0 {
		results, err := c.engine.Do(ctx, c.caller, engine.Batch{Ops: ops})
		if err != nil {
			return nil, nil, err
		}
		for k, i := range at {
			if e := results[k].Err; e != nil {
				return nil, nil, e
			}
			items[i] = results[k].Lock
		}
	}
	if len(names) > 0 {
		found, err := c.engine.Keyed().Locks(ctx, c.caller, names)
		if err != nil {
			return nil, nil, err
		}
		for k, i := range gets {
			holders[i] = found[k]
		}
	}
	return items, holders, nil
}

// chargeLocks takes what a call costs from the rates of the key-value store. A release, like every delete, is never refused
// for a quota (S-kv-21).
func (c *call) chargeLocks(b *lockBatch) error {
	switch {
	case slices.Contains(b.names, "acquire") || slices.Contains(b.names, "renew"):
		return c.charge(auth.KVWrites, 1)
	case slices.Contains(b.names, "get"):
		return c.charge(auth.KVReads, 1)
	}
	return nil
}

func (o *out) holders(hs []engine.LockHolder, whole bool) {
	o.key("holders").open('[')
	for i := range hs {
		h := &hs[i]
		o.open('{')
		o.count("slot", uint64(h.Slot))
		o.strOrNull("owner", h.Owner)
		if whole {
			o.count("token", h.Token)
			o.time("since", h.Since)
			o.time("renewedAt", h.Renewed)
			o.time("expiresAt", h.Expires)
		}
		o.close('}')
	}
	o.close(']')
}

// verdicts are the words for an op that took place.
var lockVerdicts = map[string]string{"acquire": "acquired", "renew": "renewed", "release": "released"}

func (o *out) lockItem(name string, op *engine.Lock, it *engine.LockItem) {
	o.bool(lockVerdicts[name], it.Granted)
	if !it.Granted {
		o.str("reason", kvReasons[it.Reason])
		if name != "acquire" {
			o.count("slot", uint64(op.Slot))
		}
		o.holders(it.Holders, false)
		return
	}
	o.count("slot", uint64(it.Slot))
	if name == "release" {
		return
	}
	o.count("token", it.Token)
	if name == "acquire" {
		o.strOrNull("owner", op.Owner)
		if it.Already {
			o.bool("already", true)
		}
	}
	o.key("guard").open('{')
	o.str("op", "check")
	o.str("ns", format.LockNamespace)
	o.str("key", op.Name+"#"+strconv.FormatUint(uint64(it.Slot), 10))
	o.count("expect", it.Token)
	o.bool("required", true)
	o.close('}')
	o.time("expiresAt", it.Expires)
}

// add decodes one op.
func (b *lockBatch) add(ms jsonObject) *keyedRefusal {
	if ms.has("tenant") || ms.has("tenantId") {
		return locksBad("locks_tenant_not_an_input", "the tenant comes from the credentials")
	}
	name, _ := ms.text("op")
	op := engine.Lock{Limit: 1}
	switch name {
	case "acquire":
		op.Op = format.LockAcquire
	case "renew":
		op.Op = format.LockRenew
	case "release":
		op.Op = format.LockRelease
	case "get":
	default:
		return locksBad("locks_unknown_op", "unknown op "+name)
	}
	var ok bool
	if op.Name, ok = ms.text("name"); !ok || op.Name == "" || len(op.Name) > maxLockName || strings.Contains(op.Name, "#") ||
		hasControl(op.Name) {
		return locksBad("locks_bad_name", "name must be 1 to 256 bytes without control characters or #")
	}
	if bad := b.fields(name, &op, ms); bad != nil {
		return bad
	}
	if b.seen[op.Name] {
		return locksBad("locks_duplicate_in_call", "the call names lock "+op.Name+" twice")
	}
	b.seen[op.Name] = true
	switch name {
	case "get":
		b.slots += lockGetCost
	default:
		b.slots += int(op.Limit)
	}
	if b.slots > lockSlots {
		return locksBad("locks_too_many_keys", fmt.Sprintf("the call names more than %d slots", lockSlots))
	}
	b.ops, b.names = append(b.ops, op), append(b.names, name)
	return nil
}

// fields reads what the op needs besides its name.
func (b *lockBatch) fields(name string, op *engine.Lock, ms jsonObject) *keyedRefusal {
	if name == "get" {
		return nil
	}
	var ok bool
	if op.Owner, ok = ms.textOr("owner", ""); !ok || len(op.Owner) > maxLockName || hasControl(op.Owner) {
		return locksBad("locks_bad_owner", "owner must be a string of at most 256 bytes without control characters")
	}
	if raw := ms.get("forever"); !absent(raw) && string(raw) != "false" {
		return locksBad("locks_bad_ttl", "a lock is never held forever: ttlSeconds says how long")
	}
	if name != "release" {
		raw := ms.get("ttlSeconds")
		if absent(raw) {
			return locksBad("locks_ttl_required", "ttlSeconds is required")
		}
		n, ok := wholeNumber(raw)
		if !ok || n <= 0 || n > maxSeconds {
			return locksBad("locks_bad_ttl", "ttlSeconds must be an integer above 0, and at most 1000 years")
		}
		op.TTL = seconds(n)
	}
	if name == "acquire" {
		return lockLimit(op, ms)
	}
	raw := ms.get("token")
	if absent(raw) {
		return locksBad("locks_token_required", "token is required")
	}
	n, ok := wholeNumber(raw)
	if !ok || n <= 0 || n > maxToken {
		return locksBad("locks_bad_token", "token must be an integer from 1 to 2^53")
	}
	op.Token = uint64(n)
	if raw := ms.get("slot"); !absent(raw) {
		if n, ok = wholeNumber(raw); !ok || n < 0 || n >= engine.MaxLockSlots {
			return locksBad("locks_bad_slot", "slot must be an integer from 0 to 1023")
		}
		op.Slot = uint32(n)
	}
	return nil
}

func lockLimit(op *engine.Lock, ms jsonObject) *keyedRefusal {
	raw := ms.get("limit")
	if absent(raw) {
		return nil
	}
	n, ok := wholeNumber(raw)
	if !ok || n < 1 || n > engine.MaxLockSlots {
		return locksBad("locks_bad_limit", "limit must be an integer from 1 to 1024")
	}
	op.Limit = uint32(n)
	return nil
}

func hasControl(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			return true
		}
	}
	return false
}
