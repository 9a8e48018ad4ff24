package machine

import (
	"queen/engine/format"
)

// keyHead is what a verdict looks at: the head of a row that is live, zero when there is none. Inside a check
// it may stand for a row as an earlier part of the transaction will leave it.
type keyHead struct {
	live    bool
	version uint64
	due     format.Wall
	num     format.Number
	// held says that the number's place is taken by something else: a permit's owner.
	held bool
}

// headAt reads a head; a row past its time is none (S-kv-13).
func (m *Machine) headAt(h handle) keyHead {
	if h == 0 {
		return keyHead{}
	}
	k := m.keys.Get(h)
	if k.due != 0 && m.w >= k.due {
		return keyHead{}
	}
	head := keyHead{live: true, version: k.version, due: k.due, held: k.flags&keyPermit != 0}
	if !head.held {
		head.num = format.NumberOf(format.NumberKind(k.flags>>keyKindShift), k.num)
	}
	return head
}

func (h *keyHead) result(why format.KVReason) format.KVResult {
	return format.KVResult{Reason: why, Version: h.version, Number: h.num, Expires: h.due}
}

// judgeKV decides a KV command on a head. It is the whole of the verdict: after is the head that the command
// leaves, whose version is set by whoever writes it, and differs from now iff the reason is KVApplied and the
// command writes.
func (m *Machine) judgeKV(c *format.KV, now keyHead) (after keyHead, why format.KVReason) {
	if c.HasExpect {
		switch {
		case c.Expect == 0 && now.live:
			return now, format.KVExists
		case c.Expect != 0 && !now.live:
			return now, format.KVAbsent
		case now.version != c.Expect:
			return now, format.KVVersion
		}
	}
	switch c.Op {
	case format.KVPut:
		return keyHead{live: true, due: m.lasting(c.Keep), num: c.Number}, format.KVApplied
	case format.KVDelete:
		if !now.live {
			return now, format.KVAbsent
		}
		return keyHead{}, format.KVApplied
	case format.KVIncr:
		return m.judgeIncr(c, now)
	}
	return now, format.KVApplied
}

// judgeIncr adds to a counter, which is made where there is none (S-kv-9 to 11).
func (m *Machine) judgeIncr(c *format.KV, now keyHead) (after keyHead, why format.KVReason) {
	base := format.Number{Kind: format.IntNumber}
	after = keyHead{live: true, due: m.lasting(c.Keep)}
	if now.live {
		if base, after.due = now.num, now.due; base.Kind == format.NotANumber {
			return now, format.KVType
		}
	}
	sum, ok := add(base, c.Number)
	if !ok || c.Min.Kind != format.NotANumber && compare(sum, c.Min) < 0 ||
		c.Max.Kind != format.NotANumber && compare(sum, c.Max) > 0 {
		return now, format.KVLimit
	}
	after.num = sum
	return after, format.KVApplied
}

// applyKV changes or checks one key (S-kv-4 to 14). Outside a Txn a lost required one answers
// CodePrecondition, which is all the difference it makes there.
func (m *Machine) applyKV(c *format.KV, res *format.KVResult) format.Code {
	if !c.Fits() {
		return format.CodeLimit
	}
	at := m.kvAt(c.Tenant, c.Namespace, c.Key)
	now := m.headAt(at.h)
	if !m.kvRoom(c, at, 1) {
		return format.CodeLimit
	}
	after, why := m.judgeKV(c, now)
	if why == format.KVApplied {
		after = m.writeKV(c, at, after)
	}
	*res = after.result(why)
	if why != format.KVApplied && c.Required {
		return format.CodePrecondition
	}
	return format.CodeOK
}

// kvRoom says that n more rows like this one fit.
func (m *Machine) kvRoom(c *format.KV, at keyAt, n int) bool {
	switch {
	case c.Op != format.KVPut && c.Op != format.KVIncr:
		return true
	case c.Keep == 0:
		return m.keyRoom(n, 0)
	}
	return m.keyRoom(n, at.size)
}

// writeKV carries out what judgeKV decided and returns the head with its version.
func (m *Machine) writeKV(c *format.KV, at keyAt, after keyHead) keyHead {
	switch c.Op {
	case format.KVDelete:
		m.remove(at)
		after.version = m.keyVersion // its own (S-kv-14)
	case format.KVPut, format.KVIncr:
		after.version = m.nextVersion()
		row := format.KVRow{Version: after.version, Expires: after.due, Updated: m.w, Number: after.num, JSON: c.Value}
		bytes := row.Append(m.scratch.row[:at.size])
		if c.Op == format.KVIncr {
			bytes = appendNumber(bytes, after.num)
		}
		m.write(at, bytes, keyRec{
			version: after.version, due: after.due, num: after.num.Bits(), flags: uint32(after.num.Kind) << keyKindShift,
		})
	}
	return after
}
