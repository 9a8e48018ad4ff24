package frontendkafka

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"queen/engine"
)

// Goal: a native push that makes a queue, and a Kafka subscription to it in the same instant: the record is seen, whoever came
// first, alone and as a group. How fast is for bench/kafka/instant to judge.
func TestPushAndSubscribeAtOnce(t *testing.T) {
	n := start(t, nil)
	rounds := 200
	if testing.Short() {
		rounds = 20
	}
	for i := range rounds {
		topic := fmt.Sprintf("t%d", i)
		opts := []kgo.Opt{kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.MetadataMinAge(10 * time.Millisecond),
			kgo.FetchMaxWait(50 * time.Millisecond)}
		if i%4 == 3 {
			opts = append(opts, kgo.ConsumerGroup(topic))
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		var pushing sync.WaitGroup
		pushing.Go(func() {
			_, err := n.engine.Do(ctx, n.caller(), engine.Batch{Ops: []engine.Op{
				&engine.Append{Queue: topic, Partition: "3", Messages: []engine.Message{{Payload: []byte(`{"n":1}`)}}}}})
			if err != nil {
				t.Errorf("push: %v", err)
			}
		})
		cl := n.client(opts...)
		got := cl.PollFetches(ctx)
		pushing.Wait()
		cancel()
		require.NoError(t, got.Err(), "round %d", i)
		require.Equal(t, 1, got.NumRecords(), "round %d", i)
		require.Equal(t, `{"n":1}`, string(got.Records()[0].Value))
		cl.Close()
	}
}
