package format

import "encoding/binary"

// IDRow says that a partition has stored a message with a caller's id: where, and when.
type IDRow struct {
	Partition PartitionID
	Hash      IDHash
	Offset    Offset
	Place     Place
	W         Wall
}

// IDSpread is what id runs are sorted by first: a number that mixes a partition into an id's hash. The halves of the
// hash are random and secret (a keyed hash), so the numbers of any set of ids lie evenly over all 64 bits, whatever
// callers choose; then sorting, merging and finding are arithmetic instead of comparisons.
func IDSpread(pid PartitionID, h *IDHash) uint64 {
	high, low := hashHalves(h)
	return high ^ low ^ spreadOf(pid)
}

func spreadOf(pid PartitionID) uint64 { return uint64(pid) * 0x9e3779b97f4a7c15 }

// Spread is IDSpread of the row.
func (r *IDRow) Spread() uint64 { return IDSpread(r.Partition, &r.Hash) }

// Less orders by spread, partition, hash (its low half decides) and offset: rows of one id lie side by side, the
// newest last.
func (r *IDRow) Less(o *IDRow) bool {
	if a, b := r.Spread(), o.Spread(); a != b {
		return a < b
	}
	if r.Partition != o.Partition {
		return r.Partition < o.Partition
	}
	if a, b := binary.BigEndian.Uint64(r.Hash[8:]), binary.BigEndian.Uint64(o.Hash[8:]); a != b {
		return a < b
	}
	return r.Offset < o.Offset
}

func hashHalves(h *IDHash) (uint64, uint64) {
	return binary.BigEndian.Uint64(h[:8]), binary.BigEndian.Uint64(h[8:])
}
