package replication

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
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
