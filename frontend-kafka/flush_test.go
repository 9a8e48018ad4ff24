package frontendkafka

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
)

// sendAll writes requests in one piece, so that they are all there when the first is answered.
func (r *raw) sendAll(reqs ...kmsg.Request) {
	r.t.Helper()
	var b []byte
	f := kmsg.NewRequestFormatter(kmsg.FormatterClientID("raw"))
	for i, req := range reqs {
		b = f.AppendRequest(b, req, r.correlation+int32(i)+1)
	}
	_, err := r.Write(b)
	require.NoError(r.t, err)
	r.correlation++
}

// Goal: the answer to a request does not wait for what is sent after it to have waited.
func TestAnswersBeforeWaiting(t *testing.T) {
	n := start(t, func(o *Options) { o.Groups.JoinDelay = time.Hour })
	n.topic("t", 1)
	versions := kmsg.NewPtrApiVersionsRequest()
	waits := fetchRequest(12, "t", 0)
	waits.MaxWaitMillis, waits.MinBytes = 600_000, 1<<20
	join := kmsg.NewPtrJoinGroupRequest()
	join.Version, join.Group, join.ProtocolType = 2, "g", "consumer"
	join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = 30_000, 30_000
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
	for _, second := range []kmsg.Request{waits, join} {
		c := n.dial()
		c.sendAll(versions, second)
		c.receive(versions)
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

// unreadable is an engine that can not read one position.
type unreadable struct{ engine.Records }

func (unreadable) Committed(_ context.Context, _ engine.Caller, _ string, refs []engine.PartitionRef) ([]engine.GroupOffset, error) {
	return []engine.GroupOffset{{Err: &engine.Error{Code: engine.CodeCorrupt}, PartitionRef: engine.PartitionRef{Queue: "t", Partition: "0"}}}, nil
}

// Goal: a position that can not be read refuses its group with a code that clients repeat.
func TestUnreadablePosition(t *testing.T) {
	n, fake := startFake(t, nil)
	n.topic("t", 1)
	fake.Records = unreadable{n.engine.Records()}
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
