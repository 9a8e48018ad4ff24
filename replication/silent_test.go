package replication

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/format"
)

// TestPortCloses: a leader whose port above raft's is closed goes on to lead. A follower then says that it can not write and refuses
// calls after a while, and knows that the leader runs; it writes again when another node leads.
func TestPortCloses(t *testing.T) {
	c := newTestCluster(t, 3, nil)
	leader := c.leader()
	follower := leader%3 + 1
	s := c.sequencer(leader)
	s.shared.mu.RLock()
	s.shared.mu.door.listener.Close()
	s.shared.mu.RUnlock()
	for _, conn := range s.links.conns.list() {
		conn.Close()
	}
	ctx := context.Background()
	c.until("it says that it can not write", func() bool {
		st, err := c.nodes[follower].Status(ctx)
		return err == nil && st.Leader == leader && st.Quorum && !st.CanWrite && st.Why != ""
	})
	c.until("it knows that the leader runs", func() bool {
		m, _ := engine.MembershipOf(c.nodes[follower])
		return slices.ContainsFunc(m.Members(), func(x engine.Member) bool { return x.Node == leader && x.Reach() == "port_silent" })
	})
	c.until("it refuses calls", func() bool {
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		_, err := push(short, c.nodes[follower], "q", "p", "", "x")
		var e *engine.Error
		return errors.As(err, &e) && e.Code == engine.CodeNoLeader && e.Outcome == engine.OutcomeNone
	})
	if _, err := push(ctx, c.nodes[leader], "q", "p", "", "x"); err != nil {
		t.Errorf("a push on the leader: %v", err)
	}
	c.until("another node leads", func() bool {
		_ = c.sequencer(leader).Transfer(ctx, follower) // or it led already
		return c.sequencer(follower).leads()
	})
	for _, node := range []format.Replica{1, 2, 3} {
		if _, err := push(ctx, c.nodes[node], "q", "p", "", "x"); err != nil {
			t.Errorf("a push on node %d: %v", node, err)
		}
	}
}

// TestLeaderThatTakesNothing: a leader that is connected and takes nothing is connected to anew, and handed what it has not taken.
func TestLeaderThatTakesNothing(t *testing.T) {
	addr := freePair(t)
	side, err := sideAddress(addr)
	if err != nil {
		t.Fatal(err)
	}
	leader, err := net.Listen("tcp", side)
	if err != nil {
		t.Fatal(err)
	}
	s := &Sequencer{o: Options{Node: 2, Peers: map[format.Replica]string{1: addr}}.withDefaults(), group: 1, deployment: new(atomic.Uint64),
		ended: make(chan struct{})}
	l := &links{s: s, takenWithin: 20 * time.Millisecond}
	st := newStream(l, 1, 7)
	l.done.Add(1)
	go st.run()
	defer func() {
		st.end()
		leader.Close()
		l.done.Wait()
	}()
	st.put(&engine.Handover{Request: 5, Commands: []byte("abc")})
	for try := range 2 {
		c, err := leader.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.ReadFull(c, make([]byte, helloSize)); err != nil {
			t.Fatal(err)
		}
		if err := writeNumber(c, 0); err != nil {
			t.Fatal(err)
		}
		if number, h, err := readHandover(c); err != nil || number != 1 || h.Request != 5 || string(h.Commands) != "abc" {
			t.Fatalf("connection %d: handover %d of request %d, %q: %v", try, number, h.Request, h.Commands, err)
		}
	}
}

// alarmed is a node that keeps what it is told.
type alarmed struct {
	engine.Peer
	told []string
}

func (a *alarmed) Alarm(what string, err error) {
	a.told = append(a.told, fmt.Sprintf("%.12s: %v", what, err))
}

// TestSilentMembers: a member that does not answer is told of once, whether it runs or not, and again only after it answered.
func TestSilentMembers(t *testing.T) {
	a, now := &alarmed{}, clock.NewFake(0)
	s := &Sequencer{o: Options{Node: 1, Clock: now}.withDefaults(), peer: a, silent: map[format.Replica]int{}}
	s.mu.members.Voters = map[format.Replica]string{1: "a:1", 2: "b:1", 3: "c:1"}
	s.mu.asked, s.mu.unheard = map[format.Replica]int64{}, map[format.Replica]error{}
	rounds := func(n int, reports map[format.Replica]Report) {
		s.mu.reports = reports
		for range n {
			now.Advance(censusEvery)
			s.noteSilent()
		}
	}
	s.noteAnswer(2, errors.New("refused"))
	only3, both := map[format.Replica]Report{3: {}}, map[format.Replica]Report{2: {}, 3: {}}
	rounds(silentRounds-1, only3)
	rounds(1, both)
	rounds(silentRounds-1, only3)
	if len(a.told) != 0 {
		t.Errorf("told too early: %q", a.told)
	}
	rounds(3*silentRounds, only3)
	rounds(1, both)
	rounds(silentRounds-1, only3)
	s.noteAsked(2)
	rounds(silentRounds, only3)
	if want := []string{"node 2 does : refused", "node 2 runs,: refused"}; !slices.Equal(a.told, want) {
		t.Errorf("told %q, not %q", a.told, want)
	}
	now.Advance(silentRounds * censusEvery)
	if s.runs(2) {
		t.Error("a node runs that has not asked for long")
	}
}
