package machine

import (
	"cmp"
	"slices"

	"queen/engine/format"
	"queen/engine/machine/slab"
)

// Queries read the state between two Applies, under a lock that excludes Apply; they may run beside
// each other. What they return is copied.

// Ready bounds from above how many partitions of a queue a consumer group could claim now, in constant
// time: unread journal events, its FIFO, and what is left of its circle (64 at most are counted of
// that). 0 says that a Pop would come back empty. A group that is not registered has nothing ready.
func (m *Machine) Ready(queue format.QueueID, id format.ConsumerID) uint32 {
	q := m.liveQueue(queue)
	if q == nil || id > maxCatalog {
		return 0
	}
	g := m.groups[uint32(id)]
	if g == nil || g.queue != q {
		return 0
	}
	return m.ready(g)
}

// circleReady bounds what a circle adds to Ready: most of what it visits has nothing new.
const circleReady = 64

func (m *Machine) ready(g *group) uint32 {
	q := g.queue
	n := q.journal.End() - g.scan + uint64(g.fifoLen)
	left := uint64(0)
	if g.scan < q.journal.Start() {
		n, left = uint64(g.fifoLen), q.parts
	} else if g.circle.on {
		left = max(q.parts, g.circle.visited+1) - g.circle.visited
	}
	return uint32(min(n+min(left, circleReady), 1<<32-1))
}

// ReadyPinned says whether a Pop pinned to a partition could claim something, or would have to ask for
// evidence. A group without a registration has to pop once to get one.
func (m *Machine) ReadyPinned(part format.PartitionID, id format.ConsumerID) bool {
	ph, p := m.partByID(part)
	if p == nil || id > maxCatalog {
		return false
	}
	q, g := m.queues[p.queue], m.groups[uint32(id)]
	if g == nil || g.queue != q || emptied(q, p) || m.logStart(p) >= p.next {
		return false
	}
	if m.unjudged(q, ph) {
		return true // a Pop makes the state look
	}
	ch, live := m.cursorOf(ph, g)
	if live {
		c := m.cursors.Get(ch)
		return !m.heldBack(c) && m.claimable(q, c)
	}
	at, how := startOf(g, p, -1, nil)
	return how == byNobody || max(at, m.logStart(p)) < m.visible(q, ph)
}

// NextDue says when the next entry is due for its stamps alone: the earliest lease or back-off on T, the
// earliest hold on W; 0 where there is none. Partitions that wait for a Reveal are
// not among them: see DueReveals.
func (m *Machine) NextDue() (t format.Mono, w format.Wall) {
	if due, ok := m.timers.Next(); ok {
		t = format.Mono(max(due, 1))
	}
	if due, ok := m.holds.Next(); ok {
		w = format.Wall(max(due, 1))
	}
	return t, w
}

// RevealDue is a partition of which only the log knows how far it is visible: the leader finds the
// first message with createdAt > W - Delay at or after Visible and proposes a Reveal.
type RevealDue struct {
	Queue      format.QueueID
	Partition  format.PartitionID
	Visible    format.Offset
	End        format.Offset
	Delay      format.Wall
	Generation uint32
	NewestRow  uint64
}

// DueReveals appends at most limit of them to dst, longest waiting first.
func (m *Machine) DueReveals(dst []RevealDue, limit int) []RevealDue {
	m.asks.Ascend(func(k askKey) bool {
		if limit == 0 {
			return false
		}
		limit--
		s := m.sides.Get(k.side)
		p := m.parts.Get(s.part)
		q := m.queues[p.queue]
		if q.dead {
			return true
		}
		dst = append(dst, RevealDue{
			Queue: format.QueueID(q.id), Partition: p.id, Visible: s.visible, End: p.next, Delay: q.delay(),
			Generation: q.optGen, NewestRow: p.row,
		})
		return true
	})
	return dst
}

// Pending is work that the leader proposes on its own account.
type Pending struct {
	// Tasks are deletions and re-judgements that Sweep commands have to finish.
	Tasks int
	// Reveals counts partitions that DueReveals lists.
	Reveals int
}

// Pending counts upkeep to propose, in constant time.
func (m *Machine) Pending() Pending { return Pending{Tasks: len(m.tasks), Reveals: m.asks.Len()} }

// Rows counts the frames stored, of all times, in constant time.
func (m *Machine) Rows() uint64 { return m.header.rows }

// Counters sum up the state.
type Counters struct {
	Queues, Partitions, Groups, Cursors uint64
	LiveLeases, LeaseRecords            uint64
	DeadLetters                         uint64
	RecentIDs                           uint64
	Rows                                uint64 // frames stored, of all times
	AdminRows                           uint64
	// Keys counts KV rows and permits, Timers pending timers, Onces idempotency rows; expired ones that are not
	// freed yet included.
	Keys, Timers, Onces uint64
	// Bytes is the memory of rows, names and indexes.
	Bytes int64
}

// Counters counts in time proportional to the chunks of the slabs: for metrics, not for every entry.
func (m *Machine) Counters() Counters {
	return Counters{
		Queues: uint64(len(m.byName)), Partitions: uint64(m.parts.Len()), Groups: uint64(len(m.groups)),
		Cursors: uint64(m.cursors.Len()), LiveLeases: m.liveLeases, LeaseRecords: uint64(m.leases.Len()),
		DeadLetters: uint64(m.dead.Len()), RecentIDs: uint64(m.ids.Len()), Rows: m.header.rows,
		AdminRows: uint64(len(m.admins.byID)),
		Keys:      m.keySums[FamilyKV].rows, Timers: m.keySums[FamilyTimer].rows, Onces: m.keySums[FamilyOnce].rows,
		Bytes: m.parts.Bytes() + m.sides.Bytes() + m.cursors.Bytes() + m.leases.Bytes() + m.dead.Bytes() +
			m.kafka.seqs.Bytes() + m.kafka.aborts.Bytes() + m.names.Bytes() + m.nameIndex.Bytes() + m.idIndex.Bytes() + m.cursorIndex.Bytes() +
			m.keys.Bytes() + m.keyIndex.Bytes() + m.keyDue.Bytes() + timerBytes*int64(m.timerDue.Len()) +
			m.leaseIndex.Bytes() + m.receiptIndex.Bytes() + m.receipts.Bytes() + m.timers.Bytes() + m.holds.Bytes() + m.ids.Bytes() +
			int64(m.admins.bytes[0]+m.admins.bytes[1]),
	}
}

// Applied is the index of the newest entry applied, refused ones included.
func (m *Machine) Applied() format.Index { return m.applied }

// Epoch is the term of the newest Term applied.
func (m *Machine) Epoch() format.Term { return m.epoch }

// Fuse is the newest fuse number applied under Epoch.
func (m *Machine) Fuse() uint64 { return m.fuse }

// T is the possession clock as of the newest entry.
func (m *Machine) T() format.Mono { return m.t }

// W is the calendar clock as of the newest entry.
func (m *Machine) W() format.Wall { return m.w }

// Born says that the Genesis was applied.
func (m *Machine) Born() bool { return m.born }

// Genesis is what the raft group was created with; zero before.
func (m *Machine) Genesis() format.Genesis { return m.genesis }

// Marks is the number of the newest Mark and the index of its entry; zeros before the first.
func (m *Machine) Marks() (number uint64, at format.Index) { return m.marks, m.markAt }

// EvidenceFrom is the newest chunk of which evidence has to speak: an Append with ids needs ClearTo at
// or above it once it is not 0 (older ids are not resident).
func (m *Machine) EvidenceFrom() uint64 { return m.marks - min(m.marks, chunksKept) }

// RecentID finds the newest message of a caller's id among the resident chunks.
func (m *Machine) RecentID(part format.PartitionID, hash format.IDHash) (format.DupResult, bool) {
	id, ok := m.ids.Find(uint64(part), hash)
	return format.DupResult{
		Offset: format.Offset(id.Offset), W: format.Wall(id.W),
		Place: format.Place{Index: format.Index(id.Index), Ordinal: format.Ordinal(id.Ordinal)},
	}, ok
}

// ResidentIDs are the ids of one closed chunk that are resident.
type ResidentIDs struct {
	Mark   uint64
	Rows   int
	Newest format.Wall // of its rows
}

// ResidentIDs lists the closed chunks, oldest first.
func (m *Machine) ResidentIDs() []ResidentIDs {
	var all []ResidentIDs
	for _, c := range m.ids.Closed() {
		all = append(all, ResidentIDs{c.Mark(), c.Len(), format.Wall(c.Newest())})
	}
	return all
}

// ForgetIDs drops resident ids of closed chunks, the oldest first, that lie outside every queue's window at the
// state's own W, so that no verdict of this entry or a later one can ask for them: an enlarged window does not
// reach behind W less the old one. unwanted says whether acks can do without a chunk as well. It writes no
// state, and is called by whoever applies. It returns the number of rows dropped.
//
// INVARIANT: outcomes do not depend on it (TestRandom).
func (m *Machine) ForgetIDs(unwanted func(c ResidentIDs) bool) int {
	over := m.w - m.LongestWindow()
	return m.ids.Forget(func(c *slab.IDChunk) bool {
		newest := format.Wall(c.Newest())
		return newest < over && unwanted(ResidentIDs{c.Mark(), c.Len(), newest})
	})
}

// Leased reports that a lease is possessed by somebody.
func (m *Machine) Leased(id format.UUID) bool { return m.leaseChain(&id) != 0 }

// Queue is a queue as the catalogue has it.
type Queue struct {
	ID      format.QueueID
	Tenant  format.Tenant
	Name    string
	Options format.QueueOptions
	Created format.Wall
	// Implicit queues were made by a pop and never pushed to or configured.
	Implicit              bool
	Partitions            uint64
	Groups                int
	DeadLetters           uint64
	Cutoff                format.Wall // messages created before are gone
	OptionGen, GroupGen   uint32      // what evidence has to name
	Expiry                format.Wall // shortest retention in force, 0 none: Retain to W - Expiry
	CompletedRetention    format.Wall // 0 when off
	JournalLen, JournalAt uint64      // events held, and the next position
	// Width is one more than the highest decimal name that a partition ever had, Unnumbered counts partitions of other
	// names. Kafka says that a record batch was stored.
	Width      uint32
	Unnumbered uint64
	Kafka      bool
	// TimeAhead bounds how far timestamps of records are ahead of the W of their append.
	TimeAhead format.Wall
}

func (q *queue) view() Queue {
	v := Queue{
		Width: q.width, Unnumbered: q.hidden, Kafka: q.kafka, TimeAhead: q.ahead,
		ID: format.QueueID(q.id), Tenant: q.tenant, Name: q.name, Options: q.opts, Created: q.createdW,
		Implicit: q.implicit, Partitions: q.parts, Groups: len(q.order), DeadLetters: q.deadCount, Cutoff: q.cutoff,
		OptionGen: q.optGen, GroupGen: q.groupGen, Expiry: q.expiry(), JournalLen: q.journal.Len(),
		JournalAt: q.journal.End(),
	}
	if q.opts.RetentionEnabled {
		v.CompletedRetention = seconds(q.opts.CompletedRetentionSeconds)
	}
	return v
}

// TopicsGeneration changes whenever a queue comes, goes, is configured or gets wider, in this life of the state.
func (m *Machine) TopicsGeneration() uint64 { return m.topicsGen }

// QueueByName finds a live queue.
func (m *Machine) QueueByName(t format.Tenant, name string) (Queue, bool) {
	if q := m.byName[queueKey{t, name}]; q != nil {
		return q.view(), true
	}
	return Queue{}, false
}

// QueueByID finds a live queue.
func (m *Machine) QueueByID(id format.QueueID) (Queue, bool) {
	if q := m.liveQueue(id); q != nil {
		return q.view(), true
	}
	return Queue{}, false
}

// Topic is the id by which Kafka clients know a queue.
func (m *Machine) Topic(id format.QueueID) format.UUID {
	return format.TopicID(m.genesis.Cluster, m.group, id)
}

// QueueByTopic finds a live queue by the id Kafka clients know it by.
func (m *Machine) QueueByTopic(t format.Tenant, topic format.UUID) (Queue, bool) {
	if id, ok := format.TopicQueue(m.genesis.Cluster, m.group, topic); ok {
		if q := m.liveQueue(id); q != nil && q.tenant == t {
			return q.view(), true
		}
	}
	return Queue{}, false
}

// Queues lists at most limit queues of a tenant with ids above after, in order of creation. all lists
// those of every tenant.
func (m *Machine) Queues(t format.Tenant, all bool, after format.QueueID, limit int) []Queue {
	var rows []Queue
	i, _ := slices.BinarySearchFunc(m.queueIDs, after+1, func(id uint32, at format.QueueID) int {
		return cmp.Compare(format.QueueID(id), at)
	})
	for ; i < len(m.queueIDs) && len(rows) < limit; i++ {
		if q := m.queues[m.queueIDs[i]]; !q.dead && (all || q.tenant == t) {
			rows = append(rows, q.view())
		}
	}
	return rows
}

// Partition is a partition as the state has it. Log start is the larger of Trim and what Cutoff says of
// frames, which only the log can answer.
type Partition struct {
	ID          format.PartitionID
	Queue       format.QueueID
	Name        string
	Next        format.Offset // the next offset to assign
	Trim        format.Offset // explicit log start
	Cutoff      format.Wall   // the queue's: frames created before are gone
	Visible     format.Offset // deliverable now below it
	Stable      format.Offset // decided below it: what lies above waits for the end of a transaction
	Hidden      bool          // some messages are not deliverable yet
	Empty       bool          // time retention took every message
	Birth       format.Place
	Created     format.Wall
	LastAppend  format.Wall
	NewestRow   uint64 // 0 when nothing was stored
	DeadLetters bool
}

func (m *Machine) partView(h handle) Partition {
	v := m.unnamed(h)
	v.Name = string(m.names.Get(m.parts.Get(h).name))
	return v
}

func (m *Machine) unnamed(h handle) Partition {
	p := m.parts.Get(h)
	q := m.queues[p.queue]
	visible := m.visible(q, h)
	return Partition{
		ID: p.id, Queue: format.QueueID(p.queue), Next: p.next,
		Trim: m.logStart(p), Cutoff: q.cutoff, Visible: visible, Hidden: visible < p.next, Stable: m.stable(h), Empty: emptied(q, p),
		Birth: p.birthPlace(), Created: p.bornW, LastAppend: p.lastW, NewestRow: p.row,
		DeadLetters: m.firstDeadOf(p.id) != 0,
	}
}

// PartitionByName finds a partition of a live queue.
func (m *Machine) PartitionByName(t format.Tenant, queue, name string) (Partition, bool) {
	if q := m.byName[queueKey{t, queue}]; q != nil {
		if h := m.partByName(q, []byte(name)); h != 0 {
			return m.partView(h), true
		}
	}
	return Partition{}, false
}

// PartitionIn is PartitionByName for a queue that was found, without the name, so that nothing is allocated.
func (m *Machine) PartitionIn(queue format.QueueID, name []byte) (Partition, bool) {
	if q := m.liveQueue(queue); q != nil {
		if h := m.partByName(q, name); h != 0 {
			return m.unnamed(h), true
		}
	}
	return Partition{}, false
}

// Bounds are the explicit log start and the end of a partition of the tenant's live queues.
func (m *Machine) Bounds(t format.Tenant, id format.PartitionID) (start, end format.Offset, ok bool) {
	_, p := m.partByID(id)
	if p == nil || m.queues[p.queue].tenant != t {
		return 0, 0, false
	}
	return m.logStart(p), p.next, true
}

// PartitionByID finds a partition of the tenant's live queues; another tenant's is unknown (S-ack-23).
func (m *Machine) PartitionByID(t format.Tenant, id format.PartitionID) (Partition, bool) {
	h, p := m.partByID(id)
	if p == nil || m.queues[p.queue].tenant != t {
		return Partition{}, false
	}
	return m.partView(h), true
}

// Span is what a reader of a partition's offsets has to know of it.
type Span struct {
	QueueName string
	Name      []byte        // the machine's: to be copied before the state changes
	Trim      format.Offset // explicit log start
	Cutoff    format.Wall   // frames created before are gone
	TTL       format.Wall   // time to live, microseconds; 0 for ever
	// Counts: what is at the head is given up after so many deliveries, so that it has to be something deliverable.
	Counts bool
}

// SpanOf is PartitionByID for a reader of what a Pop claimed, who asks about many.
func (m *Machine) SpanOf(t format.Tenant, id format.PartitionID) (s Span, ok bool) {
	_, p := m.partByID(id)
	if p == nil {
		return s, false
	}
	q := m.queues[p.queue]
	if q.tenant != t {
		return s, false
	}
	return Span{QueueName: q.name, Name: m.names.Get(p.name), Trim: m.logStart(p), Cutoff: q.cutoff, TTL: q.ttl(),
		Counts: q.opts.MaxDeliveries > 0}, true
}

// Partitions lists partitions of a queue with ids above after, in order of creation, that were written
// at or after since. It looks at no more than look of them and returns at most limit; next is where to
// go on, 0 at the end.
func (m *Machine) Partitions(queue format.QueueID, after format.PartitionID, since format.Wall,
	limit, look int,
) (rows []Partition, next format.PartitionID) {
	q := m.liveQueue(queue)
	if q == nil {
		return nil, 0
	}
	for h := m.pageStart(q, after); h != 0; h = m.parts.Get(h).succ {
		if len(rows) == limit || look == 0 {
			return rows, next
		}
		look--
		p := m.parts.Get(h)
		if next = p.id; p.lastW >= since {
			rows = append(rows, m.partView(h))
		}
	}
	return rows, 0
}

// UnnamedPartitions appends up to limit partitions of a queue with ids above after to dst, without their names, so that
// a walk over a million of them allocates nothing. next is where to go on, 0 at the end.
func (m *Machine) UnnamedPartitions(dst []Partition, queue format.QueueID, after format.PartitionID, limit int) (rows []Partition, next format.PartitionID) {
	q := m.liveQueue(queue)
	if q == nil {
		return dst, 0
	}
	for h := m.pageStart(q, after); h != 0; h = m.parts.Get(h).succ {
		if limit == 0 {
			return dst, next
		}
		limit--
		dst, next = append(dst, m.unnamed(h)), m.parts.Get(h).id
	}
	return dst, 0
}

// pageStart finds the first partition with an id above after, also when that one is gone.
func (m *Machine) pageStart(q *queue, after format.PartitionID) handle {
	if after != 0 {
		if h, p := m.partByID(after); p != nil && p.queue == q.id {
			return m.parts.Get(h).succ
		}
	}
	h := q.first
	for h != 0 && m.parts.Get(h).id <= after {
		h = m.parts.Get(h).succ
	}
	return h
}
