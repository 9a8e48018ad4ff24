package batch

import "encoding/binary"

// Builder makes one batch. The zero Builder is not usable; see NewBuilder.
type Builder struct {
	h    Header
	out  []byte // what was there before the batch
	body []byte // records, not compressed; in out's array when the codec is None
	any  bool
}

// Head is a header for a Builder: no producer, no codec, no leader epoch. Codec and flags go into Attributes.
func Head(baseOffset int64) Header {
	return Header{BaseOffset: baseOffset, LeaderEpoch: NoEpoch, Magic: Magic, ProducerID: NoProducer, ProducerEpoch: -1,
		BaseSequence: NoSequence}
}

// NewBuilder starts a batch that is appended to dst. Of h, length, checksum, last offset delta, count and timestamps
// are the builder's; except that with the append-time flag MaxTimestamp is kept.
func NewBuilder(dst []byte, h Header) *Builder {
	b := &Builder{h: h, out: dst}
	b.h.Magic, b.h.Count, b.h.LastOffsetDelta = Magic, 0, -1
	b.h.BaseTimestamp = NoTimestamp
	if !h.AppendTime() {
		b.h.MaxTimestamp = NoTimestamp
	}
	return b
}

// Add appends a record. Offset deltas are strictly increasing; those that a producer sends count from 0. The first
// record's timestamp is the base that the others are written relative to.
func (b *Builder) Add(r *Record) {
	if !b.any {
		b.any, b.h.BaseTimestamp = true, r.Timestamp
		if b.h.AppendTime() {
			b.h.BaseTimestamp = b.h.MaxTimestamp
		}
	}
	dt := int64(0)
	if !b.h.AppendTime() {
		dt = r.Timestamp - b.h.BaseTimestamp
		b.h.MaxTimestamp = max(b.h.MaxTimestamp, r.Timestamp)
	}
	b.body = appendRecord(b.body, r, dt)
	b.h.Count++
	b.h.LastOffsetDelta = r.OffsetDelta
}

// Len is the number of bytes of the records so far, before compression.
func (b *Builder) Len() int { return len(b.body) }

// Finish returns dst with the batch behind it. SpanTo reserves offsets behind the last record, as compaction leaves
// them; less than the last record's delta is no matter.
func (b *Builder) Finish(spanTo int32) ([]byte, error) {
	b.h.LastOffsetDelta = max(b.h.LastOffsetDelta, spanTo)
	start := len(b.out)
	out := appendHeader(b.out, &b.h)
	out, err := compress(b.h.Codec(), out, b.body)
	if err != nil {
		return nil, err
	}
	binary.BigEndian.PutUint32(out[start+posLength:], uint32(len(out)-start-prefixBytes))
	seal(out[start:])
	return out, nil
}

// appendRecord writes a record with its length in front.
func appendRecord(b []byte, r *Record, dt int64) []byte {
	size := 1 + varintLen(dt) + varintLen(int64(r.OffsetDelta)) + bytesLen(r.Key) + bytesLen(r.Value) +
		varintLen(int64(len(r.Headers)))
	for _, h := range r.Headers {
		size += varintLen(int64(len(h.Key))) + len(h.Key) + bytesLen(h.Value)
	}
	b = binary.AppendVarint(b, int64(size))
	b = append(b, 0)
	b = binary.AppendVarint(b, dt)
	b = binary.AppendVarint(b, int64(r.OffsetDelta))
	b = appendBytes(b, r.Key)
	b = appendBytes(b, r.Value)
	b = binary.AppendVarint(b, int64(len(r.Headers)))
	for _, h := range r.Headers {
		b = binary.AppendVarint(b, int64(len(h.Key)))
		b = append(b, h.Key...)
		b = appendBytes(b, h.Value)
	}
	return b
}

func appendBytes(b, v []byte) []byte {
	if v == nil {
		return binary.AppendVarint(b, -1)
	}
	return append(binary.AppendVarint(b, int64(len(v))), v...)
}

func bytesLen(v []byte) int {
	if v == nil {
		return 1
	}
	return varintLen(int64(len(v))) + len(v)
}

func varintLen(v int64) int {
	n := 1
	for u := uint64(v<<1) ^ uint64(v>>63); u >= 0x80; u >>= 7 {
		n++
	}
	return n
}

// Marker is the content of a control batch: how a producer's transaction on this partition ended.
type Marker struct {
	ProducerID       int64
	ProducerEpoch    int16
	CoordinatorEpoch int32
	Commit           bool
	// Timestamp in milliseconds since 1970.
	Timestamp int64
}

// AppendControl appends the control batch of m, with the one offset that it takes, to dst.
func AppendControl(dst []byte, baseOffset int64, leaderEpoch int32, m Marker) []byte {
	h := Head(baseOffset)
	h.LeaderEpoch = leaderEpoch
	h.Attributes = flagTransactional | flagControl
	h.ProducerID, h.ProducerEpoch = m.ProducerID, m.ProducerEpoch
	key := [4]byte{} // version 0, type 0 abort or 1 commit
	if m.Commit {
		key[3] = 1
	}
	value := binary.BigEndian.AppendUint32(make([]byte, 2, 6), uint32(m.CoordinatorEpoch))
	b := NewBuilder(dst, h)
	b.Add(&Record{Timestamp: m.Timestamp, Key: key[:], Value: value})
	out, err := b.Finish(0)
	if err != nil {
		panic(err) // nothing is compressed
	}
	return out
}

// ParseControl reads the control batch that b starts with.
func ParseControl(b []byte) (Marker, error) {
	h, err := ParseHeader(b)
	if err != nil {
		return Marker{}, err
	}
	if !h.Control() || h.Count != 1 {
		return Marker{}, refuse(Invalid, "not a control batch")
	}
	m := Marker{ProducerID: h.ProducerID, ProducerEpoch: h.ProducerEpoch}
	var bad error
	err = Records(b, Limits{Records: 1}, func(r *Record) bool {
		m.Timestamp = r.Timestamp
		switch {
		case len(r.Key) < 4 || len(r.Value) < 6 || r.Key[2] != 0 || r.Key[3] > 1:
			bad = refuse(Invalid, "a control record that is neither commit nor abort")
		default:
			m.Commit = r.Key[3] == 1
			m.CoordinatorEpoch = int32(binary.BigEndian.Uint32(r.Value[2:]))
		}
		return true
	})
	if err == nil {
		err = bad
	}
	return m, err
}
