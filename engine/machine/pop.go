package machine

import (
	"queen/engine/format"
)

// lookLimit bounds the events, FIFO entries and partitions that one Pop looks at.
const lookLimit = 4096

// partitionsMax bounds the partitions one Pop claims (S-pop-6); for claimsAtOnce of them memory is taken with the first.
const (
	partitionsMax = 64
	claimsAtOnce  = 16
)

// popRun is one Pop being applied.
type popRun struct {
	m     *Machine
	cmd   *format.Pop
	res   *format.PopResult
	batch uint64 // messages left
	parts uint32 // partitions left
	looks int
	lease format.UUID
	tail  handle // last record of the lease's chain
	need  bool
}

// applyPop claims for one consumer group (S-pop-1 to 18, S-lease-1 to 7, S-amo-1). It registers the
// group where it is new, creating the queue when absent (S-id-13, S-sub-1).
func (m *Machine) applyPop(c *format.Pop, res *format.PopResult) format.Code {
	if len(c.Queues) == 0 || c.Start == 0 {
		return format.CodeMalformed
	}
	if m.evidenceStale(c) {
		return format.CodeStaleEvidence
	}
	for _, name := range c.Queues {
		q, _ := m.ensureQueue(c.Tenant, name, byPop)
		if q == nil {
			return format.CodeLimit
		}
		g, created := m.ensureGroup(q, c.Group, c.Start, c.From, c.Conflate)
		if g == nil {
			return format.CodeLimit
		}
		res.Conflate = res.Conflate || g.conflate
		res.Conflict = res.Conflict || g.conflate != c.Conflate
		if created {
			m.touchGroup(g)
		}
	}
	r := popRun{m: m, cmd: c, res: res, batch: uint64(c.Batch), parts: min(max(c.Partitions, 1), partitionsMax)}
	if !c.Commit {
		r.lease = format.LeaseID(m.genesis.IDMask, m.group, m.w, m.place)
	}
	for _, name := range c.Queues {
		q := m.queueBy(c.Tenant, name)
		if g := q.groupBy(c.Group); c.Pinned {
			r.pinned(g)
		} else {
			r.serve(g)
		}
		if r.full() || r.need || r.res.Again {
			break
		}
	}
	if len(res.Claims) > 0 && !c.Commit {
		res.Lease = r.lease
	}
	if r.need {
		return format.CodeNeedEvidence
	}
	return format.CodeOK
}

// evidenceStale says that some evidence was looked up under another registration, or before retention went
// on.
func (m *Machine) evidenceStale(c *format.Pop) bool {
	for i := range c.Evidence {
		e := &c.Evidence[i]
		_, p := m.partByID(e.Partition)
		if p == nil {
			continue // gone: nobody will ask for it
		}
		q := m.queues[p.queue]
		g := q.groupBy(c.Group)
		if q.tenant != c.Tenant || g == nil || e.Generation != g.startGen && e.Generation != q.startGeneration() {
			return true
		}
	}
	return false
}

func (r *popRun) full() bool { return r.batch == 0 || r.parts == 0 }

// pinned looks at one partition only (S-pop-8).
func (r *popRun) pinned(g *group) {
	ph := r.m.partByName(g.queue, r.cmd.Partition)
	if ph == 0 || r.full() {
		return
	}
	r.try(g, ph, attempt{pushed: -1, stamp: g.queue.journal.End()})
}

// serve claims what has been claimable longest: the head of the FIFO, the circle, or the journal,
// whichever is older (S-pop-10).
func (r *popRun) serve(g *group) {
	m, q := r.m, g.queue
	m.catchUp(g)
	for !r.full() && !r.need {
		if r.looks == m.lookLimit {
			r.res.Again = m.ready(g) > 0
			return
		}
		r.looks++
		switch {
		case g.fifoLen > 0 && m.cursors.Get(g.fifoHead).stamp <= g.front():
			r.fromFIFO(g)
		case g.circle.on:
			r.fromCircle(g)
		case g.scan < q.journal.End():
			r.fromJournal(g)
		default:
			return
		}
	}
}

// front is the journal position that stands for what the group would look at next beside its FIFO.
func (g *group) front() uint64 {
	if g.circle.on {
		return g.circle.stamp
	}
	return g.scan
}

func (r *popRun) fromFIFO(g *group) {
	m := r.m
	h := g.fifoHead
	c := m.cursors.Get(h)
	stamp := c.stamp
	m.dequeue(g, h)
	r.try(g, c.part, attempt{pushed: -1, stamp: stamp})
	if r.need {
		m.enqueueAgain(g, h, stamp)
	}
}

// fromCircle visits the next partition of the list. It stays in front of one that needs evidence.
func (r *popRun) fromCircle(g *group) {
	m := r.m
	h := m.circleNext(g)
	if h == 0 {
		g.circle.on = false
		m.soilGroup(g)
		return
	}
	id := m.parts.Get(h).id
	r.try(g, h, attempt{pushed: -1, stamp: g.circle.stamp})
	if !r.need {
		g.circle.at, g.circle.handle = id, h
		g.circle.visited++
	}
	m.soilGroup(g)
}

// fromJournal looks at the next event. It stays in front of one that needs evidence.
func (r *popRun) fromJournal(g *group) {
	m := r.m
	ev := *g.queue.journal.At(g.scan)
	if ph, p := m.partByID(ev.part); p != nil && g.circle.passed(ev.part) {
		pushed := int64(-1)
		if ev.pushed() {
			pushed = int64(ev.offset())
		}
		r.try(g, ph, attempt{pushed: pushed, stamp: g.scan})
	}
	if !r.need {
		m.scanTo(g, g.scan+1)
	}
}

// attempt says how a Pop came to look at a partition.
type attempt struct {
	pushed int64  // offset of the push event that led here, -1 for none
	stamp  uint64 // since when it is claimable, as a journal position
}

// try claims what it can of one partition. It sets need when a missing cursor needs evidence.
func (r *popRun) try(g *group, ph handle, a attempt) {
	m, q := r.m, g.queue
	p := m.parts.Get(ph)
	ch, live := m.cursorOf(ph, g)
	var next format.Offset
	if live {
		c := m.cursors.Get(ch)
		if c.flags&cursorQueued != 0 {
			if !r.cmd.Pinned {
				return // its turn comes with the FIFO
			}
			a.stamp = c.stamp
		}
		m.lapse(g, ch)
		if m.heldBack(c) {
			return
		}
		next = c.next
	}
	m.judge(q, ph)
	if emptied(q, p) || m.logStart(p) >= p.next {
		m.seal(g, ch, live, p.next)
		return
	}
	if !live {
		var how known
		if next, how = startOf(g, p, a.pushed, r.cmd.Evidence); how == byNobody {
			r.ask(g, p)
			return
		}
		next = max(next, m.logStart(p))
		// What was looked up is kept, and so is where hidden messages begin: nobody has to ask again.
		if how == byEvidence || next < p.next {
			if ch = m.makeCursor(ph, g, next); ch == 0 {
				return
			}
			m.cursors.Touch(ch).flags |= cursorUnused | g.startGen<<cursorStartShift
		}
	}
	next = max(next, m.logStart(p))
	end := m.visible(q, ph)
	if next >= end {
		return
	}
	if live && m.spent(g, ch, next) {
		// What retention removed is not dead-lettered (S-ret-4), and only the log knows whether it has.
		start, how := r.retainedFrom(q, p)
		head := next
		if g.conflate {
			l := m.leases.Get(m.cursors.Get(ch).lease)
			head = l.seen(next, l.end) // what was handed out last time
		}
		switch {
		case how == byNobody:
			r.askStart(q, p)
			return
		case start > head:
			next = m.passOver(ch, min(start, p.next))
		default:
			next = m.fileSpent(g, ch, head)
		}
	}
	m.dequeue(g, ch)
	if next < end {
		r.claim(g, ch, next, end, a.stamp)
	}
}

// ask ends the Pop at a partition whose missing cursor only the log can answer, and names it.
func (r *popRun) ask(g *group, p *partRec) {
	r.need = true
	r.res.Need, r.res.NeedGeneration = p.id, g.startGen
	r.res.NeedStart, r.res.NeedFrom, r.res.NeedAfter = g.start, g.from, g.at
}

// askStart ends the Pop at a partition of which the log start has to be looked up.
func (r *popRun) askStart(q *queue, p *partRec) {
	r.need = true
	r.res.Need, r.res.NeedGeneration, r.res.NeedStart = p.id, q.startGeneration(), 0
}

// startEvidence is set in the generation of evidence about a log start. Generations of registrations stay
// below and fit into the flags of a cursor.
const (
	startEvidence = 1 << 31
	maxStartGen   = 1<<(32-cursorStartShift) - 1
)

// startGeneration changes with the cutoff: a log start that was looked up holds while it stands.
func (q *queue) startGeneration() uint32 { return startEvidence | uint32(q.cutoff)&(startEvidence-1) }

// retainedFrom is the first offset of a partition that retention and time to live have left, as far as it
// is known: where neither can have acted yet it is the explicit start.
func (r *popRun) retainedFrom(q *queue, p *partRec) (format.Offset, known) {
	ttl := q.ttl()
	if p.bornW >= q.cutoff && (ttl == 0 || r.m.w < p.bornW+ttl) {
		return r.m.logStart(p), byState
	}
	for i := range r.cmd.Evidence {
		if e := &r.cmd.Evidence[i]; e.Partition == p.id && e.Generation == q.startGeneration() {
			return max(e.Offset, r.m.logStart(p)), byEvidence
		}
	}
	return 0, byNobody
}

// seal moves a cursor to the end of a partition whose messages are all gone (S-pop-17). What failed
// before stays charged (S-dlq-7).
func (m *Machine) seal(g *group, ch handle, live bool, end format.Offset) {
	if !live || m.cursors.Get(ch).next >= end {
		return
	}
	m.dequeue(g, ch)
	m.passOver(ch, end)
}

// claim hands [next, end) out as far as the batch goes: under a lease, or for good. A group that conflates takes
// all of it as one message, the last (S-con-2); so an ack moves its cursor up to what it saw and no further
// (S-con-3).
func (r *popRun) claim(g *group, ch handle, next, end format.Offset, stamp uint64) {
	m := r.m
	n := min(uint64(end-next), r.batch)
	if g.conflate {
		n = 1
	} else {
		end = next + format.Offset(n)
	}
	c := m.cursors.Touch(ch)
	c.flags &= cursorQueued | cursorMetadata // in use from now on
	p := m.parts.Get(c.part)
	claim := format.Claim{
		Partition: p.id, Queue: format.QueueID(p.queue), First: next, End: end, Attempt: 1, NewestRow: p.row,
	}
	if g.conflate {
		claim.Conflated = uint64(end - next - 1)
	}
	if r.cmd.Commit {
		m.moveHead(ch, end)
		m.clearBudget(ch)
		g.consumed = true
		m.soilGroup(g)
		m.settle(g, ch)
	} else {
		c.next = next
		if claim.Attempt = r.grant(g, ch, next, end, stamp); claim.Attempt == 0 {
			return // no lease record to be had: a bound of the state is reached
		}
	}
	r.batch -= n
	r.parts--
	if r.res.Claims == nil {
		r.res.Claims = make([]format.Claim, 0, min(r.parts+1, claimsAtOnce))
	}
	r.res.Claims = append(r.res.Claims, claim)
}
