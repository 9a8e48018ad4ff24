package enginetest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"queen/engine"
	"queen/engine/format"
)

// permit is the key of one slot of a lock: a permit is exactly one KV row (S-lock-10).
func permit(t format.Tenant, name string, slot uint32) kvKey {
	return kvKey{t, format.LockNamespace, fmt.Sprintf("%s#%d", name, slot)}
}

// permitValue is the JSON text of a permit's row.
func permitValue(owner string, since format.Wall) []byte {
	who := "null"
	if owner != "" { // without control characters
		who = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(owner) + `"`
	}
	at := time.UnixMicro(int64(since)).UTC().Format("2006-01-02T15:04:05.000000Z")
	return fmt.Appendf(nil, `{"owner":%s,"since":"%s"}`, who, at)
}

func (s *state) grant(k kvKey, owner string, since format.Wall, ttl time.Duration) *kvRow {
	return s.kvSet(k, kvRow{value: permitValue(owner, since), owner: owner, since: since,
		expires: s.w + format.Wall(max(micros(ttl), 1000))})
}

// lock judges one Lock op (S-lock-1 to 7).
func (s *state) lock(t format.Tenant, op *engine.Lock) engine.LockItem {
	switch op.Op {
	case format.LockAcquire:
		return s.acquire(t, op)
	case format.LockRenew:
		k := permit(t, op.Name, op.Slot)
		row := s.kvLive(k)
		// A renew sent again by the owner comes with the token it renewed before (S-lock-5).
		resent := row != nil && op.Owner != "" && row.owner == op.Owner && op.Token < row.version
		if row == nil || row.version != op.Token && !resent {
			return s.lockLost(t, op)
		}
		return granted(s.grant(k, row.owner, row.since, op.TTL), op.Slot)
	}
	k := permit(t, op.Name, op.Slot)
	if row := s.kvLive(k); row == nil || row.version != op.Token {
		return s.lockLost(t, op)
	}
	s.kvDrop(k)
	return engine.LockItem{Granted: true, Slot: op.Slot}
}

func (s *state) acquire(t format.Tenant, op *engine.Lock) engine.LockItem {
	limit := max(op.Limit, 1)
	free, found := uint32(0), false
	for slot := range limit {
		row := s.kvLive(permit(t, op.Name, slot))
		switch {
		case row == nil && !found:
			free, found = slot, true
		case row != nil && op.Owner != "" && row.owner == op.Owner:
			item := granted(row, slot)
			item.Already = true
			return item
		}
	}
	if !found {
		return engine.LockItem{Reason: format.LockHeld, Holders: s.holders(t, op.Name, limit)}
	}
	return granted(s.grant(permit(t, op.Name, free), op.Owner, s.w, op.TTL), free)
}

func granted(row *kvRow, slot uint32) engine.LockItem {
	return engine.LockItem{Granted: true, Slot: slot, Token: row.version, Expires: row.expires}
}

func (s *state) lockLost(t format.Tenant, op *engine.Lock) engine.LockItem {
	return engine.LockItem{Reason: format.LockLost, Slot: op.Slot, Holders: s.holders(t, op.Name, engine.MaxLockSlots)}
}

// holders lists who holds the slots below limit, by slot.
func (s *state) holders(t format.Tenant, name string, limit uint32) (out []engine.LockHolder) {
	for _, k := range s.kvKeys(func(k kvKey) bool {
		return k.tenant == t && k.ns == format.LockNamespace && strings.HasPrefix(k.key, name+"#")
	}) {
		slot, err := strconv.ParseUint(k.key[len(name)+1:], 10, 32)
		row := s.kvLive(k)
		if err != nil || row == nil || uint32(slot) >= limit {
			continue
		}
		out = append(out, engine.LockHolder{Slot: uint32(slot), Owner: row.owner, Token: row.version, Since: row.since,
			Renewed: row.updated, Expires: row.expires})
	}
	slices.SortFunc(out, func(a, b engine.LockHolder) int { return int(a.Slot) - int(b.Slot) })
	return out
}
