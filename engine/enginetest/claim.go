package enginetest

import (
	"slices"

	"queen/engine"
	"queen/engine/format"
)

// Defaults and bounds of a pop (S-pop-5, S-pop-6).
const (
	defaultBatch     = 200
	maxPartitions    = 64
	defaultPopBytes  = 8 << 20
	discoveryLease   = 60e6 // microseconds
	defaultReadBytes = 1 << 20
	maxReadBytes     = 8 << 20
	maxPositions     = 1024
)

// claim is one partition's share of a pop, and what is delivered of it.
type claim struct {
	g        *group
	p        *part
	from     format.Offset // the cursor, or the first deliverable offset
	to       format.Offset // one past the last
	attempt  uint32
	messages []engine.Record
}

// popped is what a pop claimed.
type popped struct {
	lease  format.UUID
	claims []claim
	chosen engine.Chosen
	// conflate and conflict are the groups' policy.
	conflate, conflict bool
}

// candidate is a partition a pop may claim.
type candidate struct {
	g     *group
	p     *part
	ready uint64
	exact bool
	fresh bool          // the group's first claim there, and of a partition that lost nothing
	upto  format.Offset // the claim ends here at the latest; 0 is no bound
}

// limits are a pop's effective budgets.
type limits struct {
	batch, partitions int
	bytes             int64
	full              bool // a message did not fit: the answer ends
	chosen            engine.Chosen
}

// checkPop refuses what no pop may ask.
func checkPop(r *engine.PopRequest) *engine.Error {
	switch {
	case r.Scope.Discovery && r.Scope.Namespace == "" && r.Scope.Task == "":
		return fail(engine.CodeBadRequest, "namespace or task is required")
	case r.Conflate && r.Group == "":
		return fail(engine.CodeBadRequest, "conflation needs a consumer group")
	case r.Conflate && r.CommitOnDelivery:
		return fail(engine.CodeBadRequest, "conflation refuses commit on delivery")
	case r.Batch < 0 || r.Lease < 0 || r.Start.Kind > format.StartFrom:
		return fail(engine.CodeBadRequest, "batch or start is out of range")
	}
	other := r.Group
	if r.Scope.Pinned && len(r.Scope.Partition) > len(other) {
		other = r.Scope.Partition
	}
	return checkNames(r.Scope.Queue, other)
}

// popQueues registers the group and names the queues a pop looks at. A queue pop on an unknown name
// creates the queue, so that `new` means "from my first pop" (S-id-13); discovery creates nothing.
func (s *state) popQueues(t format.Tenant, r *engine.PopRequest) []*queue {
	var qs []*queue
	if r.Scope.Discovery {
		for _, q := range s.queues {
			if q.tenant == t && (r.Scope.Namespace == "" || q.opts.Namespace == r.Scope.Namespace) &&
				(r.Scope.Task == "" || q.opts.Task == r.Scope.Task) {
				qs = append(qs, q)
			}
		}
	} else {
		q := s.queue(t, r.Scope.Queue)
		if q == nil {
			q = s.makeQueue(t, r.Scope.Queue, false)
		}
		qs = []*queue{q}
	}
	for _, q := range qs {
		s.register(q, groupName(r.Group), r.Start, r.Conflate)
		s.refresh(q, false)
	}
	return qs
}

// candidates lists what the pop may claim, the longest claimable first (S-pop-10).
func (s *state) candidates(qs []*queue, r *engine.PopRequest) []candidate {
	var out []candidate
	for _, q := range qs {
		g := q.group(groupName(r.Group))
		for _, p := range q.parts {
			if r.Scope.Pinned && p.name != r.Scope.Partition {
				continue
			}
			if c := g.cursor(p); c.ready != 0 {
				out = append(out, candidate{g: g, p: p, ready: c.ready, exact: c.exact, fresh: !c.touched && p.start == 0 && !p.placed})
			}
		}
	}
	slices.SortFunc(out, func(a, b candidate) int {
		if a.ready < b.ready {
			return -1
		}
		return 1
	})
	return out
}

// popLimits resolves defaults and the broker's choice (S-pop-5, 6, 15).
func popLimits(r *engine.PopRequest, ready int) limits {
	l := limits{batch: r.Batch, partitions: min(max(r.Partitions, 0), maxPartitions), bytes: r.MaxBytes}
	auto := r.Autopilot && !r.Conflate && r.Group != "" && r.Group != format.QueueMode && !r.Scope.Pinned && !r.Scope.Discovery
	if auto && (r.Batch == 0 || r.Partitions == 0) {
		if r.Partitions <= 0 {
			l.partitions = max(1, min(ready, maxPartitions))
		}
		if l.batch == 0 {
			l.batch = defaultBatch
		}
		l.chosen = engine.Chosen{Set: true, Partitions: l.partitions, Batch: l.batch}
	}
	if l.batch == 0 {
		l.batch = defaultBatch
	}
	if l.partitions == 0 && r.Conflate {
		l.partitions = min(l.batch, maxPartitions) // S-con-5
	}
	if l.partitions == 0 || r.Scope.Pinned {
		l.partitions = 1
	}
	if l.bytes <= 0 {
		l.bytes = defaultPopBytes
	}
	return l
}

// pop claims what has been claimable longest; nil when there is nothing to give.
func (s *state) pop(t format.Tenant, r *engine.PopRequest) *popped {
	qs := s.popQueues(t, r)
	cands := s.candidates(qs, r)
	l := popLimits(r, len(cands))
	s.seal(qs, r)
	return s.take(qs, cands, r, &l)
}

// seal moves the cursors a pop looks at over what retention emptied (S-pop-17). An engine whose log starts are adopted
// may have looked or not: its lists say nothing of what is gone but that it is done.
func (s *state) seal(qs []*queue, r *engine.PopRequest) {
	if s.lazyRetention {
		return
	}
	for _, q := range qs {
		g := q.group(groupName(r.Group))
		for _, p := range q.parts {
			c := g.cursor(p)
			if s.live(c) != nil || s.t < c.backoff || c.next >= p.start || p.start < p.end() || r.Scope.Pinned && p.name != r.Scope.Partition {
				continue
			}
			if c.touched {
				c.next = p.start // the budget stays (S-dlq-7)
			}
		}
	}
}

// take claims partitions in the order of cands until a budget is used up.
func (s *state) take(qs []*queue, cands []candidate, r *engine.PopRequest, l *limits) *popped {
	out := &popped{chosen: l.chosen}
	out.conflate, out.conflict = s.policy(qs, r)
	if !r.CommitOnDelivery {
		out.lease = s.mint()
	}
	for _, cand := range cands {
		if len(out.claims) == l.partitions || l.batch <= 0 || l.full {
			break
		}
		if c, ok := s.claim(cand, r, l, out.lease, len(out.claims) == 0); ok {
			out.claims = append(out.claims, c)
		}
	}
	for _, q := range qs {
		s.refresh(q, true)
	}
	if len(out.claims) == 0 {
		return nil
	}
	s.stats.Claims += uint64(len(out.claims))
	return out
}

// claim takes one partition: as much as the budgets allow, at least one message when it is the first of
// the pop. A head that was handed out maxDeliveries times is filed instead and passed.
func (s *state) claim(cand candidate, r *engine.PopRequest, l *limits, id format.UUID, first bool) (claim, bool) {
	g, p := cand.g, cand.p
	g.touch(p)
	if s.spent(g, p) {
		s.overDelivered(g, p)
	}
	from, to := s.span(g, p)
	if from == to {
		return claim{}, false
	}
	out := claim{g: g, p: p, from: from, to: from}
	first = first && len(out.messages) == 0
	if g.conflate {
		return out, s.newest(&out, to, cand.upto, r, l, id, first)
	}
	for o := from; o < to && l.batch > 0; o++ {
		if s.passes(g, p, o) {
			continue
		}
		if cand.upto != 0 && o >= cand.upto {
			break
		}
		size := int64(len(p.msgs[o].rec.Payload))
		if size > l.bytes && !(first && len(out.messages) == 0) {
			l.full = true
			break
		}
		l.bytes -= size
		l.batch--
		out.to = o + 1
		out.messages = append(out.messages, cloneRecord(p.msgs[o].rec))
		s.stats.DeliveredBytes += uint64(size)
	}
	if len(out.messages) == 0 {
		return claim{}, false
	}
	s.stats.DeliveredMessages += uint64(len(out.messages))
	s.hold(&out, r, id)
	return out, true
}

// newest claims everything up to the newest message of a partition as that one message (S-con-2).
func (s *state) newest(out *claim, to, upto format.Offset, r *engine.PopRequest, l *limits, id format.UUID, first bool) bool {
	if upto != 0 {
		to = min(to, upto)
	}
	for to > out.from && s.passes(out.g, out.p, to-1) {
		to--
	}
	if to == out.from {
		return false
	}
	rec := out.p.msgs[to-1].rec
	if size := int64(len(rec.Payload)); size > l.bytes && !first {
		l.full = true
		return false
	} else {
		l.bytes -= size
		s.stats.DeliveredBytes += uint64(size)
	}
	l.batch--
	out.to, out.messages = to, []engine.Record{cloneRecord(rec)}
	s.stats.DeliveredMessages++
	s.hold(out, r, id)
	return true
}

// policy is whether the groups of a pop conflate, and whether any of them differs from what was asked (S-con-1).
func (s *state) policy(qs []*queue, r *engine.PopRequest) (conflate, conflict bool) {
	for _, q := range qs {
		g := q.group(groupName(r.Group))
		conflate, conflict = conflate || g.conflate, conflict || g.conflate != r.Conflate
	}
	return conflate || r.Conflate && len(qs) == 0, conflict
}

// hold moves the row: a lease, or with commit on delivery the cursor itself (S-amo-1).
func (s *state) hold(out *claim, r *engine.PopRequest, id format.UUID) {
	c := out.g.touch(out.p)
	ready := c.ready
	c.ready = 0
	c.jumped = out.from > c.next || out.from == out.p.start && out.from > 0 || c.jumped && c.head == out.from
	if r.CommitOnDelivery {
		out.attempt = 1
		c.consumed += uint64(out.to - c.next)
		c.next, c.lease, c.last, c.attempts, c.retries, c.lastAck = out.to, nil, nil, 0, 0, s.w
		return
	}
	if c.attempts > 0 && c.head == out.from {
		c.attempts++
	} else {
		c.attempts, c.head = 1, out.from
	}
	out.attempt = c.attempts
	length := micros(r.Lease)
	switch {
	case length > 0:
	case r.Scope.Discovery:
		length = discoveryLease
	default:
		length = format.Mono(max(out.p.q.opts.LeaseTime, 1)) * 1e6
	}
	c.next = out.from
	c.lease = &lease{id: id, text: id.String(), first: out.from, end: out.to, expiry: s.t + length,
		attempt: c.attempts, ready: ready}
	c.last = c.lease
}

// deliveriesReason is what the dead letter of a message that maxDeliveries ended says.
const deliveriesReason = "Deliveries exhausted"

// spent says that the head was handed out as often as maxDeliveries allows.
func (s *state) spent(g *group, p *part) bool {
	from, to := s.span(g, p)
	c, limit := g.cursor(p), p.q.opts.MaxDeliveries
	return from < to && limit > 0 && c.attempts > 0 && c.head == from && int64(c.attempts) >= limit
}

// maybeSpent says that a conflating group was handed as much, but what it began with is gone meanwhile. Whether that is the
// same start is left open (S-lease-7), and so whether what it was handed last is given up.
func (s *state) maybeSpent(g *group, p *part) bool {
	from, to := s.span(g, p)
	c, limit := g.cursor(p), p.q.opts.MaxDeliveries
	if !g.conflate || from == to || limit == 0 || c.head >= from || c.head < c.next || int64(c.attempts) < limit || c.last == nil {
		return false
	}
	seen := c.last.end - 1
	return seen >= from && seen < to && !s.expired(p, seen)
}

// overDelivered files or drops such a head and passes it.
func (s *state) overDelivered(g *group, p *part) {
	c := g.cursor(p)
	head := c.head
	if g.conflate {
		head = max(head, c.last.end-1) // what was handed out last
	}
	if p.q.opts.DeadLetterQueue || p.q.opts.DLQAfterMaxRetries {
		s.file(g, p, head, deliveriesReason)
	}
	s.pass(c, head+1)
	c.attempts, c.retries = 0, 0
}
