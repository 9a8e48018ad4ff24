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
