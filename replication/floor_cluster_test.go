package replication

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"queen/engine"
	"queen/engine/format"
	"queen/engine/invariants"
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
	s := c.sequencer(node)
	st, _ := s.log.Replica(s.group, node)
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
// left of it. A node that is away holds the others back, and comes back by the log.
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

	c.stop(3)
	held, _ := c.sequencer(1).log.Replica(firstGroup, 1)
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

// past lets messages flow until every floor has passed an entry.
func (c *testCluster) past(end format.Index) {
	c.t.Helper()
	c.flow("the floors pass", func() bool {
		for node := range c.nodes {
			if c.floor(node) <= end {
				return false
			}
		}
		return true
	})
}

// marksEqual waits until all nodes have come to one mark, at which their states and logs are equal.
func (c *testCluster) marksEqual() {
	c.t.Helper()
	c.until("equal marks", func() bool {
		seen := map[format.ManifestMark]bool{}
		numbers := map[uint64]bool{}
		for _, n := range c.nodes {
			m := n.Marked()
			seen[m], numbers[m.Number] = true, true
		}
		if len(numbers) == 1 && len(seen) > 1 {
			c.t.Fatalf("nodes differ at a mark: %+v", seen)
		}
		return len(numbers) == 1
	})
}

// TestPull: a node that was away for longer than the log is held for, and one that is new to a log without a start, pull a copy of
// another node's state and go on from there: with every message, every id that was seen, and the same state at the marks.
func TestPull(t *testing.T) {
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
	c.flow("a floor", func() bool { return c.floor(1) > 0 })
	end, _ := c.sequencer(3).log.Replica(firstGroup, 3)
	c.stop(3)
	c.hold = 2 * time.Second // more than a node that runs lags
	for _, node := range []format.Replica{1, 2} {
		c.stop(node)
	}
	c.start(1, 2)
	c.past(end.Last + 100)
	c.start(3)
	if st, _ := c.sequencer(3).log.Replica(firstGroup, 3); st.Floor <= end.Last {
		t.Fatalf("node 3 did not pull: %+v", st)
	}
	c.compare(kept)
	c.marksEqual()

	c.peers[4], c.join = freePair(t), 4
	if _, err := query(ctx, c.peers[c.leader()], nil, askAdd, 0, 4, c.peers[4]); err != nil {
		t.Fatal(err)
	}
	c.start(4)
	c.compare(kept)
	c.until("it votes", func() bool {
		_, err := query(ctx, c.peers[c.leader()], nil, askPromote, 0, 4, "")
		return err == nil
	})
	at, _ := c.sequencer(4).log.Replica(firstGroup, 4)
	c.past(at.Last)
	c.compare(kept)
	c.marksEqual()
	c.stop(4)
	c.start(4)
	for node, n := range c.nodes {
		c.until("it is caught up", func() bool { return len(readAll(t, n, "q", "p1")) >= kept })
		if at, err := push(ctx, n, "q", "p1", "0-7", "again"); err != nil || at != 7 {
			t.Errorf("node %d: the repeat of an id is at %d: %v", node, at, err)
		}
	}
	c.compare(kept)
}

// keep pushes messages that nobody consumes, as compare expects them.
func (c *testCluster) keep(count int) {
	c.t.Helper()
	for i := range count {
		for p := range 3 {
			if _, err := push(context.Background(), c.nodes[c.leader()], "q", fmt.Sprint("p", p+1), fmt.Sprint(p, "-", i), fmt.Sprint("payload ", p+1, i)); err != nil {
				c.t.Fatal(err)
			}
		}
	}
}

// TestPullCutOff: a node ends at each step of a pull, and the next start begins anew or goes on; once who it pulls from ends.
func TestPullCutOff(t *testing.T) {
	c := newTestCluster(t, 3, smallLogs)
	const kept = 10
	c.keep(kept)
	c.configure("flow")
	c.flow("a floor", func() bool { return c.floor(1) > 0 })
	c.hold = 2 * time.Second // more than a node that runs lags
	for _, node := range []format.Replica{1, 2} {
		c.stop(node)
		c.start(node)
	}
	for point, hits := range map[string]int64{"engine.pull.block-taken": 5, "engine.pull.marked": 1, "engine.pull.old-removed": 1, "engine.pull.moved": 1} {
		end, _ := c.sequencer(3).log.Replica(firstGroup, 3)
		c.stop(3)
		c.past(end.Last + 100) // it may have taken some more until it had stopped
		ended := make(chan struct{})
		disarm := invariants.ArmFunc(point, hits, runtime.Goexit)
		go func() {
			defer close(ended)
			if n, err := c.open(3); n != nil || err != nil {
				t.Errorf("%s was not passed: %v", point, err)
			}
		}()
		<-ended
		disarm()
		if t.Failed() {
			return
		}
		c.start(3)
		c.compare(kept)
	}
	c.marksEqual()
	end, _ := c.sequencer(3).log.Replica(firstGroup, 3)
	c.stop(3)
	c.past(end.Last + 100)     // it may have taken some more until it had stopped
	follower := 3 - c.leader() // who is asked first
	gone := false
	disarm := invariants.ArmFunc("engine.pull.block-taken", 5, func() { gone = true; c.stop(follower) })
	defer disarm()
	started := make(chan error, 1)
	go func() {
		n, err := c.open(3)
		if err == nil {
			c.nodes[3] = n
		}
		started <- err
	}()
	if err := <-started; err != nil || !gone {
		t.Fatal(gone, err)
	}
	c.start(follower)
	c.compare(kept)
}
