package replication

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/format"
	"queen/engine/vfs"
)

// routed is a cluster in one process whose nodes have several raft groups.
type routed struct {
	t      *testing.T
	dir    string
	peers  map[format.Replica]string
	groups uint8
	join   format.Replica // joins instead of starting as one of the first
	spread bool
	later  func(*engine.Config) // sets what groups above the first one have alone
	nodes  map[format.Replica]engine.Served
}

func newRouted(t *testing.T, groups uint8, nodes ...format.Replica) *routed {
	c := &routed{t: t, dir: t.TempDir(), peers: map[format.Replica]string{}, groups: groups, nodes: map[format.Replica]engine.Served{}}
	for _, node := range nodes {
		c.peers[node] = freePair(t)
	}
	t.Cleanup(func() {
		for node := range c.nodes {
			c.stop(node)
		}
	})
	return c
}

func (c *routed) config(node format.Replica) engine.Config {
	level := slog.LevelError
	if testing.Verbose() {
		level = slog.LevelInfo
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})).With("node", node)
	return engine.Config{FS: vfs.NewOS(vfs.OSOptions{}), Clock: clock.Real(), Rand: clock.RealRand(), Log: log, Dir: c.nodeDir(node),
		SegmentBytes: 4 << 20, PoolReady: 1, Fatal: func(err error) { panic(err) }}
}

func (c *routed) nodeDir(node format.Replica) string {
	return path.Join(c.dir, fmt.Sprint("node", node))
}

func (c *routed) open(node format.Replica, set func(*engine.Config, *Options)) (engine.Served, error) {
	cfg := c.config(node)
	o := Options{Node: node, Peers: c.peers, Joining: node == c.join, Tick: 20 * time.Millisecond, Groups: c.groups, Spread: c.spread, alone: time.Second}
	if set != nil {
		set(&cfg, &o)
	}
	if c.later == nil {
		return OpenAll(cfg, o)
	}
	return c.openApart(cfg, o)
}

// start opens nodes at once.
func (c *routed) start(nodes ...format.Replica) {
	c.t.Helper()
	type opened struct {
		node format.Replica
		n    engine.Served
		err  error
	}
	all := make(chan opened, len(nodes))
	for _, node := range nodes {
		go func() {
			n, err := c.open(node, nil)
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

func (c *routed) stop(nodes ...format.Replica) {
	c.t.Helper()
	for _, node := range nodes {
		n := c.nodes[node]
		delete(c.nodes, node)
		if err := n.Close(context.Background()); err != nil {
			c.t.Errorf("node %d: close: %v", node, err)
		}
	}
}

// refused opens a node that must not come up.
func (c *routed) refused(node format.Replica, set func(*engine.Config, *Options), words ...string) error {
	c.t.Helper()
	n, err := c.open(node, set)
	if n != nil {
		c.nodes[node] = n
		c.t.Fatalf("node %d came up", node)
	}
	if err == nil {
		c.t.Fatalf("node %d: neither a node nor an error", node)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			c.t.Errorf("node %d: %v, want %q in it", node, err, w)
		}
	}
	return err
}

// of are the nodes of one raft group.
func (c *routed) of(g format.RaftGroup) *testCluster {
	one := &testCluster{t: c.t, peers: c.peers, group: g, nodes: map[format.Replica]*engine.Node{}}
	for node, n := range c.nodes {
		one.nodes[node] = n.(*engine.Router).Group(g)
	}
	return one
}

func tenantOf(n byte) format.Tenant { return format.Tenant{15: n} }

// pushes appends one message of each of some tenants, whose payload is how many they have.
func (c *routed) pushes(on format.Replica, tenants, count int) {
	c.t.Helper()
	for i := range tenants {
		(&testCluster{t: c.t}).until("the message", func() bool {
			res, err := c.nodes[on].Do(context.Background(), engine.Caller{Tenant: tenantOf(byte(100 + i))}, engine.Batch{Ops: []engine.Op{
				&engine.Append{Queue: "q", Partition: "p", Messages: []engine.Message{{Payload: fmt.Append(nil, i, " ", count)}}}}})
			if err == nil && res[0].Err != nil {
				err = res[0].Err
			}
			var e *engine.Error
			if errors.As(err, &e) && e.Code == engine.CodeNoLeader {
				return false // nodes that start at once ask each other for some seconds whether their disks may vote
			}
			if err != nil {
				c.t.Fatalf("tenant %d on node %d: %v", i, on, err)
			}
			return true
		})
	}
}

// holds checks that every node has count messages of each tenant, and nothing else.
func (c *routed) holds(tenants, count int) {
	c.t.Helper()
	one := &testCluster{t: c.t}
	for node, n := range c.nodes {
		for i := range tenants {
			var got []string
			one.until("the messages", func() bool {
				res, err := n.Read(context.Background(), engine.Caller{Tenant: tenantOf(byte(100 + i))},
					engine.ReadRequest{At: []engine.Position{{Queue: "q", Partition: "p", MaxBytes: 1 << 20}}})
				if err != nil || res.Parts[0].Err != nil {
					return false // not there yet, or an election
				}
				got = got[:0]
				for j := range res.Parts[0].Records {
					got = append(got, string(res.Parts[0].Records[j].Payload))
				}
				return len(got) >= count
			})
			for j, payload := range got {
				if want := fmt.Sprint(i, " ", j); payload != want {
					c.t.Fatalf("node %d, tenant %d: message %d holds %q, want %q", node, i, j, payload, want)
				}
			}
			if len(got) != count {
				c.t.Fatalf("node %d, tenant %d: %d messages, want %d", node, i, len(got), count)
			}
		}
	}
}

// groupOfTenant is the raft group that a tenant was placed in.
func (c *routed) groupOfTenant(on format.Replica, i int) byte {
	row, ok := c.nodes[on].AdminRow(format.SystemTenant, format.AdminTenant, tenantOf(byte(100+i)).String())
	if !ok || len(row.Value) != 1 {
		c.t.Fatalf("tenant %d has no row", i)
	}
	return row.Value[0]
}

// TestSeveralGroups: a new cluster of three nodes with two raft groups places its tenants into both, and has all of them after each node
// was started again, and all at once. A directory of another number of groups is refused, and so is a node that lost that of one group.
func TestSeveralGroups(t *testing.T) {
	c := newRouted(t, 2, 1, 2, 3)
	c.start(1, 2, 3)
	const tenants = 4
	count := 0
	more := func(on format.Replica) {
		t.Helper()
		c.pushes(on, tenants, count)
		count++
	}
	for node := range c.nodes {
		more(node)
	}
	c.holds(tenants, count)
	placed := map[byte]int{}
	for i := range tenants {
		placed[c.groupOfTenant(1, i)]++
	}
	if placed[1] != 2 || placed[2] != 2 {
		t.Errorf("tenants by group: %v", placed)
	}
	if m, ok := engine.MembershipOf(c.nodes[1]); !ok || len(m.Members()) == 0 {
		t.Error("the cluster of a node with two groups is not known")
	}
	for node := format.Replica(1); node <= 3; node++ {
		c.stop(node)
		more(node%3 + 1)
		c.start(node)
		more(node)
	}
	c.holds(tenants, count)

	t.Run("another number beside the others", func(t *testing.T) {
		c.stop(2)
		c.refused(2, func(_ *engine.Config, o *Options) { o.Groups = 4 }, "has 2 raft groups", "set to 4")
		c.refused(2, func(_ *engine.Config, o *Options) { o.Groups = 0 }, "group-02", "--peer-groups")
		c.start(2)
	})
	t.Run("a group's directory is gone", func(t *testing.T) {
		c.of(2).noted(3)
		c.stop(3)
		dir := engine.GroupDir(c.nodeDir(3), 2)
		must(t, os.Rename(dir, dir+"-away"))
		if err := c.refused(3, nil, "raft group 2"); !errors.Is(err, errWiped) {
			t.Errorf("%v, want %v", err, errWiped)
		}
		must(t, os.RemoveAll(dir))
		must(t, os.Rename(dir+"-away", dir))
		c.start(3)
	})
	c.stop(1, 2, 3)
	c.refused(1, func(_ *engine.Config, o *Options) { o.Groups = 3 }, "has 2 raft groups", "set to 3")
	c.start(1, 2, 3)
	more(1)
	c.holds(tenants, count)
}

// alone starts a cluster of one node.
func alone(t *testing.T, groups uint8) *routed {
	c := newRouted(t, groups, 1)
	c.start(1)
	return c
}

// TestGroupsOfACluster: a cluster that runs with one raft group gets no second one, unless it is a single node that was bootstrapped.
func TestGroupsOfACluster(t *testing.T) {
	c := newRouted(t, 1, 1, 2, 3)
	c.start(1, 2, 3)
	if _, ok := c.nodes[1].(*engine.Node); !ok {
		t.Errorf("one group is a %T", c.nodes[1])
	}
	_, err := push(context.Background(), c.nodes[1].(*engine.Node), "q", "p", "", "x")
	must(t, err)
	c.stop(1)
	c.refused(1, func(_ *engine.Config, o *Options) { o.Groups = 2 }, "has 1 raft groups", "set to 2")
	if _, err := os.Stat(engine.GroupDir(c.nodeDir(1), 2)); !os.IsNotExist(err) {
		t.Errorf("a refused node left a directory: %v", err)
	}
	c.start(1)
}

// TestGrownIntoGroups: a single node with data is bootstrapped and started with two raft groups and a list of peers that names nodes which
// are added only afterwards. They have both groups. What the single node had stays in group 1.
func TestGrownIntoGroups(t *testing.T) {
	c := newRouted(t, 2, 1, 2, 3)
	single, err := engine.OpenLocal(c.config(1))
	must(t, err)
	c.nodes[1] = single
	c.pushes(1, 1, 0)
	c.stop(1)
	must(t, Bootstrap(c.config(1), c.peers[1]))
	c.start(1) // waits for ever if group 2 begins with the list of peers
	c.pushes(1, 4, 0)
	if g := c.groupOfTenant(1, 0); g != 1 {
		t.Errorf("the tenant with data went to group %d", g)
	}
	for _, node := range []format.Replica{2, 3} {
		// As if who added it had ended half-way, before the second group or before the first.
		half := c.of(format.RaftGroup(node - 1))
		ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
		must(t, half.sequencer(half.leader()).changeMembers(ctx, askAdd, node, c.peers[node]))
		cancel()
		c.asks("it is added", askAdd, node)
		c.join = node
		c.start(node)
		c.asks("it votes", askPromote, node)
		c.votes(2, node, true)
	}
	c.join = 0
	c.stop(1)
	c.start(1)
	c.pushes(3, 3, 1)
	c.changesInAllGroups()
}

// asks asks who leads the first group for a change until it is done.
func (c *routed) asks(what string, a ask, node format.Replica) {
	c.t.Helper()
	one := c.of(1)
	var err error
	defer func() {
		if err != nil {
			c.t.Log(what, err)
		}
	}()
	one.until(what, func() bool {
		err = one.ask(one.leader(), a, node, c.peers[node])
		return err == nil
	})
}

// votes checks in every group whether a node votes, as another one knows it that has caught up.
func (c *routed) votes(groups int, node format.Replica, want bool) {
	c.t.Helper()
	for g := format.RaftGroup(1); int(g) <= groups; g++ {
		m, err := c.of(g).sequencer(1).membershipNow(context.Background())
		must(c.t, err)
		if _, votes := m.Nodes[uint64(node)]; votes != want {
			c.t.Errorf("node %d votes in group %d: %v, want %v", node, g, votes, want)
		}
	}
}

// changesInAllGroups: of three nodes that vote in two groups node 3 drains and is removed, which is asked of the first group. It gives the
// lead of both away; while it leads one of them it is not removed from any.
func (c *routed) changesInAllGroups() {
	t := c.t
	c.of(1).lead(1)
	leads := func(g format.RaftGroup, node format.Replica) bool { return c.of(g).leader() == node }
	c.of(2).lead(3)
	c.of(1).drain(1, 3, true)
	c.of(2).until("the lead is given away", func() bool { return !leads(2, 3) })
	if err := c.of(2).sequencer(1).MakeLead(context.Background(), 2, 3); err == nil || !strings.Contains(err.Error(), "drains") {
		t.Errorf("a node that drains was made to lead group 2: %v", err)
	}
	c.of(1).drain(1, 3, false)
	c.of(2).lead(3)
	if err := c.of(1).ask(c.of(1).leader(), askRemove, 3, ""); err == nil || !strings.Contains(err.Error(), "node 3 leads raft group 2") {
		t.Errorf("a node that leads group 2 is removed: %v", err)
	}
	c.votes(2, 3, true)
	c.asks("node 2 leads", askTransfer, 2)
	c.of(1).until("node 2 leads both groups", func() bool { return leads(1, 2) && leads(2, 2) })
	must(t, c.of(2).ask(2, askRemove, 3, "")) // as if who removed it had ended half-way
	c.asks("node 3 is removed", askRemove, 3)
	c.votes(2, 3, false)
	if err := c.of(1).ask(c.of(1).leader(), askAdd, 3, c.peers[3]); err == nil || !strings.Contains(err.Error(), "a number is used once") {
		t.Errorf("the number of a removed node was taken again: %v", err)
	}
	c.stop(3)
	c.pushes(2, 3, 2)
}

// TestGroupThatIsGone: the only node of a cluster that lost a group which had begun never begins it anew: it is refused, and where it knows of
// other nodes it waits for them.
func TestGroupThatIsGone(t *testing.T) {
	c := alone(t, 2)
	c.pushes(1, 2, 0)
	c.stop(1)
	must(t, os.RemoveAll(engine.GroupDir(c.nodeDir(1), 2)))
	if err := c.refused(1, nil, "raft group 2"); !errors.Is(err, errGone) {
		t.Errorf("%v, want %v", err, errGone)
	}
	c.peers[2] = freePair(t) // nobody is there
	waits := &onLine{line: "waiting for other nodes", quit: make(chan struct{})}
	err := c.refused(1, func(cfg *engine.Config, o *Options) { cfg.Quit, o.Log = waits.quit, slog.New(waits) })
	if !errors.Is(err, &engine.Error{Code: engine.CodeClosed}) {
		t.Errorf("it was stopped while it waited: %v", err)
	}
}

// onLine closes a channel when a line is logged.
type onLine struct {
	slog.Handler
	line string
	quit chan struct{}
	once sync.Once
}

func (h *onLine) Enabled(context.Context, slog.Level) bool { return true }
func (h *onLine) WithAttrs([]slog.Attr) slog.Handler       { return h }

func (h *onLine) Handle(_ context.Context, r slog.Record) error {
	if r.Message == h.line {
		h.once.Do(func() { close(h.quit) })
	}
	return nil
}

// TestGroupsGoOn: a node that ended between the first start of group 1 and that of group 2, before or after the cluster knew how many groups
// it has, goes on.
func TestGroupsGoOn(t *testing.T) {
	for _, known := range []bool{false, true} {
		c := newRouted(t, 2, 1)
		n, err := Open(c.config(1), Options{Node: 1, Peers: c.peers, Tick: 20 * time.Millisecond})
		must(t, err)
		if known {
			_, err = n.SetAdmin(context.Background(), format.SystemTenant,
				engine.AdminChange{Kind: format.AdminNode, Name: groupsName, Value: []byte{2}})
			must(t, err)
		}
		must(t, n.Close(context.Background()))
		if known {
			c.refused(1, func(_ *engine.Config, o *Options) { o.Groups = 1 }, "has 2 raft groups", "set to 1")
		}
		c.start(1)
		c.pushes(1, 2, 0)
		if g := c.groupOfTenant(1, 1); g != 2 {
			t.Errorf("the second tenant is in group %d", g)
		}
	}
}

// TestGroupThatFails: when one group can not be opened, the others are closed again, those that still wait for nodes too, and the node can
// be opened once the obstacle is gone.
func TestGroupThatFails(t *testing.T) {
	c := newRouted(t, 3, 1)
	dir := engine.GroupDir(c.nodeDir(1), 3)
	must(t, os.MkdirAll(c.nodeDir(1), 0o755))
	must(t, os.WriteFile(dir, nil, 0o644))
	c.refused(1, nil, "raft group 3", dir)
	must(t, os.Remove(dir))
	c.start(1)
	c.pushes(1, 3, 0)
	for i, want := range []byte{1, 2, 3} {
		if g := c.groupOfTenant(1, i); g != want {
			t.Errorf("tenant %d is in group %d", i, g)
		}
	}
}

// TestGroupConfig: groups share memory and files kept ready, and above the first one have directories of their own.
func TestGroupConfig(t *testing.T) {
	c := engine.Config{Dir: "d", TailBytes: 1000, PoolReady: 2, EphemeralBytes: 1 << 30, Rested: func() {}}
	h := newHost(Options{Groups: 4})
	one, three := groupConfig(c, h, 1, format.UUID{}), groupConfig(c, h, 3, format.UUID{7})
	if one.Dir != "d" || three.Dir != "d/group-03" || !one.Cluster.IsZero() || three.Cluster != (format.UUID{7}) {
		t.Errorf("%q of cluster %v, %q of %v", one.Dir, one.Cluster, three.Dir, three.Cluster)
	}
	for _, x := range []*engine.Config{&one, &three} {
		if x.TailBytes != 250 || x.WriteBytes != 32<<20 || x.DeliveredBytes != 16<<20 || x.KeyedBytes != 16<<20 ||
			x.FilterBytes != 128<<20 || x.PoolReady != 1 {
			t.Errorf("%+v", x)
		}
	}
	if one.EphemeralBytes != 1<<30 || three.EphemeralBytes != 1<<20 {
		t.Errorf("memory of ephemeral queues: %d, %d", one.EphemeralBytes, three.EphemeralBytes)
	}
	if n := h.hostConfig().Expert.Engine.ApplyShards; n != 4 {
		t.Errorf("%d workers apply 4 groups", n)
	}
	if n := newHost(Options{}).hostConfig().Expert.Engine.ApplyShards; n != 2 {
		t.Errorf("%d workers apply one group", n)
	}
}

// TestQuiet: memory is given back once after a group has fallen idle, and not while another one is busy.
func TestQuiet(t *testing.T) {
	given := make(chan struct{}, 8)
	q := quiet{do: func() { given <- struct{}{} }}
	last := map[format.RaftGroup]format.Index{}
	round := func(grows format.RaftGroup) {
		for g := format.RaftGroup(1); g <= 2; g++ {
			if last[g]++; g == grows { // some entries come anyway
				last[g] += calmEntries
			}
			q.note(g, last[g])
		}
	}
	for range 2 * calmRounds {
		round(2)
	}
	q.rest()
	for range 2 * calmRounds {
		round(2)
	}
	if len(given) != 0 || !q.mu.owed {
		t.Error("given back while group 2 was busy")
	}
	for range calmRounds {
		round(0)
	}
	<-given
	for range 2 * calmRounds {
		round(0)
	}
	if q.mu.owed {
		t.Error("it is owed still")
	}
}

// rowsOf is a node that has rows.
type rowsOf struct {
	idle
	engine.AdminStore
	groups byte
}

func (r rowsOf) AdminRow(format.Tenant, format.AdminKind, string) (engine.AdminRow, bool) {
	return engine.AdminRow{Value: []byte{r.groups}}, r.groups != 0
}

// TestAnotherNumberOfGroups: a node takes no part in a cluster whose nodes say another number than its own, and ends when its own rows do.
func TestAnotherNumberOfGroups(t *testing.T) {
	for _, c := range []struct {
		says, set byte
		fine      bool
	}{{0, 0, true}, {0, 3, true}, {2, 2, true}, {2, 0, false}, {2, 1, false}, {2, 4, false}, {16, 16, true}, {1, 1, true}} {
		var ended error
		s := &Sequencer{group: 1, o: Options{Groups: c.set}, peer: rowsOf{groups: c.says}, fatal: func(err error) { ended = err }}
		report := Report{Version: protocol | uint32(s.saysGroups())<<16}
		if err := s.sameGroups(map[format.Replica]Report{1: {Version: protocol}, 2: report}); (err == nil) != c.fine {
			t.Errorf("the cluster says %d, the node is set to %d: %v", c.says, c.set, err)
		}
		if s.watchGroups(); (ended == nil) != (c.fine || c.set > 1) {
			t.Errorf("the rows say %d, the node is set to %d: %v", c.says, c.set, ended)
		}
	}
	s := &Sequencer{group: 2, peer: rowsOf{groups: 2}}
	if n := s.saysGroups(); n != 0 {
		t.Errorf("the rows of another group than the first said %d", n)
	}
}
