package format

import (
	"encoding/binary"
	"fmt"

	"github.com/zeebo/xxh3"
)

// Geometry of log files. FORMAT.md, "The shared log stream", is the page these numbers belong to.
const (
	// BlockSize is the unit of alignment of everything that is written with direct I/O.
	BlockSize = 4096
	// MaxSegmentBytes bounds a segment file, so that positions fit 32 bits.
	MaxSegmentBytes = 1 << 30
	// SegmentVersion and SegmentMinReader are what this code writes, and the oldest reader that
	// understands it.
	SegmentVersion   = 1
	SegmentMinReader = 1
)

var (
	segmentMagic = [8]byte{'Q', 'U', 'E', 'E', 'N', 'S', 'E', 'G'}
	footerMagic  = [8]byte{'Q', 'U', 'E', 'E', 'N', 'F', 'T', 'R'}
)

// SegmentID is a segment's number, with the high bit set for bulk segments, which are numbered apart.
// A number is never used twice in one data directory. 0 is none.
type SegmentID uint32

// BulkBit marks bulk segments.
const BulkBit SegmentID = 1 << 31

// IsBulk reports whether the segment lies outside the commit stream.
func (s SegmentID) IsBulk() bool { return s&BulkBit != 0 }

// Number is the number in the file's name.
func (s SegmentID) Number() uint32 { return uint32(s &^ BulkBit) }

// FileName is seg-0000000001.dat or blk-0000000001.dat.
func (s SegmentID) FileName() string {
	if s.IsBulk() {
		return fmt.Sprintf("blk-%010d.dat", s.Number())
	}
	return fmt.Sprintf("seg-%010d.dat", s.Number())
}

// SegmentHead is block 0 of a segment file. It is written and synced when a pool file becomes a
// segment, before its first extent, and never again.
type SegmentHead struct {
	Segment SegmentID
	// Nonce is drawn at random for this life of the file: extents and footers of an earlier life, and
	// payload bytes that look like extents, do not carry it.
	Nonce uint64
	// Disk identifies the data directory.
	Disk UUID
	// Size is the length of the file in bytes, a multiple of BlockSize.
	Size uint64
	// Boot is the boot epoch that made the segment.
	Boot uint64
}

// Encode writes block 0 into the first BlockSize bytes of dst.
func (h *SegmentHead) Encode(dst []byte) {
	b := dst[:BlockSize]
	clear(b)
	le := binary.LittleEndian
	copy(b, segmentMagic[:])
	b[8], b[9] = SegmentVersion, SegmentMinReader
	le.PutUint32(b[12:], uint32(h.Segment))
	le.PutUint64(b[16:], h.Nonce)
	copy(b[24:40], h.Disk[:])
	le.PutUint64(b[40:], h.Size)
	le.PutUint64(b[48:], h.Boot)
	sealBlock(b)
}

// ParseSegmentHead parses and verifies block 0.
func ParseSegmentHead(b []byte) (h SegmentHead, err error) {
	if err := openBlock("segment head", b, segmentMagic, SegmentVersion); err != nil {
		return h, err
	}
	if b[10] != 0 || b[11] != 0 || !isZero(b[56:BlockSize-4]) {
		return h, errorf("segment head", 10, "reserved bytes are not zero")
	}
	le := binary.LittleEndian
	h = SegmentHead{
		Segment: SegmentID(le.Uint32(b[12:])), Nonce: le.Uint64(b[16:]), Disk: UUID(b[24:40]),
		Size: le.Uint64(b[40:]), Boot: le.Uint64(b[48:]),
	}
	if h.Size%BlockSize != 0 || h.Size < 2*BlockSize || h.Size > MaxSegmentBytes {
		return h, errorf("segment head", 40, "file size %d", h.Size)
	}
	return h, nil
}

// sealBlock writes the checksum of a 4 KiB block into its last four bytes.
func sealBlock(b []byte) {
	binary.LittleEndian.PutUint32(b[BlockSize-4:], crc32c(b[:BlockSize-4]))
}

// openBlock checks length, magic, versions (bytes 8 and 9) and checksum of a sealed block.
func openBlock(what string, b []byte, magic [8]byte, version uint8) error {
	if len(b) < BlockSize {
		return errorf(what, len(b), "shorter than a block")
	}
	if [8]byte(b) != magic {
		return errorf(what, 0, "magic %q want %q", b[:8], magic[:])
	}
	if b[8] == 0 || b[9] == 0 || b[9] > version {
		return errorf(what, 8, "version %d needs reader %d, this is reader %d", b[8], b[9], version)
	}
	want := binary.LittleEndian.Uint32(b[BlockSize-4:])
	if got := crc32c(b[:BlockSize-4]); got != want {
		return errorf(what, BlockSize-4, "checksum %#x want %#x", got, want)
	}
	return nil
}

func isZero(b []byte) bool {
	for _, v := range b {
		if v != 0 {
			return false
		}
	}
	return true
}

// sum64 is the 64-bit checksum of bodies too large for crc32c.
func sum64(b []byte) uint64 { return xxh3.Hash(b) }
