package slab

import (
	"fmt"
	"reflect"
	"unsafe"
)

// Handle names a row of a slab; 0 means none. A freed handle is handed out again.
type Handle uint32

// HandleMax is the highest handle of a Slab, so that the top bit is free for the uses of a file format or an index.
const HandleMax Handle = 1<<31 - 1

// Codec turns a row into exactly Size bytes, little-endian, and back. Encode gets Size zeroed bytes and must write
// all that matters of the row; Decode gets Size bytes and a zeroed row. decode(encode(x)) must be x: images are
// compared by bytes.
type Codec[T any] struct {
	Size   int
	Encode func(dst []byte, row *T)
	Decode func(src []byte, row *T)
}

// Slab is a growing array of rows of type T, which must not contain pointers. Rows never move: growing copies
// nothing.
type Slab[T any] struct {
	t     *table
	codec Codec[T]
}

// New returns an empty slab. It panics if T holds a pointer, or has no size: both are mistakes in the program.
func New[T any](codec Codec[T]) *Slab[T] {
	typ := reflect.TypeFor[T]()
	if typ.Size() == 0 || hasPointers(typ) || codec.Size <= 0 {
		panic(fmt.Sprintf("slab: rows of type %v (%d bytes encoded): want a type with a size and without pointers", typ,
			codec.Size))
	}
	s := &Slab[T]{t: newTable(typ.Size(), uint64(HandleMax)+1, 0, codec.Size), codec: codec}
	s.t.encode = func(dst []byte, row unsafe.Pointer) int {
		codec.Encode(dst[:codec.Size:codec.Size], (*T)(row))
		return codec.Size
	}
	return s
}

func hasPointers(typ reflect.Type) bool {
	switch typ.Kind() {
	case reflect.Array:
		return hasPointers(typ.Elem())
	case reflect.Struct:
		for i := range typ.NumField() {
			if hasPointers(typ.Field(i).Type) {
				return true
			}
		}
		return false
	default:
		return typ.Kind() < reflect.Bool || typ.Kind() > reflect.Complex128
	}
}

// Alloc takes the lowest free handle and returns it with its row, which is zero, dirty and may be written like one
// from Touch. It returns 0 and nil when all HandleMax handles are taken.
func (s *Slab[T]) Alloc() (Handle, *T) {
	h, ok := s.t.alloc()
	if !ok {
		return 0, nil
	}
	return h, (*T)(s.t.row(h))
}

// Free zeroes a live row and gives its handle back. Freeing what is not live breaks an invariant.
func (s *Slab[T]) Free(h Handle) { s.t.free(h) }

// Get returns a live row for reading. For any other handle the result is undefined and may be a panic: ask Live first
// where a handle may be stale.
func (s *Slab[T]) Get(h Handle) *T { return (*T)(s.t.row(h)) }

// Touch returns a live row for writing and marks it dirty. Write through it only until the next Freeze, Mark or Free.
func (s *Slab[T]) Touch(h Handle) *T { return (*T)(s.t.touch(h)) }

// Live says whether a handle is taken; every value may be asked about.
func (s *Slab[T]) Live(h Handle) bool { return s.t.isLive(h) }

// Len returns the number of live rows.
func (s *Slab[T]) Len() int { return s.t.live }

// Next returns the lowest live handle above h, or 0 if there is none: Next(0) starts a walk, and a walk may be
// interrupted and taken up again at any handle. Rows may be freed and allocated during a walk.
func (s *Slab[T]) Next(h Handle) Handle { return s.t.next(h) }

// Mark emits the rows changed since the last Mark, in handle order, and starts the set anew. A freed row is emitted
// empty. The bytes are only good during the call.
func (s *Slab[T]) Mark(emit func(h Handle, row []byte)) { s.t.mark(emit) }

// Freeze takes an image of this instant, in time proportional to the number of chunks, and starts the set of dirty
// rows anew. The previous image must have been released.
func (s *Slab[T]) Freeze(scope Scope) *Frozen { return freeze(scope, s.t) }

// Load puts one row of an image in place: base rows first, then the rows of each delta in order. An empty row frees
// the handle, live or not. Nothing becomes dirty.
func (s *Slab[T]) Load(h Handle, row []byte) error {
	if len(row) != 0 && len(row) != s.codec.Size {
		return fmt.Errorf("slab: load row %d: %d bytes, want %d", h, len(row), s.codec.Size)
	}
	return s.t.load(h, row, func(p unsafe.Pointer) { s.codec.Decode(row, (*T)(p)) })
}

// Bytes returns the memory held, in bytes.
func (s *Slab[T]) Bytes() int64 { return s.t.bytes() }
