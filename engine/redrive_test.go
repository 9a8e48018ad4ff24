package engine_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/format"
)

// fileMany files n messages of one partition as dead letters, in order.
func (r *rig) fileMany(n int) {
	r.t.Helper()
	for i := range n {
		r.mustPush("p", fmt.Sprint(i))
	}
	for i := range n {
		d, err := r.node.Pop(r.t.Context(), someone, engine.PopRequest{Scope: engine.Scope{Queue: "q", Partition: "p", Pinned: true},
			Group: "g", Batch: 1, Start: engine.Start{Kind: format.StartAll}})
		require.NoError(r.t, err)
		require.Len(r.t, d.Claims, 1)
		require.EqualValues(r.t, i, d.Claims[0].First)
		out, err := r.node.Do(r.t.Context(), someone, engine.Batch{Ops: []engine.Op{&engine.Ack{Partition: d.Claims[0].PartitionID,
			Group: "g", Lease: d.Lease, HasOffset: true, Offset: d.Claims[0].First, Status: format.AckDLQ,
			Reason: "r" + fmt.Sprint(i%2)}}})
		require.NoError(r.t, err)
		require.Nil(r.t, out[0].Err)
	}
}

// Goal: a job moves what it selects and nothing else, oldest failure first, so that the partition keeps its order; its
// row outlives a restart, and another tenant does not see it.
func TestRedriveJob(t *testing.T) {
	r := newRig(t)
	r.open()
	r.fileMany(150)
	ctx := t.Context()
	count, err := r.node.CountRedrive(ctx, someone, engine.RedriveRequest{Queue: "q", Error: "r1"})
	require.NoError(t, err)
	require.EqualValues(t, 75, count.Count)
	require.Len(t, count.Sample, 10)
	require.Equal(t, "1", string(count.Sample[0].Message.Payload))
	j, err := r.node.StartRedrive(ctx, someone, engine.RedriveRequest{Queue: "q", Error: "r1"})
	require.NoError(t, err)
	require.EqualValues(t, 75, j.Total)
	r.redrivesDone()
	got, err := r.node.RedriveJob(ctx, someone, j.ID)
	require.NoError(t, err)
	require.Equal(t, engine.RedriveDone, got.State)
	require.EqualValues(t, 75, got.Moved, "%+v", got)
	require.Zero(t, got.Remaining())
	_, all, err := r.read("p")
	require.NoError(t, err)
	for i := range 75 {
		require.Equal(t, fmt.Sprint(2*i+1), all[150+i])
	}
	_, err = r.node.RedriveJob(ctx, engine.Caller{Tenant: format.Tenant{9}}, j.ID)
	require.ErrorIs(t, err, &engine.Error{Code: engine.CodeNotFound})
	r.close()
	r.open()
	defer r.close()
	again, err := r.node.RedriveJob(ctx, someone, j.ID)
	require.NoError(t, err)
	require.Equal(t, got, again)
	dead, err := r.node.Catalog().DeadLetters(ctx, someone, engine.DeadLetterFilter{Queue: "q", Limit: 1000})
	require.NoError(t, err)
	require.Len(t, dead, 75)
}

// Goal: a job for the group that gave up: nobody else is handed the copies, also after a restart; a small batch of another
// group passes them all in one pop; figures of the other group end at nothing; what it gives up by itself is its own.
func TestRedriveGroupOnly(t *testing.T) {
	r := newRig(t)
	r.open()
	r.fileMany(70)
	for range 70 {
		r.acked("other", r.popOne("other"))
	}
	_, err := r.node.Catalog().Configure(t.Context(), someone, engine.ConfigureRequest{Queue: "q", Patch: format.QueueOptions{
		Set: format.OptMaxDeliveries, MaxDeliveries: 1}})
	require.NoError(t, err)
	ctx := t.Context()
	_, err = r.node.StartRedrive(ctx, someone, engine.RedriveRequest{Queue: "q", Group: "nobody", GroupOnly: true})
	require.ErrorIs(t, err, &engine.Error{Code: engine.CodeUnknownGroup})
	count, err := r.node.CountRedrive(ctx, someone, engine.RedriveRequest{Queue: "q", GroupOnly: true})
	require.NoError(t, err)
	require.EqualValues(t, 70, count.Count)
	j, err := r.node.StartRedrive(ctx, someone, engine.RedriveRequest{Queue: "q", GroupOnly: true})
	require.NoError(t, err)
	r.redrivesDone()
	out, err := r.node.Do(ctx, someone, engine.Batch{Ops: []engine.Op{&engine.Append{Queue: "q", Partition: "p",
		Messages: []engine.Message{{Payload: []byte("behind")}}}}})
	require.NoError(t, err)
	require.EqualValues(t, 140, out[0].Messages[0].Offset)
	r.close()
	r.open()
	defer r.close()
	got, err := r.node.RedriveJob(ctx, someone, j.ID)
	require.NoError(t, err)
	require.Equal(t, [3]uint64{70, 0, 0}, [3]uint64{got.Moved, got.Duplicates, got.Failed}, "%+v", got)
	require.True(t, got.GroupOnly)
	require.False(t, got.AtLeast)

	before := r.node.Inspect().Stats().Entries
	d := r.popOne("other")
	require.LessOrEqual(t, r.node.Inspect().Stats().Entries-before, uint64(10), "a pop, a skip, a pop, and what upkeep adds")
	require.EqualValues(t, 140, d.Claims[0].First)
	r.tick(10 * time.Minute) // its worker is gone, and that was its last delivery
	require.Nil(t, r.popOne("other"))
	dead, err := r.node.Catalog().DeadLetters(ctx, someone, engine.DeadLetterFilter{Queue: "q"})
	require.NoError(t, err)
	require.Len(t, dead, 1)
	require.Equal(t, "behind", string(dead[0].Message.Payload))
	depth, err := r.node.Inspect().Depth(ctx, someone, "q", "other")
	require.NoError(t, err)
	require.Zero(t, depth.Pending)
	for i := range 70 {
		d := r.popOne("g")
		require.EqualValues(t, 70+i, d.Claims[0].First)
		r.acked("g", d)
	}
}

// popOne pops a batch of one for a group, nil when there is nothing.
func (r *rig) popOne(group string) *engine.Delivery {
	r.t.Helper()
	d, err := r.node.Pop(r.t.Context(), someone, engine.PopRequest{Scope: engine.Scope{Queue: "q"}, Group: group, Batch: 1,
		Lease: time.Minute, Start: engine.Start{Kind: format.StartAll}})
	require.NoError(r.t, err)
	if d != nil {
		d.Delivered()
	}
	return d
}

// acked completes what a delivery of one partition brought.
func (r *rig) acked(group string, d *engine.Delivery) {
	r.t.Helper()
	out, err := r.node.Do(r.t.Context(), someone, engine.Batch{Ops: []engine.Op{&engine.Ack{Partition: d.Claims[0].PartitionID,
		Group: group, Lease: d.Lease, HasOffset: true, Offset: d.Claims[0].Last, Status: format.AckCompleted}}})
	require.NoError(r.t, err)
	require.Nil(r.t, out[0].Err)
}

// redrivesDone waits until no redrive job is under way, and lets time pass meanwhile: a job waits to try again what the
// moment refused.
func (r *rig) redrivesDone() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.node.RedrivesDone()
	}()
	for {
		select {
		case <-done:
			return
		default:
			r.clock.Advance(time.Millisecond)
			runtime.Gosched()
		}
	}
}

// Goal: what a crash interrupts the next life takes up: every dead letter is moved once, in order.
func TestRedriveJobResumes(t *testing.T) {
	r := newRig(t)
	r.open()
	r.fileMany(20)
	j, err := r.node.StartRedrive(t.Context(), someone, engine.RedriveRequest{Queue: "q", PerSecond: 1})
	require.NoError(t, err)
	r.cut()
	r.open()
	defer r.close()
	got, err := r.node.RedriveJob(t.Context(), someone, j.ID)
	for ; err == nil && got.State == engine.RedriveRunning; got, err = r.node.RedriveJob(t.Context(), someone, j.ID) {
		r.clock.Advance(100 * time.Millisecond)
		runtime.Gosched()
	}
	require.NoError(t, err)
	require.Equal(t, engine.RedriveDone, got.State)
	_, all, err := r.read("p")
	require.NoError(t, err)
	require.Len(t, all, 40)
	for i := range 20 {
		require.Equal(t, fmt.Sprint(i), all[20+i])
	}
}

// Goal: a copy inside the dedup window stays a dead letter and is counted once.
func TestRedriveJobDuplicates(t *testing.T) {
	r := newRig(t)
	r.open()
	defer r.close()
	r.fileMany(70) // more than a page
	dead, err := r.node.Catalog().DeadLetters(t.Context(), someone, engine.DeadLetterFilter{Queue: "q"})
	require.NoError(t, err)
	require.NoError(t, r.pushID("p", "copy", "dlq:"+dead[69].ID.String()))
	j, err := r.node.StartRedrive(t.Context(), someone, engine.RedriveRequest{Queue: "q"})
	require.NoError(t, err)
	r.redrivesDone()
	got, err := r.node.RedriveJob(t.Context(), someone, j.ID)
	require.NoError(t, err)
	require.Equal(t, [3]uint64{69, 1, 0}, [3]uint64{got.Moved, got.Duplicates, got.Failed})
}

// Goal: switches outlive a restart; a fire that is off loses nothing.
func TestSwitches(t *testing.T) {
	r := newRig(t)
	r.open()
	off, on := false, true
	ctx := t.Context()
	_, err := r.node.Do(ctx, someone, engine.Batch{Ops: []engine.Op{&engine.Timer{Op: format.TimerSchedule, Queue: "q",
		Partition: "p", Key: "k", Delay: time.Second, Message: engine.Message{Payload: []byte("late")}}}})
	require.NoError(t, err)
	s, err := r.node.SetSwitches(ctx, &off, nil, &off)
	require.NoError(t, err)
	require.Equal(t, engine.Switches{TimerSchedule: true}, s)
	r.close()
	r.open()
	defer r.close()
	require.Equal(t, s, r.node.Switches())
	put := engine.Batch{Ops: []engine.Op{&engine.KV{Kind: engine.KVPut, Namespace: "n", Key: "k", Value: []byte("1")}}}
	_, err = r.node.Do(ctx, someone, put)
	require.ErrorIs(t, err, &engine.Error{Code: engine.CodePaused})
	r.tick(time.Minute)
	_, all, err := r.read("p")
	require.Error(t, err, "nothing fired yet: %v", all)
	_, err = r.node.SetSwitches(ctx, &on, nil, &on)
	require.NoError(t, err)
	_, err = r.node.Do(ctx, someone, put)
	require.NoError(t, err)
	r.tick(time.Second)
	_, all, err = r.read("p")
	require.NoError(t, err)
	require.Equal(t, []string{"late"}, all)
}
