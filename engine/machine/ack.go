package machine

import (
	"queen/engine/format"
)

// ackRun is one Ack being applied.
type ackRun struct {
	m   *Machine
	cmd *format.Ack
	res *format.AckResult
	g   *group
	q   *queue
	ch  handle
	lh  handle // lease record of the cursor, 0 none
	// live says that a lease is in force; end is one past what may be acked.
	live bool
	end  format.Offset
	// reach is one past what may be acked: beyond what is leased only by an unfenced ack of a transaction.
	reach format.Offset
}

// applyAck settles messages of one (partition, consumer group) (S-ack-1 to 26, S-dlq-1 to 12).
//
// Verdict of one message of the call, for a result with CodeOK: below Before it was settled already
// (completed: no-op; else refused as committed); at or above LeaseEnd it is unresolvable; in between
// the instruction was carried out, though a completed one at or above After will be delivered again.
// When no message of the call lies in between, the code says why.
func (m *Machine) applyAck(c *format.Ack, res *format.AckResult) format.Code {
	r, code := m.openAck(c, res)
	if code != format.CodeOK {
		return code
	}
	if !c.Unfenced && !r.holds() {
		return r.repeated()
	}
	return r.judge(res.Before)
}

// openAck finds what an Ack is about and fills in what is true before it. It only reads.
func (m *Machine) openAck(c *format.Ack, res *format.AckResult) (ackRun, format.Code) {
	ph, p := m.partByID(c.Partition)
	if p == nil {
		return ackRun{}, format.CodeUnknownPartition
	}
	res.Queue = format.QueueID(p.queue)
	r := ackRun{m: m, cmd: c, res: res, q: m.queues[p.queue]}
	if r.g = r.q.groupBy(c.Group); r.g == nil {
		return r, format.CodeNotLeased
	}
	var ok bool
	if r.ch, ok = m.cursorOf(ph, r.g); !ok || m.cursors.Get(r.ch).unused() {
		return r, format.CodeNotLeased
	}
	cur := m.cursors.Get(r.ch)
	res.Before, res.After = cur.next, cur.next
	res.LeaseFirst, res.LeaseEnd = cur.next, cur.next
	r.lh, r.end = cur.lease, cur.next
	if r.lh != 0 {
		l := m.leases.Get(r.lh)
		r.live = l.live(m.t)
		if r.end = max(cur.next, l.end); r.live {
			res.LeaseFirst = l.first
		} else {
			res.LeaseFirst = r.end
		}
		res.LeaseEnd = r.end
	}
	if r.reach = r.end; m.inTxn && c.Unfenced {
		r.reach = max(r.end, p.next) // S-txn-8
	}
	return r, format.CodeOK
}

// holds says that the lease named by the call is the one in force.
func (r *ackRun) holds() bool { return r.live && r.m.leases.Get(r.lh).id == r.cmd.Lease }

// repeated answers an ack whose lease has ended: as the first time when it is the very ack that ended
// it and that was a minute ago at most (S-ack-15), else as a dead lease (S-ack-13).
func (r *ackRun) repeated() format.Code {
	r.res.LeaseFirst, r.res.LeaseEnd = r.res.Before, r.res.Before
	rc := r.m.receiptOf(r.cmd.Lease, r.cmd.Partition)
	if rc == nil || rc.sum != runSum(r.g, r.cmd) {
		return format.CodeLeaseInvalid
	}
	*r.res = format.AckResult{
		Queue: r.res.Queue, Before: rc.before, After: rc.after, LeaseFirst: rc.before, LeaseEnd: rc.end, Released: true,
		Filed: rc.filed > 0, Dropped: rc.flags&receiptDropped != 0,
	}
	if rc.filed > 0 {
		r.res.FiledFirst, r.res.FiledEnd = rc.after-format.Offset(rc.filed), rc.after
	}
	r.conflated()
	return format.CodeOK
}

// judge finds how far completion reaches and what the lowest nack says, and carries both out.
func (r *ackRun) judge(next format.Offset) format.Code {
	done := next // one past the highest completed message below the lowest nack
	nack := -1
	below, above := format.CodeOK, format.CodeOK
	for i := range r.cmd.Runs {
		run := &r.cmd.Runs[i]
		end := run.First + format.Offset(run.Count)
		if run.First < next && run.Status != format.AckCompleted {
			below = format.CodeCommitted
		}
		if end > r.reach {
			above = format.CodeUnresolvable
		}
		first, last := max(run.First, next), min(end, r.reach)
		if first >= last {
			continue
		}
		if run.Status != format.AckCompleted {
			nack = i
			break
		}
		done = last
	}
	switch {
	case nack >= 0:
		r.nack(nack, max(r.cmd.Runs[nack].First, next))
	case done > next:
		r.complete(done)
	case len(r.cmd.Runs) == 0:
		return format.CodeMalformed
	case r.anyNoop(next):
		return format.CodeOK
	case below != format.CodeOK:
		return below
	default:
		return above
	}
	return format.CodeOK
}

// anyNoop says that some completed message of the call was settled before (S-ack-9).
func (r *ackRun) anyNoop(next format.Offset) bool {
	for i := range r.cmd.Runs {
		if run := &r.cmd.Runs[i]; run.Status == format.AckCompleted && run.First < next {
			return true
		}
	}
	return false
}

// complete moves the cursor over a completed prefix; the end of the range ends the lease (S-ack-2, 4).
func (r *ackRun) complete(done format.Offset) {
	m := r.m
	r.consumed()
	defer r.conflated()
	if r.lh == 0 {
		m.moveHead(r.ch, done)
		r.res.After = done
		r.unqueue()
		return
	}
	l := m.leases.Touch(r.lh)
	if l.delivered != 0 && done >= l.delivered {
		done = max(done, r.end) // the rest of the range was not rendered: TrimLease
	}
	m.moveHead(r.ch, done)
	r.res.After = done
	if done < r.end {
		if r.live {
			l.flags |= leaseAcked
		}
		r.unqueue()
		return
	}
	l.retries, l.attempts = 0, 0
	r.release(0)
}

// conflated counts the messages that a group settled unseen, behind the one it acknowledged.
func (r *ackRun) conflated() {
	if r.g.conflate && !r.res.Filed && !r.res.Dropped && r.res.After > r.res.Before {
		r.res.Conflated = uint64(r.res.After - r.res.Before - 1)
	}
}

func (r *ackRun) consumed() {
	if !r.g.consumed {
		r.g.consumed = true
		r.m.soilGroup(r.g)
	}
}

// unqueue drops a cursor from the FIFO that an unfenced ack left without anything to claim.
func (r *ackRun) unqueue() {
	r.m.judge(r.q, r.m.cursors.Get(r.ch).part)
	if !r.m.claimable(r.q, r.m.cursors.Get(r.ch)) {
		r.m.dequeue(r.g, r.ch)
	}
}

// nack carries out the lowest negative verdict, whose first message is head: the cursor stops there
// or, when the message is given up, behind it; the lease ends (S-ack-5 to 8, S-dlq-1 to 6, 12).
func (r *ackRun) nack(i int, head format.Offset) {
	m := r.m
	run := &r.cmd.Runs[i]
	if r.g.conflate {
		// What was superseded stays with what superseded it: the next attempt begins where this one did, with
		// its deliveries and failures (S-con-6, S-con-9). Given up is the one message that was seen, or the one
		// beyond it that a transaction names.
		if head < r.end {
			c := m.cursors.Get(r.ch)
			head = m.leases.Get(c.lease).seen(c.next, r.end)
		}
	} else {
		m.moveHead(r.ch, head)
	}
	_, l := m.touchLease(r.ch)
	if l == nil {
		return
	}
	r.lh = m.cursors.Get(r.ch).lease
	delay := format.Mono(min(max(run.Delay, 0), maxSeconds*1_000_000))
	if delay == 0 {
		delay = r.q.retryDelay()
	}
	giveUp, file := format.Offset(0), false
	switch run.Status {
	case format.AckFailed:
		if int64(l.retries) < r.q.opts.RetryLimit {
			l.retries++
			break
		}
		giveUp, file = 1, r.q.dlq()
		if file && r.q.opts.DLQScopeBatch && !r.g.conflate {
			giveUp = r.streak(i, head)
		}
	case format.AckDLQ:
		if giveUp, file = 1, true; !r.g.conflate {
			giveUp = r.streak(i, head)
		}
	}
	if giveUp > 0 {
		r.giveUp(head, head+giveUp, file, i)
		l = m.leases.Touch(r.lh)
		l.retries, l.attempts = 0, 0
		delay = 0
	}
	r.res.After = m.cursors.Get(r.ch).next
	if r.res.After > r.res.Before {
		r.consumed()
	}
	r.release(delay)
}

// streak is how many messages from head on follow each other with the same verdict.
func (r *ackRun) streak(i int, head format.Offset) format.Offset {
	at := head
	status := r.cmd.Runs[i].Status
	for ; i < len(r.cmd.Runs); i++ {
		run := &r.cmd.Runs[i]
		if run.Status != status || run.First > at {
			break
		}
		at = min(run.First+format.Offset(run.Count), r.reach)
	}
	return at - head
}

// giveUp files or drops [first, end) and moves the cursor behind it.
func (r *ackRun) giveUp(first, end format.Offset, file bool, i int) {
	m := r.m
	retries := m.leases.Get(r.lh).retries
	if file {
		part := m.parts.Get(m.cursors.Get(r.ch).part)
		for at := first; at < end; at++ {
			id := m.fileDead(r.q, part, at, r.g.name, format.DeadRow{Retries: retries, Reason: r.reason(i, at)})
			if at == first {
				r.res.DeadLetter = id
			}
		}
		r.res.Filed, r.res.FiledFirst, r.res.FiledEnd = true, first, end
	} else {
		r.res.Dropped = true
	}
	m.moveHead(r.ch, end)
}

// defaultReason stands for an ack that gave none.
const defaultReason = "Retries exhausted"

// reason is what the sender said about a message, else the first reason of the call (S-dlq-11).
func (r *ackRun) reason(i int, at format.Offset) []byte {
	for k := i; k < len(r.cmd.Runs); k++ {
		run := &r.cmd.Runs[k]
		if run.First <= at && at < run.First+format.Offset(run.Count) && len(run.Reason) > 0 {
			return run.Reason
		}
	}
	for k := range r.cmd.Runs {
		if len(r.cmd.Runs[k].Reason) > 0 {
			return r.cmd.Runs[k].Reason
		}
	}
	return []byte(defaultReason)
}

// release ends the lease, if one is in force, leaves a receipt, and lets the partition be claimed
// again: at once, or after a back-off.
func (r *ackRun) release(delay format.Mono) {
	m := r.m
	l := m.leases.Touch(r.lh)
	if r.live {
		rc := receipt{
			id: l.id, part: r.cmd.Partition, sum: runSum(r.g, r.cmd), before: r.res.Before, after: r.res.After, end: r.end,
			until: m.t + receiptMicros, filed: uint32(r.res.FiledEnd - r.res.FiledFirst),
		}
		if r.res.Dropped {
			rc.flags = receiptDropped
		}
		m.addReceipt(rc)
		r.res.Released = true
	}
	m.endLease(r.lh)
	l.notBefore, l.delivered = 0, 0
	if delay > 0 && m.t+delay > m.t {
		l.notBefore = m.t + delay
		m.dequeue(r.g, r.ch)
	} else {
		r.unqueue()
	}
	m.settle(r.g, r.ch)
	m.tidy(r.lh)
}
