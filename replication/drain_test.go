package replication

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lni/dragonboat/v4"

	"queen/engine"
	"queen/engine/format"
)

// drain asks a node for another one to drain, or to end that, until it is done.
func (c *testCluster) drain(asked, node format.Replica, on bool) (leads bool) {
	c.t.Helper()
	m := c.membership(asked)
	c.until("the drain", func() bool {
		var err error
		leads, err = m.Drain(context.Background(), node, on)
		var e *engine.Error
		if errors.As(err, &e) && e.Code == engine.CodeBadRequest {
			c.t.Fatal(err)
		}
		return err == nil
	})
	return leads
}

func (c *testCluster) membership(node format.Replica) engine.Membership {
	m, _ := engine.MembershipOf(c.nodes[node])
	return m
}

// drained lists the nodes that a node shows as draining.
func (c *testCluster) drained(node format.Replica) (all []format.Replica) {
	for _, x := range c.membership(node).Members() {
		if x.Draining {
			all = append(all, x.Node)
		}
	}
	return all
}

func (c *testCluster) status(node format.Replica) engine.Status {
	st, _ := c.nodes[node].Status(context.Background())
	return st
}

// TestDrain: a leader that drains gives the lead away, serves calls all the same, and every node knows it; it holds over a restart
// of all nodes, after which a node that drains does not keep the lead; the last voter that does not drain is refused, and who
// is no member; and the lead can come back once it is over.
func TestDrain(t *testing.T) {
	c := newTestCluster(t, 3, nil)
	ctx := context.Background()
	first := c.leader()
	asked := first%3 + 1
	if c.drain(asked, first, true) {
		t.Error("a node that drains leads on")
	}
	if got := c.drained(asked); !slices.Equal(got, []format.Replica{first}) {
		t.Errorf("the node that was asked shows %v as draining", got)
	}
	c.until("another one leads", func() bool { return c.leader() != first })
	for node := range c.nodes {
		c.until("all know", func() bool { return slices.Equal(c.drained(node), []format.Replica{first}) })
		if st := c.status(node); st.Draining != (node == first) || st.Draining != strings.Contains(st.Why, "drain") || !st.CanWrite {
			t.Errorf("node %d: %+v", node, st)
		}
	}
	if r := c.sequencer(first).report(0); r.Flags&ReportDrains == 0 {
		t.Error("it does not tell others that it drains")
	}
	if _, err := push(ctx, c.nodes[first], "q", "p", "", "through a node that drains"); err != nil {
		t.Error(err)
	}
	m := c.membership(c.leader())
	if err := m.MakeLead(ctx, 0, first); err == nil || !strings.Contains(err.Error(), "drains") {
		t.Errorf("a node that drains was made to lead: %v", err)
	}

	second := c.leader()
	c.drain(first, second, true)
	third := 6 - first - second
	c.until("the third one leads", func() bool { return c.leader() == third })
	for node, why := range map[format.Replica]string{third: "the last voter", 9: "no member"} {
		for asked := range c.nodes {
			var err error
			c.until("it knows who leads", func() bool {
				_, err = c.membership(asked).Drain(ctx, node, true)
				return !errors.Is(err, &engine.Error{Code: engine.CodeNoLeader})
			})
			var e *engine.Error
			if !errors.As(err, &e) || e.Code != engine.CodeBadRequest || e.Field != "node" || !strings.Contains(e.Message, why) {
				t.Errorf("node %d was asked to drain node %d: %v", asked, node, err)
			}
		}
	}

	for node := range maps.Clone(c.nodes) {
		c.stop(node)
	}
	c.start(1, 2, 3)
	c.until("the third one leads again", func() bool { return c.leader() == third })
	for node := range c.nodes {
		c.until("all know after a restart", func() bool {
			return slices.Equal(c.drained(node), []format.Replica{min(first, second), max(first, second)})
		})
	}
	c.drain(third, first, false)
	c.drain(third, first, false)
	c.until("it leads once more", func() bool { return c.membership(third).MakeLead(ctx, 0, first) == nil && c.leader() == first })
	c.drain(first, second, false)
	if got := c.drained(first); len(got) != 0 {
		t.Errorf("%v drain when it is over", got)
	}
}

// TestDrainNowhereToGo: a node that drains while every other voter drains or is away leads on and says so, and gives the lead away as
// soon as one is back. A node that is removed does not drain any more.
func TestDrainNowhereToGo(t *testing.T) {
	c := newTestCluster(t, 3, nil)
	leader := c.leader()
	other, away := leader%3+1, (leader+1)%3+1
	over, cancel := context.WithCancel(context.Background())
	cancel()
	s := c.sequencer(leader)
	s.giving.Lock()
	s.giveAway(over)
	if s.giving.told {
		t.Error("who had no time to ask says that nobody can lead")
	}
	s.giving.Unlock()
	c.drain(leader, other, true)
	c.stop(away)
	if leads := c.drain(leader, leader, true); !leads {
		t.Error("the lead went somewhere")
	}
	if st := c.status(leader); st.Role != "leader" || !strings.Contains(st.Why, "it leads until") {
		t.Errorf("%+v", st)
	}
	if _, err := push(context.Background(), c.nodes[other], "q", "p", "", "x"); err != nil {
		t.Error(err)
	}
	c.start(away)
	c.until("the lead is given away", func() bool { return c.leader() == away })
	if _, err := query(context.Background(), c.peers[away], nil, askRemove, 0, other, ""); err != nil {
		t.Fatal(err)
	}
	c.stop(other)
	c.until("it is forgotten", func() bool { return slices.Equal(c.drained(away), []format.Replica{leader}) })
}

// TestDrainUnderLoad: callers on every node push while the leader is drained again and again. No call fails.
func TestDrainUnderLoad(t *testing.T) {
	c := newTestCluster(t, 3, nil)
	c.leader()
	ctx := context.Background()
	var stop atomic.Bool
	var pushed [3]int
	errs := make(chan error, 3)
	for i := range pushed {
		node := c.nodes[format.Replica(i+1)]
		go func() {
			for ; !stop.Load(); pushed[i]++ {
				if at, err := push(ctx, node, "load", fmt.Sprint(i), "", "x"); err != nil || at != format.Offset(pushed[i]) {
					errs <- fmt.Errorf("push %d of caller %d: offset %d: %w", pushed[i], i, at, err)
					return
				}
			}
			errs <- nil
		}()
	}
	for range 4 {
		leader := c.leader()
		c.drain(leader%3+1, leader, true)
		c.until("another one leads", func() bool { return c.leader() != leader })
		c.drain(leader, leader, false)
	}
	stop.Store(true)
	for range pushed {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// TestChangeDraining: who may be added to those that drain, and taken out.
func TestChangeDraining(t *testing.T) {
	m := &dragonboat.Membership{Nodes: map[uint64]string{1: "a", 2: "b", 3: "c"}, NonVotings: map[uint64]string{4: "d"},
		Removed: map[uint64]struct{}{5: {}}}
	type list = []format.Replica
	for _, x := range []struct {
		now  list
		node format.Replica
		on   bool
		want list
		bad  string
	}{
		{nil, 2, true, list{2}, ""},
		{list{2}, 1, true, list{1, 2}, ""},
		{list{2}, 2, true, list{2}, ""},
		{list{1, 2}, 3, true, nil, "last voter"},
		{list{1, 2}, 4, true, list{1, 2, 4}, ""}, // it does not vote
		{list{2, 4}, 1, true, list{1, 2, 4}, ""},
		{list{1, 4}, 2, true, list{1, 2, 4}, ""},
		{nil, 5, true, nil, "no member"},
		{nil, 9, false, nil, "no member"},
		{nil, 3, false, list{}, ""},
		{list{1, 3}, 3, false, list{1}, ""},
		{list{1, 5}, 5, false, list{1}, ""}, // it was removed
	} {
		got, err := changeDraining(m, slices.Clone(x.now), x.node, x.on)
		if !slices.Equal(got, x.want) || (err != nil) != (x.bad != "") || err != nil && !strings.Contains(err.Error(), x.bad) {
			t.Errorf("%v, node %d, %v: %v, %v", x.now, x.node, x.on, got, err)
		}
	}
}

// TestHeirs: the lead goes to who has applied most of those that can take it.
func TestHeirs(t *testing.T) {
	reports := map[format.Replica]Report{1: {Applied: 5}, 2: {Applied: 9}, 3: {Applied: 9}, 4: {Applied: 12}}
	got := heirsOf(reports, func(node format.Replica, _ *Report) bool { return node != 4 })
	if !slices.Equal(got, []format.Replica{2, 3, 1}) {
		t.Errorf("%v", got)
	}
}

// TestGivingPace: the first try is at once, the next ones come ever later, and after a long rest it begins anew.
func TestGivingPace(t *testing.T) {
	var g giving
	now, before, gaps := int64(1), int64(0), []time.Duration{}
	for range 9 {
		for !g.due(now) {
			now += time.Millisecond.Microseconds()
		}
		gaps = append(gaps, time.Duration(now-before)*time.Microsecond)
		g.tried(now)
		before = now
	}
	s := time.Second
	if want := []time.Duration{time.Microsecond, s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 60 * s, 60 * s}; !slices.Equal(gaps, want) {
		t.Errorf("%v, want %v", gaps, want)
	}
	now += 2 * maxGivingGap.Microseconds()
	if g.tried(now); g.due(now+s.Microseconds()-1) || !g.due(now+s.Microseconds()) {
		t.Error("it does not begin anew")
	}
}
