package replication

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

// TestTransferRefused: who leads says why a node does not, and whether it may be otherwise a moment later. Calls go on afterwards.
func TestTransferRefused(t *testing.T) {
	c := newTestCluster(t, 3, nil)
	ctx := context.Background()
	away := c.leader()%3 + 1
	refused := func(to format.Replica, words string, again bool) {
		t.Helper()
		c.until(words, func() bool { // who leads may change
			err := c.sequencer(c.leader()).Transfer(ctx, to)
			if err == nil {
				t.Fatalf("node %d leads", to)
			}
			if err != engine.ErrNotLeader && (!strings.Contains(err.Error(), words) || Again(err) != again) {
				t.Fatalf("node %d: %v, which may be otherwise later: %v", to, err, Again(err))
			}
			return err != engine.ErrNotLeader
		})
	}
	refused(9, "node 9 does not vote", false)
	c.stop(away)
	refused(away, "does not answer", false)
	var say atomic.Pointer[Report]
	answers(t, c.peers[away], func() (Report, error) {
		if r := say.Load(); r != nil {
			return *r, nil
		}
		return Report{}, errNotOpen(1)
	})
	refused(away, "is not open here", true)
	say.Store(&Report{Node: 9, Flags: ReportPart})
	refused(away, errForeign.Error(), false)
	say.Store(&Report{Node: uint64(away)})
	refused(away, "does not take part yet", true)
	say.Store(&Report{Node: uint64(away), Flags: ReportPart})
	refused(away, "has applied 0 of ", true)
	own := c.sequencer(c.leader()).peer.Standing().Applied
	say.Store(&Report{Node: uint64(away), Flags: ReportPart, Applied: uint64(own) + 1000})
	refused(away, "did not take the lead", true) // it is not there
	for node, n := range c.nodes {
		if _, err := push(ctx, n, "q", "p", "", "x"); err != nil {
			t.Errorf("a push on node %d: %v", node, err)
		}
	}
}

// TestTransferIsTriedAgain: what keeps the lead from moving for a while keeps an operator's word from coming true only for as long, and calls go
// on meanwhile.
func TestTransferIsTriedAgain(t *testing.T) {
	c := newTestCluster(t, 3, nil)
	leader := c.leader()
	s, to := c.sequencer(leader), leader%3+1
	busy := func(by int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.mu.inFlight += by
		s.mu.room.Broadcast()
	}
	held := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.mu.held
	}
	busy(1) // a proposal that does not come to its end
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	moved := make(chan error, 1)
	go func() { moved <- s.place(ctx, to) }()
	for range 2 {
		c.until("calls wait", held)
		c.until("calls go on", func() bool { return !held() })
	}
	select {
	case err := <-moved:
		t.Fatalf("it came to %v with a proposal under way", err)
	default:
	}
	busy(-1)
	if err := <-moved; err != nil {
		t.Fatal(err)
	}
	c.until("it leads", func() bool { return c.leader() == to }) // who led says so a moment longer
}

// TestAgain: what may be otherwise later is told apart here, and in the words of another node.
func TestAgain(t *testing.T) {
	slow := later{errors.New("it was slow")}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false}, {slow, true}, {fmt.Errorf("raft group 2: %w", slow), true}, {refusal("raft group 2: " + slow.Error()), true},
		{engine.ErrNotLeader, true}, {refusal(engine.ErrNotLeader.Error()), true}, {errors.Join(errForeign, errNoneLeads), true},
		{errForeign, false}, {refusal("replication: node 9 does not vote in this cluster"), false}, {context.DeadlineExceeded, false},
	} {
		if got := Again(c.err); got != c.want {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}

// TestPatience: who asks for a transfer says for how long it waits, and who does not know of that is tried for the usual time.
func TestPatience(t *testing.T) {
	if words := patience(context.Background()); words != "" {
		t.Errorf("without an end: %q", words)
	}
	asks, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	if d, err := time.ParseDuration(patience(asks)); err != nil || d <= 0 || d > 54*time.Minute {
		t.Errorf("%v of an hour: %v", d, err)
	}
	for words, most := range map[string]time.Duration{"20m": 20 * time.Minute, "2h": time.Hour, "": answerWithin, "127.0.0.1:80": answerWithin} {
		ctx, cancel := withPatience(asks, words)
		end, ends := ctx.Deadline()
		if left := time.Until(end); !ends || left > most || left < most/2 {
			t.Errorf("%q: %v are left: %v", words, left, ends)
		}
		cancel()
	}
	ended, cancel := withPatience(asks, "-1s")
	defer cancel()
	if ended.Err() == nil {
		t.Error("who does not wait any more is waited for")
	}
}
