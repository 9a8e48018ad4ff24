package replication

import (
	"context"
	"errors"
	"testing"
	"time"

	"queen/engine"
	"queen/engine/format"
)

// openApart is OpenAll with other settings for groups above the first one.
func (c *routed) openApart(cfg engine.Config, o Options) (engine.Served, error) {
	o = o.of(cfg)
	o.shared = newHost(o.withDefaults())
	cfg.CheckpointEvery = time.Hour // so that the log of the first one keeps its start
	first, err := settle(groupConfig(cfg, o.shared, 1, format.UUID{}), o)
	if err != nil {
		return nil, err
	}
	seq, _ := first.Cluster()
	s := seq.(*Sequencer)
	nodes := []*engine.Node{first}
	if err = s.agree(context.Background(), first); err == nil {
		c.later(&cfg)
		nodes, err = openOthers(context.Background(), cfg, o, first, s)
	}
	if err != nil {
		return nil, errors.Join(err, closeAll(nodes))
	}
	return engine.NewRouter(nodes), nil
}

// TestPullOfOneGroup: a node is added to a cluster where the log of group 2 has lost its start and that of group 1 has not: it pulls a copy of
// group 2 and follows group 1 by its log.
func TestPullOfOneGroup(t *testing.T) {
	c := newRouted(t, 2, 1, 2, 3)
	c.later = smallLogs
	c.start(1, 2, 3)
	const kept = 20
	for g := format.RaftGroup(1); g <= 2; g++ {
		c.of(g).keep(kept)
	}
	two := c.of(2)
	two.configure("flow")
	two.past(0)
	for node := range c.nodes {
		if at := c.of(1).floor(node); at != 0 {
			t.Fatalf("group 1 of node %d begins behind entry %d", node, at)
		}
	}
	c.peers[4], c.join = freePair(t), 4
	c.asks("it is added", askAdd, 4)
	c.start(4)
	if one, two := c.of(1).floor(4), c.of(2).floor(4); one != 0 || two == 0 {
		t.Errorf("the logs of node 4 begin behind entry %d of group 1 and entry %d of group 2", one, two)
	}
	for g := format.RaftGroup(1); g <= 2; g++ {
		c.of(g).compare(kept)
	}
	c.asks("it votes", askPromote, 4)
}
