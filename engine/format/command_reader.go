package format

import (
	"encoding/binary"
	"math/bits"
)

// MaxKind is the highest command kind that has a meaning.
const MaxKind = KindOrigin

// CommandReader walks the commands of an entry without allocating. It is a value: copy it to
// remember a place. Every slice that its methods fill aliases the entry.
//
// A command is | kind u8 | body length uvarint | body |.
type CommandReader struct {
	commands, ids []byte
	// pos and idPos are where the next command and the next frame's ids start.
	pos, idPos  int
	payloadNext uint32
	payloadEnd  uint32
	next        Ordinal
	left        uint32
	err         error

	// The current command.
	number  int
	kind    Kind
	ordinal Ordinal
	body    []byte
	bodyPos int // position of body in the command region
	frame   frameRef

	// Tenant and queue of the last Append, for those that repeat them.
	tenant Tenant
	queue  []byte
}

// frameRef is what Next must know of an Append to find the frame after it.
type frameRef struct {
	flags      uint8
	count      uint32
	payloadPos uint32
	payloadLen uint32
	sum        uint64
	mode       IDMode
	bitmap     []byte
	hashes     []byte
	rest       int // position in body behind the fields that Next read
}

// Reader starts at the first command of e.
func (e *Entry) Reader() CommandReader {
	return CommandReader{
		commands: e.Commands, ids: e.IDs, payloadNext: e.PayloadBase, payloadEnd: e.Len,
		left: e.CommandCount, number: -1,
	}
}

// Next moves to the next command; false at the end or at a fault (Err tells them apart).
func (r *CommandReader) Next() bool {
	if r.err != nil || r.left == 0 {
		return false
	}
	if len(r.commands)-r.pos < 2 {
		r.fault(r.pos, "ends with %d commands missing", r.left)
		return false
	}
	kind := Kind(r.commands[r.pos])
	if kind == 0 || kind > MaxKind {
		r.fault(r.pos, "unknown command kind %d", kind)
		return false
	}
	d := decoder{b: r.commands, pos: r.pos + 1}
	body := d.bytes()
	if d.bad != "" {
		r.fault(d.pos, "%s", d.bad)
		return false
	}
	r.left--
	r.number++
	r.kind, r.ordinal = kind, r.next
	r.body, r.bodyPos, r.pos = body, d.pos-len(body), d.pos
	consumed := Ordinal(1)
	switch kind {
	case KindAppend:
		consumed = r.scanFrame(0)
	case KindRedrive:
		consumed = r.scanFrame(redriveHead)
	case KindFire:
		consumed = r.scanFrame(fireHead)
	case KindEndTxn:
		consumed = r.scanFrame(endTxnHead)
	}
	r.next += consumed
	return r.err == nil
}

// Err is the fault at which Next or a decoding method stopped.
func (r *CommandReader) Err() error { return r.err }

// Kind is the kind of the current command.
func (r *CommandReader) Kind() Kind { return r.kind }

// Ordinal is the first ordinal that the current command consumes.
func (r *CommandReader) Ordinal() Ordinal { return r.ordinal }

// End is one past the last ordinal that the current command consumes.
func (r *CommandReader) End() Ordinal { return r.next }

// Number is the number of the current command in its entry, from 0.
func (r *CommandReader) Number() int { return r.number }

// scanFrame reads the head of an Append at position at of the body and steps over its ids and payload.
func (r *CommandReader) scanFrame(at int) Ordinal {
	d := decoder{b: r.body, pos: min(at, len(r.body))}
	f := &r.frame
	f.flags = d.u8()
	f.count = d.uvarint32()
	f.payloadLen = d.uvarint32()
	if f.flags&appendSame == 0 {
		r.tenant = DefaultTenant
		if f.flags&appendDefaultTenant == 0 {
			r.tenant = d.uuid()
		}
		r.queue = d.bytes()
	} else if r.queue == nil {
		d.fail("repeats a queue that no command named")
	}
	f.rest, f.payloadPos = d.pos, r.payloadNext
	switch {
	case d.bad != "":
	case f.count == 0 || uint64(f.count)+uint64(r.ordinal) > MaxOrdinals:
		d.fail("message count out of bounds")
	case f.payloadLen < FrameHeadSize || f.payloadLen > r.payloadEnd-r.payloadNext:
		d.fail("frame longer than the payload region, or shorter than a frame head")
	default:
		r.scanIDs(&d)
	}
	if d.bad != "" {
		r.fault(r.bodyPos+d.pos, "%s", d.bad)
		return 0
	}
	r.payloadNext += f.payloadLen
	return Ordinal(f.count)
}

func (r *CommandReader) scanIDs(d *decoder) {
	f := &r.frame
	ids := r.ids[r.idPos:]
	if len(ids) < idHeadSize {
		d.fail("id region ends early")
		return
	}
	f.sum, f.mode = binary.LittleEndian.Uint64(ids), IDMode(ids[8])
	f.bitmap, f.hashes = nil, nil
	bitmap, hashes := 0, 0
	switch f.mode {
	case IDsNone:
	case IDsAll:
		hashes = 16 * int(f.count)
	case IDsSome:
		bitmap = (int(f.count) + 7) / 8
		if len(ids) < idHeadSize+bitmap {
			d.fail("id region ends early")
			return
		}
		hashes = 16 * popcount(ids[idHeadSize:idHeadSize+bitmap])
		if spare := f.count % 8; spare != 0 && ids[idHeadSize+bitmap-1]>>spare != 0 {
			d.fail("id bitmap names messages that are not there")
			return
		}
	default:
		d.fail("unknown id mode")
		return
	}
	end := idHeadSize + bitmap + hashes
	if len(ids) < end {
		d.fail("id region ends early")
		return
	}
	if bitmap > 0 {
		f.bitmap = ids[idHeadSize : idHeadSize+bitmap : idHeadSize+bitmap]
	}
	if hashes > 0 {
		f.hashes = ids[idHeadSize+bitmap : end : end]
	}
	r.idPos += end
}

func popcount(b []byte) (n int) {
	for _, v := range b {
		n += bits.OnesCount8(v)
	}
	return n
}

// fault records the first fault, at a position in the command region.
func (r *CommandReader) fault(pos int, msg string, args ...any) {
	if r.err == nil {
		r.err = errorf("command", EntryFixedHead+pos, msg, args...)
	}
}

// open starts decoding the current command, which must be of kind k.
func (r *CommandReader) open(k Kind) decoder {
	if r.kind != k || r.err != nil {
		return decoder{bad: "not the kind that was asked for"}
	}
	return decoder{b: r.body}
}

// done ends decoding: the whole body must be used up.
func (r *CommandReader) done(d *decoder) error {
	if r.err != nil {
		return r.err
	}
	if err := d.close("command", EntryFixedHead+r.bodyPos); err != nil {
		r.err = err
	}
	return r.err
}
