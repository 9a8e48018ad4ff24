package format

import (
	"bytes"
	"encoding/binary"
	"math"
)

// Flag bits of the commands of keyed state; bit 0 is the default tenant's.
const (
	kvExpect   = 1 << 2
	kvRequired = 1 << 3

	timerRelative = 1 << 2
	timerCounted  = 1 << 3

	onceNote = 1 << 2

	txnKeepDuplicates = 1 << 0

	// MaxLockLimit bounds the slots of one lock: what one LockAcquire looks at (S-lock-2).
	MaxLockLimit = 1024
)

// AddTxn opens a transaction of the next v.Parts commands of this buffer.
func (b *CommandBuf) AddTxn(v *Txn) {
	at := b.begin(KindTxn)
	b.Commands = putUvarint(b.Commands, uint64(v.Parts))
	if v.KeepDuplicates {
		b.Commands = append(b.Commands, txnKeepDuplicates)
	}
	b.end(at, 1)
}

// Txn decodes the current command.
func (r *CommandReader) Txn(v *Txn) error {
	d := r.open(KindTxn)
	*v = Txn{Parts: d.uvarint32()}
	if d.bad == "" && d.pos < len(d.b) {
		if v.KeepDuplicates = d.flags(txnKeepDuplicates) != 0; !v.KeepDuplicates {
			d.fail("flags that say nothing")
		}
	}
	if v.Parts == 0 {
		d.fail("a transaction without parts")
	}
	return r.done(&d)
}

// AddOnce opens what v.Key stands for: the next v.Parts commands of this buffer.
func (b *CommandBuf) AddOnce(v *Once) {
	at := b.begin(KindOnce)
	c := putTenant(append(b.Commands, tenantFlag(v.Tenant)|bit(len(v.Note) > 0, onceNote)), v.Tenant)
	c = append(c, v.Key[:]...)
	c = append(c, v.Digest[:]...)
	c = putVarint(c, v.Keep)
	c = putUvarint(c, uint64(v.Parts))
	if len(v.Note) > 0 {
		c = putBytes(c, v.Note)
	}
	b.Commands = c
	b.end(at, 1)
}

// Once decodes the current command.
func (r *CommandReader) Once(v *Once) error {
	d := r.open(KindOnce)
	flags := d.flags(flagDefaultTenant | onceNote)
	*v = Once{Tenant: d.tenant(flags)}
	v.Key, v.Digest = d.uuid(), d.uuid()
	v.Keep, v.Parts = d.lifetime(), d.uvarint32()
	if v.Parts == 0 || v.Keep == 0 {
		d.fail("no parts, or kept for no time")
	}
	if flags&onceNote != 0 {
		if v.Note = d.bytes(); len(v.Note) == 0 || len(v.Note) > MaxOnceNote {
			d.fail("a note that is empty or too long")
		}
	}
	return r.done(&d)
}

// AddKV adds a KV. Only the fields that v.Op uses travel: Value and Number of KVPut; Number, Min and Max of
// KVIncr; Keep of both; Expect of a KVCheck always, of the others with HasExpect.
func (b *CommandBuf) AddKV(v *KV) {
	at := b.begin(KindKV)
	c := append(b.Commands, tenantFlag(v.Tenant)|bit(v.HasExpect, kvExpect)|bit(v.Required, kvRequired), byte(v.Op))
	c = putTenant(c, v.Tenant)
	c = putBytes(c, v.Namespace)
	c = putBytes(c, v.Key)
	if v.HasExpect {
		c = putUvarint(c, v.Expect)
	}
	switch v.Op {
	case KVPut:
		c = putVarint(c, v.Keep)
		c = putNumber(c, v.Number)
		c = putBytes(c, v.Value)
	case KVIncr:
		c = putVarint(c, v.Keep)
		c = putNumber(c, v.Number)
		c = putNumber(c, v.Min)
		c = putNumber(c, v.Max)
	}
	b.Commands = c
	b.end(at, 1)
}

// KV decodes the current command; slices alias the entry.
func (r *CommandReader) KV(v *KV) error {
	d := r.open(KindKV)
	flags := d.flags(flagDefaultTenant | kvExpect | kvRequired)
	*v = KV{
		Op: KVOp(d.enum(uint8(KVCheck))), Tenant: d.tenant(flags), Namespace: d.name(), Key: d.name(),
		HasExpect: flags&kvExpect != 0, Required: flags&kvRequired != 0,
	}
	if v.HasExpect {
		v.Expect = d.uvarint()
	}
	switch v.Op {
	case KVPut:
		v.Keep, v.Number, v.Value = d.lifetime(), d.number(), d.bytes()
	case KVIncr:
		v.Keep, v.Number, v.Min, v.Max = d.lifetime(), d.number(), d.number(), d.number()
		if v.Number.Kind == NotANumber || v.HasExpect {
			d.fail("a counter with a condition, or without a delta")
		}
	case KVCheck:
		if !v.HasExpect {
			d.fail("a check of nothing")
		}
	}
	return r.done(&d)
}

// AddLock adds a Lock; only the fields that v.Op uses travel.
func (b *CommandBuf) AddLock(v *Lock) {
	at := b.begin(KindLock)
	c := append(b.Commands, tenantFlag(v.Tenant), byte(v.Op))
	c = putTenant(c, v.Tenant)
	c = putBytes(c, v.Name)
	switch v.Op {
	case LockAcquire:
		c = putBytes(c, v.Owner)
		c = putUvarint(c, uint64(v.Limit))
		c = putVarint(c, v.Keep)
	case LockRenew:
		c = putBytes(c, v.Owner)
		c = putUvarint(c, uint64(v.Slot))
		c = putUvarint(c, v.Token)
		c = putVarint(c, v.Keep)
		c = putVarint(c, int64(v.Since))
	case LockRelease:
		c = putUvarint(c, uint64(v.Slot))
		c = putUvarint(c, v.Token)
	}
	b.Commands = c
	b.end(at, 1)
}

// Lock decodes the current command; slices alias the entry.
func (r *CommandReader) Lock(v *Lock) error {
	d := r.open(KindLock)
	flags := d.flags(flagDefaultTenant)
	*v = Lock{Op: LockOp(d.enum(uint8(LockRelease))), Tenant: d.tenant(flags), Name: d.name()}
	switch v.Op {
	case LockAcquire:
		v.Owner, v.Limit, v.Keep = d.bytes(), d.uvarint32(), d.lifetime()
		if v.Limit == 0 || v.Limit > MaxLockLimit {
			d.fail("slots of a lock out of bounds")
		}
	case LockRenew:
		v.Owner, v.Slot, v.Token = d.bytes(), d.uvarint32(), d.uvarint()
		v.Keep, v.Since = d.lifetime(), Wall(d.varint())
	case LockRelease:
		v.Slot, v.Token = d.uvarint32(), d.uvarint()
	}
	if bytes.IndexByte(v.Name, '#') >= 0 {
		d.fail("a lock named with #, which parts names from slots")
	}
	if v.Op != LockRelease && v.Keep == 0 {
		d.fail("a permit for no time")
	}
	return r.done(&d)
}

// AddTimer adds a Timer; only the fields that v.Op uses travel.
func (b *CommandBuf) AddTimer(v *Timer) {
	at := b.begin(KindTimer)
	c := append(b.Commands, tenantFlag(v.Tenant)|bit(v.Relative, timerRelative)|bit(v.Counted, timerCounted), byte(v.Op))
	c = putTenant(c, v.Tenant)
	c = putBytes(c, v.Queue)
	c = putBytes(c, v.Key)
	switch v.Op {
	case TimerSchedule:
		c = putVarint(c, int64(v.Due))
		c = putBytes(c, v.Partition)
		c = putBytes(c, v.TransactionID)
		c = putBytes(c, v.Recur)
		c = putBytes(c, v.Frame)
	case TimerFailed:
		c = putVarint(c, int64(v.Due))
		c = putUvarint(c, v.Version)
		c = putBytes(c, v.Reason)
	case TimerDead:
		c = putVarint(c, int64(v.Due))
		c = putUvarint(c, v.Version)
		c = putBytes(c, v.Reason)
		c = putBytes(c, v.Row)
	}
	b.Commands = c
	b.end(at, 1)
}

// Timer decodes the current command; slices alias the entry. Queue may be empty, Key not.
func (r *CommandReader) Timer(v *Timer) error {
	d := r.open(KindTimer)
	flags := d.flags(flagDefaultTenant | timerRelative | timerCounted)
	*v = Timer{
		Op: TimerOp(d.enum(uint8(TimerResume))), Tenant: d.tenant(flags), Queue: d.bytes(), Key: d.name(),
		Relative: flags&timerRelative != 0, Counted: flags&timerCounted != 0,
	}
	switch v.Op {
	case TimerSchedule:
		v.Due, v.Partition, v.TransactionID = Wall(d.varint()), d.bytes(), d.bytes()
		v.Recur, v.Frame = d.bytes(), d.bytes()
		d.oneMessage(v.Frame)
	case TimerFailed:
		v.Due, v.Version, v.Reason = Wall(d.varint()), d.uvarint(), d.bytes()
	case TimerDead:
		v.Due, v.Version, v.Reason, v.Row = Wall(d.varint()), d.uvarint(), d.bytes(), d.bytes()
		row, err := ParseTimerRow(v.Row)
		if err != nil || v.Due < 0 {
			d.fail("a dead letter of no timer, or one that goes on before time began")
		}
		d.oneMessage(row.Frame)
	}
	if v.Relative && v.Op != TimerSchedule && v.Op != TimerFailed || v.Counted && v.Op != TimerFailed {
		d.fail("reserved flag set")
	}
	return r.done(&d)
}

// oneMessage refuses a frame that is not what a timer holds.
func (d *decoder) oneMessage(frame []byte) {
	if h, err := ParseFrameHead(frame); err != nil || h.Count != 1 || h.Kind != FrameNative {
		d.fail("the frame of a timer is not one native message")
	}
}

// fireHead is where the Append of a Fire begins in its body: behind version and next due time.
const fireHead = 16

// AddFire adds the fire of a timer; frame as in AddAppend, of one message whose ExplicitID is the one told at the
// schedule. Tenant and Queue are those of v.Append.
func (b *CommandBuf) AddFire(v *Fire, frame []byte) {
	at := b.begin(KindFire)
	b.Commands = putU64(putU64(b.Commands, v.Version), uint64(v.Next))
	b.putAppend(&v.Append, frame, false)
	b.Commands = putBytes(b.Commands, v.Key)
	b.end(at, Ordinal(v.Append.Count))
}

// Fire decodes the current command; slices alias the entry.
func (r *CommandReader) Fire(v *Fire) error {
	d := r.open(KindFire)
	v.Version, v.Next = d.u64(), Wall(d.u64())
	r.decodeAppend(&d, &v.Append)
	v.Tenant, v.Queue, v.Key = v.Append.Tenant, v.Append.Queue, d.name()
	if v.Append.Count != 1 || v.Append.Frame != FrameNative || v.Next < 0 {
		d.fail("a fire of more than one native message, or before time began")
	}
	return r.done(&d)
}

// name reads a byte string that has to name something: not empty, without zero bytes.
func (d *decoder) name() []byte {
	v := d.bytes()
	if d.bad != "" {
		return nil
	}
	if len(v) == 0 {
		d.fail("an empty key")
	}
	if bytes.IndexByte(v, 0) >= 0 {
		d.fail("a zero byte in a key")
	}
	return v
}

// lifetime reads a duration, which is not negative.
func (d *decoder) lifetime() int64 {
	v := d.varint()
	if v < 0 {
		d.fail("a negative lifetime")
	}
	return v
}

// putNumber writes {kind u8, varint | bits of the float u64 | nothing}.
func putNumber(b []byte, n Number) []byte {
	b = append(b, byte(n.Kind))
	switch n.Kind {
	case IntNumber:
		return putVarint(b, n.Int)
	case FloatNumber:
		return binary.LittleEndian.AppendUint64(b, math.Float64bits(n.Float))
	}
	return b
}

func (d *decoder) number() (n Number) {
	n.Kind = NumberKind(d.u8())
	switch n.Kind {
	case NotANumber:
	case IntNumber:
		n.Int = d.varint()
	case FloatNumber:
		n.Float = math.Float64frombits(d.u64())
		if math.IsNaN(n.Float) || math.IsInf(n.Float, 0) {
			d.fail("not a finite number")
		}
	default:
		d.fail("unknown kind of number")
	}
	return n
}
