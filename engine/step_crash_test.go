package engine_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"queen/engine"
	"queen/engine/format"
)

// step is a worker's whole step with the first message of a claim, which all take place or none: the ack, the next event,
// the count of steps, tomorrow's reminder, and where another group reads.
func step(c *engine.Claimed, lease string) engine.Batch {
	event := engine.Message{Payload: fmt.Append(nil, "step ", c.First)}
	return engine.Batch{Atomic: true, Ops: []engine.Op{
		&engine.Ack{Partition: c.PartitionID, Group: "g", Lease: lease, HasOffset: true, Offset: c.First, Status: format.AckCompleted},
		&engine.Append{Queue: "steps", Partition: "p", Messages: []engine.Message{event}},
		incr("steps"),
		&engine.Timer{Op: format.TimerSchedule, Queue: "reminders", Key: fmt.Sprint(c.First), Partition: "p", Delay: 30 * time.Minute, Message: event},
		&engine.CommitOffset{Queue: "q", Partition: "a", Group: "follower", Offset: c.First + 1},
	}}
}

// judgeSteps checks that of each step as many parts took place as acks are settled, an hour after the last one.
func (m *mortal) judgeSteps(what string, r *rig, settled int) {
	t := m.t
	t.Helper()
	res, err := r.atomic(someone, get("steps"))
	if settled == 0 {
		if _, there := r.node.Catalog().Partition(context.Background(), someone, "steps", "p"); err != nil || res[0].KV.Found || there == nil {
			t.Fatalf("%s: no ack is settled, the counter is %+v, %v, and the next event is there: %v", what, res, err, there == nil)
		}
		return
	}
	if err != nil || string(res[0].KV.Row.Value) != fmt.Sprint(settled) {
		t.Fatalf("%s: %d acks are settled, the counter is %+v, %v", what, settled, res, err)
	}
	at, err := r.node.Records().Committed(context.Background(), someone, "follower", []engine.PartitionRef{{Queue: "q", Partition: "a"}})
	if err != nil || len(at) != 1 || int(at[0].Offset) != settled {
		t.Fatalf("%s: %d acks are settled, the position is %+v, %v", what, settled, at, err)
	}
	var want []string
	for i := range settled {
		want = append(want, fmt.Sprint("step ", i))
	}
	for _, queue := range []string{"steps", "reminders"} {
		var got []string
		read, err := r.node.Read(context.Background(), someone, engine.ReadRequest{At: []engine.Position{{Queue: queue, Partition: "p", MaxBytes: 1 << 20}}})
		if err != nil || read.Parts[0].Err != nil {
			t.Fatalf("%s: %d acks are settled, queue %s: %v, %v", what, settled, queue, err, read.Parts)
		}
		for _, rec := range read.Parts[0].Records {
			got = append(got, string(rec.Payload))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%s: queue %s holds %q, want %q", what, queue, got, want)
		}
	}
}
