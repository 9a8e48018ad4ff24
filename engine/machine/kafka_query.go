package machine

import (
	"math"
	"sort"

	"queen/engine/format"
)

// Epochs says in which epoch entries were written. It is good for entries applied when it was taken, and needs no lock.
type Epochs struct {
	starts []epochStart
	now    format.Term
}

// Epochs is the table as it is now.
func (m *Machine) Epochs() Epochs { return Epochs{m.kafka.epochs, m.epoch} }

// Of is the epoch in which an entry was written.
func (e Epochs) Of(i format.Index) format.Term {
	s := e.starts
	n := sort.Search(len(s), func(k int) bool { return s[k].first > i })
	switch {
	case n > 0:
		return s[n-1].epoch
	case len(s) > 0:
		return s[0].epoch
	}
	return e.now
}

// Now is the epoch of the newest entry.
func (e Epochs) Now() format.Term { return e.now }

// EpochEnd finds the last epoch that is not above one, 0 for none, and the first entry of the one after it, 0 when it is
// the last.
func (m *Machine) EpochEnd(epoch format.Term) (last format.Term, end format.Index) {
	for _, e := range m.kafka.epochs {
		if e.epoch > epoch {
			return last, e.first
		}
		last = e.epoch
	}
	return last, 0
}

// Aborted is an aborted range of a partition: the producer's records in [First, Last), the control record at Last.
type Aborted struct {
	Producer    format.ProducerID
	First, Last format.Offset
}

// AbortedRanges appends the aborted ranges of a partition that have offsets in [from, to), by their ends.
func (m *Machine) AbortedRanges(dst []Aborted, part format.PartitionID, from, to format.Offset) []Aborted {
	ph, p := m.partByID(part)
	if p == nil || m.kafka.abortTree.Len() == 0 {
		return dst
	}
	m.kafka.abortTree.AscendGreaterOrEqual(abortKey{part: ph, last: from}, func(k abortKey) bool {
		if k.part != ph {
			return false
		}
		a := m.kafka.aborts.Get(k.row)
		if a.first < to {
			dst = append(dst, Aborted{a.producer, a.first, a.last})
		}
		return a.stable < to
	})
	return dst
}

// OldAborts counts the aborted ranges of a queue that ended before a cutoff, up to most of them: what a Retain to there can
// forget.
func (m *Machine) OldAborts(queue format.QueueID, cutoff format.Wall, most uint32) (n uint32) {
	q := m.liveQueue(queue)
	if q == nil || most == 0 {
		return 0
	}
	k := &m.kafka
	k.ages.AscendGreaterOrEqual(abortAge{queue: q.id, w: math.MinInt64}, func(p abortAge) bool {
		if p.queue != q.id || p.w >= cutoff {
			return false
		}
		k.abortTree.AscendGreaterOrEqual(abortKey{part: p.part}, func(a abortKey) bool {
			if a.part != p.part || k.aborts.Get(a.row).w >= cutoff {
				return false
			}
			n++
			return n < most
		})
		return n < most
	})
	return n
}

// Readable says that what was appended to a partition at w and ends before end is not behind its log start, or gone by
// age or with the partition: then aborted ranges on it are still known.
func (m *Machine) Readable(part format.PartitionID, end format.Offset, w format.Wall) bool {
	start, cutoff, ok := m.Retained(part)
	return ok && end > start && w >= cutoff
}

// IsAborted says that a transactional record of a producer at an offset of a partition was aborted.
func (m *Machine) IsAborted(part format.PartitionID, producer format.ProducerID, o format.Offset) (aborted bool) {
	ph, p := m.partByID(part)
	if p == nil || m.kafka.abortTree.Len() == 0 {
		return false
	}
	m.kafka.abortTree.AscendGreaterOrEqual(abortKey{part: ph, last: o}, func(k abortKey) bool {
		if k.part != ph {
			return false
		}
		a := m.kafka.aborts.Get(k.row)
		aborted = a.producer == producer && a.first <= o
		return !aborted && a.stable <= o
	})
	return aborted
}

// TxnPartitions counts the partitions of open transactions and the ends of aborted ones that are retained: of a tenant, and of
// all. TxnPartsMost is for all.
func (m *Machine) TxnPartitions(t format.Tenant) (own, all int) {
	return m.kafka.held[t], m.kafka.parts + m.kafka.aborts.Len()
}

// InTxn says that the partition of a transactional batch is in the open transaction of its producer.
func (m *Machine) InTxn(a *format.Append) bool {
	t, q := m.kafka.byProducer[a.Batch.Producer], m.queueBy(a.Tenant, a.Queue)
	if t == nil || t.tenant != a.Tenant || q == nil {
		return false
	}
	ph := m.partByName(q, a.Partition)
	if ph == 0 {
		return false
	}
	_, ok := t.find(m.parts.Get(ph).id)
	return ok
}

// Undecided says that a transactional record of a producer at an offset of a partition belongs to an open transaction.
func (m *Machine) Undecided(part format.PartitionID, producer format.ProducerID, o format.Offset) bool {
	t := m.kafka.byProducer[producer]
	if t == nil || t.state != txnOngoing || t.producer != producer {
		return false
	}
	i, ok := t.find(part)
	return ok && t.parts[i].began && t.parts[i].first <= o
}

// TransactionState is where a transactional id is. The numbers are those of the checkpoint.
type TransactionState uint8

const (
	TransactionEmpty     = TransactionState(txnEmpty)
	TransactionOngoing   = TransactionState(txnOngoing)
	TransactionCommitted = TransactionState(txnCommitted)
	TransactionAborted   = TransactionState(txnAborted)
)

// Transaction is a transactional id as the state has it. Partitions of deleted queues are left out.
type Transaction struct {
	Name       string
	Producer   format.ProducerID
	Epoch      int16
	State      TransactionState
	Timeout    int64       // microseconds
	Started    format.Wall // 0 while none is open
	Partitions []TransactionPartition
}

// TransactionPartition names a partition of an open transaction.
type TransactionPartition struct{ Queue, Partition string }

func (m *Machine) transaction(t *transactional, parts bool) Transaction {
	v := Transaction{Name: t.name, Producer: t.producer, Epoch: t.epoch, State: TransactionState(t.state),
		Timeout: t.timeout}
	if t.state != txnOngoing {
		return v
	}
	v.Started = t.started
	for i := range t.parts {
		if _, p := m.partByID(t.parts[i].part); parts && p != nil {
			v.Partitions = append(v.Partitions, TransactionPartition{m.queues[p.queue].name, string(m.names.Get(p.name))})
		}
	}
	return v
}

// Transaction finds a transactional id.
func (m *Machine) Transaction(t format.Tenant, name string) (Transaction, bool) {
	if found := m.named(t, []byte(name)); found != nil {
		return m.transaction(found, true), true
	}
	return Transaction{}, false
}

// Transactions lists at most limit transactional ids of a tenant above after, by name, without their partitions.
func (m *Machine) Transactions(t format.Tenant, after string, limit int) (rows []Transaction) {
	m.kafka.byName.AscendGreaterOrEqual(&transactional{tenant: t, name: after}, func(n *transactional) bool {
		if n.tenant != t || len(rows) == limit {
			return false
		}
		if n.name != after {
			rows = append(rows, m.transaction(n, false))
		}
		return true
	})
	return rows
}

// DueTransaction is an open transaction whose time is over.
type DueTransaction struct {
	Producer format.ProducerID
	Epoch    int16
}

// DueTransactions lists at most limit open transactions that are due at w, and when the next one is: 0 for none.
func (m *Machine) DueTransactions(w format.Wall, limit int) (rows []DueTransaction, next format.Wall) {
	m.kafka.due.Ascend(func(d dueTxn) bool {
		if d.at > w || len(rows) == limit {
			next = max(d.at, 1)
			return false
		}
		t := m.kafka.byID[d.id]
		rows = append(rows, DueTransaction{t.producer, t.epoch})
		return true
	})
	return rows, next
}

// ProducerOn is a producer on a partition.
type ProducerOn struct {
	Producer format.ProducerID
	Epoch    int16
	// LastSequence is the sequence of its last record, LastTime that batch's greatest timestamp, milliseconds.
	LastSequence int32
	LastTime     int64
	// TxnStart is the first offset of its open transaction; HasTxn says that there is one.
	TxnStart format.Offset
	HasTxn   bool
}

// ProducersOn lists the producers that are known on a partition, by id.
func (m *Machine) ProducersOn(part format.PartitionID) (rows []ProducerOn) {
	ph, p := m.partByID(part)
	if p == nil {
		return nil
	}
	m.kafka.seqTree.AscendGreaterOrEqual(seqKey{part: ph}, func(k seqKey) bool {
		if k.part != ph {
			return false
		}
		s := m.kafka.seqs.Get(k.row)
		if m.w-s.lastW >= seqKeep {
			return true
		}
		v := ProducerOn{Producer: s.producer, Epoch: int16(s.epoch), LastSequence: int32(s.batches[s.count-1].last), LastTime: s.lastTime}
		if t := m.kafka.byProducer[s.producer]; t != nil && t.state == txnOngoing && t.producer == s.producer {
			if i, ok := t.find(part); ok {
				v.HasTxn, v.TxnStart = t.parts[i].began, t.parts[i].first
			}
		}
		rows = append(rows, v)
		return true
	})
	return rows
}

// ProducerOf finds the producer bound to a transactional id, and whether its transaction is open.
func (m *Machine) ProducerOf(t format.Tenant, name string) (id format.ProducerID, epoch int16, open, ok bool) {
	found := m.named(t, []byte(name))
	if found == nil {
		return 0, 0, false, false
	}
	return found.producer, found.epoch, found.state == txnOngoing, true
}

// OwnerOfProducer is the transactional id that a producer is bound to, or was, and its tenant.
func (m *Machine) OwnerOfProducer(id format.ProducerID) (t format.Tenant, name string, ok bool) {
	found := m.kafka.byProducer[id]
	if found == nil {
		return t, "", false
	}
	return found.tenant, found.name, true
}
