package frontendkafka

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
)

// compacting is an engine whose segments are small and which looks after them all the time.
func compacting() engine.Config {
	return engine.Config{SegmentBytes: 1 << 20, MarkBytes: 64 << 10, MarkEvery: 20 * time.Millisecond, CheckpointBytes: 128 << 10,
		CheckpointEvery: 20 * time.Millisecond, RetentionEvery: 20 * time.Millisecond}
}

// table reads a topic of one partition from an offset on, up to the one that is known to stay.
func (n *testNode) table(name string, from, last int64, level kgo.IsolationLevel) (got []string) {
	n.t.Helper()
	cl := n.client(kgo.FetchIsolationLevel(level), kgo.FetchMaxWait(100*time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{name: {0: kgo.NewOffset().At(from)}}))
	defer cl.Close()
	for next := from; next <= last; {
		fs := cl.PollFetches(patient(n.t))
		require.NoError(n.t, fs.Err())
		fs.EachRecord(func(r *kgo.Record) {
			require.GreaterOrEqual(n.t, r.Offset, next)
			next = r.Offset + 1
			got = append(got, fmt.Sprintf("%d %s=%s", r.Offset, r.Key, r.Value))
		})
	}
	return got
}

// noise fills the log, so that its segments are closed.
func (n *testNode) noise(cl *kgo.Client, rng *rand.Rand) {
	n.t.Helper()
	for range 4 {
		b := make([]byte, 200_000)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		require.NoError(n.t, cl.ProduceSync(patient(n.t), &kgo.Record{Topic: "noise", Value: b}).FirstErr())
	}
}

// Goal: of keys that are written ten times over, under every codec and also in transactions that abort, a client reads the
// newest values in the end, at their offsets, from the start and from the middle, and deleted keys are gone.
func TestCompactedTopic(t *testing.T) {
	n := startOn(t, compacting(), nil)
	ctx, a := patient(t), n.admin()
	policy, ratio, keep := "compact", "0.01", "50"
	_, err := a.CreateTopic(ctx, 1, 1, map[string]*string{cleanupPolicy: &policy, minDirtyRatio: &ratio, deleteRetentionMs: &keep}, "table")
	require.NoError(t, err)
	n.topic("noise", 1)
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	const keys, rounds, deleted = 12, 10, 4
	var want []string
	at := int64(0)
	for round := range rounds {
		cl := n.client(kgo.DefaultProduceTopic("table"), kgo.ProducerBatchCompression(codecs[round%len(codecs)]),
			kgo.TransactionalID(fmt.Sprint("t", round)))
		for _, commit := range []bool{false, true} {
			require.NoError(t, cl.BeginTransaction())
			for k := range keys {
				r := kgo.KeySliceRecord([]byte(fmt.Sprint("k", k)), []byte(fmt.Sprint("v", round)))
				if k < deleted && round == rounds-1 {
					r.Value = nil
				}
				if !commit {
					r.Value = []byte("aborted")
				}
				require.NoError(t, cl.ProduceSync(ctx, r).FirstErr())
				if commit && round == rounds-1 && k >= deleted {
					want = append(want, fmt.Sprintf("%d k%d=v%d", at, k, round))
				}
				at++
			}
			require.NoError(t, cl.EndTransaction(ctx, kgo.TransactionEndTry(commit)))
			at++
		}
		cl.Close()
	}
	last := at - 2
	require.EqualValues(t, at, end(n, "table", "0"))
	cl, rng := n.client(), rand.New(rand.NewPCG(1, 2))
	require.ErrorIs(t, cl.ProduceSync(ctx, &kgo.Record{Topic: "table", Value: []byte("no key")}).FirstErr(), kerr.InvalidRecord)
	for {
		n.noise(cl, rng)
		if got := n.table("table", 0, last, kgo.ReadCommitted()); len(got) == len(want) || t.Failed() {
			require.Equal(t, want, got)
			break
		}
		require.NoError(t, ctx.Err(), "nothing was compacted")
	}
	for _, from := range []int64{1, 57, last - keys, last - 1} {
		got := n.table("table", from, last, kgo.ReadUncommitted())
		require.Subset(t, want, got)
		require.Equal(t, want[len(want)-1], got[len(got)-1])
	}
	offsets, err := a.ListEndOffsets(ctx, "table")
	require.NoError(t, err)
	require.Equal(t, at, offsets["table"][0].Offset)
	starts, err := a.ListStartOffsets(ctx, "table")
	require.NoError(t, err)
	require.Zero(t, starts["table"][0].Offset)
	first, err := a.ListOffsetsAfterMilli(ctx, 1, "table")
	require.NoError(t, err)
	require.Equal(t, at-1-keys+deleted, first["table"][0].Offset)
}

// Goal: what a topic's configuration says of compaction is what its queue does, and the other way round.
func TestCompactionConfig(t *testing.T) {
	n := start(t, nil)
	ctx, a := patient(t), n.admin()
	n.topic("c", 1)
	rule := func() (ms [3]int64, on bool, dirty int64) {
		q, err := n.engine.Catalog().Topic(ctx, n.caller(), "c")
		require.NoError(t, err)
		c := q.Options.Compaction()
		return [3]int64{int64(c.Tombstones / 1000), int64(c.MinLag / 1000), int64(c.MaxLag / 1000)}, c.On, c.Dirty
	}
	_, on, _ := rule()
	require.False(t, on)
	alter(t, a, "c", nil, set(cleanupPolicy, "compact,delete"), set(retentionMs, "5000"))
	ms, on, dirty := rule()
	require.Equal(t, []any{[3]int64{86_400_000, 0, 0}, true, int64(500)}, []any{ms, on, dirty})
	q, err := n.engine.Catalog().Topic(ctx, n.caller(), "c")
	require.NoError(t, err)
	require.EqualValues(t, 5, q.Options.RetentionSeconds)
	alter(t, a, "c", nil, set(deleteRetentionMs, "7"), set(minCompactionLag, "8"), set(maxCompactionLag, "9"), set(minDirtyRatio, "0.25"))
	ms, _, dirty = rule()
	require.Equal(t, []any{[3]int64{7, 8, 9}, int64(250)}, []any{ms, dirty})
	alter(t, a, "c", nil, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: maxCompactionLag}, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: minDirtyRatio})
	ms, _, dirty = rule()
	require.Equal(t, []any{[3]int64{7, 8, 0}, int64(500)}, []any{ms, dirty})
	alter(t, a, "c", nil, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: cleanupPolicy})
	_, on, _ = rule()
	require.False(t, on)

	// What others configure is told, and enforced.
	_, err = n.engine.Catalog().Configure(ctx, n.caller(), engine.ConfigureRequest{Queue: "c", Patch: compaction{on: true, tombstones: 3,
		minLag: 4, maxLag: 5, dirty: 10}.options()})
	require.NoError(t, err)
	got := configs(t, a, "c")
	require.Equal(t, []string{"compact,delete", "3", "4", "5", "0.01"}, []string{*got[cleanupPolicy].Value, *got[deleteRetentionMs].Value,
		*got[minCompactionLag].Value, *got[maxCompactionLag].Value, *got[minDirtyRatio].Value})
	require.Equal(t, kmsg.ConfigSourceDynamicTopicConfig, got[cleanupPolicy].Source)
	require.ErrorIs(t, n.client().ProduceSync(ctx, &kgo.Record{Topic: "c", Value: []byte("no key")}).FirstErr(), kerr.InvalidRecord)
}
