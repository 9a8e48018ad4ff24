package logstore

import (
	"math/bits"
	"sort"
	"sync"

	"queen/engine/format"
	"queen/engine/vfs"
)

// tail keeps the most recent extents in memory, as the very buffers they were written from: a reader of
// recent entries costs no disk access, and the writer no copy.
//
// INVARIANT: a buffer goes back to the pool only when it was evicted and no reader holds it
// (TestTailBuffersAreNotReused).
type tail struct {
	limit int64
	pools []*vfs.BufferPool // by class of size

	mu struct {
		sync.Mutex
		extents []*tailExtent // in log order
		starts  []uint64      // of each, as startOf: a search through the extents themselves would miss the caches
		bytes   int64         // of the buffers
	}
}

// startOf orders positions in the log.
func startOf(segment, pos uint32) uint64 { return uint64(segment)<<32 | uint64(pos) }

type tailExtent struct {
	segment, pos uint32
	buf          []byte // the whole extent, as written; its capacity is a class of the pools
	refs         int    // guarded by tail.mu; one is the tail's own
}

func newTail(limit int64, extentBytes int) *tail {
	t := &tail{limit: max(0, limit)}
	for class := 0; ; class++ {
		size := classBytes(class)
		// One spare buffer per large class, more of the small ones: what is kept idle stays below a few
		// extents.
		keep := max(1, min(64, extentBytes/size/4))
		t.pools = append(t.pools, vfs.NewBufferPool(size, keep))
		if size >= extentBytes {
			return t
		}
	}
}

// Buffers come in classes, four to a doubling from four blocks up, so that at most a fifth of one is unused.
func classBytes(class int) int {
	if class < 4 {
		return (class + 1) * vfs.BlockSize
	}
	return (4 + class%4 + 1) << (class/4 - 1) * vfs.BlockSize
}

// classOf is the smallest class of at least n bytes.
func classOf(n int) int {
	blocks := max(1, (n+vfs.BlockSize-1)/vfs.BlockSize)
	if blocks <= 4 {
		return blocks - 1
	}
	double := bits.Len(uint(blocks-1)) - 3 // blocks lie in (4 << double, 8 << double]
	quarter := (blocks - 1) >> double      // 4 to 7
	return 4*(double+1) + quarter - 4
}

// buffer returns an aligned buffer of n bytes (a multiple of the block size) with undefined content.
func (t *tail) buffer(n int) []byte {
	class := classOf(n)
	if class >= len(t.pools) {
		return vfs.AlignedBuffer(n)
	}
	return t.pools[class].Get()[:n]
}

func (t *tail) recycle(buf []byte) {
	class := classOf(cap(buf))
	if class < len(t.pools) && t.pools[class].Size() == cap(buf) {
		t.pools[class].Put(buf[:cap(buf)])
	}
}

// add takes over the buffer of an extent that has become durable, and drops the oldest ones beyond the limit.
func (t *tail) add(segment, pos uint32, buf []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.extents = append(t.mu.extents, &tailExtent{segment: segment, pos: pos, buf: buf, refs: 1})
	t.mu.starts = append(t.mu.starts, startOf(segment, pos))
	t.mu.bytes += int64(cap(buf))
	drop := 0
	for t.mu.bytes > t.limit && drop < len(t.mu.extents) {
		e := t.mu.extents[drop]
		t.mu.bytes -= int64(cap(e.buf))
		t.unref(e)
		t.mu.extents[drop] = nil
		drop++
	}
	t.mu.extents, t.mu.starts = t.mu.extents[drop:], t.mu.starts[drop:]
}

// find returns the extent that holds the byte at pos, to be released, or nil.
func (t *tail) find(segment, pos uint32) *tailExtent {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.findLocked(segment, pos)
	if e != nil {
		e.refs++
	}
	return e
}

// holds says that memory has the byte at pos, at this moment.
func (t *tail) holds(segment, pos uint32) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.findLocked(segment, pos) != nil
}

func (t *tail) findLocked(segment, pos uint32) *tailExtent {
	after := sort.Search(len(t.mu.starts), func(i int) bool { return t.mu.starts[i] > startOf(segment, pos) })
	if after == 0 {
		return nil
	}
	e := t.mu.extents[after-1]
	if e.segment != segment || uint64(pos) >= uint64(e.pos)+uint64(len(e.buf)) {
		return nil
	}
	return e
}

// entry appends bytes [off, off+n) of the entry whose record is at pos, if memory holds them in one piece: what nearly
// every read of a message wants, for one lock and no allocation. n is small, since the lock is held.
func (t *tail) entry(dst []byte, segment, pos, off, n uint32) (b []byte, index format.Index, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.findLocked(segment, pos)
	if e == nil {
		return dst, 0, false
	}
	b = e.buf[pos-e.pos:]
	head, err := format.ParseRecordHead(b)
	if err != nil || head.Kind != format.RecordEntry {
		return dst, 0, false
	}
	from := uint64(format.EntryBytesPos(head.Flags)) + uint64(off)
	if from+uint64(n) > uint64(head.Length) {
		return dst, 0, false
	}
	return append(dst, b[format.RecordHeadSize+from:][:n]...), head.Index, true
}

// release gives back what find returned.
func (t *tail) release(e *tailExtent) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unref(e)
}

func (t *tail) unref(e *tailExtent) {
	if e.refs--; e.refs == 0 {
		t.recycle(e.buf)
		e.buf = nil
	}
}

// bytes is what the kept buffers take.
func (t *tail) bytes() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.bytes
}

// forget drops the extents of a segment that is reclaimed.
func (t *tail) forget(segment uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept, starts := t.mu.extents[:0], t.mu.starts[:0]
	for _, e := range t.mu.extents {
		if e.segment == segment {
			t.mu.bytes -= int64(cap(e.buf))
			t.unref(e)
			continue
		}
		kept, starts = append(kept, e), append(starts, startOf(e.segment, e.pos))
	}
	clear(t.mu.extents[len(kept):])
	t.mu.extents, t.mu.starts = kept, starts
}
