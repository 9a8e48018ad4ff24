package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// processes are the nodes of a cluster, each a process of its own.
type processes struct {
	t     testing.TB
	dir   string
	peers []string
	nodes []*process // nil where none runs
	extra []string
}

func newProcesses(t testing.TB, nodes int, extra ...string) *processes {
	c := &processes{t: t, dir: t.TempDir(), nodes: make([]*process, nodes), extra: extra}
	for range nodes {
		c.peers = append(c.peers, freeTwo(t))
	}
	c.start(0, 1, 2)
	return c
}

// freeTwo finds two neighbouring free ports below the ephemeral range.
func freeTwo(t testing.TB) string {
	for range 200 {
		port := 10000 + 2*rand.IntN(10000)
		a, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		b, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+1))
		a.Close()
		if err == nil {
			b.Close()
			return fmt.Sprintf("127.0.0.1:%d", port)
		}
	}
	t.Fatal("no free ports")
	return ""
}

// start runs nodes, by their number from 0, and waits until each is ready.
func (c *processes) start(nodes ...int) {
	c.t.Helper()
	var wg sync.WaitGroup
	for _, i := range nodes {
		wg.Add(1)
		go func() {
			defer wg.Done()
			c.nodes[i] = launch(c.t, nil, append(c.args(i), c.extra...)...)
		}()
	}
	wg.Wait()
	for _, i := range nodes {
		c.nodes[i].waitReady()
	}
}

// args are those of a node, without the extra ones.
func (c *processes) args(i int) []string {
	var all []string
	for i, addr := range c.peers {
		all = append(all, fmt.Sprintf("%d=%s", i+1, addr))
	}
	dir := filepath.Join(c.dir, fmt.Sprint(i))
	return []string{"serve", "--data", dir, "--http", "127.0.0.1:0", "--segment-bytes", "4MiB",
		"--node-id", fmt.Sprint(i + 1), "--peer-addr", c.peers[i], "--peers", strings.Join(all, ","), "--peer-tick", "20ms"}
}

// TestClusterOfGroups: a cluster of two raft groups serves several tenants on every node and loses nothing of them when a node is killed with
// -9. A node that is set to another number of groups does not start. The commands of clusters know both groups.
func TestClusterOfGroups(t *testing.T) {
	c := newProcesses(t, 3, "--peer-groups", "2", "--tenancy-header", "--tenancy-trusted-proxies", "127.0.0.1")
	tenants := []string{"11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222", "33333333-3333-3333-3333-333333333333"}
	pushed := 0
	more := func(on int) {
		t.Helper()
		for _, tenant := range tenants {
			body := map[string]any{"items": []map[string]any{{"queue": "q", "partition": "p", "transactionId": fmt.Sprint(pushed), "payload": tenant}}}
			var status int
			var answer []byte
			for end := time.Now().Add(patience); status != 201; {
				if status, answer = c.nodes[on].callAs(tenant, "POST", "/api/v1/push", body); time.Now().After(end) {
					t.Fatalf("not taken within a minute: %d %s", status, answer)
				}
			}
		}
		pushed++
	}
	for i := range c.nodes {
		more(i)
	}
	dead := c.leader()
	c.nodes[dead].kill()
	c.nodes[dead] = nil
	more((dead + 1) % 3)
	refused := command(t, nil, append(c.args(dead), "--peer-groups", "4")...)
	if refused.code == 0 || !strings.Contains(refused.errors, "the cluster has 2 raft groups, this node is set to 4 (--peer-groups)") {
		t.Errorf("set to 4 groups: exit code %d: %s", refused.code, refused.errors)
	}
	if refused = command(t, nil, c.args(dead)...); refused.code == 0 || !strings.Contains(refused.errors, "of several raft groups") {
		t.Errorf("set to one group: exit code %d: %s", refused.code, refused.errors)
	}
	c.start(dead)
	more(dead)
	for i, n := range c.nodes {
		path := fmt.Sprintf("/api/v1/pop/queue/q?consumerGroup=g%d&subscriptionMode=all&batch=100&autoAck=true", i)
		for _, tenant := range tenants {
			seen := 0
			for end := time.Now().Add(patience); ; {
				status, body := n.callAs(tenant, "GET", path, nil)
				if status == 204 {
					break
				}
				if status == 503 && time.Now().Before(end) {
					continue // an election
				}
				if status != 200 {
					t.Fatalf("pop: %d %s", status, body)
				}
				var got popped
				decode(t, body, &got)
				for _, m := range got.Messages {
					if m.TransactionID != fmt.Sprint(seen) {
						t.Fatalf("node %d, tenant %s: %s comes after %d messages", i, tenant, m.TransactionID, seen)
					}
					seen++
				}
			}
			if seen != pushed {
				t.Errorf("node %d, tenant %s: %d messages, %d were pushed", i, tenant, seen, pushed)
			}
		}
	}
	c.commandsOfGroups()
}

// leader waits for a node that says that it leads.
func (c *processes) leader() int {
	c.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		for i, n := range c.nodes {
			if n == nil {
				continue
			}
			if status, body := n.call("GET", "/health", nil); status == 200 && strings.Contains(string(body), `"leader":true`) {
				return i
			}
		}
	}
	c.t.Fatal("nobody leads")
	return 0
}

// TestClusterSurvivesItsLeader: clients on all nodes push while the leader is killed with -9 twice, and once more after it
// came back. Every message that was acknowledged is there, once, in the order of its partition, on every node.
func TestClusterSurvivesItsLeader(t *testing.T) {
	c := newProcesses(t, 3)
	var stop atomic.Bool
	var wg sync.WaitGroup
	pushed := make([]int, 6)
	var urls [3]atomic.Pointer[process]
	for i, n := range c.nodes {
		urls[i].Store(n)
	}
	for i := range pushed {
		wg.Add(1)
		go func() {
			defer wg.Done()
			at := i % 3
			for !stop.Load() {
				k := pushed[i]
				body := map[string]any{"items": []map[string]any{{"queue": "q", "partition": fmt.Sprint("p", i),
					"transactionId": fmt.Sprintf("%d-%d", i, k), "payload": k}}}
				status, answer := urls[at].Load().call("POST", "/api/v1/push", body)
				if status == 201 {
					pushed[i]++
					continue
				}
				if status != 0 && status != 503 && status != 504 {
					t.Errorf("push: %d %s", status, answer)
					return
				}
				at = (at + 1) % 3 // what became of it is not known: again, elsewhere, under the same id
			}
		}()
	}
	more := func() {
		c.t.Helper()
		for i := range 3 { // progress on every node that runs
			if c.nodes[i] != nil {
				pushOn(t, c.nodes[i], "progress", 1)
			}
		}
	}
	for range 3 {
		more()
		leader := c.leader()
		dead := c.nodes[leader]
		dead.kill()
		c.nodes[leader] = nil
		more()
		c.start(leader)
		urls[leader].Store(c.nodes[leader])
	}
	more()
	stop.Store(true)
	wg.Wait()
	total := 0
	for i, n := range pushed {
		total += n
		if n == 0 {
			t.Errorf("client %d was never served", i)
		}
	}
	for i, n := range c.nodes {
		drainAll(t, n, fmt.Sprint("g", i), pushed)
	}
	t.Logf("%d messages", total)
	for _, n := range c.nodes {
		if code := n.stop(syscall.SIGTERM); code != 0 {
			t.Errorf("exit code %d", code)
		}
	}
}

// pushOn pushes messages one by one, each until it is taken.
func pushOn(t testing.TB, n *process, queue string, count int) {
	t.Helper()
	for i := range count {
		id := fmt.Sprintf("%d-%d", i, rand.Uint64())
		for end := time.Now().Add(patience); ; {
			status, answer := n.call("POST", "/api/v1/push", map[string]any{"items": []map[string]any{
				{"queue": queue, "partition": "p", "transactionId": id, "payload": i}}})
			if status == 201 {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("not taken within a minute: %d %s", status, answer)
			}
		}
	}
}

// drainAll pops everything by a group of its own and holds it against what was pushed.
func drainAll(t testing.TB, n *process, group string, pushed []int) {
	t.Helper()
	next := make([]int, len(pushed))
	for {
		var got popped
		status, body := n.call("GET", "/api/v1/pop/queue/q?consumerGroup="+group+"&subscriptionMode=all&batch=1000&partitions=64&autoAck=true", nil)
		if status == 204 {
			break
		}
		if status != 200 {
			t.Fatalf("pop: %d %s", status, body)
		}
		decode(t, body, &got)
		for _, m := range got.Messages {
			var i, k int
			if _, err := fmt.Sscanf(m.TransactionID, "%d-%d", &i, &k); err != nil || k != next[i] {
				t.Fatalf("partition %s: %s comes after %d", m.Partition, m.TransactionID, next[i]-1)
			}
			next[i]++
		}
	}
	for i := range pushed {
		if next[i] < pushed[i] || next[i] > pushed[i]+1 { // the last one may have been taken without an answer
			t.Errorf("partition p%d: %d messages, %d were acknowledged", i, next[i], pushed[i])
		}
	}
}

func decode(t testing.TB, body []byte, out any) {
	t.Helper()
	if err := json.Unmarshal(body, out); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
}
