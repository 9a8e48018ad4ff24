package replication

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lni/dragonboat/v4/raftio"

	"queen/engine"
	"queen/engine/format"
	"queen/engine/vfs"
)

// twoGroups starts three nodes that are of raft groups 1 and 2, each group over directories of its own.
func twoGroups(t *testing.T) (one, two *testCluster) {
	peers, hosts := map[format.Replica]string{}, map[format.Replica]*host{}
	for node := format.Replica(1); node <= 3; node++ {
		peers[node] = freePair(t)
	}
	for node := range peers {
		o := Options{Node: node, Peers: peers, Dir: t.TempDir(), Tick: 20 * time.Millisecond}
		hosts[node] = newHost(o.withDefaults())
	}
	one = &testCluster{t: t, dir: t.TempDir(), peers: peers, hosts: hosts}
	two = &testCluster{t: t, dir: t.TempDir(), peers: peers, hosts: hosts, group: 2}
	one.begin(1, 2, 3)
	two.begin(1, 2, 3)
	return one, two
}

// lead makes a node lead.
func (c *testCluster) lead(node format.Replica) {
	c.t.Helper()
	c.until("it leads", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = c.sequencer(node).MakeLead(ctx, 0, node) // asked again while the leadership moves
		st, err := c.nodes[node].Status(ctx)
		return err == nil && st.Role == "leader"
	})
}

// TestTwoGroups: two raft groups over one host of the library and one pair of ports. Each has its leader and its messages; one of them is
// closed on a node, and opened again, while the other goes on there.
func TestTwoGroups(t *testing.T) {
	one, two := twoGroups(t)
	const each = 20
	one.keep(each)
	two.keep(each)
	one.lead(1)
	two.lead(2)
	after := map[*testCluster]int{}
	goOn := func(c *testCluster) {
		t.Helper()
		for node, n := range c.nodes {
			if _, err := push(context.Background(), n, "after", "p", "", "x"); err != nil {
				t.Fatalf("a push into group %d on node %d: %v", c.group, node, err)
			}
			after[c]++
		}
	}
	goOn(one)
	goOn(two)
	for _, closed := range []struct {
		c, other *testCluster
		node     format.Replica
	}{{two, one, 2}, {one, two, 1}} { // who leads, and once the group that opened the host
		s, shared := closed.c.sequencer(closed.node), one.hosts[closed.node]
		closed.c.stop(closed.node)
		select {
		case <-s.stopped:
		default:
			t.Errorf("the library still runs group %d, whose log is closed", s.group)
		}
		if _, err := shared.db.of(s.group); err == nil {
			t.Errorf("the log of group %d is still behind the library", s.group)
		}
		err := closed.c.ask(closed.node, askReport, closed.node, "")
		if want := fmt.Sprintf("raft group %d is not open here", s.group); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a question about group %d: %v", s.group, err)
		}
		must(t, closed.other.ask(closed.node, askReport, closed.node, ""))
		goOn(closed.other)
		goOn(closed.c)
		closed.c.start(closed.node)
		goOn(closed.c)
	}
	one.compare(each)
	two.compare(each)
	for node, shared := range one.hosts {
		one.stop(node)
		two.stop(node)
		if shared.nh != nil || shared.mu.door != nil {
			t.Errorf("node %d: the last group left, and the host is open", node)
		}
	}
	one.start(1, 2, 3)
	two.start(1, 2, 3)
	one.compare(each)
	two.compare(each)
	for c, want := range after {
		for node, n := range c.nodes {
			c.until("the later messages", func() bool { return len(readAll(t, n, "after", "p")) >= want })
			if got := len(readAll(t, n, "after", "p")); got != want {
				t.Errorf("group %d on node %d: %d messages, %d were pushed", c.group, node, got, want)
			}
		}
	}
}

// gate applies nothing before it is opened.
type gate struct{ reached, open, done chan struct{} }

func (g *gate) Apply(engine.Committed) (engine.Applied, error) {
	close(g.reached) // once: there is one entry
	<-g.open
	close(g.done)
	return engine.Applied{}, nil
}

// idle is a node that takes note of nothing.
type idle struct{ engine.Peer }

func (idle) Draining() []format.Replica { return nil }

func (idle) Follow(format.Replica, format.Term) {}
func (idle) Lead(format.Term)                   {}

// TestLeaveWaits: a raft group has not left before the library has applied what it was about to, since its log is closed next; and another
// group goes on meanwhile.
func TestLeaveWaits(t *testing.T) {
	o := Options{Node: 1, Peers: map[format.Replica]string{1: freePair(t)}, Dir: t.TempDir(), Tick: 5 * time.Millisecond}.withDefaults()
	h := newHost(o)
	o.shared = h
	c, of := &testCluster{t: t}, map[format.RaftGroup]*Sequencer{}
	held := &gate{make(chan struct{}), make(chan struct{}), make(chan struct{})}
	for o.group = 1; o.group <= 2; o.group++ {
		log := mustOpen(t, testOptions(vfs.NewMem()))
		defer log.Close()
		s, err := NewSequencer(log, func(err error) { t.Error(err) }, o)
		must(t, err)
		_, err = s.Start(held, 0)
		must(t, err)
		s.peer, s.links = idle{}, newLinks(s)
		must(t, h.enter(s))
		must(t, h.start(s))
		of[o.group] = s
		c.until("a leader", func() bool {
			leader, _, ok, err := s.host.GetLeaderID(uint64(s.group))
			return err == nil && ok && leader == 1
		})
	}
	one, two := of[1], of[2]
	_, err := two.host.Propose(two.session.noop, encoded(10, 10, 1)[1:], proposeWithin)
	must(t, err)
	<-held.reached
	left := make(chan struct{})
	go func() {
		h.leave(two)
		close(left)
	}()
	c.until("it leaves", func() bool {
		_, _, _, err := two.host.GetLeaderID(2)
		return err != nil
	})
	for range 3 {
		must(t, one.Barrier(context.Background()))
	}
	select {
	case <-left:
		t.Error("it left while an entry was applied")
	default:
	}
	close(held.open)
	<-left
	select {
	case <-held.done:
	default:
		t.Error("the entry was not applied")
	}
	h.leave(one)
	for _, s := range of {
		s.end()
		s.links.close()
		s.loops.Wait()
	}
}

// TestGroupOpenTwice: a raft group is open once in a process, and who comes too late does not take the place of who is there.
func TestGroupOpenTwice(t *testing.T) {
	h := newHost(Options{Node: 1, Listen: freePair(t)}.withDefaults())
	log := mustOpen(t, testOptions(vfs.NewMem()))
	defer log.Close()
	first, second := &Sequencer{group: 2, log: log, links: &links{}}, &Sequencer{group: 2}
	must(t, h.enter(first))
	if err := h.enter(second); err == nil || !strings.Contains(err.Error(), "raft group 2 is open already") {
		t.Errorf("it was opened twice: %v", err)
	}
	h.leave(second)
	if l, err := h.db.of(2); err != nil || l.log != log || h.linksOf(2) != first.links || h.mu.door == nil {
		t.Errorf("who was there is not reached any more: %v", err)
	}
	h.leave(first)
	if h.linksOf(2) != nil || h.mu.door != nil {
		t.Error("who left is reached")
	}
	must(t, h.enter(second)) // the port is free
	h.leave(second)
}

// TestElectionsOfTwoGroups: of each raft group the newest leader is kept until it is heard of, whatever is elected in the other.
func TestElectionsOfTwoGroups(t *testing.T) {
	h := newHost(Options{}.withDefaults())
	of := map[format.RaftGroup]*Sequencer{}
	for g := format.RaftGroup(1); g <= 2; g++ {
		of[g] = &Sequencer{group: g, elected: make(chan raftio.LeaderInfo, 1)}
		h.mu.groups[g] = of[g]
	}
	for _, info := range []raftio.LeaderInfo{{ShardID: 1, Term: 1}, {ShardID: 2, Term: 7}, {ShardID: 1, Term: 2}, {ShardID: 3, Term: 9}} {
		(*listener)(h).LeaderUpdated(info)
	}
	for g, want := range map[format.RaftGroup]uint64{1: 2, 2: 7} {
		select {
		case info := <-of[g].elected:
			if info.ShardID != uint64(g) || info.Term != want {
				t.Errorf("group %d was told %+v", g, info)
			}
		default:
			t.Errorf("group %d was told nothing", g)
		}
	}
}

// TestGroupOnTheWire: what opens a connection says which raft group is meant, and says of the first one what it said before there were
// others.
func TestGroupOnTheWire(t *testing.T) {
	for g, want := range map[format.RaftGroup]string{1: "\x04\x00\x00\x00", 2: "\x04\x00\x01\x00", 63: "\x04\x00\x3e\x00"} {
		q := &request{Protocol: protocolOf(g), Ask: askAdd, Node: 2, Of: 3}
		asked := "qnrq" + want + "\x04\x00\x00\x00\x03\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00h:1"
		if b := q.bytes("h:1"); string(b) != asked {
			t.Errorf("a question about group %d: %q", g, b)
		}
		got, addr, err := readRequest(bytes.NewReader([]byte("h:1")), []byte(asked[:requestSize]))
		if err != nil || addr != "h:1" || got != *q {
			t.Errorf("it was read as %+v, %q: %v", got, addr, err)
		}
		h := hello{group: g, node: 2, incarnation: 3, epoch: 4, deployment: 5}
		said := "qnfw" + want + "\x02\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00"
		if b := h.append(nil); string(b) != said || len(b) != helloSize {
			t.Errorf("a stream of group %d begins with %q", g, b)
		}
		if got, err := parseHello([]byte(said)); err != nil || got != h {
			t.Errorf("it was read as %+v: %v", got, err)
		}
	}
	for _, word := range []uint32{2, 3, 5, 0, 4 | 63<<16, 4 | 255<<16, 4 | 256<<16, 4 | 0xffff<<16} {
		if g, ok := groupIn(word); ok {
			t.Errorf("%#x is taken for group %d", word, g)
		}
	}
}
