package frontendkafka

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Goal: a partition that nobody leads says so.
func TestPartitionsWithoutLeader(t *testing.T) {
	n := start(t, func(o *Options) { o.Brokers = func() ([]Broker, int32) { return nil, -1 } })
	n.topic("t", 1)
	c := n.dial()
	p := topicsOf(c, 12, false, "t")[0].Partitions[0]
	require.EqualValues(t, -1, p.Leader)
	require.Equal(t, kerr.LeaderNotAvailable.Code, p.ErrorCode)
	pages := kmsg.NewPtrDescribeTopicPartitionsRequest()
	pages.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: "t"}}
	q := c.ask(pages).(*kmsg.DescribeTopicPartitionsResponse).Topics[0].Partitions[0]
	require.EqualValues(t, -1, q.LeaderID)
	require.Equal(t, kerr.LeaderNotAvailable.Code, q.ErrorCode)
}
