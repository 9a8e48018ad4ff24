package keyed

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/bits"
	"slices"

	"github.com/zeebo/xxh3"
)

// RowHash is the xxh3-128 of key followed by value, in two halves.
type RowHash struct{ Hi, Lo uint64 }

// HashRow returns the hash by which a row enters a Digest.
func HashRow(key, value []byte) RowHash {
	var stack [512]byte
	if len(key)+len(value) <= len(stack) {
		n := copy(stack[:], key)
		n += copy(stack[n:], value)
		return RowHash(xxh3.Hash128(stack[:n]))
	}
	h := xxh3.New()
	_, _ = h.Write(key)
	_, _ = h.Write(value)
	return RowHash(h.Sum128())
}

// Digest sums a set of rows regardless of their order: how many there are, and the sum modulo 2^128
// of their hashes. Adding and removing commute, so the owner of the rows keeps it up to date from
// each change alone, and a scan in any order arrives at the same value. The zero Digest is that of
// no rows. A Digest finds damage; it does not withstand an adversary who chooses rows.
type Digest struct {
	Rows   uint64
	Hi, Lo uint64
}

// DigestBytes is the encoded length of a Digest: Rows, Lo, Hi, each 8 bytes little-endian.
const DigestBytes = 24

// Add counts a row in.
func (d *Digest) Add(key, value []byte) { d.AddHash(HashRow(key, value)) }

// Remove counts a row out. The value must be the one that was added.
func (d *Digest) Remove(key, value []byte) { d.RemoveHash(HashRow(key, value)) }

// AddHash is Add for a caller who holds the hash.
func (d *Digest) AddHash(h RowHash) {
	var carry uint64
	d.Lo, carry = bits.Add64(d.Lo, h.Lo, 0)
	d.Hi, _ = bits.Add64(d.Hi, h.Hi, carry)
	d.Rows++
}

// RemoveHash is Remove for a caller who keeps hashes instead of values.
func (d *Digest) RemoveHash(h RowHash) {
	var borrow uint64
	d.Lo, borrow = bits.Sub64(d.Lo, h.Lo, 0)
	d.Hi, _ = bits.Sub64(d.Hi, h.Hi, borrow)
	d.Rows--
}

// Equal says whether two digests stand for the same rows.
func (d Digest) Equal(o Digest) bool { return d == o }

// String shows count and sum.
func (d Digest) String() string { return fmt.Sprintf("%d rows, sum %016x%016x", d.Rows, d.Hi, d.Lo) }

// Append appends the encoded digest.
func (d Digest) Append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, d.Rows)
	dst = binary.LittleEndian.AppendUint64(dst, d.Lo)
	return binary.LittleEndian.AppendUint64(dst, d.Hi)
}

func decodeDigest(b []byte) Digest {
	return Digest{
		Rows: binary.LittleEndian.Uint64(b),
		Lo:   binary.LittleEndian.Uint64(b[8:]),
		Hi:   binary.LittleEndian.Uint64(b[16:]),
	}
}

// Digests holds one Digest per family. A family without rows and an absent one mean the same.
type Digests map[Family]Digest

// Add counts a row in under the family of its key.
func (ds Digests) Add(key, value []byte) {
	d := ds[FamilyOf(key)]
	d.Add(key, value)
	ds[FamilyOf(key)] = d
}

// Remove counts a row out under the family of its key.
func (ds Digests) Remove(key, value []byte) {
	d := ds[FamilyOf(key)]
	d.Remove(key, value)
	ds[FamilyOf(key)] = d
}

// Equal compares family by family.
func (ds Digests) Equal(o Digests) bool { return ds.Diff(o) == nil }

// Diff returns an error that names the first family whose digests differ, nil if none does.
func (ds Digests) Diff(want Digests) error {
	for f := range 256 {
		if got, want := ds[Family(f)], want[Family(f)]; got != want {
			return fmt.Errorf("family %v: %v, want %v", Family(f), got, want)
		}
	}
	return nil
}

// Clone returns a copy that shares nothing.
func (ds Digests) Clone() Digests { return maps.Clone(ds) }

// Rows returns the number of rows of all families.
func (ds Digests) Rows() (n uint64) {
	for _, d := range ds {
		n += d.Rows
	}
	return n
}

// appendDigests writes count (1 byte) and {family, digest} ascending, families without rows left
// out: equal sets have equal bytes.
func appendDigests(dst []byte, ds Digests) []byte {
	families := make([]Family, 0, len(ds))
	for f, d := range ds {
		if d != (Digest{}) {
			families = append(families, f)
		}
	}
	slices.Sort(families)
	dst = append(dst, byte(len(families)))
	for _, f := range families {
		dst = ds[f].Append(append(dst, byte(f)))
	}
	return dst
}

var errShort = fmt.Errorf("bytes end early")

// decodeDigests reads what appendDigests wrote and returns the rest.
func decodeDigests(b []byte) (Digests, []byte, error) {
	if len(b) < 1 {
		return nil, nil, errShort
	}
	n := int(b[0])
	b = b[1:]
	if len(b) < n*(1+DigestBytes) {
		return nil, nil, errShort
	}
	ds := make(Digests, n)
	last := Family(0)
	for range n {
		f := Family(b[0])
		if !f.Valid() || f <= last {
			return nil, nil, fmt.Errorf("digest of family %#x after %#x", uint8(f), uint8(last))
		}
		d := decodeDigest(b[1:])
		if d == (Digest{}) {
			return nil, nil, fmt.Errorf("digest of family %#x stands for nothing", uint8(f))
		}
		ds[f], last = d, f
		b = b[1+DigestBytes:]
	}
	return ds, b, nil
}
