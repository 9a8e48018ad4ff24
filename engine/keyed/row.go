package keyed

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Row is one change or one entry. A tombstone says that the key is gone; it must be kept and
// flushed even for a key that the store never held (see Overlay).
type Row struct {
	Key       []byte
	Value     []byte
	Tombstone bool
}

// How a value lies in badger. The kind is badger's user-meta byte.
//
//	kind 1, whole: | crc32c of key‖value : 4 | value |
//	kind 2, head:  | crc32c of key‖value : 4 | value length : 4 | first wholeBytesMax of value |
//	kind 3, tail:  | crc32c of tail key‖part : 4 | rest of value |
//
// Values above wholeBytesMax are cut in two because badger moves a value at or above its
// ValueThreshold (at most 1 MiB) to the value log, whose sync errors it only logs and whose garbage
// nobody collects here. The tail's key is family 0xff followed by the SHA-256 of the row's key: the
// row's key itself may already have the longest length there is.
//
// INVARIANT: the head's checksum covers the whole value, so a tail of another value is never joined
// (joinHead; TestCutValue). Their versions may differ: a flush can be cut between the two, and if the
// next checkpoints lie before and behind it, its half stays visible beside the older other half. Both
// halves are then of the same value, or the key would have changed and both been written again.
const (
	rowWhole byte = 1
	rowHead  byte = 2
	rowTail  byte = 3

	wholeBytesMax = 768 << 10
	headHeader    = 8
	tailKeyBytes  = 1 + sha256.Size
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func rowChecksum(key, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
}

// tailKey returns the key under which the second part of key's value lies.
func tailKey(key []byte) (tk [tailKeyBytes]byte) {
	tk[0] = byte(familyTail)
	sum := sha256.Sum256(key)
	copy(tk[1:], sum[:])
	return tk
}

// encodeWhole returns a stored value of kind rowWhole or rowTail.
func encodeWhole(key, value []byte) []byte {
	b := make([]byte, 0, 4+len(value))
	b = binary.LittleEndian.AppendUint32(b, rowChecksum(key, value))
	return append(b, value...)
}

// encodeHead returns the first part of a value longer than wholeBytesMax.
func encodeHead(key, value []byte) []byte {
	b := make([]byte, 0, headHeader+wholeBytesMax)
	b = binary.LittleEndian.AppendUint32(b, rowChecksum(key, value))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(value)))
	return append(b, value[:wholeBytesMax]...)
}

// decodeWhole checks a stored value of kind rowWhole or rowTail and returns the value inside it.
func decodeWhole(key, stored []byte) ([]byte, error) {
	if len(stored) < 4 {
		return nil, corruptRow(key, "value of %d bytes has no checksum", len(stored))
	}
	value := stored[4:]
	return value, checkRow(key, value, binary.LittleEndian.Uint32(stored))
}

func checkRow(key, value []byte, want uint32) error {
	if got := rowChecksum(key, value); got != want {
		return corruptRow(key, "checksum %#08x, want %#08x", got, want)
	}
	return nil
}

// joinHead puts a cut value together again. The result is the caller's.
func joinHead(key, head, tail []byte) ([]byte, error) {
	if len(head) != headHeader+wholeBytesMax {
		return nil, corruptRow(key, "head of %d bytes", len(head))
	}
	length := binary.LittleEndian.Uint32(head[4:])
	if int64(length) != int64(wholeBytesMax+len(tail)) {
		return nil, corruptRow(key, "head says %d bytes, head and tail have %d", length, wholeBytesMax+len(tail))
	}
	value := make([]byte, 0, length)
	value = append(append(value, head[headHeader:]...), tail...)
	return value, checkRow(key, value, binary.LittleEndian.Uint32(head))
}

var errRowKind = fmt.Errorf("%w of a row", ErrFormat)
