package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/format"
)

// TestRest: a node that falls idle after work lets go, once, of what only work needs: first of the ids handed out
// whose leases are over, then, when no window reaches them any more, of the resident ids. After that it sleeps: the
// log does not grow. A repeated ack is still understood.
func TestRest(t *testing.T) {
	r := newRig(t)
	rested := make(chan struct{}, 100)
	r.config = func(c *engine.Config) {
		c.MarkBytes, c.MarkEvery = 1<<20, 10*time.Second
		c.CheckpointBytes, c.CheckpointEvery = 1<<30, 24*time.Hour
		c.Rested = func() { rested <- struct{}{} }
	}
	r.open()
	defer r.close()
	const partitions, messages = 10, 600
	var ops []engine.Op
	for p := range partitions {
		op := &engine.Append{Queue: "q", Partition: fmt.Sprint(p)}
		for m := range messages {
			op.Messages = append(op.Messages, engine.Message{Payload: []byte("x"), TransactionID: fmt.Sprint(p, "-", m)})
		}
		ops = append(ops, op)
	}
	if _, err := r.node.Do(t.Context(), someone, engine.Batch{Ops: ops}); err != nil {
		t.Fatal(err)
	}
	again := r.takeAll(partitions * messages)
	if ids, handed := r.node.Resident(); ids != partitions*messages || handed != 1 {
		t.Fatalf("%d ids and %d leases are resident", ids, handed)
	}
	r.untilRested(rested, time.Minute)
	if ids, handed := r.node.Resident(); ids != partitions*messages || handed != 0 {
		t.Fatalf("idle for a while: %d ids and %d leases are resident", ids, handed)
	}
	r.untilRested(rested, 2*time.Hour)
	if ids, _ := r.node.Resident(); ids != 0 {
		t.Fatalf("idle for longer than any window: %d ids are resident", ids)
	}
	r.idle(2) // the chunk of the Tick that found out ends
	before := r.node.Applied()
	r.idle(100)
	if after := r.node.Applied(); after != before || len(rested) != 0 {
		t.Fatalf("a node at rest went from entry %d to %d and rested %d times more", before, after, len(rested))
	}
	out, err := r.node.Do(t.Context(), someone, engine.Batch{Ops: []engine.Op{&engine.Ack{Partition: again.Partition, Group: "g",
		Unfenced: true, TransactionID: again.TransactionID, Status: format.AckCompleted}}})
	if err != nil || out[0].Err != nil {
		t.Fatal(out, err)
	}
}

// takeAll pops and acks everything under one lease, and returns the last ack.
func (r *rig) takeAll(want int) (last *engine.Ack) {
	r.t.Helper()
	d, err := r.node.Pop(r.t.Context(), someone, engine.PopRequest{Scope: engine.Scope{Queue: "q"}, Group: "g",
		Start: engine.Start{Kind: format.StartAll}, Batch: want, Partitions: 64})
	if err != nil {
		r.t.Fatal(err)
	}
	var acks []engine.Op
	for m, err := range d.Messages() { // views: what is kept is copied
		if err != nil {
			r.t.Fatal(err)
		}
		acks = append(acks, &engine.Ack{Partition: d.Claims[m.Claim].PartitionID, Group: "g", Lease: d.Lease,
			TransactionID: strings.Clone(m.TransactionID),
			Status:        format.AckCompleted})
	}
	d.Delivered()
	if len(acks) != want {
		r.t.Fatalf("%d messages, want %d", len(acks), want)
	}
	out, err := r.node.Do(r.t.Context(), someone, engine.Batch{Ops: acks})
	if err != nil {
		r.t.Fatal(err)
	}
	for i := range out {
		if out[i].Err != nil {
			r.t.Fatal(i, out[i].Err)
		}
	}
	return acks[len(acks)-1].(*engine.Ack)
}

// idle lets minutes pass.
func (r *rig) idle(minutes int) {
	for range minutes {
		r.clock.WaitArmed(3) // upkeep, the lag sweep and the compactor wait
		r.clock.Advance(time.Minute)
	}
	r.clock.WaitArmed(3)
}

// untilRested lets time pass, a second at a time, until the node rests, at most that long.
func (r *rig) untilRested(rested chan struct{}, limit time.Duration) {
	r.t.Helper()
	for range limit / time.Second {
		r.clock.WaitArmed(3)
		select {
		case <-rested:
			return
		default:
		}
		r.clock.Advance(time.Second)
	}
	r.t.Fatalf("not at rest within %v", limit)
}

// TestIdleSweepIsFree: the sweep that counts lag walks all partitions for ever, so it must not make garbage of each.
func TestIdleSweepIsFree(t *testing.T) {
	r := newRig(t)
	r.open()
	defer r.close()
	const partitions = 3000
	for from := 0; from < partitions; from += 1000 {
		var ops []engine.Op
		for p := range 1000 {
			ops = append(ops, &engine.Append{Queue: "q", Partition: fmt.Sprint(from + p), Messages: []engine.Message{{Payload: []byte("x")}}})
		}
		if _, err := r.node.Do(t.Context(), someone, engine.Batch{Ops: ops}); err != nil {
			t.Fatal(err)
		}
	}
	r.takeSome(64)
	if n := testing.AllocsPerRun(5, r.node.Sweep); n > partitions/3 { // others of the process allocate too
		t.Fatalf("%v allocations for a sweep over %d partitions", n, partitions)
	}
}

// takeSome registers the group g and pops once.
func (r *rig) takeSome(partitions int) {
	r.t.Helper()
	d, err := r.node.Pop(r.t.Context(), someone, engine.PopRequest{Scope: engine.Scope{Queue: "q"}, Group: "g",
		Start: engine.Start{Kind: format.StartAll}, Partitions: partitions})
	if err != nil || len(d.Claims) != partitions {
		r.t.Fatal(d, err)
	}
	d.Delivered()
}

// TestIdlePartitionsGo: a partition that retention has emptied is removed after the configured time, one that holds
// something is not (S-ret-10).
func TestIdlePartitionsGo(t *testing.T) {
	r := newRig(t)
	r.config = func(c *engine.Config) { c.PartitionCleanup = time.Hour }
	r.open()
	defer r.close()
	if _, err := r.node.Catalog().Configure(t.Context(), someone, engine.ConfigureRequest{Queue: "q", Patch: format.QueueOptions{
		Set: format.OptRetentionSeconds | format.OptRetentionEnabled, RetentionEnabled: true, RetentionSeconds: 7200}}); err != nil {
		t.Fatal(err)
	}
	r.mustPush("old", "x")
	r.tick(90 * time.Minute)
	r.mustPush("new", "x")
	known := func() (names []string) {
		rows, _, err := r.node.Catalog().Partitions(t.Context(), someone, "q", 0, engine.Page{Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range rows {
			names = append(names, p.Name)
		}
		return names
	}
	require.Equal(t, []string{"old", "new"}, known())
	r.tick(40 * time.Minute)
	require.Equal(t, []string{"new"}, known())
}
