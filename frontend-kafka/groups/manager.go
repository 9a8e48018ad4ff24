package groups

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kerr"

	"queen/engine/clock"
	"queen/engine/format"
)

// Key names a group: consumer groups of different tenants have nothing to do with each other.
type Key struct {
	Tenant format.Tenant
	Group  string
}

// ErrFenced says that the row was written by somebody else since: nothing was written.
var ErrFenced = errors.New("groups: the row is not the one that was written last")

// ErrTooLarge says that a row is too large, or that there are too many.
var ErrTooLarge = errors.New("groups: the row is too large, or there is no room for it")

// Store keeps one row per group. A zero place stands for no row.
type Store interface {
	// Load reads a row, as anybody was told that it is; a zero place says that there is none.
	Load(ctx context.Context, k Key) (value []byte, at format.Place, err error)
	// At is the place of a row as far as this node knows. It never waits.
	At(k Key) format.Place
	// Save writes a row durably while it still is the one written at; ErrFenced, ErrTooLarge.
	Save(ctx context.Context, k Key, value []byte, at format.Place) (format.Place, error)
	// Delete removes a row, and the group with every position; ErrFenced.
	Delete(ctx context.Context, k Key, at format.Place) error
}

// Topic is a topic as members subscribe to it.
type Topic struct {
	Name string
	ID   [16]byte
	// Width is the number of partitions.
	Width int32
}

// Topics tells what topics there are, as of now.
type Topics interface {
	Topic(ctx context.Context, t format.Tenant, name string) (Topic, bool, error)
	// Each calls fn with every topic.
	Each(ctx context.Context, t format.Tenant, fn func(Topic)) error
	// Generation changes whenever a topic comes, goes or is widened, of whatever tenant.
	Generation() uint64
}

// Options say how groups are coordinated. A zero value of a field means its default, but for JoinDelay.
type Options struct {
	Store  Store  // required
	Topics Topics // required
	// Clock tells the time; default the system's. Rand makes member ids; default the system's.
	Clock clock.Clock
	Rand  clock.Rand
	// Logger gets a line for what an operator should know; default none.
	Logger *slog.Logger
	// Owns tells whether this node coordinates a group now; default always. It must not wait. Timers of a node that does not any
	// more let go of their groups, and so does LetGo.
	Owns func(k Key) bool
	// JoinDelay is how long the first join of an empty group waits for others.
	JoinDelay time.Duration
	// SessionMin and SessionMax bound what classic members ask for; defaults 6 s and 30 min.
	SessionMin, SessionMax time.Duration
	// ConsumerSession and ConsumerHeartbeat are what members of KIP-848 are told; defaults 45 s and 5 s.
	ConsumerSession, ConsumerHeartbeat time.Duration
	// ConsumerTimes are those of one group, where they differ; nil is none. Zero means the default.
	ConsumerTimes func(k Key) (session, heartbeat time.Duration)
	// MaxMembers bounds the members of a group, MaxPending the ids told and not used yet, MaxGroups the groups with
	// members on this node; defaults 2000, 1024 and 10,000.
	MaxMembers, MaxPending, MaxGroups int
	// Memory bounds what the clients of all groups on this node say, bytes; default 256 MiB. Rows that are there already are read
	// however much they say.
	Memory int64
}

const (
	// rebalanceMax clamps rebalance timeouts.
	rebalanceMax = 30 * time.Minute
	// newMemberWait is how long a new member may wait for the end of a join.
	newMemberWait = 5 * time.Minute
	// saveWait bounds the writing of a row.
	saveWait = 10 * time.Second
	// groupNameMax bounds names of groups, bytes; textMax ids of members and the like.
	groupNameMax = 255
	textMax      = 1024
	// sayMax bounds what one member says of itself, bytes: metadata for assignors, topics. groupSayMax bounds what a group weighs.
	sayMax      = 512 << 10
	groupSayMax = 64 << 20
)

func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = clock.Real()
	}
	if o.ConsumerTimes == nil {
		o.ConsumerTimes = func(Key) (session, heartbeat time.Duration) { return 0, 0 }
	}
	if o.Owns == nil {
		o.Owns = func(Key) bool { return true }
	}
	if o.Rand == nil {
		o.Rand = clock.RealRand()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	set := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
	}
	set(&o.SessionMin, 6*time.Second)
	set(&o.SessionMax, 30*time.Minute)
	set(&o.ConsumerSession, 45*time.Second)
	set(&o.ConsumerHeartbeat, 5*time.Second)
	for _, n := range []struct {
		v   *int
		def int
	}{{&o.MaxMembers, 2000}, {&o.MaxPending, 1024}, {&o.MaxGroups, 10_000}} {
		if *n.v == 0 {
			*n.v = n.def
		}
	}
	if o.Memory == 0 {
		o.Memory = 256 << 20
	}
	return o
}

// Client is who sends a request.
type Client struct{ ID, Host string }

// Manager coordinates groups. Safe for concurrent use.
type Manager struct {
	o      Options
	timers *timers
	// weight is the sum of those of the groups.
	weight atomic.Int64
	mu     sync.Mutex
	groups map[Key]*group // those with members, and those being worked on
}

// New makes a coordinator; Run has to be called for its timers.
func New(o Options) *Manager {
	o = o.withDefaults()
	return &Manager{o: o, timers: newTimers(o.Clock), groups: map[Key]*group{}}
}

// Run fires timers until ctx ends.
func (m *Manager) Run(ctx context.Context) { m.timers.run(ctx) }

// consumerTimes are the session timeout and heartbeat interval of members of KIP-848.
func (m *Manager) consumerTimes(k Key) (session, heartbeat time.Duration) {
	session, heartbeat = m.o.ConsumerTimes(k)
	if session <= 0 {
		session = m.o.ConsumerSession
	}
	if heartbeat <= 0 {
		heartbeat = m.o.ConsumerHeartbeat
	}
	return session, heartbeat
}

// with calls fn with a group, locked and as its row says, and forgets the group afterwards if nothing but the row is left
// of it. A group that never was looks like an empty one without a row.
func (m *Manager) with(ctx context.Context, k Key, fn func(g *group)) error {
	for {
		m.mu.Lock()
		g := m.groups[k]
		if g == nil {
			g = &group{m: m, key: k}
			m.groups[k] = g
		}
		m.mu.Unlock()
		g.mu.Lock()
		if g.gone {
			g.mu.Unlock()
			continue
		}
		overtaken, err := g.load(ctx)
		if overtaken {
			g.abandon()
			g.mu.Unlock()
			continue
		}
		if err == nil {
			fn(g)
		}
		g.tidy()
		g.mu.Unlock()
		return err
	}
}

// newTimer makes a timer of the group; fn is called with the group locked, while it is in memory and still this node's.
func (g *group) newTimer(fn func()) *timer {
	t := &timer{index: -1, lane: &g.lane}
	t.fn = func() { g.live(t, fn) }
	return t
}

// live calls what a timer is about, unless it was set anew or stopped while it waited for the group.
func (g *group) live(t *timer, fn func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.m.timers.claim(t) || g.gone {
		return
	}
	ctx, cancel := saveContext()
	defer cancel()
	if overtaken, err := g.load(ctx); overtaken || err != nil || !g.m.o.Owns(g.key) {
		g.abandon()
		return
	}
	fn()
	g.tidy()
}

// full says that a group without members can not get one.
func (m *Manager) full() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.groups) > m.o.MaxGroups
}

// load reads the row of a group that is new in memory, and looks whether it still is what was written last of one that is
// not: a group that was deleted, or that another node coordinated meanwhile, is overtaken.
func (g *group) load(ctx context.Context) (overtaken bool, err error) {
	if g.loaded {
		return g.m.o.Store.At(g.key) != g.row, nil
	}
	value, at, err := g.m.o.Store.Load(ctx, g.key)
	if err != nil {
		return false, err
	}
	g.reset()
	if g.row = at; at != (format.Place{}) {
		if err := g.decode(value); err != nil {
			return false, fmt.Errorf("groups: the row of %q: %w", g.key.Group, err)
		}
	}
	g.loaded = true
	return false, nil
}

// save writes the row. After an error other than ErrTooLarge the row may have been written or not: the group is let go of,
// and read again when somebody asks.
func (g *group) save() int16 {
	ctx, cancel := saveContext()
	defer cancel()
	value, err := g.encode()
	at := g.row
	if err == nil {
		at, err = g.m.o.Store.Save(ctx, g.key, value, g.row)
	}
	if err == nil {
		g.row = at
		return 0
	}
	g.m.o.Logger.Warn("kafka: the row of a consumer group was not written", "group", g.key.Group, "err", err)
	if errors.Is(err, ErrTooLarge) {
		return kerr.GroupMaxSizeReached.Code
	}
	g.abandon()
	if errors.Is(err, ErrFenced) {
		return kerr.NotCoordinator.Code
	}
	return kerr.CoordinatorNotAvailable.Code
}

// saveContext bounds work for a group that goes on although whoever asked for it is gone.
func saveContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), saveWait)
}

// abandon lets go of a group that somebody else coordinates, or whose row is not known for sure.
func (g *group) abandon() {
	for _, id := range g.order() {
		m := g.members[id]
		m.answerJoin(g, kerr.NotCoordinator.Code)
		m.answerSync(g, kerr.NotCoordinator.Code)
	}
	g.forget()
}

// forget takes the group out of memory.
func (g *group) forget() {
	if g.gone {
		return
	}
	g.m.weight.Add(int64(-g.weight))
	g.gone, g.weight = true, 0
	g.stopTimers()
	g.m.mu.Lock()
	defer g.m.mu.Unlock()
	delete(g.m.groups, g.key)
}

// tidy forgets a group of which the row says all.
func (g *group) tidy() {
	if !g.loaded || len(g.members) == 0 && len(g.pending) == 0 && g.consumer.size() == 0 {
		g.forget()
	}
}

// codeOf is the code of a group that could not be read.
func (m *Manager) codeOf(k Key, err error) int16 {
	if err == nil {
		return 0
	}
	m.o.Logger.Warn("kafka: a consumer group can not be read", "group", k.Group, "err", err)
	return kerr.CoordinatorNotAvailable.Code
}

// checkName refuses names that no group can have.
func checkName(name string) int16 {
	if name == "" || len(name) > groupNameMax {
		return kerr.InvalidGroupID.Code
	}
	return 0
}

// isID tells whether an id of a client's choice can be kept: a row is text, in which two ids that are none could become one.
func isID(s string) bool { return len(s) <= textMax && utf8.ValidString(s) }

// newID makes a member id, of the prefix as far as that is text.
func (m *Manager) newID(prefix string) string {
	var b [16]byte
	m.o.Rand.Fill(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	id := fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
	if prefix == "" {
		return id
	}
	return strings.ToValidUTF8(prefix[:min(len(prefix), textMax)], "") + "-" + id
}
