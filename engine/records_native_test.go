package engine_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/format"
)

// one pops a batch of n for a group; "offset=payload" of what it was given, and the delivery.
func (r *recordRig) one(group string, n int, conflate bool) ([]string, *engine.Delivery) {
	r.t.Helper()
	d, err := r.node.Pop(context.Background(), someone, engine.PopRequest{Scope: engine.Scope{Queue: "q"}, Group: group, Batch: n,
		Start: engine.Start{Kind: format.StartAll}, Lease: time.Minute, Conflate: conflate})
	require.NoError(r.t, err)
	if d == nil {
		return nil, nil
	}
	var out []string
	for m, err := range d.Messages() {
		require.NoError(r.t, err)
		out = append(out, fmt.Sprintf("%d=%s", m.Offset, m.Payload))
	}
	d.Delivered()
	return out, d
}

func (r *recordRig) settle(group string, d *engine.Delivery, status format.AckStatus, offset format.Offset) engine.Result {
	r.t.Helper()
	res, err := r.node.Do(context.Background(), someone, engine.Batch{Ops: []engine.Op{&engine.Ack{Partition: d.Claims[0].PartitionID, Group: group,
		Lease: d.Lease, HasOffset: true, Offset: offset, Status: status}}})
	require.NoError(r.t, err)
	require.Nil(r.t, res[0].Err)
	return res[0]
}

// Goal: a group that conflates is given the newest message that it may see, not nothing because what stands behind it was
// aborted or is the end of a transaction; its ack settles all of it, and what it gives up is that message.
func TestConflationPassesTransactionsBy(t *testing.T) {
	r := newRecordRig(t)
	p := r.producer("tx")
	p.implicit = true
	r.say("0", `"old"`)                        // 0
	require.Nil(t, p.send("0", "new").Err)     // 1
	require.NoError(t, p.end(true, true))      // 2
	require.Nil(t, p.send("0", "aborted").Err) // 3
	require.NoError(t, p.end(false, true))     // 4
	newest := []string{"1=" + envelope("new", 1000)}
	got, d := r.one("g", 10, true)
	require.Equal(t, newest, got)
	r.settle("g", d, format.AckCompleted, 1)
	got, _ = r.one("g", 10, true)
	require.Empty(t, got)
	depth, err := r.node.Inspect().Depth(context.Background(), someone, "q", "g")
	require.NoError(t, err)
	require.Zero(t, depth.Pending)

	got, d = r.one("h", 10, true)
	require.Equal(t, newest, got)
	r.settle("h", d, format.AckDLQ, 1)
	dead, err := r.node.Catalog().DeadLetters(context.Background(), someone, engine.DeadLetterFilter{Queue: "q", Group: "h"})
	require.NoError(t, err)
	require.Len(t, dead, 1)
	require.Equal(t, format.Offset(1), dead[0].Message.Offset)
	require.Equal(t, envelope("new", 1000), string(dead[0].Message.Payload))

	// One that is handed out too often is given up as well, and it is the one that was seen.
	r.configure(format.QueueOptions{Set: format.OptMaxDeliveries, MaxDeliveries: 1})
	got, _ = r.one("i", 10, true)
	require.Equal(t, newest, got)
	r.clock.Advance(2 * time.Minute)
	r.node.Settle()
	got, _ = r.one("i", 10, true)
	require.Empty(t, got)
	dead, err = r.node.Catalog().DeadLetters(context.Background(), someone, engine.DeadLetterFilter{Queue: "q", Group: "i"})
	require.NoError(t, err)
	require.Len(t, dead, 1)
	require.Equal(t, format.Offset(1), dead[0].Message.Offset)
}

// Goal: a small batch passes a large aborted transaction in one pop, and figures count what is decided.
func TestPopPassesAbortedRecords(t *testing.T) {
	r := newRecordRig(t)
	p := r.producer("tx")
	p.implicit = true
	depth := func() (n [2]uint64) {
		d, err := r.node.Inspect().Depth(context.Background(), someone, "q", "g")
		require.NoError(t, err)
		info, err := r.node.Catalog().Partition(context.Background(), someone, "q", "0")
		require.NoError(t, err)
		return [2]uint64{d.Pending, info.Pending}
	}
	r.one("g", 1, false)
	for range 50 {
		require.Nil(t, p.send("0", "a", "b", "c").Err)
	}
	r.say("0", `"behind"`)
	require.Equal(t, [2]uint64{0, 0}, depth())
	got, _ := r.one("g", 1, false)
	require.Empty(t, got)
	require.NoError(t, p.end(false, true))
	require.Equal(t, [2]uint64{152, 152}, depth())
	before := r.node.Inspect().Stats().Entries
	got, d := r.one("g", 1, false)
	require.Equal(t, []string{`150="behind"`}, got)
	require.LessOrEqual(t, r.node.Inspect().Stats().Entries-before, uint64(10), "a pop, a skip, a pop, and what upkeep adds")
	r.settle("g", d, format.AckCompleted, 150)
	require.Empty(t, r.popped("g"))
	require.Equal(t, [2]uint64{0, 0}, depth())
}

// Goal: native reads by offset, by id and by browsing show what is decided and only what was committed.
func TestReadsSeeCommittedRecords(t *testing.T) {
	r := newRecordRig(t)
	p := r.producer("tx")
	p.implicit = true
	read := func(from format.Offset) (out []string) {
		res, err := r.node.Read(context.Background(), someone, engine.ReadRequest{At: []engine.Position{{Queue: "q", Partition: "0", Offset: from}}})
		require.NoError(t, err)
		require.Nil(t, res.Parts[0].Err)
		for _, rec := range res.Parts[0].Records {
			out = append(out, fmt.Sprintf("%d=%s", rec.Offset, rec.Payload))
		}
		return out
	}
	latest := func() format.Offset {
		out, err := r.node.Offsets(context.Background(), someone, []engine.OffsetQuery{{Queue: "q", Partition: "0", Kind: engine.Latest}})
		require.NoError(t, err)
		return out[0].Offset
	}
	browse := func() (n int) {
		rows, err := r.node.Inspect().Messages(context.Background(), someone, engine.MessageFilter{Queue: "q"})
		require.NoError(t, err)
		return len(rows)
	}
	r.say("0", `"first"`)
	require.Nil(t, p.send("0", "a").Err)
	require.Equal(t, []string{`0="first"`}, read(0))
	require.Empty(t, read(1))
	require.Empty(t, read(2), "an offset that is not decided is inside the partition")
	require.Equal(t, format.Offset(1), latest())
	require.Equal(t, 1, browse())
	require.NoError(t, p.end(false, true))
	require.Nil(t, p.send("0", "b").Err)
	require.NoError(t, p.end(true, true))
	committed := []string{`0="first"`, "3=" + envelope("b", 1000)}
	require.Equal(t, committed, read(0))
	require.Equal(t, committed[1:], read(1))
	require.Equal(t, format.Offset(5), latest())
	require.Equal(t, 2, browse())
}

// Goal: what is given up after too many deliveries is the message that was delivered, not what stood before it.
func TestDeliveriesOfAMessageBehindAnEnd(t *testing.T) {
	r := newRecordRig(t)
	r.configure(format.QueueOptions{Set: format.OptMaxDeliveries, MaxDeliveries: 2})
	p := r.producer("tx")
	p.implicit = true
	require.Nil(t, p.send("0", "a").Err)
	require.NoError(t, p.end(false, true))
	r.say("0", `"poison"`) // 2
	r.say("0", `"next"`)   // 3
	for range 2 {
		got, d := r.one("g", 10, false)
		require.Equal(t, []string{`2="poison"`, `3="next"`}, got)
		require.Equal(t, format.Offset(2), d.Claims[0].First)
		r.clock.Advance(2 * time.Minute)
		r.node.Settle()
	}
	got, _ := r.one("g", 1, false)
	require.Equal(t, []string{`3="next"`}, got)
	dead, err := r.node.Catalog().DeadLetters(context.Background(), someone, engine.DeadLetterFilter{Queue: "q"})
	require.NoError(t, err)
	require.Len(t, dead, 1)
	require.Equal(t, `"poison"`, string(dead[0].Message.Payload))
}

// Goal: a partition that Kafka's clients know keeps its next offset when it is empty and idle; others are forgotten.
func TestIdlePartitionsOfKafka(t *testing.T) {
	r := newRecordRig(t)
	r.close()
	r.config = func(c *engine.Config) { c.PartitionCleanup = time.Hour }
	r.open()
	r.configure(format.QueueOptions{Set: format.OptRetentionSeconds | format.OptRetentionEnabled, RetentionSeconds: 60, RetentionEnabled: true})
	require.Nil(t, r.produce("0", recordsOf(t, head(), "a", "b")).Err)
	r.say("side", `"x"`)
	r.clock.Advance(2 * time.Hour)
	r.node.Settle()
	r.node.Sweep()
	r.node.Settle()
	info, err := r.node.Catalog().Topic(context.Background(), someone, "q")
	require.NoError(t, err)
	require.Equal(t, [3]uint64{1, 1, 0}, [3]uint64{info.Partitions, uint64(info.Width), info.Hidden})
	f := r.fetch("0", 2, false)
	require.Nil(t, f.Err)
	require.Equal(t, [2]format.Offset{2, 2}, [2]format.Offset{f.Start, f.End})
	require.Equal(t, format.Offset(2), r.produce("0", recordsOf(t, head(), "c")).Base)
}
