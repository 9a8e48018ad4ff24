package frontendkafka

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
	"queen/engine/format"
)

// twin makes a queue that is called as the internal topic is, with records in partition 0 and a position of group g, and
// gives what checks that nobody touched it. Kafka clients must not meet it.
func (n *testNode) twin() (untouched func()) {
	n.t.Helper()
	n.push(offsetsTopic, "0", 3, 10)
	ctx, ref := context.Background(), engine.PartitionRef{Queue: offsetsTopic, Partition: "0"}
	bad, err := n.engine.Records().CommitOffsets(ctx, n.caller(), engine.GroupCommit{Group: "g", Producer: engine.ProducerRef{ID: engine.NoProducer},
		Positions: []engine.GroupPosition{{Queue: offsetsTopic, Partition: "0", Offset: 2, LeaderEpoch: -1}}})
	require.NoError(n.t, err)
	for _, e := range bad {
		require.Nil(n.t, e)
	}
	made, err := n.engine.Catalog().Topic(ctx, n.caller(), offsetsTopic)
	require.NoError(n.t, err)
	return func() {
		n.t.Helper()
		now, err := n.engine.Catalog().Topic(ctx, n.caller(), offsetsTopic)
		require.NoError(n.t, err)
		require.Equal(n.t, made, now)
		at, err := n.engine.Records().RecordOffsets(ctx, n.caller(), []engine.RecordOffsetQuery{
			{Queue: offsetsTopic, Partition: "0", Kind: engine.RecordEarliest}, {Queue: offsetsTopic, Partition: "0", Kind: engine.RecordLatest}})
		require.NoError(n.t, err)
		require.Equal(n.t, []format.Offset{0, 3}, []format.Offset{at[0].Offset, at[1].Offset})
		rows, err := n.engine.Records().Committed(ctx, n.caller(), "g", []engine.PartitionRef{ref})
		require.NoError(n.t, err)
		require.EqualValues(n.t, 2, rows[0].Offset)
		_, ok := n.f.rows.AdminRow(n.caller().Tenant, format.AdminKafkaConfig, ofTopic+offsetsTopic)
		require.False(n.t, ok)
	}
}

// Goal: the internal topic is listed as Kafka lists it, marked as internal, in every version, once, and the same on every
// node; other names that begin so are unknown.
func TestInternalTopicIsListed(t *testing.T) {
	n := start(t, nil)
	n.twin()
	n.topic("t", 1)
	c := n.dial()
	for v := range int16(14) {
		for _, names := range [][]string{nil, {"t", offsetsTopic}} {
			got := topicsOf(c, v, true, names...)
			require.Len(t, got, 2)
			require.Equal(t, "t", *got[0].Topic)
			require.False(t, got[0].IsInternal)
			require.Equal(t, offsetsTopic, *got[1].Topic)
			require.Zero(t, got[1].ErrorCode)
			require.Equal(t, v >= 1, got[1].IsInternal)
			require.Len(t, got[1].Partitions, 50)
			if v >= 10 {
				require.Equal(t, "consumer_offsets", string(got[1].TopicID[:]))
			}
		}
		require.Equal(t, kerr.UnknownTopicOrPartition.Code, topicsOf(c, v, true, "__transaction_state")[0].ErrorCode)
	}
	byID := kmsg.NewPtrMetadataRequest()
	byID.Version, byID.Topics = 12, []kmsg.MetadataRequestTopic{{TopicID: theOffsetsTopic.id}}
	require.Equal(t, offsetsTopic, *c.ask(byID).(*kmsg.MetadataResponse).Topics[0].Topic)

	pages := kmsg.NewPtrDescribeTopicPartitionsRequest()
	for _, named := range [][]kmsg.DescribeTopicPartitionsRequestTopic{nil, {{Topic: "t"}, {Topic: offsetsTopic}}} {
		pages.Topics = named
		got := c.ask(pages).(*kmsg.DescribeTopicPartitionsResponse).Topics
		require.Len(t, got, 2)
		require.Equal(t, offsetsTopic, *got[0].Topic)
		require.True(t, got[0].IsInternal)
		require.Len(t, got[0].Partitions, 50)
		require.False(t, got[1].IsInternal)
	}

	dirs := kmsg.NewPtrDescribeLogDirsRequest()
	dirs.Version, dirs.Topics = 4, []kmsg.DescribeLogDirsRequestTopic{{Topic: offsetsTopic, Partitions: []int32{0, 50}}}
	sizes := c.ask(dirs).(*kmsg.DescribeLogDirsResponse).Dirs[0].Topics[0].Partitions
	require.Len(t, sizes, 1)
	require.Zero(t, sizes[0].Size)

	described := kmsg.NewPtrDescribeConfigsRequest()
	described.Version = 4
	described.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: aTopic, ResourceName: offsetsTopic, ConfigNames: []string{cleanupPolicy}}}
	found := c.ask(described).(*kmsg.DescribeConfigsResponse).Resources[0]
	require.Zero(t, found.ErrorCode)
	require.Equal(t, "compact", *found.Configs[0].Value)
	require.Equal(t, kmsg.ConfigSourceDynamicTopicConfig, found.Configs[0].Source)
}

// Goal: partitions of the internal topic begin and end at 0 and hold nothing, whatever a queue of its name holds.
func TestInternalTopicIsEmpty(t *testing.T) {
	n := start(t, nil)
	n.twin()
	c := n.dial()
	for _, at := range []int64{timeLatest, timeEarliest, timeEarliestLocal} {
		for isolation := range int8(2) {
			got := c.listOffset(11, isolation, offsetsTopic, 0, at)
			require.Zero(t, got.ErrorCode)
			require.Zero(t, got.Offset)
		}
	}
	for _, at := range []int64{0, timeMax, timeLatestTiered} {
		got := c.listOffset(11, 0, offsetsTopic, 0, at)
		require.Zero(t, got.ErrorCode)
		require.EqualValues(t, -1, got.Offset)
	}
	require.Equal(t, kerr.UnknownTopicOrPartition.Code, c.listOffset(11, 0, offsetsTopic, 50, timeLatest).ErrorCode)

	for _, version := range []int16{4, 12, 13, 18} {
		req := fetchRequest(version, offsetsTopic, 0, 49, 50)
		req.Topics[0].TopicID = theOffsetsTopic.id
		req.Topics[0].Partitions[0].LastFetchedEpoch = 0
		req.Topics[0].Partitions[1].FetchOffset = 1
		parts := c.fetch(req).Topics[0].Partitions
		require.Zero(t, parts[0].ErrorCode)
		require.Empty(t, parts[0].RecordBatches)
		require.Zero(t, parts[0].HighWatermark)
		require.Zero(t, parts[0].LastStableOffset)
		require.Equal(t, kerr.OffsetOutOfRange.Code, parts[1].ErrorCode)
		require.NotZero(t, parts[2].ErrorCode)
	}

	ends := kmsg.NewPtrOffsetForLeaderEpochRequest()
	ends.Version = 4
	ends.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: offsetsTopic,
		Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{{CurrentLeaderEpoch: -1, LeaderEpoch: 1}}}}
	end := c.ask(ends).(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions[0]
	require.Zero(t, end.ErrorCode)
	require.Zero(t, end.EndOffset)
	require.EqualValues(t, 1, end.LeaderEpoch)

	batch := c.transactional("x").batch("a")
	_, err := n.engine.Records().Produce(context.Background(), n.caller(),
		[]engine.RecordBatch{{Queue: offsetsTopic, Partition: "0", Batch: batch, TransactionalID: "x", Implicit: true}})
	require.NoError(t, err)
	producers := kmsg.NewPtrDescribeProducersRequest()
	producers.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: offsetsTopic, Partitions: []int32{0}}}
	writers := c.ask(producers).(*kmsg.DescribeProducersResponse).Topics[0].Partitions[0]
	require.Zero(t, writers.ErrorCode)
	require.Empty(t, writers.ActiveProducers)
}

// Goal: a fetch of the internal topic asks the engine nothing and watches nothing, in a session and without one, and does not
// end a wait for other topics early.
func TestInternalTopicCostsNothing(t *testing.T) {
	n, fake := startFake(t, nil)
	n.topic("t", 1)
	c, p := n.dial(), n.dial()
	var all []int32
	for i := range int32(offsetsWidth) {
		all = append(all, i)
	}
	asked := func() (looked, watched int) {
		fake.mu.Lock()
		defer fake.mu.Unlock()
		for w := range fake.watches {
			watched += len(w.watched)
		}
		return fake.looked, watched
	}
	for _, version := range []int16{13, 12} {
		open := fetchRequest(version, offsetsTopic, all...)
		open.SessionEpoch, open.Topics[0].TopicID = 0, theOffsetsTopic.id
		id := c.fetch(open).SessionID
		require.Empty(t, c.fetch(incremental(version, id, 1)).Topics)
		looked, watched := asked()
		require.Zero(t, looked)
		require.Zero(t, watched)

		if version >= fetchIDs {
			continue
		}
		next := incremental(version, id, 2)
		next.Topics, next.MaxWaitMillis = fetchRequest(version, "t", 0).Topics, int32(patience.Milliseconds())
		c.send(next)
		require.Eventually(t, func() bool { return n.f.parked.Load() == 1 }, patience, pollEvery)
		p.produce("t", 0, records(t, nil, "x"))
		require.Equal(t, []string{"t/0+"}, fetched(c.receive(next).(*kmsg.FetchResponse)))
	}
}

// Goal: nobody writes to the internal topic, makes, deletes or changes it, by name or by id, and a queue of its name is not
// what such a request meets.
func TestInternalTopicIsFixed(t *testing.T) {
	n := start(t, nil)
	untouched := n.twin()
	c := n.dial()
	name, id, refused := offsetsTopic, theOffsetsTopic.id, kerr.InvalidTopicException.Code

	require.Equal(t, refused, c.produced(9, 1, name, 0, records(t, nil, "x")).ErrorCode)
	require.Equal(t, kerr.UnknownTopicOrPartition.Code, c.produced(9, 1, name, 50, records(t, nil, "x")).ErrorCode)
	byID := produceRequest(13, 1, "", 0, records(t, nil, "x"))
	byID.Topics[0].TopicID = id
	require.Equal(t, refused, c.ask(byID).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode)
	n.topic("t", 1)
	x := c.transactional("x")
	for version := range int16(4) {
		require.Equal(t, []int16{kerr.TopicAuthorizationFailed.Code, kerr.TopicAuthorizationFailed.Code}, x.add(version, name, 0, 50))
	}
	both := kmsg.NewPtrAddPartitionsToTxnRequest()
	both.Version, both.TransactionalID, both.ProducerID, both.ProducerEpoch = 3, x.id, x.pid, x.epoch
	both.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: "t", Partitions: []int32{0}}, {Topic: name, Partitions: []int32{0}}}
	added := c.ask(both).(*kmsg.AddPartitionsToTxnResponse).Topics
	require.Equal(t, []int16{kerr.OperationNotAttempted.Code, kerr.TopicAuthorizationFailed.Code},
		[]int16{added[0].Partitions[0].ErrorCode, added[1].Partitions[0].ErrorCode})
	require.Equal(t, []int16{0}, x.add(3, "t", 0), "the producer goes on")

	create := kmsg.NewPtrCreateTopicsRequest()
	create.Version = 7
	create.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: name, NumPartitions: 1, ReplicationFactor: 1}}
	for _, create.ValidateOnly = range []bool{true, false} {
		require.Equal(t, kerr.TopicAlreadyExists.Code, c.ask(create).(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode)
	}
	widen := kmsg.NewPtrCreatePartitionsRequest()
	widen.Version, widen.Topics = 3, []kmsg.CreatePartitionsRequestTopic{{Topic: name, Count: 60}}
	require.Equal(t, refused, c.ask(widen).(*kmsg.CreatePartitionsResponse).Topics[0].ErrorCode)
	empty := kmsg.NewPtrDeleteRecordsRequest()
	empty.Version, empty.TimeoutMillis = 2, 10_000
	empty.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: name, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: -1}}}}
	require.Equal(t, refused, c.ask(empty).(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0].ErrorCode)

	alter := kmsg.NewPtrAlterConfigsRequest()
	alter.Version = 2
	alter.Resources = []kmsg.AlterConfigsRequestResource{{ResourceType: aTopic, ResourceName: name,
		Configs: []kmsg.AlterConfigsRequestResourceConfig{{Name: retentionMs, Value: kmsg.StringPtr("1")}}}}
	step := kmsg.NewPtrIncrementalAlterConfigsRequest()
	step.Version = 1
	step.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: aTopic, ResourceName: name,
		Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "segment.ms", Value: kmsg.StringPtr("1")}}}}
	for _, only := range []bool{true, false} {
		alter.ValidateOnly, step.ValidateOnly = only, only
		require.Equal(t, refused, c.ask(alter).(*kmsg.AlterConfigsResponse).Resources[0].ErrorCode)
		require.Equal(t, refused, c.ask(step).(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode)
	}

	remove := kmsg.NewPtrDeleteTopicsRequest()
	remove.Version, remove.TimeoutMillis = 6, 10_000
	remove.Topics = []kmsg.DeleteTopicsRequestTopic{{Topic: kmsg.StringPtr(name)}, {TopicID: id}}
	for _, got := range c.ask(remove).(*kmsg.DeleteTopicsResponse).Topics {
		require.Equal(t, refused, got.ErrorCode)
		require.Contains(t, *got.ErrorMessage, name)
	}
	untouched()
}

// Goal: a position in the internal topic is taken where nothing has to be kept for it and refused where something would;
// with others it does them no harm, and a queue of the same name keeps its own.
func TestInternalTopicPositions(t *testing.T) {
	n := start(t, nil)
	untouched := n.twin()
	n.topic("t", 4)
	c := n.dial()
	long := string(bytes.Repeat([]byte("x"), format.MaxPositionMetadata+1))
	for version := int16(2); version <= 10; version++ {
		for _, at := range []struct {
			partition int32
			offset    int64
			note      string
			want      *kerr.Error
		}{{0, 0, "", nil}, {49, 0, "", nil}, {50, 0, "", kerr.UnknownTopicOrPartition}, {0, 3, "", kerr.InvalidRequest},
			{0, 0, "note", kerr.OffsetMetadataTooLarge}, {0, 0, long, kerr.OffsetMetadataTooLarge}} {
			req := commitRequest(version, offsetsTopic, theOffsetsTopic.id, at.partition, at.offset, &at.note)
			want := int16(0)
			if at.want != nil {
				want = at.want.Code
			}
			require.Equal(t, want, c.ask(req).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode, "%+v", at)
		}
	}
	both := commitRequest(9, offsetsTopic, theOffsetsTopic.id, 0, 0, nil)
	both.Topics = append(both.Topics, commitRequest(9, "t", [16]byte{}, 2, 7, nil).Topics...)
	for _, got := range c.ask(both).(*kmsg.OffsetCommitResponse).Topics {
		require.Zero(t, got.Partitions[0].ErrorCode)
	}
	stale := commitRequest(9, offsetsTopic, theOffsetsTopic.id, 0, 0, nil)
	stale.MemberID, stale.Generation = "nobody", 4
	require.NotZero(t, c.ask(stale).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode)
	x := c.transactional("x")
	txn := kmsg.NewPtrTxnOffsetCommitRequest()
	txn.Version, txn.TransactionalID, txn.Group, txn.ProducerID, txn.ProducerEpoch, txn.Generation = 5, x.id, "g", x.pid, x.epoch, -1
	txn.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: offsetsTopic, Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{{}, {Offset: 3}}}}
	codes := c.ask(txn).(*kmsg.TxnOffsetCommitResponse).Topics[0].Partitions
	require.Zero(t, codes[0].ErrorCode)
	require.Equal(t, kerr.InvalidRequest.Code, codes[1].ErrorCode)

	fetch := kmsg.NewPtrOffsetFetchRequest()
	fetch.Version = 9
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, g.Topics = "g", []kmsg.OffsetFetchRequestGroupTopic{{Topic: offsetsTopic, Partitions: []int32{0, 49}}}
	fetch.Groups = append(fetch.Groups, g)
	named := c.ask(fetch).(*kmsg.OffsetFetchResponse).Groups[0]
	require.Zero(t, named.ErrorCode)
	for _, p := range named.Topics[0].Partitions {
		require.Zero(t, p.ErrorCode)
		require.EqualValues(t, -1, p.Offset)
	}
	fetch.Groups[0].Topics = nil
	all := c.ask(fetch).(*kmsg.OffsetFetchResponse).Groups[0].Topics
	require.Len(t, all, 1)
	require.Equal(t, "t", all[0].Topic)

	forget := kmsg.NewPtrOffsetDeleteRequest()
	forget.Group = "g"
	forget.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: offsetsTopic, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{}}}}
	forgot := c.ask(forget).(*kmsg.OffsetDeleteResponse)
	require.Zero(t, forgot.ErrorCode)
	require.Zero(t, forgot.Topics[0].Partitions[0].ErrorCode)
	untouched()
}

// Goal: members of groups of both protocols hold partitions of the internal topic, by name and by regular expression, and
// native consumers of the group see nothing of that, whatever their queue is called.
func TestInternalTopicInGroups(t *testing.T) {
	n, ctx := start(t, nil), context.Background()
	n.twin()
	c := n.dial()
	shared := n.f.Shared(n.engine, false)
	unseen := func(group string) {
		t.Helper()
		d, err := shared.Pop(ctx, n.caller(), engine.PopRequest{Scope: engine.Scope{Queue: offsetsTopic}, Group: group, Batch: 1})
		require.NoError(t, err)
		if d != nil {
			d.Abandon()
		}
		rows, err := shared.Catalog().Groups(ctx, n.caller())
		require.NoError(t, err)
		for i := range rows {
			require.Empty(t, rows[i].Members)
		}
	}
	beat := func(group string, names []string, regex *string) *kmsg.ConsumerGroupHeartbeatResponse {
		req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		req.Version, req.Group, req.MemberID = 1, group, "11111111-2222-4333-8444-555555555555"
		req.RebalanceTimeoutMillis, req.SubscribedTopicNames, req.SubscribedTopicRegex = 10_000, names, regex
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		resp := c.ask(req).(*kmsg.ConsumerGroupHeartbeatResponse)
		require.Zero(t, resp.ErrorCode)
		return resp
	}
	for group, how := range map[string]struct {
		names []string
		regex *string
	}{"named": {[]string{offsetsTopic}, nil}, "matched": {nil, kmsg.StringPtr("__consumer.*")}} {
		got := beat(group, how.names, how.regex).Assignment
		require.NotNil(t, got)
		require.Len(t, got.Topics, 1)
		require.Equal(t, theOffsetsTopic.id, got.Topics[0].TopicID)
		require.Len(t, got.Topics[0].Partitions, offsetsWidth)
		describe := kmsg.NewPtrConsumerGroupDescribeRequest()
		describe.Groups = []string{group}
		row := c.ask(describe).(*kmsg.ConsumerGroupDescribeResponse).Groups[0]
		require.Equal(t, offsetsTopic, row.Members[0].Assignment.TopicPartitions[0].Topic)
		unseen(group)
	}
	if got := beat("part", nil, kmsg.StringPtr("__consumer")).Assignment; got != nil {
		require.Empty(t, got.Topics, "an expression matches whole names")
	}

	join := kmsg.NewPtrJoinGroupRequest()
	join.Version, join.Group, join.ProtocolType, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = 2, "classic", "consumer", 6_000, 6_000
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
	joined := c.ask(join).(*kmsg.JoinGroupResponse)
	require.Zero(t, joined.ErrorCode)
	told := kmsg.NewConsumerMemberAssignment()
	told.Topics = []kmsg.ConsumerMemberAssignmentTopic{{Topic: offsetsTopic, Partitions: []int32{0, 1}}}
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Version, sync.Group, sync.MemberID, sync.Generation = 2, "classic", joined.MemberID, joined.Generation
	sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: joined.MemberID, MemberAssignment: told.AppendTo(nil)}}
	require.Zero(t, c.ask(sync).(*kmsg.SyncGroupResponse).ErrorCode)
	unseen("classic")
}
