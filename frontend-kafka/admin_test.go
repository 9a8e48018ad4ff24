package frontendkafka

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
	"queen/engine/format"
)

// push writes native messages of a size.
func (n *testNode) push(queue, partition string, count, size int) {
	n.t.Helper()
	payload := append(append([]byte{'"'}, make([]byte, size)...), '"')
	for i := 1; i <= size; i++ {
		payload[i] = byte('a' + i*i%26)
	}
	for range count {
		_, err := n.engine.Do(context.Background(), n.caller(), engine.Batch{Ops: []engine.Op{&engine.Append{Queue: queue, Partition: partition,
			Messages: []engine.Message{{Payload: payload}}}}})
		require.NoError(n.t, err)
	}
}

// Goal: the topics of a wide cluster are listed in pages that together are everything once.
func TestDescribeTopicPartitions(t *testing.T) {
	n, ctx := start(t, nil), context.Background()
	a := n.admin()
	want := map[string]int{offsetsTopic: offsetsWidth}
	for i, width := range []int{5, 1, 7, 4} {
		name := fmt.Sprintf("t%d", 9-i)
		_, err := a.CreateTopic(ctx, int32(width), 1, nil, name)
		require.NoError(t, err)
		want[name] = width
	}
	c := n.dial()
	for _, limit := range []int32{1, 3, 5, 2000, 0} {
		got, last := map[string]int{}, ""
		req := kmsg.NewPtrDescribeTopicPartitionsRequest()
		req.ResponsePartitionLimit = limit
		for {
			resp := c.ask(req).(*kmsg.DescribeTopicPartitionsResponse)
			total := 0
			for _, topic := range resp.Topics {
				require.LessOrEqual(t, last, *topic.Topic)
				last = *topic.Topic
				for _, p := range topic.Partitions {
					require.EqualValues(t, got[last], p.Partition)
					got[last]++
					total++
				}
			}
			require.True(t, limit == 0 || total <= int(limit))
			if resp.NextCursor == nil {
				break
			}
			req.Cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: resp.NextCursor.Topic, Partition: resp.NextCursor.Partition}
		}
		require.Equal(t, want, got)
	}
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: "t9"}, {Topic: "none"}, {Topic: "t9"}}
	resp := c.ask(req).(*kmsg.DescribeTopicPartitionsResponse)
	require.Len(t, resp.Topics, 2)
	require.Equal(t, kerr.UnknownTopicOrPartition.Code, resp.Topics[0].ErrorCode)
	require.NotZero(t, resp.Topics[1].TopicID)
}

// Goal: sizes are those of what is stored, and fall when it goes.
func TestLogDirs(t *testing.T) {
	n, ctx := start(t, nil), context.Background()
	n.push("q", "2", 10, 3000)
	size := func(version int16) map[int32]int64 {
		req := kmsg.NewPtrDescribeLogDirsRequest()
		req.Version = version
		resp := n.dial().ask(req).(*kmsg.DescribeLogDirsResponse)
		require.Zero(t, resp.ErrorCode)
		require.Len(t, resp.Dirs, 1)
		if version >= 4 {
			require.GreaterOrEqual(t, resp.Dirs[0].TotalBytes, resp.Dirs[0].UsableBytes)
		}
		got := map[int32]int64{}
		for _, p := range resp.Dirs[0].Topics[0].Partitions {
			got[p.Partition] = p.Size
		}
		return got
	}
	for v := int16(1); v <= 5; v++ {
		got := size(v)
		require.Len(t, got, 4)
		require.Zero(t, got[0])
		require.Greater(t, got[2], int64(10*3000))
		require.Less(t, got[2], int64(10*4000))
	}
	before := size(5)[2]
	_, err := n.engine.Records().DeleteRecords(ctx, n.caller(), []engine.FetchAt{{Queue: "q", Partition: "2", Offset: 5}})
	require.NoError(t, err)
	require.Equal(t, before/2, size(5)[2])
	part, err := n.engine.Inspect().PartitionSize(ctx, n.caller(), "q", "2", uint64(before/5))
	require.NoError(t, err)
	require.EqualValues(t, 8, part.From)
	require.EqualValues(t, before/5, part.Bytes)
	req := kmsg.NewPtrDescribeLogDirsRequest()
	req.Version = 2
	req.Topics = []kmsg.DescribeLogDirsRequestTopic{{Topic: "q", Partitions: []int32{2, 99}}, {Topic: "none", Partitions: []int32{0}}}
	resp := n.dial().ask(req).(*kmsg.DescribeLogDirsResponse)
	require.Len(t, resp.Dirs[0].Topics, 1)
	require.Len(t, resp.Dirs[0].Topics[0].Partitions, 1)
}

// Goal: what has no meaning here is refused by the code that tools understand.
func TestRefusedAdministration(t *testing.T) {
	n, ctx := start(t, nil), context.Background()
	_, err := n.admin().CreateTopic(ctx, 2, 1, nil, "t")
	require.NoError(t, err)
	c := n.dial()

	describe := kmsg.NewPtrDescribeACLsRequest()
	describe.Version = 3
	require.Equal(t, kerr.SecurityDisabled.Code, c.ask(describe).(*kmsg.DescribeACLsResponse).ErrorCode)
	create := kmsg.NewPtrCreateACLsRequest()
	create.Version = 1
	require.Empty(t, c.ask(create).(*kmsg.CreateACLsResponse).Results)
	create.Creations = make([]kmsg.CreateACLsRequestCreation, 2)
	require.Len(t, c.ask(create).(*kmsg.CreateACLsResponse).Results, 2)

	elect := kmsg.NewPtrElectLeadersRequest()
	elect.Version = 2
	elect.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: "t", Partitions: []int32{1, 2}}}
	el := c.ask(elect).(*kmsg.ElectLeadersResponse).Topics[0].Partitions
	require.Equal(t, kerr.ElectionNotNeeded.Code, el[0].ErrorCode)
	require.Equal(t, kerr.UnknownTopicOrPartition.Code, el[1].ErrorCode)

	move := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	move.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: "t", Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{
		{Partition: 0}, {Partition: 0, Replicas: []int32{1}}, {Partition: 0, Replicas: []int32{2}}, {Partition: 9, Replicas: []int32{1}}}}}
	ps := c.ask(move).(*kmsg.AlterPartitionAssignmentsResponse).Topics[0].Partitions
	for i, want := range []int16{kerr.NoReassignmentInProgress.Code, 0, kerr.InvalidReplicaAssignment.Code, kerr.UnknownTopicOrPartition.Code} {
		require.Equal(t, want, ps[i].ErrorCode, i)
	}
	require.Empty(t, c.ask(kmsg.NewPtrListPartitionReassignmentsRequest()).(*kmsg.ListPartitionReassignmentsResponse).Topics)

	up := kmsg.NewPtrUpdateFeaturesRequest()
	up.Version = 1
	up.FeatureUpdates = []kmsg.UpdateFeaturesRequestFeatureUpdate{{Feature: "transaction.version", MaxVersionLevel: 2},
		{Feature: "transaction.version", MaxVersionLevel: 1}}
	rs := c.ask(up).(*kmsg.UpdateFeaturesResponse).Results
	require.Zero(t, rs[0].ErrorCode)
	require.Equal(t, kerr.FeatureUpdateFailed.Code, rs[1].ErrorCode)
}

// Goal: nodes of a cluster tell each other where they are.
func TestAnnounce(t *testing.T) {
	n := start(t, func(o *Options) { o.Clustered, o.NodeID, o.Rack = true, 7, "east" })
	c := n.dial()
	_, err := n.engine.SetAdmin(context.Background(), format.SystemTenant, engine.AdminChange{Kind: format.AdminKafkaBroker, Name: "8",
		Value: []byte(`{"v":1,"listeners":{"PLAINTEXT":"k8.example:9092"}}`)})
	require.NoError(t, err)
	resp := c.ask(kmsg.NewPtrDescribeClusterRequest()).(*kmsg.DescribeClusterResponse)
	require.Len(t, resp.Brokers, 2)
	require.Equal(t, "k8.example", resp.Brokers[1].Host)
	require.EqualValues(t, -1, resp.ControllerID) // in truth this node is alone, and nobody leads a cluster
	var row engine.AdminRow
	require.Eventually(t, func() bool {
		var ok bool
		row, ok = n.engine.AdminRow(format.SystemTenant, format.AdminKafkaBroker, "7")
		return ok
	}, patience, time.Millisecond)
	require.Equal(t, `{"v":1,"rack":"east","listeners":{"PLAINTEXT":"`+n.addr+`"}}`, string(row.Value))
}

func FuzzBrokerRow(f *testing.F) {
	f.Add("1", []byte(`{"v":1,"listeners":{"PLAINTEXT":"a:1"}}`))
	f.Fuzz(func(t *testing.T, name string, b []byte) {
		if r, err := decodeBroker(name, b); err == nil && r.ID < 1 {
			t.Error(r.ID)
		}
	})
}

// Goal: a cluster says who is there.
func TestCluster(t *testing.T) {
	n := start(t, func(o *Options) {
		o.NodeID = 2
		o.Brokers = func() ([]Broker, int32) {
			return []Broker{{ID: 3, Addresses: map[string]string{"PLAINTEXT": "k3.example:9093"}, Rack: "r"}, {ID: 2},
				{ID: 1, Addresses: map[string]string{"SSL": "k1.example:1"}}}, 3
		}
	})
	c := n.dial()
	req := kmsg.NewPtrDescribeClusterRequest()
	req.Version, req.EndpointType = 2, 1
	resp := c.ask(req).(*kmsg.DescribeClusterResponse)
	require.EqualValues(t, 3, resp.ControllerID)
	require.Len(t, resp.Brokers, 2) // broker 1 has no listener of this name
	require.EqualValues(t, 2, resp.Brokers[0].NodeID)
	require.Equal(t, "k3.example", resp.Brokers[1].Host)
	require.EqualValues(t, 9093, resp.Brokers[1].Port)
	req.EndpointType = 2
	require.Equal(t, kerr.MismatchedEndpointType.Code, c.ask(req).(*kmsg.DescribeClusterResponse).ErrorCode)

	topic := topicsOf(c, 12, true, "t")[0]
	require.Equal(t, []int32{1, 2, 3}, topic.Partitions[0].Replicas)
	require.EqualValues(t, 3, topic.Partitions[0].Leader)

	q := kmsg.NewPtrDescribeQuorumRequest()
	q.Version = 2
	q.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: quorumTopic, Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{}, {Partition: 1}}}}
	quorum := c.ask(q).(*kmsg.DescribeQuorumResponse)
	p := quorum.Topics[0].Partitions
	require.EqualValues(t, 3, p[0].LeaderID)
	require.Positive(t, p[0].HighWatermark)
	require.Len(t, p[0].CurrentVoters, 3)
	require.Equal(t, kerr.UnknownTopicOrPartition.Code, p[1].ErrorCode)
	require.Len(t, quorum.Nodes, 2)
}
