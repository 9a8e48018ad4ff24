package replication

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"queen/engine/format"
)

// Client asks the nodes of a cluster from outside, for tools.
type Client struct {
	// Peers are raft addresses of nodes, not necessarily of all.
	Peers map[format.Replica]string
	TLS   *TLS
}

// Answer is what one node said, or why it did not.
type Answer struct {
	Report Report
	Err    error
}

// Status asks every node at once.
func (c *Client) Status(ctx context.Context) map[format.Replica]Answer {
	var mu sync.Mutex
	var wg sync.WaitGroup
	all := map[format.Replica]Answer{}
	for node, addr := range c.Peers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			r, err := query(ctx, addr, c.TLS, askSure, 0, node, "")
			mu.Lock()
			defer mu.Unlock()
			all[node] = Answer{r, err}
		}()
	}
	wg.Wait()
	return all
}

// Transfer makes a node lead.
func (c *Client) Transfer(ctx context.Context, to format.Replica) error {
	return c.lead(ctx, askTransfer, to, "")
}

// Drain has a node drain, or end that. leads says that it leads all the same, since no other voter can.
func (c *Client) Drain(ctx context.Context, node format.Replica, on bool) (leads bool, err error) {
	r, err := c.askLeader(ctx, drainAsk(on), node, "")
	return err == nil && r.Leader == uint64(node), err
}

// Add makes a node, which is started afterwards with Options.Joining, one that follows.
func (c *Client) Add(ctx context.Context, node format.Replica, raft string) error {
	return c.lead(ctx, askAdd, node, raft)
}

// Promote makes a node that follows vote.
func (c *Client) Promote(ctx context.Context, node format.Replica) error {
	return c.lead(ctx, askPromote, node, "")
}

// Remove takes a node out of the cluster, for good.
func (c *Client) Remove(ctx context.Context, node format.Replica) error {
	return c.lead(ctx, askRemove, node, "")
}

// lead asks the node that leads.
func (c *Client) lead(ctx context.Context, a ask, node format.Replica, addr string) error {
	_, err := c.askLeader(ctx, a, node, addr)
	return err
}

// askLeader asks the node that leads, and returns what that says of itself afterwards.
func (c *Client) askLeader(ctx context.Context, a ask, node format.Replica, addr string) (r Report, err error) {
	var errs []error
	for _, asked := range slices.Sorted(maps.Keys(c.Peers)) {
		r, err = query(ctx, c.Peers[asked], c.TLS, askReport, 0, asked, "")
		if err != nil {
			errs = append(errs, fmt.Errorf("node %d: %w", asked, err))
			continue
		}
		if r.Flags&ReportLeads != 0 {
			return query(ctx, c.Peers[asked], c.TLS, a, 0, node, addr)
		}
	}
	return r, errors.Join(append(errs, errors.New("none of the nodes asked leads"))...)
}
