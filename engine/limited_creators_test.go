package engine_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/auth"
	"queen/engine/clock"
	"queen/engine/format"
	"queen/engine/vfs"
)

// Goal: calls that create at the same moment do not pass a cap together, and none is refused that fits: of many creators
// as many succeed as the plan has room for, whichever way they create.
func TestCapsHoldAgainstEachOther(t *testing.T) {
	const creators = 24
	for name, create := range map[string]func(r *limitedRig, i int) error{
		"push": func(r *limitedRig, i int) error { return r.push(fmt.Sprint("q", i), "p", "x") },
		"configure": func(r *limitedRig, i int) error {
			_, err := r.held.Catalog().Configure(context.Background(), someone, engine.ConfigureRequest{Queue: fmt.Sprint("q", i)})
			return err
		},
		"pop": func(r *limitedRig, i int) error {
			_, err := r.held.Pop(context.Background(), someone, engine.PopRequest{Scope: engine.Scope{Queue: fmt.Sprint("q", i)}, Group: "g"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newLimited(t, "queues: 5")
			require.Equal(t, 5, r.race(creators, func(i int) error { return create(r, i) }, "queues"))
			require.Len(t, r.queues(), 5)
		})
	}
	r := newLimited(t, "partitions_per_queue: 7")
	require.NoError(t, r.push("q", "first", "x"))
	require.Equal(t, 6, r.race(creators, func(i int) error { return r.push("q", fmt.Sprint(i), "x") }, "partitions_per_queue"))
	info, err := r.free.Catalog().Queue(context.Background(), someone, "q")
	require.NoError(t, err)
	require.EqualValues(t, 7, info.Partitions)
	require.Equal(t, creators, newLimited(t, "queues: 1, partitions_per_queue: 1").raceOfOne(creators))
}

// race lets n calls go at once and counts those that succeed; the others are refused for a bound.
func (r *limitedRig) race(n int, call func(i int) error, bound string) int {
	r.Helper()
	start, passed := make(chan struct{}), atomic.Int64{}
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			<-start
			if errs[i] = call(i); errs[i] == nil {
				passed.Add(1)
			}
		})
	}
	close(start)
	all.Wait()
	for _, err := range errs {
		if err != nil {
			r.refused(err, engine.CodeQuotaExceeded, bound)
		}
	}
	return int(passed.Load())
}

// raceOfOne: all create the same queue, which is one.
func (r *limitedRig) raceOfOne(n int) int {
	return r.race(n, func(int) error { return r.push("q", "p", "x") }, "")
}

// Goal: what moves a dead letter is a message to the tenant's rate, one by one and in a job, which waits its turn.
func TestRedrivesAreHeldToTheRate(t *testing.T) {
	c := clock.NewFake(1_700_000_000_000_000)
	n, err := engine.OpenLocal(testConfig(vfs.NewMem(), c, 1))
	require.NoError(t, err)
	t.Cleanup(func() { _ = n.Close(context.Background()) })
	ctx := t.Context()
	for i := range 3 {
		_, err := n.Do(ctx, someone, engine.Batch{Ops: []engine.Op{&engine.Append{Queue: "q", Partition: "p",
			Messages: []engine.Message{{TransactionID: fmt.Sprint(i), Payload: []byte("x")}}}}})
		require.NoError(t, err)
		d, err := n.Pop(ctx, someone, engine.PopRequest{Scope: engine.Scope{Queue: "q"}, Group: "g", Start: engine.Start{Kind: format.StartAll}})
		require.NoError(t, err)
		out, err := n.Do(ctx, someone, engine.Batch{Ops: []engine.Op{&engine.Ack{Partition: d.Claims[0].PartitionID, Group: "g",
			Lease: d.Lease, TransactionID: fmt.Sprint(i), Status: format.AckDLQ}}})
		require.NoError(t, err)
		require.True(t, out[0].Ack.Filed)
	}
	plans, err := auth.ParsePlans([]byte("plans: {p: {messages_per_second: 1, messages_burst: 1}}"), "p")
	require.NoError(t, err)
	looks := atomic.Int64{}
	held := engine.Limit(n, auth.NewQuotas(func() *auth.Plans { return plans }, func() time.Time {
		looks.Add(1)
		return time.UnixMicro(c.Now())
	}))
	dead, err := n.Catalog().DeadLetters(ctx, someone, engine.DeadLetterFilter{Queue: "q"})
	require.NoError(t, err)
	_, err = held.Do(ctx, someone, engine.Batch{Ops: []engine.Op{&engine.Redrive{DeadLetter: dead[2].ID}}})
	require.NoError(t, err)
	_, err = held.Do(ctx, someone, engine.Batch{Ops: []engine.Op{&engine.Redrive{DeadLetter: dead[1].ID}}})
	require.ErrorIs(t, err, &engine.Error{Code: engine.CodeRateLimited})
	before := looks.Load()
	j, err := n.StartRedrive(ctx, someone, engine.RedriveRequest{Queue: "q"})
	require.NoError(t, err)
	got, err := n.RedriveJob(ctx, someone, j.ID)
	for err == nil && looks.Load() == before && got.State == engine.RedriveRunning { // until the job asks
		runtime.Gosched()
		got, err = n.RedriveJob(ctx, someone, j.ID)
	}
	require.NoError(t, err)
	require.Zero(t, got.Moved, "the job did not wait for the rate")
	for got.State == engine.RedriveRunning {
		c.Advance(100 * time.Millisecond)
		runtime.Gosched()
		got, err = n.RedriveJob(ctx, someone, j.ID)
		require.NoError(t, err)
	}
	require.EqualValues(t, 2, got.Moved)
	require.GreaterOrEqual(t, int64(got.Ended-got.Created), int64(time.Second/time.Microsecond))
}

// Goal: the switch of the key-value store pauses locks, whose permits are keys, but not what streams and traces keep
// (S-lock-10, S-mnt-5).
func TestSwitchOfKeys(t *testing.T) {
	r := newRig(t)
	r.open()
	defer r.close()
	ctx := t.Context()
	off := false
	lock := func(op format.LockOp, token uint64) error {
		_, err := r.node.Do(ctx, someone, engine.Batch{Ops: []engine.Op{&engine.Lock{Op: op, Name: "l", Token: token, TTL: time.Minute}}})
		return err
	}
	require.NoError(t, lock(format.LockAcquire, 0))
	held, err := r.node.Keyed().Locks(ctx, someone, []string{"l"})
	require.NoError(t, err)
	_, err = r.node.SetSwitches(ctx, &off, nil, nil)
	require.NoError(t, err)
	paused := &engine.Error{Code: engine.CodePaused}
	require.ErrorIs(t, lock(format.LockRenew, held[0][0].Token), paused)
	require.ErrorIs(t, lock(format.LockAcquire, 0), paused)
	require.NoError(t, lock(format.LockRelease, held[0][0].Token))
	for ns, want := range map[string]bool{"~stream-state": true, "n": false} {
		_, err := r.node.Do(ctx, someone, engine.Batch{Ops: []engine.Op{&engine.KV{Kind: engine.KVPut, Namespace: ns, Key: "k", Value: []byte("1")}}})
		require.Equal(t, want, !errors.Is(err, paused), ns)
	}
}
