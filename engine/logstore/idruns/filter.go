package idruns

import (
	"encoding/binary"
	"sort"

	"queen/engine/format"
)

// key is what runs are sorted by.
type key struct{ pid, high, low uint64 }

func keyOf(pid format.PartitionID, h *format.IDHash) key {
	return key{uint64(pid), binary.BigEndian.Uint64(h[:8]), binary.BigEndian.Uint64(h[8:])}
}

func (k *key) less(o *key) bool {
	switch {
	case k.pid != o.pid:
		return k.pid < o.pid
	case k.high != o.high:
		return k.high < o.high
	}
	return k.low < o.low
}

// hash is what filters are made of. The halves are random and secret (a keyed hash), so that mixing in
// the partition by a multiplication is enough.
func (k *key) hash() uint64 { return k.high ^ k.low ^ k.pid*0x9e3779b97f4a7c15 }

// filter is the filters of a run, one per fuseRows rows or so.
type filter struct {
	firsts []key // of each part
	parts  []*fuse
	bytes  int64
}

// part returns the number of the part that would hold k, searching from part low on.
func (f *filter) part(k *key, low int) int {
	if low+1 < len(f.firsts) && !k.less(&f.firsts[low+1]) {
		low += sort.Search(len(f.firsts)-low, func(i int) bool { return k.less(&f.firsts[low+i]) }) - 1
	}
	return low
}

// filterMaker collects the rows of a run.
type filterMaker struct {
	f      *filter
	maker  *fuseMaker
	hashes []uint64
	limit  int // rows of a part
	last   key
	failed bool
}

func newFilterMaker(m *fuseMaker, limit int) *filterMaker {
	return &filterMaker{f: new(filter), maker: m, limit: limit}
}

// add takes the next row of the run.
func (m *filterMaker) add(r *format.IDRow) {
	k := keyOf(r.Partition, &r.Hash)
	if len(m.f.firsts) > 0 && k == m.last {
		return // an id stored again
	}
	if len(m.hashes) == m.limit || len(m.f.firsts) == 0 {
		m.flush()
		m.f.firsts = append(m.f.firsts, k)
	}
	m.last = k
	m.hashes = append(m.hashes, k.hash())
}

func (m *filterMaker) flush() {
	if len(m.hashes) == 0 {
		return
	}
	p := m.maker.build(m.hashes)
	if p == nil {
		m.failed = true
		p = new(fuse)
	}
	m.f.parts = append(m.f.parts, p)
	m.f.bytes += p.bytes() + 32
	m.hashes = m.hashes[:0]
}

// finish returns the filter; nil if it could not be made, and look-ups do without.
func (m *filterMaker) finish() *filter {
	m.flush()
	if m.failed {
		return nil
	}
	return m.f
}
