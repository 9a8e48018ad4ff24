package frontendkafka

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
	"queen/engine/format"
)

// interrupted keeps no row, and has somebody else write to the queue meanwhile.
type interrupted struct {
	engine.AdminStore
	meanwhile func(ctx context.Context)
}

func (s interrupted) SetAdmin(ctx context.Context, _ format.Tenant, _ engine.AdminChange) (bool, error) {
	s.meanwhile(ctx)
	return false, &engine.Error{Code: engine.CodeTimeout, Message: "in the test"}
}

// Goal: a topic is made with everything that a queue has an option for at once. When the rest of its configuration can not be
// kept it stays, with what was written to it meanwhile.
func TestTopicIsMadeWhole(t *testing.T) {
	var n *testNode
	rows := interrupted{meanwhile: func(ctx context.Context) {
		require.NoError(t, ctx.Err())
		n.push("t", "0", 1, 1)
	}}
	n = start(t, func(o *Options) { rows.AdminStore = o.Rows; o.Rows = rows })
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, 1000
	one := kmsg.NewCreateTopicsRequestTopic()
	one.Topic, one.NumPartitions, one.ReplicationFactor = "t", 2, -1
	for name, value := range map[string]string{cleanupPolicy: "compact,delete", retentionMs: "5000", maxMessageBytes: "5000"} {
		one.Configs = append(one.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: name, Value: &value})
	}
	req.Topics = append(req.Topics, one)
	got := n.dial().ask(req).(*kmsg.CreateTopicsResponse).Topics[0]
	require.Equal(t, kerr.RequestTimedOut.Code, got.ErrorCode)
	require.Contains(t, *got.ErrorMessage, "was made")
	info := n.info("t")
	require.EqualValues(t, 2, info.Options.KafkaPartitions)
	require.EqualValues(t, 5000, info.Options.RetentionMs)
	require.True(t, info.Options.CompactKeys)
	require.EqualValues(t, 1, end(n, "t", "0"))
}

// Goal: a topic that is made again is not kept from its configuration by what is left of the one before.
func TestTopicIsMadeAgain(t *testing.T) {
	n, ctx := start(t, nil), context.Background()
	for _, size := range []string{"5000", "6000"} {
		value := size
		_, err := n.admin().CreateTopic(ctx, 1, 1, map[string]*string{maxMessageBytes: &value}, "t")
		require.NoError(t, err)
		require.Equal(t, map[string]string{"5000": "5000", "6000": "6000"}[size], func() string {
			r, err := n.f.recordedOf(n.caller().Tenant, ofTopic+"t", n.info("t").Topic)
			require.NoError(t, err)
			return r.Set[maxMessageBytes]
		}())
		_, err = n.engine.Catalog().DeleteQueue(ctx, n.caller(), "t")
		require.NoError(t, err)
	}
}

// info is the queue behind a topic.
func (n *testNode) info(name string) engine.QueueInfo {
	n.t.Helper()
	info, err := n.engine.Catalog().Topic(context.Background(), n.caller(), name)
	require.NoError(n.t, err)
	return info
}
