package replication

import (
	"context"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/format"
	"queen/engine/vfs"
)

// TestGrownFromOneNode: the directory of a single node becomes the first of a cluster, two more are added, and all three
// have what the single node had: messages, positions, ids that were seen. It never runs as a single node again.
func TestGrownFromOneNode(t *testing.T) {
	ctx := context.Background()
	c := &testCluster{t: t, dir: t.TempDir(), peers: map[format.Replica]string{1: freePair(t)}, nodes: map[format.Replica]*engine.Node{}}
	cfg := engine.Config{FS: vfs.NewOS(vfs.OSOptions{}), Clock: clock.Real(), Rand: clock.RealRand(),
		Dir: path.Join(c.dir, "node1"), SegmentBytes: 4 << 20, PoolReady: 1, Fatal: func(err error) { panic(err) }}
	if err := Bootstrap(cfg, c.peers[1]); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Fatalf("an empty directory: %v", err)
	}
	single, err := engine.OpenLocal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		if _, err := push(ctx, single, "q", "p1", fmt.Sprint("id", i), fmt.Sprint("payload 1", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := Bootstrap(cfg, c.peers[1]); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Fatalf("under a running node: %v", err)
	}
	if err := single.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if n, err := c.open(1); n != nil || err == nil || !strings.Contains(err.Error(), "single node") {
		t.Fatalf("without bootstrap: %v", err)
	}
	if err := Bootstrap(cfg, c.peers[1]); err != nil {
		t.Fatal(err)
	}
	if err := Bootstrap(cfg, c.peers[1]); err == nil {
		t.Fatal("twice")
	}
	if n, err := engine.OpenLocal(cfg); n != nil || err == nil || !strings.Contains(err.Error(), "node 1") {
		t.Fatalf("as a single node again: %v", err)
	}
	c.start(1)
	defer func() {
		for node := range c.nodes {
			c.stop(node)
		}
	}()
	c.leader()
	for _, node := range []format.Replica{2, 3} {
		c.peers[node], c.join = freePair(t), node
		if _, err := query(ctx, c.peers[1], nil, askAdd, 0, node, c.peers[node]); err != nil {
			t.Fatal(err)
		}
		c.start(node)
		c.until("it votes", func() bool {
			_, err := query(ctx, c.peers[c.leader()], nil, askPromote, 0, node, "")
			return err == nil
		})
	}
	for node, n := range c.nodes {
		c.until("the messages", func() bool { return len(readAll(t, n, "q", "p1")) == 50 })
		if at, err := push(ctx, n, "q", "p1", "id7", "again"); err != nil || at != 7 {
			t.Errorf("node %d: the repeat of id7 is at %d: %v", node, at, err)
		}
	}
	if at, err := push(ctx, c.nodes[3], "q", "p1", "id50", "payload 150"); err != nil || at != 50 {
		t.Errorf("offset %d: %v", at, err)
	}
	c.stop(1)
	c.join = 0
	c.start(1)
	if got := readAll(t, c.nodes[1], "q", "p1"); len(got) != 51 {
		t.Errorf("%d messages after a restart", len(got))
	}
}

// TestGrownWithoutAStart: the same of a single node whose log has given its start away: who is added pulls a copy.
func TestGrownWithoutAStart(t *testing.T) {
	ctx := context.Background()
	c := &testCluster{t: t, dir: t.TempDir(), peers: map[format.Replica]string{1: freePair(t)}, nodes: map[format.Replica]*engine.Node{}, set: smallLogs}
	cfg := engine.Config{FS: vfs.NewOS(vfs.OSOptions{}), Clock: clock.Real(), Rand: clock.RealRand(),
		Dir: path.Join(c.dir, "node1"), PoolReady: 1, Fatal: func(err error) { panic(err) }}
	smallLogs(&cfg)
	single, err := engine.OpenLocal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	const kept = 20
	for i := range kept {
		for p := range 3 {
			if _, err := push(ctx, single, "q", fmt.Sprint("p", p+1), fmt.Sprint(p, "-", i), fmt.Sprint("payload ", p+1, i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	first := func() format.Index {
		log, lock, err := engine.OpenLog(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer lock.Close()
		st, _ := log.Replica(firstGroup, 1)
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
		return st.First
	}
	noise := make([]byte, 32<<10)
	c.until("the log gives its start away", func() bool {
		for range 100 {
			if _, err := push(ctx, single, "r", "p", "", string(noise)+fmt.Sprint(time.Now())); err != nil {
				t.Fatal(err)
			}
		}
		if err := single.Close(ctx); err != nil {
			t.Fatal(err)
		}
		given := first() > 1
		if !given {
			if single, err = engine.OpenLocal(cfg); err != nil {
				t.Fatal(err)
			}
		}
		return given
	})
	if err := Bootstrap(cfg, c.peers[1]); err != nil {
		t.Fatal(err)
	}
	c.begin(1)
	c.leader()
	c.compare(kept)
	for _, node := range []format.Replica{2, 3} {
		c.peers[node], c.join = freePair(t), node
		if _, err := query(ctx, c.peers[1], nil, askAdd, 0, node, c.peers[node]); err != nil {
			t.Fatal(err)
		}
		c.start(node)
		c.until("it votes", func() bool {
			_, err := query(ctx, c.peers[c.leader()], nil, askPromote, 0, node, "")
			return err == nil
		})
	}
	c.compare(kept)
	c.stop(1)
	c.join = 0
	c.start(1)
	c.compare(kept)
}
