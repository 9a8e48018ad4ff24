package format

import (
	"encoding/binary"
	"sort"
)

// RowFlags say what kind of frame a row stands for. The bits are on disk.
type RowFlags uint8

const (
	RowNative        RowFlags = 1 << 0
	RowKafka         RowFlags = 1 << 1
	RowControl       RowFlags = 1 << 2 // the EndTxn command; the batch is made when it is read
	RowTransactional RowFlags = 1 << 3
	RowCompacted     RowFlags = 1 << 4
	RowPartial       RowFlags = 1 << 5 // From, Span and Refused say which messages were stored
	RowExplicitID    RowFlags = 1 << 6
)

// RowSpanMax bounds the proposed messages that one partial row covers, so that its bitmap fits a block;
// a larger partial frame has several rows, each with its part of the frame (SplitPartial).
const RowSpanMax = 8192

// Row finds a stored frame: Count messages of a partition from offset Base on.
type Row struct {
	Partition PartitionID
	Base      Offset
	Count     uint32
	// Segment and Pos are where the record starts that holds the frame's first byte: an entry record,
	// the fragment of it in which the frame starts, or a stored frame. A multiple of 8.
	Segment SegmentID
	Pos     uint32
	// EntryOffset is the frame's position in the entry's bytes (0 for a stored frame), Length its
	// length, head included. A reader stitches the fragments that follow.
	EntryOffset, Length uint32
	// Created is the W of the entry.
	Created Wall
	Flags   RowFlags
	// Back leads from the first row of a partition in a run to the run that holds the rows before:
	// this run's number minus that one's; 0 in other rows, and when there is none.
	Back uint32

	// RowPartial only: the row covers Span proposed messages of the frame from number From on; bit i of
	// Refused (low bit first) says that message From+i was refused. Count is the others.
	From, Span uint32
	Refused    []byte
}

// Less orders rows by partition and offset.
func (r *Row) Less(o *Row) bool {
	return r.Partition < o.Partition || r.Partition == o.Partition && r.Base < o.Base
}

// SplitPartial makes the rows of a frame of which messages were refused: row is the frame's, refused
// its bitmap over count proposed messages. Rows without a stored message are left out.
func SplitPartial(dst []Row, row Row, count uint32, refused []byte) []Row {
	base := row.Base
	for from := uint32(0); from < count; from += RowSpanMax {
		span := min(RowSpanMax, count-from)
		part := refused[from/8 : (from+span+7)/8]
		kept := span - uint32(popcount(part))
		if kept == 0 {
			continue
		}
		r := row
		r.Flags |= RowPartial
		r.Base, r.Count, r.From, r.Span, r.Refused = base, kept, from, span, part
		dst = append(dst, r)
		base += Offset(kept)
	}
	return dst
}

// Columns of a row block.
const (
	colCounter = iota // the partition id without its raft group
	colGroup          // the six low bits of the partition id
	colBase
	colCount
	colSegment
	colPos // in units of 8 bytes
	colEntryOffset
	colLength
	colCreated
	colFlags
	colBack
	colHeap
	rowColumns

	partialFixed = 8
)

// RowPacker packs sorted rows into blocks. Its zero value is ready.
type RowPacker struct {
	p       packer
	scratch []byte
}

// Add takes the row, or returns false when the block is full: Encode it, Reset, and add again.
func (w *RowPacker) Add(r *Row) bool {
	w.p.columns = rowColumns
	row := packedRow{
		uint64(r.Partition >> 6), uint64(r.Partition & 63), uint64(r.Base), uint64(r.Count), uint64(r.Segment),
		uint64(r.Pos / recordAlign),
		uint64(r.EntryOffset), uint64(r.Length), wallKey(r.Created), uint64(r.Flags), uint64(r.Back),
	}
	var item []byte
	if r.Flags&RowPartial != 0 {
		item = binary.LittleEndian.AppendUint32(w.scratch[:0], r.From)
		item = binary.LittleEndian.AppendUint32(item, r.Span)
		item = append(item, r.Refused...)
		w.scratch = item
		row[colHeap] = w.p.heapRef(item)
	}
	return w.p.add(&row, item)
}

// Len is the number of rows taken since Reset.
func (w *RowPacker) Len() int { return len(w.p.rows) }

// Encode writes the block into the first BlockSize bytes of dst.
func (w *RowPacker) Encode(dst []byte) { w.p.encode(dst) }

// Reset starts an empty block.
func (w *RowPacker) Reset() { w.p.reset() }

// RowBlock is a parsed block of rows; it aliases the input.
type RowBlock struct{ p packed }

// ParseRowBlock verifies a block of exactly BlockSize bytes.
func ParseRowBlock(b []byte) (RowBlock, error) {
	p, err := parsePacked("row block", b, rowColumns)
	return RowBlock{p}, err
}

// Len is the number of rows, at least 1.
func (b *RowBlock) Len() int { return b.p.rows }

// Key is the partition and base of row i, the cheap part of At.
func (b *RowBlock) Key(i int) (PartitionID, Offset) {
	return b.partition(i), Offset(b.p.get(i, colBase))
}

func (b *RowBlock) partition(i int) PartitionID {
	return PartitionID(b.p.get(i, colCounter)<<6 | b.p.get(i, colGroup)&63)
}

// At fills r with row i; Refused aliases the block.
func (b *RowBlock) At(i int, r *Row) error {
	p := &b.p
	*r = Row{
		Partition: b.partition(i), Base: Offset(p.get(i, colBase)),
		Count: uint32(p.get(i, colCount)), Segment: SegmentID(p.get(i, colSegment)),
		Pos: uint32(p.get(i, colPos) * recordAlign), EntryOffset: uint32(p.get(i, colEntryOffset)),
		Length: uint32(p.get(i, colLength)), Created: wallOf(p.get(i, colCreated)),
		Flags: RowFlags(p.get(i, colFlags)), Back: uint32(p.get(i, colBack)),
	}
	if r.Flags&RowPartial == 0 {
		return nil
	}
	item := p.item(p.get(i, colHeap))
	if len(item) < partialFixed {
		return errorf("row block", 8, "row %d has no bitmap", i)
	}
	r.From, r.Span = binary.LittleEndian.Uint32(item), binary.LittleEndian.Uint32(item[4:])
	item = item[partialFixed:]
	if r.Span == 0 || r.Span > RowSpanMax || int(r.Span+7)/8 > len(item) {
		return errorf("row block", 8, "row %d spans %d messages", i, r.Span)
	}
	r.Refused = item[: (r.Span+7)/8 : (r.Span+7)/8]
	return nil
}

// Find returns the number of the last row whose (partition, base) is not above the given one; -1 when
// all are above.
func (b *RowBlock) Find(pid PartitionID, o Offset) int {
	return sort.Search(b.p.rows, func(i int) bool {
		p, base := b.Key(i)
		return p > pid || p == pid && base > o
	}) - 1
}

// wallKey orders times as unsigned numbers.
func wallKey(w Wall) uint64 { return uint64(w) ^ 1<<63 }

func wallOf(v uint64) Wall { return Wall(v ^ 1<<63) }
