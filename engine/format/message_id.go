package format

import "encoding/binary"

// Message ids are computed, not stored: UUIDv7 whose time is floor(W in ms) and whose 74 free bits
// are, high to low, raft group (6), index (46), ordinal (22), xor the cluster's mask. The first 12
// of them are rand_a, the other 62 rand_b (RFC 9562, 5.7).
//
// INVARIANT: two messages never share an id: (raft group, index, ordinal) names one message, and the
// xor of a constant keeps different places different. TestMessageIDIsAPointer checks the way back.
const (
	idIndexBits   = 46
	idOrdinalBits = 22
	// MaxIDIndex is the highest index that an id can hold: 2,000 years at a million entries a second.
	MaxIDIndex = 1<<idIndexBits - 1
)

// MessageID is the id of the message whose ordinal is at p, in an entry stamped w. A lease id is
// made in the same way from the place of its Pop.
func MessageID(mask [10]byte, group RaftGroup, w Wall, p Place) (u UUID) {
	high := uint16(group&63)<<4 | uint16(p.Index>>(64-idOrdinalBits))&15
	low := uint64(p.Index)<<idOrdinalBits | uint64(p.Ordinal)&(MaxOrdinals-1)
	maskHigh, maskLow := idMask(mask)
	high, low = high^maskHigh, low^maskLow

	binary.BigEndian.PutUint64(u[:8], uint64(wallMillis(w))<<16|7<<12|uint64(high)<<2|low>>62)
	binary.BigEndian.PutUint64(u[8:], 2<<62|low&(1<<62-1))
	return u
}

// LeaseID is the id of the lease that the Pop at p grants.
func LeaseID(mask [10]byte, group RaftGroup, w Wall, p Place) UUID {
	return MessageID(mask, group, w, p)
}

// MillisOf is the time, in whole milliseconds, that a message id or lease id of ours was made at.
func MillisOf(u UUID) Wall { return Wall(binary.BigEndian.Uint64(u[:8])>>16) * 1000 }

// ParseMessageID is the way back. ok says that u has the form of such an id; whether it names a
// message, and whether ms is the time of that entry, only the log can say (an id where it does not
// hold is a caller's own id).
func ParseMessageID(mask [10]byte, u UUID) (group RaftGroup, ms int64, p Place, ok bool) {
	a, b := binary.BigEndian.Uint64(u[:8]), binary.BigEndian.Uint64(u[8:])
	if a>>12&15 != 7 || b>>62 != 2 {
		return 0, 0, Place{}, false
	}
	maskHigh, maskLow := idMask(mask)
	high := uint16(a>>2&0x3ff) ^ maskHigh
	low := (a<<62 | b&(1<<62-1)) ^ maskLow
	group = RaftGroup(high >> 4)
	p.Index = Index(uint64(high&15)<<(64-idOrdinalBits) | low>>idOrdinalBits)
	p.Ordinal = Ordinal(low & (MaxOrdinals - 1))
	return group, int64(a >> 16), p, group != 0 && p.Index != 0
}

// idMask is the low 74 bits of the mask, read as a big-endian number.
func idMask(mask [10]byte) (high uint16, low uint64) {
	return binary.BigEndian.Uint16(mask[:2]) & 0x3ff, binary.BigEndian.Uint64(mask[2:])
}

// wallMillis is floor(w in milliseconds), also before 1970.
func wallMillis(w Wall) int64 {
	ms := int64(w) / 1000
	if int64(w)%1000 < 0 {
		ms--
	}
	return ms
}
