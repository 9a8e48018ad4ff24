package engine

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"

	"queen/engine/format"
	"queen/engine/keyed"
)

// tenantTable remembers which raft group tenants are in, as rows of group 1 say it.
//
// INVARIANT: a row is written once, guarded, before anything of its tenant reaches another group than 1, and never changes: what
// is remembered can not go stale, and no replica of another group holds a tenant whose row is lost
// (TestTenantsHaveOneGroup).
type tenantTable struct {
	// known is read without a lock and replaced as a whole. The shards keep a tenant that is new from copying all others.
	known [tenantShards]atomic.Pointer[map[format.Tenant]*Node]

	mu      sync.Mutex
	placing map[format.Tenant]*placing
}

// tenantShards is a power of two; tenants are random but for a few.
const tenantShards = 64

// tenantsMost bounds the tenants that have a row. The rest of the rows that the system's tenant may have is for its other ones: switches, users,
// keys, disks of nodes, who drains. However many tenants come, they must not keep those out.
const tenantsMost = format.MaxAdminRows / 20 * 19

// placing is a look for a tenant's group that is under way: others wait for its end.
type placing struct {
	done chan struct{}
	node *Node
	err  error
	// gone says that err is its caller's end and nobody else's.
	gone bool
}

func (t *tenantTable) shard(tenant format.Tenant) *atomic.Pointer[map[format.Tenant]*Node] {
	return &t.known[tenant[len(tenant)-1]&(tenantShards-1)]
}

func (t *tenantTable) get(tenant format.Tenant) *Node {
	if m := t.shard(tenant).Load(); m != nil {
		return (*m)[tenant]
	}
	return nil
}

func (t *tenantTable) put(tenant format.Tenant, n *Node) {
	for at := t.shard(tenant); ; {
		old := at.Load()
		next := map[format.Tenant]*Node{tenant: n}
		if old != nil {
			for k, v := range *old {
				next[k] = v
			}
		}
		if at.CompareAndSwap(old, &next) {
			return
		}
	}
}

// memory finds a tenant's node without asking anybody; nil where neither this memory nor a row that is applied here tells.
func (r *Router) memory(t format.Tenant) (*Node, error) {
	if t == format.DefaultTenant || t == format.SystemTenant {
		return r.groups[0], nil // by rule: a single node had them before there was a table
	}
	if n := r.table.get(t); n != nil {
		return n, nil
	}
	row, ok := r.groups[0].AdminRow(format.SystemTenant, format.AdminTenant, t.String())
	if !ok {
		return nil, nil
	}
	g, ok := groupOfRow(row)
	n := r.Group(g)
	if !ok || n == nil {
		return nil, &Error{Code: CodeInternal, Message: "tenant " + t.String() + " is in a raft group that this node does not have: " +
			strconv.Itoa(int(g))}
	}
	r.table.put(t, n)
	return n, nil
}

func groupOfRow(row AdminRow) (format.RaftGroup, bool) {
	if len(row.Value) != 1 {
		return 0, false
	}
	return format.RaftGroup(row.Value[0]), true
}

// near is memory for calls that neither wait nor fail. A tenant of whom nothing is known here has nothing outside group 1 that this
// node was told of, so group 1 answers.
func (r *Router) near(t format.Tenant) *Node {
	if n, err := r.memory(t); n != nil && err == nil {
		return n
	}
	return r.groups[0]
}

// of finds a tenant's node. A tenant's first call on a node makes sure that no other node placed it, and places it if none did;
// it fails as writes of group 1 do.
func (r *Router) of(ctx context.Context, t format.Tenant) (*Node, error) {
	for {
		if n, err := r.memory(t); n != nil || err != nil {
			return n, err
		}
		r.table.mu.Lock()
		p := r.table.placing[t]
		if p == nil {
			p = &placing{done: make(chan struct{})}
			r.table.placing[t] = p
			r.table.mu.Unlock()
			p.node, p.err = r.place(ctx, t)
			p.gone = p.err != nil && ctx.Err() != nil
			r.table.mu.Lock()
			delete(r.table.placing, t)
			r.table.mu.Unlock()
			close(p.done)
			return p.node, p.err
		}
		r.table.mu.Unlock()
		select {
		case <-p.done:
		case <-ctx.Done():
			return nil, errContext(ctx, OutcomeNone)
		}
		if !p.gone {
			return p.node, p.err
		}
	}
}

// place finds the row of a tenant that memory does not know, or writes one.
func (r *Router) place(ctx context.Context, t format.Tenant) (*Node, error) {
	first := r.groups[0]
	if err := first.catchUp(ctx); err != nil {
		return nil, err
	}
	if n, err := r.memory(t); n != nil || err != nil {
		return n, err
	}
	g, err := r.choose(t)
	if err != nil {
		return nil, err
	}
	// Only while there is none: another node may choose at the same moment. Whoever was first is read back. A full disk does not keep the
	// row: the tenant may have been there before the table was, and acks and deletes make room.
	_, err = first.setAdmin(ctx, format.SystemTenant, &AdminChange{Kind: format.AdminTenant, Name: t.String(), Value: []byte{byte(g)},
		Guarded: true})
	if err != nil {
		return nil, errPlace(err)
	}
	n, err := r.memory(t)
	if n == nil && err == nil {
		err = &Error{Code: CodeInternal, Message: "the row of tenant " + t.String() + " was written and is not there"}
	}
	return n, err
}

// errPlace is the error of a call whose tenant could not be placed. Whether the row was written may not be known; of the call itself
// nothing was carried out.
func errPlace(err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	out := *e
	out.Outcome = OutcomeNone
	if out.Code == CodeTooLarge {
		out.Field = "tenant"
		out.Message = "there is no room for another tenant among the system's administrative rows: " + out.Limit
	}
	return &out
}

// choose picks the group of a tenant without a row: 1 if that has anything of it, which came before there were several groups, else
// the one with the fewest tenants of those that have begun. It reads the whole table, once in a tenant's life, and refuses a tenant too
// many; calls that come together are judged apart, so there may be some more.
func (r *Router) choose(t format.Tenant) (format.RaftGroup, error) {
	first := r.groups[0]
	if has, err := first.holds(t); has || err != nil {
		return 1, err
	}
	tenants, all := make([]int, len(r.groups)), 0
	for after := ""; ; {
		rows := first.AdminRows(format.SystemTenant, format.AdminTenant, after, 1000)
		all += len(rows)
		for i := range rows {
			if g, ok := groupOfRow(rows[i]); ok && r.Group(g) != nil {
				tenants[g-1]++
			}
			after = rows[i].Name
		}
		if len(rows) == 0 {
			break
		}
	}
	if all >= r.tenantsMost {
		return 0, &Error{Code: CodeTooLarge, Field: "tenant", Limit: strconv.Itoa(r.tenantsMost) + " tenants",
			Message: "a cluster of several raft groups has at most " + strconv.Itoa(r.tenantsMost) + " tenants", Cause: ErrStateLimit}
	}
	best := 0
	for i := range tenants {
		if tenants[i] < tenants[best] && first.GroupBorn(format.RaftGroup(i+1)) {
			best = i
		}
	}
	return format.RaftGroup(best + 1), nil
}

// holds reports whether the node has anything of a tenant that calls of it would look for. Declarations of ephemeral queues are no such
// thing: they stay in group 1 whatever group the tenant is in.
func (n *Node) holds(t format.Tenant) (bool, error) {
	n.state.RLock()
	found := len(n.state.m.Queues(t, false, 0, 1)) > 0 || len(n.state.m.Transactions(t, "", 1)) > 0
	for kind := format.AdminKind(1); !found && kind <= format.AdminTenant; kind++ {
		found = kind != format.AdminEphemeral && len(n.state.m.AdminRows(t, kind, "", 1)) > 0
	}
	view := n.keyed.view.Load().Snapshot()
	n.state.RUnlock()
	for _, family := range []keyed.Family{keyed.FamilyKV, keyed.FamilyTimer, keyed.FamilyIdempotency} {
		if found {
			break
		}
		err := view.ScanPrefix(append([]byte{byte(family)}, t[:]...), nil, 1, func(_, _ []byte) bool {
			found = true
			return false
		})
		if err != nil {
			return false, errRead(err)
		}
	}
	return found, nil
}

// bornName begins the names of the rows that say which groups have their Genesis.
const bornName = "born-"

// GroupBorn reports whether a raft group has its Genesis, as far as this node of group 1 has applied. Group 1 has.
func (n *Node) GroupBorn(g format.RaftGroup) bool {
	if g == 1 {
		return true
	}
	_, ok := n.AdminRow(format.SystemTenant, format.AdminNode, bornName+strconv.Itoa(int(g)))
	return ok
}

// NoteGroup notes, on a node of group 1, that a raft group has its Genesis: tenants are placed into it from then on, and a log of it that
// is empty was not always so. A full disk does not keep it: the node does not open before.
func (n *Node) NoteGroup(ctx context.Context, g format.RaftGroup) error {
	if n.GroupBorn(g) {
		return nil
	}
	_, err := n.setAdmin(ctx, format.SystemTenant, &AdminChange{Kind: format.AdminNode, Name: bornName + strconv.Itoa(int(g)), Value: []byte{1},
		Guarded: true})
	return err
}
