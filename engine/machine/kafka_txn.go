package machine

import (
	"cmp"
	"slices"

	"queen/engine/format"
)

// txnState is where a transactional id is. The numbers are in checkpoints.
type txnState uint8

const (
	txnEmpty     txnState = 1
	txnOngoing   txnState = 2
	txnCommitted txnState = 3
	txnAborted   txnState = 4
)

// transactional is a catalogue row: a transactional id, the producer bound to it, and its open transaction.
//
// INVARIANT: parts are in order of partition and, like positions, there only while the state is txnOngoing; bytes are those
// of positions and not in the row (checkKafka).
type transactional struct {
	id       uint32
	tenant   format.Tenant
	name     string
	producer format.ProducerID
	previous format.ProducerID // the one before, whose epochs were used up; 0 none
	epoch    int16
	// retry is the epoch that the producer named when it was given the present one, -1 when it named none: it may ask
	// again, its answer may have been lost.
	retry     int16
	state     txnState
	timeout   int64
	started   format.Wall // of the open transaction
	changed   format.Wall
	parts     []txnPart
	positions []txnPosition
	bytes     int
	dirt      dirt
}

// txnPart is a partition of an open transaction; first is its first record there, once it began.
type txnPart struct {
	part  format.PartitionID
	first format.Offset
	began bool
}

func (m *Machine) soilNamed(t *transactional) { m.soil(&t.dirt, catKey{catNamed, t.id}) }
func (m *Machine) soilKafka()                 { m.soil(&m.kafka.dirt, catKey{kind: catKafka}) }

// named finds a transactional id.
func (m *Machine) named(t format.Tenant, name []byte) *transactional {
	found, _ := m.kafka.byName.Get(&transactional{tenant: t, name: string(name)})
	return found
}

// newProducer hands out an id that nobody had.
func (m *Machine) newProducer() format.ProducerID {
	m.kafka.producers++
	m.soilKafka()
	return format.ProducerID(m.kafka.producers<<6 | uint64(m.group))
}

// applyProducer carries a Producer command out.
func (m *Machine) applyProducer(c *format.Producer, res *format.ProducerResult) format.Code {
	switch {
	case c.Op == format.ProducerInit && len(c.Name) == 0:
		return m.initPlain(c, res)
	case c.Op == format.ProducerInit:
		return m.initNamed(c, res)
	}
	t := m.named(c.Tenant, c.Name)
	switch {
	case t == nil || c.ID != t.producer:
		return format.CodeProducerMapping
	case c.Epoch < t.epoch:
		return format.CodeProducerFenced
	case c.Epoch > t.epoch:
		return format.CodeProducerEpoch
	}
	res.ID, res.Epoch = t.producer, t.epoch
	if c.Op == format.ProducerPositions {
		return m.addPositions(t, c, res)
	}
	return m.addParts(t, c, res)
}

// initPlain gives a producer without a transactional id an identity: a fresh one, or its next epoch. Nothing is kept of
// it but the counter.
func (m *Machine) initPlain(c *format.Producer, res *format.ProducerResult) format.Code {
	known := c.ID != 0 && uint64(c.ID)>>6 <= m.kafka.producers && format.RaftGroup(c.ID&63) == m.group
	if known && c.Epoch < format.MaxProducerEpoch-1 {
		res.ID, res.Epoch = c.ID, c.Epoch+1
		return format.CodeOK
	}
	if m.kafka.producers >= format.MaxProducerID>>6 {
		return format.CodeLimit
	}
	res.ID, res.Epoch = m.newProducer(), 0
	return format.CodeOK
}

// initNamed binds a transactional id to a producer and fences whoever had it. An open transaction has to be aborted
// first: the proposer's EndTxn in front did it, or the transaction began in between.
func (m *Machine) initNamed(c *format.Producer, res *format.ProducerResult) format.Code {
	t := m.named(c.Tenant, c.Name)
	if t == nil {
		if t = m.addNamed(c); t == nil {
			return format.CodeLimit
		}
		res.ID, res.Epoch = t.producer, t.epoch
		return format.CodeOK
	}
	res.ID, res.Epoch = t.producer, t.epoch
	switch again, code := t.judgeIdentity(c); {
	case again || code != format.CodeOK:
		return code
	case t.state == txnOngoing:
		return format.CodeStaleEvidence
	}
	if !m.raise(t) {
		return format.CodeLimit
	}
	if t.retry = -1; c.ID != 0 {
		t.retry = c.Epoch
	}
	m.kafka.wake(t)
	t.state, t.timeout, t.changed = txnEmpty, c.Timeout, m.w
	m.kafka.rest(t)
	m.soilNamed(t)
	res.ID, res.Epoch = t.producer, t.epoch
	return format.CodeOK
}

// judgeIdentity says whether who names an identity may have the next one; again, that it was given the present one
// before.
func (t *transactional) judgeIdentity(c *format.Producer) (again bool, code format.Code) {
	switch {
	case c.ID == 0 || c.ID == t.producer && c.Epoch == t.epoch:
		return false, format.CodeOK
	case t.retry >= 0 && c.Epoch == t.retry && (c.ID == t.producer || c.ID == t.previous):
		return true, format.CodeOK
	case c.ID != t.producer:
		return false, format.CodeProducerMapping
	}
	return false, format.CodeProducerFenced
}

// addNamed makes a transactional id, in the place of the one that nothing happened to for the longest time if there are
// as many as may be: of the same tenant if it has one. nil means that there is no room.
func (m *Machine) addNamed(c *format.Producer) *transactional {
	k := &m.kafka
	if k.producers >= format.MaxProducerID>>6 || k.named == maxCatalog {
		return nil
	}
	if len(k.byID) >= k.namedMost {
		id := k.idlest(c.Tenant)
		if id == 0 {
			return nil
		}
		m.dropNamed(k.byID[id])
	}
	k.named++
	t := &transactional{id: k.named, tenant: c.Tenant, name: string(c.Name), producer: m.newProducer(), retry: -1,
		state: txnEmpty, timeout: c.Timeout, changed: m.w}
	k.byID[t.id] = t
	m.indexNamed(t)
	m.soilNamed(t)
	return t
}

// dropNamed forgets a transactional id that has no open transaction.
func (m *Machine) dropNamed(t *transactional) {
	k := &m.kafka
	delete(k.byID, t.id)
	delete(k.byProducer, t.producer)
	delete(k.byProducer, t.previous)
	k.byName.Delete(t)
	k.wake(t)
	m.soilNamed(t)
}

// indexNamed puts a transactional id into what is derived. Its partitions are not looked at.
func (m *Machine) indexNamed(t *transactional) {
	k := &m.kafka
	k.byName.ReplaceOrInsert(t)
	k.byProducer[t.producer] = t
	if t.previous != 0 {
		k.byProducer[t.previous] = t
	}
	if t.state == txnOngoing {
		k.due.ReplaceOrInsert(dueTxn{t.started + format.Wall(t.timeout), t.id})
	} else {
		k.rest(t)
	}
}

// raise gives a transactional id its next epoch, or the next producer when epochs are used up.
func (m *Machine) raise(t *transactional) bool {
	if t.epoch < format.MaxProducerEpoch-1 {
		t.epoch++
		return true
	}
	if m.kafka.producers >= format.MaxProducerID>>6 {
		return false
	}
	delete(m.kafka.byProducer, t.previous)
	t.previous, t.producer, t.epoch = t.producer, m.newProducer(), 0
	m.kafka.byProducer[t.producer] = t
	return true
}

// beginTxn opens a transaction if none is open.
func (m *Machine) beginTxn(t *transactional) {
	if t.state == txnOngoing {
		return
	}
	m.kafka.wake(t)
	t.state, t.started, t.changed = txnOngoing, m.w, m.w
	t.retry = -1
	m.kafka.due.ReplaceOrInsert(dueTxn{t.started + format.Wall(t.timeout), t.id})
}

// find is where a partition stands among those of the transaction, or would.
func (t *transactional) find(p format.PartitionID) (int, bool) {
	return slices.BinarySearchFunc(t.parts, p, func(a txnPart, p format.PartitionID) int { return cmp.Compare(a.part, p) })
}

// addPart takes a partition into the open transaction.
func (m *Machine) addPart(t *transactional, p format.PartitionID) *txnPart {
	i, ok := t.find(p)
	if !ok {
		t.parts = slices.Insert(t.parts, i, txnPart{part: p})
		m.kafka.parts++
		m.kafka.hold(t.tenant, 1)
		m.soilNamed(t)
	}
	return &t.parts[i]
}

// txnRoom says that n more partitions of transactions fit.
func (m *Machine) txnRoom(n int) bool { return m.kafka.parts+m.kafka.aborts.Len()+n <= TxnPartsMost }

// addParts adds all partitions of the command, or none.
func (m *Machine) addParts(t *transactional, c *format.Producer, res *format.ProducerResult) format.Code {
	if !m.txnRoom(len(c.Partitions)) || m.header.partitions+uint64(len(c.Partitions)) > maxPartitions ||
		m.parts.Len()+len(c.Partitions) >= maxCatalog {
		return format.CodeLimit
	}
	for i := range c.Partitions {
		at := &c.Partitions[i]
		res.Failed = uint32(i)
		q := m.queueBy(c.Tenant, at.Queue)
		if q == nil {
			return format.CodeUnknownQueue
		}
		if format.TenantNameBytes+len(at.Queue)+len(at.Partition) > format.NameBudget ||
			m.names.Room(len(at.Partition)) < len(c.Partitions) {
			return format.CodeLimit
		}
	}
	res.Failed = 0
	m.beginTxn(t)
	for i := range c.Partitions {
		q := m.queueBy(c.Tenant, c.Partitions[i].Queue)
		ph := m.partByName(q, c.Partitions[i].Partition)
		if ph == 0 {
			if ph, _ = m.createPart(q, c.Partitions[i].Partition); ph == 0 {
				continue // the bounds were looked at
			}
		}
		if !q.kafka {
			q.kafka = true
			m.soilQueue(q)
		}
		m.addPart(t, m.parts.Get(ph).id)
	}
	m.soilNamed(t)
	return format.CodeOK
}

// fencedBatch finds the transactional id of a transactional batch, whose producer must be the one bound to it now.
func (m *Machine) fencedBatch(a *format.Append) (*transactional, format.Code) {
	b := &a.Batch
	t := m.kafka.byProducer[b.Producer]
	switch {
	case t == nil || t.tenant != a.Tenant:
		return nil, format.CodeProducerMapping
	case t.producer != b.Producer || t.epoch != b.Epoch:
		return nil, format.CodeProducerEpoch
	}
	return t, format.CodeOK
}

// judgeInTxn says whether a batch may be part of the transaction: its partition is in it already, or comes in with it.
func (m *Machine) judgeInTxn(t *transactional, a *format.Append, ph handle) format.Code {
	if t.state == txnOngoing && ph != 0 {
		if _, ok := t.find(m.parts.Get(ph).id); ok {
			return format.CodeOK
		}
	}
	switch {
	case !a.Batch.Implicit:
		return format.CodeTxnState
	case !m.txnRoom(1):
		return format.CodeLimit
	}
	return format.CodeOK
}

// noteInTxn makes a batch that is stored at base part of the transaction.
func (m *Machine) noteInTxn(t *transactional, ph handle, base format.Offset) {
	m.beginTxn(t)
	part := m.addPart(t, m.parts.Get(ph).id)
	if part.began {
		return
	}
	part.began, part.first = true, base
	m.soilNamed(t)
	m.kafka.open.ReplaceOrInsert(openKey{ph, base, t.id})
	m.parts.Touch(ph).flags |= partOpen
}

// stable is the last stable offset of a partition: what lies below is decided.
func (m *Machine) stable(ph handle) format.Offset {
	p := m.parts.Get(ph)
	end := p.next
	if p.flags&partOpen != 0 {
		m.kafka.open.AscendGreaterOrEqual(openKey{part: ph}, func(k openKey) bool {
			if k.part == ph {
				end = min(end, k.first)
			}
			return false
		})
	}
	return end
}
