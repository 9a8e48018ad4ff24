package groups

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// modern is a member of KIP-848 as its process sees it.
type modern struct {
	r        *rig
	id       string
	instance *string
	topics   []string
	regex    *string
	assignor *string
	epoch    int32
	owned    assignment // what it consumes
	told     assignment // what it was told last
	resp     *kmsg.ConsumerGroupHeartbeatResponse
}

func (r *rig) modern(id string, topics ...string) *modern {
	return &modern{r: r, id: id, topics: topics, owned: assignment{}}
}

// request says everything, as the first one of a process does.
func (c *modern) request() *kmsg.ConsumerGroupHeartbeatRequest {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.MemberEpoch, req.InstanceID = 1, "g", c.id, c.epoch, c.instance
	req.RebalanceTimeoutMillis, req.ServerAssignor, req.SubscribedTopicRegex = 30_000, c.assignor, c.regex
	if req.SubscribedTopicNames = c.topics; c.topics == nil {
		req.SubscribedTopicNames = []string{}
	}
	req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	for _, id := range c.owned.topics() {
		req.Topics = append(req.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: id, Partitions: c.owned[id]})
	}
	return req
}

func (c *modern) send(req *kmsg.ConsumerGroupHeartbeatRequest) int16 {
	c.r.t.Helper()
	c.resp = c.r.ConsumerHeartbeat(c.r.t.Context(), key("g"), Client{"app", "host"}, req)
	if c.resp.ErrorCode != 0 {
		require.Nil(c.r.t, c.resp.Assignment)
		return c.resp.ErrorCode
	}
	c.epoch = c.resp.MemberEpoch
	if c.resp.Assignment != nil {
		c.told = assignment{}
		for _, t := range c.resp.Assignment.Topics {
			for _, p := range t.Partitions {
				c.told.add(t.TopicID, p)
			}
		}
	}
	return 0
}

// beat sends a whole request.
func (c *modern) beat() int16 { return c.send(c.request()) }

// ping sends a request that says nothing new.
func (c *modern) ping() int16 {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.MemberEpoch, req.InstanceID, req.RebalanceTimeoutMillis = 1, "g", c.id, c.epoch, c.instance, -1
	return c.send(req)
}

// obey consumes what the member was told.
func (c *modern) obey() *modern {
	c.owned = c.told.join(nil)
	return c
}

func (c *modern) leave(epoch int32) int16 {
	c.epoch = epoch
	code := c.ping()
	c.epoch = 0
	return code
}

// settle lets members talk and obey until nothing changes.
func (r *rig) settle(members ...*modern) {
	r.t.Helper()
	for range 12 {
		for _, m := range members {
			require.Zero(r.t, m.beat(), m.id)
			m.obey()
		}
	}
	all := map[partition]string{}
	for _, m := range members {
		for id, list := range m.owned {
			for _, n := range list {
				require.Empty(r.t, all[partition{id, n}], "two owners")
				all[partition{id, n}] = m.id
			}
		}
	}
	require.Equal(r.t, "Stable", r.describeConsumer().State)
}

func (r *rig) describeConsumer() kmsg.ConsumerGroupDescribeResponseGroup {
	out := kmsg.NewConsumerGroupDescribeResponseGroup()
	found, code := r.DescribeConsumer(r.t.Context(), key("g"), func(id [16]byte) string { return string(id[4:]) }, &out)
	require.Zero(r.t, code)
	require.True(r.t, found)
	return out
}

// Goal: members share, a newcomer gets a partition only once its owner let go of it, and one that leaves frees its own.
func TestConsumersShare(t *testing.T) {
	r := newRig(t, nil)
	r.topics.set("t", 4)
	a, b := r.modern("a", "t"), r.modern("b", "t")
	require.Zero(t, a.beat())
	require.Equal(t, 4, a.obey().owned.size())
	require.Equal(t, int32(5000), a.resp.HeartbeatIntervalMillis)
	first := a.epoch
	require.Zero(t, a.ping())
	require.Nil(t, a.resp.Assignment, "nothing new")
	require.Zero(t, b.beat())
	require.NotNil(t, b.resp.Assignment)
	require.Zero(t, b.told.size(), "all are a's")
	require.Greater(t, b.epoch, first)
	require.Equal(t, "Reconciling", r.describeConsumer().State)
	require.Zero(t, a.ping())
	require.Equal(t, 2, a.told.size())
	require.Equal(t, first, a.epoch, "not before it let go")
	require.Zero(t, b.ping())
	require.Nil(t, b.resp.Assignment)
	require.Zero(t, a.obey().beat())
	require.Equal(t, b.epoch, a.epoch)
	require.Zero(t, b.ping())
	require.Equal(t, 2, b.obey().owned.size())
	require.Equal(t, "Stable", r.describeConsumer().State)
	require.Zero(t, a.leave(epochLeave))
	require.Equal(t, int32(epochLeave), a.resp.MemberEpoch)
	require.Zero(t, b.ping())
	require.Equal(t, 4, b.told.size())
	require.Zero(t, b.leave(epochLeave))
	require.Equal(t, "Empty", r.describeConsumer().State)
}

// Goal: every situation of a KIP-848 group that has a code of its own.
func TestConsumerCodes(t *testing.T) {
	with := func(edit func(*kmsg.ConsumerGroupHeartbeatRequest)) func(r *rig, a, b *modern) int16 {
		return func(r *rig, a, b *modern) int16 {
			n := r.modern("n", "t")
			req := n.request()
			edit(req)
			return n.send(req)
		}
	}
	for _, c := range []struct {
		name string
		want *kerr.Error
		do   func(r *rig, a, b *modern) int16
	}{
		{"no group id", kerr.InvalidRequest, with(func(q *kmsg.ConsumerGroupHeartbeatRequest) { q.Group = "" })},
		{"no member id", kerr.InvalidRequest, with(func(q *kmsg.ConsumerGroupHeartbeatRequest) { q.MemberID = "" })},
		{"no member id in version 0", nil, with(func(q *kmsg.ConsumerGroupHeartbeatRequest) { q.MemberID, q.Version = "", 0 })},
		{"an empty instance id", kerr.InvalidRequest, with(func(q *kmsg.ConsumerGroupHeartbeatRequest) { q.InstanceID = kmsg.StringPtr("") })},
		{"an empty rack", kerr.InvalidRequest, with(func(q *kmsg.ConsumerGroupHeartbeatRequest) { q.RackID = kmsg.StringPtr("") })},
		{"no such epoch", kerr.InvalidRequest, with(func(q *kmsg.ConsumerGroupHeartbeatRequest) { q.MemberEpoch = -3 })},
		{"leaving for a while without an instance", kerr.InvalidRequest, func(r *rig, a, b *modern) int16 { return a.leave(epochLeaveStatic) }},
		{"leaving for a while without naming the instance", nil, func(r *rig, a, b *modern) int16 {
			n := *b
			n.instance = nil
			code := n.leave(epochLeaveStatic)
			next := r.modern("next", "t")
			next.instance = b.instance
			require.Zero(r.t, next.beat())
			require.Equal(r.t, 2, next.told.size())
			b.id, b.epoch, b.owned = next.id, next.epoch, next.told
			return code
		}},
		{"joining without a timeout", kerr.InvalidRequest, with(func(q *kmsg.ConsumerGroupHeartbeatRequest) { q.RebalanceTimeoutMillis = -1 })},
		{"joining without a list of partitions", kerr.InvalidRequest, with(func(q *kmsg.ConsumerGroupHeartbeatRequest) { q.Topics = nil })},
		{"joining with partitions", kerr.InvalidRequest, with(func(q *kmsg.ConsumerGroupHeartbeatRequest) {
			q.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{{Partitions: []int32{1}}}
		})},
		{"joining without a subscription", kerr.InvalidRequest, with(func(q *kmsg.ConsumerGroupHeartbeatRequest) { q.SubscribedTopicNames = nil })},
		{"an unknown assignor", kerr.UnsupportedAssignor, with(func(q *kmsg.ConsumerGroupHeartbeatRequest) { q.ServerAssignor = kmsg.StringPtr("sticky") })},
		{"a bad regular expression", kerr.InvalidRegularExpression, with(func(q *kmsg.ConsumerGroupHeartbeatRequest) {
			q.SubscribedTopicRegex = kmsg.StringPtr("(")
		})},
		{"an unknown member", kerr.UnknownMemberID, with(func(q *kmsg.ConsumerGroupHeartbeatRequest) { q.MemberEpoch = 1 })},
		{"an unknown group", kerr.GroupIDNotFound, func(r *rig, a, b *modern) int16 {
			req := a.request()
			req.Group = "other"
			return r.ConsumerHeartbeat(r.t.Context(), key("other"), Client{}, req).ErrorCode
		}},
		{"an epoch to come", kerr.FencedMemberEpoch, func(r *rig, a, b *modern) int16 { a.epoch++; return a.beat() }},
		{"an epoch long ago", kerr.FencedMemberEpoch, func(r *rig, a, b *modern) int16 { return r.older(a) }},
		{"an instance that is held", kerr.UnreleasedInstanceID, func(r *rig, a, b *modern) int16 {
			n := r.modern("n", "t")
			n.instance = b.instance
			return n.beat()
		}},
		{"a member that lost its instance", kerr.FencedInstanceID, func(r *rig, a, b *modern) int16 {
			a.instance = b.instance
			return a.ping()
		}},
		{"an instance that is not there", kerr.UnknownMemberID, func(r *rig, a, b *modern) int16 {
			a.instance = kmsg.StringPtr("nobody")
			return a.ping()
		}},
		{"committing with an older epoch", kerr.StaleMemberEpoch, func(r *rig, a, b *modern) int16 {
			_, code := r.CommitFence(r.t.Context(), key("g"), Committer{Member: "a", Generation: a.epoch - 1})
			return code
		}},
		{"committing as it is", nil, func(r *rig, a, b *modern) int16 {
			_, code := r.CommitFence(r.t.Context(), key("g"), Committer{Member: "a", Generation: a.epoch})
			return code
		}},
		{"committing as it is in a version without epochs", kerr.UnsupportedVersion, func(r *rig, a, b *modern) int16 {
			_, code := r.CommitFence(r.t.Context(), key("g"), Committer{Member: "a", Generation: a.epoch, NoEpochs: true})
			return code
		}},
		{"committing with an older epoch in a version without epochs", kerr.UnsupportedVersion, func(r *rig, a, b *modern) int16 {
			_, code := r.CommitFence(r.t.Context(), key("g"), Committer{Member: "a", Generation: a.epoch - 1, NoEpochs: true})
			return code
		}},
		{"committing as a stranger in a version without epochs", kerr.UnknownMemberID, func(r *rig, a, b *modern) int16 {
			_, code := r.CommitFence(r.t.Context(), key("g"), Committer{Member: "n", Generation: a.epoch, NoEpochs: true})
			return code
		}},
		{"committing as nobody", kerr.UnknownMemberID, func(r *rig, a, b *modern) int16 {
			_, code := r.CommitFence(r.t.Context(), key("g"), Committer{Generation: -1})
			return code
		}},
		{"asking for positions with an older epoch", kerr.StaleMemberEpoch, func(r *rig, a, b *modern) int16 {
			return r.CheckFetch(r.t.Context(), key("g"), &a.id, a.epoch-1)
		}},
		{"asking for positions as a stranger", kerr.UnknownMemberID, func(r *rig, a, b *modern) int16 {
			return r.CheckFetch(r.t.Context(), key("g"), kmsg.StringPtr("n"), a.epoch)
		}},
		{"joining by the classic protocol that says nothing of topics", kerr.InconsistentGroupProtocol, func(r *rig, a, b *modern) int16 {
			return r.client("range").join().joined.ErrorCode
		}},
		{"deleting", kerr.NonEmptyGroup, func(r *rig, a, b *modern) int16 { return r.Delete(r.t.Context(), key("g"), nil) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, nil)
			r.topics.set("t", 4)
			a, b := r.modern("a", "t"), r.modern("b", "t")
			b.instance = kmsg.StringPtr("i")
			r.settle(a, b)
			want := int16(0)
			if c.want != nil {
				want = c.want.Code
			}
			require.Equal(t, want, c.do(r, a, b))
			require.Zero(t, b.beat())
		})
	}
}

// older beats with an epoch from before the one before.
func (r *rig) older(a *modern) int16 {
	for range 2 {
		r.topics.set(fmt.Sprint("more", r.topics.generation), 1)
		n := r.modern("passing", "t")
		require.Zero(r.t, n.beat())
		require.Zero(r.t, a.ping0())
		require.Zero(r.t, n.leave(epochLeave))
		require.Zero(r.t, a.ping0())
	}
	a.epoch = 1
	return a.beat()
}

// ping0 beats with the epoch as it is, and obeys.
func (c *modern) ping0() int16 {
	g := c.r.describeConsumer()
	i := slices.IndexFunc(g.Members, func(m kmsg.ConsumerGroupDescribeResponseGroupMember) bool { return m.MemberID == c.id })
	c.epoch = g.Members[i].MemberEpoch
	for range 2 {
		if code := c.beat(); code != 0 {
			return code
		}
		c.obey()
	}
	return 0
}

// Goal: a heartbeat whose answer was lost is answered again, with the assignment, not fenced; a join as well.
func TestLostHeartbeats(t *testing.T) {
	r := newRig(t, nil)
	r.topics.set("t", 4)
	a := r.modern("a", "t")
	require.Zero(t, a.beat())
	a.epoch = 0
	require.Zero(t, a.beat(), "the join again")
	require.Equal(t, 4, a.obey().owned.size())
	b := r.modern("b", "t")
	require.Zero(t, b.beat())
	require.Zero(t, a.beat())
	a.obey()
	before := a.epoch
	require.Zero(t, a.beat())
	after := a.epoch
	require.Greater(t, after, before)
	a.epoch = before
	require.Zero(t, a.beat(), "the last again")
	require.Equal(t, after, a.epoch)
	require.NotNil(t, a.resp.Assignment)
	// With partitions that are not its any more it is fenced, and begins anew.
	a.epoch, a.owned = before, assignment{}
	for n := range int32(4) {
		a.owned.add(r.topics.topics["t"].ID, n)
	}
	require.Equal(t, kerr.FencedMemberEpoch.Code, a.beat())
	a.epoch, a.owned = 0, assignment{}
	require.Zero(t, a.beat())
	r.settle(a, b)
}

// Goal: a member that does not let go in its rebalance timeout is fenced, one that gives no sign of life too.
func TestConsumerTimeouts(t *testing.T) {
	r := newRig(t, nil)
	r.topics.set("t", 4)
	a, b := r.modern("a", "t"), r.modern("b", "t")
	require.Zero(t, a.beat())
	a.obey()
	require.Zero(t, b.beat())
	require.Zero(t, a.ping())
	for range 29 {
		r.pass(time.Second)
		require.Zero(t, a.ping())
		require.Zero(t, b.ping())
	}
	require.Zero(t, b.told.size())
	r.pass(time.Second)
	require.Equal(t, kerr.UnknownMemberID.Code, a.ping())
	require.Zero(t, b.ping())
	require.Equal(t, 4, b.obey().owned.size())
	r.pass(44 * time.Second)
	require.Zero(t, b.ping())
	r.pass(45 * time.Second)
	require.Equal(t, kerr.GroupIDNotFound.Code, func() int16 {
		if c := b.ping(); c != kerr.UnknownMemberID.Code {
			return c
		}
		return kerr.GroupIDNotFound.Code
	}())
	require.Equal(t, "Empty", r.describeConsumer().State)
}

// Goal: a restart of the coordinator costs nothing: epochs, assignments and what is being moved are as they were.
func TestConsumerRestart(t *testing.T) {
	r := newRig(t, nil)
	r.topics.set("t", 6)
	a, b := r.modern("a", "t"), r.modern("b", "t")
	b.regex = kmsg.StringPtr("t|u.*")
	require.Zero(t, a.beat())
	a.obey()
	require.Zero(t, b.beat())
	require.Zero(t, a.ping())
	r.restart()
	saves := r.store.saves
	require.Zero(t, a.ping())
	require.Zero(t, b.ping())
	require.Equal(t, saves, r.store.saves, "nothing changed")
	require.Nil(t, b.resp.Assignment)
	require.Zero(t, a.obey().beat())
	r.restart()
	require.Zero(t, b.ping())
	require.Equal(t, 3, b.told.size())
	r.settle(a, b)
	epoch := a.epoch
	r.restart()
	r.topics.set("unrelated", 3)
	require.Zero(t, a.ping())
	require.Zero(t, b.ping())
	require.Greater(t, r.describeConsumer().Epoch, epoch, "b's expression matches it")
	// What changed while nobody coordinated is seen.
	r.settle(a, b)
	epoch = r.describeConsumer().Epoch
	r.topics.set("t", 8)
	r.restart()
	require.Zero(t, a.ping())
	require.Greater(t, r.describeConsumer().Epoch, epoch)
}

// Goal: a topic that comes, goes or is widened changes every group that is subscribed to it, by name or by expression, and
// no other.
func TestTopicsChange(t *testing.T) {
	r := newRig(t, nil)
	r.topics.set("t", 2)
	a, b := r.modern("a", "t", "later"), r.modern("b")
	b.regex = kmsg.StringPtr("x.*")
	r.settle(a, b)
	require.Equal(t, 2, a.owned.size())
	epoch := r.describeConsumer().Epoch
	r.topics.set("other", 5)
	require.Zero(t, a.ping())
	require.Equal(t, epoch, r.describeConsumer().Epoch)
	r.topics.set("later", 3)
	require.Zero(t, a.ping())
	require.Equal(t, 5, a.obey().owned.size())
	r.topics.set("t", 4)
	require.Zero(t, a.ping())
	require.Equal(t, 7, a.obey().owned.size())
	r.topics.set("xyz", 2)
	r.topics.set("axyz", 2)
	require.Zero(t, b.ping())
	require.Equal(t, 2, b.obey().owned.size(), "the whole name has to match")
	r.topics.set("t", 0)
	require.Zero(t, a.ping())
	require.Equal(t, 3, a.told.size())
	r.settle(a, b)
	// Made again it is another topic.
	r.topics.set("t", 1)
	require.Zero(t, a.ping())
	require.True(t, a.told.has(r.topics.topics["t"].ID, 0))
}

// Goal: a static member that goes for a while keeps its partitions for its next process, until its session ends.
func TestStaticConsumer(t *testing.T) {
	r := newRig(t, nil)
	r.topics.set("t", 4)
	a, b := r.modern("a", "t"), r.modern("b", "t")
	a.instance = kmsg.StringPtr("i")
	r.settle(a, b)
	epoch, had := r.describeConsumer().Epoch, a.owned
	require.Zero(t, a.leave(epochLeaveStatic))
	require.Equal(t, int32(epochLeaveStatic), a.resp.MemberEpoch)
	require.Zero(t, b.ping())
	require.Nil(t, b.resp.Assignment)
	next := r.modern("next", "t")
	next.instance = a.instance
	require.Zero(t, next.beat())
	require.True(t, had.equal(next.told))
	require.Equal(t, epoch, r.describeConsumer().Epoch)
	require.Equal(t, kerr.FencedInstanceID.Code, func() int16 { a.epoch = epoch; return a.ping() }())
	require.Zero(t, next.obey().leave(epochLeaveStatic))
	r.restart()
	require.Zero(t, b.ping()) // sessions begin anew when somebody asks
	r.pass(30 * time.Second)
	require.Zero(t, b.ping())
	require.Nil(t, b.resp.Assignment)
	r.pass(16 * time.Second)
	require.Zero(t, b.ping())
	require.Equal(t, 4, b.told.size())
}

// Goal: both assignors give every partition to exactly one subscriber, evenly.
func TestAssignors(t *testing.T) {
	topics := map[string]Topic{}
	for i, width := range []int32{7, 5, 1, 12} {
		name := fmt.Sprint("t", i)
		topics[name] = Topic{name, [16]byte{byte(i + 1)}, width}
	}
	names := []string{"t0", "t1", "t2", "t3"}
	for name, assign := range assignors {
		for size := 1; size < 9; size++ {
			var members []*cmember
			for i := range size {
				members = append(members, &cmember{id: fmt.Sprint("m", i), matched: names})
			}
			target := assign(members, topics, nil)
			checkTarget(t, members, topics, target)
			if name == "uniform" {
				low, high := 25, 0
				for _, a := range target {
					low, high = min(low, a.size()), max(high, a.size())
				}
				require.LessOrEqual(t, high-low, 1)
				// One more member: nobody gets what another had, but for what the new one is due.
				more := append(members, &cmember{id: "new", matched: names})
				next := assign(more, topics, target)
				checkTarget(t, more, topics, next)
				for id, a := range target {
					kept, _ := next[id].split(a)
					require.Equal(t, next[id].size(), kept.size(), "%s got something new", id)
				}
			}
			// Members of different topics.
			for i, m := range members {
				m.matched = names[i%4:]
			}
			checkTarget(t, members, topics, assign(members, topics, target))
		}
	}
}

func checkTarget(t *testing.T, members []*cmember, topics map[string]Topic, target map[string]assignment) {
	t.Helper()
	owners := map[partition]string{}
	for _, m := range members {
		for id, list := range target[m.id] {
			require.True(t, slices.IsSorted(list))
			for _, n := range list {
				require.Empty(t, owners[partition{id, n}])
				owners[partition{id, n}] = m.id
				require.True(t, slices.ContainsFunc(m.matched, func(name string) bool { return topics[name].ID == id && n < topics[name].Width }))
			}
		}
	}
	for name, topic := range topics {
		anybody := slices.ContainsFunc(members, func(m *cmember) bool { return slices.Contains(m.matched, name) })
		for n := range topic.Width {
			require.Equal(t, anybody, owners[partition{topic.ID, n}] != "", "%s %d", name, n)
		}
	}
}

// Goal: the range of a static member is that of its instance.
func TestRangeIsOfInstances(t *testing.T) {
	topics := map[string]Topic{"t": {"t", [16]byte{1}, 4}}
	a := &cmember{id: "z", instance: kmsg.StringPtr("1"), matched: []string{"t"}}
	b := &cmember{id: "a", instance: kmsg.StringPtr("2"), matched: []string{"t"}}
	target := assignRange([]*cmember{a, b}, topics, nil)
	require.Equal(t, []int32{0, 1}, target["z"][[16]byte{1}])
}
