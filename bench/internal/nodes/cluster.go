package nodes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"queen/bench/internal/lossyfs"
	"queen/bench/internal/node"
	"queen/bench/internal/procfs"
)

// Options say what cluster it is.
type Options struct {
	// Binary is the node to run, empty builds it into Dir. Other is a second one, which the kind upgrade needs.
	Binary, Other string
	// Dir gets the directories and logs of the nodes.
	Dir   string
	Nodes int // 1 to 9
	// Groups is how many raft groups there are, 0 is 1.
	Groups int
	// Tick is the nodes' --peer-tick, 0 is 50 ms.
	Tick time.Duration
	// Kafka: every node serves Kafka's clients as well.
	Kafka bool
	// Tenants: the header x-queen-tenant names the tenant.
	Tenants bool
	// Kinds are the kinds of harm that will be done: what they need is prepared at the start.
	Kinds []string
	// Lie: from when the nodes are ready, flushes are answered and not done. The judges must find it.
	Lie bool
	// Args are further arguments of every node; they win over those that it gets anyway.
	Args []string
}

const (
	maxNodes    = 9
	defaultTick = 50 * time.Millisecond
)

// Cluster is the nodes and the links between them. Nodes count from 0; what is told counts them from 1.
type Cluster struct {
	o     Options
	slots []*slot
	// links are by who sends and who is sent to; outside is that of everybody else, and is never cut.
	links   [][]link
	outside link

	mu struct {
		sync.Mutex
		next  int // the number of the next node that joins
		terms map[int]uint64
		led   map[int]int // by raft group: the node that was seen to lead it last
		ended []error     // of nodes that ended by themselves
	}
}

// slot is a place in the cluster: an address for clients, and the member that has it at the moment.
type slot struct {
	index       int
	http, kafka string
	clock       string // the file with the offset of its wall clock, "" without
	// busy is held by whoever starts, ends or replaces the node.
	busy    sync.Mutex
	seat    atomic.Pointer[seat]
	running atomic.Pointer[node.Node]
	process atomic.Int64 // of the newest start, from before it was ready
}

// seat is a member of the cluster: its number, where it is reached, and its directory.
type seat struct {
	number int
	// addr is where it listens for the others, known the relay by which they know it.
	addr, known string
	joins       bool // a cluster that was there before
	data        string
	disk        *lossyfs.FS // nil for a plain directory
	relays      []*relay
}

// New starts all nodes and returns when they are ready.
func New(o Options) (*Cluster, error) {
	if o.Nodes < 1 || o.Nodes > maxNodes {
		return nil, fmt.Errorf("nodes: a cluster has 1 to %d nodes, not %d", maxNodes, o.Nodes)
	}
	if err := CheckKinds(o.Kinds); err != nil {
		return nil, err
	}
	if o.needs("upgrade") && o.Other == "" {
		return nil, errors.New("nodes: upgrade needs a second binary, to run on in between")
	}
	o.Groups = max(o.Groups, 1)
	if o.Tick == 0 {
		o.Tick = defaultTick
	}
	var err error
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return nil, err
	}
	if o.Binary == "" {
		if o.Binary, err = Build(filepath.Join(o.Dir, "queen"), o.Kinds); err != nil {
			return nil, err
		}
	}
	lossyfs.Detach(filepath.Dir(o.Dir)) // of runs that were killed
	withoutCores()
	c := &Cluster{o: o}
	c.mu.next, c.mu.terms = o.Nodes+1, map[int]uint64{}
	if err := c.prepare(); err != nil {
		c.abandon()
		return nil, err
	}
	if err := c.startAll(c.slots); err != nil {
		c.abandon()
		return nil, err
	}
	for _, s := range c.slots {
		if d := s.seat.Load().disk; d != nil {
			d.Lie(o.Lie)
		}
	}
	return c, nil
}

// Build compiles the node into path as the kinds need it.
func Build(path string, kinds []string) (string, error) {
	if (&Options{Kinds: kinds}).needs("clock") {
		return node.Build(path, "faults")
	}
	return node.Build(path)
}

// needs reports that one of the kinds will be done.
func (o *Options) needs(kinds ...string) bool {
	for _, k := range o.Kinds {
		for _, name := range strings.Split(k, "+") {
			if slices.Contains(kinds, name) {
				return true
			}
		}
	}
	return false
}

// prepare makes the places of the nodes.
func (c *Cluster) prepare() error {
	for range c.o.Nodes {
		c.links = append(c.links, make([]link, c.o.Nodes))
	}
	for i := range c.o.Nodes {
		s := &slot{index: i}
		c.slots = append(c.slots, s)
		var err error
		if s.http, err = node.FreeAddr(); err != nil {
			return err
		}
		if c.o.Kafka {
			if s.kafka, err = node.FreeAddr(); err != nil {
				return err
			}
		}
		if c.o.needs("clock") {
			s.clock = filepath.Join(c.o.Dir, fmt.Sprintf("clock%d", i+1))
			if err := writeOffset(s.clock, 0); err != nil {
				return err
			}
		}
		seat, err := c.newSeat(i, i+1)
		if err != nil {
			return err
		}
		s.seat.Store(seat)
	}
	return nil
}

// newSeat makes what a member needs: ports, relays, a directory.
func (c *Cluster) newSeat(slot, number int) (*seat, error) {
	s := &seat{number: number, data: filepath.Join(c.o.Dir, fmt.Sprintf("node%d", number))}
	a, b, port, err := pair()
	if err != nil {
		return nil, err
	}
	a.Close()
	b.Close()
	s.addr = fmt.Sprintf("127.0.0.1:%d", port)
	a, b, known, err := pair()
	if err != nil {
		return nil, err
	}
	s.known = fmt.Sprintf("127.0.0.1:%d", known)
	s.relays = []*relay{newRelay(c, a, slot, s.addr), newRelay(c, b, slot, fmt.Sprintf("127.0.0.1:%d", port+1))}
	if !c.o.Lie && !c.o.needs("power", "powerall", "slow") {
		return s, nil
	}
	for _, dir := range []string{s.data, s.backing()} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			s.leave()
			return nil, err
		}
	}
	if s.disk, err = lossyfs.Mount(s.data, s.backing(), false); err != nil {
		s.leave()
		return nil, err
	}
	return s, nil
}

// backing is the directory behind that of a lossy disk.
func (s *seat) backing() string { return s.data + ".disk" }

// leave ends what newSeat began; the files stay.
func (s *seat) leave() {
	for _, r := range s.relays {
		r.listener.Close()
	}
	if s.disk != nil {
		s.disk.Release()
		_ = s.disk.Unmount() // nothing is asked of it any more
	}
}

// peers names the members, by the addresses that they know each other by.
func (c *Cluster) peers() string {
	var all []string
	for _, s := range c.slots {
		m := s.seat.Load()
		all = append(all, fmt.Sprintf("%d=%s", m.number, m.known))
	}
	return strings.Join(all, ",")
}

// startAll starts nodes at once: a new cluster forms when all are there. The caller has them to itself.
func (c *Cluster) startAll(slots []*slot) error {
	errs := make([]error, len(slots))
	var wg sync.WaitGroup
	for i, s := range slots {
		wg.Add(1)
		go func() {
			defer wg.Done()
			errs[i] = c.start(s, c.o.Binary)
		}()
	}
	wg.Wait()
	return errors.Join(errs...)
}

// start runs the node of a slot and returns when it is ready. The caller holds busy.
func (c *Cluster) start(s *slot, binary string) error {
	m := s.seat.Load()
	o := node.Options{Binary: binary, Data: m.data, HTTP: s.http, Kafka: s.kafka, Args: []string{
		"--node-id", fmt.Sprint(m.number), "--peer-addr", m.addr, "--peers", c.peers(), "--peer-tick", c.o.Tick.String(),
		"--segment-bytes", "4MiB", "--mark-every", "1s", "--checkpoint-every", "3s"}}
	if c.o.Groups > 1 {
		o.Args = append(o.Args, "--peer-groups", fmt.Sprint(c.o.Groups))
	}
	if m.joins {
		o.Args = append(o.Args, "--peer-join")
	}
	if c.o.Tenants {
		o.Args = append(o.Args, "--tenancy-header", "--tenancy-trusted-proxies", "127.0.0.1")
	}
	o.Env = append(o.Env, wordy)
	if s.clock != "" && binary == c.o.Binary { // the other one need not know of it
		o.Env = append(o.Env, "QUEEN_FAULT_CLOCK="+s.clock)
	}
	o.Args = append(o.Args, c.o.Args...)
	o.Spawned = func(p procfs.Process) { s.process.Store(int64(p)) }
	n, err := node.Start(o)
	if err != nil && strings.Contains(err.Error(), startAgain) {
		n, err = node.Start(o) // as whoever supervises it does
	}
	if err != nil {
		return fmt.Errorf("node %d: %w", m.number, err)
	}
	s.running.Store(n)
	go func() {
		<-n.Ended()
		if s.running.CompareAndSwap(n, nil) { // nobody ended it
			c.mu.Lock()
			defer c.mu.Unlock()
			c.mu.ended = append(c.mu.ended, fmt.Errorf("node %d ended by itself:\n%s", m.number, n.LogTail()))
		}
	}()
	return nil
}

// startAgain is what a node says that ends because its next start mends what is wrong.
const startAgain = "its next start pulls a copy of another node's state"

// kill ends a node as a crash does. The caller holds busy, and the node runs.
func (s *slot) kill() {
	n := s.running.Swap(nil)
	if n == nil {
		return // it ended a moment ago
	}
	n.Signal(syscall.SIGKILL)
	if d := s.seat.Load().disk; d != nil {
		d.Release() // a flush that stalls would hold the process
	}
	n.Kill()
}

// Ended are the ends of nodes that ended by themselves: what no harm that is done here should lead to.
func (c *Cluster) Ended() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(c.mu.ended...)
}

// Len is how many nodes there are.
func (c *Cluster) Len() int { return len(c.slots) }

// URL is where a node serves HTTP; it stays the same.
func (c *Cluster) URL(i int) string { return "http://" + c.slots[i].http }

// Kafka is the address where a node serves Kafka's clients; it stays the same.
func (c *Cluster) Kafka(i int) string { return c.slots[i].kafka }

// Up reports that a node runs and was ready.
func (c *Cluster) Up(i int) bool { return c.slots[i].running.Load() != nil }

// Heal mends every link.
func (c *Cluster) Heal() {
	for from := range c.links {
		for to := range c.links[from] {
			c.links[from][to].mend(true)
		}
	}
}

// Stop drains all nodes, one after the other, and says what ended otherwise than it should.
func (c *Cluster) Stop() error {
	c.Heal()
	errs := []error{c.Ended()}
	for _, s := range c.slots {
		s.busy.Lock()
		if n := s.running.Swap(nil); n != nil {
			if err := n.Stop(); err != nil {
				errs = append(errs, fmt.Errorf("node %d: %w", s.seat.Load().number, err))
			}
		}
		s.seat.Load().leave()
		s.busy.Unlock()
	}
	return errors.Join(errs...)
}

// abandon ends what New began.
func (c *Cluster) abandon() {
	for _, s := range c.slots {
		s.busy.Lock()
		if m := s.seat.Load(); m != nil {
			s.kill()
			m.leave()
		}
		s.busy.Unlock()
	}
}
