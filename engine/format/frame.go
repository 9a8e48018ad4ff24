package format

import "encoding/binary"

// Layout of a frame: the stored bytes of one push to one partition, or of one Kafka batch.
//
//	| ordinal u32 | kind | flags | codec | 0 | count u32 | raw u32 | body u32 | crc32c u32 | body |
//	 0             4      5       6       7   8           12        16         20           24
//
// The checksum covers bytes 4..20 and the body. The ordinal is written when the entry is packed,
// therefore outside checksum and PayloadSum: it carries a 10-bit check of its own.
const (
	// FrameHeadSize is the length of a frame's head.
	FrameHeadSize = 24
	// MaxFrameRaw bounds the decompressed body of a frame; checked before anything is allocated.
	MaxFrameRaw = 96 << 20
	// CompressFrom is the body length from which compression is tried: one block. Below it zstd costs more
	// processor time (12 to 18 us whatever the length) than the bytes it saves cost the disk.
	CompressFrom = 4096

	// frameGrouped is a flag: the frame is one message, for the consumer group that its header HeaderOnlyGroup names.
	frameGrouped = 2

	frameSumFrom  = 4
	frameCRCAt    = 20
	ordinalBits   = 22
	ordinalMagic  = 0x9e3779b1
	ordinalSpoils = 0x155
)

// FrameCodec says how a frame's body is compressed. The numbers are on disk.
type FrameCodec uint8

const (
	CodecNone FrameCodec = 0
	CodecZstd FrameCodec = 1
)

// FrameMessage is one message of a native frame. Byte slices alias what was parsed.
type FrameMessage struct {
	// TransactionID is the caller's id, present iff HasID (the empty id is an id).
	TransactionID []byte
	HasID         bool
	// TraceID is zero when absent.
	TraceID UUID
	// ProducerSub is the subject of the authenticated producer, empty when absent.
	ProducerSub []byte
	// ContentType is empty for JSON.
	ContentType []byte
	// Headers are encoded by AppendHeaders, empty when absent.
	Headers []byte
	// ExplicitID is the message's id where it was told before the append (Append.ExplicitID), else zero.
	ExplicitID UUID
	Payload    []byte
}

// FrameHead is the parsed head of a frame.
type FrameHead struct {
	// FirstOrdinal is the ordinal of the frame's first message; Placed is false in a frame that no
	// entry holds yet.
	FirstOrdinal Ordinal
	Placed       bool
	Kind         FrameKind
	Codec        FrameCodec
	Count        uint32
	// Sealed says that the body is encrypted (frame_sealed.go).
	Sealed bool
	// Grouped says that the frame's one message is for one consumer group, which its header HeaderOnlyGroup names.
	Grouped bool
	// RawLen and BodyLen are the body's length decompressed and as stored, bytes.
	RawLen, BodyLen uint32
}

// FrameOptions are the edge's choices about a frame.
type FrameOptions struct {
	// Compress tries zstd on bodies of at least CompressFrom bytes; the result is kept only when it
	// saves 10 %.
	Compress bool
}

const (
	messageHasID = 1 << iota
	messageTrace
	messageSub
	messageType
	messageHeaders
	messageExplicitID
	messageFlags = 1<<iota - 1
)

// EncodeFrame appends the frame of msgs to dst, with an unset ordinal.
func EncodeFrame(dst []byte, msgs []FrameMessage, opt FrameOptions) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, FrameHeadSize)...)
	for i := range msgs {
		dst = appendMessage(dst, &msgs[i])
	}
	raw := len(dst) - start - FrameHeadSize
	codec := CodecNone
	if opt.Compress && raw >= CompressFrom {
		dst, codec = compressBody(dst, start+FrameHeadSize)
	}
	finishFrame(dst[start:], FrameNative, codec, uint32(len(msgs)), uint32(raw))
	return dst
}

// EncodeKafkaFrame appends a frame that holds one record batch as it was produced; count is the
// number of its records.
func EncodeKafkaFrame(dst []byte, count uint32, batch []byte) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, FrameHeadSize)...)
	dst = append(dst, batch...)
	finishFrame(dst[start:], FrameKafka, CodecNone, count, uint32(len(batch)))
	return dst
}

// RewriteKafkaFrame appends the frame that stands in for one of which records went: the batch is another, place and
// count, by which its messages are named, stay.
func RewriteKafkaFrame(dst []byte, h FrameHead, batch []byte) []byte {
	start := len(dst)
	dst = EncodeKafkaFrame(dst, h.Count, batch)
	if h.Placed {
		patchFrameOrdinal(dst[start:], h.FirstOrdinal)
	}
	if h.Grouped {
		MarkGrouped(dst[start:])
	}
	return dst
}

// MarkGrouped says of a frame of one message, not sealed yet, that it is for one consumer group. Only the broker sets this
// mark, so that a producer who writes the header alone takes its message away from nobody.
func MarkGrouped(frame []byte) {
	frame[5] |= frameGrouped
	crc := crc32cPair(frame[frameSumFrom:frameCRCAt], frame[FrameHeadSize:])
	binary.LittleEndian.PutUint32(frame[frameCRCAt:], crc)
}

func finishFrame(f []byte, kind FrameKind, codec FrameCodec, count, raw uint32) {
	f[4], f[6] = byte(kind), byte(codec)
	binary.LittleEndian.PutUint32(f[8:], count)
	binary.LittleEndian.PutUint32(f[12:], raw)
	binary.LittleEndian.PutUint32(f[16:], uint32(len(f)-FrameHeadSize))
	crc := crc32cPair(f[frameSumFrom:frameCRCAt], f[FrameHeadSize:])
	binary.LittleEndian.PutUint32(f[frameCRCAt:], crc)
}

// ordinalWord is an ordinal with its check in the ten high bits. Zero is no ordinal's word.
func ordinalWord(o Ordinal) uint32 {
	return uint32(o) | (uint32(o)*ordinalMagic>>ordinalBits^ordinalSpoils)<<ordinalBits
}

func patchFrameOrdinal(frame []byte, o Ordinal) {
	binary.LittleEndian.PutUint32(frame, ordinalWord(o))
}

// ParseFrameHead parses the first FrameHeadSize bytes of a frame without its checksum.
func ParseFrameHead(b []byte) (h FrameHead, err error) {
	if len(b) < FrameHeadSize {
		return h, errorf("frame", len(b), "shorter than its head of %d bytes", FrameHeadSize)
	}
	if word := binary.LittleEndian.Uint32(b); word != 0 {
		h.FirstOrdinal, h.Placed = Ordinal(word&(MaxOrdinals-1)), true
		if ordinalWord(h.FirstOrdinal) != word {
			return h, errorf("frame", 0, "ordinal word %#x want %#x", word, ordinalWord(h.FirstOrdinal))
		}
	}
	h.Kind, h.Codec = FrameKind(b[4]), FrameCodec(b[6])
	if h.Kind != FrameNative && h.Kind != FrameKafka || h.Codec > CodecZstd {
		return h, errorf("frame", 4, "unknown kind %d or codec %d", h.Kind, h.Codec)
	}
	if b[5]&^(frameSealed|frameGrouped) != 0 || b[7] != 0 {
		return h, errorf("frame", 5, "reserved bytes are not zero")
	}
	h.Sealed, h.Grouped = b[5]&frameSealed != 0, b[5]&frameGrouped != 0
	h.Count = binary.LittleEndian.Uint32(b[8:])
	h.RawLen = binary.LittleEndian.Uint32(b[12:])
	h.BodyLen = binary.LittleEndian.Uint32(b[16:])
	plain := h.BodyLen // of the body before it was sealed
	if h.Sealed {
		if plain < SealOverhead {
			return h, errorf("frame", 16, "sealed body of %d bytes, at least %d", plain, SealOverhead)
		}
		plain -= SealOverhead
	}
	switch {
	case h.Count == 0 || h.Count > MaxOrdinals:
		return h, errorf("frame", 8, "count %d, want 1..%d", h.Count, MaxOrdinals)
	case h.Grouped && h.Count != 1:
		return h, errorf("frame", 8, "count %d of a frame for one consumer group, want 1", h.Count)
	case h.RawLen > MaxFrameRaw || plain > MaxFrameRaw:
		return h, errorf("frame", 12, "body of %d bytes, at most %d", h.RawLen, MaxFrameRaw)
	case h.Codec == CodecNone && h.RawLen != plain:
		return h, errorf("frame", 12, "raw length %d of an uncompressed body of %d", h.RawLen, plain)
	case h.Kind == FrameNative && h.Count > h.RawLen:
		return h, errorf("frame", 8, "count %d over the bytes of the body", h.Count)
	}
	return h, nil
}

// ParseFrame parses a whole frame, verifies its checksum and returns the stored body, which aliases b.
func ParseFrame(b []byte) (FrameHead, []byte, error) {
	h, err := ParseFrameHead(b)
	if err != nil {
		return h, nil, err
	}
	if uint64(len(b)) != FrameHeadSize+uint64(h.BodyLen) {
		return h, nil, errorf("frame", 16, "length %d want %d", len(b), FrameHeadSize+uint64(h.BodyLen))
	}
	want := binary.LittleEndian.Uint32(b[frameCRCAt:])
	if got := crc32cPair(b[frameSumFrom:frameCRCAt], b[FrameHeadSize:]); got != want {
		return h, nil, errorf("frame", frameCRCAt, "checksum %#x want %#x", got, want)
	}
	return h, b[FrameHeadSize:len(b):len(b)], nil
}

// FrameReader iterates the messages of a native frame.
type FrameReader struct {
	d    decoder
	left uint32
}

// Messages iterates the messages of a raw (decompressed) body.
func (h FrameHead) Messages(raw []byte) FrameReader {
	if h.Kind != FrameNative {
		return FrameReader{d: decoder{bad: "not a native frame"}}
	}
	return FrameReader{d: decoder{b: raw}, left: h.Count}
}

// ReadFrame parses, verifies and if need be decompresses a frame into scratch, whose capacity is
// reused, and returns an iterator over its messages. They alias b or *scratch. A sealed frame is an error:
// whoever has keys opens it first.
func ReadFrame(b []byte, scratch *[]byte) (FrameHead, FrameReader, error) {
	h, body, err := ParseFrame(b)
	if err != nil {
		return h, FrameReader{}, err
	}
	if h.Sealed {
		return h, FrameReader{}, errorf("frame", 5, "the body is sealed")
	}
	if h.Codec != CodecNone {
		if *scratch, err = h.Decompress((*scratch)[:0], body); err != nil {
			return h, FrameReader{}, err
		}
		body = *scratch
	}
	return h, h.Messages(body), nil
}

// Next fills m with the next message; false at the end or at a fault (Err tells them apart).
func (r *FrameReader) Next(m *FrameMessage) bool {
	if r.left == 0 || r.d.bad != "" {
		return false
	}
	r.left--
	d := &r.d
	flags := d.flags(messageFlags)
	*m = FrameMessage{HasID: flags&messageHasID != 0}
	if m.HasID {
		m.TransactionID = d.bytes()
	}
	if flags&messageTrace != 0 {
		m.TraceID = d.uuid()
	}
	if flags&messageSub != 0 {
		m.ProducerSub = d.bytes()
	}
	if flags&messageType != 0 {
		m.ContentType = d.bytes()
	}
	if flags&messageHeaders != 0 {
		m.Headers = d.bytes()
	}
	if flags&messageExplicitID != 0 {
		m.ExplicitID = d.uuid()
	}
	m.Payload = d.bytes()
	return d.bad == ""
}

// Err is nil after Next walked all messages and nothing was left over.
func (r *FrameReader) Err() error {
	if r.left > 0 && r.d.bad == "" {
		return nil
	}
	return r.d.close("frame body", FrameHeadSize)
}

func appendMessage(b []byte, m *FrameMessage) []byte {
	at := len(b)
	b = append(b, 0)
	var flags byte
	if m.HasID {
		flags |= messageHasID
		b = putBytes(b, m.TransactionID)
	}
	if !m.TraceID.IsZero() {
		flags |= messageTrace
		b = append(b, m.TraceID[:]...)
	}
	if len(m.ProducerSub) > 0 {
		flags |= messageSub
		b = putBytes(b, m.ProducerSub)
	}
	if len(m.ContentType) > 0 {
		flags |= messageType
		b = putBytes(b, m.ContentType)
	}
	if len(m.Headers) > 0 {
		flags |= messageHeaders
		b = putBytes(b, m.Headers)
	}
	if !m.ExplicitID.IsZero() {
		flags |= messageExplicitID
		b = append(b, m.ExplicitID[:]...)
	}
	b[at] = flags
	return putBytes(b, m.Payload)
}
