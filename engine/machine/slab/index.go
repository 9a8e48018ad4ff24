package slab

import (
	"unsafe"

	"github.com/zeebo/xxh3"
	"queen/engine/invariants"
)

const (
	bucketSlots = 8
	bucketsPage = 1024

	// Rows per bucket before the next split. Measured: 12.0 to 12.9 bytes a row, and overflow behind at most a quarter
	// of the buckets; at 5.2 it is 13.6 to 14.3 bytes and an eighth.
	indexLoad = 6.4

	slotLink = 1 << 31 // in the handle half of the last slot: the rest is the number of an overflow bucket
)

// Index finds handles by the hash of bytes that lie elsewhere: linear hashing, so that growing splits one bucket at a
// time. Two rows may have equal hashes; the caller's match tells them apart. It is not state: rebuild it at open.
//
// A slot is {tag: 32 bits of the hash, handle}; zero is an empty slot. The tag's low bits are the bucket's address,
// so a split needs no row. A bucket is one cache line. When nine rows share one, its last slot becomes a link to an
// overflow bucket.
//
// INVARIANT: a bucket's slots are filled from the front, and an overflow bucket holds at least two rows
// (TestIndexModel).
type Index struct {
	seed     uint64
	level    uint // buckets = 1<<level + split
	split    uint32
	load     float64
	rows     int
	primary  bucketPages
	overflow bucketPages
	spare    []uint32 // overflow buckets to be used again

	// dead, if set, names rows that are deleted by a rule and not by Delete: a bucket loses them when a row is put in.
	dead func(h Handle) bool
}

type bucket [bucketSlots]uint64

type bucketPages struct {
	pages []*[bucketsPage]bucket
	used  uint32
}

func (p *bucketPages) at(i uint32) *bucket { return &p.pages[i/bucketsPage][i%bucketsPage] }

func (p *bucketPages) add() uint32 {
	if int(p.used/bucketsPage) == len(p.pages) {
		p.pages = append(p.pages, new([bucketsPage]bucket))
	}
	p.used++
	return p.used - 1
}

// NewIndex returns an empty index. The seed guards against chosen keys: keep it in the state, away from clients.
func NewIndex(seed uint64) *Index {
	x := &Index{seed: seed, load: indexLoad}
	x.primary.add()
	return x
}

// Hash is the hash that this index wants of a key: xxh3 with its seed.
func (x *Index) Hash(key []byte) uint64 { return xxh3.HashSeed(key, x.seed) }

// tagOf takes the half of the hash that the index keeps.
func tagOf(hash uint64) uint32 { return uint32(hash >> 32) }

func (x *Index) bucketOf(tag uint32) uint32 {
	b := tag & (1<<x.level - 1)
	if b < x.split {
		b = tag & (1<<(x.level+1) - 1)
	}
	return b
}

// Find returns the handle for which match holds among those with this hash, or 0. match may be called for handles
// with another hash (one in hundreds), and must compare the whole key.
func (x *Index) Find(hash uint64, match func(h Handle) bool) Handle {
	if s := x.find(tagOf(hash), match); s != nil {
		return Handle(uint32(*s))
	}
	return 0
}

// find returns the slot itself. It looks at all eight slots of a bucket without asking where they end: that is one
// cache line and no branch to guess wrong.
func (x *Index) find(tag uint32, match func(h Handle) bool) *uint64 {
	b := x.primary.at(x.bucketOf(tag))
	for {
		last := b[bucketSlots-1]
		for i, s := range b {
			if uint32(s>>32) == tag && s != 0 && s&slotLink == 0 && match(Handle(uint32(s))) {
				return &b[i]
			}
		}
		if last&slotLink == 0 {
			return nil
		}
		b = x.overflow.at(uint32(last) &^ slotLink)
	}
}

// Guess returns the first handle that Find would try for this hash, 0 for none: what a caller reads ahead by when it is
// going to look up many rows, since the misses of independent reads overlap.
func (x *Index) Guess(hash uint64) Handle {
	tag := tagOf(hash)
	for _, s := range x.primary.at(x.bucketOf(tag)) {
		if uint32(s>>32) == tag && s != 0 && s&slotLink == 0 {
			return Handle(uint32(s))
		}
	}
	return 0
}

// Insert adds a row. It does not look for an equal one. The handle must be 1..HandleMax.
func (x *Index) Insert(hash uint64, h Handle) {
	if h == 0 || h > HandleMax {
		invariants.Fail("slab: index of handle %d", h)
	}
	b := x.primary.at(x.bucketOf(tagOf(hash)))
	if x.dead != nil {
		x.sweep(b)
	}
	x.put(b, uint64(tagOf(hash))<<32|uint64(h))
	x.rows++
	x.grow()
}

// put stores a slot in a chain: in the first empty one, or in a new overflow bucket.
func (x *Index) put(root *bucket, slot uint64) {
	b := root
	for b[bucketSlots-1]&slotLink != 0 {
		b = x.overflow.at(uint32(b[bucketSlots-1]) &^ slotLink)
	}
	for i := range b {
		if b[i] == 0 {
			b[i] = slot
			return
		}
	}
	n := x.newOverflow()
	o := x.overflow.at(n)
	o[0], o[1] = b[bucketSlots-1], slot
	b[bucketSlots-1] = slotLink | uint64(n)
}

func (x *Index) newOverflow() uint32 {
	if n := len(x.spare); n > 0 {
		i := x.spare[n-1]
		x.spare = x.spare[:n-1]
		return i
	}
	return x.overflow.add()
}

// Delete removes the row with this hash and handle and says whether it was there.
func (x *Index) Delete(hash uint64, h Handle) bool {
	tag := tagOf(hash)
	hole := x.find(tag, func(other Handle) bool { return other == h })
	if hole == nil {
		return false
	}
	x.rows--
	x.remove(x.primary.at(x.bucketOf(tag)), hole)
	return true
}

// remove takes a slot out of a chain: the last row of the chain fills the hole, and an overflow bucket left with one
// row gives that row back to its parent.
func (x *Index) remove(root *bucket, hole *uint64) {
	var parent *uint64
	b := root
	for b[bucketSlots-1]&slotLink != 0 {
		parent = &b[bucketSlots-1]
		b = x.overflow.at(uint32(*parent) &^ slotLink)
	}
	last := bucketSlots - 1
	for b[last] == 0 {
		last--
	}
	*hole, b[last] = b[last], 0
	if parent != nil && last == 1 {
		n := uint32(*parent) &^ slotLink
		*parent, b[0] = b[0], 0
		x.spare = append(x.spare, n)
	}
}

// sweep takes the dead rows out of a chain. Rows counts only the living, so it does not change.
func (x *Index) sweep(root *bucket) {
	for b := root; b != nil; {
		for i := range b {
			for b[i] != 0 && b[i]&slotLink == 0 && x.dead(Handle(uint32(b[i]))) {
				x.remove(root, &b[i])
			}
		}
		last := b[bucketSlots-1]
		if b = nil; last&slotLink != 0 {
			b = x.overflow.at(uint32(last) &^ slotLink)
		}
	}
}

// grow splits one bucket if the load is above the limit.
func (x *Index) grow() {
	if float64(x.rows) <= float64(x.primary.used)*x.load || x.level == 31 {
		return
	}
	from := x.split
	x.primary.add() // its number is from + 1<<level
	bit := uint32(1) << x.level
	if x.split++; x.split == bit {
		x.level, x.split = x.level+1, 0
	}
	b := x.primary.at(from)
	old := *b
	*b = bucket{}
	for {
		n := uint32(0)
		for i, s := range old {
			switch {
			case s == 0:
			case i == bucketSlots-1 && s&slotLink != 0:
				n = uint32(s)
			case x.dead != nil && x.dead(Handle(uint32(s))):
			default:
				to := from
				if uint32(s>>32)&bit != 0 {
					to += bit
				}
				x.put(x.primary.at(to), s)
			}
		}
		if n == 0 {
			return
		}
		n &^= slotLink
		old = *x.overflow.at(n)
		*x.overflow.at(n) = bucket{}
		x.spare = append(x.spare, n)
	}
}

// Len returns the number of rows.
func (x *Index) Len() int { return x.rows }

// Bytes returns the memory held, in bytes. It does not fall when rows are deleted: rows to come use it again.
func (x *Index) Bytes() int64 {
	pages := int64(len(x.primary.pages) + len(x.overflow.pages))
	return pages*int64(unsafe.Sizeof([bucketsPage]bucket{})+8) + int64(cap(x.spare))*4
}
