package rows

import (
	"fmt"

	"queen/engine/format"
)

// Row says where one stored frame is and which offsets it holds.
type Row struct {
	Partition format.PartitionID
	// Base is the offset of the row's first stored message.
	Base format.Offset
	// Number counts stored frames of the raft group from 1; Prev is the partition's row before, 0
	// when none, PrevUnknown when it was not looked up. Both are 0 in rows read back from files.
	Number, Prev uint64
	// W is the entry's calendar stamp: createdAt of every message of the frame.
	W format.Wall
	// Index and First are the place of the frame's first message as proposed. Both are 0 in rows read
	// back from files, which would be a quarter longer with them: the record at Segment and Pos tells
	// the index, the frame's head the ordinal, and who needs either is about to read them.
	Index format.Index
	First format.Ordinal
	// Segment and Pos name the record in which the frame starts: the entry, a fragment of it, or a
	// stored frame; Off and Len are where the frame lies in the entry's bytes.
	Segment, Pos uint32
	Off, Len     uint32
	// Count messages were proposed, Kept were stored.
	Count, Kept uint32
	Flags       Flags
	// Refused is a bitmap over the proposed messages from number From on, nil when all were kept. From
	// is 0 but in rows read back from files, where a partial frame of more than format.RowSpanMax
	// messages has several rows; Count is then where the row's part of the frame ends.
	Refused []byte
	From    uint32
}

// PrevUnknown stands in Prev of rows that were made again from the log, which does not tell.
const PrevUnknown = ^uint64(0)

// Flags describe a row. The bits are on disk (format.RowFlags).
type Flags uint8

const (
	Native        = Flags(format.RowNative)
	Kafka         = Flags(format.RowKafka)
	Control       = Flags(format.RowControl)
	Transactional = Flags(format.RowTransactional)
	Compacted     = Flags(format.RowCompacted)
	Partial       = Flags(format.RowPartial) // Refused is not nil
	ExplicitID    = Flags(format.RowExplicitID)
)

// End is one past the last offset of the row.
func (r *Row) End() format.Offset { return r.Base + format.Offset(r.Kept) }

// IsRefused reports whether message i of the frame as proposed is none of the row's: it was refused,
// or another row of the same frame has it.
func (r *Row) IsRefused(i uint32) bool {
	if r.Refused == nil {
		return false
	}
	at := i - r.From
	return i < r.From || i >= r.Count || r.Refused[at/8]&(1<<(at%8)) != 0
}

// appendFormat appends the rows of r as files hold them: one, or several for a large partial frame.
func (r *Row) appendFormat(dst []format.Row) ([]format.Row, error) {
	f := format.Row{
		Partition: r.Partition, Base: r.Base, Count: r.Kept, Segment: format.SegmentID(r.Segment), Pos: r.Pos,
		EntryOffset: r.Off, Length: r.Len, Created: r.W, Flags: format.RowFlags(r.Flags &^ Partial),
	}
	if r.Pos%posAlign != 0 || r.Kept == 0 || r.Count < r.From || r.Partition < firstPartition {
		return dst, fmt.Errorf("rows: row of partition %d at offset %d can not be stored: pos %d, %d of %d kept",
			r.Partition, r.Base, r.Pos, r.Kept, r.Count)
	}
	if r.Refused == nil {
		return append(dst, f), nil
	}
	if len(r.Refused) < int(r.Count-r.From+7)/8 {
		return dst, fmt.Errorf("rows: row of partition %d at offset %d: bitmap of %d bytes for %d messages",
			r.Partition, r.Base, len(r.Refused), r.Count-r.From)
	}
	at := len(dst)
	dst = format.SplitPartial(dst, f, r.Count-r.From, r.Refused)
	for i := range dst[at:] {
		dst[at+i].From += r.From
	}
	return dst, nil
}

// posAlign is what every record's position is a multiple of.
const posAlign = 8

// ofFormat is the way back.
func ofFormat(f *format.Row) Row {
	r := Row{
		Partition: f.Partition, Base: f.Base, W: f.Created, Segment: uint32(f.Segment), Pos: f.Pos,
		Off: f.EntryOffset, Len: f.Length, Count: f.Count, Kept: f.Count, Flags: Flags(f.Flags),
	}
	if f.Flags&format.RowPartial != 0 {
		r.From, r.Count, r.Refused = f.From, f.From+f.Span, f.Refused
	}
	return r
}
