package frontendkafka

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
	"queen/engine/format"
)

// conn is the node's only connection, once there is one that is being handled.
func (n *testNode) conn() *conn {
	var it *conn
	require.Eventually(n.t, func() bool {
		n.f.conns.mu.Lock()
		defer n.f.conns.mu.Unlock()
		for it = range n.f.conns.open {
			it.in.mu.Lock()
			busy := it.in.busy
			it.in.mu.Unlock()
			return busy
		}
		return false
	}, patience, pollEvery)
	return it
}

// holds waits until the connection has read so many requests that it does not handle yet.
func (c *conn) holds(t testing.TB, frames int) {
	require.Eventually(t, func() bool {
		c.in.mu.Lock()
		defer c.in.mu.Unlock()
		return len(c.in.frames) == frames
	}, patience, pollEvery)
}

// Goal: the answer to a request does not wait for what is sent after it to have waited.
func TestAnswersBeforeWaiting(t *testing.T) {
	first := kmsg.NewPtrMetadataRequest()
	first.Version, first.AllowAutoTopicCreation = 9, true
	first.Topics = []kmsg.MetadataRequestTopic{{Topic: kmsg.StringPtr("t")}}
	waits := fetchRequest(12, "t", 0)
	waits.MaxWaitMillis, waits.MinBytes = 600_000, 1<<20
	join := kmsg.NewPtrJoinGroupRequest()
	join.Version, join.Group, join.ProtocolType = 2, "g", "consumer"
	join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = 30_000, 30_000
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
	for _, second := range []kmsg.Request{waits, join} {
		var o Options
		n := start(t, func(all *Options) {
			o, all.Engine, all.Rows = *all, nil, nil
			all.Groups.JoinDelay = time.Hour
		})
		c := n.dial()
		c.send(first) // it waits for an engine until the second is there, too
		n.conn().holds(t, 0)
		c.send(second)
		n.conn().holds(t, 1)
		n.f.Attach(o.Engine, o.Rows)
		c.correlation--
		c.receive(first)
	}
}

// Goal: a request without acks that the engine or the client's roles refuse as a whole ends the connection.
func TestRefusedWithoutAcks(t *testing.T) {
	n := start(t, nil)
	req := produceRequest(9, 0, "t", 0, nil)
	r := &request{key: produceKey, version: 9, req: req, api: n.f.table[produceKey]}
	c := &conn{f: n.f}
	_, err := c.refuse(r, kerr.TopicAuthorizationFailed.Code, kerr.TopicAuthorizationFailed)
	require.Error(t, err)
	req.Acks = 1
	resp, err := c.refuse(r, kerr.TopicAuthorizationFailed.Code, kerr.TopicAuthorizationFailed)
	require.NoError(t, err)
	require.Equal(t, kerr.TopicAuthorizationFailed.Code, resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode)
}

// unreadableEngine is an engine of unreadable positions.
type unreadableEngine struct{ engine.Engine }

func (e unreadableEngine) Records() engine.Records { return unreadable{e.Engine.Records()} }

// unreadable can not read one position.
type unreadable struct{ engine.Records }

func (unreadable) Committed(_ context.Context, _ engine.Caller, _ string, refs []engine.PartitionRef) ([]engine.GroupOffset, error) {
	return []engine.GroupOffset{{Err: &engine.Error{Code: engine.CodeCorrupt}, PartitionRef: engine.PartitionRef{Queue: "t", Partition: "0"}}}, nil
}

// Goal: a position that can not be read refuses its group with a code that clients repeat.
func TestUnreadablePosition(t *testing.T) {
	n := start(t, func(o *Options) { o.Engine = unreadableEngine{o.Engine} })
	n.topic("t", 1)
	c := n.dial()
	for _, all := range []bool{false, true} {
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Version = 8
		g := kmsg.NewOffsetFetchRequestGroup()
		if g.Group = "g"; !all {
			g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: []int32{0}}}
		}
		req.Groups = append(req.Groups, g)
		got := c.ask(req).(*kmsg.OffsetFetchResponse).Groups[0]
		require.Equal(t, kerr.CoordinatorNotAvailable.Code, got.ErrorCode)
	}
}

// Goal: requests that are too much for one append do not fail for each other.
func TestProduceApart(t *testing.T) {
	n, fake := startFake(t, nil)
	n.topic("t", 2)
	c := n.dial()
	entered, leave := make(chan struct{}), make(chan struct{})
	calls := 0
	fake.fail = func(string) *engine.Error { // calls: the first request; all others; each of them
		switch calls++; calls {
		case 1:
			close(entered)
			<-leave
		case 2, 4:
			return &engine.Error{Code: engine.CodeTooLarge}
		}
		return nil
	}
	req := produceRequest(9, 1, "t", 0, records(t, nil, "x"))
	c.send(req)
	<-entered
	for range 3 {
		c.send(req)
	}
	n.conn().holds(t, 3)
	close(leave)
	c.correlation = 0
	for i, want := range []int16{0, 0, kerr.MessageTooLarge.Code, 0} {
		c.correlation++
		require.Equal(t, want, c.receive(req).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode, i)
	}
	require.Equal(t, []int{1, 1, 1}, fake.produced)
}

// Goal: what is wrong with a node is told by requests about transactions as a coordinator would.
func TestCoordinatorCodes(t *testing.T) {
	for code, want := range map[engine.ErrorCode]*kerr.Error{
		engine.CodeNoLeader: kerr.NotCoordinator, engine.CodeClosed: kerr.NotCoordinator, engine.CodeOverloaded: kerr.CoordinatorNotAvailable,
		engine.CodeRetry: kerr.CoordinatorNotAvailable, engine.CodeTimeout: kerr.CoordinatorNotAvailable,
		engine.CodeProducerFenced: kerr.ProducerFenced, engine.CodeTooLarge: kerr.PolicyViolation, engine.CodeNameTooLong: kerr.InvalidRequest,
	} {
		require.Equal(t, want.Code, coordinatorCode(&engine.Error{Code: code}, false), code)
	}
	require.Equal(t, kerr.InvalidProducerEpoch.Code, coordinatorCode(&engine.Error{Code: engine.CodeProducerFenced}, true))
	require.Zero(t, coordinatorCode(nil, true))
}

// Goal: requests about groups have codes that consumers know: what passes is the coordinator's, what does not says why.
func TestGroupCodes(t *testing.T) {
	for code, want := range map[engine.ErrorCode]*kerr.Error{
		engine.CodeNoLeader: kerr.NotCoordinator, engine.CodeClosed: kerr.NotCoordinator, engine.CodeGone: kerr.NotCoordinator,
		engine.CodeOverloaded: kerr.CoordinatorNotAvailable, engine.CodeTimeout: kerr.CoordinatorNotAvailable,
		engine.CodeStorageFull: kerr.CoordinatorNotAvailable, engine.CodeCorrupt: kerr.CoordinatorNotAvailable,
		engine.CodeRolledBack: kerr.CoordinatorLoadInProgress, engine.CodeTooLarge: kerr.InvalidCommitOffsetSize,
		engine.CodeNameTooLong: kerr.InvalidGroupID, engine.CodeUnknownQueue: kerr.UnknownTopicOrPartition,
	} {
		require.Equal(t, want.Code, groupCode(&engine.Error{Code: code}), code)
	}
	require.Equal(t, kerr.CoordinatorNotAvailable.Code, groupCode(context.DeadlineExceeded))
	require.Equal(t, kerr.UnknownTopicID.Code, groupCode(kerr.UnknownTopicID))
	require.Zero(t, groupCode(nil))
}

// Goal: whatever a request names again and again is answered once.
func TestNamedOnce(t *testing.T) {
	n := start(t, nil)
	n.topic("t", 3)
	made, err := n.f.topic(context.Background(), n.caller(), "t")
	require.NoError(t, err)
	c := n.dial()
	meta := kmsg.NewPtrMetadataRequest()
	meta.Version = 12
	fetch := kmsg.NewPtrOffsetFetchRequest()
	fetch.Version = 8
	old, describe := kmsg.NewPtrDescribeGroupsRequest(), kmsg.NewPtrConsumerGroupDescribeRequest()
	configs, dirs := kmsg.NewPtrDescribeConfigsRequest(), kmsg.NewPtrDescribeLogDirsRequest()
	configs.Version, dirs.Version = 4, 1
	for range 3 {
		meta.Topics = append(meta.Topics, kmsg.MetadataRequestTopic{Topic: kmsg.StringPtr("t")}, kmsg.MetadataRequestTopic{TopicID: made.id})
		fetch.Groups = append(fetch.Groups, kmsg.OffsetFetchRequestGroup{Group: "g", MemberEpoch: -1})
		old.Groups, describe.Groups = append(old.Groups, "g"), append(describe.Groups, "g")
		configs.Resources = append(configs.Resources, kmsg.DescribeConfigsRequestResource{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "t"})
		dirs.Topics = append(dirs.Topics, kmsg.DescribeLogDirsRequestTopic{Topic: "t", Partitions: []int32{1, 1}})
	}
	require.Len(t, c.ask(meta).(*kmsg.MetadataResponse).Topics, 2)
	require.Len(t, c.ask(fetch).(*kmsg.OffsetFetchResponse).Groups, 1)
	require.Len(t, c.ask(old).(*kmsg.DescribeGroupsResponse).Groups, 1)
	require.Len(t, c.ask(describe).(*kmsg.ConsumerGroupDescribeResponse).Groups, 1)
	require.Len(t, c.ask(configs).(*kmsg.DescribeConfigsResponse).Resources, 1)
	got := c.ask(dirs).(*kmsg.DescribeLogDirsResponse).Dirs[0].Topics
	require.Len(t, got, 1)
	require.Len(t, got[0].Partitions, 1)

	require.Zero(t, c.transactional("x").write(12, "t", "a").ErrorCode)
	c.produce("t", 1, records(t, nil, "b"))
	producers := kmsg.NewPtrDescribeProducersRequest()
	for _, parts := range [][]int32{{0, 0, 1}, {1, 0}, {0}} {
		producers.Topics = append(producers.Topics, kmsg.DescribeProducersRequestTopic{Topic: "t", Partitions: parts})
	}
	wrote := c.ask(producers).(*kmsg.DescribeProducersResponse).Topics
	require.Len(t, wrote, 1)
	require.Len(t, wrote[0].Partitions, 2)
	require.Len(t, wrote[0].Partitions[0].ActiveProducers, 1)

	txns := kmsg.NewPtrDescribeTransactionsRequest()
	txns.TransactionalIDs = []string{"x", "y", "x", "x"}
	require.Len(t, c.ask(txns).(*kmsg.DescribeTransactionsResponse).TransactionStates, 2)

	kinds := kmsg.NewPtrListConfigResourcesRequest()
	kinds.Version, kinds.ResourceTypes = 1, []int8{2, 2, 2}
	require.Len(t, c.ask(kinds).(*kmsg.ListConfigResourcesResponse).ConfigResources, 2) // the internal topic, too

	for v := int16(1); v <= 10; v++ {
		rows := n.askedTwice(c, v, made.id)
		require.Len(t, rows, 1, v)
		require.Len(t, rows[0].Partitions, 2, v)
	}

	quorum := kmsg.NewPtrDescribeQuorumRequest()
	for range 3 {
		quorum.Topics = append(quorum.Topics, kmsg.DescribeQuorumRequestTopic{Topic: quorumTopic, Partitions: make([]kmsg.DescribeQuorumRequestTopicPartition, 3)})
	}
	voters := c.ask(quorum).(*kmsg.DescribeQuorumResponse).Topics
	require.Len(t, voters, 1)
	require.Len(t, voters[0].Partitions, 1)
}

// askedTwice asks for positions of the same two partitions of topic t again and again.
func (n *testNode) askedTwice(c *raw, version int16, id [16]byte) []kmsg.OffsetFetchResponseGroupTopic {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.Group = version, "g"
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = "g"
	for _, parts := range [][]int32{{0, 0, 1}, {1, 0}} {
		one := kmsg.OffsetFetchRequestGroupTopic{Topic: "t", Partitions: parts}
		if version >= 10 {
			one.Topic, one.TopicID = "", id
		}
		g.Topics = append(g.Topics, one)
		req.Topics = append(req.Topics, kmsg.OffsetFetchRequestTopic{Topic: "t", Partitions: parts})
	}
	if version >= 8 {
		req.Groups = append(req.Groups, g)
		return c.ask(req).(*kmsg.OffsetFetchResponse).Groups[0].Topics
	}
	var rows []kmsg.OffsetFetchResponseGroupTopic
	for _, t := range c.ask(req).(*kmsg.OffsetFetchResponse).Topics {
		rows = append(rows, kmsg.OffsetFetchResponseGroupTopic{Partitions: make([]kmsg.OffsetFetchResponseGroupTopicPartition, len(t.Partitions))})
	}
	return rows
}

// ledEngine is a node of a cluster that somebody leads.
type ledEngine struct {
	engine.Engine
	leader *atomic.Int32
}

func (e ledEngine) Records() engine.Records { return ledRecords{e.Engine.Records(), e.leader} }

type ledRecords struct {
	engine.Records
	leader *atomic.Int32
}

func (r ledRecords) Leader(engine.Caller) (format.Replica, format.Term) {
	return format.Replica(r.leader.Load()), 1
}

// Goal: of the nodes of a cluster the one that leads coordinates groups, and the others send clients away, also after
// another was elected.
func TestLeaderCoordinates(t *testing.T) {
	var leader atomic.Int32
	leader.Store(1)
	node := func(id int32) *raw {
		return start(t, func(o *Options) { o.Engine, o.NodeID, o.Clustered = ledEngine{o.Engine, &leader}, id, true }).dial()
	}
	one, two := node(1), node(2)
	beat := kmsg.NewPtrHeartbeatRequest()
	beat.Version, beat.Group, beat.MemberID = 3, "g", "m"
	code := func(c *raw) int16 { return c.ask(beat).(*kmsg.HeartbeatResponse).ErrorCode }
	require.Equal(t, kerr.UnknownMemberID.Code, code(one))
	require.Equal(t, kerr.NotCoordinator.Code, code(two))
	leader.Store(2)
	require.Eventually(t, func() bool {
		return code(one) == kerr.NotCoordinator.Code && code(two) == kerr.UnknownMemberID.Code
	}, patience, pollEvery)
}
