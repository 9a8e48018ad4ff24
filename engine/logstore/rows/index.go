package rows

import (
	"errors"
	"slices"
	"sync"

	"queen/engine/format"
)

// ErrAhead says that the newest row named by the caller was not added yet: the state it read is ahead
// of the index. To answer without that row would be to skip messages.
var ErrAhead = errors.New("rows: the newest row was not added yet")

// Index answers where the frames of a partition's offsets are, for one raft group.
type Index struct {
	runs *Runs // nil: everything is in memory
	mu   sync.RWMutex
	mem  memory // guarded by mu
}

// New is an index without files whose next row has number next (1 for a new raft group). Runs.Index
// makes one with files.
func New(next uint64) *Index { return &Index{mem: newMemory(max(next, 1))} }

// Add appends rows in number order without gap; rows that are held already (replayed entries of closed
// segments) are passed over. It is called by apply only, and costs no file operation.
func (x *Index) Add(rows []Row) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.mem.last = nil
	for i := range rows {
		if rows[i].Number >= x.mem.next {
			x.mem.add(&rows[i])
		}
	}
}

// Recover is Add for rows that were made again from segments which are not index-closed, whose Prev
// nobody knows; Prev is not looked at. All calls come before the first Add.
func (x *Index) Recover(rows []Row) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i := range rows {
		if rows[i].Number >= x.mem.next {
			x.mem.recover(&rows[i])
		}
	}
}

// Next is the number the next row must have.
func (x *Index) Next() uint64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.mem.next
}

// Range returns, ascending, the rows of pid that hold any offset of [from, to): at most to-from, so
// that a caller bounds the work by the offsets it asks for. newest is the partition's newest row
// number, from state. Offsets that no row holds (compacted, reclaimed) are simply absent. The error is
// ErrAhead, or a *DamageError that names the run file in the way.
func (x *Index) Range(pid format.PartitionID, from, to format.Offset, newest uint64) ([]Row, error) {
	return x.AppendRange(nil, pid, from, to, newest)
}

// AppendRange is Range that appends to dst, which a caller with many partitions keeps.
func (x *Index) AppendRange(dst []Row, pid format.PartitionID, from, to format.Offset, newest uint64) ([]Row, error) {
	if from >= to || newest == 0 {
		return dst, nil
	}
	out, rest, err := x.recentRange(dst, from, to, newest)
	if err == nil && rest.row != 0 && x.runs != nil {
		out, err = x.runs.collect(out, pid, from, min(to, rest.below), rest.row)
	}
	if err != nil {
		return dst, err
	}
	slices.Reverse(out[len(dst):])
	return out, nil
}

// rest says where a look-up goes on in files: at a row number (0: nowhere) whose rows are below an
// offset.
type rest struct {
	row   uint64
	below format.Offset
}

// recentRange appends, newest first, what memory holds.
func (x *Index) recentRange(out []Row, from, to format.Offset, newest uint64) ([]Row, rest, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	m := &x.mem
	if newest >= m.next {
		return out, rest{}, ErrAhead
	}
	if newest < m.floor {
		return out, rest{newest, to}, nil
	}
	low, ok := m.lowest(newest, from)
	if !ok {
		return out, rest{}, nil
	}
	if n, ok := m.highest(newest, to); ok {
		for ; n >= low && m.holds(n); n = m.at(n).prev {
			out = append(out, m.row(n))
		}
	}
	return out, m.below(low, from), nil
}

// below is where the rows before row n are looked up, if an offset from on may be in files.
func (m *memory) below(n uint64, from format.Offset) rest {
	r := m.at(n)
	if r.base <= from || m.holds(r.prev) {
		return rest{}
	}
	return rest{r.prev, r.base}
}

// At returns the row of pid that holds offset from, or else the first one above it. Errors as Range.
func (x *Index) At(pid format.PartitionID, from format.Offset, newest uint64) (row Row, ok bool, err error) {
	if newest == 0 {
		return Row{}, false, nil
	}
	row, ok, more, err := x.recentAt(from, newest)
	if err != nil || more.row == 0 || x.runs == nil {
		return row, ok, err
	}
	older, found, err := x.runs.at(pid, from, more.row)
	if err != nil || found && (!ok || older.Base < row.Base) {
		return older, found && err == nil, err
	}
	return row, ok, nil
}

func (x *Index) recentAt(from format.Offset, newest uint64) (row Row, ok bool, more rest, err error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	m := &x.mem
	if newest >= m.next {
		return Row{}, false, rest{}, ErrAhead
	}
	if newest < m.floor {
		return Row{}, false, rest{row: newest}, nil
	}
	n, ok := m.lowest(newest, from)
	if !ok {
		return Row{}, false, rest{}, nil
	}
	return m.row(n), true, m.below(n, from), nil
}

// Again looks up where the frame of a row lies now, for a reader whose row was overtaken by a relocation.
// ok is false when no file has the row any more.
func (x *Index) Again(r *Row) (row Row, ok bool, err error) {
	if x.runs == nil {
		return Row{}, false, nil
	}
	row, ok, err = x.runs.at(r.Partition, r.Base, PrevUnknown)
	return row, err == nil && ok && row.Base == r.Base, err
}

// Compact does one unit of background work on rows in memory, and reports whether there may be more.
// Call it from one goroutine. Files are merged by Runs.Merge.
func (x *Index) Compact() bool {
	x.mu.RLock()
	j, ok := x.mem.unlinked()
	j.m.chunks = slices.Clone(j.m.chunks)
	x.mu.RUnlock()
	if !ok {
		return false
	}
	links := j.do()
	x.mu.Lock()
	defer x.mu.Unlock()
	j.chunk.links = links // if the chunk was dropped meanwhile nobody will look
	return true
}
