package rows

import (
	"fmt"
	"slices"
	"sort"

	"queen/engine/format"
)

// chunkRows is how many rows are allocated, and linked, at a time.
const chunkRows = 2048

// rowChunk is a stretch of rows. links is nil until the chunk is full and Compact has come to it; it is
// guarded by the index's lock, rows below the next number never change.
type rowChunk struct {
	rows  [chunkRows]memRow
	links *[chunkRows]link
}

// memRow is a Row without pointers, so that the collector never walks the millions of them; the
// rare refused bitmaps lie beside, by row number.
type memRow struct {
	partition    format.PartitionID
	base         format.Offset
	prev         uint64
	w            format.Wall
	index        format.Index
	first        format.Ordinal
	segment, pos uint32
	off, length  uint32
	count, kept  uint32
	flags        Flags
}

// link leads down the partition's chain of rows by more than one step: jump is a number relative to
// the row's own, 0 for none, chosen by the heights of two rows so that any row of a chain is reached
// in a logarithm of its length (skew-binary skipping). Nothing is sorted or moved for it. Adding a row
// reads no other one, since that would cost apply three cache misses a frame; look-ups walk the last
// rows, which are not linked yet, one by one.
type link struct{ jump, height uint32 }

func (r *memRow) end() format.Offset { return r.base + format.Offset(r.kept) }

// memory holds the rows of segments that are not index-closed, in row number order. Numbers are
// dense: row n lies in chunk (n-first)/chunkRows.
type memory struct {
	first   uint64 // number of the first row of chunks[0], 1 modulo chunkRows
	next    uint64 // number the next row will have
	floor   uint64 // rows below it are in files
	chunks  []*rowChunk
	refused []refusedRow
	starts  []segmentStart
	last    map[format.PartitionID]uint64 // newest row of each partition, while rows are recovered
}

type refusedRow struct {
	number uint64
	bits   []byte
}

// segmentStart says that rows from number on are of the segment, up to the next start.
type segmentStart struct {
	segment uint32
	number  uint64
}

func newMemory(next uint64) memory {
	return memory{first: (next-1)/chunkRows*chunkRows + 1, next: next, floor: next}
}

func (m *memory) at(number uint64) *memRow {
	i := number - m.first
	return &m.chunks[i/chunkRows].rows[i%chunkRows]
}

// jump returns the row that a link leads to from n, n itself when there is none in memory.
func (m *memory) jump(n uint64) uint64 {
	i := n - m.first
	links := m.chunks[i/chunkRows].links
	if links == nil {
		return n
	}
	if to := n - uint64(links[i%chunkRows].jump); m.holds(to) {
		return to
	}
	return n
}

// holds reports whether a row number leads to a row in memory.
func (m *memory) holds(number uint64) bool { return number >= m.floor && number < m.next }

// add takes the row with number next. A gap would put every later row in a wrong place, so it ends
// the process.
//
// INVARIANT: row numbers are dense (checked here).
func (m *memory) add(r *Row) {
	if r.Number != m.next {
		panic(fmt.Sprintf("rows: row %d added where %d is due", r.Number, m.next))
	}
	if (r.Number-m.first)/chunkRows == uint64(len(m.chunks)) {
		m.chunks = append(m.chunks, new(rowChunk))
	}
	*m.at(r.Number) = memRow{
		partition: r.Partition, base: r.Base, prev: r.Prev, w: r.W, index: r.Index, first: r.First,
		segment: r.Segment, pos: r.Pos, off: r.Off, length: r.Len, count: r.Count, kept: r.Kept,
		flags: r.Flags,
	}
	if r.Refused != nil {
		m.refused = append(m.refused, refusedRow{r.Number, slices.Clone(r.Refused)})
	}
	if k := len(m.starts); k == 0 || m.starts[k-1].segment != r.Segment {
		m.starts = append(m.starts, segmentStart{r.Segment, r.Number})
	}
	m.next++
}

// recover takes a row made again from the log, which does not know the one before it.
func (m *memory) recover(r *Row) {
	if m.last == nil {
		m.last = map[format.PartitionID]uint64{}
	}
	row := *r
	if prev, ok := m.last[r.Partition]; ok {
		row.Prev = prev
	} else if row.Prev = PrevUnknown; r.Base == 0 {
		row.Prev = 0
	}
	m.add(&row)
	m.last[r.Partition] = r.Number
}

func (m *memory) row(number uint64) Row {
	r := m.at(number)
	out := r.row(number)
	if r.flags&Partial != 0 {
		out.Refused = m.bits(number)
	}
	return out
}

func (r *memRow) row(number uint64) Row {
	return Row{
		Partition: r.partition, Base: r.base, Number: number, Prev: r.prev, W: r.w, Index: r.index,
		First: r.first, Segment: r.segment, Pos: r.pos, Off: r.off, Len: r.length, Count: r.count,
		Kept: r.kept, Flags: r.flags,
	}
}

func (m *memory) bits(number uint64) []byte {
	i := sort.Search(len(m.refused), func(i int) bool { return m.refused[i].number >= number })
	if i == len(m.refused) || m.refused[i].number != number {
		return nil
	}
	return m.refused[i].bits
}

// lowest returns the lowest row of the chain from newest, which is in memory, that ends above from;
// ok is false when there is none.
func (m *memory) lowest(newest uint64, from format.Offset) (n uint64, ok bool) {
	n = newest
	r := m.at(n)
	if r.end() <= from {
		return 0, false
	}
	for r.base > from {
		if a := m.jump(n); a != n && m.at(a).end() > from {
			n = a
		} else if m.holds(r.prev) && m.at(r.prev).end() > from {
			n = r.prev
		} else {
			break
		}
		r = m.at(n)
	}
	return n, true
}

// highest returns the highest row of the chain from newest, which is in memory, that begins below to;
// ok is false when there is none in memory.
func (m *memory) highest(newest uint64, to format.Offset) (n uint64, ok bool) {
	n = newest
	for r := m.at(n); r.base >= to; r = m.at(n) {
		if a := m.jump(n); a != n && m.at(a).base >= to {
			n = a
		} else if m.holds(r.prev) {
			n = r.prev
		} else {
			return 0, false
		}
	}
	return n, true
}

// after returns the number after the segment's last row in memory, or the floor if it has none.
func (m *memory) after(segment uint32) uint64 {
	for i := len(m.starts) - 1; i >= 0; i-- {
		if m.starts[i].segment == segment {
			if i+1 < len(m.starts) {
				return m.starts[i+1].number
			}
			return m.next
		}
	}
	return m.floor
}

// drop forgets rows below number, which files hold from now on. Chunks wholly below go.
func (m *memory) drop(number uint64) {
	if number <= m.floor {
		return
	}
	m.floor = number
	m.refused = slices.Delete(m.refused, 0, sort.Search(len(m.refused), func(i int) bool {
		return m.refused[i].number >= number
	}))
	k := 0
	for k+1 < len(m.starts) && m.starts[k+1].number <= number {
		k++
	}
	if k < len(m.starts) && number == m.next {
		k++
	}
	m.starts = slices.Delete(m.starts, 0, k)
	gone := (number - m.first) / chunkRows
	m.chunks = slices.Delete(m.chunks, 0, int(gone))
	m.first += gone * chunkRows
}
