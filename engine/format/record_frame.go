package format

import "encoding/binary"

// StoredFrame is a frame outside its entry, in a bulk segment. What its entry and its outcome told
// stands beside it, so that its rows can be made again from it alone. Raft group, replica, index and
// term are the record head's.
type StoredFrame struct {
	Group     RaftGroup
	Replica   Replica
	Index     Index
	Term      Term
	Partition PartitionID
	// Base is the offset of the frame's first stored message.
	Base Offset
	W    Wall
	// Origin is the segment of the commit stream in which the entry lay: the frame's rows belong to
	// the run that covers it, however often the frame has moved since.
	Origin SegmentID
	// Count messages were proposed. Refused, low bit first, says which of them are not stored; it is
	// there iff Flags has RowPartial.
	Count   uint32
	Flags   RowFlags
	Refused []byte
	// Frame is the stored frame, head included: it holds its first ordinal. It aliases the input.
	Frame []byte
}

const storedFrameFields = 40

// Record returns the record's head and the fields that precede Frame in the body.
func (v *StoredFrame) Record() (RecordHead, []byte) {
	le := binary.LittleEndian
	fields := make([]byte, storedFrameFields, storedFrameFields+len(v.Refused))
	le.PutUint64(fields, uint64(v.Partition))
	le.PutUint64(fields[8:], uint64(v.Base))
	le.PutUint64(fields[16:], uint64(v.W))
	le.PutUint32(fields[24:], uint32(v.Origin))
	le.PutUint32(fields[28:], v.Count)
	fields[32] = byte(v.Flags)
	if v.Flags&RowPartial != 0 {
		fields = append(fields, v.Refused[:bitmapBytes(v.Count)]...)
	}
	return RecordHead{
		Kind: RecordFrame, Group: v.Group, Replica: v.Replica, Index: v.Index, Term: v.Term,
		Covered: uint32(len(fields)),
	}, fields
}

// ParseStoredFrame is the way back, for the body of a record or of joined fragments. The body may be cut
// short behind its covered bytes; Frame is then what is there of it.
func ParseStoredFrame(h *RecordHead, body []byte) (v StoredFrame, err error) {
	if h.Kind != RecordFrame || h.Flags != 0 || h.Covered < storedFrameFields || len(body) < int(h.Covered) {
		return v, errorf("stored frame", 4, "kind %d flags %#x covered %d length %d", h.Kind, h.Flags, h.Covered, len(body))
	}
	le := binary.LittleEndian
	v = StoredFrame{
		Group: h.Group, Replica: h.Replica, Index: h.Index, Term: h.Term,
		Partition: PartitionID(le.Uint64(body)), Base: Offset(le.Uint64(body[8:])), W: Wall(le.Uint64(body[16:])),
		Origin: SegmentID(le.Uint32(body[24:])), Count: le.Uint32(body[28:]), Flags: RowFlags(body[32]),
		Frame: body[h.Covered:],
	}
	want := uint32(storedFrameFields)
	if v.Flags&RowPartial != 0 {
		want += bitmapBytes(v.Count)
		v.Refused = body[storedFrameFields:h.Covered:h.Covered]
	}
	if v.Count == 0 || v.Count > MaxOrdinals || h.Covered != want || !isZero(body[33:storedFrameFields]) {
		return v, errorf("stored frame", 28, "count %d flags %#x covered %d want %d", v.Count, v.Flags, h.Covered, want)
	}
	if n := popcount(v.Refused); n >= int(v.Count) {
		return v, errorf("stored frame", storedFrameFields, "%d of %d messages refused", n, v.Count)
	}
	return v, nil
}

// Kept is the number of messages that are stored.
func (v *StoredFrame) Kept() uint32 {
	if v.Refused == nil {
		return v.Count
	}
	return v.Count - uint32(popcount(v.Refused))
}

func bitmapBytes(count uint32) uint32 { return (count + 7) / 8 }
