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
}

// Slice is Rows in a slice.
type Slice []format.IDRow

// Len implements Rows.
func (s Slice) Len() int { return len(s) }

// Row implements Rows.
func (s Slice) Row(i int, r *format.IDRow) { *r = s[i] }

// pending is the chunks since ClearTo, whose group is not complete.
type pending []Rows

// partBits leave room for the rows of a chunk beside the chunk's number in a group.
const partBits = 30

func (p pending) row(at uint32, r *format.IDRow) { p[at>>partBits].Row(int(at&(1<<partBits-1)), r) }

// gather fills rows with those of refs. Each is a cache miss: a loop that does nothing else has many of them under
// way at a time, which made writing a run 3 times faster.
func (p pending) gather(rows []format.IDRow, refs []ref) {
	for i := range refs {
		p.row(refs[i].at, &rows[i])
	}
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
