package machine

import (
	"math"

	"queen/engine/format"
)

// ack judges an Ack of a transaction, in which every message of it has to be carried out: one that is not in
// reach refuses it (S-txn-7, S-txn-8). A second Ack of one cursor is refused, since it would be judged on a
// cursor that the first one has moved.
func (t *txnRun) ack(c *format.Ack, res *format.AckResult) format.Code {
	r, code := t.m.openAck(c, res)
	if code != format.CodeOK {
		return code
	}
	if t.acked[r.ch] || len(c.Runs) == 0 {
		return format.CodeMalformed
	}
	t.acked[r.ch] = true
	if !c.Unfenced && !r.holds() {
		return format.CodeLeaseInvalid // also the repeat of an ack that ended its lease: what came with it is done (S-txn-21)
	}
	next := res.Before
	for i := range c.Runs {
		run := &c.Runs[i]
		switch {
		case run.First < next && run.Status != format.AckCompleted:
			return format.CodeCommitted
		case run.First+format.Offset(run.Count) > max(r.reach, next):
			return format.CodeUnresolvable
		}
	}
	return format.CodeOK
}

// append judges a frame: a message whose id is in its partition's window refuses the transaction (S-txn-11), unless it
// keeps duplicates; repeats inside the transaction do not, they are stored once.
func (t *txnRun) append(a *format.Append, res *format.AppendResult) format.Code {
	m := t.m
	res.Count = a.Count
	if a.Frame == format.FrameKafka {
		return format.CodeMalformed // they have transactions of their own
	}
	code, q, ph := m.checkAppend(a, t.parts)
	if code != format.CodeOK || q == nil {
		return code
	}
	if ph == 0 {
		res.Queue = format.QueueID(q.id)
		return t.appendNew(q, a)
	}
	p := m.parts.Get(ph)
	res.Queue, res.Partition, res.Base = format.QueueID(q.id), p.id, p.next
	m.originals(q, p, a, func(dup format.DupResult) { res.Dups = append(res.Dups, dup) })
	if len(res.Dups) > 0 && !t.keep {
		return format.CodeDuplicate
	}
	t.pushed[p.id] += uint64(int(a.Count) - len(res.Dups))
	if t.pushed[p.id] > m.roomOf(q, p) {
		return format.CodeLimit
	}
	return format.CodeOK
}

// appendNew judges a frame for a partition that is not there yet.
func (t *txnRun) appendNew(q *queue, a *format.Append) format.Code {
	bound := q.maxSize()
	if bound == 0 {
		return format.CodeOK
	}
	at := newPart{q.id, string(a.Partition)}
	if t.fresh[at] += uint64(a.Count); t.fresh[at] > uint64(bound) {
		return format.CodeLimit
	}
	return format.CodeOK
}

// originals tells of every message of a frame that repeats one of before the frame.
func (m *Machine) originals(q *queue, p *partRec, a *format.Append, tell func(format.DupResult)) {
	hashes, evidence := a.Hashes, a.Originals
	for i := range a.Count {
		if !a.HasID(i) {
			continue
		}
		hash := [16]byte(hashes[:16])
		hashes = hashes[16:]
		var original *format.Original
		for len(evidence) > 0 && evidence[0].At <= i {
			if evidence[0].At == i {
				original = &evidence[0]
			}
			evidence = evidence[1:]
		}
		if dup, ok := m.original(q, p, hash, original); ok {
			dup.At = i
			tell(dup)
		}
	}
}

// roomOf is how many messages maxSize lets into a partition. It only reads.
func (m *Machine) roomOf(q *queue, p *partRec) uint64 {
	bound := uint64(q.maxSize())
	switch {
	case bound == 0:
		return math.MaxUint64
	case emptied(q, p):
		return bound
	}
	held := uint64(p.next - min(m.logStart(p), p.next))
	return bound - min(held, bound)
}

// position judges a SetOffset on the state before the transaction: its queue has to be there already (S-txn-18).
func (t *txnRun) position(c *format.SetOffset) format.Code {
	m := t.m
	q := m.queueBy(c.Tenant, c.Queue)
	switch {
	case q == nil:
		return format.CodeUnknownQueue
	case !c.Create && m.partByName(q, c.Partition) == 0:
		return format.CodeUnknownPartition
	case !c.Create && q.groupBy(c.Group) == nil:
		return format.CodeUnknownGroup
	}
	return m.positionRoom(c, q, t.parts)
}

// kv judges a KV on the head as earlier parts will leave it; one that has to hold and does not refuses the
// transaction (S-txn-14).
func (t *txnRun) kv(c *format.KV, res *format.KVResult) format.Code {
	m := t.m
	if !c.Fits() {
		return format.CodeLimit
	}
	at := m.kvAt(c.Tenant, c.Namespace, c.Key)
	if !m.kvRoom(c, at, t.parts) {
		return format.CodeLimit
	}
	now, ok := t.heads[at.hash]
	if !ok {
		now = m.headAt(at.h)
	}
	after, why := m.judgeKV(c, now)
	if why == format.KVApplied && c.Op != format.KVCheck {
		t.written++ // a deletion has a version too
		if after.live {
			after.version = m.keyVersion + t.written
		}
		t.heads[at.hash] = after
	}
	if why == format.KVApplied || !c.Required {
		return format.CodeOK
	}
	now = m.headAt(at.h) // what an earlier part would have written is not there
	*res = now.result(why)
	return format.CodePrecondition
}

// timer judges a Timer, which only bounds refuse (S-txn-17).
func (t *txnRun) timer(c *format.Timer) format.Code {
	switch {
	case c.Op == format.TimerFailed || c.Op == format.TimerDead:
		return format.CodeMalformed
	case !c.Fits():
		return format.CodeLimit
	case c.Op == format.TimerSchedule:
		if at := t.m.timerAt(c.Tenant, c.Queue, c.Key); !t.m.keyRoom(t.parts, at.size) {
			return format.CodeLimit
		}
	}
	return format.CodeOK
}
