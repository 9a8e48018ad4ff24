package replication

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"testing"

	"queen/engine"
	"queen/engine/format"
)

// noted waits until the cluster remembers the disk of a node as it is.
func (c *testCluster) noted(node format.Replica) {
	c.t.Helper()
	seq, _ := c.nodes[node].Cluster()
	id, boot := seq.Log().Disk()
	c.until("the disk is noted", func() bool {
		d, ok := c.nodes[node].DiskOf(node)
		return ok && d == (engine.Disk{ID: id, Boot: boot})
	})
}

// TestWipedDisk: a node whose directory is gone is refused, since what it voted for is gone as well; and it is refused when
// its directory is an older copy. The others go on.
func TestWipedDisk(t *testing.T) {
	c := newTestCluster(t, 3, nil)
	c.leader()
	c.noted(3)
	c.stop(3)
	dir := path.Join(c.dir, "node3")
	if err := os.CopyFS(dir+"-old", os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	c.start(3)
	c.noted(3)
	c.stop(3)
	for _, left := range []struct {
		replace string
		want    error
	}{{dir + "-old", errReverted}, {"", errWiped}} {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if left.replace != "" {
			if err := os.Rename(left.replace, dir); err != nil {
				t.Fatal(err)
			}
		}
		n, err := c.open(3)
		if !errors.Is(err, left.want) {
			t.Fatalf("%v, want %v", err, left.want)
		}
		if n != nil {
			t.Fatal("a node as well as an error")
		}
	}
	if _, err := push(context.Background(), c.nodes[1], "q", "p", "", "x"); err != nil {
		t.Fatal(err)
	}
}

// TestMembership: a node is added, follows, is made to vote and goes on doing so after a restart; another one is removed and its
// number is not taken again. What was pushed before, meanwhile and after is on the new node.
func TestMembership(t *testing.T) {
	c := newTestCluster(t, 3, nil)
	leader := c.leader()
	ctx := context.Background()
	total := 0
	more := func() {
		t.Helper()
		for range 10 {
			if _, err := push(ctx, c.nodes[c.leader()], "q", "p", "", fmt.Sprint(total)); err != nil {
				t.Fatal(err)
			}
			total++
		}
	}
	ask := func(a ask, of format.Replica, addr string) error {
		_, err := query(ctx, c.peers[c.leader()], nil, a, 0, of, addr)
		return err
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	more()
	addr := freePair(t)
	if err := ask(askPromote, 4, ""); err == nil {
		t.Error("a stranger was made to vote")
	}
	must(ask(askAdd, 4, addr))
	more()
	c.peers[4], c.join = addr, 4
	c.start(4)
	c.until("the new node has caught up", func() bool { return len(readAll(t, c.nodes[4], "q", "p")) == total })
	c.until("the new node votes", func() bool { return ask(askPromote, 4, "") == nil })
	more()
	c.stop(4)
	c.start(4)
	gone := leader%3 + 1
	if gone == c.leader() {
		gone = gone%3 + 1
	}
	must(ask(askRemove, gone, ""))
	c.stop(gone)
	if err := ask(askAdd, gone, addr); err == nil {
		t.Error("the number of a removed node was taken again")
	}
	more()
	c.until("the new node has everything", func() bool { return len(readAll(t, c.nodes[4], "q", "p")) == total })
	seq, _ := c.nodes[c.leader()].Cluster()
	c.until("three voters", func() bool {
		seq.(*Sequencer).learnMembers(ctx)
		v := seq.(*Sequencer).memberAddresses()
		return v[4] == addr
	})
}

// TestWipedJoiner: a node that was added to a running cluster and votes is refused when its directory is gone, although it is
// started as it was the first time.
func TestWipedJoiner(t *testing.T) {
	c := newTestCluster(t, 3, nil)
	ctx := context.Background()
	ask := func(a ask, addr string) error {
		_, err := query(ctx, c.peers[c.leader()], nil, a, 0, 4, addr)
		return err
	}
	addr := freePair(t)
	if err := ask(askAdd, addr); err != nil {
		t.Fatal(err)
	}
	c.peers[4], c.join = addr, 4
	c.start(4)
	c.until("the new node votes", func() bool { return ask(askPromote, "") == nil })
	c.noted(4)
	c.stop(4)
	if err := os.RemoveAll(path.Join(c.dir, "node4")); err != nil {
		t.Fatal(err)
	}
	n, err := c.open(4)
	if !errors.Is(err, errWiped) || n != nil {
		t.Errorf("%v, want %v", err, errWiped)
	}
	if n != nil {
		c.nodes[4] = n
	}
	if _, err := push(ctx, c.nodes[c.leader()], "q", "p", "", "x"); err != nil {
		t.Fatal(err)
	}
}

// TestPeersDisagree: a list of peers that calls a node by another address than it does itself is refused; the library would
// panic in every node that hears of it.
func TestPeersDisagree(t *testing.T) {
	c := newTestCluster(t, 3, nil)
	c.leader()
	c.stop(2)
	right := c.peers[3]
	seq, _ := c.nodes[3].Cluster()
	s := seq.(*Sequencer)
	reports := map[format.Replica]Report{3: s.report(0)}
	other, err := NewSequencer(s.log, nil, Options{Node: 3, Peers: c.peers, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	c.peers[3] = freePair(t)
	other.o.Peers[3] = c.peers[3]
	other.o.Node = 1 // as node 1 would see node 3
	other.members = nil
	if err := other.sameAddresses(reports); err == nil {
		t.Error("another address passed")
	}
	c.peers[3], other.o.Peers[3] = right, right
	if err := other.sameAddresses(reports); err != nil {
		t.Error(err)
	}
	c.start(2)
}

// TestRemovedAreForgotten: who is a member is what the library says, once it does.
func TestRemovedAreForgotten(t *testing.T) {
	s := &Sequencer{members: map[uint64]string{1: "a:1", 2: "b:1", 3: "c:1"}}
	if all := s.memberAddresses(); len(all) != 3 {
		t.Errorf("before the membership is known: %v", all)
	}
	s.mu.members = Members{Voters: map[format.Replica]string{1: "a:1", 2: "b:1"}, Followers: map[format.Replica]string{4: "d:1"}}
	if all := s.memberAddresses(); len(all) != 3 || all[3] != "" || all[4] != "d:1" {
		t.Errorf("node 3 was removed: %v", all)
	}
}

// TestRemoveKeepsMajority: a voter is not removed while too few of those that stay take part.
func TestRemoveKeepsMajority(t *testing.T) {
	c := newTestCluster(t, 3, nil)
	leader := c.leader()
	away, there := leader%3+1, (leader+1)%3+1
	c.stop(away)
	if err := c.ask(leader, askRemove, there, ""); err == nil || !strings.Contains(err.Error(), "no majority") {
		t.Errorf("the last voter beside the leader was to be removed: %v", err)
	}
	if m, err := c.sequencer(leader).membership(context.Background()); err != nil || len(m.Nodes) != 3 {
		t.Fatalf("%+v: %v", m, err)
	}
	c.until("the one that is away is removed", func() bool { return c.ask(c.leader(), askRemove, away, "") == nil })
	if _, err := push(context.Background(), c.nodes[c.leader()], "q", "p", "", "x"); err != nil {
		t.Error(err)
	}
}

// TestJudge: what lets a disk vote.
func TestJudge(t *testing.T) {
	own := engine.Disk{ID: format.UUID{1}, Boot: 5}
	known := func(id byte, boot uint64, flags uint32) Report {
		return Report{KnownDisk: [16]byte{id}, KnownBoot: boot, Flags: flags}
	}
	const born, sure = ReportBorn, ReportBorn | ReportSure
	for _, c := range []struct {
		name    string
		fresh   bool
		reports []Report
		done    bool
		err     error
	}{
		{"nobody answers a new one", true, nil, false, nil},
		{"two new ones of three", true, []Report{{}}, false, nil},
		{"two new ones, and a third that has a history", true, []Report{{}, {Flags: born}}, false, nil},
		{"three new ones", true, []Report{{}, {}}, true, nil},
		{"a group of three that has not begun, two of them here", true, []Report{{}}, true, nil},
		{"strangers are new", true, []Report{{}, known(1, 4, born), {}}, false, nil},
		{"a cluster that may be behind", true, []Report{{Flags: born}}, false, nil},
		{"a cluster that knows nothing of it", true, []Report{{Flags: sure}}, true, nil},
		{"another disk had the number", true, []Report{{}, known(2, 1, born)}, false, errWiped},
		{"another disk has it now", false, []Report{known(2, 1, sure)}, false, errWiped},
		{"opened more often than this copy", false, []Report{known(1, 5, born)}, false, errReverted},
		{"opened once more than is known", false, []Report{known(1, 4, sure)}, true, nil},
		{"a log that lost its end", false, []Report{{KnownDisk: [16]byte{1}, KnownBoot: 4, KnownApplied: 101, Flags: born}}, false, errLost},
		{"a log that has its end", false, []Report{{KnownDisk: [16]byte{1}, KnownBoot: 4, KnownApplied: 100, Flags: sure}}, true, nil},
		{"joins, and the others are empty", true, []Report{{}, {}}, false, nil},
		{"joins, and nobody is up to date", true, []Report{{}, {Flags: born}}, false, nil},
		{"joins what knows nothing of it", true, []Report{{}, {Flags: sure}}, true, nil},
		{"joins again on another disk", true, []Report{{Flags: sure}, known(2, 1, born)}, false, errWiped},
		{"all start at once", false, []Report{known(1, 4, born)}, false, nil},
	} {
		reports := map[format.Replica]Report{}
		for i, r := range c.reports {
			reports[format.Replica(i+2)] = r
		}
		forms := &formation{map[uint64]string{1: "a", 2: "b", 3: "c"}, 2}
		switch {
		case strings.HasPrefix(c.name, "joins"):
			forms = nil
		case strings.HasPrefix(c.name, "a group"):
			forms.others = 1
		}
		if done, err := judge(own, 100, c.fresh, reports, forms); done != c.done || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%s: %v, %v", c.name, done, err)
		}
	}
}
