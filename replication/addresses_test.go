package replication

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/lni/dragonboat/v4/raftio"
	pb "github.com/lni/dragonboat/v4/raftpb"

	"queen/engine/clock"
	"queen/engine/format"
)

// TestAdmit: which messages raft may take.
func TestAdmit(t *testing.T) {
	told := make(lines, 2)
	a := &addresses{log: slog.New(slog.NewTextHandler(told, nil)), clock: clock.NewFake(0)}
	a.learn(1, map[format.Replica]string{1: "a:1", 2: "b:1"})
	a.learn(2, map[format.Replica]string{2: "c:1"})
	a.learn(1, map[format.Replica]string{1: "a:1", 2: "b:1", 3: "d:1"})
	for _, x := range []struct {
		from string
		of   []member
		want bool
	}{
		{"b:1", []member{{1, 2}}, true},
		{"b:1", []member{{1, 2}, {2, 2}}, false},
		{"c:1", []member{{2, 2}}, true},
		{"c:1", []member{{1, 2}}, false},
		{"d:1", []member{{1, 3}, {1, 9}}, true},
		{"e:1", []member{{1, 9}}, true},
		{"nonsense", []member{{1, 9}}, false},
		{"", []member{{1, 9}}, true},
		{"e:1", []member{{1, 0}}, true},
	} {
		b := &pb.MessageBatch{SourceAddress: x.from}
		for _, m := range x.of {
			b.Requests = append(b.Requests, pb.Message{ShardID: m.group, From: m.node})
		}
		if got := a.admit(b); got != x.want {
			t.Errorf("%+v: %v", x, got)
		}
	}
	if line := <-told; !strings.Contains(line, "node=2 from=b:1 member=c:1") || len(told) != 0 {
		t.Errorf("%q, and %d more", line, len(told))
	}
}

// TestOtherAddressOfAMember: messages under a member's number that come from another address, as those of a copy of its directory, do nothing to
// the nodes they reach.
func TestOtherAddressOfAMember(t *testing.T) {
	c := newTestCluster(t, 3, nil)
	c.leader()
	s := c.sequencer(1)
	_, term, _, err := s.host.GetLeaderID(1)
	must(t, err)
	for _, m := range []pb.Message{
		{ShardID: 1, From: 2, To: 1, Type: pb.RequestPreVote, Term: term + 1, LogIndex: 1 << 40, LogTerm: term},
		{ShardID: 1, From: 2, To: 1, Type: pb.RequestVote, Term: term + 1, LogIndex: 1 << 40, LogTerm: term, Hint: 2},
	} {
		b := pb.MessageBatch{Requests: []pb.Message{m}, SourceAddress: "127.0.0.1:1", DeploymentId: s.deployment.Load(), BinVer: raftio.TransportBinVersion}
		peer, err := net.Dial("tcp", c.peers[1])
		must(t, err)
		_, err = peer.Write(appendMessage(nil, wireRaft, &b, b.SizeUpperLimit(), true))
		must(t, err)
		must(t, peer.Close())
	}
	c.until("they were refused", func() bool {
		s.shared.addresses.mu.Lock()
		defer s.shared.addresses.mu.Unlock()
		return s.shared.addresses.quiet != 0
	})
	for node, n := range c.nodes {
		if _, err := push(context.Background(), n, "q", "p", "", fmt.Sprint(node)); err != nil {
			t.Errorf("node %d: %v", node, err)
		}
	}
}

// TestMemberUnderAnotherAddress: a node that was added under one address and is set to another one does not start, and those that are there
// go on.
func TestMemberUnderAnotherAddress(t *testing.T) {
	c := newTestCluster(t, 3, nil)
	ctx, addr := context.Background(), freePair(t)
	if _, err := query(ctx, c.peers[c.leader()], nil, askAdd, 0, 4, addr); err != nil {
		t.Fatal(err)
	}
	c.peers[4], c.join = strings.Replace(addr, "127.0.0.1", "localhost", 1), 4
	n, err := c.open(4)
	if !errors.Is(err, errAddress) || n != nil {
		t.Errorf("%v, want %v", err, errAddress)
	}
	if n != nil {
		c.nodes[4] = n
	}
	for node, n := range c.nodes {
		if _, err := push(ctx, n, "q", "p", "", fmt.Sprint(node)); err != nil {
			t.Errorf("node %d: %v", node, err)
		}
	}
}

// TestCopyElsewhere: a directory that was a member's under one address is not started under another one.
func TestCopyElsewhere(t *testing.T) {
	c := newTestCluster(t, 1, nil)
	c.stop(1)
	dir := path.Join(c.dir, "node1")
	must(t, os.RemoveAll(path.Join(dir, "raft"))) // where the library has its own look at that, but not on another machine
	right := c.peers[1]
	c.peers[1] = freePair(t)
	if n, err := c.open(1); !errors.Is(err, errAddress) || n != nil {
		t.Errorf("%v, want %v", err, errAddress)
	}
	c.peers[1] = right
	c.start(1)
}

// TestIsKnownAs: a node that is a member under another address hears so from those that know.
func TestIsKnownAs(t *testing.T) {
	s := &Sequencer{o: Options{Node: 1, Peers: map[format.Replica]string{1: "h:1", 2: "h:3"}}}
	for known, want := range map[uint64]error{0: nil, addressHash("h:1"): nil, addressHash("g:1"): errAddress} {
		if err := s.isKnownAs(map[format.Replica]Report{2: {KnownAddress: known}}); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
}

// TestLibraryPanics: that a node has two addresses ends no process, since messages of another node may say so; and a log that lost its end is told
// in words that help.
func TestLibraryPanics(t *testing.T) {
	told := make(lines, 8)
	logTo(slog.New(slog.NewTextHandler(told, nil)))
	defer logTo(slog.New(slog.DiscardHandler))
	l := &libLogger{pkg: "test"}
	panics := func(format string, args ...any) (err error) {
		defer func() { err, _ = recover().(error) }()
		l.Panicf(format, args...)
		return nil
	}
	if err := panics("inconsistent target for %s, %s:%s", "[00001:00002]", "a:1", "b:1"); err != nil {
		t.Error(err)
	}
	if err := panics("invalid commitTo index %d, lastIndex() %d", 7, 5); !errors.Is(err, errLost) || !strings.Contains(err.Error(), "index 7, lastIndex() 5") {
		t.Error(err)
	}
	if err := panics("something of %d", 3); err == nil || err.Error() != "something of 3" {
		t.Error(err)
	}
}
