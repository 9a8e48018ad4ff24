package format

import (
	"encoding/binary"

	"github.com/dchest/siphash"
	"github.com/zeebo/xxh3"
)

// HashID is the keyed hash under which a caller's transactionId is stored and looked up
// (SipHash-2-4-128; both halves little-endian, first half first). It never allocates.
func HashID(key [16]byte, transactionID []byte) (h IDHash) {
	k0, k1 := binary.LittleEndian.Uint64(key[:8]), binary.LittleEndian.Uint64(key[8:])
	a, b := siphash.Hash128(k0, k1, transactionID)
	binary.LittleEndian.PutUint64(h[:8], a)
	binary.LittleEndian.PutUint64(h[8:], b)
	return h
}

// PayloadSum is the digest of a stored frame that stands in the id region: xxh3-64 of the frame
// without its first ordinal, which is known only when the entry is packed.
func PayloadSum(frame []byte) uint64 { return xxh3.Hash(frame[frameSumFrom:]) }
