package rows

import (
	"slices"
	"sort"

	"queen/engine/format"
)

// chunkRows is how many rows are frozen and sorted at a time.
const chunkRows = 8192

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

// run is a sorted permutation of the rows numbered lo..hi-1: positions relative to lo, ordered by
// (partition, base). Runs are immutable; merging makes a new one.
type run struct {
	lo, hi uint64
	order  []uint32
}

// memory holds the rows of segments that are not index-closed, in row number order. Numbers are
// dense: row n lies in chunk (n-first)/chunkRows.
type memory struct {
	first   uint64 // number of the first row of chunks[0], 1 modulo chunkRows
	next    uint64 // number the next row will have
	floor   uint64 // rows below it were moved to files
	chunks  []*[chunkRows]memRow
	refused map[uint64][]byte
	runs    []run  // ascending, disjoint, covering first..sorted-1 without the dropped ones
	sorted  uint64 // rows below it are in runs
}

func newMemory(next uint64) memory {
	first := (next-1)/chunkRows*chunkRows + 1
	return memory{first: first, next: next, floor: next, sorted: first, refused: map[uint64][]byte{}}
}

func (m *memory) at(number uint64) *memRow {
	i := number - m.first
	return &m.chunks[i/chunkRows][i%chunkRows]
}

func (m *memory) add(r *Row) {
	i := r.Number - m.first
	if i/chunkRows == uint64(len(m.chunks)) {
		m.chunks = append(m.chunks, new([chunkRows]memRow))
	}
	*m.at(r.Number) = memRow{
		partition: r.Partition, base: r.Base, prev: r.Prev, w: r.W, index: r.Index, first: r.First,
		segment: r.Segment, pos: r.Pos, off: r.Off, length: r.Len, count: r.Count, kept: r.Kept,
		flags: r.Flags,
	}
	if r.Refused != nil {
		m.refused[r.Number] = slices.Clone(r.Refused)
	}
	m.next = r.Number + 1
}

func (m *memory) row(number uint64) Row {
	r := m.at(number)
	out := Row{
		Partition: r.partition, Base: r.base, Number: number, Prev: r.prev, W: r.w, Index: r.index,
		First: r.first, Segment: r.segment, Pos: r.pos, Off: r.off, Len: r.length, Count: r.count,
		Kept: r.kept, Flags: r.flags,
	}
	if r.flags&Partial != 0 {
		out.Refused = m.refused[number]
	}
	return out
}

// collect appends, newest first, the rows of pid that hold offsets of [from, to). It walks the
// chain from newest through rows not sorted yet, then bisects the runs. done is true when the row
// that holds from, or the partition's first row, was reached.
func (m *memory) collect(out []Row, pid format.PartitionID, from, to format.Offset, newest uint64) (rows []Row, done bool) {
	n := newest
	for n >= m.sorted && n >= m.floor && n < m.next {
		r := m.at(n)
		if r.base < to && r.base+format.Offset(r.kept) > from {
			out = append(out, m.row(n))
		}
		if r.base <= from || r.prev == 0 {
			return out, true
		}
		n = r.prev
	}
	for i := len(m.runs) - 1; i >= 0; i-- {
		if out, done = m.collectRun(out, &m.runs[i], pid, from, to); done {
			return out, true
		}
	}
	return out, false
}

func (m *memory) collectRun(out []Row, r *run, pid format.PartitionID, from, to format.Offset) ([]Row, bool) {
	// The first position whose row is at or above (pid, to).
	k := sort.Search(len(r.order), func(i int) bool {
		row := m.at(r.lo + uint64(r.order[i]))
		return row.partition > pid || row.partition == pid && row.base >= to
	})
	for k--; k >= 0; k-- {
		number := r.lo + uint64(r.order[k])
		row := m.at(number)
		if row.partition != pid {
			return out, false
		}
		if number >= m.floor && row.base+format.Offset(row.kept) > from {
			out = append(out, m.row(number))
		}
		if row.base <= from || row.prev == 0 {
			return out, true
		}
	}
	return out, false
}

// sortable names the next chunk to sort, or the next pair of runs to merge; ok is false when there
// is nothing to do. The work itself runs without the lock: full chunks and runs never change.
func (m *memory) sortable() (job sortJob, ok bool) {
	if m.sorted+chunkRows <= m.next {
		return sortJob{lo: m.sorted, chunk: m.chunks[(m.sorted-m.first)/chunkRows]}, true
	}
	for i := len(m.runs) - 1; i > 0; i-- {
		a, b := &m.runs[i-1], &m.runs[i]
		if a.hi == b.lo && len(a.order) == len(b.order) && len(a.order) < chunkRows<<maxLevel {
			return sortJob{merge: true, at: i - 1, a: *a, b: *b}, true
		}
	}
	return sortJob{}, false
}

// maxLevel bounds runs in memory to chunkRows << maxLevel rows.
const maxLevel = 7

type sortJob struct {
	merge bool
	lo    uint64
	chunk *[chunkRows]memRow
	at    int
	a, b  run
}

func (j *sortJob) do(at func(number uint64) *memRow) run {
	if !j.merge {
		order := make([]uint32, chunkRows)
		for i := range order {
			order[i] = uint32(i)
		}
		c := j.chunk
		slices.SortFunc(order, func(x, y uint32) int { return compareRows(&c[x], &c[y]) })
		return run{lo: j.lo, hi: j.lo + chunkRows, order: order}
	}
	out := run{lo: j.a.lo, hi: j.b.hi, order: make([]uint32, 0, len(j.a.order)+len(j.b.order))}
	shift := uint32(j.b.lo - j.a.lo)
	x, y := 0, 0
	for x < len(j.a.order) || y < len(j.b.order) {
		switch {
		case y == len(j.b.order):
			out.order = append(out.order, j.a.order[x])
			x++
		case x == len(j.a.order) || compareRows(at(j.b.lo+uint64(j.b.order[y])), at(j.a.lo+uint64(j.a.order[x]))) < 0:
			out.order = append(out.order, j.b.order[y]+shift)
			y++
		default:
			out.order = append(out.order, j.a.order[x])
			x++
		}
	}
	return out
}

func compareRows(x, y *memRow) int {
	switch {
	case x.partition != y.partition:
		if x.partition < y.partition {
			return -1
		}
		return 1
	case x.base != y.base:
		if x.base < y.base {
			return -1
		}
		return 1
	}
	return 0
}

// put installs the result of a job.
func (m *memory) put(j *sortJob, r run) {
	if !j.merge {
		m.runs = append(m.runs, r)
		m.sorted = r.hi
		return
	}
	for i := range m.runs {
		if m.runs[i].lo == j.a.lo && m.runs[i].hi == j.a.hi {
			m.runs = slices.Replace(m.runs, i, i+2, r)
			return
		}
	}
}

// drop forgets rows below number, which files hold from now on. Runs and chunks wholly below go;
// others stay until they are.
func (m *memory) drop(number uint64) {
	if number <= m.floor {
		return
	}
	for n := range m.refused {
		if n < number {
			delete(m.refused, n)
		}
	}
	m.floor = number
	keep := 0
	for keep < len(m.runs) && m.runs[keep].hi <= number {
		keep++
	}
	low := m.sorted
	if keep < len(m.runs) {
		low = m.runs[keep].lo
	}
	m.runs = slices.Delete(m.runs, 0, keep)
	gone := (min(low, number) - m.first) / chunkRows
	if low > number {
		gone = (number - m.first) / chunkRows
	}
	m.chunks = slices.Delete(m.chunks, 0, int(gone))
	m.first += gone * chunkRows
}
