package replication

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"testing"

	"queen/engine"
	"queen/engine/format"
	"queen/engine/vfs"
)

// picky is a node that takes commands of one byte for readable and no others.
type picky struct {
	engine.Peer
	accepted []uint64
}

func (p *picky) Accept(_ format.Replica, h engine.Handover) error {
	if len(h.Commands) != 1 {
		return errors.New("these are no commands")
	}
	p.accepted = append(p.accepted, h.Request)
	return nil
}

// TestUnreadableHandover: what the leader can not read does not come again, and what is behind it is taken once.
func TestUnreadableHandover(t *testing.T) {
	p := &picky{}
	l, of := &links{s: &Sequencer{o: Options{}.withDefaults(), peer: p}}, &taken{}
	for _, v := range []struct {
		number   uint64
		commands int
		refused  bool
	}{{1, 1, false}, {2, 7, true}, {2, 7, false}, {3, 1, false}, {3, 1, false}} {
		h := engine.Handover{Request: 10 + v.number, Commands: make([]byte, v.commands)}
		if refused, err := l.takeOne(2, of, v.number, h); err != nil || of.number != v.number || refused != v.refused {
			t.Errorf("handover %d: refused %v, %v, taken up to %d", v.number, refused, err, of.number)
		}
	}
	if len(p.accepted) != 2 || p.accepted[0] != 11 || p.accepted[1] != 13 {
		t.Errorf("taken: %v", p.accepted)
	}
	if !slices.Equal(of.refused, []uint64{12}) {
		t.Errorf("refused: %v", of.refused)
	}
	if _, err := l.takeOne(2, of, 5, engine.Handover{}); err == nil || of.number != 3 {
		t.Errorf("a handover out of its turn: %v, %d", err, of.number)
	}
}

// TestIncarnations: each start of a node has a higher incarnation, by which the leader takes its streams and refuses those of an earlier
// one.
func TestIncarnations(t *testing.T) {
	o := testOptions(vfs.NewMem())
	earlier := hello{node: 5, epoch: 7}
	taker := &links{}
	taker.mu.taken = map[format.Replica]*taken{}
	for start := range uint64(3) {
		f, err := openFloorLog(o)
		must(t, err)
		must(t, f.append(1))
		s := &Sequencer{o: Options{Node: 5}.withDefaults(), log: f.db.every.log, ended: make(chan struct{})}
		l := newLinks(s)
		if l.incarnation != start+1 {
			t.Errorf("start %d has incarnation %d", start+1, l.incarnation)
		}
		now := earlier
		now.incarnation = l.incarnation
		if taker.takenOf(now) == nil {
			t.Errorf("the stream of start %d is refused", start+1)
		}
		if start > 0 && taker.takenOf(earlier) != nil {
			t.Errorf("a stream of start %d is taken after that of start %d", start, start+1)
		}
		earlier = now
		close(s.ended)
		l.close()
		must(t, f.db.every.log.Close())
	}
}

// TestStreamOfAStranger: who is not another node of the cluster hands nothing over, and is not remembered.
func TestStreamOfAStranger(t *testing.T) {
	c := newTestCluster(t, 3, nil)
	leader := c.leader()
	s := c.sequencer(leader)
	side, err := sideAddress(c.peers[leader])
	must(t, err)
	for _, node := range []format.Replica{0, leader, 9} {
		conn, err := net.Dial("tcp", side)
		must(t, err)
		h := hello{group: 1, node: node, incarnation: 1, epoch: 1 << 20, deployment: s.deployment.Load()}
		_, err = conn.Write(h.append(nil))
		must(t, err)
		if number, err := readNumber(conn); err == nil {
			t.Errorf("node %d goes on behind handover %d", node, number)
		}
		conn.Close()
		s.links.mu.Lock()
		if s.links.mu.taken[node] != nil {
			t.Errorf("node %d is remembered", node)
		}
		s.links.mu.Unlock()
	}
	if _, err := push(context.Background(), c.nodes[leader%3+1], "q", "p", "", "x"); err != nil {
		t.Error(err)
	}
}

// TestRefusedHandover: the caller of commands that the leader can not read is told, and the calls behind it go on.
func TestRefusedHandover(t *testing.T) {
	var refused atomic.Bool
	c := &testCluster{t: t, dir: t.TempDir(), peers: map[format.Replica]string{1: freePair(t), 2: freePair(t), 3: freePair(t)}}
	c.wrap = func(p engine.Peer) engine.Peer { return &deaf{p, &refused} }
	c.begin(1, 2, 3)
	follower := c.leader()%3 + 1
	ctx := context.Background()
	_, err := push(ctx, c.nodes[follower], "q", "p", "", "not understood")
	var e *engine.Error
	if !errors.As(err, &e) || e.Code != engine.CodeInternal || e.Outcome != engine.OutcomeNone {
		t.Errorf("the caller was told %v", err)
	}
	if at, err := push(ctx, c.nodes[follower], "q", "p", "", "understood"); err != nil || at != 0 {
		t.Errorf("the next call is at %d: %v", at, err)
	}
}

// deaf does not understand the first commands that another node hands over.
type deaf struct {
	engine.Peer
	refused *atomic.Bool
}

func (d *deaf) Accept(from format.Replica, h engine.Handover) error {
	if !d.refused.Swap(true) {
		return errors.New("these are no commands")
	}
	return d.Peer.Accept(from, h)
}
