package groups

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine/clock"
	"queen/engine/format"
)

// memStore is a Store in memory, with somebody else who may write, and failures.
type memStore struct {
	rows  map[Key]memRow
	next  format.Index
	saves int
	// fail is returned by the next calls of Save.
	fail error
}

type memRow struct {
	value []byte
	at    format.Place
}

func (s *memStore) Load(_ context.Context, k Key) ([]byte, format.Place, error) {
	r := s.rows[k]
	return r.value, r.at, nil
}

func (s *memStore) At(k Key) format.Place { return s.rows[k].at }

func (s *memStore) Save(_ context.Context, k Key, value []byte, at format.Place) (format.Place, error) {
	if s.fail != nil {
		return format.Place{}, s.fail
	}
	if s.rows[k].at != at {
		return format.Place{}, ErrFenced
	}
	s.next++
	s.saves++
	s.rows[k] = memRow{value, format.Place{Index: s.next}}
	return s.rows[k].at, nil
}

func (s *memStore) Delete(_ context.Context, k Key, at format.Place) error {
	if s.rows[k].at != at {
		return ErrFenced
	}
	delete(s.rows, k)
	return nil
}

// memTopics are Topics that tests change.
type memTopics struct {
	topics     map[string]Topic
	generation uint64
}

func (t *memTopics) set(name string, width int32) {
	t.generation++
	if width == 0 {
		delete(t.topics, name)
		return
	}
	id := t.topics[name].ID
	if id == ([16]byte{}) {
		copy(id[:], fmt.Sprintf("%04d%s", t.generation, name))
	}
	t.topics[name] = Topic{name, id, width}
}

func (t *memTopics) Topic(_ context.Context, _ format.Tenant, name string) (Topic, bool, error) {
	one, ok := t.topics[name]
	return one, ok, nil
}

func (t *memTopics) Each(_ context.Context, _ format.Tenant, fn func(Topic)) error {
	for _, name := range slices.Sorted(maps.Keys(t.topics)) {
		fn(t.topics[name])
	}
	return nil
}

func (t *memTopics) Generation() uint64 { return t.generation }

// rig is a coordinator under a clock that tests move.
type rig struct {
	*Manager
	t      *testing.T
	clock  *clock.Fake
	store  *memStore
	topics *memTopics
	tune   func(*Options)
	seed   uint64
	// rowGeneration is the highest that was seen in the row.
	rowGeneration int32
}

func newRig(t *testing.T, tune func(*Options)) *rig {
	r := &rig{t: t, clock: clock.NewFake(1_700_000_000_000_000), store: &memStore{rows: map[Key]memRow{}},
		topics: &memTopics{topics: map[string]Topic{}}, tune: tune}
	r.restart()
	return r
}

// restart is a new coordinator over the same rows.
func (r *rig) restart() {
	r.seed++
	o := Options{Store: r.store, Topics: r.topics, Clock: r.clock, Rand: clock.NewFakeRand(r.seed)}
	if r.tune != nil {
		r.tune(&o)
	}
	r.Manager = New(o)
}

// here is how tests spawn: they go on when what is due was called.
func here(fn func()) { fn() }

// pass lets time go by, firing what becomes due at its time.
func (r *rig) pass(d time.Duration) {
	end := r.clock.Mono() + d.Microseconds()
	for {
		next := r.clock.Mono() + r.timers.untilNext().Microseconds()
		if next > end {
			break
		}
		r.clock.Advance(time.Duration(next-r.clock.Mono()) * time.Microsecond)
		r.timers.fire(here)
	}
	r.clock.Advance(time.Duration(end-r.clock.Mono()) * time.Microsecond)
	r.timers.fire(here)
}

func key(group string) Key { return Key{format.DefaultTenant, group} }

// client is a member of the classic protocol as its process sees it.
type client struct {
	r          *rig
	id         string
	instance   *string
	protocols  []kmsg.JoinGroupRequestProtocol
	version    int16
	session    int32
	generation int32
	joined     *kmsg.JoinGroupResponse // the answer of the last join, nil while it waits
	synced     *kmsg.SyncGroupResponse
	phase      int // of live
	asked      int // numbers requests: answers to older ones are of connections that were given up
}

func (r *rig) client(protocols ...string) *client {
	c := &client{r: r, version: 9, session: 10_000}
	for _, p := range protocols {
		c.protocols = append(c.protocols, kmsg.JoinGroupRequestProtocol{Name: p, Metadata: []byte("meta of " + p)})
	}
	return c
}

func (r *rig) staticClient(instance string, protocols ...string) *client {
	c := r.client(protocols...)
	c.instance = &instance
	return c
}

func (c *client) joinRequest() *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID, req.InstanceID, req.ProtocolType = c.version, "g", c.id, c.instance, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.Protocols = c.session, 20_000, c.protocols
	return req
}

// join sends a JoinGroup; c.joined is its answer once there is one.
func (c *client) join() *client {
	c.r.t.Helper()
	c.joined = nil
	c.asked++
	answers, asked := 0, c.asked
	c.r.Join(c.r.t.Context(), key("g"), Client{"app", "host"}, c.joinRequest(), func(resp *kmsg.JoinGroupResponse) {
		if answers++; answers > 1 {
			c.r.t.Error("a join was answered twice")
		}
		if asked != c.asked {
			return
		}
		c.joined = resp
		if resp.ErrorCode == 0 {
			c.id, c.generation = resp.MemberID, resp.Generation
		}
	})
	return c
}

// enter joins, with the id that it is told first.
func (c *client) enter() *client {
	c.r.t.Helper()
	if c.join(); c.joined != nil && c.joined.ErrorCode == 79 {
		c.id = c.joined.MemberID
		c.join()
	}
	return c
}

// sync sends a SyncGroup; the leader gives every member its id as the assignment.
func (c *client) sync() *client {
	c.r.t.Helper()
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.MemberID, req.InstanceID, req.Generation = 5, "g", c.id, c.instance, c.generation
	if c.joined != nil && c.joined.LeaderID == c.id && !c.joined.SkipAssignment {
		for _, m := range c.joined.Members {
			req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: m.MemberID,
				MemberAssignment: []byte(fmt.Sprint("of ", m.MemberID, " in ", c.generation))})
		}
	}
	c.synced = nil
	c.asked++
	answers, asked := 0, c.asked
	c.r.Sync(c.r.t.Context(), key("g"), req, func(resp *kmsg.SyncGroupResponse) {
		if answers++; answers > 1 {
			c.r.t.Error("a sync was answered twice")
		}
		if asked != c.asked {
			return
		}
		c.synced = resp
	})
	return c
}

func (c *client) heartbeat() int16 {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.InstanceID, req.Generation = 4, "g", c.id, c.instance, c.generation
	return c.r.Heartbeat(c.r.t.Context(), key("g"), req).ErrorCode
}

func (c *client) leave() int16 {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version, req.Group = 5, "g"
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID, m.InstanceID = c.id, c.instance
	req.Members = append(req.Members, m)
	resp := c.r.Leave(c.r.t.Context(), key("g"), req)
	require.Zero(c.r.t, resp.ErrorCode)
	return resp.Members[0].ErrorCode
}

func (c *client) commit() int16 {
	_, code := c.r.CommitFence(c.r.t.Context(), key("g"), Committer{Member: c.id, Instance: c.instance, Generation: c.generation})
	return code
}

// state is the group's, Dead when nothing is left of it.
func (r *rig) state() State {
	out := kmsg.NewDescribeGroupsResponseGroup()
	found, code := r.Describe(r.t.Context(), key("g"), &out)
	require.Zero(r.t, code)
	if !found {
		return Dead
	}
	return State(out.State)
}

// stable makes a stable group of clients.
func (r *rig) stable(clients ...*client) {
	r.t.Helper()
	for _, c := range clients {
		c.enter()
	}
	for _, c := range clients {
		if c.joined == nil || c.joined.Generation != clients[len(clients)-1].generation {
			c.join()
		}
	}
	for _, c := range clients {
		require.NotNil(r.t, c.joined)
		require.Zero(r.t, c.joined.ErrorCode)
		c.sync()
	}
	for _, c := range clients {
		require.NotNil(r.t, c.synced)
		require.Zero(r.t, c.synced.ErrorCode)
		require.Equal(r.t, fmt.Sprint("of ", c.id, " in ", c.generation), string(c.synced.MemberAssignment))
	}
	require.Equal(r.t, Stable, r.state())
}
