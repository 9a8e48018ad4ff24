package machine

import (
	"math"

	"queen/engine/format"
)

// applyEndTxn commits or aborts a transaction on every partition of it, in one step: each gives up an offset, at which
// readers find the control batch.
func (m *Machine) applyEndTxn(c *format.EndTxn, out *format.Results, res *format.EndTxnResult) format.Code {
	res.From = uint32(len(out.Controls))
	res.To = res.From
	res.Pos, res.Len = c.Append.PayloadPos, c.Append.PayloadLen
	t := m.kafka.byProducer[c.ID]
	if t == nil {
		return format.CodeProducerMapping
	}
	res.ID, res.Epoch = t.producer, t.epoch
	code, ends, raises := m.judgeEnd(t, c)
	if code != format.CodeOK {
		return code
	}
	if ends {
		m.endTxn(t, c, out)
		res.To = uint32(len(out.Controls))
	}
	if raises && m.raise(t) {
		if !ends {
			m.abortNothing(t)
		}
		m.soilNamed(t)
	}
	res.ID, res.Epoch = t.producer, t.epoch
	return format.CodeOK
}

// abortNothing notes the abort of a transaction that had not begun: a repeat of it is found by that, and a commit before
// it is not repeated any more.
func (m *Machine) abortNothing(t *transactional) {
	k := &m.kafka
	k.wake(t)
	t.state, t.retry, t.changed = txnAborted, -1, m.w
	k.rest(t)
}

// isRepeat says that the command names the identity that its end, with the wanted outcome, replaced by the present one.
func (t *transactional) isRepeat(c *format.EndTxn, want txnState) bool {
	return c.Bump && t.state == want && (c.ID == t.producer && c.Epoch == t.epoch-1 ||
		c.ID == t.previous && c.Epoch == format.MaxProducerEpoch-1 && t.epoch == 0)
}

// judgeEnd says whether the command ends a transaction, and whether the epoch rises. A repeat of what took place does
// neither.
func (m *Machine) judgeEnd(t *transactional, c *format.EndTxn) (code format.Code, ends, raises bool) {
	want := txnAborted
	if c.Commit {
		want = txnCommitted
	}
	switch {
	case c.ID == t.producer && c.Epoch == t.epoch:
	case t.isRepeat(c, want):
		return format.CodeOK, false, false // its answer was lost
	case c.ID == t.producer && c.Epoch > t.epoch:
		return format.CodeProducerEpoch, false, false
	default:
		return format.CodeProducerFenced, false, false
	}
	switch {
	case c.Expire && (t.state != txnOngoing || m.w < t.started+format.Wall(t.timeout)):
		return format.CodeStaleEvidence, false, false
	case t.state == txnOngoing && c.Commit:
		code = m.positionsRoom(t)
		return code, code == format.CodeOK, c.Bump
	case t.state == txnOngoing:
		return format.CodeOK, true, c.Bump || c.Expire
	case c.Bump && !c.Commit:
		return format.CodeOK, false, true // with TV2 a client may not know that nothing began
	case !c.Bump && t.state == want:
		return format.CodeOK, false, false
	}
	return format.CodeTxnState, false, false
}

func (m *Machine) endTxn(t *transactional, c *format.EndTxn, out *format.Results) {
	k := &m.kafka
	for i := range t.parts {
		m.endPart(t, &t.parts[i], c.Commit, out)
	}
	m.endPositions(t, c.Commit)
	k.due.Delete(dueTxn{t.started + format.Wall(t.timeout), t.id})
	k.parts -= len(t.parts)
	k.hold(t.tenant, -len(t.parts))
	t.parts, t.positions = nil, nil
	if t.state = txnAborted; c.Commit {
		t.state = txnCommitted
	}
	t.changed = m.w
	k.rest(t)
	m.soilNamed(t)
}

// endPart takes the offset of the control record. Events tell of what lies from the old last stable offset on: what was
// appended behind an open transaction had none.
func (m *Machine) endPart(t *transactional, part *txnPart, commit bool, out *format.Results) {
	ph := m.anyPart(part.part)
	if ph == 0 {
		return // deleted since
	}
	p := m.parts.Get(ph)
	q := m.queues[p.queue]
	if q.dead {
		m.close(ph, part)
		return
	}
	before, base, lastW := m.stable(ph), p.next, p.lastW
	row, prev := m.advance(ph, 1)
	out.Controls = append(out.Controls, format.ControlRow{
		Partition: p.id, Queue: format.QueueID(q.id), Offset: base, Row: row, PrevRow: prev,
	})
	m.close(ph, part)
	if part.began && !commit {
		m.addAbort(q, ph, abortRec{producer: t.producer, first: part.first, last: base, stable: m.stable(ph), w: m.w, part: ph})
	}
	m.touchPart(p, TouchedAppend|TouchedReveal)
	switch s := m.sideOf(p); {
	case q.holds():
		m.hide(q, ph, base, lastW)
	case s != nil && s.hidden != 0:
		m.reveal(q, m.sides.Touch(p.side), p.next)
	}
	if m.stable(ph) > before {
		m.announce(q, ph, before, false)
	}
}

// close takes a partition out of those with open transactions, as far as this one goes.
func (m *Machine) close(ph handle, part *txnPart) {
	if part.began {
		m.kafka.open.Delete(openKey{part: ph, first: part.first})
		m.closeFlag(ph)
	}
}

// closeFlag clears the partition's flag when no open transaction has records of it any more.
func (m *Machine) closeFlag(ph handle) {
	none := true
	m.kafka.open.AscendGreaterOrEqual(openKey{part: ph}, func(k openKey) bool {
		none = k.part != ph
		return false
	})
	if none {
		m.parts.Touch(ph).flags &^= partOpen
	}
}

// addAbort remembers an aborted range until the partition's log start has passed it.
func (m *Machine) addAbort(q *queue, ph handle, a abortRec) {
	m.dropAborts(q, ph)
	h, row := m.kafka.aborts.Alloc()
	if h == 0 {
		return // 2^32 rows, which txnRoom is far from
	}
	*row = a
	m.kafka.hold(q.tenant, 1)
	k := abortKey{ph, a.last, h}
	if _, more := m.firstAbort(ph, 0); !more {
		m.kafka.ages.ReplaceOrInsert(m.ageOf(k))
	}
	m.kafka.abortTree.ReplaceOrInsert(k)
}

// dropAborts forgets ranges that lie below the partition's log start, or that retention took.
func (m *Machine) dropAborts(q *queue, ph handle) {
	start := m.logStart(m.parts.Get(ph))
	for {
		k, ok := m.firstAbort(ph, 0)
		if !ok {
			return
		}
		if a := m.kafka.aborts.Get(k.row); a.last >= start && a.w >= q.cutoff {
			return
		}
		m.freeAbort(k)
	}
}

// firstAbort finds the first aborted range of a partition that ends at or after an offset.
func (m *Machine) firstAbort(ph handle, from format.Offset) (found abortKey, ok bool) {
	m.kafka.abortTree.AscendGreaterOrEqual(abortKey{part: ph, last: from}, func(k abortKey) bool {
		found, ok = k, k.part == ph
		return false
	})
	return found, ok
}

// freeAbort forgets the first aborted range of a partition.
func (m *Machine) freeAbort(k abortKey) {
	m.kafka.hold(m.queues[m.parts.Get(k.part).queue].tenant, -1)
	m.kafka.ages.Delete(m.ageOf(k))
	m.kafka.abortTree.Delete(k)
	m.kafka.aborts.Free(k.row)
	if next, ok := m.firstAbort(k.part, 0); ok {
		m.kafka.ages.ReplaceOrInsert(m.ageOf(next))
	}
}

// ageOf is the item of ages of a partition whose first aborted range this is.
func (m *Machine) ageOf(k abortKey) abortAge {
	return abortAge{m.parts.Get(k.part).queue, k.part, m.kafka.aborts.Get(k.row).w}
}

// forgetAborts frees aborted ranges of a queue that ended before its cutoff, at most so many, the oldest first: all their
// records are as old or older, since W never goes back, so nobody is given one of them any more.
func (m *Machine) forgetAborts(q *queue, most uint32) {
	for most = min(most, sweepMax); most > 0; most-- {
		oldest, ok := m.oldestAge(q.id)
		if !ok || oldest.w >= q.cutoff {
			return
		}
		k, _ := m.firstAbort(oldest.part, 0)
		m.freeAbort(k)
	}
}

// oldestAge finds the partition of a queue whose first aborted range ended first.
func (m *Machine) oldestAge(queue uint32) (oldest abortAge, ok bool) {
	m.kafka.ages.AscendGreaterOrEqual(abortAge{queue: queue, w: math.MinInt64}, func(a abortAge) bool {
		oldest, ok = a, a.queue == queue
		return false
	})
	return oldest, ok
}

// freeKafka removes what producers left on a partition that goes. Open transactions go on without it.
func (m *Machine) freeKafka(ph handle) {
	k := &m.kafka
	for {
		row := handle(0)
		k.seqTree.AscendGreaterOrEqual(seqKey{part: ph}, func(s seqKey) bool {
			if s.part == ph {
				row = s.row
			}
			return false
		})
		if row == 0 {
			break
		}
		m.dropSequence(row)
	}
	for {
		a, ok := m.firstAbort(ph, 0)
		if !ok {
			break
		}
		m.freeAbort(a)
	}
	for m.parts.Get(ph).flags&partOpen != 0 {
		k.open.Delete(openKey{part: ph, first: m.stable(ph)})
		m.closeFlag(ph)
	}
}
