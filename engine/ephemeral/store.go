package ephemeral

import (
	"strconv"
	"sync"
	"time"

	"queen/engine/clock"
	"queen/engine/format"
)

// IdleAfter is how long what is empty and unpolled is kept: implicit queues, partitions, consumer groups (S-eph-2).
const IdleAfter = 300 * time.Second

// MaxName bounds the names of queues, partitions and groups, bytes (S-id-16).
const MaxName = 512

// What things are counted with in the bytes of the node, beside names and payloads; measured by TestCostsAreHonest.
const (
	queueCost     = 768
	partitionCost = 384
	groupCost     = 384
	cursorCost    = 320
	messageCost   = 160
	deliveryCost  = 192
	waiterCost    = 1024
)

// Options say what a Store needs. The zero value of a field means its default.
type Options struct {
	// Clock is the only source of time; required. Mono time is what everything is measured on.
	Clock clock.Clock
	// Incarnation is part of every message id, so that an id of another life is stale (S-eph-9); random, required.
	Incarnation uint64
	// MaxBytes bounds the memory of the node, bytes; default 256 MiB. What was handed out may take half as much again, so
	// that a full node can still be drained.
	MaxBytes int64
	// Declarations are looked up when a queue comes into being, and again when their generation changes; nil means none.
	Declarations Declarations
}

// Declarations are the durable half: who declared which queue. Its methods are called without the Store's lock.
type Declarations interface {
	// Generation changes whenever a declaration may have changed.
	Generation() uint64
	// Declared is the declaration of a queue as of now.
	Declared(t format.Tenant, queue string) (Settings, bool)
}

// Declared is what was found about a queue, and as of which generation.
type Declared struct {
	Found      bool
	Settings   Settings
	Generation uint64
}

// Store holds the ephemeral queues of one node.
//
// INVARIANT: bytes is the sum of what is charged for the things that are there (checkStore).
type Store struct {
	o      Options
	prefix string // of message ids

	mu      sync.Mutex
	now     int64 // mono time of the call under way
	tenants map[format.Tenant]*tenant
	bytes   int64
	queues  int
	parked  int
	// floor is above every message number of the partitions that are gone, where new ones start: an id is never used twice.
	floor   uint64
	off     bool
	closed  bool
	counts  Counts
	waiters uint64 // counter, for the order of arrival

	// due holds what falls due by time, the three lists what is idle, in order of time.
	due        heap[any]
	idleQueues list[*queue]
	idleParts  list[*partition]
	idleGroups list[*group]
	idlePins   list[*cursor]
	timer      clock.Timer
	armed      int64 // when the timer fires, 0 when it is not armed
}

// tenant is what one tenant has.
type tenant struct {
	id     format.Tenant
	queues map[string]*queue
}

// Drops counts messages that nobody consumed, by cause.
type Drops struct{ Bounds, TTL, Retry uint64 }

// Counts are counters since the start.
type Counts struct {
	Pushed, Delivered, Acked, Redelivered uint64
	Dropped                               Drops
	// Collected counts implicit queues that went for being idle.
	Collected uint64
}

// New returns an empty Store.
func New(o Options) *Store {
	if o.MaxBytes == 0 {
		o.MaxBytes = 256 << 20
	}
	return &Store{o: o, prefix: "e:" + strconv.FormatUint(o.Incarnation, 16) + ":", tenants: map[format.Tenant]*tenant{}}
}

// Close answers every parked pop with nothing and refuses every call from then on.
func (s *Store) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.endParked()
	if s.timer != nil {
		s.timer.Stop()
	}
}

// SetEnabled switches everything but listings off and on (S-mnt-5). Switching off ends parked pops with nothing;
// what is stored stays and ages.
func (s *Store) SetEnabled(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.off = !on; s.off {
		s.endParked()
	}
}

func (s *Store) endParked() {
	for _, t := range s.tenants {
		for _, q := range t.queues {
			s.endParkedOf(q)
		}
	}
}

func (s *Store) endParkedOf(q *queue) {
	for _, g := range q.groups {
		for g.waiters.front != nil {
			s.finish(g.waiters.front.of, nil)
		}
		for _, c := range g.cursors {
			for c.waiters.front != nil {
				s.finish(c.waiters.front.of, nil)
			}
		}
	}
}

// begin locks, takes the time of the whole call and runs what is due. The caller ends with s.end().
func (s *Store) begin() {
	s.mu.Lock()
	s.now = s.o.Clock.Mono()
	s.run()
}

// end arms the timer for what falls due next, and unlocks.
func (s *Store) end() {
	s.arm()
	s.mu.Unlock()
}

// usable says why calls that change something are refused; nil when they are not.
func (s *Store) usable() *Error {
	switch {
	case s.closed:
		return &Error{Reason: Closed, Message: "the node is shutting down", RetryAfter: time.Second}
	case s.off:
		return &Error{Reason: Disabled, Message: "ephemeral queues are switched off", RetryAfter: 5 * time.Second}
	}
	return nil
}

// enter is begin for a call that may bring a queue into being: it looks its declaration up, without the lock, unless
// the queue is there and knows the newest.
func (s *Store) enter(t format.Tenant, name string) Declared {
	var d Declared
	if s.o.Declarations != nil {
		d.Generation = s.o.Declarations.Generation()
	}
	s.begin()
	if q := s.find(t, name); s.o.Declarations == nil || q != nil && q.generation >= d.Generation {
		return d
	}
	s.end()
	d.Settings, d.Found = s.o.Declarations.Declared(t, name)
	s.begin()
	return d
}

// find is a queue that is there, or nil.
func (s *Store) find(t format.Tenant, name string) *queue {
	if own := s.tenants[t]; own != nil {
		return own.queues[name]
	}
	return nil
}

// charge counts n bytes of the node; n may be below 0.
func (s *Store) charge(n int64) { s.bytes += n }

// tenantOf finds or makes a tenant; it goes with its last queue.
func (s *Store) tenantOf(id format.Tenant) *tenant {
	t := s.tenants[id]
	if t == nil {
		t = &tenant{id: id, queues: map[string]*queue{}}
		s.tenants[id] = t
	}
	return t
}

// checkName holds a name to its bound: no control characters, at most MaxName bytes.
func checkName(field, name string, empty bool) *Error {
	if name == "" && !empty {
		return bad(field, "1 to 512 bytes", field+" is missing")
	}
	if len(name) > MaxName {
		return bad(field, "512 bytes", field+" is longer than 512 bytes")
	}
	for i := range len(name) {
		if name[i] < ' ' || name[i] == 0x7f {
			return bad(field, "no control characters", field+" has a control character")
		}
	}
	return nil
}
