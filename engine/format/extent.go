package format

import "encoding/binary"

// An extent is one write of the log: | 64 B head | records | zero padding to 4 KiB |.
const (
	// ExtentHeadSize is the length of an extent's head.
	ExtentHeadSize = 64
	// MaxExtentBytes bounds an extent, head and padding included.
	MaxExtentBytes = 8 << 20

	extentMagic = 0x31584551 // "QEX1"
)

// ExtentHead opens an extent.
type ExtentHead struct {
	Segment SegmentID
	// Number counts the extents of the segment from 1.
	Number uint32
	// Nonce repeats block 0's.
	Nonce uint64
	// Previous is Checksum of the extent before: of this segment, else of the last extent of the
	// commit segment before; 0 for the first extent of all and for the first of a bulk segment.
	Previous uint64
	// Bytes is the length of the records, without head and padding.
	Bytes uint32
	// Records counts them.
	Records uint32
	// Sum is xxh3-64 over records and padding.
	Sum uint64
	// Boot is the boot epoch that wrote the extent.
	Boot uint64
}

// Size is the length of the whole extent in the file: a multiple of BlockSize.
func (h *ExtentHead) Size() int {
	return (ExtentHeadSize + int(h.Bytes) + BlockSize - 1) &^ (BlockSize - 1)
}

// Checksum is what the next extent repeats: xxh3-64 of the head, which holds Sum and Previous.
// Equal checksums therefore mean equal bytes of the whole chain so far.
func (h *ExtentHead) Checksum() uint64 {
	var b [ExtentHeadSize]byte
	h.Encode(b[:])
	return sum64(b[:])
}

// Encode writes the head into the first ExtentHeadSize bytes of dst.
func (h *ExtentHead) Encode(dst []byte) {
	b := dst[:ExtentHeadSize]
	le := binary.LittleEndian
	le.PutUint32(b, extentMagic)
	b[4], b[5], b[6], b[7] = SegmentVersion, SegmentMinReader, 0, 0
	le.PutUint32(b[8:], uint32(h.Segment))
	le.PutUint32(b[12:], h.Number)
	le.PutUint64(b[16:], h.Nonce)
	le.PutUint64(b[24:], h.Previous)
	le.PutUint32(b[32:], h.Bytes)
	le.PutUint32(b[36:], h.Records)
	le.PutUint64(b[40:], h.Sum)
	le.PutUint64(b[48:], h.Boot)
	le.PutUint32(b[56:], 0)
	le.PutUint32(b[60:], crc32c(b[:60]))
}

// ParseExtentHead parses and verifies a head; nothing is said about the records.
func ParseExtentHead(b []byte) (h ExtentHead, err error) {
	if len(b) < ExtentHeadSize {
		return h, errorf("extent", len(b), "shorter than its head")
	}
	le := binary.LittleEndian
	if magic := le.Uint32(b); magic != extentMagic {
		return h, errorf("extent", 0, "magic %#x want %#x", magic, extentMagic)
	}
	if got, want := crc32c(b[:60]), le.Uint32(b[60:]); got != want {
		return h, errorf("extent", 60, "checksum of the head %#x want %#x", got, want)
	}
	if b[4] == 0 || b[5] == 0 || b[5] > SegmentVersion {
		return h, errorf("extent", 4, "version %d needs reader %d, this is reader %d", b[4], b[5], SegmentVersion)
	}
	if b[6] != 0 || b[7] != 0 || le.Uint32(b[56:]) != 0 {
		return h, errorf("extent", 6, "reserved bytes are not zero")
	}
	h = ExtentHead{
		Segment: SegmentID(le.Uint32(b[8:])), Number: le.Uint32(b[12:]), Nonce: le.Uint64(b[16:]),
		Previous: le.Uint64(b[24:]), Bytes: le.Uint32(b[32:]), Records: le.Uint32(b[36:]),
		Sum: le.Uint64(b[40:]), Boot: le.Uint64(b[48:]),
	}
	if h.Bytes > MaxExtentBytes-ExtentHeadSize {
		return h, errorf("extent", 32, "%d bytes, at most %d", h.Bytes, MaxExtentBytes-ExtentHeadSize)
	}
	return h, nil
}

// FinishExtent completes the extent that starts at b[0]: room for the head, then records as
// AppendRecord leaves them. It pads with zeros, fills in h.Bytes and h.Sum and writes the head.
func FinishExtent(b []byte, h *ExtentHead) []byte {
	h.Bytes = uint32(len(b) - ExtentHeadSize)
	b = appendZeros(b, h.Size()-len(b))
	h.Sum = sum64(b[ExtentHeadSize:])
	h.Encode(b)
	return b
}

// VerifyExtent parses the head at b[0] and verifies the checksum over records and padding; b may be
// longer than the extent.
func VerifyExtent(b []byte) (h ExtentHead, err error) {
	if h, err = ParseExtentHead(b); err != nil {
		return h, err
	}
	if len(b) < h.Size() {
		return h, errorf("extent", len(b), "ends before its %d bytes", h.Size())
	}
	if got := sum64(b[ExtentHeadSize:h.Size()]); got != h.Sum {
		return h, errorf("extent", 40, "checksum of the records %#x want %#x", got, h.Sum)
	}
	return h, nil
}

func appendZeros(b []byte, n int) []byte {
	if n <= cap(b)-len(b) {
		b = b[:len(b)+n]
		clear(b[len(b)-n:])
		return b
	}
	return append(b, make([]byte, n)...)
}
