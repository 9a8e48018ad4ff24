package frontendkafka

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
)

// topicsOf asks for topics by name; nil is all.
func topicsOf(c *raw, version int16, create bool, names ...string) []kmsg.MetadataResponseTopic {
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.AllowAutoTopicCreation = version, create
	for _, name := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, t)
	}
	return c.ask(req).(*kmsg.MetadataResponse).Topics
}

// Goal: metadata tells of queues at once, with a width and an id that stay.
func TestMetadata(t *testing.T) {
	n := start(t, nil)
	c := n.dial()
	_, err := n.engine.Do(context.Background(), n.caller(), engine.Batch{Ops: []engine.Op{
		&engine.Append{Queue: "native", Partition: "Default", Messages: []engine.Message{{Payload: []byte("1")}}}}})
	require.NoError(t, err)
	for v := range int16(14) {
		got := topicsOf(c, v, false, "native")
		require.Len(t, got, 1)
		require.Zero(t, got[0].ErrorCode)
		require.Len(t, got[0].Partitions, 4)
		require.Equal(t, []int32{1}, got[0].Partitions[3].Replicas)
		require.Equal(t, v >= 10, got[0].TopicID != [16]byte{})
		require.Len(t, topicsOf(c, v, false), 2, "all, and the internal one")
		if v >= 1 && v != 0 {
			name := fmt.Sprintf("new-%d", v)
			want := int16(0)
			if v >= 4 {
				want = kerr.UnknownTopicOrPartition.Code
			}
			got := topicsOf(c, v, false, name)
			require.Equal(t, want, got[0].ErrorCode, "v%d", v)
			require.Zero(t, topicsOf(c, v, true, name)[0].ErrorCode)
			_, err := n.engine.Catalog().DeleteQueue(context.Background(), n.caller(), name)
			require.NoError(t, err)
		}
	}

	id := topicsOf(c, 13, false, "native")[0].TopicID
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 12
	req.Topics = []kmsg.MetadataRequestTopic{{TopicID: id}, {TopicID: [16]byte{1}}}
	by := c.ask(req).(*kmsg.MetadataResponse).Topics
	require.Equal(t, "native", *by[0].Topic)
	require.Equal(t, kerr.UnknownTopicID.Code, by[1].ErrorCode)
	require.Nil(t, by[1].Topic)

	for name, want := range map[string]*kerr.Error{"__x": kerr.UnknownTopicOrPartition, "a/b": kerr.InvalidTopicException,
		"": kerr.InvalidTopicException, "..": kerr.InvalidTopicException} {
		require.Equal(t, want.Code, topicsOf(c, 9, true, name)[0].ErrorCode, "%q", name)
	}
}

// Goal: a topic that was made again is another one.
func TestTopicID(t *testing.T) {
	n := start(t, nil)
	c := n.dial()
	first := topicsOf(c, 12, true, "again")[0].TopicID
	require.Equal(t, first, topicsOf(c, 12, true, "again")[0].TopicID)
	_, err := n.engine.Catalog().DeleteQueue(context.Background(), n.caller(), "again")
	require.NoError(t, err)
	require.NotEqual(t, first, topicsOf(c, 12, true, "again")[0].TopicID)
}

// Goal: an operator can switch creation off, and one request can not create without bound.
func TestAutoCreate(t *testing.T) {
	n := start(t, func(o *Options) { o.NoAutoCreate = true })
	require.Equal(t, kerr.UnknownTopicOrPartition.Code, topicsOf(n.dial(), 3, true, "x")[0].ErrorCode)

	n = start(t, nil)
	var names []string
	for i := range autoCreateMax + 1 {
		names = append(names, fmt.Sprintf("t%d", i))
	}
	got := topicsOf(n.dial(), 9, true, names...)
	require.Zero(t, got[autoCreateMax-1].ErrorCode)
	require.Equal(t, kerr.LeaderNotAvailable.Code, got[autoCreateMax].ErrorCode)
}
