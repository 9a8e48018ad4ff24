package machine

import (
	"slices"

	"queen/engine/format"
)

// group is a catalogue row: one consumer group registered on one queue, how far it read the journal,
// its FIFO of partitions claimable for it alone, and its sweep of the partition list.
type group struct {
	id       uint32
	queue    *queue
	name     string
	start    format.StartKind
	from     format.Wall
	at       format.Place // R: messages whose place is after it are new
	atW      format.Wall
	createdW format.Wall
	conflate bool
	consumed bool
	// forgot says that a cursor was taken away since R: a push event does not tell any more where new messages
	// begin.
	forgot bool
	// sought says that a seek of the whole queue placed the group: it stands in every partition, with or without a
	// cursor.
	sought bool
	// undecided says that a commit of positions made the group and that nobody has said yet where it starts: until
	// somebody does a partition without a position counts as one of a group that starts at new.
	undecided bool

	gen      uint32 // of cursors: a reset makes older ones count as missing
	startGen uint32 // of evidence about where a missing cursor starts

	scan               uint64 // next journal position to look at
	fifoHead, fifoTail handle
	fifoLen            uint32

	circle circle

	cursors, leases uint64
	dirt            dirt
}

// circle is a walk over the whole partition list in order of id, once around from where the last one
// ended. It stands in for journal events that were dropped or never written.
type circle struct {
	on      bool
	wrapped bool
	stamp   uint64             // journal position at which the circle began
	from    format.PartitionID // the circle ends when it comes back here
	at      format.PartitionID // last partition visited
	handle  handle             // its row, 0: before the first
	visited uint64
}

// passed says whether the walk has been at a partition, or will not come by any more.
func (c *circle) passed(id format.PartitionID) bool {
	switch {
	case !c.on:
		return true
	case c.wrapped:
		return id > c.from || id <= c.at
	default:
		return id > c.from && id <= c.at
	}
}

// groupBy finds a consumer group's registration on a queue.
func (q *queue) groupBy(name []byte) *group { return q.groups[string(name)] }

// ensureGroup finds a registration or makes one (S-sub-1), which conflates for ever or never (S-con-1); queue
// mode never does. Who says no start (kind 0) leaves it to the first who does. nil means that a bound is reached.
func (m *Machine) ensureGroup(q *queue, name []byte, kind format.StartKind, from format.Wall, conflate bool) (g *group, created bool) {
	if g = q.groupBy(name); g != nil {
		if g.undecided && kind != 0 {
			m.decide(g, kind, from)
		}
		return g, false
	}
	if m.header.groups == maxCatalog || format.TenantNameBytes+len(q.name)+len(name) > format.NameBudget {
		return nil, false
	}
	m.header.groups++
	g = &group{id: m.header.groups, queue: q, name: string(name), createdW: m.w, gen: 1, startGen: 1}
	g.conflate = conflate && g.name != format.QueueMode
	m.addGroup(g)
	switch {
	case g.name == format.QueueMode:
		kind, from = format.StartAll, 0 // S-sub-6
	case kind == 0:
		kind, g.undecided = format.StartNew, true
	}
	m.begin(g, kind, from)
	m.groupsChanged(q)
	return g, true
}

func (m *Machine) addGroup(g *group) {
	q := g.queue
	m.groups[g.id] = g
	q.groups[g.name] = g
	i, _ := slices.BinarySearchFunc(q.order, g.id, func(o *group, id uint32) int { return int(int64(o.id) - int64(id)) })
	q.order = slices.Insert(q.order, i, g)
}

// dropGroup forgets a registration; its rows are left to a sweep.
func (m *Machine) dropGroup(g *group) {
	q := g.queue
	delete(m.groups, g.id)
	delete(q.groups, g.name)
	if i := slices.Index(q.order, g); i >= 0 {
		q.order = slices.Delete(q.order, i, i+1)
	}
	m.soilGroup(g)
}

// begin sets where missing cursors start, as of now: inside a transaction, whose appends are applied first, after
// all of it. `new` reads the journal from its end; every other kind has to see what is there already and walks the
// partition list.
func (m *Machine) begin(g *group, kind format.StartKind, from format.Wall) {
	q := g.queue
	g.start, g.from, g.at, g.atW, g.forgot = kind, from, m.place, m.w, false
	g.at.Ordinal = max(g.at.Ordinal, m.txnLast)
	g.scan = q.journal.End()
	q.read = max(q.read, g.scan)
	g.circle.on = false
	if kind != format.StartNew {
		m.startCircle(g)
	}
	m.soilGroup(g)
	m.soilQueue(q)
}

// decide sets where a group starts that a commit of positions made; its positions stay. The circle shows it what is
// claimable at them as well, since begin leaves out what is in the journal.
func (m *Machine) decide(g *group, kind format.StartKind, from format.Wall) {
	g.undecided = false
	g.startGen = min(g.startGen+1, maxStartGen)
	m.begin(g, kind, from)
	if !g.circle.on {
		m.startCircle(g)
	}
	m.groupsChanged(g.queue)
	m.touchGroup(g)
}

// groupsChanged makes evidence about completed retention stale.
func (m *Machine) groupsChanged(q *queue) {
	q.groupGen++
	m.soilQueue(q)
}

// startCircle begins a full circle where the last one stopped.
func (m *Machine) startCircle(g *group) {
	c := &g.circle
	c.on, c.wrapped, c.visited = true, false, 0
	c.stamp, c.from = g.queue.journal.End(), c.at
	m.soilGroup(g)
}

// circleNext returns the next partition of the circle, 0 when it has come around.
func (m *Machine) circleNext(g *group) handle {
	c := &g.circle
	h := g.queue.first
	if c.handle != 0 {
		h = m.parts.Get(c.handle).succ
	}
	if h == 0 && !c.wrapped {
		c.wrapped, c.at, c.handle = true, 0, 0
		h = g.queue.first
	}
	if h == 0 || c.wrapped && m.parts.Get(h).id > c.from {
		return 0
	}
	return h
}

// resetGroup makes cursors and leases of the group count as missing; a sweep frees them.
func (m *Machine) resetGroup(g *group) {
	g.gen++
	g.startGen++
	g.fifoHead, g.fifoTail, g.fifoLen = 0, 0, 0
	g.cursors, g.leases, g.consumed = 0, 0, false
	m.addTask(&task{kind: sweepGroup, queue: g.queue.id, group: g.id, gen: g.gen})
	m.soilGroup(g)
}

// known says how the start of a missing cursor is known.
type known uint8

const (
	byState    known = iota // from the registration and the partition's row
	byEvidence              // from the command
	byNobody                // only the log knows
)

// startOf is where a missing cursor of g on p begins. pushed is the offset of the push event that led
// here, or -1.
//
// INVARIANT: a pure function of the registration and of immutable facts about the partition, so that
// it does not matter when it is asked (TestStartIsTimeless).
func startOf(g *group, p *partRec, pushed int64, evidence []format.CursorEvidence) (format.Offset, known) {
	switch g.start {
	case format.StartAll:
		return 0, byState
	case format.StartNew:
		switch {
		case g.at.Before(p.birthPlace()):
			return 0, byState
		case p.lastW < g.atW:
			return p.next, byState
		case pushed >= 0 && !g.forgot:
			// The first event of this partition that the group sees after R: everything below the
			// event's offset was there at R, or had been looked at by the circle since.
			return format.Offset(pushed), byState
		}
	case format.StartFrom:
		switch {
		case p.bornW >= g.from:
			return 0, byState
		case p.lastW < g.from:
			return p.next, byState
		}
	}
	for i := range evidence {
		if e := &evidence[i]; e.Partition == p.id && e.Generation == g.startGen {
			return min(e.Offset, p.next), byEvidence
		}
	}
	return 0, byNobody
}
