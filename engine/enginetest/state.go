package enginetest

import (
	"encoding/binary"
	"sort"
	"strings"
	"time"

	"queen/engine"
	"queen/engine/format"
)

// state is everything the model remembers. It has no lock, no clock and no goroutine: its owner
// calls advance before each step and then the step. Maps are never ranged over in decisions; what
// needs an order is in slices.
type state struct {
	t format.Mono // possession clock: leases, back-off
	w format.Wall // calendar: createdAt, delays, windows, retention

	seq       uint64 // numbers every message, registration and readiness; "since then" in the rules
	minted    uint64 // ids made
	nextPart  uint64
	nextQueue uint64

	// lazyRetention leaves log starts to whoever adopts those of an engine.
	lazyRetention bool

	queues []*queue // in creation order
	parts  map[format.PartitionID]*part
	dead   []*deadLetter // in filing order
	keyed  keyedState
	inTxn  bool // acks are judged as parts of a transaction
	// keepsDuplicates: a known id does not refuse the transaction under way.
	keepsDuplicates bool
	stats           engine.Stats
	repeats         []int                                    // ops of the last call that repeated an earlier ack
	changed         func(engine.PartitionRef, format.Tenant) // end, start or existence of a partition; may be nil
}

func newState() *state { return &state{parts: map[format.PartitionID]*part{}} }

type queue struct {
	id      format.QueueID
	tenant  format.Tenant
	name    string
	created format.Wall
	opts    format.QueueOptions
	// declared: configure made it, which decides what the default of leaseTime is (S-cfg-2).
	declared bool
	// trims: an option that removes messages was set at some time.
	trims bool
	// dedupFloor: after the window was enlarged only originals from here on count.
	dedupFloor format.Wall
	parts      []*part // in creation order
	groups     []*group
}

type part struct {
	id        format.PartitionID
	known     bool // id is the engine's
	q         *queue
	name      string
	created   format.Wall
	lastWrite format.Wall
	msgs      []message // index is the offset; entries below start keep their id for dedup only
	start     format.Offset
	// revealed is what windowBuffer has let through: everything below it.
	revealed format.Offset
	byID     map[string][]format.Offset // caller's transactionId to offsets, rising
	// placed: a position was set there, which an engine may note as a change, ahead of what is appended later; or a timer
	// fired into it, and of those that were due at one time any may be the first.
	placed bool
}

type message struct {
	rec   engine.Record
	seq   uint64
	frame uint64 // the same for all messages of one push
	// pending: the engine stored it and has not told its id yet.
	pending bool
	only    string // the consumer group that alone is handed it; "" is every one
}

// group is a consumer group on one queue, created by its first pop or seek there.
type group struct {
	name       string
	start      engine.Start
	conflate   bool // S-con-1
	registered format.Wall
	seq        uint64 // of the registration
	cursors    map[*part]*cursor
	// walked says that the group never had to look for what was there before it was registered or moved.
	// The order of such a walk over the partitions is the engine's own, and nobody can tell when it ends.
	walked bool
	// sought says that a seek of the whole queue placed the group in every partition.
	sought bool
}

// cursor is one (partition, group).
type cursor struct {
	next     format.Offset // next to deliver
	lease    *lease
	last     *lease      // the newest lease, also when it is over
	backoff  format.Mono // nothing is claimable before this
	attempts uint32      // deliveries of the batch that starts at head
	head     format.Offset
	retries  int64
	consumed uint64
	lastAck  format.Wall
	// ready is since when (a seq) the partition is claimable, 0 while it is not; exact says that the
	// moment followed from an operation and not from time passing, a sweep or a pinned pop.
	ready   uint64
	exact   bool
	touched bool       // a claim or a seek happened: the row exists for acks and listings
	passed  int        // claims of others served while this one was claimable
	jumped  bool       // the newest claim started above the cursor, over what is gone
	memos   []*ackMemo // never changed once made
}

type lease struct {
	id         format.UUID
	text       string
	first, end format.Offset
	expiry     format.Mono
	attempt    uint32
	acked      bool   // something under it was settled: it can not be handed back any more
	ready      uint64 // the readiness it was claimed with, restored when handed back
}

type deadLetter struct {
	engine.DeadLetter
	tenant format.Tenant
	offset format.Offset
	known  bool // ID is the engine's
}

func (p *part) end() format.Offset { return format.Offset(len(p.msgs)) }

func (p *part) ref() engine.PartitionRef {
	return engine.PartitionRef{Queue: p.q.name, Partition: p.name}
}

func (s *state) tick() uint64 {
	s.seq++
	return s.seq
}

func (s *state) note(p *part) {
	if s.changed != nil {
		s.changed(p.ref(), p.q.tenant)
	}
}

// mint makes an id of UUIDv7 shape whose time is W: unique, because it counts.
func (s *state) mint() format.UUID {
	s.minted++
	var u format.UUID
	ms := uint64(s.w) / 1000
	binary.BigEndian.PutUint64(u[0:8], ms<<16)
	u[6] = 0x70
	binary.BigEndian.PutUint64(u[8:16], s.minted)
	u[8] = 0x80
	return u
}

func (s *state) queue(t format.Tenant, name string) *queue {
	for _, q := range s.queues {
		if q.tenant == t && q.name == name {
			return q
		}
	}
	return nil
}

// makeQueue creates a queue as a push, pop or seek does, with labels from its dotted name (S-id-7),
// or as configure does, with none.
func (s *state) makeQueue(t format.Tenant, name string, byConfigure bool) *queue {
	s.nextQueue++
	q := &queue{id: format.QueueID(s.nextQueue), tenant: t, name: name, created: s.w, declared: byConfigure}
	q.opts = format.DefaultOptions(byConfigure)
	if !byConfigure {
		labels := strings.SplitN(name, ".", 3)
		q.opts.Namespace = labels[0]
		if len(labels) > 1 {
			q.opts.Task = labels[1]
		}
	}
	s.queues = append(s.queues, q)
	return q
}

func (q *queue) part(name string) *part {
	for _, p := range q.parts {
		if p.name == name {
			return p
		}
	}
	return nil
}

func (s *state) makePart(q *queue, name string) *part {
	s.nextPart++
	p := &part{id: format.PartitionID(s.nextPart*64 + 1), q: q, name: name, created: s.w,
		byID: map[string][]format.Offset{}}
	q.parts = append(q.parts, p)
	s.parts[p.id] = p
	return p
}

// tenantPart finds a partition by id; another tenant's is as unknown as one that never was
// (S-ack-23).
func (s *state) tenantPart(t format.Tenant, id format.PartitionID) *part {
	if p := s.parts[id]; p != nil && p.q.tenant == t {
		return p
	}
	return nil
}

func (q *queue) group(name string) *group {
	for _, g := range q.groups {
		if g.name == name {
			return g
		}
	}
	return nil
}

func groupName(name string) string {
	if name == "" {
		return format.QueueMode
	}
	return name
}

// register stores where a group starts on a queue, once (S-sub-1). Queue mode starts at the oldest
// retained message whatever was asked (S-sub-6).
func (s *state) register(q *queue, name string, start engine.Start, conflate bool) *group {
	if g := q.group(name); g != nil {
		return g
	}
	if start.Kind == 0 {
		start.Kind = format.StartNew
	}
	if name == format.QueueMode {
		start = engine.Start{Kind: format.StartAll}
	}
	g := &group{name: name, start: start, conflate: conflate && name != format.QueueMode, registered: s.w, seq: s.tick(), cursors: map[*part]*cursor{},
		walked: start.Kind == format.StartNew}
	q.groups = append(q.groups, g)
	return g
}

// cursor is the model's row of (p, g). The row exists for the caller only once it is touched.
func (g *group) cursor(p *part) *cursor {
	c := g.cursors[p]
	if c == nil {
		c = &cursor{}
		g.cursors[p] = c
	}
	return c
}

// touch makes the row exist, at the position the registration defines.
func (g *group) touch(p *part) *cursor {
	c := g.cursor(p)
	if !c.touched {
		c.next, c.touched = g.initial(p), true
	}
	return c
}

// next is the next offset to deliver, retention holes skipped (S-pop-16).
func (g *group) next(p *part) format.Offset {
	c := g.cursors[p]
	if c == nil || !c.touched {
		return max(g.initial(p), p.start)
	}
	return max(c.next, p.start)
}

// initial is where a missing cursor starts (S-sub-2 to 5).
func (g *group) initial(p *part) format.Offset {
	switch g.start.Kind {
	case format.StartAll:
		return p.start
	case format.StartFrom:
		return p.firstAt(g.start.From)
	}
	i := sort.Search(len(p.msgs), func(i int) bool { return p.msgs[i].seq > g.seq })
	return format.Offset(i)
}

// firstAt is the first retained offset with createdAt >= w, the end when none is that late.
func (p *part) firstAt(w format.Wall) format.Offset {
	i := sort.Search(len(p.msgs), func(i int) bool { return p.msgs[i].rec.CreatedAt >= w })
	return max(format.Offset(i), p.start)
}

func seconds(n int64) format.Wall { return format.Wall(n * int64(time.Second/time.Microsecond)) }

func micros(d time.Duration) format.Mono { return format.Mono(d / time.Microsecond) }
