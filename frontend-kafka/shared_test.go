package frontendkafka

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
	"queen/engine/auth"
	"queen/engine/clock"
	"queen/engine/format"
)

// joinClassic makes the only member of a group and gives it partitions of topic t.
func (r *raw) joinClassic(group string, partitions ...int32) (member string, generation int32) {
	r.t.Helper()
	join := kmsg.NewPtrJoinGroupRequest()
	join.Version, join.Group, join.ProtocolType = 2, group, "consumer"
	join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = 6_000, 6_000
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
	joined := r.ask(join).(*kmsg.JoinGroupResponse)
	require.Zero(r.t, joined.ErrorCode)
	told := kmsg.NewConsumerMemberAssignment()
	told.Topics = []kmsg.ConsumerMemberAssignmentTopic{{Topic: "t", Partitions: partitions}}
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Version, sync.Group, sync.MemberID, sync.Generation = 2, group, joined.MemberID, joined.Generation
	sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: joined.MemberID, MemberAssignment: told.AppendTo(nil)}}
	require.Zero(r.t, r.ask(sync).(*kmsg.SyncGroupResponse).ErrorCode)
	return joined.MemberID, joined.Generation
}

// joinNext makes the only member of a group of KIP-848, which gets every partition of topic t.
func (r *raw) joinNext(group string) (member string, epoch int32) {
	r.t.Helper()
	beat := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	beat.Version, beat.Group, beat.MemberID = 1, group, "11111111-2222-4333-8444-555555555555"
	beat.RebalanceTimeoutMillis, beat.SubscribedTopicNames, beat.Topics = 10_000, []string{"t"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	got := r.ask(beat).(*kmsg.ConsumerGroupHeartbeatResponse)
	require.Zero(r.t, got.ErrorCode)
	require.NotNil(r.t, got.Assignment)
	return beat.MemberID, got.MemberEpoch
}

// Goal: a native consumer does not work on what a live Kafka member of its group holds, of either protocol, and the group is
// listed with that member; other groups and queues, and what nobody holds, are left alone.
func TestSharedGroup(t *testing.T) {
	n := start(t, nil)
	n.topic("t", 4)
	n.topic("other", 1)
	c := n.dial()
	for _, topic := range []string{"t", "other"} {
		require.Zero(t, c.produced(9, 1, topic, 0, records(t, nil, "x", "y", "z")).ErrorCode)
	}
	refuses, allows := n.f.Shared(n.engine, false), n.f.Shared(n.engine, true)
	pop := func(e engine.Engine, group string, at engine.Scope) error {
		d, err := e.Pop(context.Background(), n.caller(), engine.PopRequest{Scope: at, Group: group, Batch: 1})
		if d != nil {
			d.Abandon()
		}
		return err
	}
	held := &engine.Error{Code: engine.CodeGroupHeld}
	first, second := engine.Scope{Queue: "t", Partition: "0", Pinned: true}, engine.Scope{Queue: "t", Partition: "1", Pinned: true}
	whole := engine.Scope{Queue: "t"}
	require.NoError(t, pop(refuses, "g", whole))

	member, _ := c.joinClassic("g", 0, 2)
	require.ErrorIs(t, pop(refuses, "g", first), held)
	require.ErrorIs(t, pop(refuses, "g", whole), held)
	require.NoError(t, pop(refuses, "g", second))
	require.NoError(t, pop(refuses, "g", engine.Scope{Queue: "other"}))
	require.NoError(t, pop(refuses, "h", whole))
	require.NoError(t, pop(refuses, "", whole))
	require.NoError(t, pop(allows, "g", first))
	next, _ := c.joinNext("modern")
	require.ErrorIs(t, pop(refuses, "modern", second), held)

	rows, err := refuses.Catalog().Groups(context.Background(), n.caller())
	require.NoError(t, err)
	seen := map[string][]engine.GroupMember{}
	for _, row := range rows {
		if len(row.Members) > 0 {
			seen[row.Name+"/"+row.Queue] = row.Members
		}
	}
	require.Equal(t, map[string][]engine.GroupMember{
		"g/t":      {{ID: member, Client: "raw", Host: "127.0.0.1", Protocol: "classic", Partitions: []string{"0", "2"}}},
		"modern/t": {{ID: next, Client: "raw", Host: "127.0.0.1", Protocol: "consumer", Partitions: []string{"0", "1", "2", "3"}}},
	}, seen)
	_, _, err = refuses.Catalog().GroupPartitions(context.Background(), n.caller(), "modern", "t", engine.Page{})
	require.NoError(t, err)

	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Version, leave.Group, leave.MemberID = 2, "g", member
	require.Zero(t, c.ask(leave).(*kmsg.LeaveGroupResponse).ErrorCode)
	require.NoError(t, pop(refuses, "g", first))
}

// Goal: a pop that waits, or that names no queue, does not end with what a Kafka member took over meanwhile.
func TestSharedGroupWhileWaiting(t *testing.T) {
	n := start(t, nil)
	n.topic("t", 1)
	c := n.dial()
	shared := n.f.Shared(n.engine, false)
	done := make(chan error, 1)
	go func() {
		d, err := shared.Pop(context.Background(), n.caller(), engine.PopRequest{Scope: engine.Scope{Queue: "t"}, Group: "g", Wait: patience})
		if d != nil {
			d.Abandon()
		}
		done <- err
	}()
	require.Eventually(t, func() bool { return n.engine.Inspect().Stats().Parked == 1 }, patience, pollEvery)
	member, generation := c.joinClassic("g", 0)
	require.Zero(t, c.produced(9, 1, "t", 0, records(t, nil, "x")).ErrorCode)
	require.ErrorIs(t, <-done, &engine.Error{Code: engine.CodeGroupHeld})
	_, err := n.engine.Catalog().Configure(context.Background(), n.caller(), engine.ConfigureRequest{Queue: "t",
		Patch: format.QueueOptions{Set: format.OptNamespace, Namespace: "ns"}})
	require.NoError(t, err)
	_, err = shared.Pop(context.Background(), n.caller(), engine.PopRequest{Scope: engine.Scope{Discovery: true, Namespace: "ns"}, Group: "g"})
	require.ErrorIs(t, err, &engine.Error{Code: engine.CodeGroupHeld})

	// The Kafka member still reads and commits.
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Version, commit.Group, commit.MemberID, commit.Generation = 2, "g", member, generation
	commit.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Offset: 1}}}}
	require.Zero(t, c.ask(commit).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode)
}

// Goal: members that are in the row of a group when a coordinator starts, and do not come back, hold nothing for ever.
func TestSharedGroupOfTheDead(t *testing.T) {
	fake := clock.NewFake(1_700_000_000_000_000)
	n := start(t, func(o *Options) { o.Clock = fake })
	n.topic("t", 1)
	n.dial().joinClassic("g", 0)
	n.again()
	shared := n.f.Shared(n.engine, false)
	pop := func() error {
		d, err := shared.Pop(context.Background(), n.caller(), engine.PopRequest{Scope: engine.Scope{Queue: "t"}, Group: "g"})
		if d != nil {
			d.Abandon()
		}
		return err
	}
	require.ErrorIs(t, pop(), &engine.Error{Code: engine.CodeGroupHeld})
	fake.Advance(6 * time.Second)
	require.Eventually(t, func() bool { return pop() == nil }, patience, pollEvery)
}

// clustered is an engine of a cluster.
type clustered struct{ engine.Engine }

func (clustered) Members() []engine.Member { return []engine.Member{{Node: 7}} }

func (clustered) MakeLead(context.Context, format.RaftGroup, format.Replica) error { return nil }

func (clustered) Drain(context.Context, format.Replica, bool) (bool, error) { return false, nil }

// Goal: a node that serves Kafka knows its cluster as one does that does not, with a tenant's plan or without.
func TestSharedKnowsItsCluster(t *testing.T) {
	f := new(Frontend)
	for _, e := range []engine.Engine{clustered{}, engine.Limit(clustered{}, new(auth.Quotas))} {
		m, ok := engine.MembershipOf(f.Shared(e, true))
		require.True(t, ok)
		require.EqualValues(t, 7, m.Members()[0].Node)
	}
}

// Goal: what an operator may do with a node, it may with one that serves Kafka too: switches, jobs that move dead letters.
func TestSharedKeepsOperations(t *testing.T) {
	n := start(t, nil)
	_, ok := engine.OperationsOf(n.f.Shared(engine.Limit(n.engine, new(auth.Quotas)), true))
	require.True(t, ok)
}
