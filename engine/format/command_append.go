package format

import "encoding/binary"

// Flag bits of an Append. Bits 5 and 6 hold the frame kind.
const (
	appendSame          = 1 << 0 // tenant and queue are those of the Append before
	appendDefaultTenant = 1 << 1
	appendExplicitID    = 1 << 2
	appendClear         = 1 << 3
	appendOriginals     = 1 << 4
	appendKindShift     = 5
	appendKindMask      = 3
	appendSealed        = 1 << 7 // the frame's body is encrypted

	// Flags of the tail that a frame of record batches has.
	batchIdempotent    = 1 << 0
	batchTransactional = 1 << 1
	batchImplicit      = 1 << 2
	batchTimed         = 1 << 3 // of a batch that is not idempotent

	// idHeadSize is the payload digest and the id mode of a frame in the id region.
	idHeadSize = 9
	// leastOriginal is how few bytes an Original takes.
	leastOriginal = 5
	// redriveHead is where the Append of a Redrive begins in its body: behind the dead letter.
	redriveHead = 16
)

// AddAppend adds a frame. Of a's decoded fields only IDs, Bitmap and Hashes are read; PayloadLen,
// PayloadSum and Sealed are computed from frame, which is copied. Count must be the frame's, Originals ordered by At.
func (b *CommandBuf) AddAppend(a *Append, frame []byte) {
	at := b.begin(KindAppend)
	same := b.queueKnown && a.Tenant == b.tenant && string(a.Queue) == string(b.queue)
	b.putAppend(a, frame, same)
	b.end(at, Ordinal(a.Count))
}

// AddRedrive adds the move of a dead letter; frame as in AddAppend.
func (b *CommandBuf) AddRedrive(r *Redrive, frame []byte) {
	at := b.begin(KindRedrive)
	b.Commands = append(b.Commands, r.DeadLetter[:]...)
	b.putAppend(&r.Append, frame, false)
	b.end(at, Ordinal(r.Append.Count))
}

func (b *CommandBuf) putAppend(a *Append, frame []byte, same bool) {
	flags := byte(a.Frame) << appendKindShift
	if same {
		flags |= appendSame
	} else if a.Tenant == DefaultTenant {
		flags |= appendDefaultTenant
	}
	if IsSealed(frame) {
		flags |= appendSealed
	}
	if a.ExplicitID {
		flags |= appendExplicitID
	}
	if a.ClearTo != 0 {
		flags |= appendClear
	}
	if len(a.Originals) > 0 {
		flags |= appendOriginals
	}
	c := append(b.Commands, flags)
	c = putUvarint(c, uint64(a.Count))
	c = putUvarint(c, uint64(len(frame)))
	if !same {
		if a.Tenant != DefaultTenant {
			c = append(c, a.Tenant[:]...)
		}
		c = putBytes(c, a.Queue)
		b.tenant, b.queue, b.queueKnown = a.Tenant, append(b.queue[:0], a.Queue...), true
	}
	c = putBytes(c, a.Partition)
	if a.ClearTo != 0 {
		c = putUvarint(c, a.ClearTo)
	}
	if len(a.Originals) > 0 {
		c = putUvarint(c, uint64(len(a.Originals)))
		for i := range a.Originals {
			o := &a.Originals[i]
			c = putUvarint(c, uint64(o.At))
			c = putUvarint(c, uint64(o.Offset))
			c = putPlace(c, o.Place)
			c = putVarint(c, int64(o.W))
		}
	}
	if a.Frame == FrameKafka {
		c = putBatchHead(c, &a.Batch)
	}
	b.Commands = c
	b.putFrame(a, frame)
}

func putBatchHead(c []byte, h *BatchHead) []byte {
	switch {
	case !h.Idempotent && h.Timed:
		return putVarint(append(c, batchTimed), h.MaxTime)
	case !h.Idempotent:
		return append(c, 0)
	}
	c = append(c, batchIdempotent|bit(h.Transactional, batchTransactional)|bit(h.Implicit, batchImplicit))
	c = putUvarint(c, uint64(h.Producer))
	c = putUvarint(c, uint64(h.Epoch))
	c = putUvarint(c, uint64(h.Sequence))
	return putVarint(c, h.MaxTime)
}

// batchHead reads the tail of a FrameKafka.
func (d *decoder) batchHead(h *BatchHead) {
	flags := d.flags(batchIdempotent | batchTransactional | batchImplicit | batchTimed)
	switch flags {
	case batchTimed:
		h.Timed, h.MaxTime = true, d.varint()
		return
	case 0:
		return
	}
	h.Timed, h.Idempotent, h.Transactional, h.Implicit = true, true, flags&batchTransactional != 0, flags&batchImplicit != 0
	producer, epoch, sequence := d.uvarint(), d.uvarint(), d.uvarint()
	h.MaxTime = d.varint()
	if flags&batchIdempotent == 0 || flags&batchTimed != 0 || h.Implicit && !h.Transactional {
		d.fail("a transaction of no producer")
	}
	if producer > MaxProducerID || epoch > MaxProducerEpoch || sequence > MaxSequence {
		d.fail("producer, epoch or sequence out of bounds")
	}
	h.Producer, h.Epoch, h.Sequence = ProducerID(producer), int16(epoch), int32(sequence)
}

func (b *CommandBuf) putFrame(a *Append, frame []byte) {
	ids := binary.LittleEndian.AppendUint64(b.IDs, PayloadSum(frame))
	ids = append(ids, byte(a.IDs))
	if a.IDs == IDsSome {
		ids = append(ids, a.Bitmap...)
	}
	if a.IDs != IDsNone {
		ids = append(ids, a.Hashes...)
	}
	b.IDs = ids
	b.frames = append(b.frames, framePlace{pos: uint32(len(b.Payload)), ordinal: b.Ordinals})
	b.Payload = append(b.Payload, frame...)
}

// Append decodes the current command into a, reusing the capacity of a.Originals; everything else aliases.
func (r *CommandReader) Append(a *Append) error {
	d := r.open(KindAppend)
	r.decodeAppend(&d, a)
	return r.done(&d)
}

// Redrive decodes the current command.
func (r *CommandReader) Redrive(v *Redrive) error {
	d := r.open(KindRedrive)
	v.DeadLetter = d.uuid()
	r.decodeAppend(&d, &v.Append)
	if v.Append.Frame == FrameKafka && (v.Append.Count != 1 || v.Append.Batch.Idempotent) {
		d.fail("a dead letter that is a record moves alone, and has no producer")
	}
	return r.done(&d)
}

func (r *CommandReader) decodeAppend(d *decoder, a *Append) {
	f := &r.frame
	originals := a.Originals[:0]
	*a = Append{
		Tenant: r.tenant, Queue: r.queue, Frame: FrameKind(f.flags >> appendKindShift & appendKindMask),
		Sealed: f.flags&appendSealed != 0,
		Count:  f.count, PayloadLen: f.payloadLen, ExplicitID: f.flags&appendExplicitID != 0,
		PayloadPos: f.payloadPos, PayloadSum: f.sum, IDs: f.mode, Bitmap: f.bitmap, Hashes: f.hashes,
	}
	d.pos = min(f.rest, len(d.b))
	if a.Frame != FrameNative && a.Frame != FrameKafka {
		d.fail("unknown frame kind")
	}
	a.Partition = d.bytes()
	if f.flags&appendClear != 0 {
		if a.ClearTo = d.uvarint(); a.ClearTo == 0 {
			d.fail("zero where a flag promised a number")
		}
	}
	a.Originals = originals
	if f.flags&appendOriginals != 0 {
		n := d.count(leastOriginal)
		if n == 0 || uint32(n) > f.count {
			d.fail("originals do not fit the messages")
			n = 0
		}
		a.Originals = resize(originals, n)
		for i := range a.Originals {
			o := &a.Originals[i]
			o.At, o.Offset = d.uvarint32(), Offset(d.uvarint())
			o.Place, o.W = d.place(), Wall(d.varint())
			if o.At >= f.count || i > 0 && o.At <= a.Originals[i-1].At {
				d.fail("originals out of order")
			}
		}
	}
	if a.Frame != FrameKafka {
		return
	}
	// Records have no ids of callers, and a batch is stored as it is or not at all.
	if f.mode != IDsNone || f.flags&(appendExplicitID|appendClear|appendOriginals) != 0 {
		d.fail("a record batch with ids of messages")
	}
	d.batchHead(&a.Batch)
}

func putPlace(b []byte, p Place) []byte {
	return putUvarint(putUvarint(b, uint64(p.Index)), uint64(p.Ordinal))
}

func (d *decoder) place() (p Place) {
	p.Index = Index(d.uvarint())
	p.Ordinal = Ordinal(d.uvarint32())
	return p
}

// RowFlags are what the row of the frame says of it, but for what was refused of it.
func (a *Append) RowFlags() RowFlags {
	switch {
	case a.Frame != FrameKafka:
		return RowNative
	case a.Batch.Transactional:
		return RowKafka | RowTransactional
	}
	return RowKafka
}

// HasID says that message i of the frame carries a caller's id.
func (a *Append) HasID(i uint32) bool {
	return a.IDs == IDsAll || a.IDs == IDsSome && a.Bitmap[i/8]>>(i%8)&1 != 0
}

// StoresFrame says that a command of this kind brings a frame: Append, Redrive, Fire and EndTxn.
func (k Kind) StoresFrame() bool {
	return k == KindAppend || k == KindRedrive || k == KindFire || k == KindEndTxn
}

// AnyAppend decodes the Append of the current command, whichever of the kinds that store frames it is.
func (r *CommandReader) AnyAppend(a *Append) error {
	switch r.kind {
	case KindRedrive:
		v := Redrive{Append: *a}
		err := r.Redrive(&v)
		*a = v.Append
		return err
	case KindFire:
		v := Fire{Append: *a}
		err := r.Fire(&v)
		*a = v.Append
		return err
	case KindEndTxn:
		v := EndTxn{Append: *a}
		err := r.EndTxn(&v)
		*a = v.Append
		return err
	}
	return r.Append(a)
}
