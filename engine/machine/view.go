package machine

import (
	"queen/engine/format"
)

// Group is a consumer group's registration on one queue.
type Group struct {
	ID       format.ConsumerID
	Queue    format.QueueID
	Name     string
	Start    format.StartKind
	From     format.Wall
	At       format.Place // R: what StartNew counts from
	Created  format.Wall
	Conflate bool
	Consumed bool // it ever moved a cursor
	// Undecided says that a commit of positions made it: the first pop decides where it starts, Start is what counts
	// until then.
	Undecided bool
	// Generation is what evidence about missing cursors has to name.
	Generation uint32
	Cursors    uint64
	Leases     uint64
	Queued     uint32 // partitions in its FIFO
	Unread     uint64 // journal events it has not looked at
	Sweeping   bool   // it walks the partition list
}

func (m *Machine) groupView(g *group) Group {
	q := g.queue
	return Group{
		ID: format.ConsumerID(g.id), Queue: format.QueueID(q.id), Name: g.name, Start: g.start, From: g.from, At: g.at,
		Created: g.createdW, Conflate: g.conflate, Consumed: g.consumed, Generation: g.startGen, Cursors: g.cursors,
		Undecided: g.undecided, Leases: g.leases, Queued: g.fifoLen, Unread: q.journal.End() - g.scan,
		Sweeping: g.circle.on || g.scan < q.journal.Start(),
	}
}

// GroupByName finds a registration.
func (m *Machine) GroupByName(queue format.QueueID, name string) (Group, bool) {
	if q := m.liveQueue(queue); q != nil {
		if g := q.groups[name]; g != nil {
			return m.groupView(g), true
		}
	}
	return Group{}, false
}

// GroupByID finds a registration.
func (m *Machine) GroupByID(id format.ConsumerID) (Group, bool) {
	if id <= maxCatalog {
		if g := m.groups[uint32(id)]; g != nil {
			return m.groupView(g), true
		}
	}
	return Group{}, false
}

// Groups lists the registrations on a queue, in order of creation.
func (m *Machine) Groups(queue format.QueueID) []Group {
	q := m.liveQueue(queue)
	if q == nil {
		return nil
	}
	rows := make([]Group, 0, len(q.order))
	for _, g := range q.order {
		rows = append(rows, m.groupView(g))
	}
	return rows
}

// Cursor is how far a consumer group got on a partition, and who has it now.
type Cursor struct {
	// Known is false when the cursor is missing and NeedEvidence, which means that only the log knows
	// where it starts; Next is 0 then.
	Known        bool
	NeedEvidence bool
	// Exists says that something was claimed or sought; else Next is where the registration starts.
	Exists bool
	Next   format.Offset
	Queued bool
	// NotBefore is the end of a back-off on T, 0 for none.
	NotBefore format.Mono
	// Retries are failures charged against the budget.
	Retries uint32
	// Attempts counts how often what is at the cursor was handed out.
	Attempts uint32
	Lease    Lease // zero when no lease is in force
}

// Lease is possession of one partition.
type Lease struct {
	ID         format.UUID
	Queue      format.QueueID
	Partition  format.PartitionID
	Group      format.ConsumerID
	GroupName  string
	Worker     string
	First, End format.Offset
	// Next is one past what was acked of the range.
	Next    format.Offset
	Attempt uint32
	Expiry  format.Mono
}

// CursorOf reads the cursor of a consumer group on a partition; false when either is unknown.
func (m *Machine) CursorOf(part format.PartitionID, id format.ConsumerID) (Cursor, bool) {
	ph, p := m.partByID(part)
	if p == nil || id > maxCatalog {
		return Cursor{}, false
	}
	g := m.groups[uint32(id)]
	if g == nil || g.queue.id != p.queue {
		return Cursor{}, false
	}
	ch, live := m.cursorOf(ph, g)
	if !live {
		at, how := startOf(g, p, -1, nil)
		return Cursor{Known: how == byState, NeedEvidence: how == byNobody, Next: max(at, m.logStart(p))}, true
	}
	c := m.cursors.Get(ch)
	v := Cursor{Known: true, Exists: !c.unused(), Next: max(c.next, m.logStart(p)), Queued: c.flags&cursorQueued != 0}
	if c.lease != 0 {
		l := m.leases.Get(c.lease)
		v.Retries, v.Attempts = l.retries, l.attempts
		if l.notBefore > m.t {
			v.NotBefore = l.notBefore
		}
		if l.live(m.t) {
			v.Lease = m.leaseView(c.lease)
		}
	}
	return v, true
}

func (m *Machine) leaseView(lh handle) Lease {
	l := m.leases.Get(lh)
	c := m.cursors.Get(l.cursor)
	p := m.parts.Get(c.part)
	v := Lease{
		ID: l.id, Queue: format.QueueID(p.queue), Partition: p.id, Group: format.ConsumerID(c.group), First: l.first,
		End: l.end, Next: c.next, Attempt: max(l.attempts, 1), Expiry: l.expiry,
	}
	if g := m.groups[c.group]; g != nil {
		v.GroupName = g.name
	}
	if l.worker != 0 {
		v.Worker = string(m.names.Get(l.worker))
	}
	return v
}

// LeaseByID lists the partitions that a lease holds now, in order of claim; none when it is unknown,
// over or another tenant's (S-lease-4).
func (m *Machine) LeaseByID(t format.Tenant, id format.UUID) []Lease {
	var rows []Lease
	for lh := m.leaseChain(&id); lh != 0; lh = m.leases.Get(lh).chain {
		if m.held(lh) {
			v := m.leaseView(lh)
			if m.queues[uint32(v.Queue)].tenant == t {
				rows = append(rows, v)
			}
		}
	}
	return rows
}

// Leases lists live leases with a handle above after, of a tenant, looking at no more than look
// records; next is where to go on, 0 at the end. The order is that of records.
func (m *Machine) Leases(t format.Tenant, after uint32, limit, look int) (rows []Lease, next uint32) {
	for h := m.leases.Next(handle(after)); h != 0; h = m.leases.Next(h) {
		if len(rows) == limit || look == 0 {
			return rows, next
		}
		look--
		if next = uint32(h); m.held(h) {
			if v := m.leaseView(h); m.queues[uint32(v.Queue)].tenant == t {
				rows = append(rows, v)
			}
		}
	}
	return rows, 0
}

// DeadLetter is the head of a dead letter; its reason is in the keyed store under its id.
type DeadLetter struct {
	ID        format.DeadLetterID
	Queue     format.QueueID
	Partition format.PartitionID
	Offset    format.Offset
	Group     string
	Retries   uint32
	FailedAt  format.Wall
}

// OfTimer says that a timer could not fire: the message is in the keyed row, and Offset is none.
func (d *DeadLetter) OfTimer() bool { return d.Offset >= format.TimerOffset }

func (m *Machine) deadView(h handle) DeadLetter {
	d := m.dead.Get(h)
	v := DeadLetter{
		ID: d.id, Queue: format.QueueID(d.queue), Partition: d.part, Offset: d.offset, Retries: d.retries, FailedAt: d.at,
	}
	if d.group != 0 {
		v.Group = string(m.names.Get(d.group))
	}
	return v
}

// DeadLetters walks the dead letters of a queue, newest first (S-dlq-21), until yield answers false.
func (m *Machine) DeadLetters(queue format.QueueID, yield func(DeadLetter) bool) {
	q := m.liveQueue(queue)
	if q == nil {
		return
	}
	for h := q.deadNewest; h != 0; h = m.dead.Get(h).older {
		if !yield(m.deadView(h)) {
			return
		}
	}
}

// DeadLettersFrom yields those of a queue that were filed after the one named, oldest first; all of them when
// there is no such one.
func (m *Machine) DeadLettersFrom(queue format.QueueID, after format.DeadLetterID, yield func(DeadLetter) bool) {
	q := m.liveQueue(queue)
	if q == nil {
		return
	}
	h := q.deadOldest
	if last := m.deadWithID(after); last != 0 && m.dead.Get(last).queue == q.id {
		h = m.dead.Get(last).newer
	}
	for ; h != 0; h = m.dead.Get(h).newer {
		if !yield(m.deadView(h)) {
			return
		}
	}
}

// DeadLetterByID finds a dead letter of a tenant's live queues.
func (m *Machine) DeadLetterByID(t format.Tenant, id format.DeadLetterID) (DeadLetter, bool) {
	h := m.deadWithID(id)
	if h == 0 {
		return DeadLetter{}, false
	}
	if q := m.queues[m.dead.Get(h).queue]; q.dead || q.tenant != t {
		return DeadLetter{}, false
	}
	return m.deadView(h), true
}

// DeadLettersAt lists the dead letters of a partition with offsets in [from, to), in order of offset and
// then of filing: what pins messages, and what an address names. At most limit.
func (m *Machine) DeadLettersAt(part format.PartitionID, from, to format.Offset, limit int) []DeadLetter {
	var rows []DeadLetter
	m.deadByAddr.AscendGreaterOrEqual(deadAddr{part: part, offset: from}, func(a deadAddr) bool {
		if a.part != part || a.offset >= to || len(rows) == limit {
			return false
		}
		rows = append(rows, m.deadView(a.h))
		return true
	})
	return rows
}
