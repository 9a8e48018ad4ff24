package replication

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"queen/engine"
	"queen/engine/format"
)

// TestLeaderChangesUnderLoad: callers on every node push without ids, so that nothing but the cluster itself keeps a call that
// is brought under way anew from applying twice, while the leadership moves on and on. No call fails, and every
// partition holds what its caller pushed, once and in order.
func TestLeaderChangesUnderLoad(t *testing.T) {
	c := newTestCluster(t, 3, func(cfg *engine.Config) { cfg.MarkBytes = 64 << 10 })
	c.leader()
	ctx := context.Background()
	var stop atomic.Bool
	var wg sync.WaitGroup
	pushed := make([]int, 6)
	for i := range pushed {
		node := c.nodes[format.Replica(i%3+1)]
		wg.Add(1)
		go func() {
			defer wg.Done()
			for ; !stop.Load(); pushed[i]++ {
				at, err := push(ctx, node, "load", fmt.Sprint(i), "", fmt.Sprint(pushed[i]))
				if err != nil || at != format.Offset(pushed[i]) {
					t.Errorf("push %d of caller %d: offset %d: %v", pushed[i], i, at, err)
					return
				}
			}
		}()
	}
	changes := 0
	for changes < 12 {
		leader := c.leader()
		seq, _ := c.nodes[leader].Cluster()
		short, cancel := context.WithTimeout(ctx, 5*time.Second)
		if seq.(*Sequencer).Transfer(short, leader%3+1) == nil {
			changes++
		}
		cancel()
		before := c.nodes[leader].Marked().Number
		c.until("some work", func() bool { return t.Failed() || c.nodes[leader].Marked().Number > before })
	}
	stop.Store(true)
	wg.Wait()
	total := 0
	for i, n := range pushed {
		total += n
		for node := range c.nodes {
			c.until("the messages", func() bool { return len(readAll(t, c.nodes[node], "load", fmt.Sprint(i))) >= n })
			got := readAll(t, c.nodes[node], "load", fmt.Sprint(i))
			if len(got) != n {
				t.Errorf("node %d: partition %d holds %d messages, %d were pushed", node, i, len(got), n)
			}
			for k := range got {
				if got[k] != fmt.Sprint(k) {
					t.Fatalf("node %d: partition %d: %q at %d", node, i, got[k], k)
				}
			}
		}
	}
	t.Logf("%d pushes over %d changes of leader", total, changes)
}

// TestLeaderOutOfSight: a follower that loses sight of the leader and finds it again in the same epoch goes on where it
// was. What it handed over before and was not taken comes behind it, and nothing is taken for something else.
func TestLeaderOutOfSight(t *testing.T) {
	c := newTestCluster(t, 3, nil)
	leader := c.leader()
	follower := leader%3 + 1
	seq, _ := c.nodes[follower].Cluster()
	s := seq.(*Sequencer)
	ctx := context.Background()
	next := format.Offset(0)
	for range 20 {
		errs := make(chan error, 8)
		for range cap(errs) {
			go func() {
				_, err := push(ctx, c.nodes[follower], "sight", "p", "", "x")
				errs <- err
			}()
		}
		_, epoch, _, _ := s.host.GetLeaderID(uint64(firstGroup))
		s.told(0, epoch)
		s.told(uint64(leader), epoch)
		for range cap(errs) {
			if err := <-errs; err != nil {
				t.Fatal(err)
			}
			next++
		}
	}
	if at, err := push(ctx, c.nodes[follower], "sight", "p", "", "last"); err != nil || at != next {
		t.Fatalf("offset %d after %d pushes: %v", at, next, err)
	}
}

// TestLeaverSeesTheNextLeaderBegin: a leader that leaves is there until the others have applied the Term of who leads then. Before that the
// new leader may need it for a majority.
func TestLeaverSeesTheNextLeaderBegin(t *testing.T) {
	c := newTestCluster(t, 3, nil)
	for range 3 {
		leader := c.leader()
		before := c.nodes[leader].Standing().Epoch
		seq, _ := c.nodes[leader].Cluster()
		s := seq.(*Sequencer)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		s.handLeadership(ctx)
		s.linger(ctx)
		cancel()
		if s.leads() {
			t.Fatal("nobody else leads")
		}
		for node, n := range c.nodes {
			if epoch := n.Standing().Epoch; node != leader && epoch <= before {
				t.Errorf("node %d has applied epoch %d when the leader of %d is about to go", node, epoch, before)
			}
		}
	}
}
