package machine

import (
	"encoding/binary"

	"queen/engine/format"
	"queen/engine/machine/slab"
)

type handle = slab.Handle

// partRec is one partition: what there are most of.
type partRec struct {
	id    format.PartitionID
	next  format.Offset // the next offset to assign
	birth format.Index  // with birthOrd the place of the Append that created it
	bornW format.Wall
	lastW format.Wall // W of the newest append
	row   uint64      // number of the newest frame stored, 0 none
	jpos  uint64      // position of the newest journal event, 0 none

	birthOrd format.Ordinal
	queue    uint32 // QueueID
	name     slab.Ref
	prev     handle // neighbours in the queue's list, which is in order of id
	succ     handle
	cursors  handle // first of the partition's cursors
	side     handle // sideRec, 0 while the partition needs none
	flags    uint32
}

func (p *partRec) birthPlace() format.Place {
	return format.Place{Index: p.birth, Ordinal: p.birthOrd}
}

// sideRec holds what only partitions with hidden messages or an explicit log start need.
type sideRec struct {
	visible format.Offset // messages below are deliverable as far as holds go
	trim    format.Offset // explicit log start
	hidden  format.Wall   // createdAt of the first hidden message, 0 when none is hidden
	due     format.Wall   // when to look again, 0 when nothing is due
	part    handle
	holdGen uint32 // the queue's holdGen under which visible was judged
	flags   uint32
}

// sideAsk marks a partition whose next step only the log knows: the leader proposes a Reveal.
const sideAsk = 1

// cursorRec is how far one consumer group got on one partition.
//
// INVARIANT: queued is set iff the record is in its group's FIFO (checkState).
type cursorRec struct {
	next  format.Offset // the next offset to deliver; everything below is settled
	stamp uint64        // journal position at which it became claimable, while queued

	part     handle
	group    uint32 // ConsumerID
	gen      uint32 // generation of the group; a record of an older one counts as missing
	flags    uint32 // the bits below; above them the startGen that an unused one was found under, or 1 + leader epoch
	lease    handle
	fifoPrev handle
	fifoSucc handle
	chain    handle // next cursor of the partition
}

const (
	cursorQueued = 1
	// cursorUnused says that nothing was ever claimed and nobody sought: next is only where the registration
	// starts, kept because looking that up costs reads. Under another startGen the record counts as missing
	// (S-grp-6).
	cursorUnused     = 2
	cursorMetadata   = 4 // there is a keyed row of what was said with the position
	cursorStartShift = 3
)

// leaseRec is possession of a range, and what outlives it: the end of what was delivered, deliveries of
// the head, failures charged.
type leaseRec struct {
	id         format.UUID
	first, end format.Offset // the range last handed out
	expiry     format.Mono   // while live
	notBefore  format.Mono   // back-off after a nack, 0 none
	stamp      uint64        // the claim's stamp, for a hand-back
	delivered  format.Offset // TrimLease: an ack that reaches it completes to end; 0 none

	attempts uint32 // deliveries of the message at first; counts while the cursor is there
	retries  uint32 // failures charged against the budget
	cursor   handle
	chain    handle // next record of the same lease id
	worker   slab.Ref
	flags    uint32
}

const (
	leaseLive  = 1
	leaseAcked = 2 // something of the live range was acked
)

// deadRec is the head of a dead letter. Its error text and counters are a row of the keyed store.
type deadRec struct {
	id     format.DeadLetterID
	part   format.PartitionID
	offset format.Offset
	at     format.Wall
	sum    uint64 // digest of the keyed row

	queue   uint32
	group   slab.Ref
	older   handle // neighbours in the queue's list, newest first
	newer   handle
	retries uint32
}

// enc and dec lay rows out little-endian and in field order. The rows that every message changes are encoded at fixed
// offsets instead: each mark and each checkpoint encodes all that were changed, and growing a slice value by value takes
// several times as long.
type enc struct{ b []byte }

func (e *enc) u64(v uint64) { e.b = binary.LittleEndian.AppendUint64(e.b, v) }
func (e *enc) u32(v uint32) { e.b = binary.LittleEndian.AppendUint32(e.b, v) }
func (e *enc) id(v format.UUID) {
	e.b = append(e.b, v[:]...)
}

type dec struct{ b []byte }

func (d *dec) u64() (v uint64) {
	v, d.b = binary.LittleEndian.Uint64(d.b), d.b[8:]
	return v
}

func (d *dec) u32() (v uint32) {
	v, d.b = binary.LittleEndian.Uint32(d.b), d.b[4:]
	return v
}

func (d *dec) id() (v format.UUID) {
	copy(v[:], d.b)
	d.b = d.b[16:]
	return v
}

var partCodec = slab.Codec[partRec]{
	Size: 88,
	Encode: func(dst []byte, p *partRec) {
		le := binary.LittleEndian
		dst = dst[:88]
		le.PutUint64(dst, uint64(p.id))
		le.PutUint64(dst[8:], uint64(p.next))
		le.PutUint64(dst[16:], uint64(p.birth))
		le.PutUint64(dst[24:], uint64(p.bornW))
		le.PutUint64(dst[32:], uint64(p.lastW))
		le.PutUint64(dst[40:], p.row)
		le.PutUint64(dst[48:], p.jpos)
		le.PutUint32(dst[56:], uint32(p.birthOrd))
		le.PutUint32(dst[60:], p.queue)
		le.PutUint32(dst[64:], uint32(p.name))
		le.PutUint32(dst[68:], uint32(p.prev))
		le.PutUint32(dst[72:], uint32(p.succ))
		le.PutUint32(dst[76:], uint32(p.cursors))
		le.PutUint32(dst[80:], uint32(p.side))
		le.PutUint32(dst[84:], p.flags)
	},
	Decode: func(src []byte, p *partRec) {
		d := dec{src}
		p.id, p.next = format.PartitionID(d.u64()), format.Offset(d.u64())
		p.birth, p.bornW, p.lastW = format.Index(d.u64()), format.Wall(d.u64()), format.Wall(d.u64())
		p.row, p.jpos = d.u64(), d.u64()
		p.birthOrd, p.queue, p.name = format.Ordinal(d.u32()), d.u32(), slab.Ref(d.u32())
		p.prev, p.succ, p.cursors = handle(d.u32()), handle(d.u32()), handle(d.u32())
		p.side, p.flags = handle(d.u32()), d.u32()
	},
}

var sideCodec = slab.Codec[sideRec]{
	Size: 44,
	Encode: func(dst []byte, s *sideRec) {
		e := enc{dst[:0]}
		e.u64(uint64(s.visible))
		e.u64(uint64(s.trim))
		e.u64(uint64(s.hidden))
		e.u64(uint64(s.due))
		e.u32(uint32(s.part))
		e.u32(s.holdGen)
		e.u32(s.flags)
	},
	Decode: func(src []byte, s *sideRec) {
		d := dec{src}
		s.visible, s.trim = format.Offset(d.u64()), format.Offset(d.u64())
		s.hidden, s.due = format.Wall(d.u64()), format.Wall(d.u64())
		s.part, s.holdGen, s.flags = handle(d.u32()), d.u32(), d.u32()
	},
}

var cursorCodec = slab.Codec[cursorRec]{
	Size: 48,
	Encode: func(dst []byte, c *cursorRec) {
		le := binary.LittleEndian
		dst = dst[:48]
		le.PutUint64(dst, uint64(c.next))
		le.PutUint64(dst[8:], c.stamp)
		le.PutUint32(dst[16:], uint32(c.part))
		le.PutUint32(dst[20:], c.group)
		le.PutUint32(dst[24:], c.gen)
		le.PutUint32(dst[28:], c.flags)
		le.PutUint32(dst[32:], uint32(c.lease))
		le.PutUint32(dst[36:], uint32(c.fifoPrev))
		le.PutUint32(dst[40:], uint32(c.fifoSucc))
		le.PutUint32(dst[44:], uint32(c.chain))
	},
	Decode: func(src []byte, c *cursorRec) {
		d := dec{src}
		c.next, c.stamp = format.Offset(d.u64()), d.u64()
		c.part, c.group, c.gen, c.flags = handle(d.u32()), d.u32(), d.u32(), d.u32()
		c.lease, c.fifoPrev, c.fifoSucc, c.chain = handle(d.u32()), handle(d.u32()), handle(d.u32()), handle(d.u32())
	},
}

var leaseCodec = slab.Codec[leaseRec]{
	Size: 88,
	Encode: func(dst []byte, l *leaseRec) {
		le := binary.LittleEndian
		dst = dst[:88]
		copy(dst, l.id[:])
		le.PutUint64(dst[16:], uint64(l.first))
		le.PutUint64(dst[24:], uint64(l.end))
		le.PutUint64(dst[32:], uint64(l.expiry))
		le.PutUint64(dst[40:], uint64(l.notBefore))
		le.PutUint64(dst[48:], l.stamp)
		le.PutUint64(dst[56:], uint64(l.delivered))
		le.PutUint32(dst[64:], l.attempts)
		le.PutUint32(dst[68:], l.retries)
		le.PutUint32(dst[72:], uint32(l.cursor))
		le.PutUint32(dst[76:], uint32(l.chain))
		le.PutUint32(dst[80:], uint32(l.worker))
		le.PutUint32(dst[84:], l.flags)
	},
	Decode: func(src []byte, l *leaseRec) {
		d := dec{src}
		l.id = d.id()
		l.first, l.end = format.Offset(d.u64()), format.Offset(d.u64())
		l.expiry, l.notBefore = format.Mono(d.u64()), format.Mono(d.u64())
		l.stamp, l.delivered = d.u64(), format.Offset(d.u64())
		l.attempts, l.retries = d.u32(), d.u32()
		l.cursor, l.chain, l.worker, l.flags = handle(d.u32()), handle(d.u32()), slab.Ref(d.u32()), d.u32()
	},
}

var deadCodec = slab.Codec[deadRec]{
	Size: 68,
	Encode: func(dst []byte, r *deadRec) {
		e := enc{dst[:0]}
		e.id(r.id)
		for _, v := range [...]uint64{uint64(r.part), uint64(r.offset), uint64(r.at), r.sum} {
			e.u64(v)
		}
		for _, v := range [...]uint32{r.queue, uint32(r.group), uint32(r.older), uint32(r.newer), r.retries} {
			e.u32(v)
		}
	},
	Decode: func(src []byte, r *deadRec) {
		d := dec{src}
		r.id = d.id()
		r.part, r.offset = format.PartitionID(d.u64()), format.Offset(d.u64())
		r.at, r.sum = format.Wall(d.u64()), d.u64()
		r.queue, r.group = d.u32(), slab.Ref(d.u32())
		r.older, r.newer, r.retries = handle(d.u32()), handle(d.u32()), d.u32()
	},
}
