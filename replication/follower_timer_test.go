package replication

import (
	"context"
	"fmt"
	"path"
	"sync/atomic"
	"testing"
	"time"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/format"
)

// hasty is a clock that counts waits for no time.
type hasty struct {
	clock.Clock
	waits *atomic.Int64
}

func (h hasty) NewTimer(d time.Duration) clock.Timer {
	return &hastyTimer{h.Clock.NewTimer(d), h.waits}
}

type hastyTimer struct {
	clock.Timer
	waits *atomic.Int64
}

// Reset implements clock.Timer.
func (h *hastyTimer) Reset(d time.Duration) bool {
	if d <= 0 {
		h.waits.Add(1)
	}
	return h.Timer.Reset(d)
}

// TestFollowersSleepWhileTimersAreDue: a timer that is due and does not fire, here since an operator switched that off, keeps no follower
// awake: it is not its to fire.
func TestFollowersSleepWhileTimersAreDue(t *testing.T) {
	waits := map[string]*atomic.Int64{"node1": {}, "node2": {}, "node3": {}}
	c := newTestCluster(t, 3, func(cfg *engine.Config) { cfg.Clock = hasty{cfg.Clock, waits[path.Base(cfg.Dir)]} })
	ctx, leader, off := context.Background(), c.leader(), false
	_, err := c.nodes[leader].SetSwitches(ctx, nil, nil, &off)
	must(t, err)
	res, err := c.nodes[leader].Do(ctx, engine.Caller{Tenant: format.DefaultTenant}, engine.Batch{Ops: []engine.Op{&engine.Timer{
		Op: format.TimerSchedule, Queue: "q", Partition: "p", Key: "k", Delay: time.Millisecond, Message: engine.Message{Payload: []byte("late")}}}})
	must(t, err)
	if res[0].Err != nil {
		t.Fatal(res[0].Err)
	}
	follower := leader%3 + 1
	count := waits[fmt.Sprint("node", follower)]
	before := count.Load()
	for i := range 50 {
		_, err := push(ctx, c.nodes[follower], "q", "p", "", fmt.Sprint(i))
		must(t, err)
	}
	if n := count.Load() - before; n > 50 {
		t.Errorf("while 50 messages were pushed the follower waited %d times for no time", n)
	}
}
