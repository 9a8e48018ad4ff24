package frontendkafka

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Goal: a client that asks nothing first is served at every version that is advertised, and the answer decodes.
func TestEveryVersion(t *testing.T) {
	n := start(t, nil)
	c := n.dial()
	for _, a := range table() {
		for v := a.min; v <= a.max; v++ {
			req := kmsg.RequestForKey(a.key)
			req.SetVersion(v)
			if fill := minimal[a.key]; fill != nil {
				fill(req)
			}
			c.ask(req)
		}
	}
}

// minimal makes requests of some keys sensible enough to be answered rather than refused by closing the connection.
var minimal = map[int16]func(kmsg.Request){
	produceKey: func(r kmsg.Request) { r.(*kmsg.ProduceRequest).Acks = 1 },
}

// Goal: what can not be served closes the connection and says why in one line.
func TestRefused(t *testing.T) {
	n := start(t, nil)
	for name, b := range map[string][]byte{
		"key":     {0x03, 0xe7, 0, 0, 0, 0, 0, 1, 0xff, 0xff},
		"version": {0, 3, 0, 99, 0, 0, 0, 1, 0xff, 0xff},
		"header":  {0, 3, 0, 0, 0, 0, 0, 1, 0x7f, 0xff},
		"body":    {0, 3, 0, 0, 0, 0, 0, 1, 0, 1, 'x', 0x7f, 0xff, 0xff, 0xff},
		"short":   {0, 3, 0},
	} {
		c := n.dial()
		c.frame(b)
		c.closed()
		require.NotEmpty(t, name)
	}
	for _, want := range []string{"(key 999)", "version 99: versions 0 to 13 are served", "client id \\\"x\\\"", "does not decode",
		"header is cut short"} {
		require.Contains(t, n.logged.String(), want)
	}
}

// Goal: sizes are bounded before memory is taken for them.
func TestFrameSizes(t *testing.T) {
	n := start(t, nil)
	for _, size := range []uint32{0, 1, 100<<20 + 1, 1 << 31, 1<<32 - 1} {
		c := n.dial()
		_, err := c.Write(binary.BigEndian.AppendUint32(nil, size))
		require.NoError(t, err)
		c.closed()
	}
	c := n.dial()
	_, err := c.Write(append(binary.BigEndian.AppendUint32(nil, otherFrame+1), 0, 3))
	require.NoError(t, err)
	c.closed()
	require.Contains(t, n.logged.String(), "the frame is refused")
}

// Goal: requests that were sent together are answered in their order.
func TestPipelining(t *testing.T) {
	n := start(t, nil)
	c := n.dial()
	var first int32
	const many = 3 * framesMax
	req := kmsg.NewPtrApiVersionsRequest()
	for range many {
		c.send(req)
	}
	for range many {
		first++
		got, _, err := c.body(false)
		require.NoError(t, err)
		require.Equal(t, first, got)
	}
}

// Goal: what a client sent before it closed is carried out.
func TestSentAndClosed(t *testing.T) {
	n := start(t, nil)
	for i := range 20 {
		c := n.dial()
		req := kmsg.NewPtrCreateTopicsRequest()
		req.Version = 5
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = fmt.Sprintf("t%d", i), 1, 1
		req.Topics = append(req.Topics, topic)
		c.send(req)
		require.NoError(t, c.Close())
		require.Eventually(t, func() bool {
			_, err := n.engine.Catalog().Topic(context.Background(), n.caller(), topic.Topic)
			return err == nil
		}, patience, time.Millisecond)
	}
}

// Goal: half a frame, silence, and silence before authenticating end a connection; work that is under way does not.
func TestTimeouts(t *testing.T) {
	n := start(t, func(o *Options) { o.FrameTimeout, o.IdleTimeout = 50*time.Millisecond, time.Second })
	c := n.dial()
	_, err := c.Write([]byte{0, 0, 0, 100, 0, 3})
	require.NoError(t, err)
	c.closed()
	require.Contains(t, n.logged.String(), "did not come in time")
	n.dial().closed()

	c = n.dial() // a fetch that waits longer than silence may last
	topicsOf(c, 4, true, "t")
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes, req.SessionEpoch = 4, 1500, 1, -1
	p := kmsg.NewFetchRequestTopicPartition()
	p.PartitionMaxBytes = 1
	req.Topics = []kmsg.FetchRequestTopic{{Topic: "t", Partitions: []kmsg.FetchRequestTopicPartition{p}}}
	require.Zero(t, c.ask(req).(*kmsg.FetchResponse).Topics[0].Partitions[0].ErrorCode)
	c.ask(kmsg.NewPtrApiVersionsRequest())

	n, _ = startSASL(t, newDoor(), func(o *Options) { o.FrameTimeout = 50 * time.Millisecond })
	n.dial().closed()
}

// Goal: large frames of all connections share a bound, and one that does not come costs nothing.
func TestBudget(t *testing.T) {
	n := start(t, func(o *Options) { o.FrameTimeout = 200 * time.Millisecond })
	produce := n.f.budget.produce
	held, err := produce.take(context.Background(), produce.size)
	require.NoError(t, err)
	c := n.dial()
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks = 9, -1
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = make([]byte, 2*smallFrame)
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: "t", Partitions: []kmsg.ProduceRequestTopicPartition{p}}}
	c.send(req)
	other := n.dial()
	other.ask(kmsg.NewPtrApiVersionsRequest()) // small ones pass
	held.give()
	c.receive(req)
	require.Eventually(t, func() bool {
		all, ok := produce.try(produce.size)
		all.give()
		return ok
	}, patience, time.Millisecond)
}

// Goal: the memory of a decoded request is bounded by its elements, not only by its bytes.
func TestProduceParts(t *testing.T) {
	for v := int16(3); v <= 13; v++ {
		for _, parts := range []int{1, produceParts - 1, produceParts} {
			req := kmsg.NewPtrProduceRequest()
			req.Version = v
			req.Topics = []kmsg.ProduceRequestTopic{{Topic: "t", Partitions: make([]kmsg.ProduceRequestTopicPartition, parts)}}
			req.Topics[0].Partitions[0].Records = []byte("records")
			err := checkProduce(v, req.AppendTo(nil))
			require.Equal(t, parts+1 > produceParts, err != nil, "v%d, %d: %v", v, parts, err)
		}
		many := kmsg.NewPtrProduceRequest()
		many.Version, many.Topics = v, make([]kmsg.ProduceRequestTopic, produceParts+1)
		require.Error(t, checkProduce(v, many.AppendTo(nil)))
	}
}

// Goal: a node that stops answers what it has read and lets connections go.
func TestShutdown(t *testing.T) {
	n := start(t, nil)
	c := n.dial()
	c.ask(kmsg.NewPtrApiVersionsRequest())
	require.Zero(t, n.f.Shutdown(context.Background()))
	c.closed()
}

// Goal: the number of connections is bounded.
func TestMaxConns(t *testing.T) {
	n := start(t, func(o *Options) { o.MaxConns = 1 })
	a := n.dial()
	a.ask(kmsg.NewPtrApiVersionsRequest())
	n.dial().closed()
	a.ask(kmsg.NewPtrApiVersionsRequest())
}
