package format

import "encoding/binary"

// RecordKind is the kind byte of a record in an extent. The numbers are on disk.
type RecordKind uint8

const (
	// RecordEntry is an entry of a raft group.
	RecordEntry RecordKind = 1
	// RecordFragment is a piece of an entry, outcome or frame of more than FragmentBytes.
	RecordFragment RecordKind = 2
	// RecordOutcome is what applying a range of entries decided.
	RecordOutcome RecordKind = 3
	// RecordHardState is term, vote and commit of a replica.
	RecordHardState RecordKind = 4
	// RecordSnapshot is where a replica's raft log begins, with the membership there.
	RecordSnapshot RecordKind = 5
	// RecordFloor says that raft needs no entry at or below Index.
	RecordFloor RecordKind = 6
	// RecordBootstrap is the membership a replica was born with.
	RecordBootstrap RecordKind = 7
	// RecordCut drops earlier entries at or above Index.
	RecordCut RecordKind = 8
	// RecordRemoved says that the replica was removed: everything of it before is dead.
	RecordRemoved RecordKind = 9
	// RecordFrame is a frame stored outside its entry (bulk segments only).
	RecordFrame RecordKind = 10

	maxRecordKind = RecordFrame
)

const (
	// RecordHeadSize is the length of a record's head.
	RecordHeadSize = 40
	// FragmentBytes is the most that one record holds of an entry, an outcome or a frame.
	FragmentBytes = 1 << 20
	// MaxRecordBody bounds a record's body, and so what a reader allocates for one.
	MaxRecordBody = FragmentBytes + 1<<10

	recordAlign = 8
)

// RecordHead opens a record. A record is | head | body | zeros to a multiple of 8 |.
//
// INVARIANT: no record starts at a multiple of BlockSize; where it would, eight zero bytes come
// first. So the bytes at a block boundary behind a record are either an extent's head or zeros, and a
// reader that knows only a record's position finds the record after it (NextRecord).
type RecordHead struct {
	Kind  RecordKind
	Group RaftGroup
	// Flags depend on Kind.
	Flags uint8
	// Length is the length of the body in bytes, without padding.
	Length uint32
	// Covered is how many bytes of the body the record's checksum covers; the rest (payload) is
	// guarded by the frames' own checksums and by the extent's.
	Covered uint32
	Replica Replica
	// Index and Term are the entry's; for a hardstate the commit index and the term; for an outcome
	// the first index of its range.
	Index Index
	Term  Term
}

// Size is the length of the record in the extent, padding included.
func (h *RecordHead) Size() int {
	return (RecordHeadSize + int(h.Length) + recordAlign - 1) &^ (recordAlign - 1)
}

// AppendRecord appends a record to b, which holds an extent from its first byte on (so that positions
// in b and in the file agree modulo BlockSize). The body is the parts joined; h.Length is filled in,
// h.Covered must not exceed it. It returns the position of the record in b.
func AppendRecord(b []byte, h *RecordHead, parts ...[]byte) ([]byte, int) {
	return AppendRecordOf(b, h, nil, nil, parts)
}

// AppendRecordOf is AppendRecord for a body that is first, second and then more.
func AppendRecordOf(b []byte, h *RecordHead, first, second []byte, more [][]byte) ([]byte, int) {
	if len(b)%BlockSize == 0 {
		b = appendZeros(b, recordAlign)
	}
	at := len(b)
	b = appendZeros(b, RecordHeadSize)
	b = append(append(b, first...), second...)
	for _, p := range more {
		b = append(b, p...)
	}
	h.Length = uint32(len(b) - at - RecordHeadSize)
	h.encode(b[at:])
	return appendZeros(b, -len(b)&(recordAlign-1)), at
}

// encode writes the head in front of the body that follows it in b.
func (h *RecordHead) encode(b []byte) {
	le := binary.LittleEndian
	b[4], b[5], b[6], b[7] = byte(h.Kind), byte(h.Group), h.Flags, 0
	le.PutUint32(b[8:], h.Length)
	le.PutUint32(b[12:], h.Covered)
	le.PutUint64(b[16:], uint64(h.Replica))
	le.PutUint64(b[24:], uint64(h.Index))
	le.PutUint64(b[32:], uint64(h.Term))
	le.PutUint32(b, crc32c(b[4:RecordHeadSize+int(h.Covered)]))
}

// ParseRecordHead parses a head without its checksum, which covers part of the body too. Bounds are
// checked, so that Length may be read and allocated.
func ParseRecordHead(b []byte) (h RecordHead, err error) {
	if len(b) < RecordHeadSize {
		return h, errorf("record", len(b), "shorter than its head")
	}
	le := binary.LittleEndian
	h = RecordHead{
		Kind: RecordKind(b[4]), Group: RaftGroup(b[5]), Flags: b[6], Length: le.Uint32(b[8:]),
		Covered: le.Uint32(b[12:]), Replica: Replica(le.Uint64(b[16:])),
		Index: Index(le.Uint64(b[24:])), Term: Term(le.Uint64(b[32:])),
	}
	switch {
	case h.Kind == 0 || h.Kind > maxRecordKind:
		return h, errorf("record", 4, "unknown kind %d", h.Kind)
	case h.Group == 0 || h.Group > 63:
		return h, errorf("record", 5, "raft group %d", h.Group)
	case b[7] != 0:
		return h, errorf("record", 7, "reserved byte is not zero")
	case h.Length > MaxRecordBody || h.Covered > h.Length:
		return h, errorf("record", 8, "length %d, covered %d", h.Length, h.Covered)
	}
	return h, nil
}

// ParseRecord parses the record at b[0], verifies its checksum and returns its body, which aliases b
// and may be cut short: at least Covered bytes are there.
func ParseRecord(b []byte) (h RecordHead, body []byte, err error) {
	if h, err = ParseRecordHead(b); err != nil {
		return h, nil, err
	}
	if len(b) < RecordHeadSize+int(h.Covered) {
		return h, nil, errorf("record", len(b), "ends before its %d covered bytes", h.Covered)
	}
	want := binary.LittleEndian.Uint32(b)
	if got := crc32c(b[4 : RecordHeadSize+int(h.Covered)]); got != want {
		return h, nil, errorf("record", 0, "checksum %#x want %#x", got, want)
	}
	end := min(len(b), RecordHeadSize+int(h.Length))
	return h, b[RecordHeadSize:end:end], nil
}

// Step says what NextRecord found behind a record.
type Step uint8

const (
	// StepRecord: a record's head starts at the position returned.
	StepRecord Step = 1
	// StepExtent: an extent's head, or nothing yet, is at the position returned.
	StepExtent Step = 2
)

// NextRecord tells where to look after a record that ends at pos (a multiple of 8). b holds at least
// the eight bytes at pos. At most two calls are needed: zeros at a block boundary lead eight further.
func NextRecord(pos int64, b []byte) (int64, Step) {
	zero := isZero(b[:recordAlign])
	boundary := pos%BlockSize == 0
	switch {
	case boundary && zero:
		return pos + recordAlign, StepRecord
	case boundary:
		return pos, StepExtent
	case zero:
		return (pos + BlockSize - 1) &^ (BlockSize - 1), StepExtent
	}
	return pos, StepRecord
}

// RecordReader walks the records of one verified extent.
type RecordReader struct {
	b     []byte
	pos   int
	left  uint32
	start int
	err   error

	head RecordHead
	body []byte
}

// ReadRecords walks the extent in b, which VerifyExtent accepted.
func (h *ExtentHead) ReadRecords(b []byte) RecordReader {
	return RecordReader{b: b[:ExtentHeadSize+int(h.Bytes)], pos: ExtentHeadSize, left: h.Records}
}

// Next moves to the next record; false at the end or at a fault (Err tells them apart).
func (r *RecordReader) Next() bool {
	if r.err != nil || r.left == 0 {
		if r.err == nil && r.pos != len(r.b) {
			r.err = errorf("extent", r.pos, "bytes after the last record")
		}
		return false
	}
	if r.pos%BlockSize == 0 {
		if len(r.b)-r.pos < recordAlign || !isZero(r.b[r.pos:r.pos+recordAlign]) {
			r.err = errorf("extent", r.pos, "a record starts at a block boundary")
			return false
		}
		r.pos += recordAlign
	}
	head, body, err := ParseRecord(r.b[r.pos:])
	if err == nil && (len(body) != int(head.Length) || head.Size() > len(r.b)-r.pos ||
		!isZero(r.b[r.pos+RecordHeadSize+len(body):r.pos+head.Size()])) {
		err = errorf("record", 8, "body or padding do not fit the extent")
	}
	if err != nil {
		e := err.(*Error)
		r.err = &Error{What: e.What, Pos: r.pos + e.Pos, Msg: e.Msg}
		return false
	}
	r.head, r.body, r.start = head, body, r.pos
	r.pos += head.Size()
	r.left--
	return true
}

// Head, Body and Pos are the current record's; Pos counts from the start of the extent.
func (r *RecordReader) Head() *RecordHead { return &r.head }

// Body is the current record's body, aliasing the extent.
func (r *RecordReader) Body() []byte { return r.body }

// Pos is the current record's position in the extent.
func (r *RecordReader) Pos() int { return r.start }

// Err is nil after Next walked all records and nothing was left over.
func (r *RecordReader) Err() error { return r.err }
