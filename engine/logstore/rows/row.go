package rows

import "queen/engine/format"

// Row says where one stored frame is and which offsets it holds.
type Row struct {
	Partition format.PartitionID
	// Base is the offset of the frame's first stored message.
	Base format.Offset
	// Number counts stored frames of the raft group from 1; Prev is the partition's row before, 0
	// when none. Both are 0 in rows read back from files.
	Number, Prev uint64
	// W is the entry's calendar stamp: createdAt of every message of the frame.
	W format.Wall
	// Index and First are the place of the frame's first message as proposed.
	Index format.Index
	First format.Ordinal
	// Segment and Pos name the record that holds the entry (or the first fragment of it); Off and Len
	// are where the frame lies in the entry's bytes.
	Segment, Pos uint32
	Off, Len     uint32
	// Count messages were proposed, Kept were stored.
	Count, Kept uint32
	Flags       Flags
	// Refused is a bitmap over the Count proposed messages, nil when all were kept.
	Refused []byte
}

// Flags describe a row. The bits are on disk.
type Flags uint8

const (
	Native        Flags = 1 << 0
	Kafka         Flags = 1 << 1
	Control       Flags = 1 << 2
	Transactional Flags = 1 << 3
	Compacted     Flags = 1 << 4
	Partial       Flags = 1 << 5 // Refused is not nil
	ExplicitID    Flags = 1 << 6
)

// End is one past the last offset of the frame.
func (r *Row) End() format.Offset { return r.Base + format.Offset(r.Kept) }

// IsRefused reports whether message i of the frame as proposed was not stored.
func (r *Row) IsRefused(i uint32) bool {
	return r.Refused != nil && r.Refused[i/8]&(1<<(i%8)) != 0
}
