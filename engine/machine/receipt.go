package machine

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"

	"queen/engine/format"
	"queen/engine/machine/slab"
)

// receipt is the answer of an ack that ended a lease, kept for a minute so that a repeat of that ack is
// answered alike (S-ack-15). Receipts lie in one ring, in the order of their end; beyond receiptsMax the
// oldest go early, and their repeats are told that the lease is over.
type receipt struct {
	id            format.UUID
	part          format.PartitionID
	sum           uint64 // digest of the consumer group and the runs
	before, after format.Offset
	end           format.Offset // of what was leased
	until         format.Mono
	filed         uint32
	flags         uint32
}

const (
	receiptDropped = 1
	// receiptMicros is how long a receipt is kept, on T.
	receiptMicros = 60_000_000
	receiptsMax   = 1 << 18
)

var receiptCodec = slab.Codec[receipt]{
	Size: 72,
	Encode: func(dst []byte, r *receipt) {
		e := enc{dst[:0]}
		e.id(r.id)
		for _, v := range [...]uint64{uint64(r.part), r.sum, uint64(r.before), uint64(r.after), uint64(r.end), uint64(r.until)} {
			e.u64(v)
		}
		e.u32(r.filed)
		e.u32(r.flags)
	},
	Decode: func(src []byte, r *receipt) {
		d := dec{src}
		r.id, r.part, r.sum = d.id(), format.PartitionID(d.u64()), d.u64()
		r.before, r.after, r.end = format.Offset(d.u64()), format.Offset(d.u64()), format.Offset(d.u64())
		r.until = format.Mono(d.u64())
		r.filed, r.flags = d.u32(), d.u32()
	},
}

// receiptHandles is how many positions of the ring have handles of their own in the index.
const receiptHandles = uint64(slab.HandleMax)

func receiptHandle(pos uint64) handle { return handle(pos%receiptHandles) + 1 }

// receiptAt turns a handle of the index back into the receipt; every one in the index is in the ring.
func (m *Machine) receiptAt(h handle) *receipt {
	start := m.receipts.Start()
	ahead := (uint64(h) - 1 + receiptHandles - start%receiptHandles) % receiptHandles
	return m.receipts.At(start + ahead)
}

func (m *Machine) receiptHash(r *receipt) uint64 {
	var key [24]byte
	copy(key[:], r.id[:])
	binary.LittleEndian.PutUint64(key[16:], uint64(r.part))
	return m.receiptIndex.Hash(key[:])
}

// addReceipt keeps one.
func (m *Machine) addReceipt(r receipt) {
	if m.receipts.Len() == receiptsMax {
		m.dropReceipt()
	}
	pos := m.receipts.Append(r, receiptsMax)
	m.receiptIndex.Insert(m.receiptHash(&r), receiptHandle(pos))
}

// dropReceipt forgets the oldest.
func (m *Machine) dropReceipt() {
	pos := m.receipts.Start()
	m.receiptIndex.Delete(m.receiptHash(m.receipts.At(pos)), receiptHandle(pos))
	m.receipts.DropBefore(pos + 1)
}

// expireReceipts forgets those that are over, a bounded number; lookups compare times anyway.
func (m *Machine) expireReceipts() {
	for left := fireLimit; left > 0 && m.receipts.Len() > 0 && m.receipts.At(m.receipts.Start()).until <= m.t; left-- {
		m.dropReceipt()
	}
}

// receiptOf finds the receipt of a lease on a partition, nil when there is none any more.
func (m *Machine) receiptOf(id format.UUID, part format.PartitionID) *receipt {
	want := receipt{id: id, part: part}
	h := m.receiptIndex.Find(m.receiptHash(&want), func(h handle) bool {
		r := m.receiptAt(h)
		return r.id == id && r.part == part
	})
	if h == 0 {
		return nil
	}
	if r := m.receiptAt(h); r.until > m.t {
		return r
	}
	return nil
}

// runSum is the digest by which a repeated ack is known: what it says, and for which group. A lease is
// one group's, so that no other group's ack repeats what ended it (S-ack-21).
func runSum(g *group, c *format.Ack) uint64 {
	var stack [256]byte
	b := binary.LittleEndian.AppendUint32(stack[:0], g.id)
	for i := range c.Runs {
		run := &c.Runs[i]
		b = binary.LittleEndian.AppendUint64(b, uint64(run.First))
		b = binary.LittleEndian.AppendUint64(b, uint64(run.Count)<<8|uint64(run.Status))
	}
	return xxh3.Hash(b)
}
