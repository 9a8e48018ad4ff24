package batch

import (
	"encoding/binary"
	"hash/crc32"
)

// Places in a batch.
const (
	// HeaderBytes is the size of a batch without records.
	HeaderBytes = 61

	posLength      = 8
	posEpoch       = 12
	posMagic       = 16
	posCRC         = 17
	posAttributes  = 21
	posLastDelta   = 23
	posBaseTime    = 27
	posMaxTime     = 35
	posProducer    = 43
	posEpochOfProd = 51
	posSequence    = 53
	posCount       = 57
	// prefixBytes is what the length does not count.
	prefixBytes = 12
)

// Bits of the attributes.
const (
	codecMask         = 7
	flagAppendTime    = 1 << 3
	flagTransactional = 1 << 4
	flagControl       = 1 << 5
)

// Magic of the format that is stored.
const Magic = 2

// Values that mean "none" on the wire.
const (
	NoTimestamp = int64(-1)
	NoProducer  = int64(-1)
	NoEpoch     = int32(-1)
	NoSequence  = int32(-1)
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Header is the head of a batch.
type Header struct {
	BaseOffset int64
	// Length counts the bytes after itself: the whole batch has Length+12.
	Length      int32
	LeaderEpoch int32
	Magic       int8
	CRC         uint32
	Attributes  int16
	// LastOffsetDelta is the last record's offset less BaseOffset; where compaction took records out it stays.
	LastOffsetDelta int32
	// BaseTimestamp and MaxTimestamp are milliseconds since 1970; -1 is none.
	BaseTimestamp, MaxTimestamp int64
	ProducerID                  int64
	ProducerEpoch               int16
	BaseSequence                int32
	Count                       int32
}

// Codec is how the records are compressed.
func (h Header) Codec() Codec { return Codec(h.Attributes & codecMask) }

// AppendTime reports whether every record has MaxTimestamp, the time of the append, as its timestamp.
func (h Header) AppendTime() bool { return h.Attributes&flagAppendTime != 0 }

// Transactional reports whether the batch belongs to a transaction.
func (h Header) Transactional() bool { return h.Attributes&flagTransactional != 0 }

// Control reports whether the record is a marker for clients, not a message.
func (h Header) Control() bool { return h.Attributes&flagControl != 0 }

// Size is the number of bytes of the whole batch.
func (h Header) Size() int { return int(h.Length) + prefixBytes }

// LastSequence is the sequence number of the last record: they wrap to 0 after 2^31-1.
func (h Header) LastSequence() int32 {
	if h.BaseSequence == NoSequence {
		return NoSequence
	}
	return int32((int64(h.BaseSequence) + int64(h.LastOffsetDelta)) & (1<<31 - 1))
}

// ParseHeader reads the head of the batch that b starts with, without a look at its records or its checksum. b may be
// longer or shorter than the batch.
func ParseHeader(b []byte) (Header, error) {
	if len(b) < posMagic+1 {
		return Header{}, corrupt("%d bytes are too few for a record batch, which has at least %d", len(b), HeaderBytes)
	}
	if m := int8(b[posMagic]); m != Magic {
		return Header{}, refuse(BadMagic, "record batch format %d, only %d is served", m, Magic)
	}
	if len(b) < HeaderBytes {
		return Header{}, corrupt("%d bytes are too few for a record batch, which has at least %d", len(b), HeaderBytes)
	}
	be := binary.BigEndian
	h := Header{
		BaseOffset:      int64(be.Uint64(b)),
		Length:          int32(be.Uint32(b[posLength:])),
		LeaderEpoch:     int32(be.Uint32(b[posEpoch:])),
		Magic:           Magic,
		CRC:             be.Uint32(b[posCRC:]),
		Attributes:      int16(be.Uint16(b[posAttributes:])),
		LastOffsetDelta: int32(be.Uint32(b[posLastDelta:])),
		BaseTimestamp:   int64(be.Uint64(b[posBaseTime:])),
		MaxTimestamp:    int64(be.Uint64(b[posMaxTime:])),
		ProducerID:      int64(be.Uint64(b[posProducer:])),
		ProducerEpoch:   int16(be.Uint16(b[posEpochOfProd:])),
		BaseSequence:    int32(be.Uint32(b[posSequence:])),
		Count:           int32(be.Uint32(b[posCount:])),
	}
	if h.Length < HeaderBytes-prefixBytes {
		return Header{}, corrupt("record batch length %d is below that of an empty one, %d", h.Length, HeaderBytes-prefixBytes)
	}
	return h, nil
}

// appendHeader writes h; length and checksum are the caller's, see seal.
func appendHeader(b []byte, h *Header) []byte {
	be := binary.BigEndian
	b = be.AppendUint64(b, uint64(h.BaseOffset))
	b = be.AppendUint32(b, uint32(h.Length))
	b = be.AppendUint32(b, uint32(h.LeaderEpoch))
	b = append(b, Magic)
	b = be.AppendUint32(b, h.CRC)
	b = be.AppendUint16(b, uint16(h.Attributes))
	b = be.AppendUint32(b, uint32(h.LastOffsetDelta))
	b = be.AppendUint64(b, uint64(h.BaseTimestamp))
	b = be.AppendUint64(b, uint64(h.MaxTimestamp))
	b = be.AppendUint64(b, uint64(h.ProducerID))
	b = be.AppendUint16(b, uint16(h.ProducerEpoch))
	b = be.AppendUint32(b, uint32(h.BaseSequence))
	return be.AppendUint32(b, uint32(h.Count))
}

// seal computes the checksum of a whole batch and writes it into it.
func seal(b []byte) {
	binary.BigEndian.PutUint32(b[posCRC:], crc32.Checksum(b[posAttributes:], castagnoli))
}

// Patch writes base offset and leader epoch into a batch in place. Its checksum does not cover them. b must be a batch.
func Patch(b []byte, baseOffset int64, leaderEpoch int32) {
	binary.BigEndian.PutUint64(b, uint64(baseOffset))
	binary.BigEndian.PutUint32(b[posEpoch:], uint32(leaderEpoch))
}

// SetAppendTime gives every record of exactly one batch ms, the time of its append, as timestamp, in place. The
// checksum is made anew; records are not touched, readers take the time from the header.
func SetAppendTime(b []byte, ms int64) {
	b[posAttributes+1] |= flagAppendTime
	SetMaxTimestamp(b, ms)
}

// SetMaxTimestamp writes the greatest timestamp of exactly one batch into its header, for clients that got it wrong.
// The checksum is made anew.
func SetMaxTimestamp(b []byte, ms int64) {
	binary.BigEndian.PutUint64(b[posMaxTime:], uint64(ms))
	seal(b)
}
