package machine

import (
	"fmt"

	"queen/engine/format"
)

// kafkaCommand applies the commands about producers.
func (m *Machine) kafkaCommand(r *format.CommandReader, out *format.Results, res *format.Result) (err error) {
	s := &m.scratch
	if r.Kind() == format.KindProducer {
		if err = r.Producer(&s.producer); err == nil {
			res.At = uint32(len(out.Producers))
			out.Producers = append(out.Producers, format.ProducerResult{})
			res.Code = m.applyProducer(&s.producer, &out.Producers[res.At])
		}
		return err
	}
	if err = r.EndTxn(&s.end); err == nil {
		res.At = uint32(len(out.Ends))
		out.Ends = append(out.Ends, format.EndTxnResult{})
		res.Code = m.applyEndTxn(&s.end, out, &out.Ends[res.At])
	}
	return err
}

// noteEpoch remembers with which entry an epoch began. Of more than epochsMost the oldest is forgotten: what it wrote
// counts as of the one after.
func (m *Machine) noteEpoch() {
	k := &m.kafka
	if n := len(k.epochs); n > 0 && k.epochs[n-1].epoch >= m.epoch {
		return // a boot of the same leader
	}
	if len(k.epochs) == epochsMost {
		k.epochs = k.epochs[1:] // readers keep what they took: nothing is written over
	}
	k.epochs = append(k.epochs, epochStart{m.epoch, m.applied})
	m.soilKafka()
}

func (e *enc) kafka(k *kafka) {
	e.u8(rowVersion)
	e.u64(k.producers)
	e.u32(k.named)
	e.u32(uint32(len(k.epochs)))
	for _, s := range k.epochs {
		e.u64(uint64(s.epoch))
		e.u64(uint64(s.first))
	}
}

func (r *reader) kafka(k *kafka) {
	r.version()
	k.producers, k.named = r.u64(), r.u32()
	k.epochs = nil
	for n := r.list(16); n > 0; n-- {
		k.epochs = append(k.epochs, epochStart{format.Term(r.u64()), format.Index(r.u64())})
	}
}

// list reads the length of a list whose items take at least so many bytes.
func (r *reader) list(least int) int {
	n := r.u32()
	if uint64(n)*uint64(least) > uint64(len(r.b)) {
		r.bad = true
		return 0
	}
	return int(n)
}

func (e *enc) named(t *transactional) {
	e.u8(rowVersion)
	e.id(t.tenant)
	e.text(t.name)
	e.u64(uint64(t.producer))
	e.u64(uint64(t.previous))
	e.u32(uint32(uint16(t.epoch)))
	e.u32(uint32(uint16(t.retry)))
	e.u8(uint8(t.state))
	for _, v := range [...]uint64{uint64(t.timeout), uint64(t.started), uint64(t.changed)} {
		e.u64(v)
	}
	e.u32(uint32(len(t.parts)))
	for i := range t.parts {
		e.u64(uint64(t.parts[i].part))
		e.u64(uint64(t.parts[i].first))
		e.flag(t.parts[i].began)
	}
	e.u32(uint32(len(t.positions)))
	for i := range t.positions {
		p := &t.positions[i]
		e.text(p.at.group)
		e.text(p.at.queue)
		e.text(p.at.partition)
		e.u64(uint64(p.offset))
		e.u32(uint32(p.epoch))
		e.text(p.metadata)
	}
}

func (r *reader) named(t *transactional) {
	r.version()
	t.tenant, t.name = r.id(), r.text()
	t.producer, t.previous = format.ProducerID(r.u64()), format.ProducerID(r.u64())
	t.epoch, t.retry, t.state = int16(r.u32()), int16(r.u32()), txnState(r.u8())
	t.timeout, t.started, t.changed = int64(r.u64()), format.Wall(r.u64()), format.Wall(r.u64())
	for n := r.list(17); n > 0; n-- {
		t.parts = append(t.parts, txnPart{format.PartitionID(r.u64()), format.Offset(r.u64()), r.flag()})
	}
	for n := r.list(28); n > 0; n-- {
		p := txnPosition{at: txnPositionKey{r.text(), r.text(), r.text()}, offset: format.Offset(r.u64()), epoch: int32(r.u32())}
		p.metadata = r.text()
		t.positions = append(t.positions, p)
	}
	r.bad = r.bad || t.state < txnEmpty || t.state > txnAborted || t.producer == 0
}

// anyPart finds a partition, also one of a deleted queue that is not swept yet.
func (m *Machine) anyPart(id format.PartitionID) handle {
	return m.idIndex.Find(m.idHash(id), func(h handle) bool { return m.parts.Get(h).id == id })
}

// finishKafka makes what is derived, checking the references that this follows.
func (m *Machine) finishKafka() error {
	k := &m.kafka
	for h := k.seqs.Next(0); h != 0; h = k.seqs.Next(h) {
		s := k.seqs.Get(h)
		if !m.parts.Live(s.part) || s.count == 0 || s.count > seqKept {
			return fmt.Errorf("machine: producer row %d of no partition, or with %d batches", h, s.count)
		}
		if s.older == 0 {
			k.oldest = h
		}
		if s.newer == 0 {
			k.newest = h
		}
		k.seqTree.ReplaceOrInsert(seqKey{s.part, s.producer, h})
	}
	for h := k.aborts.Next(0); h != 0; h = k.aborts.Next(h) {
		a := k.aborts.Get(h)
		if !m.parts.Live(a.part) {
			return fmt.Errorf("machine: aborted range %d of no partition", h)
		}
		q := m.queues[m.parts.Get(a.part).queue]
		if q == nil {
			return fmt.Errorf("machine: aborted range %d of no queue", h)
		}
		k.hold(q.tenant, 1)
		k.abortTree.ReplaceOrInsert(abortKey{a.part, a.last, h})
	}
	last := handle(0)
	k.abortTree.Ascend(func(a abortKey) bool {
		if a.part != last {
			k.ages.ReplaceOrInsert(m.ageOf(a))
		}
		last = a.part
		return true
	})
	for _, t := range k.byID {
		m.indexNamed(t)
		k.parts += len(t.parts)
		k.hold(t.tenant, len(t.parts))
		for i := range t.parts {
			if ph := m.anyPart(t.parts[i].part); ph != 0 && t.parts[i].began {
				k.open.ReplaceOrInsert(openKey{ph, t.parts[i].first, t.id})
			}
		}
		t.bytes = 0
		for i := range t.positions {
			m.weigh(t, t.positions[i].size())
			k.pending[pendingKey{t.tenant, t.positions[i].at}]++
		}
	}
	return nil
}
