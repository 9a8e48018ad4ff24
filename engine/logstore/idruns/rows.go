package idruns

import (
	"queen/engine/format"
)

// Rows are the ids of one chunk, in any order. They do not change as long as a Set may look at them: until the Add
// that ends their group of chunks has returned nil.
type Rows interface {
	// Len is how many there are, below 2^30.
	Len() int
	// Row fills r with row i.
	Row(i int, r *format.IDRow)
	// Touch brings row i into the processor's cache; what it returns means nothing.
	Touch(i int) uint64
}

// Slice is Rows in a slice.
type Slice []format.IDRow

// Len implements Rows.
func (s Slice) Len() int { return len(s) }

// Row implements Rows.
func (s Slice) Row(i int, r *format.IDRow) { *r = s[i] }

// Touch implements Rows.
func (s Slice) Touch(i int) uint64 { return uint64(s[i].Partition) ^ uint64(s[i].W) }

// pending is the chunks since ClearTo, whose group is not complete.
type pending []Rows

// partBits leave room for the rows of a chunk beside the chunk's number in a group.
const partBits = 30

func (p pending) row(at uint32, r *format.IDRow) { p[at>>partBits].Row(int(at&(1<<partBits-1)), r) }

// gather fills rows with those of refs. Each is a cache miss, so they are touched first: a loop that does nothing else
// has many misses under way at a time.
func (p pending) gather(rows []format.IDRow, refs []ref) (touched uint64) {
	for i := range refs {
		at := refs[i].at
		touched += p[at>>partBits].Touch(int(at & (1<<partBits - 1)))
	}
	for i := range refs {
		p.row(refs[i].at, &rows[i])
	}
	return touched
}

// rows counts all.
func (p pending) rows() (n int) {
	for _, part := range p {
		n += part.Len()
	}
	return n
}

// each gives every row with its number.
func (p pending) each(do func(at uint32, r *format.IDRow)) {
	var r format.IDRow
	for k, part := range p {
		for i := range part.Len() {
			part.Row(i, &r)
			do(uint32(k)<<partBits|uint32(i), &r)
		}
	}
}
