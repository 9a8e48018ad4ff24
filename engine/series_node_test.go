package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/format"
	"queen/engine/stats"
)

// Goal: what calls did is told by queue and by tenant, by the minute, and to nobody else.
func TestActivity(t *testing.T) {
	r := newRig(t)
	r.open()
	defer r.close()
	ctx := context.Background()
	pushed, err := r.node.Do(ctx, someone, engine.Batch{Ops: []engine.Op{
		&engine.Append{Queue: "q", Partition: "a", Messages: []engine.Message{{Payload: []byte("12")}, {Payload: []byte("3")}}},
		&engine.Append{Queue: "q", Partition: "b", Messages: []engine.Message{{Payload: []byte("4")}}},
		&engine.Append{Queue: "r", Partition: "a", Messages: []engine.Message{{Payload: []byte("5")}}}}})
	require.NoError(t, err)
	require.Nil(t, pushed[2].Err)
	r.clock.Advance(time.Minute)
	pop := func() *engine.Delivery {
		d, err := r.node.Pop(ctx, someone, engine.PopRequest{Scope: engine.Scope{Queue: "q"}, Group: "g", Partitions: 2,
			Start: engine.Start{Kind: format.StartAll}})
		require.NoError(t, err)
		return d
	}
	d := pop()
	require.Len(t, d.Claims, 2)
	require.Nil(t, pop())
	var acks []engine.Op
	for i := range d.Claims {
		acks = append(acks, &engine.Ack{Partition: d.Claims[i].PartitionID, Group: "g", Lease: d.Lease, HasOffset: true,
			Offset: d.Claims[i].Last, Status: []format.AckStatus{format.AckCompleted, format.AckRetry}[i]})
	}
	keyed := someone
	keyed.Key = "once"
	for range 2 { // the repeat is a request of that queue, too, though it settles nothing
		out, err := r.node.Do(ctx, keyed, engine.Batch{Ops: acks, Atomic: true})
		require.NoError(t, err)
		require.Nil(t, out[1].Err)
	}
	total := func(c engine.Caller, q format.QueueID) (all []stats.Counts) {
		points, _ := r.node.Activity(c, q, 0, format.Wall(r.clock.Now()))
		for _, p := range points {
			all = append(all, p.Counts)
		}
		return all
	}
	id := func(name string) format.QueueID {
		info, err := r.node.Catalog().Queue(ctx, someone, name)
		require.NoError(t, err)
		return info.ID
	}
	consumed := stats.Counts{stats.PopRequests: 1, stats.PopMessages: 3, stats.PopEmpty: 1, stats.AckRequests: 2,
		stats.AckSuccess: 1, stats.AckFailed: 1, stats.PopLag: 180_000_000, stats.PopLagMax: 60_000_000}
	require.Equal(t, []stats.Counts{{stats.PushRequests: 1, stats.PushMessages: 3, stats.PushBytes: 4}, consumed}, total(someone, id("q")))
	require.Equal(t, []stats.Counts{{stats.PushRequests: 1, stats.PushMessages: 1, stats.PushBytes: 1}, {}}, total(someone, id("r")))
	consumed[stats.Transactions] = 1
	require.Equal(t, []stats.Counts{{stats.PushRequests: 1, stats.PushMessages: 4, stats.PushBytes: 5}, consumed}, total(someone, 0))
	require.Empty(t, total(engine.Caller{Tenant: format.Tenant{7}}, id("q")))
}
