package rows

import (
	"slices"
	"sync"

	"queen/engine/format"
)

// Index answers where the frames of a partition's offsets are, for one raft group.
type Index struct {
	mu  sync.RWMutex
	mem memory
}

// New is an empty index whose next row has number next (1 for a new raft group).
func New(next uint64) *Index { return &Index{mem: newMemory(max(next, 1))} }

// Add appends rows in number order without gap. It is called by apply only.
func (x *Index) Add(rows []Row) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i := range rows {
		x.mem.add(&rows[i])
	}
}

// Next is the number the next row must have.
func (x *Index) Next() uint64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.mem.next
}

// Range returns, ascending, the rows of pid that hold any offset of [from, to); newest is the
// partition's newest row number, from state. Offsets that no row holds (compacted, reclaimed) are
// simply absent.
func (x *Index) Range(pid format.PartitionID, from, to format.Offset, newest uint64) ([]Row, error) {
	if from >= to {
		return nil, nil
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	out, _ := x.mem.collect(nil, pid, from, to, newest)
	slices.Reverse(out)
	return out, nil
}

// Compact does one unit of background work: it sorts a full chunk or merges two runs. It reports
// whether there may be more. Call it from one goroutine.
func (x *Index) Compact() bool {
	x.mu.RLock()
	job, ok := x.mem.sortable()
	x.mu.RUnlock()
	if !ok {
		return false
	}
	// Rows of full chunks never change and chunks are dropped by this goroutine's owner only, so the
	// sort reads without the lock; a snapshot of the chunk list keeps appends away.
	x.mu.RLock()
	first, chunks := x.mem.first, slices.Clone(x.mem.chunks)
	x.mu.RUnlock()
	r := job.do(func(n uint64) *memRow { i := n - first; return &chunks[i/chunkRows][i%chunkRows] })
	x.mu.Lock()
	x.mem.put(&job, r)
	x.mu.Unlock()
	return true
}
