package replication

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path"
	"runtime"
	"testing"
	"time"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/format"
	"queen/engine/logstore"
	"queen/engine/vfs"
)

// testCluster is nodes in one process, on the machine's own file system.
type testCluster struct {
	t     *testing.T
	dir   string
	peers map[format.Replica]string
	nodes map[format.Replica]*engine.Node
	set   func(*engine.Config)
	join  format.Replica // joins instead of starting as one of the first
	tls   *TLS
	hold  time.Duration
	rate  int64
	group format.RaftGroup              // default the first
	hosts map[format.Replica]*host      // of nodes that are of more than one group
	wrap  func(engine.Peer) engine.Peer // stands between nodes and their sequencers
}

// query asks a node one thing about the first raft group, as a tool or another node does.
func query(ctx context.Context, raft string, t *TLS, a ask, self, of format.Replica, addr string) (Report, error) {
	return exchange(ctx, raft, t, &request{Protocol: protocolOf(firstGroup), Ask: a, Node: uint64(self), Of: uint64(of)}, addr)
}

// ask asks a node about the cluster's group, as a tool does about the first.
func (c *testCluster) ask(to format.Replica, a ask, of format.Replica, addr string) error {
	q := &request{Protocol: protocolOf(max(c.group, firstGroup)), Ask: a, Of: uint64(of)}
	_, err := exchange(context.Background(), c.peers[to], c.tls, q, addr)
	return err
}

// wrapped is a Sequencer that knows its node by a Peer of the test's.
type wrapped struct {
	*Sequencer
	wrap func(engine.Peer) engine.Peer
}

func (w *wrapped) Join(p engine.Peer) error { return w.Sequencer.Join(w.wrap(p)) }

func newTestCluster(t *testing.T, nodes int, set func(*engine.Config)) *testCluster {
	c := &testCluster{t: t, dir: t.TempDir(), peers: map[format.Replica]string{}, nodes: map[format.Replica]*engine.Node{}, set: set}
	for i := range nodes {
		c.peers[format.Replica(i+1)] = freePair(t)
	}
	all := make([]format.Replica, 0, nodes)
	for node := range c.peers {
		all = append(all, node)
	}
	c.begin(all...)
	return c
}

// begin starts the first nodes, and stops whatever runs at the end of the test.
func (c *testCluster) begin(nodes ...format.Replica) {
	c.nodes = map[format.Replica]*engine.Node{}
	c.t.Cleanup(func() {
		for node := range c.nodes {
			c.stop(node)
		}
	})
	c.start(nodes...)
}

// freePair finds two neighbouring ports below the ephemeral range.
func freePair(t *testing.T) string {
	for range 200 {
		addr := fmt.Sprintf("127.0.0.1:%d", 10000+2*rand.IntN(10000))
		side, _ := sideAddress(addr)
		a, err := net.Listen("tcp", addr)
		if err != nil {
			continue
		}
		b, err := net.Listen("tcp", side)
		a.Close()
		if err == nil {
			b.Close()
			return addr
		}
	}
	t.Fatal("no free ports")
	return ""
}

func (c *testCluster) open(node format.Replica) (*engine.Node, error) {
	level := slog.LevelError
	if testing.Verbose() {
		level = slog.LevelInfo
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})).With("node", node)
	cfg := engine.Config{FS: vfs.NewOS(vfs.OSOptions{}), Clock: clock.Real(), Rand: clock.RealRand(), Log: log,
		Dir: path.Join(c.dir, fmt.Sprint("node", node)), SegmentBytes: 4 << 20, PoolReady: 1,
		Fatal: func(err error) { panic(err) }}
	if c.set != nil {
		c.set(&cfg)
	}
	o := Options{Node: node, Peers: c.peers, Joining: node == c.join, TLS: c.tls, Hold: c.hold, PullRate: c.rate, Tick: 20 * time.Millisecond,
		Version: "1.2.3", group: c.group, shared: c.hosts[node], alone: time.Second}
	if c.wrap == nil {
		return Open(cfg, o)
	}
	o.Dir, o.Log = path.Join(cfg.Dir, "raft"), cfg.Log
	return engine.OpenWith(cfg, func(l *logstore.Store, fatal func(error)) (engine.Sequencer, error) {
		s, err := NewSequencer(l, fatal, o)
		return &wrapped{s, c.wrap}, err
	})
}

// start opens nodes at once: a cluster forms when a majority is there.
func (c *testCluster) start(nodes ...format.Replica) {
	c.t.Helper()
	type opened struct {
		node format.Replica
		n    *engine.Node
		err  error
	}
	all := make(chan opened, len(nodes))
	for _, node := range nodes {
		go func() {
			n, err := c.open(node)
			all <- opened{node, n, err}
		}()
	}
	for range nodes {
		if o := <-all; o.err != nil {
			c.t.Errorf("node %d: %v", o.node, o.err)
		} else {
			c.nodes[o.node] = o.n
		}
	}
	if c.t.Failed() {
		c.t.FailNow()
	}
}

func (c *testCluster) stop(node format.Replica) {
	c.t.Helper()
	n := c.nodes[node]
	delete(c.nodes, node)
	if err := n.Close(context.Background()); err != nil {
		c.t.Errorf("node %d: close: %v", node, err)
	}
}

// until runs f until it says that it is done.
func (c *testCluster) until(what string, f func() bool) {
	c.t.Helper()
	for end := time.Now().Add(60 * time.Second); !f(); runtime.Gosched() {
		if time.Now().After(end) {
			c.t.Fatalf("not within a minute: %s", what)
		}
	}
}

// leader waits until a node leads.
func (c *testCluster) leader() (leader format.Replica) {
	c.t.Helper()
	c.until("a leader", func() bool {
		for node, n := range c.nodes {
			if st, _ := n.Status(context.Background()); st.Role == "leader" {
				leader = node
				return true
			}
		}
		return false
	})
	return leader
}

// push appends one message and returns its offset.
func push(ctx context.Context, n *engine.Node, queue, partition, id, payload string) (format.Offset, error) {
	res, err := n.Do(ctx, engine.Caller{Tenant: format.DefaultTenant}, engine.Batch{Ops: []engine.Op{&engine.Append{
		Queue: queue, Partition: partition, Messages: []engine.Message{{TransactionID: id, Payload: []byte(payload)}}}}})
	if err != nil {
		return 0, err
	}
	if res[0].Err != nil {
		return 0, res[0].Err
	}
	return res[0].Messages[0].Offset, nil
}

// TestThreeNodes: what is pushed on any node is read on every node, and the states are equal at the marks.
func TestThreeNodes(t *testing.T) {
	c := newTestCluster(t, 3, func(cfg *engine.Config) { cfg.MarkBytes, cfg.CheckpointBytes = 16<<10, 1 })
	c.leader()
	ctx := context.Background()
	const each = 100
	for i := range each {
		for node, n := range c.nodes {
			if _, err := push(ctx, n, "q", fmt.Sprint("p", node), fmt.Sprint(node, "-", i), fmt.Sprint("payload ", node, i)); err != nil {
				t.Fatalf("push %d on node %d: %v", i, node, err)
			}
		}
	}
	c.compare(each)
	var mark format.ManifestMark
	for node, n := range c.nodes {
		c.until("the marks", func() bool { return n.Marked().Number >= 2 })
		t.Log(node, n.Marked())
		mark = n.Marked()
	}
	c.until("equal marks", func() bool {
		for _, n := range c.nodes {
			if m := n.Marked(); m.Number != mark.Number {
				mark = m
				return false
			}
		}
		return true
	})
	for node, n := range c.nodes {
		if m := n.Marked(); m.Digest != mark.Digest || m.Chain != mark.Chain || m.Index != mark.Index {
			t.Fatalf("node %d: mark %+v, another node %+v", node, m, mark)
		}
	}
	for _, node := range []format.Replica{1, 2, 3} { // one after the other, then all
		c.stop(node)
		c.start(node)
	}
	c.compare(each)
	for _, node := range []format.Replica{1, 2, 3} {
		c.stop(node)
	}
	c.start(1, 2, 3)
	c.compare(each)
}

// compare reads every partition on every node.
func (c *testCluster) compare(each int) {
	c.t.Helper()
	for node, n := range c.nodes {
		for p := range 3 {
			name := fmt.Sprint("p", p+1)
			c.until("the messages", func() bool { return len(readAll(c.t, n, "q", name)) >= each })
			for i, got := range readAll(c.t, n, "q", name) {
				if want := fmt.Sprint("payload ", p+1, i); got != want {
					c.t.Fatalf("node %d: %s at %d holds %q, want %q", node, name, i, got, want)
				}
			}
		}
	}
}

// readAll reads a partition from its start.
func readAll(t *testing.T, n *engine.Node, queue, partition string) (payloads []string) {
	t.Helper()
	for at := format.Offset(0); ; {
		res, err := n.Read(context.Background(), engine.Caller{Tenant: format.DefaultTenant},
			engine.ReadRequest{At: []engine.Position{{Queue: queue, Partition: partition, Offset: at, MaxBytes: 1 << 20}}})
		if err != nil {
			t.Fatal(err)
		}
		p := &res.Parts[0]
		if p.Err != nil && p.Err.Code == engine.CodeUnknownQueue || len(p.Records) == 0 {
			return payloads
		}
		if p.Err != nil {
			t.Fatal(p.Err)
		}
		for i := range p.Records {
			payloads = append(payloads, string(p.Records[i].Payload))
			at = p.Records[i].Offset + 1
		}
	}
}
