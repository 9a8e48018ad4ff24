package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"queen/bench/internal/client"
	"queen/bench/internal/node"
	"queen/bench/internal/procfs"
	"queen/engine/format"
)

// nodes are a single node, or those of one cluster; they count from 0 here and from 1 in the cluster.
type nodes struct {
	all   []*node.Node
	peers string // as --peers wants it, "" of a single node
}

// tenants are who the load is divided among, one in each raft group: each is placed where there are the fewest.
var tenants = []string{"00000000-0000-4000-8000-00000000aaaa", "00000000-0000-4000-8000-00000000bbbb"}

// startNodes starts count nodes below dir. A cluster is started at once: it forms when a majority is there.
func startNodes(binary, dir string, count, groups int) (*nodes, error) {
	c := &nodes{all: make([]*node.Node, count)}
	args := make([][]string, count)
	if count > 1 {
		addrs, err := peerAddrs(count)
		if err != nil {
			return nil, err
		}
		var peers []string
		for i, addr := range addrs {
			peers = append(peers, fmt.Sprintf("%d=%s", i+1, addr))
		}
		c.peers = strings.Join(peers, ",")
		for i, addr := range addrs {
			args[i] = []string{"--node-id", strconv.Itoa(i + 1), "--peer-addr", addr, "--peers", c.peers, "--peer-groups", strconv.Itoa(groups)}
		}
	}
	errs := make([]error, count)
	var starting sync.WaitGroup
	for i := range c.all {
		starting.Go(func() {
			// Any process of this machine may name a tenant: the loader does. Six segments are kept ready, and should be before time counts.
			more := append(args[i], "--tenancy-header=true", "--tenancy-trusted-proxies", "127.0.0.1", "--segment-bytes", "32MiB")
			n, err := node.Start(node.Options{Binary: binary, Data: filepath.Join(dir, fmt.Sprint("node", i+1)), Args: more})
			if err != nil {
				errs[i] = fmt.Errorf("node %d: %w", i+1, err)
				return
			}
			c.all[i] = n
		})
	}
	starting.Wait()
	if err := errors.Join(errs...); err != nil {
		c.kill()
		return nil, err
	}
	return c, nil
}

// peerAddrs are addresses of loopback whose ports, and those above them, are free.
func peerAddrs(count int) (addrs []string, err error) {
	seen := map[int]bool{}
	for range 1000 {
		if len(addrs) == count {
			return addrs, nil
		}
		port := 20_000 + 2*rand.IntN(6000)
		if seen[port] || !free(port) || !free(port+1) {
			continue
		}
		seen[port] = true
		addrs = append(addrs, fmt.Sprintf("127.0.0.1:%d", port))
	}
	return nil, errors.New("no free ports between 20000 and 32000")
}

func free(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	return err == nil && l.Close() == nil
}

// kill ends all processes: their data is thrown away.
func (c *nodes) kill() {
	for _, n := range c.all {
		if n != nil {
			n.Kill()
		}
	}
}

func (c *nodes) addrs() (addrs []string) {
	for _, n := range c.all {
		addrs = append(addrs, n.Addr)
	}
	return addrs
}

func (c *nodes) processes() (pids []procfs.Process) {
	for _, n := range c.all {
		pids = append(pids, n.PID)
	}
	return pids
}

// logs is the end of what each node said.
func (c *nodes) logs() string {
	var b strings.Builder
	for i, n := range c.all {
		fmt.Fprintf(&b, "node %d said:\n%s\n", i+1, n.LogTail())
	}
	return b.String()
}

// reserved is how many bytes the log files take that nodes keep, most of them written before there was anything to put there. As
// long as none is given up, it grows by what is written in advance and by nothing else.
func (c *nodes) reserved() (sum int64, err error) {
	for _, n := range c.all {
		_, kinds, err := procfs.DirBytes(n.Options.Data)
		if err != nil {
			return 0, err
		}
		for kind, bytes := range kinds {
			if name := kind[strings.LastIndexByte(kind, '/')+1:]; name == "seg-" || name == "pool-" {
				sum += bytes
			}
		}
	}
	return sum, nil
}

// groupOf finds the raft group of a tenant, whose queue it makes, by the id of a partition.
func (c *nodes) groupOf(tenant string) (format.RaftGroup, error) {
	k := client.New(c.all[0].Addr, 30*time.Second)
	defer k.Close()
	k.Tenant = tenant
	k.PushBegin()
	k.PushItem([]byte("where"), []byte("p"), []byte("one"), []byte("1"))
	a, err := k.PushSend()
	if err == nil {
		err = a.Err()
	}
	if err != nil {
		return 0, fmt.Errorf("where a tenant is: %w", err)
	}
	pop := client.PopRequest{Queue: "where", Group: "g", Batch: 1, Wait: 10 * time.Second, All: true}
	a, err = k.Do("GET", pop.Path(), nil)
	if err == nil {
		err = a.Err()
	}
	var d client.Delivery
	if err == nil && a.Status == 200 {
		err = client.ParsePop(a.Body, &d)
	}
	if err != nil || len(d.Messages) != 1 {
		return 0, fmt.Errorf("where a tenant is: %d messages: %w", len(d.Messages), err)
	}
	id, err := strconv.ParseUint(string(d.Messages[0].PartitionID), 10, 64)
	return format.PartitionID(id).RaftGroup(), err
}

// place makes the first tenants known, and holds them to be in raft groups of their own.
func (c *nodes) place(groups int) error {
	seen := map[format.RaftGroup]string{}
	for _, tenant := range tenants[:groups] {
		g, err := c.groupOf(tenant)
		if err != nil {
			return err
		}
		if other := seen[g]; other != "" {
			return fmt.Errorf("the tenants %s and %s are both in raft group %d", other, tenant, g)
		}
		seen[g] = tenant
	}
	return nil
}

var asker = &http.Client{Timeout: 2 * time.Second}

// role is what a node says of itself in the first raft group; "" when it does not answer.
func role(addr string) (name string, term uint64) {
	res, err := asker.Get("http://" + addr + "/health")
	if err != nil {
		return "", 0
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	var h struct {
		Raft struct {
			Role string
			Term uint64
		}
	}
	if json.Unmarshal(text, &h) != nil {
		return "", 0
	}
	return h.Raft.Role, h.Raft.Term
}

// leader waits for a node that says it leads; that with the newest term counts.
func (c *nodes) leader() (int, error) {
	for range 500 {
		best, newest := -1, uint64(0)
		for i, n := range c.all {
			if name, term := role(n.Addr); name == "leader" && term >= newest {
				best, newest = i, term
			}
		}
		if best >= 0 {
			return best, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return 0, errors.New("nobody leads")
}
