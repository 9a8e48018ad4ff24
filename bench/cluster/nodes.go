package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"queen/bench/internal/node"
)

// cluster is the nodes and the links between them; nodes count from 0.
type cluster struct {
	binary, dir string
	tick        time.Duration
	raft        []int           // ports that the nodes listen on
	peers       string          // the ports that they know each other by, which are relays
	relays      []*relay        // two for each node
	cuts        [][]atomic.Bool // [from][to]; the last row is never cut
	nodes       []atomic.Pointer[node.Node]
	urls        []string
	terms       atomic.Uint64 // the newest seen
}

func newCluster(binary, dir string, nodes int, tick time.Duration) (*cluster, error) {
	c := &cluster{binary: binary, dir: dir, tick: tick, nodes: make([]atomic.Pointer[node.Node], nodes), urls: make([]string, nodes)}
	for range nodes + 1 {
		c.cuts = append(c.cuts, make([]atomic.Bool, nodes))
	}
	next := 12000 + 100*rand.IntN(100)
	var peers []string
	for i := range nodes {
		a, b, port, err := pair(next)
		if err != nil {
			return nil, err
		}
		a.Close()
		b.Close()
		c.raft = append(c.raft, port)
		a, b, next, err = pair(port + 2)
		if err != nil {
			return nil, err
		}
		c.relays = append(c.relays, newRelay(c, a, i, fmt.Sprintf("127.0.0.1:%d", port)), newRelay(c, b, i, fmt.Sprintf("127.0.0.1:%d", port+1)))
		peers = append(peers, fmt.Sprintf("%d=127.0.0.1:%d", i+1, next))
		next += 2
	}
	c.peers = strings.Join(peers, ",")
	return c, c.startAll()
}

// startAll starts all nodes at once: a new cluster forms when a majority is there.
func (c *cluster) startAll() error {
	errs := make([]error, len(c.nodes))
	var wg sync.WaitGroup
	for i := range c.nodes {
		wg.Add(1)
		go func() {
			defer wg.Done()
			errs[i] = c.start(i)
		}()
	}
	wg.Wait()
	return errors.Join(errs...)
}

// start runs a node.
func (c *cluster) start(i int) error {
	addr := ""
	if c.urls[i] != "" {
		addr = strings.TrimPrefix(c.urls[i], "http://")
	}
	n, err := node.Start(node.Options{Binary: c.binary, Data: filepath.Join(c.dir, fmt.Sprint("node", i+1)), HTTP: addr, Args: []string{
		"--node-id", fmt.Sprint(i + 1), "--peer-addr", fmt.Sprintf("127.0.0.1:%d", c.raft[i]), "--peers", c.peers,
		"--peer-tick", c.tick.String(), "--segment-bytes", "4MiB", "--mark-every", "1s", "--checkpoint-every", "3s"}})
	if err != nil {
		return fmt.Errorf("node %d: %w", i+1, err)
	}
	c.urls[i] = "http://" + n.Addr
	c.nodes[i].Store(n)
	return nil
}

// health is what a node says of its raft group.
type health struct {
	Raft struct {
		Role string
		Term uint64
	}
}

var asker = &http.Client{Timeout: 2 * time.Second}

// role asks a node; "" when it does not answer.
func (c *cluster) role(i int) (string, uint64) {
	res, err := asker.Get(c.urls[i] + "/health")
	if err != nil {
		return "", 0
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	var h health
	if json.Unmarshal(text, &h) != nil {
		return "", 0
	}
	if t := c.terms.Load(); h.Raft.Term > t {
		c.terms.CompareAndSwap(t, h.Raft.Term)
	}
	return h.Raft.Role, h.Raft.Term
}

// leader is the node that says it leads with the newest term; -1 when none does within a while.
func (c *cluster) leader() int {
	for range 300 {
		best, newest := -1, uint64(0)
		for i := range c.nodes {
			if c.nodes[i].Load() == nil {
				continue
			}
			if role, term := c.role(i); role == "leader" && term >= newest {
				best, newest = i, term
			}
		}
		if best >= 0 {
			return best
		}
		time.Sleep(20 * time.Millisecond)
	}
	return -1
}

// heal mends every link.
func (c *cluster) heal() {
	any := false
	for from := range c.cuts {
		for to := range c.cuts[from] {
			any = c.cuts[from][to].Swap(false) || any
		}
	}
	for _, r := range c.relays {
		if any {
			r.end()
		}
	}
}

func (c *cluster) stop() error {
	var errs []error
	for i := range c.nodes {
		if n := c.nodes[i].Load(); n != nil {
			errs = append(errs, n.Stop())
		}
	}
	return errors.Join(errs...)
}
