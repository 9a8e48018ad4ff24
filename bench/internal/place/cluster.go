package place

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"queen/bench/internal/node"
	"queen/bench/internal/nodes"
)

// Cluster is several nodes that are one broker.
type Cluster struct {
	*nodes.Cluster
	dir     string
	groups  int
	addrs   []string
	stopped bool
}

// round is a cluster as the clients of one round see it.
type round struct {
	*Cluster
	tenant string
}

// Tenant implements Place.
func (r round) Tenant() string { return r.tenant }

// Round is the place of a round's clients. A tenant is in one raft group: where there are several, rounds take tenants in turn, twice
// as many as there are groups, so that all of them have load.
func (c *Cluster) Round(number int) Place {
	if c.groups < 2 {
		return c
	}
	return round{c, fmt.Sprintf("00000000-0000-4000-8000-%012d", 1+number%(2*c.groups))}
}

// open starts the cluster of a trial in a directory, which must be empty, and returns when its nodes are ready. Without a binary it
// builds one.
func (t *Trial) open(binary, dir string) (*Cluster, error) {
	n, err := nodes.New(nodes.Options{Binary: binary, Dir: dir, Nodes: t.Nodes, Groups: t.Groups, Tick: tick,
		Tenants: t.Groups > 1, Kinds: t.kinds()})
	if err != nil {
		return nil, err
	}
	c := &Cluster{Cluster: n, dir: dir, groups: t.Groups}
	for i := range n.Len() {
		c.addrs = append(c.addrs, strings.TrimPrefix(n.URL(i), "http://"))
	}
	return c, nil
}

// tick is the nodes' --peer-tick: a leader that is gone is noticed within a second.
const tick = 50 * time.Millisecond

// Addrs implements Place.
func (c *Cluster) Addrs() []string { return c.addrs }

// Tenant implements Place.
func (c *Cluster) Tenant() string { return "" }

// Patience implements Place. A node that stands still is given up while it does: most of what its clients had sent is then
// carried out later, beside what they send elsewhere.
func (c *Cluster) Patience() time.Duration { return 2 * time.Second }

// Stop implements Place.
func (c *Cluster) Stop() error {
	c.stopped = true
	return c.Cluster.Stop()
}

// end stops the nodes of a run that may have failed, and wants nothing more of them.
func (c *Cluster) end() {
	if !c.stopped {
		c.Heal()
		_ = c.Stop() // what went wrong is told of already
	}
}

// LogTail implements Place.
func (c *Cluster) LogTail() string {
	logs, _ := filepath.Glob(filepath.Join(c.dir, "*.log")) // the pattern is well formed
	var b strings.Builder
	for _, name := range logs {
		fmt.Fprintf(&b, "%s:\n%s\n", filepath.Base(name), node.LastWords(name))
	}
	return b.String()
}
