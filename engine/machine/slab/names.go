package slab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"
)

// Ref names a byte string in Names; 0 means none. The top six bits are its size class.
type Ref uint32

const (
	// NameBytesMax is the longest name that Names holds.
	NameBytesMax = 447

	nameHeader   = 2 // length
	nameCell     = 8
	nameClasses  = (NameBytesMax+nameHeader+nameCell-1)/nameCell + 1 // class 0 is not used
	refClassBits = 26
	refCells     = 1 << refClassBits
)

var (
	// ErrNameTooLong is returned for a name above NameBytesMax.
	ErrNameTooLong = errors.New("slab: name too long")
	// ErrNamesFull is returned when the 67,108,863 cells of one size class are taken.
	ErrNamesFull = errors.New("slab: no room for names of this length")
)

// Names is an arena of byte strings. A name lies in a cell of its size class: two bytes of length, the bytes, zeros
// up to a multiple of eight; a freed cell serves the next name of its class. References are handed out like the
// handles of a Slab, lowest first, so that they depend on nothing but the names held.
//
//	cell    0        2              2+n      8k
//	        | n: u16 | n bytes      | zeros  |
type Names struct {
	classes [nameClasses]*table // nil until a name of the class was seen
	live    int
}

// NewNames returns an empty arena.
func NewNames() *Names { return new(Names) }

func (n *Names) class(c int) *table {
	if n.classes[c] == nil {
		t := newTable(uintptr(c*nameCell), refCells, Handle(c)<<refClassBits, c*nameCell)
		t.encode = func(dst []byte, row unsafe.Pointer) int {
			cell := unsafe.Slice((*byte)(row), c*nameCell)
			return copy(dst, cell[:nameHeader+int(binary.LittleEndian.Uint16(cell))])
		}
		n.classes[c] = t
	}
	return n.classes[c]
}

func classOf(nameBytes int) int { return (nameBytes + nameHeader + nameCell - 1) / nameCell }

// Put copies a name, which may be empty, into the arena. It does not look for an equal one. Errors: ErrNameTooLong,
// ErrNamesFull.
func (n *Names) Put(name []byte) (Ref, error) {
	if len(name) > NameBytesMax {
		return 0, ErrNameTooLong
	}
	t := n.class(classOf(len(name)))
	h, ok := t.alloc()
	if !ok {
		return 0, ErrNamesFull
	}
	cell := t.bytesAt(t.row(h))
	binary.LittleEndian.PutUint16(cell, uint16(len(name)))
	copy(cell[nameHeader:], name)
	n.live++
	return Ref(t.base | h), nil
}

// Get returns a live name; for any other reference the result is undefined and may be a panic. The slice is the
// arena's own: it must not be changed, and it is good until the name is freed.
func (n *Names) Get(r Ref) []byte {
	t := n.classes[r>>refClassBits]
	cell := t.bytesAt(t.row(Handle(r % refCells)))
	end := nameHeader + int(binary.LittleEndian.Uint16(cell))
	return cell[nameHeader:end:end]
}

// Free zeroes a live name and gives its cell back. Freeing what is not live breaks an invariant.
func (n *Names) Free(r Ref) {
	n.class(int(min(r>>refClassBits, nameClasses-1))).free(Handle(r % refCells))
	n.live--
}

// Room returns how many more names of so many bytes Put can take.
func (n *Names) Room(nameBytes int) int {
	if nameBytes > NameBytesMax {
		return 0
	}
	live := 0
	if t := n.classes[classOf(nameBytes)]; t != nil {
		live = t.live
	}
	return refCells - 1 - live
}

// Live says whether a reference is taken; every value may be asked about.
func (n *Names) Live(r Ref) bool {
	c := r >> refClassBits
	return c < nameClasses && n.classes[c] != nil && n.classes[c].isLive(Handle(r%refCells))
}

// Len returns the number of names held.
func (n *Names) Len() int { return n.live }

// Mark is Slab.Mark; handles are references, and a row is the cell without its zeros: length and bytes, never empty
// unless freed.
func (n *Names) Mark(emit func(h Handle, row []byte)) {
	for _, t := range n.classes {
		if t != nil {
			t.mark(emit)
		}
	}
}

// Freeze is Slab.Freeze; rows are those of Mark.
func (n *Names) Freeze(scope Scope) *Frozen {
	tables := make([]*table, 0, nameClasses)
	for _, t := range n.classes {
		if t != nil {
			tables = append(tables, t)
		}
	}
	return freeze(scope, tables...)
}

// Load is Slab.Load.
func (n *Names) Load(h Handle, row []byte) error {
	c := int(h >> refClassBits)
	if c == 0 || c >= nameClasses {
		return fmt.Errorf("slab: load name %#x: no size class %d", h, c)
	}
	if len(row) != 0 {
		if len(row) < nameHeader || int(binary.LittleEndian.Uint16(row)) != len(row)-nameHeader ||
			classOf(len(row)-nameHeader) != c {
			return fmt.Errorf("slab: load name %#x: %d bytes do not fit their length or size class %d", h, len(row), c)
		}
	}
	t := n.class(c)
	before := t.live
	err := t.load(h%refCells, row, func(p unsafe.Pointer) { copy(t.bytesAt(p), row) })
	n.live += t.live - before
	return err
}

// Bytes returns the memory held, in bytes.
func (n *Names) Bytes() int64 {
	total := int64(unsafe.Sizeof(*n))
	for _, t := range n.classes {
		if t != nil {
			total += t.bytes()
		}
	}
	return total
}
