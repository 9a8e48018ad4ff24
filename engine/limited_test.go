package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/auth"
	"queen/engine/clock"
	"queen/engine/enginetest"
	"queen/engine/format"
	"queen/engine/vfs"
)

// limitedRig is an engine under a plan, and the same engine without it.
type limitedRig struct {
	*testing.T
	free, held engine.Engine
	now        atomic.Int64
}

func newLimited(t *testing.T, plan string) *limitedRig {
	r := &limitedRig{T: t}
	r.now.Store(1e9)
	plans, err := auth.ParsePlans([]byte("plans: {p: {"+plan+"}}"), "p")
	require.NoError(t, err)
	n, err := engine.OpenLocal(testConfig(vfs.NewMem(), clock.NewFake(1_700_000_000_000_000), 1))
	require.NoError(t, err)
	t.Cleanup(func() { _ = n.Close(context.Background()) })
	q := auth.NewQuotas(func() *auth.Plans { return plans }, func() time.Time { return time.Unix(r.now.Load(), 0) })
	r.free, r.held = n, engine.Limit(n, q)
	return r
}

func (r *limitedRig) push(queue, partition string, payloads ...string) error {
	a := &engine.Append{Queue: queue, Partition: partition}
	for _, p := range payloads {
		a.Messages = append(a.Messages, engine.Message{Payload: []byte(p)})
	}
	_, err := r.held.Do(context.Background(), someone, engine.Batch{Ops: []engine.Op{a}})
	return err
}

// refused wants a refusal that names a bound, and nothing of the call carried out.
func (r *limitedRig) refused(err error, code engine.ErrorCode, field string) {
	r.Helper()
	var e *engine.Error
	require.ErrorAs(r, err, &e)
	require.Equal(r, code, e.Code)
	require.Equal(r, field, e.Field)
	require.Equal(r, engine.OutcomeNone, e.Outcome)
}

func (r *limitedRig) queues() (names []string) {
	r.Helper()
	rows, _, err := r.free.Catalog().Queues(context.Background(), someone, engine.Page{Limit: 100})
	require.NoError(r, err)
	for _, q := range rows {
		names = append(names, q.Name)
	}
	return names
}

// TestSizesOfAPlan: one message, and the messages of one call.
func TestSizesOfAPlan(t *testing.T) {
	r := newLimited(t, "payload_bytes: 10, batch_items: 3")
	require.NoError(t, r.push("q", "p", strings.Repeat("x", 10), "1", "2"))
	r.refused(r.push("new", "p", "1", strings.Repeat("x", 11)), engine.CodeQuotaExceeded, "payload_bytes")
	r.refused(r.push("new", "p", "1", "2", "3", "4"), engine.CodeQuotaExceeded, "batch_items")
	require.Equal(t, []string{"q"}, r.queues())
}

// TestCapsOfAPlan: queues and partitions that are there are free to use; a new one over the cap is refused whoever would
// create it, and a deleted one makes room.
func TestCapsOfAPlan(t *testing.T) {
	r := newLimited(t, "queues: 2, partitions_per_queue: 2")
	ctx := context.Background()
	require.NoError(t, r.push("a", "1", "x"))
	require.NoError(t, r.push("a", "2", "x"))
	r.refused(r.push("a", "3", "x"), engine.CodeQuotaExceeded, "partitions_per_queue")
	require.NoError(t, r.push("a", "1", "x"))
	require.NoError(t, r.push("b", "3", "x"))
	r.refused(r.push("c", "1", "x"), engine.CodeQuotaExceeded, "queues")
	_, err := r.held.Catalog().Configure(ctx, someone, engine.ConfigureRequest{Queue: "c"})
	r.refused(err, engine.CodeQuotaExceeded, "queues")
	_, err = r.held.Catalog().Configure(ctx, someone, engine.ConfigureRequest{Queue: "a"})
	require.NoError(t, err)
	_, err = r.held.Pop(ctx, someone, engine.PopRequest{Scope: engine.Scope{Queue: "c"}, Group: "g"})
	r.refused(err, engine.CodeQuotaExceeded, "queues")
	_, err = r.held.Do(ctx, someone, engine.Batch{Ops: []engine.Op{&engine.SetOffset{Queue: "c", Group: "g", Whole: true, To: engine.SeekTo{End: true}}}})
	r.refused(err, engine.CodeQuotaExceeded, "queues")
	_, err = r.held.Do(ctx, someone, engine.Batch{Ops: []engine.Op{
		&engine.Append{Queue: "b", Partition: "4", Messages: []engine.Message{{Payload: []byte("1")}}},
		&engine.Append{Queue: "b", Partition: "5", Messages: []engine.Message{{Payload: []byte("1")}}}}})
	r.refused(err, engine.CodeQuotaExceeded, "partitions_per_queue")
	require.ElementsMatch(t, []string{"a", "b"}, r.queues())
	info, err := r.free.Catalog().Queue(ctx, someone, "b")
	require.NoError(t, err)
	require.EqualValues(t, 1, info.Partitions, "half of a refused call was carried out")

	other := engine.Caller{Tenant: format.Tenant{7}}
	_, err = r.held.Catalog().Configure(ctx, other, engine.ConfigureRequest{Queue: "c"})
	require.NoError(t, err, "tenants share a cap")
	_, err = r.held.Catalog().DeleteQueue(ctx, someone, "b")
	require.NoError(t, err)
	require.NoError(t, r.push("c", "1", "x"))
}

// TestRateOfMessages: over the rate nothing is pushed, and a call that another bound refuses takes nothing from it.
func TestRateOfMessages(t *testing.T) {
	r := newLimited(t, "messages_per_second: 2, messages_burst: 4, queues: 1")
	require.NoError(t, r.push("q", "p", "1", "2", "3"))
	r.refused(r.push("other", "p", "1"), engine.CodeQuotaExceeded, "queues")
	require.NoError(t, r.push("q", "p", "4"))
	err := r.push("q", "p", "5", "6")
	r.refused(err, engine.CodeRateLimited, "messages")
	var e *engine.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, time.Second, e.RetryAfter)
	info, err := r.free.Catalog().Queue(context.Background(), someone, "q")
	require.NoError(t, err)
	require.EqualValues(t, 4, info.Messages)
	r.now.Add(1)
	require.NoError(t, r.push("q", "p", "5", "6"))
}

// TestWaitingPopsOfAPlan: one more than the plan allows is refused, and may wait once another has ended.
func TestWaitingPopsOfAPlan(t *testing.T) {
	r := newLimited(t, "parked_pops: 1")
	require.NoError(t, r.push("q", "p", "1"))
	wait := func(ctx context.Context) error {
		_, err := r.held.Pop(ctx, someone, engine.PopRequest{Scope: engine.Scope{Queue: "q"}, Group: "g", Wait: time.Minute})
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- wait(ctx) }()
	require.Eventually(t, func() bool { return r.free.Inspect().Stats().Parked == 1 }, 20*time.Second, time.Millisecond)
	r.refused(wait(context.Background()), engine.CodeQuotaExceeded, "parked_pops")
	_, err := r.held.Pop(context.Background(), someone, engine.PopRequest{Scope: engine.Scope{Queue: "q"}, Group: "g"})
	require.NoError(t, err, "a pop that does not wait was refused")
	cancel()
	<-done
	ctx, cancel = context.WithCancel(context.Background())
	cancel()
	err = wait(ctx)
	require.False(t, errors.Is(err, &engine.Error{Code: engine.CodeQuotaExceeded}), "%v", err)
}

// TestLimitedIsTheEngine: under a plan that allows everything the rules hold as without one.
func TestLimitedIsTheEngine(t *testing.T) {
	plans, err := auth.ParsePlans([]byte("plans: {p: {messages_per_second: 1e12, queues: 100000, partitions_per_queue: 100000, parked_pops: 100000}}"), "p")
	require.NoError(t, err)
	q := auth.NewQuotas(func() *auth.Plans { return plans }, time.Now)
	if testing.Short() {
		t.Skip("the suite runs on the node")
	}
	enginetest.Run(t, func(t *testing.T, c *clock.Fake) engine.Engine {
		return engine.Limit(enginetest.NewModel(enginetest.ModelOptions{Clock: c}), q)
	}, enginetest.Options{})
}

// TestRecordsOfAPlan: record batches are held to the plan like pushes.
func TestRecordsOfAPlan(t *testing.T) {
	r := newLimited(t, "payload_bytes: 100, batch_items: 3, partitions_per_queue: 1, messages_per_second: 2, messages_burst: 4")
	ctx := context.Background()
	_, err := r.held.Catalog().Configure(ctx, someone, engine.ConfigureRequest{Queue: "q"})
	require.NoError(t, err)
	produce := func(partition string, values ...string) error {
		out, err := r.held.Records().Produce(ctx, someone, []engine.RecordBatch{{Queue: "q", Partition: partition, Batch: recordsOf(t, head(), values...)}})
		if err == nil && out[0].Err != nil {
			err = out[0].Err
		}
		return err
	}
	r.refused(produce("0", strings.Repeat("x", 100)), engine.CodeQuotaExceeded, "payload_bytes") // with its key
	r.refused(produce("0", "1", "2", "3", "4"), engine.CodeQuotaExceeded, "batch_items")
	require.NoError(t, produce("0", "1", "2", "3"))
	r.refused(produce("1", "1"), engine.CodeQuotaExceeded, "partitions_per_queue")
	r.refused(r.held.Records().AddToTxn(ctx, someone, engine.ProducerRef{TransactionalID: "t"}, []engine.PartitionRef{{Queue: "q", Partition: "1"}}),
		engine.CodeQuotaExceeded, "partitions_per_queue")
	_, err = r.held.Records().CommitOffsets(ctx, someone, engine.GroupCommit{Group: "g", Producer: engine.ProducerRef{ID: engine.NoProducer},
		Positions: []engine.GroupPosition{{Queue: "q", Partition: "1"}}})
	r.refused(err, engine.CodeQuotaExceeded, "partitions_per_queue")
	r.refused(produce("0", "4", "5"), engine.CodeRateLimited, "messages")
	require.NoError(t, produce("0", "4"))
}
