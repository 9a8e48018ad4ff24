package frontendkafka

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
	"queen/engine/format"
)

// ledAs is which node leads a tenant, and in which term.
type ledAs struct {
	node format.Replica
	term format.Term
}

// apart is a node of a cluster whose tenants are led by nodes of their own.
type apart struct {
	engine.Engine
	led map[format.Tenant]ledAs
}

func (e apart) Records() engine.Records { return apartRecords{e.Engine.Records(), e.led} }

type apartRecords struct {
	engine.Records
	led map[format.Tenant]ledAs
}

func (r apartRecords) Leader(c engine.Caller) (format.Replica, format.Term) {
	l := r.led[c.Tenant]
	return l.node, l.term
}

// startApart serves as node 1 of two.
func startApart(t *testing.T, led map[format.Tenant]ledAs) *testNode {
	t.Helper()
	n, _ := startSASL(t, newDoor(), func(o *Options) { o.Engine, o.NodeID, o.Clustered = apart{o.Engine, led}, 1, true })
	_, err := n.engine.SetAdmin(t.Context(), format.SystemTenant, engine.AdminChange{Kind: format.AdminKafkaBroker, Name: "2",
		Value: []byte(`{"v":1,"listeners":{"SASL_PLAINTEXT":"k2.example:9092"}}`)})
	require.NoError(t, err)
	return n
}

// listedAt asks for the end of partition 0 of topic t as a client that believes in a leader epoch.
func (r *raw) listedAt(epoch int32) int16 {
	r.t.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version = 4
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Timestamp, p.CurrentLeaderEpoch = -1, epoch
	req.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "t", Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}
	return r.ask(req).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].ErrorCode
}

// Goal: clients of each tenant are told of the node that leads their partitions and of its term, by every request that tells one;
// that node coordinates their groups and no other, and the epochs of another tenant are none of theirs.
func TestLeadersOfTenants(t *testing.T) {
	b := format.Tenant(tenantB)
	n := startApart(t, map[format.Tenant]ledAs{format.DefaultTenant: {1, 5}, b: {2, 9}, format.SystemTenant: {3, 7}})
	for _, x := range []struct {
		token       string
		tenant      format.Tenant
		leads       int32
		term, other int32
		stale, away int16
	}{
		{"admin", format.DefaultTenant, 1, 5, 9, kerr.UnknownLeaderEpoch.Code, 0},
		{"b", b, 2, 9, 5, kerr.FencedLeaderEpoch.Code, kerr.NotCoordinator.Code},
	} {
		who := engine.Caller{Tenant: x.tenant}
		made, err := n.f.createTopic(t.Context(), who, "t", 1)
		require.NoError(t, err)
		c := n.dial()
		require.Zero(t, c.authenticate("PLAIN", []byte("\x00label\x00"+x.token)).ErrorCode)
		require.Zero(t, c.produced(9, 1, "t", 0, records(t, nil, "x")).ErrorCode, "any node takes records")
		_, err = n.engine.Records().CommitOffsets(t.Context(), who, engine.GroupCommit{Group: "native",
			Positions: []engine.GroupPosition{{Queue: "t", Partition: "0", Offset: 1, LeaderEpoch: -1}}, Producer: engine.ProducerRef{ID: engine.NoProducer}})
		require.NoError(t, err)

		for kind := range int8(2) {
			find := kmsg.NewPtrFindCoordinatorRequest()
			find.Version, find.CoordinatorType, find.CoordinatorKeys = 4, kind, []string{"g"}
			found := c.ask(find).(*kmsg.FindCoordinatorResponse).Coordinators[0]
			require.Zero(t, found.ErrorCode)
			require.Equal(t, x.leads, found.NodeID)
			require.Equal(t, x.leads == 2, found.Host == "k2.example")
		}
		told := [2]int32{x.leads, x.term}
		p := topicsOf(c, 12, false, "t")[0].Partitions[0]
		require.Equal(t, told, [2]int32{p.Leader, p.LeaderEpoch})
		page := kmsg.NewPtrDescribeTopicPartitionsRequest()
		page.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: "t"}}
		row := c.ask(page).(*kmsg.DescribeTopicPartitionsResponse).Topics[0].Partitions[0]
		require.Equal(t, told, [2]int32{row.LeaderID, row.LeaderEpoch})
		quorum := kmsg.NewPtrDescribeQuorumRequest()
		quorum.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: quorumTopic, Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{}}}}
		voted := c.ask(quorum).(*kmsg.DescribeQuorumResponse).Topics[0].Partitions[0]
		require.Equal(t, told, [2]int32{voted.LeaderID, voted.LeaderEpoch})
		require.Equal(t, x.leads, c.ask(kmsg.NewPtrDescribeClusterRequest()).(*kmsg.DescribeClusterResponse).ControllerID)

		for epoch, want := range map[int32]int16{x.term: 0, x.other: x.stale} {
			req := fetchRequest(12, "t", 0)
			req.Topics[0].Partitions[0].CurrentLeaderEpoch = epoch
			part, _ := c.fetchOne(req)
			require.Equal(t, want, part.ErrorCode)
			if want != 0 {
				require.Equal(t, told, [2]int32{part.CurrentLeader.LeaderID, part.CurrentLeader.LeaderEpoch})
			}
			require.Equal(t, want, c.listedAt(epoch))
		}

		join := kmsg.NewPtrJoinGroupRequest()
		join.Version, join.Group, join.ProtocolType = 2, "g", "consumer"
		join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = 6_000, 6_000
		join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
		require.Equal(t, x.away, c.ask(join).(*kmsg.JoinGroupResponse).ErrorCode)
		commit := commitRequest(9, "t", made.id, 0, 1, nil)
		commit.Group = "nobody's"
		require.Equal(t, x.away, c.ask(commit).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode)
		listed := c.ask(kmsg.NewPtrListGroupsRequest()).(*kmsg.ListGroupsResponse).Groups
		require.Equal(t, x.away == 0, len(listed) > 0, "a node that does not coordinate lists none: %v", listed)
	}
}

// Goal: where a node was that left is a row of the system's, so whoever leads there removes it, whoever leads elsewhere.
func TestBrokerRemovedWhereItsRowIs(t *testing.T) {
	for _, node := range []format.Replica{1, 2} {
		n := startApart(t, map[format.Tenant]ledAs{format.DefaultTenant: {3 - node, 1}, format.SystemTenant: {node, 1}})
		n.f.removeBroker(2)
		_, there := n.engine.AdminRow(format.SystemTenant, format.AdminKafkaBroker, "2")
		require.Equal(t, node != 1, there, "led by %d", node)
	}
}

// newcomer is a node of a cluster that does not know where its tenant is before something of that is looked for: until then it
// tells of those who lead others.
type newcomer struct {
	engine.Engine
	known *atomic.Bool
}

func (e newcomer) Catalog() engine.Catalog { return newcomerCatalog{e.Engine.Catalog(), e.known} }
func (e newcomer) Records() engine.Records { return newcomerRecords{e.Engine.Records(), e.known} }

type newcomerCatalog struct {
	engine.Catalog
	known *atomic.Bool
}

func (c newcomerCatalog) Topic(ctx context.Context, who engine.Caller, queue string) (engine.QueueInfo, error) {
	c.known.Store(true)
	return c.Catalog.Topic(ctx, who, queue)
}

func (c newcomerCatalog) TopicByID(ctx context.Context, who engine.Caller, id format.UUID) (engine.QueueInfo, error) {
	c.known.Store(true)
	return c.Catalog.TopicByID(ctx, who, id)
}

func (c newcomerCatalog) Topics(ctx context.Context, who engine.Caller, p engine.Page) ([]engine.QueueInfo, string, error) {
	c.known.Store(true)
	return c.Catalog.Topics(ctx, who, p)
}

type newcomerRecords struct {
	engine.Records
	known *atomic.Bool
}

func (r newcomerRecords) Leader(engine.Caller) (format.Replica, format.Term) {
	if r.known.Load() {
		return 2, 3
	}
	return 1, 9
}

// Goal: the first answer that tells a tenant of its partitions tells who leads them and in which term, by name, by id and of
// all: a client that was told a later term would believe no answer any more.
func TestLeaderOfNewTenant(t *testing.T) {
	var known atomic.Bool
	n := start(t, func(o *Options) { o.Engine, o.NodeID, o.Clustered = newcomer{o.Engine, &known}, 1, true })
	c := n.dial()
	byName, byID, all := kmsg.NewPtrMetadataRequest(), kmsg.NewPtrMetadataRequest(), kmsg.NewPtrMetadataRequest()
	byName.AllowAutoTopicCreation = true
	byName.Topics = []kmsg.MetadataRequestTopic{{Topic: kmsg.StringPtr("t")}}
	for _, req := range []*kmsg.MetadataRequest{byName, byID, all} {
		req.Version = 12
		known.Store(false)
		resp := c.ask(req).(*kmsg.MetadataResponse)
		require.EqualValues(t, 2, resp.ControllerID)
		require.NotEmpty(t, resp.Topics)
		for _, topic := range resp.Topics {
			require.Zero(t, topic.ErrorCode)
			for _, p := range topic.Partitions {
				require.Equal(t, [2]int32{2, 3}, [2]int32{p.Leader, p.LeaderEpoch})
			}
		}
		byID.Topics = []kmsg.MetadataRequestTopic{{TopicID: resp.Topics[0].TopicID}}
	}
	known.Store(false)
	page := kmsg.NewPtrDescribeTopicPartitionsRequest()
	page.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: "t"}}
	row := c.ask(page).(*kmsg.DescribeTopicPartitionsResponse).Topics[0].Partitions[0]
	require.Equal(t, [2]int32{2, 3}, [2]int32{row.LeaderID, row.LeaderEpoch})
}
