package engine_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/format"
	"queen/engine/vfs"
)

// TestIdlePartitionBytes: what a partition costs a node that has made it, delivered its message to one consumer group
// and then fallen idle: live heap at 15,000 partitions less that at 5,000. The tail of recent messages is bounded
// to next to nothing and segments are small, so that nothing but the partitions themselves differs.
func TestIdlePartitionBytes(t *testing.T) {
	if testing.Short() {
		t.Skip("makes 15,000 partitions")
	}
	rested := make(chan struct{}, 100)
	r := &rig{t: t, clock: clock.NewFake(1_700_000_000_000_000), pushed: map[string][]string{}}
	cfg := engine.Config{FS: vfs.NewOS(vfs.OSOptions{}), Clock: r.clock, Rand: clock.NewFakeRand(1), Dir: t.TempDir(),
		Fatal: func(err error) { panic(err) }, SegmentBytes: 2 << 20, PoolReady: 1, TailBytes: 1 << 16, MarkBytes: 1 << 20,
		Rested: func() { rested <- struct{}{} }}
	var err error
	if r.node, err = engine.OpenLocal(cfg); err != nil {
		t.Fatal(err)
	}
	defer r.close()
	live := func(from, to int) int64 {
		for at := from; at < to; at += 500 {
			r.makePartitions(at, at+500)
		}
		r.untilRested(rested, 2*time.Hour) // leases are over
		for ids, _ := r.node.Resident(); ids > 0; ids, _ = r.node.Resident() {
			r.untilRested(rested, 2*time.Hour) // and so are all windows
		}
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	few := live(0, 5_000)
	each := (live(5_000, 15_000) - few) / 10_000
	t.Logf("%d bytes a partition, with its name of 20 bytes", each)
	// 256 and the name are the goal at a million partitions; so few fill tables and journals less evenly.
	if each > 350 {
		t.Errorf("an idle partition costs %d bytes of heap", each)
	}
}

// makePartitions pushes a message with an id to each partition; the group g reads and acks all.
func (r *rig) makePartitions(from, to int) {
	r.t.Helper()
	var ops []engine.Op
	for p := from; p < to; p++ {
		ops = append(ops, &engine.Append{Queue: "q", Partition: fmt.Sprintf("partition-%010d", p), Messages: []engine.Message{{
			Payload: []byte(strings.Repeat("x", 200)), TransactionID: fmt.Sprintf("%036d", p)}}})
	}
	if _, err := r.node.Do(r.t.Context(), someone, engine.Batch{Ops: ops}); err != nil {
		r.t.Fatal(err)
	}
	for left := to - from; left > 0; {
		d, err := r.node.Pop(r.t.Context(), someone, engine.PopRequest{Scope: engine.Scope{Queue: "q"}, Group: "g",
			Start: engine.Start{Kind: format.StartAll}, Batch: 1000, Partitions: 64})
		if err != nil || len(d.Claims) == 0 {
			r.t.Fatal(left, err)
		}
		var acks []engine.Op
		for m, err := range d.Messages() {
			if err != nil {
				r.t.Fatal(err)
			}
			acks = append(acks, &engine.Ack{Partition: d.Claims[m.Claim].PartitionID, Group: "g", Lease: d.Lease,
				TransactionID: strings.Clone(m.TransactionID), Status: format.AckCompleted})
		}
		d.Delivered()
		if _, err := r.node.Do(r.t.Context(), someone, engine.Batch{Ops: acks}); err != nil {
			r.t.Fatal(err)
		}
		left -= len(acks)
	}
}
