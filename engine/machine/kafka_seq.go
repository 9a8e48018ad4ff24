package machine

import (
	"math"

	"queen/engine/format"
)

// Record batches are frames of their own kind: stored as they were produced, whole or not at all, into queues that are
// there. Their records count as messages without a caller's id. Repeats of a batch are found by its producer's
// sequence.

// applyBatch is applyPush for a record batch.
func (m *Machine) applyBatch(a *format.Append, q *queue, ph handle, res *format.AppendResult) format.Code {
	if q == nil {
		return format.CodeUnknownQueue
	}
	var t *transactional
	if a.Batch.Transactional {
		var code format.Code
		if t, code = m.fencedBatch(a); code != format.CodeOK {
			return code
		}
	}
	if a.Batch.Idempotent {
		dup, code := m.judgeSequence(a, ph)
		if code != format.CodeOK {
			return code
		}
		if dup != nil {
			res.Queue, res.Partition, res.Base = format.QueueID(q.id), m.parts.Get(ph).id, dup.base
			res.Dups = append(res.Dups, format.DupResult{Offset: dup.base})
			return format.CodeOK
		}
	}
	if t != nil {
		if code := m.judgeInTxn(t, a, ph); code != format.CodeOK {
			return code
		}
	}
	if uint64(a.Count) > m.roomAt(q, ph) {
		return format.CodeFull
	}
	if ph == 0 {
		if ph, _ = m.createPart(q, a.Partition); ph == 0 {
			return format.CodeLimit
		}
		res.NewPartition = true
	}
	if q.implicit || !q.kafka {
		q.implicit, q.kafka = false, true
		m.soilQueue(q)
	}
	m.noteTime(q, &a.Batch)
	m.room(q, ph) // a partition that retention emptied starts anew
	p := m.parts.Get(ph)
	res.Queue, res.Partition, res.Base, res.Kept = format.QueueID(q.id), p.id, p.next, a.Count
	res.Pos, res.Len, res.Flags = a.PayloadPos, a.PayloadLen, a.RowFlags()
	if a.Batch.Idempotent {
		m.noteSequence(a, ph, p.next)
	}
	if t != nil {
		m.noteInTxn(t, ph, p.next)
	}
	m.store(q, ph, res)
	return format.CodeOK
}

// noteTime keeps the bound of how far timestamps are ahead of W, in whole seconds so that it seldom changes.
func (m *Machine) noteTime(q *queue, b *format.BatchHead) {
	const second = 1_000_000
	if !b.Timed || b.MaxTime <= int64((m.w+q.ahead)/1000) {
		return
	}
	q.ahead = maxStamp
	if b.MaxTime < maxStamp/1000 {
		q.ahead = (format.Wall(b.MaxTime)*1000 - m.w + second) / second * second
	}
	m.soilQueue(q)
}

// roomAt is how many messages maxSize lets into a partition, 0 for one that is not there yet. It only reads.
func (m *Machine) roomAt(q *queue, ph handle) uint64 {
	if ph != 0 {
		return m.roomOf(q, m.parts.Get(ph))
	}
	if bound := q.maxSize(); bound > 0 {
		return uint64(bound)
	}
	return math.MaxUint64
}

// sequence numbers count modulo 2^31.
const sequenceMask = format.MaxSequence

// sequenceOf finds what is known of a producer on a partition; 0 when it is nothing, or too old to count.
func (m *Machine) sequenceOf(ph handle, producer format.ProducerID) handle {
	k, ok := m.kafka.seqTree.Get(seqKey{part: ph, producer: producer})
	if !ok || m.w-m.kafka.seqs.Get(k.row).lastW >= seqKeep {
		return 0
	}
	return k.row
}

// judgeSequence says whether an idempotent batch comes next, and which one it repeats otherwise. It only reads.
func (m *Machine) judgeSequence(a *format.Append, ph handle) (dup *seqBatch, code format.Code) {
	b := &a.Batch
	first := uint32(b.Sequence)
	h := handle(0)
	if ph != 0 {
		h = m.sequenceOf(ph, b.Producer)
	}
	if h == 0 {
		// Forgotten producers go on where they were; on a partition where nothing ever was, something is missing.
		if first != 0 && (ph == 0 || m.parts.Get(ph).next == 0) {
			return nil, format.CodeOutOfSequence
		}
		return nil, format.CodeOK
	}
	s := m.kafka.seqs.Get(h)
	switch {
	case uint32(b.Epoch) < s.epoch:
		return nil, format.CodeProducerEpoch
	case uint32(b.Epoch) > s.epoch && first != 0:
		return nil, format.CodeOutOfSequence
	case uint32(b.Epoch) > s.epoch:
		return nil, format.CodeOK
	}
	last := (first + a.Count - 1) & sequenceMask
	for i := range s.batches[:s.count] {
		if s.batches[i].first == first && s.batches[i].last == last {
			return &s.batches[i], format.CodeOK
		}
	}
	next := (s.batches[s.count-1].last + 1) & sequenceMask
	switch ahead := (first - next) & sequenceMask; {
	case ahead == 0:
		return nil, format.CodeOK
	case ahead <= sequenceMask/2:
		return nil, format.CodeOutOfSequence
	}
	return nil, format.CodeDuplicateSequence
}

// noteSequence remembers a batch that is stored at base.
func (m *Machine) noteSequence(a *format.Append, ph handle, base format.Offset) {
	k := &m.kafka
	found, ok := k.seqTree.Get(seqKey{part: ph, producer: a.Batch.Producer})
	h := found.row
	if !ok {
		if k.seqs.Len() >= k.seqMost {
			m.dropSequence(k.oldest)
		}
		if h, _ = k.seqs.Alloc(); h == 0 {
			return // 2^32 rows, which seqMost is far from
		}
		k.seqTree.ReplaceOrInsert(seqKey{ph, a.Batch.Producer, h})
	} else {
		m.unlinkSequence(h)
	}
	s := k.seqs.Touch(h)
	if s.producer != a.Batch.Producer || s.epoch != uint32(a.Batch.Epoch) || m.w-s.lastW >= seqKeep {
		*s = seqRec{producer: a.Batch.Producer, part: ph, epoch: uint32(a.Batch.Epoch)}
	}
	if s.count == seqKept {
		copy(s.batches[:], s.batches[1:])
		s.count--
	}
	first := uint32(a.Batch.Sequence)
	s.batches[s.count] = seqBatch{base: base, first: first, last: (first + a.Count - 1) & sequenceMask}
	s.count++
	s.lastW, s.lastTime = m.w, a.Batch.MaxTime
	if s.older = k.newest; s.older != 0 {
		k.seqs.Touch(s.older).newer = h
	} else {
		k.oldest = h
	}
	k.newest = h
}

// unlinkSequence takes a row out of the order of use.
func (m *Machine) unlinkSequence(h handle) {
	k := &m.kafka
	s := k.seqs.Touch(h)
	if s.older != 0 {
		k.seqs.Touch(s.older).newer = s.newer
	} else {
		k.oldest = s.newer
	}
	if s.newer != 0 {
		k.seqs.Touch(s.newer).older = s.older
	} else {
		k.newest = s.older
	}
	s.older, s.newer = 0, 0
}

// dropSequence forgets a producer on a partition.
func (m *Machine) dropSequence(h handle) {
	m.unlinkSequence(h)
	s := m.kafka.seqs.Get(h)
	m.kafka.seqTree.Delete(seqKey{part: s.part, producer: s.producer})
	m.kafka.seqs.Free(h)
}

// fireKafka forgets what is out of time: at most limit rows, which nobody sees any more.
func (m *Machine) fireKafka(limit int) {
	k := &m.kafka
	for ; limit > 0 && k.oldest != 0 && m.w-k.seqs.Get(k.oldest).lastW >= seqKeep; limit-- {
		m.dropSequence(k.oldest)
	}
	for ; limit > 0; limit-- {
		d, ok := k.idle.Min()
		if !ok || m.w-d.at < namedKeep {
			return
		}
		m.dropNamed(k.byID[d.id])
	}
}
