package format

import (
	"encoding/binary"
	"math"
)

// KeyedRowVersion is the first byte of every keyed row that this package writes.
const KeyedRowVersion = 1

// KVRow is the value of a key: what readers are told. Slices alias what was parsed.
type KVRow struct {
	Version uint64
	Expires Wall // 0 never
	Updated Wall
	Number  Number
	// Permit says that the row is a permit of a lock: acquired at Since, by Owner, empty for one without a name.
	Permit bool
	Since  Wall
	Owner  []byte
	// JSON is the value as text.
	JSON []byte
}

const (
	kvRowPermit = 1 << 0
	kvRowFixed  = 36
)

// Append appends the encoded row to dst.
func (v *KVRow) Append(dst []byte) []byte {
	dst = append(dst, KeyedRowVersion, bit(v.Permit, kvRowPermit), byte(v.Number.Kind), 0)
	dst = putU64(dst, v.Version)
	dst = putU64(dst, uint64(v.Expires))
	dst = putU64(dst, uint64(v.Updated))
	dst = putU64(dst, v.Number.Bits())
	if v.Permit {
		dst = putU64(dst, uint64(v.Since))
		dst = putBytes(dst, v.Owner)
	}
	return append(dst, v.JSON...)
}

// ParseKVRow parses the value of a KV row.
func ParseKVRow(b []byte) (v KVRow, err error) {
	d := decoder{b: b}
	d.rowVersion()
	flags := d.flags(kvRowPermit)
	kind := NumberKind(d.u8())
	if d.u8() != 0 {
		d.fail("reserved bytes are not zero")
	}
	v.Version, v.Expires, v.Updated = d.u64(), Wall(d.u64()), Wall(d.u64())
	v.Number = d.numberOf(kind, d.u64())
	if v.Permit = flags&kvRowPermit != 0; v.Permit {
		v.Since, v.Owner = Wall(d.u64()), d.bytes()
	}
	v.JSON = d.rest()
	return v, d.close("kv row", 0)
}

// TimerRow is what a schedule said. It stays as it is until the timer is scheduled anew or gone: when it is
// due now, how often it fired and what went wrong is in its head (machine.Timer). Slices alias what was parsed.
type TimerRow struct {
	// Version and Due are those given at the schedule.
	Version uint64
	Due     Wall
	// Place and W are those of the command that scheduled it: what its message id is made from.
	Place         Place
	W             Wall
	Partition     []byte
	TransactionID []byte
	Recur         []byte
	// Frame is a native frame of one message without its id.
	Frame []byte
}

const timerRowFixed = 4 + 5*8

// Size is the length of the encoded row.
func (v *TimerRow) Size() int {
	return timerRowFixed + bytesSize(v.Partition) + bytesSize(v.TransactionID) + bytesSize(v.Recur) + len(v.Frame)
}

// Append appends the encoded row to dst.
func (v *TimerRow) Append(dst []byte) []byte {
	dst = append(dst, KeyedRowVersion, 0, 0, 0)
	for _, n := range [...]uint64{v.Version, uint64(v.Due), uint64(v.Place.Index), uint64(v.Place.Ordinal), uint64(v.W)} {
		dst = putU64(dst, n)
	}
	dst = putBytes(dst, v.Partition)
	dst = putBytes(dst, v.TransactionID)
	dst = putBytes(dst, v.Recur)
	return append(dst, v.Frame...)
}

// ParseTimerRow parses the value of a timer row; the frame is not looked into.
func ParseTimerRow(b []byte) (v TimerRow, err error) {
	d := decoder{b: b}
	d.rowVersion()
	if !isZero(d.take(3)) {
		d.fail("reserved bytes are not zero")
	}
	v.Version, v.Due, v.Place.Index = d.u64(), Wall(d.u64()), Index(d.u64())
	v.Place.Ordinal, v.W = d.ordinal(), Wall(d.u64())
	v.Partition, v.TransactionID, v.Recur = d.bytes(), d.bytes(), d.bytes()
	v.Frame = d.rest()
	return v, d.close("timer row", 0)
}

// OnceRow is what was answered to a call that carried an Idempotency-Key. Note and Parts alias what was parsed.
type OnceRow struct {
	Digest [16]byte
	// Note is that of the command; see Once.
	Note []byte
	// Index, First and W are those of the Once command.
	Index Index
	First Ordinal
	W     Wall
	Parts []byte
}

// onceRowNote is the version of an idempotency row that holds a note.
const onceRowNote = 2

// Append appends the encoded row to dst.
func (v *OnceRow) Append(dst []byte) []byte {
	version := byte(KeyedRowVersion)
	if len(v.Note) > 0 {
		version = onceRowNote
	}
	dst = append(dst, version, 0, 0, 0)
	dst = append(dst, v.Digest[:]...)
	dst = putU64(dst, uint64(v.Index))
	dst = putU64(dst, uint64(v.First))
	dst = putU64(dst, uint64(v.W))
	if len(v.Note) > 0 {
		dst = putBytes(dst, v.Note)
	}
	return append(dst, v.Parts...)
}

// ParseOnceRow parses the value of an idempotency row; the parts are not looked into.
func ParseOnceRow(b []byte) (v OnceRow, err error) {
	d := decoder{b: b}
	noted := len(b) > 0 && b[0] == onceRowNote
	if noted {
		d.u8()
	} else {
		d.rowVersion()
	}
	if !isZero(d.take(3)) {
		d.fail("reserved bytes are not zero")
	}
	v.Digest, v.Index = d.uuid(), Index(d.u64())
	v.First, v.W = d.ordinal(), Wall(d.u64())
	if noted {
		if v.Note = d.bytes(); len(v.Note) == 0 || len(v.Note) > MaxOnceNote {
			d.fail("a note that is empty or too long")
		}
	}
	v.Parts = d.rest()
	return v, d.close("idempotency row", 0)
}

// PositionRow is what was said with a committed position: its metadata, and what was asked for where the cursor does
// not say it.
type PositionRow struct {
	Metadata []byte
	// Asked is the offset that was to be committed, which lay outside of what the partition holds, and At where the
	// cursor was put instead: Asked counts while the cursor is at At. Both zero when it lay inside.
	Asked, At Offset
}

// positionRowAsked is the version of a position row that holds Asked and At.
const positionRowAsked = 2

// Append appends the encoded row to dst.
func (v *PositionRow) Append(dst []byte) []byte {
	if v.Asked == v.At {
		return append(append(dst, KeyedRowVersion), v.Metadata...)
	}
	dst = putU64(putU64(append(dst, positionRowAsked), uint64(v.Asked)), uint64(v.At))
	return append(dst, v.Metadata...)
}

// ParsePositionRow parses what Append made; the metadata aliases b.
func ParsePositionRow(b []byte) (v PositionRow, err error) {
	d := decoder{b: b}
	if len(b) > 0 && b[0] == positionRowAsked {
		d.u8()
		if v.Asked, v.At = Offset(d.u64()), Offset(d.u64()); v.Asked == v.At {
			d.fail("a position that was asked for and is")
		}
	} else {
		d.rowVersion()
	}
	v.Metadata = d.rest()
	return v, d.close("position row", 0)
}

func (d *decoder) rowVersion() {
	if d.u8() != KeyedRowVersion {
		d.fail("unknown version of a keyed row")
	}
}

// ordinal reads one of 8 bytes.
func (d *decoder) ordinal() Ordinal {
	v := d.u64()
	if v >= MaxOrdinals {
		d.fail("ordinal out of bounds")
	}
	return Ordinal(v)
}

// rest takes all bytes that are left.
func (d *decoder) rest() []byte {
	if d.bad != "" {
		return nil
	}
	return d.take(uint64(len(d.b) - d.pos))
}

func bytesSize(b []byte) int {
	n := 1
	for v := len(b); v >= 0x80; v >>= 7 {
		n++
	}
	return n + len(b)
}

// Bits is a number as 64 bits, 0 when it is none; NumberOf is the way back.
func (n Number) Bits() uint64 {
	switch n.Kind {
	case IntNumber:
		return uint64(n.Int)
	case FloatNumber:
		return math.Float64bits(n.Float)
	}
	return 0
}

// NumberOf makes a number of its kind and its Bits.
func NumberOf(kind NumberKind, bits uint64) Number {
	switch kind {
	case IntNumber:
		return Number{Kind: kind, Int: int64(bits)}
	case FloatNumber:
		return Number{Kind: kind, Float: math.Float64frombits(bits)}
	}
	return Number{}
}

func (d *decoder) numberOf(kind NumberKind, bits uint64) Number {
	n := NumberOf(kind, bits)
	if kind > FloatNumber || kind == NotANumber && bits != 0 ||
		kind == FloatNumber && (math.IsNaN(n.Float) || math.IsInf(n.Float, 0)) {
		d.fail("not a finite number")
	}
	return n
}

// AppendKVKey appends the store key of a KV row without its family: tenant, namespace, 0, key.
func AppendKVKey(dst []byte, t Tenant, namespace, key []byte) []byte {
	dst = append(append(dst, t[:]...), namespace...)
	return append(append(dst, 0), key...)
}

// ParseKVKey is the way back; ok is false for bytes that are no such key.
func ParseKVKey(b []byte) (t Tenant, namespace, key []byte, ok bool) {
	if len(b) < len(t) {
		return t, nil, nil, false
	}
	copy(t[:], b)
	for i := len(t); i < len(b); i++ {
		if b[i] == 0 {
			return t, b[len(t):i:i], b[i+1:], true
		}
	}
	return t, nil, nil, false
}

// AppendTimerKey appends the store key of a timer without its family: tenant, length of the queue's name
// u16 big-endian, queue, key. Those of one queue lie together, in byte order of the key.
func AppendTimerKey(dst []byte, t Tenant, queue, key []byte) []byte {
	dst = binary.BigEndian.AppendUint16(append(dst, t[:]...), uint16(len(queue)))
	return append(append(dst, queue...), key...)
}

// ParseTimerKey is the way back; ok is false for bytes that are no such key.
func ParseTimerKey(b []byte) (t Tenant, queue, key []byte, ok bool) {
	if len(b) < len(t)+2 {
		return t, nil, nil, false
	}
	copy(t[:], b)
	b = b[len(t):]
	n := int(binary.BigEndian.Uint16(b))
	if b = b[2:]; len(b) < n {
		return t, nil, nil, false
	}
	return t, b[:n:n], b[n:], true
}

// AppendOnceKey appends the store key of an idempotency row without its family.
func AppendOnceKey(dst []byte, t Tenant, key [16]byte) []byte {
	return append(append(dst, t[:]...), key[:]...)
}

// AppendPositionKey appends the store key of a position's metadata without its family.
func AppendPositionKey(dst []byte, p PartitionID, c ConsumerID) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, uint64(p)), uint64(c))
}
