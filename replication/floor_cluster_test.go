package replication

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"queen/engine"
	"queen/engine/format"
)

// smallLogs lets a cluster go through marks, checkpoints and segments within some thousand messages.
func smallLogs(cfg *engine.Config) {
	cfg.SegmentBytes, cfg.MarkBytes, cfg.CheckpointBytes = 1<<20, 64<<10, 128<<10
	cfg.RetentionEvery, cfg.CheckpointEvery = 20*time.Millisecond, 50*time.Millisecond
}

func (c *testCluster) sequencer(node format.Replica) *Sequencer {
	seq, _ := c.nodes[node].Cluster()
	return seq.(*Sequencer)
}

func (c *testCluster) floor(node format.Replica) format.Index {
	st, _ := c.sequencer(node).log.Replica(group, node)
	return st.Floor
}

// segments is how many segments of the log a node holds, and the first of them.
func (c *testCluster) segments(node format.Replica) (n int, first uint32) {
	all := c.sequencer(node).log.Segments()
	return len(all), all[0].Segment
}

// configure makes a queue keep its messages for a second.
func (c *testCluster) configure(queue string) {
	c.t.Helper()
	_, err := c.nodes[c.leader()].Catalog().Configure(context.Background(), engine.Caller{Tenant: format.DefaultTenant},
		engine.ConfigureRequest{Queue: queue, Patch: format.QueueOptions{Set: format.OptRetentionSeconds | format.OptRetentionEnabled,
			RetentionSeconds: 1, RetentionEnabled: true}})
	if err != nil {
		c.t.Fatal(err)
	}
}

// flow lets messages come, which go again after a second, until done.
func (c *testCluster) flow(what string, done func() bool) {
	c.t.Helper()
	noise := make([]byte, 32<<10)
	rng := rand.New(rand.NewPCG(1, 2))
	c.until(what, func() bool {
		n := c.nodes[c.leader()]
		for range 20 {
			for i := range noise {
				noise[i] = byte(rng.Uint32())
			}
			if _, err := push(context.Background(), n, "flow", fmt.Sprint("p", rng.IntN(3)), "", string(noise)); err != nil {
				c.t.Fatal(err)
			}
		}
		return done()
	})
}

// TestFloorRises: what is consumed leaves the disks of all nodes, the log is given away with it, and nodes restart on what is
// left of it. A node that is away holds the others back, and comes back by the log; a node that would need the start of it is
// not added.
func TestFloorRises(t *testing.T) {
	c := newTestCluster(t, 3, smallLogs)
	ctx := context.Background()
	const kept = 20
	for i := range kept {
		for p := range 3 {
			if _, err := push(ctx, c.nodes[c.leader()], "q", fmt.Sprint("p", p+1), fmt.Sprint(p, "-", i), fmt.Sprint("payload ", p+1, i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	c.configure("flow")
	all := func(what func(node format.Replica) bool) func() bool {
		return func() bool {
			for node := range c.nodes {
				if !what(node) {
					return false
				}
			}
			return true
		}
	}
	c.flow("every floor rises, and the first segments go", all(func(node format.Replica) bool {
		_, first := c.segments(node)
		return c.floor(node) > 0 && first > 4
	}))
	for _, node := range []format.Replica{1, 2, 3} {
		c.stop(node)
		c.start(node)
		c.compare(kept)
	}
	for node := range c.nodes {
		c.stop(node)
	}
	c.start(1, 2, 3)
	c.compare(kept)
	before := map[format.Replica]format.Index{}
	for node := range c.nodes {
		before[node] = c.floor(node)
	}
	c.flow("floors rise after restarts", all(func(node format.Replica) bool { return c.floor(node) > before[node] }))

	if _, err := query(ctx, c.peers[c.leader()], nil, askAdd, 0, 4, freePair(t)); err == nil || !strings.Contains(err.Error(), "given away") {
		t.Errorf("a node was added to a log without a start: %v", err)
	}
	c.stop(3)
	held, _ := c.sequencer(1).log.Replica(group, 1)
	c.flow("the log outgrows what is held without node 3", func() bool { n, _ := c.segments(1); return n > 20 })
	for node := range c.nodes {
		if got := c.floor(node); got > held.Last {
			t.Errorf("node %d: the floor is at %d, and node 3 ended at most at %d", node, got, held.Last)
		}
	}
	c.start(3)
	c.flow("the floor goes on", all(func(node format.Replica) bool { return c.floor(node) > held.Last }))
	c.compare(kept)
}

// TestLeftBehind: a node that was away for longer than the log is held for lacks entries that are gone. Who leads goes on when
// it comes back, and says so.
func TestLeftBehind(t *testing.T) {
	c := newTestCluster(t, 3, smallLogs)
	ctx := context.Background()
	c.configure("flow")
	c.flow("a floor", func() bool { return c.floor(1) > 0 })
	end, _ := c.sequencer(3).log.Replica(group, 3)
	c.stop(3)
	c.hold = time.Millisecond
	for _, node := range []format.Replica{1, 2} {
		c.stop(node)
	}
	c.start(1, 2)
	c.flow("the floor passes node 3", func() bool { return min(c.floor(1), c.floor(2)) > end.Last+100 })
	c.start(3)
	c.until("it is told of", func() bool {
		s := c.sequencer(c.leader())
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.mu.behind[3]
	})
	for range 50 {
		if _, err := push(ctx, c.nodes[c.leader()], "q", "p", "", "x"); err != nil {
			t.Fatal(err)
		}
	}
	if got := readAll(t, c.nodes[c.leader()], "q", "p"); len(got) != 50 {
		t.Errorf("%d messages", len(got))
	}
}
