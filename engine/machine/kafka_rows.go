package machine

import (
	"bytes"
	"cmp"
	"strings"

	"github.com/google/btree"

	"queen/engine/format"
	"queen/engine/machine/slab"
)

// kafka is what producers of record batches need: their identities, what they stored last, and their transactions.
// Of it only rows of seqs and aborts, and the catalogue rows of transactional ids and of the counters, are state; the
// rest is derived from them.
//
// INVARIANT: partOpen is set in a partition's flags iff open has an item of it (checkKafka).
// INVARIANT: ages has one item of each partition that abortTree has items of, with the end of the first of them; later ones
// ended no earlier (checkKafka).
type kafka struct {
	producers uint64 // counter of ProducerID
	named     uint32 // counter of transactional ids
	epochs    []epochStart
	dirt      dirt

	seqs   *slab.Slab[seqRec]
	aborts *slab.Slab[abortRec]

	oldest, newest handle                        // of seqs in the order of last use
	seqTree        *btree.BTreeG[seqKey]         // by partition, then producer
	abortTree      *btree.BTreeG[abortKey]       // by partition, then offset of the end
	ages           *btree.BTreeG[abortAge]       // partitions with aborted ranges, by queue and age of the oldest one
	open           *btree.BTreeG[openKey]        // open transactions by partition, then first offset
	byID           map[uint32]*transactional     // all of them
	byName         *btree.BTreeG[*transactional] // by tenant, then name
	byProducer     map[format.ProducerID]*transactional
	due            *btree.BTreeG[dueTxn]  // open transactions, by when they time out
	idle           *btree.BTreeG[dueTxn]  // the others, by when they changed
	idleOf         *btree.BTreeG[idleKey] // those of idle by tenant first
	pending        map[pendingKey]uint32  // positions that open transactions hold
	parts          int                    // of all open transactions
	held           map[format.Tenant]int  // of parts and aborts, by tenant; none is left out
	bytes          int                    // of their positions
	seqMost        int                    // smaller in tests only
	namedMost      int
}

// Bounds of what producers can make the state hold.
const (
	seqMost   = 4_194_304 // producers on partitions, 124 bytes each
	namedMost = 1_048_576 // transactional ids
	// TxnPartsMost bounds the partitions of open transactions and the ends of aborted ones that are still retained.
	TxnPartsMost = 16_777_216
	// txnBytesMost bounds the positions that wait for the end of a transaction.
	txnBytesMost = 256 << 20
	epochsMost   = 4096
)

// How long a producer that stores nothing is remembered, and a transactional id that nothing happens to, on W.
const (
	seqKeep   = format.Wall(86400 * 1_000_000)
	namedKeep = 7 * seqKeep
)

// seqKept is how many batches of a producer are known by their sequences.
const seqKept = 5

// partOpen in partRec.flags: an open transaction has records of the partition.
const partOpen = 1

// epochStart says with which entry an epoch began.
type epochStart struct {
	epoch format.Term
	first format.Index
}

// seqRec is what one producer stored last on one partition.
type seqRec struct {
	producer format.ProducerID
	lastW    format.Wall
	lastTime int64             // greatest timestamp of the newest batch
	batches  [seqKept]seqBatch // oldest first
	part     handle
	count    uint32 // of batches
	epoch    uint32
	older    handle // neighbours in the order of last use
	newer    handle
}

// seqBatch is one batch: where it was stored, its first sequence and its last one.
type seqBatch struct {
	base        format.Offset
	first, last uint32
}

// abortRec is an aborted transaction on one partition: its records lie in [first, last), and its control record at last.
type abortRec struct {
	producer format.ProducerID
	first    format.Offset
	last     format.Offset
	stable   format.Offset // the last stable offset after it: what ended later began at or after that
	w        format.Wall   // of the end
	part     handle
}

type seqKey struct {
	part     handle
	producer format.ProducerID
	row      handle
}

func lessSeq(a, b seqKey) bool {
	return a.part < b.part || a.part == b.part && a.producer < b.producer
}

type abortKey struct {
	part handle
	last format.Offset
	row  handle
}

// abortAge is a partition with aborted ranges: its first one ended at w.
type abortAge struct {
	queue uint32
	part  handle
	w     format.Wall
}

func lessAge(a, b abortAge) bool {
	return cmp.Or(cmp.Compare(a.queue, b.queue), cmp.Compare(a.w, b.w), cmp.Compare(a.part, b.part)) < 0
}

func lessAbort(a, b abortKey) bool { return a.part < b.part || a.part == b.part && a.last < b.last }

type openKey struct {
	part  handle
	first format.Offset
	txn   uint32
}

func lessOpen(a, b openKey) bool { return a.part < b.part || a.part == b.part && a.first < b.first }

type dueTxn struct {
	at format.Wall
	id uint32
}

func lessDue(a, b dueTxn) bool { return a.at < b.at || a.at == b.at && a.id < b.id }

type idleKey struct {
	tenant format.Tenant
	dueTxn
}

func lessIdle(a, b idleKey) bool {
	if c := bytes.Compare(a.tenant[:], b.tenant[:]); c != 0 {
		return c < 0
	}
	return lessDue(a.dueTxn, b.dueTxn)
}

// rest puts a transactional id among the idle ones, wake takes it out: before t.changed is another.
func (k *kafka) rest(t *transactional) {
	d := dueTxn{t.changed, t.id}
	k.idle.ReplaceOrInsert(d)
	k.idleOf.ReplaceOrInsert(idleKey{t.tenant, d})
}

func (k *kafka) wake(t *transactional) {
	d := dueTxn{t.changed, t.id}
	k.idle.Delete(d)
	k.idleOf.Delete(idleKey{t.tenant, d})
}

// idlest is the transactional id that nothing happened to for the longest time: of the tenant if it has one that is idle,
// else of all. 0 is none.
func (k *kafka) idlest(of format.Tenant) (id uint32) {
	k.idleOf.AscendGreaterOrEqual(idleKey{tenant: of}, func(i idleKey) bool {
		if i.tenant == of {
			id = i.id
		}
		return false
	})
	if d, ok := k.idle.Min(); ok && id == 0 {
		id = d.id
	}
	return id
}

// hold counts what a tenant takes of the room for partitions of transactions.
func (k *kafka) hold(t format.Tenant, n int) {
	if k.held[t] += n; k.held[t] == 0 {
		delete(k.held, t)
	}
}

func lessNamed(a, b *transactional) bool {
	return cmp.Or(strings.Compare(string(a.tenant[:]), string(b.tenant[:])), strings.Compare(a.name, b.name)) < 0
}

// newKafka is empty; what is derived is made by resetDerivedKafka.
func newKafka() kafka {
	k := kafka{
		seqs: slab.New(seqCodec), aborts: slab.New(abortCodec), byID: map[uint32]*transactional{},
		seqMost: seqMost, namedMost: namedMost,
	}
	k.reset()
	return k
}

// reset empties what is derived.
func (k *kafka) reset() {
	k.seqTree, k.abortTree = btree.NewG(deadDegree, lessSeq), btree.NewG(deadDegree, lessAbort)
	k.ages = btree.NewG(deadDegree, lessAge)
	k.open, k.byName = btree.NewG(deadDegree, lessOpen), btree.NewG(deadDegree, lessNamed)
	k.due, k.idle = btree.NewG(deadDegree, lessDue), btree.NewG(deadDegree, lessDue)
	k.idleOf = btree.NewG(deadDegree, lessIdle)
	k.byProducer = map[format.ProducerID]*transactional{}
	k.pending, k.held = map[pendingKey]uint32{}, map[format.Tenant]int{}
	k.oldest, k.newest, k.parts, k.bytes = 0, 0, 0, 0
}

var seqCodec = slab.Codec[seqRec]{
	Size: 24 + 16*seqKept + 20,
	Encode: func(dst []byte, s *seqRec) {
		e := enc{dst[:0]}
		e.u64(uint64(s.producer))
		e.u64(uint64(s.lastW))
		e.u64(uint64(s.lastTime))
		for i := range s.batches {
			e.u64(uint64(s.batches[i].base))
			e.u32(s.batches[i].first)
			e.u32(s.batches[i].last)
		}
		for _, v := range [...]uint32{uint32(s.part), s.count, s.epoch, uint32(s.older), uint32(s.newer)} {
			e.u32(v)
		}
	},
	Decode: func(src []byte, s *seqRec) {
		d := dec{src}
		s.producer, s.lastW, s.lastTime = format.ProducerID(d.u64()), format.Wall(d.u64()), int64(d.u64())
		for i := range s.batches {
			s.batches[i] = seqBatch{format.Offset(d.u64()), d.u32(), d.u32()}
		}
		s.part, s.count, s.epoch = handle(d.u32()), d.u32(), d.u32()
		s.older, s.newer = handle(d.u32()), handle(d.u32())
	},
}

var abortCodec = slab.Codec[abortRec]{
	Size: 44,
	Encode: func(dst []byte, a *abortRec) {
		e := enc{dst[:0]}
		for _, v := range [...]uint64{uint64(a.producer), uint64(a.first), uint64(a.last), uint64(a.stable), uint64(a.w)} {
			e.u64(v)
		}
		e.u32(uint32(a.part))
	},
	Decode: func(src []byte, a *abortRec) {
		d := dec{src}
		a.producer, a.first, a.last = format.ProducerID(d.u64()), format.Offset(d.u64()), format.Offset(d.u64())
		a.stable, a.w, a.part = format.Offset(d.u64()), format.Wall(d.u64()), handle(d.u32())
	},
}
