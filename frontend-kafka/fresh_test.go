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

// behind is a node that knows of one queue what it was, until it catches up.
type behind struct {
	engine.Engine
	old *atomic.Pointer[engine.QueueInfo]
}

func (e behind) Catalog() engine.Catalog { return behindCatalog{e.Engine.Catalog(), e.old} }

type behindCatalog struct {
	engine.Catalog
	old *atomic.Pointer[engine.QueueInfo]
}

func (c behindCatalog) Topic(ctx context.Context, who engine.Caller, queue string) (engine.QueueInfo, error) {
	if old := c.old.Load(); old != nil && old.Name == queue {
		return *old, nil
	}
	return c.Catalog.Topic(ctx, who, queue)
}

func (c behindCatalog) TopicByID(ctx context.Context, who engine.Caller, id format.UUID) (engine.QueueInfo, error) {
	if old := c.old.Load(); old != nil && old.Topic == id {
		return *old, nil
	}
	return c.Catalog.TopicByID(ctx, who, id)
}

func (c behindCatalog) CatchUp(context.Context, engine.Caller) error {
	c.old.Store(nil)
	return nil
}

// behindOn is a node that is behind with topic t once fall is called.
func behindOn(t *testing.T) (n *testNode, fall func(engine.QueueInfo)) {
	var old atomic.Pointer[engine.QueueInfo]
	n = start(t, func(o *Options) { o.Engine = behind{o.Engine, &old} })
	return n, func(info engine.QueueInfo) { old.Store(&info) }
}

// Goal: a deletion means the life of a topic that it names: a node that is behind deletes by id nothing that was made since, and
// by name what is there.
func TestDeletionMeansOneLife(t *testing.T) {
	n, fall := behindOn(t)
	ctx, c := context.Background(), n.dial()
	n.topic("t", 1)
	first := n.info("t")
	_, err := n.engine.Catalog().DeleteQueue(ctx, n.caller(), "t")
	require.NoError(t, err)
	n.topic("t", 2)
	second := n.info("t")
	rows := recorded{}
	require.NoError(t, n.f.record(ctx, n.caller().Tenant, ofTopic+"t", second.Topic, rows.at, map[string]string{maxMessageBytes: "5000"}))
	require.NotEqual(t, first.Topic, second.Topic)
	del := func(topic kmsg.DeleteTopicsRequestTopic) kmsg.DeleteTopicsResponseTopic {
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.Version, req.Topics = 6, []kmsg.DeleteTopicsRequestTopic{topic}
		return c.ask(req).(*kmsg.DeleteTopicsResponse).Topics[0]
	}
	fall(first)
	require.Equal(t, kerr.UnknownTopicID.Code, del(kmsg.DeleteTopicsRequestTopic{TopicID: first.Topic}).ErrorCode)
	require.Equal(t, second, n.info("t"))
	// What is recorded of the second life is not forgotten with the first.
	n.f.forgetTopic(ctx, n.caller().Tenant, n.f.seen(first))
	kept, err := n.f.recordedOf(n.caller().Tenant, ofTopic+"t", second.Topic)
	require.NoError(t, err)
	require.NotEmpty(t, kept.Set)

	fall(first)
	got := del(kmsg.DeleteTopicsRequestTopic{Topic: kmsg.StringPtr("t")})
	require.Zero(t, got.ErrorCode)
	require.EqualValues(t, second.Topic, got.TopicID)
	_, err = n.engine.Catalog().Topic(ctx, n.caller(), "t")
	require.ErrorIs(t, err, &engine.Error{Code: engine.CodeUnknownQueue})
	_, ok := n.f.rows.AdminRow(n.caller().Tenant, format.AdminKafkaConfig, ofTopic+"t")
	require.False(t, ok)
}

// Goal: what was answered elsewhere is seen through a node that is behind: a topic that was widened, and one that was deleted and
// made again.
func TestTopicsAreFresh(t *testing.T) {
	n, fall := behindOn(t)
	ctx, c := context.Background(), n.dial()
	n.topic("t", 1)
	narrow := n.info("t")
	_, err := n.engine.Catalog().Configure(ctx, n.caller(), engine.ConfigureRequest{Queue: "t",
		Patch: format.QueueOptions{Set: format.OptKafkaPartitions, KafkaPartitions: 3}})
	require.NoError(t, err)

	fall(narrow)
	require.Len(t, topicsOf(c, 12, false, "t")[0].Partitions, 3)
	fall(narrow)
	pages := kmsg.NewPtrDescribeTopicPartitionsRequest()
	pages.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: "t"}}
	require.Len(t, c.ask(pages).(*kmsg.DescribeTopicPartitionsResponse).Topics[0].Partitions, 3)
	fall(narrow)
	require.Zero(t, c.produce("t", 2, records(t, nil, "a")).ErrorCode)
	require.Equal(t, kerr.UnknownTopicOrPartition.Code, c.produced(9, -1, "t", 3, records(t, nil, "a")).ErrorCode)
	fall(narrow)
	require.Zero(t, c.listOffset(5, 0, "t", 2, -1).ErrorCode)
	fall(narrow)
	widen := kmsg.NewPtrCreatePartitionsRequest()
	widen.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "t", Count: 2}}
	require.Equal(t, kerr.InvalidPartitions.Code, c.ask(widen).(*kmsg.CreatePartitionsResponse).Topics[0].ErrorCode, "it would be made narrower")

	require.NoError(t, n.f.apply(ctx, n.caller(), n.f.seen(n.info("t")), recorded{}, map[string]string{retentionMs: "5000"}))
	fall(narrow)
	configs := kmsg.NewPtrDescribeConfigsRequest()
	configs.Version = 4
	configs.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: aTopic, ResourceName: "t", ConfigNames: []string{retentionMs}}}
	require.Equal(t, "5000", *c.ask(configs).(*kmsg.DescribeConfigsResponse).Resources[0].Configs[0].Value)

	before := n.info("t")
	_, err = n.engine.Catalog().DeleteQueue(ctx, n.caller(), "t")
	require.NoError(t, err)
	n.topic("t", 2)
	fall(before)
	got := topicsOf(c, 12, false, "t")[0]
	require.EqualValues(t, n.info("t").Topic, got.TopicID)
	require.Len(t, got.Partitions, 2)
	fall(before)
	byID := produceRequest(13, 1, "", 2, records(t, nil, "a"))
	byID.Topics[0].TopicID = before.Topic
	require.Equal(t, kerr.UnknownTopicOrPartition.Code, func() int16 {
		byID.Topics[0].Partitions[0].Partition = 7
		return c.ask(byID).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode
	}(), "another life is not written to")
}
