package format

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// An id block holds rows of one length, which the head of its run gives, so that row i of a run is found, read and
// written by arithmetic:
//
//	| crc32c u32 | rows u16 | 0 u16 | rows | zeros |
//
//	row: | spread u64 | hash, low half u64 | counter | offset | index | ordinal | W |
//
// The last five are differences to the smallest value in the run, in as many bytes as the largest one of the run needs.
// The hash's high half follows from the spread, and the partition from its counter and the raft group of the run.
// The checksum covers everything behind itself.
const (
	idBlockHead = 8
	idRowFixed  = 16
	// IDColumns is how many columns of a row differ in width from run to run.
	IDColumns = 5
	// A column is read as eight bytes whatever its width, so as many lie behind the last row of a block.
	idRowSpare = 8
)

const (
	colIDCounter = iota
	colIDOffset
	colIDIndex
	colIDOrdinal
	colIDW
)

// IDLayout is what the rows of a run are laid out by: the smallest and the largest value of each column.
type IDLayout struct{ Low, Top [IDColumns]uint64 }

// IDBounds collects a layout. Its zero value has seen nothing.
type IDBounds struct {
	layout IDLayout
	seen   bool
}

func (r *IDRow) columns() [IDColumns]uint64 {
	return [IDColumns]uint64{uint64(r.Partition >> 6), uint64(r.Offset), uint64(r.Place.Index), uint64(r.Place.Ordinal), wallKey(r.W)}
}

// Add takes a row that will be in the run.
func (b *IDBounds) Add(r *IDRow) {
	v := r.columns()
	if !b.seen {
		b.layout, b.seen = IDLayout{v, v}, true
		return
	}
	l := &b.layout
	for i, x := range v {
		if x < l.Low[i] {
			l.Low[i] = x
		} else if x > l.Top[i] {
			l.Top[i] = x
		}
	}
}

// AddRun takes all rows of another run.
func (b *IDBounds) AddRun(l *IDLayout) {
	if !b.seen {
		b.layout, b.seen = *l, true
		return
	}
	for i := range l.Low {
		b.layout.Low[i], b.layout.Top[i] = min(b.layout.Low[i], l.Low[i]), max(b.layout.Top[i], l.Top[i])
	}
}

// Layout is the layout for the rows taken.
func (b *IDBounds) Layout() IDLayout { return b.layout }

// idPlan is where the columns of a row lie.
type idPlan struct {
	low    [IDColumns]uint64
	mask   [IDColumns]uint64
	at     [IDColumns]int
	stride int
	limit  int // rows of a full block: at least 72
}

func (l *IDLayout) plan() (p idPlan) {
	p.low, p.stride = l.Low, idRowFixed
	for i := range l.Low {
		width := (bits.Len64(l.Top[i]-l.Low[i]) + 7) / 8
		p.at[i], p.mask[i] = p.stride, ^uint64(0)>>(64-8*width)
		p.stride += width
	}
	p.limit = (BlockSize - idBlockHead - idRowSpare) / p.stride
	return p
}

// idPacker fills one block.
type idPacker struct {
	plan  idPlan
	rows  int
	block [BlockSize]byte
}

func (p *idPacker) begin(l *IDLayout) {
	p.plan, p.rows = l.plan(), 0
	clear(p.block[:])
}

// add takes a row that fits the layout; the block is not full.
func (p *idPacker) add(spread uint64, r *IDRow) {
	le := binary.LittleEndian
	b := p.block[idBlockHead+p.rows*p.plan.stride:][:p.plan.stride+idRowSpare]
	le.PutUint64(b, spread)
	le.PutUint64(b[8:], binary.BigEndian.Uint64(r.Hash[8:]))
	// Each column overwrites the zeros that the one before put behind itself.
	for i, v := range r.columns() {
		le.PutUint64(b[p.plan.at[i]:], v-p.plan.low[i])
	}
	p.rows++
}

// encode ends the block and begins the next one; what it returns is good until rows are added.
func (p *idPacker) encode() []byte {
	b := p.block[:]
	clear(b[idBlockHead+p.rows*p.plan.stride:])
	le := binary.LittleEndian
	le.PutUint16(b[4:], uint16(p.rows))
	le.PutUint32(b, crc32c(b[4:]))
	p.rows = 0
	return b
}

// IDBlock is a parsed block; it aliases the input.
type IDBlock struct {
	b     []byte
	rows  int
	group RaftGroup
	plan  idPlan
}

// ParseIDBlock verifies a block of exactly BlockSize bytes of a run with that head.
func ParseIDBlock(h *RunHead, b []byte) (IDBlock, error) {
	if len(b) != BlockSize {
		return IDBlock{}, errorf("id block", 0, "length %d want %d", len(b), BlockSize)
	}
	le := binary.LittleEndian
	if got, want := crc32c(b[4:]), le.Uint32(b); got != want {
		return IDBlock{}, errorf("id block", 0, "checksum %#x want %#x", got, want)
	}
	v := IDBlock{b: b, rows: int(le.Uint16(b[4:])), group: h.Group, plan: h.IDs.plan()}
	if v.rows == 0 || v.rows > v.plan.limit || b[6] != 0 || b[7] != 0 {
		return IDBlock{}, errorf("id block", 4, "%d rows of %d bytes", v.rows, v.plan.stride)
	}
	return v, nil
}

// Len is the number of rows, at least 1.
func (b *IDBlock) Len() int { return b.rows }

// Spread is IDSpread of row i.
func (b *IDBlock) Spread(i int) uint64 {
	return binary.LittleEndian.Uint64(b.b[idBlockHead+i*b.plan.stride:])
}

// At fills r with row i.
func (b *IDBlock) At(i int, r *IDRow) {
	le := binary.LittleEndian
	p := b.b[idBlockHead+i*b.plan.stride:][:b.plan.stride+idRowSpare]
	var v [IDColumns]uint64
	for c := range v {
		v[c] = b.plan.low[c] + le.Uint64(p[b.plan.at[c]:])&b.plan.mask[c]
	}
	r.Partition = PartitionID(v[colIDCounter]<<6) | PartitionID(b.group)
	low := le.Uint64(p[8:])
	binary.BigEndian.PutUint64(r.Hash[:8], le.Uint64(p)^low^spreadOf(r.Partition))
	binary.BigEndian.PutUint64(r.Hash[8:], low)
	r.Offset, r.Place = Offset(v[colIDOffset]), Place{Index(v[colIDIndex]), Ordinal(v[colIDOrdinal])}
	r.W = wallOf(v[colIDW])
}

// Key is partition and hash of row i.
func (b *IDBlock) Key(i int) (PartitionID, IDHash) {
	var r IDRow
	b.At(i, &r)
	return r.Partition, r.Hash
}

// Find returns the number of the first row whose spread is not below the given one; Len() when all are. Rows of one
// id are among those that have its spread, in the order of their offsets.
func (b *IDBlock) Find(spread uint64) int {
	low, high := 0, b.rows
	for low < high {
		mid := int(uint(low+high) >> 1)
		if b.Spread(mid) < spread {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// AppendTo appends all rows to dst and their spreads to spreads.
func (b *IDBlock) AppendTo(dst []IDRow, spreads []uint64) ([]IDRow, []uint64) {
	n := len(dst)
	dst = slices.Grow(dst, b.rows)[:n+b.rows]
	for i := range b.rows {
		b.At(i, &dst[n+i])
		spreads = append(spreads, b.Spread(i))
	}
	return dst, spreads
}
