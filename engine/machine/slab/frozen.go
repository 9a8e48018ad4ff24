package slab

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"

	"queen/engine/invariants"
)

// Scope says what a frozen image has to keep.
type Scope uint8

const (
	// Delta keeps the rows changed since the previous Freeze.
	Delta Scope = iota
	// Base keeps every live row as well; more rows have to be copied aside while it is written.
	Base
)

// Emit takes one row of an image. The row is empty if the handle was freed. Its bytes are only good during the call.
// An error ends the walk and is returned from it.
type Emit func(h Handle, row []byte) error

// Frozen is the image of a Slab or of Names at the instant of Freeze. One goroutine, any, calls Delta, then Base if
// the image has that scope, each at most once, and Release at the end, also after an error.
//
// Protocol: a row that the image needs belongs, while untouched, to both goroutines for reading. Before apply writes
// such a row it copies the row aside under the chunk's lock and notes that in saved; the writer, under the same lock
// and for 64 rows at a time, takes what is noted in saved from aside and everything else from the live rows. What the
// last walk has passed needs saving no more.
type Frozen struct {
	scope      Scope
	tables     []*table
	chunks     []frozenChunk // in handle order
	deltaDone  bool
	baseDone   bool
	released   atomic.Bool
	asideBytes atomic.Int64
}

// frozenChunk is the part of an image that one chunk belongs to. Fields below mu are written by apply or by the
// writer under it; saved is also read by apply without it, which alone writes it.
type frozenChunk struct {
	image *Frozen
	table *table
	chunk *chunk
	first Handle  // of row 0, with the table's base
	dirty *bitset // nil: no row of the delta is here; never changed after the freeze

	mu     sync.Mutex
	packed int // words below are written for good
	aside  *aside
}

// aside holds old rows of one chunk. Entries of one word form a list.
type aside struct {
	saved   [chunkWords]uint64 // rows that apply owns: copied, or no longer needed
	head    [chunkWords]uint32 // 1 + entry last saved in this word
	entries []asideEntry
	blocks  []unsafe.Pointer // asideRows rows each
}

type asideEntry struct {
	next uint32
	bit  uint8
	live bool
}

const asideRows = 64

func freeze(scope Scope, tables ...*table) *Frozen {
	f := &Frozen{scope: scope, tables: tables}
	n := 0
	for _, t := range tables {
		invariants.Check(t.frozen == nil || t.frozen.released.Load(), "slab: freeze before the last image was released")
		n += len(t.chunks)
	}
	f.chunks = make([]frozenChunk, 0, n)
	for _, t := range tables {
		t.frozen = f
		for i, c := range t.chunks {
			if c == nil {
				continue
			}
			c.frozen = nil
			if scope == Delta && c.dirty == nil {
				continue
			}
			f.chunks = append(f.chunks, frozenChunk{image: f, table: t, chunk: c,
				first: t.base | Handle(i)<<chunkShift, dirty: c.dirty})
			c.frozen, c.dirty = &f.chunks[len(f.chunks)-1], nil
		}
	}
	return f
}

// keep copies a row aside if the frozen image still needs it. It runs on apply, before the row or its live bit
// changes.
func (t *table) keep(c *chunk, row uint32) {
	f := c.frozen
	if f.image.released.Load() {
		c.frozen = nil
		return
	}
	w, bit := row/64, uint64(1)<<(row%64)
	if f.image.scope == Delta && f.dirty.words[w]&bit == 0 || f.aside != nil && f.aside.saved[w]&bit != 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.aside == nil {
		f.aside = new(aside)
		f.image.asideBytes.Add(int64(unsafe.Sizeof(aside{})))
	}
	if int(w) >= f.packed {
		f.save(row)
	}
	f.aside.saved[w] |= bit
}

// save copies one row; the caller holds mu.
func (f *frozenChunk) save(row uint32) {
	a, t := f.aside, f.table
	n := len(a.entries)
	if n%asideRows == 0 {
		words := make([]uint64, (t.stride*asideRows+7)/8)
		a.blocks = append(a.blocks, unsafe.Pointer(unsafe.SliceData(words)))
		f.image.asideBytes.Add(t.asideBlock())
	}
	w := row / 64
	live := f.chunk.live[w]>>(row%64)&1 == 1
	if live {
		copy(t.bytesAt(a.row(t, n)), t.bytesAt(t.at(f.chunk, row)))
	}
	a.entries = append(a.entries, asideEntry{next: a.head[w], bit: uint8(row % 64), live: live})
	a.head[w] = uint32(n) + 1
}

// asideBlock is what one block of rows, with its entries, costs in bytes.
func (t *table) asideBlock() int64 {
	return asideRows*int64(t.stride+unsafe.Sizeof(asideEntry{})) + 8
}

func (a *aside) row(t *table, i int) unsafe.Pointer {
	return unsafe.Add(a.blocks[i/asideRows], uintptr(i%asideRows)*t.stride)
}

// Delta emits, in handle order, the rows changed between the previous Freeze and this one, as they were at this one.
func (f *Frozen) Delta(emit Emit) error {
	invariants.Check(!f.deltaDone && !f.baseDone && !f.released.Load(), "slab: delta of an image walked before")
	f.deltaDone = true
	for i := range f.chunks {
		if err := f.chunks[i].walk(false, f.scope == Delta, emit); err != nil {
			return err
		}
	}
	return nil
}

// Base emits, in handle order, every row that was live at the freeze.
func (f *Frozen) Base(emit Emit) error {
	invariants.Check(f.scope == Base && !f.baseDone && !f.released.Load(), "slab: base of an image without one")
	f.baseDone = true
	for i := range f.chunks {
		if err := f.chunks[i].walk(true, true, emit); err != nil {
			return err
		}
	}
	return nil
}

// Release lets go of the image: apply copies nothing aside any more. Nothing else may be called afterwards.
func (f *Frozen) Release() {
	f.asideBytes.Store(0)
	f.released.Store(true)
}

// Revert is Release for an image that was not stored: the rows of its delta count as dirty again. Unlike the other
// methods it must run on the apply goroutine, and the writer must have ended.
func (f *Frozen) Revert() {
	invariants.Check(!f.released.Load(), "slab: revert of a released image")
	for i := range f.chunks {
		c := &f.chunks[i]
		if c.dirty == nil {
			continue
		}
		if c.chunk.dirty == nil {
			c.chunk.dirty = new(bitset)
		}
		c.chunk.dirty.merge(c.dirty)
	}
	f.Release()
}

// packer holds up to 64 encoded rows between the lock and the emit.
type packer struct {
	data []byte
	len  [64]int
}

// walk emits the live rows (base) or the dirty ones of a chunk. After the last walk nothing of the chunk needs
// saving.
func (f *frozenChunk) walk(base, last bool, emit Emit) error {
	p := &packer{data: make([]byte, 64*f.table.imageMax)}
	for w := 0; w < chunkWords; w++ {
		if !base {
			if f.dirty == nil {
				break
			}
			if w = f.dirty.next(w); w == chunkWords {
				break
			}
		}
		rows := f.pack(p, w, base, last)
		for m := rows; m != 0; m &= m - 1 {
			i := bits.TrailingZeros64(m)
			at := i * f.table.imageMax
			if err := emit(f.first|Handle(w*64+i), p.data[at:at+p.len[i]]); err != nil {
				return err
			}
		}
	}
	if last {
		f.mu.Lock()
		f.packed = chunkWords
		f.dropAside()
		f.mu.Unlock()
	}
	return nil
}

// dropAside frees the copied rows of a chunk that is written; saved stays, apply reads it.
func (f *frozenChunk) dropAside() {
	if a := f.aside; a != nil {
		f.image.asideBytes.Add(-int64(len(a.blocks)) * f.table.asideBlock())
		a.blocks, a.entries = nil, nil
	}
}

// pack encodes the rows of one word as they were at the freeze and returns which.
func (f *frozenChunk) pack(p *packer, w int, base, last bool) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	live := f.chunk.live[w]
	var old [64]uint32 // 1 + entry
	var saved uint64
	if f.aside != nil {
		for e := f.aside.head[w]; e != 0; e = f.aside.entries[e-1].next {
			entry := f.aside.entries[e-1]
			bit := uint64(1) << entry.bit
			old[entry.bit], saved = e, saved|bit
			if live &^= bit; entry.live {
				live |= bit
			}
		}
	}
	if f.first&^f.table.base == 0 && w == 0 {
		live &^= 1 // the reserved row
	}
	rows := live
	if !base {
		rows = f.dirty.words[w]
	}
	for m := rows; m != 0; m &= m - 1 {
		i := bits.TrailingZeros64(m)
		bit := m & -m
		dst := p.data[i*f.table.imageMax:][:f.table.imageMax]
		clear(dst)
		switch {
		case live&bit == 0:
			p.len[i] = 0
		case saved&bit != 0:
			p.len[i] = f.table.encode(dst, f.aside.row(f.table, int(old[i])-1))
		default:
			p.len[i] = f.table.encode(dst, f.table.at(f.chunk, uint32(w*64+i)))
		}
	}
	if last {
		f.packed = w + 1
	}
	return rows
}
