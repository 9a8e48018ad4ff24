package slab

import (
	"fmt"
	"unsafe"

	"queen/engine/invariants"
)

const ringBlock = 64 // events per block

// Ring is a journal: events at positions that start at 1 and only rise, of which the oldest are dropped. It holds
// [Start, End); End is the position that the next event will get. T must not contain pointers.
//
// Events never change once appended and blocks are never used twice, so an image is a list of blocks and needs no
// copying.
type Ring[T any] struct {
	codec  Codec[T]
	start  uint64
	end    uint64
	frozen uint64          // end at the last Freeze: a delta begins here
	blocks []*[ringBlock]T // blocks[i] holds position (first+i)*ringBlock and on
	first  uint64          // number of blocks[0]
}

// NewRing returns an empty ring: Start and End are 1.
func NewRing[T any](codec Codec[T]) *Ring[T] {
	return &Ring[T]{codec: codec, start: 1, end: 1, frozen: 1}
}

// Start returns the oldest position held; it equals End when none is.
func (r *Ring[T]) Start() uint64 { return r.start }

// End returns the position that the next event will get.
func (r *Ring[T]) End() uint64 { return r.end }

// Len returns the number of events held.
func (r *Ring[T]) Len() uint64 { return r.end - r.start }

// At returns the event at a position in [Start, End), for reading.
func (r *Ring[T]) At(pos uint64) *T {
	if pos < r.start || pos >= r.end {
		invariants.Fail("slab: ring position %d outside [%d, %d)", pos, r.start, r.end)
	}
	return &r.blocks[pos/ringBlock-r.first][pos%ringBlock]
}

// Append adds an event, drops the oldest beyond limit (at least 1), and returns the event's position. The limit is
// the caller's to compute from the state each time; the ring does not remember it.
func (r *Ring[T]) Append(ev T, limit uint64) uint64 {
	r.push(ev)
	if n := r.Len(); n > max(limit, 1) {
		r.DropBefore(r.end - max(limit, 1))
	}
	return r.end - 1
}

func (r *Ring[T]) push(ev T) {
	n := r.end / ringBlock
	if len(r.blocks) == 0 {
		r.first = n
	}
	if n-r.first == uint64(len(r.blocks)) {
		r.blocks = append(r.blocks, new([ringBlock]T))
	}
	r.blocks[n-r.first][r.end%ringBlock] = ev
	r.end++
}

// DropBefore drops the events below pos, which is cut to End.
func (r *Ring[T]) DropBefore(pos uint64) {
	r.start = max(r.start, min(pos, r.end))
	drop := min(r.start/ringBlock-r.first, uint64(len(r.blocks)))
	if drop == 0 {
		return
	}
	clear(r.blocks[:drop])
	r.blocks = r.blocks[drop:]
	r.first += drop
}

// RingImage is a Ring at the instant of Freeze. One goroutine, any, may read it while the ring goes on; it needs no
// release.
type RingImage[T any] struct {
	scope  Scope
	codec  Codec[T]
	start  uint64
	from   uint64
	end    uint64
	blocks []*[ringBlock]T
	first  uint64
}

// Freeze takes an image: with scope Delta of what was appended since the previous Freeze, with scope Base of
// everything.
func (r *Ring[T]) Freeze(scope Scope) RingImage[T] {
	from := max(r.frozen, r.start)
	r.frozen = r.end
	lowest := from
	if scope == Base {
		lowest = r.start
	}
	img := RingImage[T]{scope: scope, codec: r.codec, start: r.start, from: from, end: r.end}
	if lowest < r.end {
		img.first = lowest / ringBlock
		img.blocks = append(img.blocks, r.blocks[img.first-r.first:]...)
	}
	return img
}

// Bounds returns Start and End of the ring at the freeze; LoadBounds wants them after the events.
func (i *RingImage[T]) Bounds() (start, end uint64) { return i.start, i.end }

// Delta emits what was appended since the previous Freeze and not dropped again, in order of position.
func (i *RingImage[T]) Delta(emit func(pos uint64, row []byte) error) error {
	return i.walk(i.from, emit)
}

// Base emits every event held, in order of position; the image must have that scope.
func (i *RingImage[T]) Base(emit func(pos uint64, row []byte) error) error {
	invariants.Check(i.scope == Base, "slab: base of a ring image that does not have it")
	return i.walk(i.start, emit)
}

func (i *RingImage[T]) walk(from uint64, emit func(pos uint64, row []byte) error) error {
	buf := make([]byte, i.codec.Size)
	for pos := from; pos < i.end; pos++ {
		clear(buf)
		i.codec.Encode(buf, &i.blocks[pos/ringBlock-i.first][pos%ringBlock])
		if err := emit(pos, buf); err != nil {
			return err
		}
	}
	return nil
}

// Load puts an event of an image in place: first those of the base, then of each delta in order. A gap after what is
// held means that everything before the gap was dropped.
func (r *Ring[T]) Load(pos uint64, row []byte) error {
	if len(row) != r.codec.Size {
		return fmt.Errorf("slab: load ring event %d: %d bytes, want %d", pos, len(row), r.codec.Size)
	}
	if pos < r.end || pos == ^uint64(0) {
		return fmt.Errorf("slab: load ring event %d: the ring ends at %d", pos, r.end)
	}
	if pos > r.end || r.Len() == 0 {
		r.reset(pos)
	}
	var ev T
	r.codec.Decode(row, &ev)
	r.push(ev)
	r.frozen = r.end
	return nil
}

func (r *Ring[T]) reset(pos uint64) {
	r.start, r.end, r.frozen, r.blocks, r.first = pos, pos, pos, nil, 0
}

// LoadBounds ends the loading of one image with its bounds: it drops what lies before start.
func (r *Ring[T]) LoadBounds(start, end uint64) error {
	if start == 0 || start > end || end < r.end {
		return fmt.Errorf("slab: load ring bounds [%d, %d): the ring holds [%d, %d)", start, end, r.start, r.end)
	}
	if start == end {
		r.reset(end)
		return nil
	}
	if end != r.end || start < r.start {
		return fmt.Errorf("slab: load ring bounds [%d, %d): the ring holds [%d, %d)", start, end, r.start, r.end)
	}
	r.DropBefore(start)
	return nil
}

// Bytes returns the memory held, in bytes.
func (r *Ring[T]) Bytes() int64 {
	return int64(unsafe.Sizeof(*r)) + int64(cap(r.blocks))*8 + int64(len(r.blocks))*int64(unsafe.Sizeof([ringBlock]T{}))
}
