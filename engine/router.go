package engine

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"sync"

	"queen/engine/auth"
	"queen/engine/format"
)

// Served is an engine with all that a process serves of it: *Node and *Router.
type Served interface {
	Engine
	AdminStore
	Operations
	// Cluster describes the cluster by way of raft group 1; false for a single node.
	Cluster() (Replicated, bool)
}

var (
	_ Served = (*Node)(nil)
	_ Served = (*Router)(nil)
)

// Router is several raft groups as one engine: it leaves each call to the node of the group that the caller's tenant is in, which is the
// same one for ever. A Batch has one Caller, so nothing that is atomic spans groups. Group 1 has what is nobody's: users, brokers,
// the table of tenants, and ephemeral queues.
type Router struct {
	groups      []*Node
	table       tenantTable
	tenantsMost int // smaller in tests only
}

// NewRouter puts nodes together, of raft groups 1, 2, and so on. It owns them from now on.
func NewRouter(groups []*Node) *Router {
	for i, n := range groups {
		if g := n.seq.Group(); int(g) != i+1 {
			panic(fmt.Sprintf("engine: raft group %d stands at %d", g, i+1))
		}
	}
	return &Router{groups: groups, table: tenantTable{placing: map[format.Tenant]*placing{}}, tenantsMost: tenantsMost}
}

// GroupDir is the directory of a raft group of the node whose data directory is dir: that one for group 1, one below it for others.
func GroupDir(dir string, g format.RaftGroup) string {
	if g == 1 {
		return dir
	}
	return path.Join(dir, fmt.Sprintf("group-%02d", g))
}

// Group is the node of a raft group, nil of one that is not here.
func (r *Router) Group(g format.RaftGroup) *Node {
	if g == 0 || int(g) > len(r.groups) {
		return nil
	}
	return r.groups[g-1]
}

// Cluster implements Served.
func (r *Router) Cluster() (Replicated, bool) { return r.groups[0].Cluster() }

// Do implements Engine.
func (r *Router) Do(ctx context.Context, c Caller, b Batch) ([]Result, error) {
	n, err := r.of(ctx, c.Tenant)
	if err != nil {
		return nil, err
	}
	return n.Do(ctx, c, b)
}

// Pop implements Engine.
func (r *Router) Pop(ctx context.Context, c Caller, req PopRequest) (*Delivery, error) {
	n, err := r.of(ctx, c.Tenant)
	if err != nil {
		return nil, err
	}
	return n.Pop(ctx, c, req)
}

// Read implements Engine.
func (r *Router) Read(ctx context.Context, c Caller, req ReadRequest) (*ReadResult, error) {
	n, err := r.of(ctx, c.Tenant)
	if err != nil {
		return nil, err
	}
	return n.Read(ctx, c, req)
}

// Offsets implements Engine.
func (r *Router) Offsets(ctx context.Context, c Caller, q []OffsetQuery) ([]OffsetAnswer, error) {
	n, err := r.of(ctx, c.Tenant)
	if err != nil {
		return nil, err
	}
	return n.Offsets(ctx, c, q)
}

// Watch implements Engine. It waits for nothing: where a tenant is of whom nothing is known here is found out by Next.
func (r *Router) Watch(c Caller) Watcher {
	if n, err := r.memory(c.Tenant); n != nil && err == nil {
		return n.Watch(c)
	}
	return &routedWatcher{r: r, caller: c, early: map[PartitionRef]struct{}{}}
}

// Ephemeral implements Engine: queues in memory are one family of the node, whatever group their tenant is in.
func (r *Router) Ephemeral() Ephemeral { return r.groups[0].Ephemeral() }

// Close implements Engine: all groups stop at the same time.
func (r *Router) Close(ctx context.Context) error {
	return r.each(func(_ int, n *Node) error { return n.Close(ctx) })
}

// each calls f for all groups at the same time and joins what went wrong.
func (r *Router) each(f func(i int, n *Node) error) error {
	errs := make([]error, len(r.groups))
	var all sync.WaitGroup
	for i, n := range r.groups {
		all.Add(1)
		go func() {
			defer all.Done()
			errs[i] = f(i, n)
		}()
	}
	all.Wait()
	return errors.Join(errs...)
}

// Status implements Engine. A node is well if it is in all of its groups; Why names the first in which it can not write, else it says
// what that of group 1 says: that the node drains.
func (r *Router) Status(ctx context.Context) (Status, error) {
	all := make([]Status, len(r.groups))
	if err := r.each(func(i int, n *Node) (err error) { all[i], err = n.Status(ctx); return err }); err != nil {
		return Status{}, err
	}
	st := all[0]
	st.Groups = make([]GroupStatus, len(all))
	fine := true // in the groups so far
	for i := range all {
		g := &all[i]
		st.Groups[i] = g.group(format.RaftGroup(i + 1))
		if fine && !g.CanWrite {
			fine, st.Why = false, "raft group "+strconv.Itoa(i+1)+": "+g.Why
		}
		if st.Ready && !g.Ready {
			st.Phase, st.Progress = g.Phase, g.Progress
		}
		if st.ClockStep == "" {
			st.ClockStep = g.ClockStep
		}
		st.Quorum, st.CanWrite, st.Ready = st.Quorum && g.Quorum, fine, st.Ready && g.Ready
		st.StorageFull = st.StorageFull || g.StorageFull
	}
	return st, nil
}

// setQuotas holds the jobs of every group to rates.
func (r *Router) setQuotas(q *auth.Quotas) {
	for _, n := range r.groups {
		n.setQuotas(q)
	}
}
