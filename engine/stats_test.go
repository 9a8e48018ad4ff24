package engine_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/enginetest/memnode"
	"queen/engine/format"
)

// ticking is a clock of which every look at the mono time takes a microsecond, so that whatever is measured takes some.
type ticking struct {
	clock.Clock
	looks *atomic.Int64
}

func (c ticking) Mono() int64 { return c.Clock.Mono() + c.looks.Add(1) }

// TestStatsAreMeasured: every entry that this node proposed is in the histogram of commits with the time that it took, and
// what checkpoints take on disk is counted once there is one, also by the next life.
func TestStatsAreMeasured(t *testing.T) {
	target := memnode.Open(memnode.Options{Seed: 3, Keyed: t.TempDir(), Config: func(c *engine.Config) {
		eager(c)
		c.Clock = ticking{c.Clock, new(atomic.Int64)}
	}})
	defer func() { target.Close() }()
	if n := target.Engine.Inspect().Stats().CheckpointBytes; n != 0 {
		t.Errorf("%d bytes of checkpoints before the first one", n)
	}
	for i := range 200 {
		op := &engine.Append{Queue: "q", Partition: fmt.Sprint(i % 7), Messages: []engine.Message{{Payload: make([]byte, 300)}}}
		if _, err := target.Engine.Do(context.Background(), engine.Caller{Tenant: format.DefaultTenant}, engine.Batch{Ops: []engine.Op{op}}); err != nil {
			t.Fatal(err)
		}
	}
	target.Settle(target.Engine)
	st := target.Engine.Inspect().Stats()
	commits := uint64(0)
	for _, n := range st.CommitMicros.Counts {
		commits += n
	}
	if commits < 200 || commits > st.Entries || st.CommitMicros.Sum < commits {
		t.Errorf("%d commits of %d us in %d entries", commits, st.CommitMicros.Sum, st.Entries)
	}
	if began := target.Clock.Now(); st.LastCommitMicros == 0 || st.LastCommitMicros > st.CommitMicros.Sum || int64(st.LastCommitAt) < began {
		t.Errorf("the newest commit took %d us at %d, it began at %d", st.LastCommitMicros, st.LastCommitAt, began)
	}
	// The end of the node makes a checkpoint in any case.
	target.Engine = target.Reopen(false)
	if st := target.Engine.Inspect().Stats(); st.CheckpointBytes == 0 || st.CommitMicros.Sum > 1000 {
		t.Errorf("after a restart: %d bytes, %d us", st.CheckpointBytes, st.CommitMicros.Sum)
	}
}
