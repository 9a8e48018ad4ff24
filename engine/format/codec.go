package format

import (
	"encoding/binary"
	"hash/crc32"
)

// castagnoli is the polynomial of every 32-bit checksum on disk (crc32c).
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func crc32c(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// crc32cPair is the checksum of a followed by b, which lie on both sides of the checksum itself.
func crc32cPair(a, b []byte) uint32 {
	return crc32.Update(crc32.Update(0, castagnoli, a), castagnoli, b)
}

// MaxListItems bounds the items of one list inside a command: what a hostile count can make a
// decoder allocate, together with the check that each item takes at least one byte of the input.
const MaxListItems = 1 << 20

// DecodeGrowthMax bounds what any decoder of this package allocates, in bytes per byte of its input: a
// list's count is held against the bytes that are left before the list is made. Joined fragments and
// decompressed frames have bounds of their own (MaxJoined, MaxFrameRaw).
const DecodeGrowthMax = 32

func putUvarint(b []byte, v uint64) []byte {
	if v < 0x80 {
		return append(b, byte(v))
	}
	return binary.AppendUvarint(b, v)
}

func putVarint(b []byte, v int64) []byte { return putUvarint(b, uint64(v<<1)^uint64(v>>63)) }

func putBytes(b, v []byte) []byte { return append(putUvarint(b, uint64(len(v))), v...) }

func putBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// decoder walks bytes of variable-width fields. The first fault sticks: later reads return zeros,
// so callers check once at the end.
//
// INVARIANT: encodings are canonical (no overlong varint, no boolean but 0 and 1), so that
// re-encoding what was decoded gives the same bytes; the fuzz targets check it.
type decoder struct {
	b   []byte
	pos int
	bad string
}

func (d *decoder) fail(msg string) {
	if d.bad == "" {
		d.bad = msg
	}
}

// close reports the first fault, or bytes left over. base is where the bytes lie in the input.
func (d *decoder) close(what string, base int) error {
	if d.bad == "" && d.pos != len(d.b) {
		d.fail("bytes left over")
	}
	if d.bad != "" {
		return &Error{What: what, Pos: base + d.pos, Msg: d.bad}
	}
	return nil
}

func (d *decoder) uvarint() uint64 {
	if d.bad == "" && d.pos < len(d.b) && d.b[d.pos] < 0x80 {
		d.pos++
		return uint64(d.b[d.pos-1])
	}
	return d.uvarintSlow()
}

func (d *decoder) uvarintSlow() uint64 {
	if d.bad != "" {
		return 0
	}
	v, n := binary.Uvarint(d.b[d.pos:])
	if n <= 0 || n > 1 && d.b[d.pos+n-1] == 0 {
		d.fail("bad varint")
		return 0
	}
	d.pos += n
	return v
}

func (d *decoder) varint() int64 {
	v := d.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

func (d *decoder) uvarint32() uint32 {
	v := d.uvarint()
	if v > 1<<32-1 {
		d.fail("number over 32 bits")
		return 0
	}
	return uint32(v)
}

// take returns the next n bytes, aliasing the input.
func (d *decoder) take(n uint64) []byte {
	if d.bad != "" || n > uint64(len(d.b)-d.pos) {
		d.fail("shorter than its fields say")
		return nil
	}
	v := d.b[d.pos : d.pos+int(n) : d.pos+int(n)]
	d.pos += int(n)
	return v
}

func (d *decoder) bytes() []byte { return d.take(d.uvarint()) }

func (d *decoder) u8() uint8 {
	if d.bad != "" || d.pos >= len(d.b) {
		d.fail("shorter than its fields say")
		return 0
	}
	d.pos++
	return d.b[d.pos-1]
}

func (d *decoder) bool() bool {
	v := d.u8()
	if v > 1 {
		d.fail("bad boolean")
	}
	return v == 1
}

func (d *decoder) u64() uint64 {
	if v := d.take(8); v != nil {
		return binary.LittleEndian.Uint64(v)
	}
	return 0
}

func (d *decoder) uuid() (u UUID) {
	copy(u[:], d.take(16))
	return u
}

// flags reads a byte of which only the bits in known may be set.
func (d *decoder) flags(known uint8) uint8 {
	v := d.u8()
	if v&^known != 0 {
		d.fail("reserved flag set")
	}
	return v
}

// enum reads a byte that must lie in 1..last.
func (d *decoder) enum(last uint8) uint8 {
	v := d.u8()
	if d.bad == "" && (v == 0 || v > last) {
		d.fail("unknown enumeration value")
	}
	return v
}

// count reads the number of items of a list whose items take at least least bytes each.
func (d *decoder) count(least int) int {
	v := d.uvarint()
	if d.bad == "" && (v > MaxListItems || v*uint64(least) > uint64(len(d.b)-d.pos)) {
		d.fail("list longer than its bytes")
		return 0
	}
	return int(v)
}

// resize returns s with n items, reusing its capacity; the items hold old values.
func resize[T any](s []T, n int) []T {
	if cap(s) >= n {
		return s[:n]
	}
	return make([]T, n)
}
