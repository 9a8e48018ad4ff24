package frontendkafka

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Goal: a client that asks for much and stops reading is let go of with all that its answers hold, and disturbs nobody.
func TestClientStopsReading(t *testing.T) {
	n := start(t, func(o *Options) { o.FrameTimeout = 300 * time.Millisecond })
	n.topic("t", 1)
	c := n.dial()
	value := string(make([]byte, 512<<10))
	for range 16 {
		require.Zero(t, c.produced(9, 1, "t", 0, records(t, nil, value)).ErrorCode)
	}
	deaf := n.dial()
	req := fetchRequest(12, "t", 0)
	req.MaxBytes, req.Topics[0].Partitions[0].PartitionMaxBytes = 32<<20, 32<<20
	for range 8 { // 64 MiB of answers, more than any socket holds
		deaf.send(req)
	}
	require.Eventually(t, func() bool { return n.f.conns.len() == 1 }, patience, pollEvery)
	require.Zero(t, n.f.answers.held.Load())
	require.NotEmpty(t, c.fetch(req).Topics[0].Partitions[0].RecordBatches)
	c.ask(kmsg.NewPtrApiVersionsRequest())
}
