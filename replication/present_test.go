package replication

import (
	"maps"
	"testing"

	"queen/engine"
	"queen/engine/format"
)

// TestPresent: a node knows who belongs to its cluster and who of them answers, and who leads without asking anybody.
func TestPresent(t *testing.T) {
	c := newTestCluster(t, 3, nil)
	c.leader()
	tells := func(node format.Replica, want map[format.Replica]bool) {
		t.Helper()
		seq, _ := c.nodes[node].Cluster()
		c.until("the members are told", func() bool { return maps.Equal(seq.(*Sequencer).Present(), want) })
	}
	for node := range c.nodes {
		tells(node, map[format.Replica]bool{1: true, 2: true, 3: true})
	}
	for node, n := range c.nodes {
		c.until("the leader is told", func() bool {
			st, err := n.Status(t.Context())
			leader, term := n.Records().Leader(engine.Caller{})
			return err == nil && leader != 0 && leader == st.Leader && term == st.Term
		})
		if leader, _ := n.Records().Leader(engine.Caller{}); c.nodes[leader] == nil {
			t.Fatalf("node %d says that %d leads", node, leader)
		}
	}
	c.stop(3)
	tells(1, map[format.Replica]bool{1: true, 2: true, 3: false})
}
