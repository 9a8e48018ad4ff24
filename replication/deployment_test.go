package replication

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"queen/engine/format"
)

// TestReusedAddress: a cluster goes on calling the address of a node that is gone, where a node of another cluster listens now, with
// the same number. Neither takes the other's traffic, nor believes what it says of itself.
func TestReusedAddress(t *testing.T) {
	c := newTestCluster(t, 3, nil)
	c.leader()
	ctx := context.Background()
	if _, err := push(ctx, c.nodes[c.leader()], "q", "p", "", "of the old cluster"); err != nil {
		t.Fatal(err)
	}
	c.stop(3)
	other := &testCluster{t: t, dir: t.TempDir(), peers: map[format.Replica]string{3: c.peers[3], 4: freePair(t), 5: freePair(t)}}
	other.begin(3, 4, 5)
	for i := range 30 {
		for name, cl := range map[string]*testCluster{"old": c, "new": other} {
			if _, err := push(ctx, cl.nodes[cl.leader()], "q", "p", "", fmt.Sprint(name, i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for cl, want := range map[*testCluster]int{c: 31, other: 30} {
		for node, n := range cl.nodes {
			cl.until("the messages", func() bool { return len(readAll(t, n, "q", "p")) >= want })
			if got := readAll(t, n, "q", "p"); len(got) != want {
				t.Errorf("node %d has %d messages, want %d: %.3q...", node, len(got), want, got)
			}
		}
	}
	s := c.sequencer(c.leader())
	if a, b := s.shared.hostConfig().DeploymentID, other.sequencer(3).shared.hostConfig().DeploymentID; a == b {
		t.Errorf("raft's traffic of both clusters is under the number %x", a)
	}
	c.until("a census without the stranger", func() bool {
		reports := s.Reports()
		if r, ok := reports[3]; ok && r.Deployment != s.deployment.Load() {
			t.Fatalf("a stranger counts: %+v", r)
		}
		return len(reports) == 1
	})
}

// TestLearnDeployment: who does not know the cluster's number takes it from a node that has a history, and whoever knows it refuses
// nodes of another cluster.
func TestLearnDeployment(t *testing.T) {
	s := &Sequencer{o: Options{Node: 1, Peers: map[format.Replica]string{1: "h:1", 2: "h:3", 3: "h:5"}}, deployment: new(atomic.Uint64)}
	for _, step := range []struct {
		reports map[format.Replica]Report
		known   uint64
		err     error
	}{
		{map[format.Replica]Report{2: {Deployment: 7}}, 0, nil}, // it may be about to begin another one
		{map[format.Replica]Report{2: {Flags: ReportBorn}}, 0, nil},
		{map[format.Replica]Report{3: {Deployment: 8, Flags: ReportBorn}}, 8, nil},
		{map[format.Replica]Report{2: {}, 3: {Deployment: 8}}, 8, nil},
		{map[format.Replica]Report{2: {Deployment: 7}, 3: {Deployment: 8}}, 8, errForeign},
	} {
		if err := s.learnDeployment(step.reports); !errors.Is(err, step.err) || s.deployment.Load() != step.known {
			t.Errorf("%+v: %v, the number is %d", step.reports, err, s.deployment.Load())
		}
	}
	// Node 4 was one of the first members, and this node was not told to look for it: its address is another cluster's by now.
	reports := map[format.Replica]Report{3: {Deployment: 8}, 4: {Deployment: 9, Flags: ReportBorn}}
	if err := s.learnDeployment(reports); err != nil || len(reports) != 1 || s.deployment.Load() != 8 {
		t.Errorf("%v: %v", reports, err)
	}
	// A cluster that began with the same nodes has the same number, and other data.
	s.noteCluster(format.UUID{1})
	s.noteCluster(format.UUID{2})
	for r, foreign := range map[Report]bool{{Deployment: 8}: false, {Deployment: 8, Cluster: format.UUID{1}}: false,
		{Deployment: 8, Cluster: format.UUID{2}}: true} {
		if err := s.learnDeployment(map[format.Replica]Report{3: r}); errors.Is(err, errForeign) != foreign {
			t.Errorf("%+v: %v", r, err)
		}
	}
	a, b := deploymentOf(map[uint64]string{1: "h:1", 2: "h:3"}), deploymentOf(map[uint64]string{1: "h:1", 3: "h:3"})
	if a == b || a != deploymentOf(map[uint64]string{2: "h:3", 1: "h:1"}) {
		t.Errorf("numbers %x and %x", a, b)
	}
}

// TestDeploymentIsKept: nodes that were not there from the start know the cluster's number after a restart of all of them, when
// nobody is left to ask who was.
func TestDeploymentIsKept(t *testing.T) {
	ctx := context.Background()
	c := newTestCluster(t, 1, nil)
	first := c.sequencer(1).deployment.Load()
	for _, node := range []format.Replica{2, 3} {
		c.peers[node], c.join = freePair(t), node
		if _, err := query(ctx, c.peers[c.leader()], nil, askAdd, 0, node, c.peers[node]); err != nil {
			t.Fatal(err)
		}
		c.start(node)
		c.until("it votes", func() bool {
			_, err := query(ctx, c.peers[c.leader()], nil, askPromote, 0, node, "")
			return err == nil
		})
	}
	for node, n := range c.nodes {
		c.until("the number is noted", func() bool { return n.Deployment() == first })
		if got := c.sequencer(node).deployment.Load(); got != first {
			t.Errorf("node %d: %x, want %x", node, got, first)
		}
	}
	c.until("node 1 is removed", func() bool {
		_, _ = query(ctx, c.peers[c.leader()], nil, askTransfer, 0, 2, "")
		_, err := query(ctx, c.peers[c.leader()], nil, askRemove, 0, 1, "")
		return err == nil
	})
	for node := range c.nodes {
		c.stop(node)
	}
	c.join = 0
	c.start(2, 3)
	if _, err := push(ctx, c.nodes[c.leader()], "q", "p", "", "x"); err != nil {
		t.Fatal(err)
	}
	for node := range c.nodes {
		if got := c.sequencer(node).deployment.Load(); got != first {
			t.Errorf("node %d: %x after a restart, want %x", node, got, first)
		}
	}
}
