package format

import (
	"encoding/binary"
	"sort"
)

// IDRow says that a partition has stored a message with a caller's id: where, and when. Rows of an id
// run are sorted by (partition, hash) and about 30 bytes long, whole and exact: nothing is cut off.
type IDRow struct {
	Partition PartitionID
	Hash      IDHash
	Offset    Offset
	Place     Place
	W         Wall
}

// Less orders by partition, hash (as bytes) and offset.
func (r *IDRow) Less(o *IDRow) bool {
	if r.Partition != o.Partition {
		return r.Partition < o.Partition
	}
	if r.Hash != o.Hash {
		return hashLess(&r.Hash, &o.Hash)
	}
	return r.Offset < o.Offset
}

func hashLess(a, b *IDHash) bool {
	a0, a1 := hashHalves(a)
	b0, b1 := hashHalves(b)
	return a0 < b0 || a0 == b0 && a1 < b1
}

func hashHalves(h *IDHash) (uint64, uint64) {
	return binary.BigEndian.Uint64(h[:8]), binary.BigEndian.Uint64(h[8:])
}

// Columns of an id block.
const (
	colIDCounter = iota
	colIDGroup
	colIDHashHigh
	colIDHashLow
	colIDOffset
	colIDIndex
	colIDOrdinal
	colIDW
	idColumns
)

// IDPacker packs sorted id rows into blocks. Its zero value is ready.
type IDPacker struct{ p packer }

// Add takes the row, or returns false when the block is full: Encode it, Reset, and add again.
func (w *IDPacker) Add(r *IDRow) bool {
	w.p.columns = idColumns
	high, low := hashHalves(&r.Hash)
	return w.p.add(&packedRow{
		uint64(r.Partition >> 6), uint64(r.Partition & 63), high, low, uint64(r.Offset), uint64(r.Place.Index),
		uint64(r.Place.Ordinal), wallKey(r.W),
	}, nil)
}

// Len is the number of rows taken since Reset.
func (w *IDPacker) Len() int { return len(w.p.rows) }

// Encode writes the block into the first BlockSize bytes of dst.
func (w *IDPacker) Encode(dst []byte) { w.p.encode(dst) }

// Reset starts an empty block.
func (w *IDPacker) Reset() { w.p.reset() }

// IDBlock is a parsed block of id rows; it aliases the input.
type IDBlock struct{ p packed }

// ParseIDBlock verifies a block of exactly BlockSize bytes.
func ParseIDBlock(b []byte) (IDBlock, error) {
	p, err := parsePacked("id block", b, idColumns)
	return IDBlock{p}, err
}

// Len is the number of rows, at least 1.
func (b *IDBlock) Len() int { return b.p.rows }

// Key is partition and hash of row i.
func (b *IDBlock) Key(i int) (pid PartitionID, h IDHash) {
	binary.BigEndian.PutUint64(h[:8], b.p.get(i, colIDHashHigh))
	binary.BigEndian.PutUint64(h[8:], b.p.get(i, colIDHashLow))
	return PartitionID(b.p.get(i, colIDCounter)<<6 | b.p.get(i, colIDGroup)&63), h
}

// At fills r with row i.
func (b *IDBlock) At(i int, r *IDRow) {
	r.Partition, r.Hash = b.Key(i)
	r.Offset = Offset(b.p.get(i, colIDOffset))
	r.Place = Place{Index(b.p.get(i, colIDIndex)), Ordinal(b.p.get(i, colIDOrdinal))}
	r.W = wallOf(b.p.get(i, colIDW))
}

// Find returns the number of the first row that is not below (partition, hash); Len() when all are.
// An id stored several times has its rows side by side, in the order of their offsets.
func (b *IDBlock) Find(pid PartitionID, h IDHash) int {
	return sort.Search(b.p.rows, func(i int) bool {
		p, rh := b.Key(i)
		return p > pid || p == pid && !hashLess(&rh, &h)
	})
}
