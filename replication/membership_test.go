package replication

import (
	"context"
	"strings"
	"testing"

	"queen/engine"
	"queen/engine/format"
)

// TestEveryNodeKnowsTheMembers: every node knows all members, which version they are, who leads and that a majority answers; a node that is asked to have
// another one lead does so although neither of them leads.
func TestEveryNodeKnowsTheMembers(t *testing.T) {
	c := newTestCluster(t, 3, nil)
	leader := c.leader()
	asked, to := leader%3+1, (leader+1)%3+1
	for node, n := range c.nodes {
		m, ok := engine.MembershipOf(engine.Limit(n, nil))
		if !ok {
			t.Fatalf("node %d has no membership", node)
		}
		c.until("all members are heard", func() bool {
			leads := format.Replica(0)
			all := m.Members()
			for i, x := range all {
				if x.Node != format.Replica(i+1) || x.Address != c.peers[x.Node] || !x.Votes {
					t.Fatalf("node %d: %+v", node, x)
				}
				if !x.Heard || x.Applied == 0 || x.Commit < x.Applied || x.Version != "1.2.3" {
					return false
				}
				if x.Leads {
					leads = x.Node
				}
			}
			return len(all) == 3 && leads == leader
		})
		st, err := n.Status(context.Background())
		if err != nil || !st.Quorum || st.Cluster.IsZero() || st.Leader != leader || st.Commit < st.Applied {
			t.Errorf("node %d: %+v, %v", node, st, err)
		}
	}
	m, _ := engine.MembershipOf(c.nodes[asked])
	c.until("the lead is handed over", func() bool { return m.MakeLead(context.Background(), 0, to) == nil })
	c.until("it leads", func() bool { return c.leader() == to }) // who led says so a moment longer
	if err := m.MakeLead(context.Background(), 1, 9); err == nil {
		t.Error("a node that is none leads")
	}
	if err := m.MakeLead(context.Background(), 2, to); err == nil || !strings.Contains(err.Error(), "the cluster has 1 raft groups") {
		t.Errorf("a group that is not there: %v", err)
	}
	for _, node := range []format.Replica{leader, to} {
		c.stop(node)
	}
	c.until("no majority", func() bool {
		st, _ := c.nodes[asked].Status(context.Background())
		return !st.Quorum && !st.CanWrite
	})
}
