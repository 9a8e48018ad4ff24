package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/enginetest"
	"queen/engine/enginetest/memnode"
	"queen/engine/format"
	"queen/engine/vfs"
)

func openGroup(t testing.TB, fs vfs.FS, c clock.Clock, g format.RaftGroup) *engine.Node {
	t.Helper()
	n, err := engine.OpenGroup(testConfig(fs, c, uint64(g)), g)
	require.NoError(t, err)
	return n
}

// TestConformanceOfAnotherGroup: no rule depends on a node being raft group 1.
func TestConformanceOfAnotherGroup(t *testing.T) {
	if testing.Short() {
		t.Skip("the suite runs on group 1")
	}
	enginetest.Run(t, func(t *testing.T, c *clock.Fake) engine.Engine { return openGroup(t, vfs.NewMem(), c, 2) },
		enginetest.Options{Settle: func(e engine.Engine) { e.(*engine.Node).Settle() }})
}

// TestRandomOfAnotherGroup: neither does what a node finds after a stop or a crash.
func TestRandomOfAnotherGroup(t *testing.T) {
	if testing.Short() {
		t.Skip("the list is played on group 1")
	}
	enginetest.RandomTest(t, enginetest.RandomOptions{
		Open: func(seed uint64) enginetest.Target {
			return memnode.Open(memnode.Options{Seed: (9000 + seed) * 1000,
				Open: func(cfg engine.Config) (*engine.Node, error) { return engine.OpenGroup(cfg, 2) }})
		},
		Seed: *randomSeed, Ops: listed(*randomOps / 2), Crashes: listed(*randomCrashes),
	})
}

// TestIDsOfAnotherGroup: ids that route by themselves name the group, before a restart and after one, and leases outlive the
// restart.
func TestIDsOfAnotherGroup(t *testing.T) {
	ctx, fs, c := context.Background(), vfs.NewMem(), clock.NewFake(1_700_000_000_000_000)
	n := openGroup(t, fs, c, 2)
	_, err := n.Catalog().Configure(ctx, someone, engine.ConfigureRequest{Queue: "q"})
	require.NoError(t, err)
	made := func(partition string, base format.Offset) {
		t.Helper()
		res, err := n.Do(ctx, someone, engine.Batch{Ops: []engine.Op{&engine.Append{Queue: "q", Partition: partition,
			Messages: []engine.Message{{TransactionID: partition, Payload: []byte("{}")}}}}})
		require.NoError(t, err)
		require.Nil(t, res[0].Err)
		p, err := n.Catalog().Partition(ctx, someone, "q", partition)
		require.NoError(t, err)
		require.EqualValues(t, 2, p.ID.RaftGroup(), "partition %d", p.ID)
		got, err := n.Records().InitProducer(ctx, someone, engine.ProducerInit{ProducerRef: engine.ProducerRef{ID: engine.NoProducer, Epoch: -1}})
		require.NoError(t, err)
		require.EqualValues(t, 2, got.ID&63, "producer %d", got.ID)
		out, err := n.Records().Produce(ctx, someone, []engine.RecordBatch{{Queue: "q", Partition: partition, Batch: recordsOf(t, head(), "a", "b")}})
		require.NoError(t, err)
		require.Nil(t, out[0].Err)
		require.Equal(t, base+1, out[0].Base)
	}
	made("first", 0)
	d, err := n.Pop(ctx, someone, engine.PopRequest{Scope: engine.Scope{Queue: "q", Partition: "first", Pinned: true}, Lease: time.Hour})
	require.NoError(t, err)
	require.NotNil(t, d)
	lease, part := d.Lease, d.Claims[0].PartitionID
	for _, err := range d.Messages() {
		require.NoError(t, err)
	}
	d.Delivered()
	require.NoError(t, n.Close(ctx))

	n = openGroup(t, fs, c, 2)
	made("second", 0)
	row, live, err := n.Inspect().Lease(ctx, someone, lease, part)
	require.NoError(t, err)
	require.True(t, live, "the restart ended the lease")
	require.EqualValues(t, 0, row.First)
	res, err := n.Do(ctx, someone, engine.Batch{Ops: []engine.Op{&engine.Ack{Partition: part, Lease: lease, TransactionID: "first", Status: format.AckCompleted}}})
	require.NoError(t, err)
	require.Nil(t, res[0].Err)
	require.NoError(t, n.Close(ctx))
}
