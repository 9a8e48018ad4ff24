package frontendkafka

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// startFake serves over a fake.
func startFake(t testing.TB, tune func(*Options)) (*testNode, *fakeRecords) {
	var fake *fakeEngine
	n := start(t, func(o *Options) {
		fake = newFake(o.Engine)
		o.Engine = fake
		if tune != nil {
			tune(o)
		}
	})
	return n, &fake.records
}

func (n *testNode) topic(name string, width int32) {
	n.t.Helper()
	_, err := n.f.createTopic(context.Background(), n.caller(), name, width)
	require.NoError(n.t, err)
}

func patient(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// Goal: what a client produces under any codec is what another consumes, record for record, through several fetches.
func TestProduceConsume(t *testing.T) {
	n := start(t, nil)
	ctx := patient(t)
	for name, codec := range map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()} {
		t.Run(name, func(t *testing.T) {
			topic := "t-" + name
			n.topic(topic, 3)
			cl := n.client(kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(codec), kgo.ConsumeTopics(topic))
			want := map[string]bool{}
			for i := range 500 {
				v := fmt.Sprintf("value %d of %s", i, name)
				want[v] = true
				cl.Produce(ctx, &kgo.Record{Key: []byte(fmt.Sprint(i)), Value: []byte(v),
					Headers: []kgo.RecordHeader{{Key: "h", Value: []byte{byte(i)}}}}, func(_ *kgo.Record, err error) {
					if err != nil {
						t.Errorf("produce: %v", err)
					}
				})
			}
			require.NoError(t, cl.Flush(ctx))
			for len(want) > 0 {
				fs := cl.PollFetches(ctx)
				require.NoError(t, fs.Err())
				fs.EachRecord(func(r *kgo.Record) {
					require.True(t, want[string(r.Value)], "%s twice or never produced", r.Value)
					require.Len(t, r.Headers, 1)
					delete(want, string(r.Value))
				})
			}
		})
	}
}

// pollEvery is how often a test looks whether what must happen has.
const pollEvery = time.Millisecond
