package groups

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine/format"
)

// consumerOf makes a client of the classic protocol speak as consumers do.
func (c *client) consumerOf(owned map[string][]int32, topics ...string) *client {
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Version, meta.Topics = 1, topics
	for topic, list := range owned {
		meta.OwnedPartitions = append(meta.OwnedPartitions, kmsg.ConsumerMemberMetadataOwnedPartition{Topic: topic, Partitions: list})
	}
	for i := range c.protocols {
		c.protocols[i].Metadata = meta.AppendTo(nil)
	}
	return c
}

func partitionsOf(t *testing.T, b []byte) map[string][]int32 {
	var told kmsg.ConsumerMemberAssignment
	require.NoError(t, told.ReadFrom(b))
	out := map[string][]int32{}
	for _, topic := range told.Topics {
		out[topic.Topic] = topic.Partitions
	}
	return out
}

// share gives the partitions of t to the clients, as their leader would.
func (r *rig) share(clients ...*client) {
	r.t.Helper()
	for _, c := range clients {
		c.enter()
	}
	for _, c := range clients {
		if c.joined == nil || c.generation != clients[len(clients)-1].generation {
			c.join()
		}
	}
	req := kmsg.NewPtrSyncGroupRequest()
	for i, c := range clients {
		told := kmsg.NewConsumerMemberAssignment()
		told.Topics = []kmsg.ConsumerMemberAssignmentTopic{{Topic: "t", Partitions: []int32{int32(2 * i), int32(2*i + 1)}}}
		req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: c.id, MemberAssignment: told.AppendTo(nil)})
	}
	for i, c := range clients {
		one := *req
		one.Version, one.Group, one.MemberID, one.Generation = 5, "g", c.id, c.generation
		if i > 0 {
			one.GroupAssignment = nil
		}
		r.Sync(r.t.Context(), key("g"), &one, func(resp *kmsg.SyncGroupResponse) { c.synced = resp })
	}
	require.Equal(r.t, Stable, r.state())
}

// Goal: a group changes from the classic protocol to that of KIP-848 one process at a time: who stays keeps what it has
// until it is told otherwise, nobody consumes what another does, and a restart in between changes nothing.
func TestOnlineMigration(t *testing.T) {
	r := newRig(t, nil)
	r.topics.set("t", 4)
	a, b := r.client("cooperative").consumerOf(nil, "t"), r.client("cooperative").consumerOf(nil, "t")
	r.share(a, b)
	require.Zero(t, b.leave())
	n := r.modern("n", "t")
	require.Zero(t, n.beat())
	require.Equal(t, 2, n.obey().owned.size(), "what b had is free; a still has its own")
	require.Equal(t, kerr.RebalanceInProgress.Code, a.heartbeat())
	a.consumerOf(map[string][]int32{"t": {0, 1}}, "t").join()
	require.Zero(t, a.joined.ErrorCode)
	require.Equal(t, "cooperative", *a.joined.Protocol)
	require.NotEqual(t, a.id, a.joined.LeaderID)
	r.mustWeigh()
	r.restart()
	a.sync()
	require.Equal(t, map[string][]int32{"t": {0, 1}}, partitionsOf(t, a.synced.MemberAssignment))
	require.Zero(t, a.heartbeat())
	require.Zero(t, a.commit())
	_, code := r.CommitFence(t.Context(), key("g"), Committer{Member: a.id, Generation: a.generation, NoEpochs: true})
	require.Zero(t, code, "who speaks the classic protocol has a generation in every version")
	generation := a.generation
	a.generation--
	require.Equal(t, kerr.IllegalGeneration.Code, a.commit())
	a.generation = generation

	// Another process of the classic protocol joins the changed group, and waits for what others let go of.
	c := r.client("cooperative").consumerOf(nil, "t").enter()
	require.Zero(t, c.joined.ErrorCode)
	c.sync()
	require.Empty(t, partitionsOf(t, c.synced.MemberAssignment))
	require.Zero(t, c.heartbeat())
	require.Zero(t, n.ping())
	require.Zero(t, n.obey().beat())
	require.Equal(t, kerr.RebalanceInProgress.Code, a.heartbeat())
	a.join()
	a.sync()
	held := partitionsOf(t, a.synced.MemberAssignment)
	a.consumerOf(held, "t")
	for range 3 {
		if a.heartbeat() != 0 {
			a.consumerOf(held, "t").join().sync()
			held = partitionsOf(t, a.synced.MemberAssignment)
		}
		if c.heartbeat() != 0 {
			c.join().sync()
		}
		require.Zero(t, n.beat())
		n.obey()
	}
	got := partitionsOf(t, c.synced.MemberAssignment)
	require.Len(t, got["t"], 1)
	require.Equal(t, 4, len(got["t"])+len(held["t"])+n.owned.size())
	require.Equal(t, "Stable", r.describeConsumer().State)
	r.mustWeigh()

	// The last of the old ones leaves; the group stays what it is.
	require.Zero(t, a.leave())
	require.Zero(t, c.leave())
	require.Zero(t, n.beat())
	require.Equal(t, 4, n.obey().owned.size())
	require.Zero(t, n.leave(epochLeave))
	// Without members the protocol is free again, and generations rise on.
	d := r.client("range")
	r.stable(d)
	require.Greater(t, d.generation, generation)
}

// Goal: a group of which the members say what the consumer protocol does not can not be taken over, and is not harmed.
func TestMigrationRefused(t *testing.T) {
	r := newRig(t, nil)
	r.topics.set("t", 4)
	a := r.client("range")
	r.stable(a)
	require.Equal(t, kerr.InconsistentGroupProtocol.Code, r.modern("n", "t").beat())
	require.Zero(t, a.heartbeat())
	require.Equal(t, Stable, r.state())
}

// Goal: of a group that could not be taken over, because of one of its members, nothing is left to do for those that could have been:
// no session ends and no row is written because of them. So it is with a row of which a part can not be read.
func TestMigrationRefusedLeavesNothing(t *testing.T) {
	r := newRig(t, nil)
	r.topics.set("t", 4)
	a, b := r.client("range").consumerOf(nil, "t"), r.client("range")
	r.share(a, b)
	saves, due := r.store.saves, len(r.timers.due)
	require.Equal(t, kerr.InconsistentGroupProtocol.Code, r.modern("n", "t").beat())
	require.Len(t, r.timers.due, due)
	r.mustWeigh()
	for range 8 {
		r.pass(8 * time.Second)
		require.Zero(t, a.heartbeat())
		require.Zero(t, b.heartbeat())
	}
	require.Equal(t, saves, r.store.saves)

	row := rowText{Consumer: true, Members: []rowMember{{ID: "a", Names: []string{"t"}}, {ID: "b", Regex: "("}}}
	value, err := appendRow(&row)
	require.NoError(t, err)
	r = newRig(t, nil)
	r.store.rows[key("g")] = memRow{value, format.Place{Index: 1}}
	require.Equal(t, kerr.CoordinatorNotAvailable.Code, r.modern("a", "t").beat())
	require.Empty(t, r.timers.due)
	require.Zero(t, r.weight.Load())
}
