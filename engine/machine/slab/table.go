package slab

import (
	"fmt"
	"math/bits"
	"unsafe"

	"queen/engine/invariants"
)

const (
	chunkShift = 16
	chunkRows  = 1 << chunkShift
	chunkWords = chunkRows / 64

	// A chunk allocates its rows in at most blocksMax blocks, each of about blockBytes, so that a nearly empty table
	// is small and no single Alloc pays for megabytes of fresh memory.
	blocksMax     = 256
	blockBytes    = 64 << 10
	blockShiftMin = 8
	blockShiftMax = 12
)

// table is what Slab and Names share: rows of stride raw bytes in chunks of 65,536, their live set, their two dirty
// sets, and the copying aside of rows that a frozen image still needs. Rows never move.
//
// INVARIANT: a row that is not live is all zero (Free clears it; TestSlabFreedRowsAreZero).
// INVARIANT: row 0 of chunk 0 is taken for ever and never emitted: handle 0 means none (TestSlabModel).
type table struct {
	stride     uintptr
	blockShift uint
	base       Handle // or-ed into emitted handles; Names keeps the size class there
	rowsMax    uint64 // handles are below it
	imageMax   int    // longest encoded row
	encode     func(dst []byte, row unsafe.Pointer) int

	chunks []*chunk // nil where an image had no row
	first  int      // no chunk below has a free row
	live   int
	frozen *Frozen // the image not yet released, if any
}

// chunk is 65,536 rows and what is known about them.
//
// INVARIANT: while frozen is not nil, live changes only under frozen.mu (the race tests).
type chunk struct {
	blocks [blocksMax]unsafe.Pointer // each to a []uint64 of rows; nil until first used
	live   [chunkWords]uint64
	full   [chunkWords / 64]uint64 // bit w: every row of live[w] is taken
	rows   int                     // live rows, the reserved one included
	dirty  *bitset                 // changed since the last Freeze
	marked *bitset                 // changed since the last Mark
	frozen *frozenChunk
}

func newTable(stride uintptr, rowsMax uint64, base Handle, imageMax int) *table {
	t := &table{stride: stride, rowsMax: rowsMax, base: base, imageMax: imageMax, blockShift: blockShiftMax}
	for t.blockShift > blockShiftMin && stride<<t.blockShift > blockBytes {
		t.blockShift--
	}
	return t
}

// row returns the address of a row whose block exists.
func (t *table) row(h Handle) unsafe.Pointer {
	return t.at(t.chunks[h>>chunkShift], uint32(h)%chunkRows)
}

func (t *table) at(c *chunk, row uint32) unsafe.Pointer {
	return unsafe.Add(c.blocks[row>>t.blockShift%blocksMax], uintptr(row&(1<<t.blockShift-1))*t.stride)
}

// bytesAt returns the row as raw memory.
func (t *table) bytesAt(p unsafe.Pointer) []byte { return unsafe.Slice((*byte)(p), t.stride) }

// touch makes a row ready for writing and returns it.
func (t *table) touch(h Handle) unsafe.Pointer {
	c, row := t.chunks[h>>chunkShift], uint32(h)%chunkRows
	if invariants.Enabled {
		invariants.Check(h != 0 && c.live[row/64]>>(row%64)&1 == 1, "slab: touch of handle %d, which is not live", h)
	}
	if c.frozen != nil {
		t.keep(c, row)
	}
	c.soil(row)
	return t.at(c, row)
}

// soil marks a row in both dirty sets.
func (c *chunk) soil(row uint32) {
	if c.dirty == nil {
		c.dirty = new(bitset)
	}
	if c.marked == nil {
		c.marked = new(bitset)
	}
	c.dirty.set(row)
	c.marked.set(row)
}

// alloc takes the lowest free row. It fails only when every handle is taken.
func (t *table) alloc() (Handle, bool) {
	for ; ; t.first++ {
		if uint64(t.first)<<chunkShift >= t.rowsMax {
			return 0, false
		}
		c := t.chunkFor(t.first)
		if c.rows < chunkRows {
			row := c.lowestFree()
			h := Handle(t.first)<<chunkShift | Handle(row)
			if uint64(h) >= t.rowsMax {
				return 0, false
			}
			if c.frozen != nil {
				t.keep(c, row)
			}
			c.soil(row)
			t.ensureBlock(c, row)
			t.setLive(c, row)
			return h, true
		}
	}
}

func (c *chunk) lowestFree() uint32 {
	for i, f := range c.full {
		if f != ^uint64(0) {
			w := i*64 + bits.TrailingZeros64(^f)
			return uint32(w*64 + bits.TrailingZeros64(^c.live[w]))
		}
	}
	invariants.Fail("slab: chunk with %d rows has no free row", c.rows)
	return 0
}

// chunkFor returns chunk i, making it if there is none yet.
func (t *table) chunkFor(i int) *chunk {
	for len(t.chunks) <= i {
		t.chunks = append(t.chunks, nil)
	}
	if t.chunks[i] == nil {
		c := new(chunk)
		if i == 0 {
			c.live[0], c.rows = 1, 1
		}
		t.chunks[i] = c
	}
	return t.chunks[i]
}

func (t *table) ensureBlock(c *chunk, row uint32) {
	if b := &c.blocks[row>>t.blockShift%blocksMax]; *b == nil {
		words := make([]uint64, (t.stride<<t.blockShift+7)/8)
		*b = unsafe.Pointer(unsafe.SliceData(words))
	}
}

func (t *table) setLive(c *chunk, row uint32) {
	unlock := c.lock()
	w := row / 64
	c.live[w] |= 1 << (row % 64)
	if c.live[w] == ^uint64(0) {
		c.full[w/64] |= 1 << (w % 64)
	}
	unlock()
	c.rows++
	t.live++
}

// free gives a live row back: zeroed, dirty, and open to alloc.
func (t *table) free(h Handle) {
	if !t.isLive(h) {
		invariants.Fail("slab: free of handle %d, which is not live", h)
	}
	i, row := int(h>>chunkShift), uint32(h)%chunkRows
	c := t.chunks[i]
	if c.frozen != nil {
		t.keep(c, row)
	}
	c.soil(row)
	t.clearLive(c, i, row)
}

func (t *table) clearLive(c *chunk, i int, row uint32) {
	unlock := c.lock()
	w := row / 64
	c.live[w] &^= 1 << (row % 64)
	c.full[w/64] &^= 1 << (w % 64)
	unlock()
	clear(t.bytesAt(t.at(c, row)))
	c.rows--
	t.live--
	t.first = min(t.first, i)
}

func nothing() {}

// lock takes the lock that live needs while the background writer may read it, and none otherwise.
func (c *chunk) lock() (unlock func()) {
	if c.frozen == nil {
		return nothing
	}
	c.frozen.mu.Lock()
	return c.frozen.mu.Unlock
}

// isLive says whether a handle is taken. Any value is allowed.
func (t *table) isLive(h Handle) bool {
	i, row := int(h>>chunkShift), uint32(h)%chunkRows
	return h != 0 && i < len(t.chunks) && t.chunks[i] != nil && t.chunks[i].live[row/64]>>(row%64)&1 == 1
}

// next returns the lowest live handle above h, or 0.
func (t *table) next(h Handle) Handle {
	from := uint64(h) + 1
	for i := int(from >> chunkShift); i < len(t.chunks); i++ {
		c := t.chunks[i]
		if c == nil || c.rows == 0 {
			continue
		}
		row := uint32(0)
		if i == int(from>>chunkShift) {
			row = uint32(from) % chunkRows
		}
		for w := row / 64; w < chunkWords; w++ {
			live := c.live[w]
			if w == row/64 {
				live &= ^uint64(0) << (row % 64)
			}
			if live != 0 {
				return Handle(i)<<chunkShift | Handle(w*64+uint32(bits.TrailingZeros64(live)))
			}
		}
	}
	return 0
}

// load puts a row of an image in place through write, or frees it if row is empty. It marks nothing dirty.
func (t *table) load(h Handle, row []byte, write func(p unsafe.Pointer)) error {
	if h == 0 || uint64(h) >= t.rowsMax {
		return fmt.Errorf("slab: load row %d: handles run from 1 to %d", h, t.rowsMax-1)
	}
	invariants.Check(t.frozen == nil || t.frozen.released.Load(), "slab: load while an image is frozen")
	t.settle()
	i, r := int(h>>chunkShift), uint32(h)%chunkRows
	if len(row) == 0 {
		if t.isLive(h) {
			t.clearLive(t.chunks[i], i, r)
		}
		return nil
	}
	c := t.chunkFor(i)
	t.ensureBlock(c, r)
	if !t.isLive(h) {
		t.setLive(c, r)
	}
	p := t.at(c, r)
	clear(t.bytesAt(p))
	write(p)
	return nil
}

// settle forgets a released image, so that its memory is not held until every chunk has been touched.
func (t *table) settle() {
	if t.frozen == nil || !t.frozen.released.Load() {
		return
	}
	t.frozen = nil
	for _, c := range t.chunks {
		if c != nil {
			c.frozen = nil
		}
	}
}

// mark emits the rows changed since the last mark, in handle order, and forgets them.
func (t *table) mark(emit func(h Handle, row []byte)) {
	t.settle()
	buf := make([]byte, t.imageMax)
	for i, c := range t.chunks {
		if c == nil || c.marked == nil {
			continue
		}
		for w := c.marked.next(0); w < chunkWords; w = c.marked.next(w + 1) {
			for m := c.marked.words[w]; m != 0; m &= m - 1 {
				row := uint32(w*64 + bits.TrailingZeros64(m))
				n := 0
				if c.live[w]&(m&-m) != 0 {
					clear(buf)
					n = t.encode(buf, t.at(c, row))
				}
				emit(t.base|Handle(i)<<chunkShift|Handle(row), buf[:n])
			}
			c.marked.clear(w)
		}
	}
}

// bytes returns the memory held, the rows copied aside for a frozen image included.
func (t *table) bytes() int64 {
	n := int64(len(t.chunks)) * 8
	for _, c := range t.chunks {
		if c == nil {
			continue
		}
		n += int64(unsafe.Sizeof(*c))
		for _, b := range c.blocks {
			if b != nil {
				n += int64(t.stride) << t.blockShift
			}
		}
		for _, b := range []*bitset{c.dirty, c.marked} {
			if b != nil {
				n += int64(unsafe.Sizeof(*b))
			}
		}
	}
	if t.frozen != nil {
		n += t.frozen.asideBytes.Load()
	}
	return n
}
