package engine

import (
	"crypto/sha256"
	"encoding/binary"

	"queen/engine/clock"
	"queen/engine/format"
)

// keyTable says of keys which offset has the newest record. It holds no keys but 128 bits of a hash of each, under a seed
// that nobody outside knows: two keys of one hash are not to be expected, nor to be made.
type keyTable struct {
	seed  [16]byte
	slots []keySlot // a power of two; a free slot has no offset
	used  int
	most  int // of used
	text  []byte
}

type keySlot struct {
	hash [16]byte
	next uint64 // one more than the offset
}

// newKeyTable is empty.
func newKeyTable(random clock.Rand, most int) keyTable {
	t := keyTable{most: most}
	random.Fill(t.seed[:])
	return t
}

func (t *keyTable) hash(key []byte) [16]byte {
	t.text = append(append(t.text[:0], t.seed[:]...), key...)
	sum := sha256.Sum256(t.text)
	return [16]byte(sum[:16])
}

// slot is where a hash is, or would be.
func (t *keyTable) slot(hash *[16]byte) *keySlot {
	mask := uint64(len(t.slots) - 1)
	for i := binary.LittleEndian.Uint64(hash[:]) & mask; ; i = (i + 1) & mask {
		if s := &t.slots[i]; s.next == 0 || s.hash == *hash {
			return s
		}
	}
}

// put says that a key's newest record is at an offset, which only rise; false when there is no room for another key.
func (t *keyTable) put(key []byte, o format.Offset) bool {
	if 4*(t.used+1) > 3*len(t.slots) {
		t.grow()
	}
	hash := t.hash(key)
	s := t.slot(&hash)
	if s.next == 0 {
		if t.used == t.most {
			return false
		}
		t.used++
		s.hash = hash
	}
	s.next = uint64(o) + 1
	return true
}

func (t *keyTable) grow() {
	old := t.slots
	t.slots = make([]keySlot, max(2*len(old), 1024))
	for i := range old {
		if old[i].next != 0 {
			*t.slot(&old[i].hash) = old[i]
		}
	}
}

// isOld says that a later record of the key is known.
func (t *keyTable) isOld(key []byte, o format.Offset) bool {
	if len(t.slots) == 0 {
		return false
	}
	hash := t.hash(key)
	return t.slot(&hash).next > uint64(o)+1
}

// clear empties the table for another partition. A large one is not kept for small ones.
func (t *keyTable) clear() {
	if len(t.slots) > 4096 && 8*t.used < len(t.slots) {
		t.slots = nil
	}
	clear(t.slots)
	t.used = 0
}
