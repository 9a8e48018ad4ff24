package keyed

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// A flat file holds sorted rows: a whole state (an export) or the changes between two checkpoints (a
// delta). It has nothing of the node in it: the same state gives the same bytes everywhere, so flat
// files are compared and fetched by hash. Written front to back, read front to back; only the footer
// is looked up from the end.
//
//	header   | magic "QNKVFLAT" : 8 | version : 1 | min reader : 1 | kind : 1 | 0 : 5 |
//	         | base : 8 | at : 8 | 0 : 28 | crc32c of the 60 bytes before : 4 |
//	block*   | body length : 4, not 0 | rows : 4 | crc32c of the 8 bytes before and the body : 4 | body |
//	footer   | 0 : 4 | body length : 4 | crc32c of the 8 bytes before and the body : 4 | body |
//	trailer  | footer length, body included : 4 | magic "QNKE" : 4 |
//
//	block body   row*: | 0 put, 1 tombstone : 1 | key length : uvarint | value length : uvarint, puts only | key | value |
//	footer body  | rows, tombstones included : 8 | tombstones : 8 | xxh3-128 of header and blocks : 16 |
//	             | families : 1 | { family : 1 | rows : 8 | sum low : 8 | sum high : 8 }* ascending |
//
// The digests of the footer are those of the whole state at version at, also in a delta. Integers
// are little-endian. A block is closed by the row that brings it to 64 KiB or beyond. There is no
// torn tail: a file without its trailer is not a flat file.
const (
	flatMagic    = "QNKVFLAT"
	flatEndMagic = "QNKE"

	flatVersion   = 1
	flatMinReader = 1

	flatHeaderBytes  = 64
	flatFrameBytes   = 12
	flatTrailerBytes = 8
	flatFooterMin    = 8 + 8 + 16 + 1
	flatFooterMax    = flatFooterMin + 256*(1+DigestBytes)
	flatBlockTarget  = 64 << 10
	flatRowMax       = 1 + 2*binary.MaxVarintLen32 + KeyBytesMax + ValueBytesMax
	flatBlockMax     = flatBlockTarget + flatRowMax
)

// FlatKind says what the rows of a flat file are.
type FlatKind uint8

const (
	// FlatExport is a whole state: no tombstones, Base is 0.
	FlatExport FlatKind = 1
	// FlatDelta is what changed after version Base up to version At, tombstones included.
	FlatDelta FlatKind = 2
)

// FlatHeader says of which versions a flat file speaks.
type FlatHeader struct {
	Kind FlatKind
	Base uint64 // exclusive; 0 in an export
	At   uint64
}

// FlatInfo describes a complete flat file.
type FlatInfo struct {
	FlatHeader
	Rows       uint64   // tombstones included
	Tombstones uint64   //
	Digests    Digests  // of the whole state at At
	Sum        [16]byte // xxh3-128 of everything before the footer
	Bytes      int64    // size of the file
}

// ExportName and DeltaName are the names of the files at version c.
func ExportName(c uint64) string { return fmt.Sprintf("kv-%020d.export", c) }

// DeltaName is the name of the delta that ends at version c.
func DeltaName(c uint64) string { return fmt.Sprintf("kv-%020d.delta", c) }

func (h FlatHeader) validate() error {
	switch {
	case h.Kind != FlatExport && h.Kind != FlatDelta:
		return fmt.Errorf("kind %d", h.Kind)
	case h.Kind == FlatExport && h.Base != 0:
		return fmt.Errorf("%w: an export with base %d", ErrVersion, h.Base)
	case h.At <= h.Base:
		return fmt.Errorf("%w: from %d to %d", ErrVersion, h.Base, h.At)
	}
	return nil
}

func (h FlatHeader) encode() []byte {
	b := make([]byte, flatHeaderBytes)
	copy(b, flatMagic)
	b[8], b[9], b[10] = flatVersion, flatMinReader, byte(h.Kind)
	binary.LittleEndian.PutUint64(b[16:], h.Base)
	binary.LittleEndian.PutUint64(b[24:], h.At)
	binary.LittleEndian.PutUint32(b[60:], crc32.Checksum(b[:60], castagnoli))
	return b
}

func decodeFlatHeader(b []byte) (FlatHeader, error) {
	if string(b[:8]) != flatMagic {
		return FlatHeader{}, fmt.Errorf("magic %q, want %q", b[:8], flatMagic)
	}
	if b[9] > flatVersion {
		return FlatHeader{}, fmt.Errorf("%w: %d, readable from %d on", ErrFormat, b[8], b[9])
	}
	if got, want := crc32.Checksum(b[:60], castagnoli), binary.LittleEndian.Uint32(b[60:]); got != want {
		return FlatHeader{}, fmt.Errorf("header checksum %#08x, want %#08x", got, want)
	}
	h := FlatHeader{
		Kind: FlatKind(b[10]),
		Base: binary.LittleEndian.Uint64(b[16:]),
		At:   binary.LittleEndian.Uint64(b[24:]),
	}
	if !isZero(b[11:16]) || !isZero(b[32:60]) {
		return FlatHeader{}, fmt.Errorf("reserved bytes are not zero")
	}
	return h, h.validate()
}

func isZero(b []byte) bool {
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}

// frame prepends length, count and checksum to a body.
func frame(first, second uint32, body []byte) [flatFrameBytes]byte {
	var b [flatFrameBytes]byte
	binary.LittleEndian.PutUint32(b[:], first)
	binary.LittleEndian.PutUint32(b[4:], second)
	binary.LittleEndian.PutUint32(b[8:], frameChecksum(b[:8], body))
	return b
}

func frameChecksum(head, body []byte) uint32 {
	return crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, body)
}

func checkFrame(head, body []byte) error {
	if got, want := frameChecksum(head[:8], body), binary.LittleEndian.Uint32(head[8:]); got != want {
		return fmt.Errorf("checksum %#08x, want %#08x", got, want)
	}
	return nil
}

func (i FlatInfo) encodeFooter() []byte {
	b := binary.LittleEndian.AppendUint64(nil, i.Rows)
	b = binary.LittleEndian.AppendUint64(b, i.Tombstones)
	b = append(b, i.Sum[:]...)
	return appendDigests(b, i.Digests)
}

func (i *FlatInfo) decodeFooter(b []byte) error {
	if len(b) < flatFooterMin {
		return errShort
	}
	i.Rows = binary.LittleEndian.Uint64(b)
	i.Tombstones = binary.LittleEndian.Uint64(b[8:])
	copy(i.Sum[:], b[16:])
	var err error
	if i.Digests, b, err = decodeDigests(b[32:]); err != nil {
		return err
	}
	switch {
	case len(b) > 0:
		return fmt.Errorf("%d bytes too many", len(b))
	case i.Tombstones > i.Rows, i.Kind == FlatExport && i.Tombstones > 0:
		return fmt.Errorf("%d tombstones in %d rows", i.Tombstones, i.Rows)
	case i.Kind == FlatExport && i.Digests.Rows() != i.Rows:
		return fmt.Errorf("%d rows, digests of %d", i.Rows, i.Digests.Rows())
	}
	return nil
}
