package engine

import (
	"context"
	"sync"
	"time"

	"queen/engine/format"
)

// probe remembers for a moment whether the cluster answered, so that health routes that are asked often do not
// cost a round each.
type probe struct {
	mu   sync.Mutex
	at   int64 // monotonic time of the last one; 0 before the first
	fine bool
}

// probeEvery is how long an answer is kept, probeWait how long one is waited for.
const (
	probeEvery = 200 * time.Millisecond
	probeWait  = 500 * time.Millisecond
)

// reaches reports whether a majority answers, by way of the leader.
func (c *cluster) reaches(ctx context.Context) bool {
	p := &c.probe
	p.mu.Lock()
	defer p.mu.Unlock()
	now := c.n.cfg.Clock.Mono()
	if p.at != 0 && time.Duration(now-p.at)*time.Microsecond < probeEvery {
		return p.fine
	}
	ctx, cancel := c.n.withTimer(ctx, probeWait)
	defer cancel()
	p.fine = c.seq.Barrier(ctx) == nil
	p.at = max(c.n.cfg.Clock.Mono(), 1)
	return p.fine
}

// status fills in what a node of a cluster has to say.
func (c *cluster) status(ctx context.Context, st *Status) {
	leader, epoch, _ := c.role()
	st.Leader, st.Node, st.Term = leader, c.self, max(st.Term, epoch)
	if r, ok := c.n.seq.Log().Replica(c.n.seq.Group(), c.self); ok {
		st.Commit = max(st.Commit, r.Commit)
	}
	switch {
	case st.Role == "stopped":
		return
	case c.leads.Load() != 0:
		st.Role = "leader"
	case leader == 0:
		st.Role = "candidate"
	default:
		st.Role = "follower"
	}
	if !st.Ready {
		return
	}
	why := ""
	st.Quorum = false
	switch {
	case leader == 0:
		why = "the cluster has no leader"
	case !c.reaches(ctx):
		why = "no majority of the cluster answers"
	default:
		st.Quorum = true
		if c.seq.Stuck() >= stuckAfter {
			why = whyStuck
		}
	}
	if why != "" {
		st.Why, st.CanWrite = why, false
	}
	c.drained(st)
}

// stuckAfter is for how long who leads may take nothing before a node says that it can not write: an election takes less.
const stuckAfter = time.Second

// whyStuck is what a node says whose calls do not reach the leader, although raft does.
const whyStuck = "the leader takes nothing from this node: its port above raft's does not answer here"

// Cluster describes the node's cluster; false for a single node.
func (n *Node) Cluster() (Replicated, bool) {
	if n.cluster == nil {
		return nil, false
	}
	return n.cluster.seq, true
}

// Marked is the newest Mark applied here: equal numbers have equal digests and chain hashes on all nodes of a cluster. Zero
// before the first.
func (n *Node) Marked() format.ManifestMark { return n.files.lastMark() }
