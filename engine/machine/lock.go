package machine

import (
	"encoding/binary"
	"strconv"
	"unicode/utf8"

	"queen/engine/format"
)

// lockAt finds the row of a slot: key name#slot of the locks' namespace.
func (m *Machine) lockAt(c *format.Lock, slot uint32) keyAt {
	row := append(append(m.row(FamilyKV), c.Tenant[:]...), format.LockNamespace...)
	row = append(append(row, 0), c.Name...)
	return m.find(strconv.AppendUint(append(row, '#'), uint64(slot), 10))
}

// ownerHash is what a permit's head keeps of its owner; 0 for one without a name.
func (m *Machine) ownerHash(owner []byte) uint64 {
	if len(owner) == 0 {
		return 0
	}
	h := format.HashID(m.genesis.HashKey, owner)
	return max(binary.LittleEndian.Uint64(h[:]), 1)
}

// owns says that the row is a live permit of a named owner.
func (m *Machine) owns(h handle, owner uint64) bool {
	if h == 0 || owner == 0 {
		return false
	}
	k := m.keys.Get(h)
	return k.flags&keyPermit != 0 && k.num == owner && m.w < k.due
}

// applyLock takes, renews or gives back one permit (S-lock-1 to 7).
func (m *Machine) applyLock(c *format.Lock, res *format.LockResult) format.Code {
	if !c.Fits() {
		return format.CodeLimit
	}
	res.Slot = c.Slot
	switch c.Op {
	case format.LockAcquire:
		return m.acquire(c, res)
	case format.LockRenew:
		return m.renew(c, res)
	}
	at := m.lockAt(c, c.Slot)
	if head := m.headAt(at.h); !head.live || head.version != c.Token {
		res.Reason = format.LockLost
		return format.CodeOK
	}
	m.remove(at)
	return format.CodeOK
}

// acquire answers the permit that this owner holds already, else takes the lowest free slot.
func (m *Machine) acquire(c *format.Lock, res *format.LockResult) format.Code {
	owner, free := m.ownerHash(c.Owner), int64(-1)
	for slot := range c.Limit {
		at := m.lockAt(c, slot)
		if m.owns(at.h, owner) {
			k := m.keys.Get(at.h)
			*res = format.LockResult{Already: true, Slot: slot, Token: k.version, Expires: k.due}
			return format.CodeOK
		}
		if head := m.headAt(at.h); !head.live && free < 0 {
			free = int64(slot)
			if owner == 0 {
				break
			}
		}
	}
	if free < 0 {
		res.Reason = format.LockHeld
		return format.CodeOK
	}
	res.Slot = uint32(free)
	return m.permit(c, m.lockAt(c, res.Slot), m.w, res)
}

// renewal is what a LockRenew comes to.
type renewal uint8

const (
	renewOK renewal = iota
	renewLost
	renewStale // the row that would be written could not name its owner
)

// judgeRenew decides a LockRenew. A stale token is carried through for the owner whose earlier renewal landed
// (S-lock-5). Owner of the command is evidence: what the proposer read in the row of that token.
func (m *Machine) judgeRenew(c *format.Lock, at keyAt) renewal {
	head := m.headAt(at.h)
	owner := m.ownerHash(c.Owner)
	switch {
	case !head.live || !head.held || head.version != c.Token && !m.owns(at.h, owner):
		return renewLost
	case m.keys.Get(at.h).num != owner:
		return renewStale
	}
	return renewOK
}

// renew gives the holder a new token and a new lifetime (S-lock-3).
func (m *Machine) renew(c *format.Lock, res *format.LockResult) format.Code {
	at := m.lockAt(c, c.Slot)
	switch m.judgeRenew(c, at) {
	case renewLost:
		res.Reason = format.LockLost
		return format.CodeOK
	case renewStale:
		return format.CodeStaleEvidence
	}
	since := c.Since
	if since <= 0 || since > m.w {
		since = m.w
	}
	return m.permit(c, at, since, res)
}

// permit writes the row of a permit.
func (m *Machine) permit(c *format.Lock, at keyAt, since format.Wall, res *format.LockResult) format.Code {
	if !m.keyRoom(1, at.size) {
		return format.CodeLimit
	}
	row := format.KVRow{
		Version: m.nextVersion(), Expires: m.lasting(c.Keep), Updated: m.w, Permit: true, Since: since, Owner: c.Owner,
	}
	bytes := row.Append(m.scratch.row[:at.size])
	bytes = append(bytes, `{"owner":`...)
	if bytes = appendOwner(bytes, c.Owner); row.Since > 0 {
		bytes = append(format.AppendISO(append(bytes, `,"since":"`...), row.Since), '"')
	}
	m.write(at, append(bytes, '}'), keyRec{
		version: row.Version, due: row.Expires, num: m.ownerHash(c.Owner), flags: keyPermit,
	})
	res.Token, res.Expires = row.Version, row.Expires
	return format.CodeOK
}

// appendOwner writes an owner as a JSON string, null for one without a name.
func appendOwner(dst, owner []byte) []byte {
	if len(owner) == 0 {
		return append(dst, "null"...)
	}
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for len(owner) > 0 {
		r, n := utf8.DecodeRune(owner)
		switch {
		case r == utf8.RuneError && n == 1:
			dst = append(dst, `\ufffd`...)
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		default:
			dst = append(dst, owner[:n]...)
		}
		owner = owner[n:]
	}
	return append(dst, '"')
}
