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

// Answer is what one node said of one raft group, or why it did not.
type Answer struct {
	Node   format.Replica
	Group  format.RaftGroup
	Report Report
	Err    error
}

// Status asks every node at once of each raft group that the cluster has, as far as any node says; by node, and by group.
func (c *Client) Status(ctx context.Context) []Answer {
	nodes := slices.Sorted(maps.Keys(c.Peers))
	said := make([][]Answer, len(nodes))
	var asking sync.WaitGroup
	for i, node := range nodes {
		asking.Go(func() { said[i] = c.statusOf(ctx, node) })
	}
	asking.Wait()
	groups := 1
	for _, of := range said {
		groups = max(groups, len(of))
	}
	var all []Answer
	for i, of := range said {
		all = append(all, of...)
		for g := firstGroup + format.RaftGroup(len(of)); int(g) <= groups; g++ {
			err := of[0].Err
			if err == nil {
				err = errNotOpen(g) // it does not know yet how many there are
			}
			all = append(all, Answer{Node: nodes[i], Group: g, Err: err})
		}
	}
	return all
}

// statusOf asks a node of the raft groups that it knows of, of the first one alone when it does not answer.
func (c *Client) statusOf(ctx context.Context, node format.Replica) []Answer {
	all := make([]Answer, 1, MaxGroups)
	ask := func(g format.RaftGroup) Answer {
		r, err := c.ask(ctx, node, g, askSure, node, "")
		return Answer{Node: node, Group: g, Report: r, Err: err}
	}
	all[0] = ask(firstGroup)
	all = all[:max(1, min(all[0].Report.groups(), MaxGroups))]
	var asking sync.WaitGroup
	for i := range all[1:] {
		asking.Go(func() { all[i+1] = ask(firstGroup + format.RaftGroup(i+1)) })
	}
	asking.Wait()
	return all
}

// Transfer makes a node lead a raft group, or all of them for 0. Who leads tries it for as long as ctx lasts, a question at most; see Again.
func (c *Client) Transfer(ctx context.Context, to format.Replica, g format.RaftGroup) error {
	if g == 0 {
		return c.change(ctx, askTransfer, to, patience(ctx))
	}
	_, err := c.askLeader(ctx, g, askLead, to, patience(ctx))
	return err
}

// Drain has a node drain, or end that. leads says that it leads all the same, since no other voter can.
func (c *Client) Drain(ctx context.Context, node format.Replica, on bool) (leads bool, err error) {
	r, err := c.askLeader(ctx, firstGroup, drainAsk(on), node, "")
	return err == nil && r.Leader == uint64(node), err
}

// Add makes a node, which is started afterwards with Options.Joining, one that follows.
func (c *Client) Add(ctx context.Context, node format.Replica, raft string) error {
	return c.change(ctx, askAdd, node, raft)
}

// Promote makes a node that follows vote.
func (c *Client) Promote(ctx context.Context, node format.Replica) error {
	return c.change(ctx, askPromote, node, "")
}

// Remove takes a node out of the cluster, for good.
func (c *Client) Remove(ctx context.Context, node format.Replica) error {
	return c.change(ctx, askRemove, node, "")
}

// change asks who leads the first raft group, which has it done in all.
func (c *Client) change(ctx context.Context, a ask, node format.Replica, addr string) error {
	_, err := c.askLeader(ctx, firstGroup, a, node, addr)
	return err
}

// askLeader asks the node that leads a raft group, and returns what that says of itself afterwards.
func (c *Client) askLeader(ctx context.Context, g format.RaftGroup, a ask, node format.Replica, addr string) (r Report, err error) {
	var errs []error
	for _, asked := range slices.Sorted(maps.Keys(c.Peers)) {
		r, err = c.ask(ctx, asked, g, askReport, asked, "")
		if err != nil {
			errs = append(errs, fmt.Errorf("node %d: %w", asked, err))
			continue
		}
		if r.Flags&ReportLeads != 0 {
			return c.ask(ctx, asked, g, a, node, addr)
		}
	}
	return r, errors.Join(append(errs, errNoneLeads)...)
}

var errNoneLeads = errors.New("none of the nodes asked leads")

// ask asks a node one thing about a raft group and a node.
func (c *Client) ask(ctx context.Context, asked format.Replica, g format.RaftGroup, a ask, of format.Replica, addr string) (Report, error) {
	return exchange(ctx, c.Peers[asked], c.TLS, &request{Protocol: protocolOf(g), Ask: a, Of: uint64(of)}, addr)
}
