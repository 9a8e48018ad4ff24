package frontendmcp

import (
	"queen/engine"
	"queen/engine/diagnosis"
)

type noArgs struct{}

// clusterStatus answers cluster_status.
type clusterStatus struct {
	Meta
	ClusterID string       `json:"cluster_id,omitempty" jsonschema:"of the data, for ever; also of a single node"`
	Version   string       `json:"version" jsonschema:"of the node that answers"`
	Leader    *string      `json:"leader" jsonschema:"id of the node that leads; null when nobody does"`
	QuorumOK  bool         `json:"quorum_ok" jsonschema:"a majority answers"`
	Probe     writeProbe   `json:"write_probe"`
	Role      string       `json:"role" jsonschema:"of the node that answers: leader, follower, candidate or stopped"`
	Ready     bool         `json:"ready"`
	CanWrite  bool         `json:"can_write"`
	Why       string       `json:"why,omitempty" jsonschema:"why it is not ready or can not write; else that it drains"`
	Groups    []raftGroup  `json:"groups" jsonschema:"raft groups as the node that answers sees them; what nodes tell is of the first"`
	Nodes     []nodeStatus `json:"nodes"`
	Totals    totals       `json:"totals"`
	Alarms    []alarm      `json:"alarms"`
}

// writeProbe is how writes of the node that answers fare. A tool that reads writes nothing to find out: it tells of the newest
// write that there was anyway.
type writeProbe struct {
	OK bool     `json:"ok" jsonschema:"the node takes writes, and a majority answers"`
	MS *float64 `json:"ms" jsonschema:"what the newest write of this node took until it was applied; null before the first"`
	At *string  `json:"at" jsonschema:"when that was"`
}

func probeOf(st *engine.Status, s *engine.Stats) (p writeProbe) {
	p.OK = st.CanWrite
	if p.At = maybeTime(s.LastCommitAt); p.At != nil {
		ms := float64(s.LastCommitMicros) / 1000
		p.MS = &ms
	}
	return p
}

// raftGroup is a raft group as the node that answers sees it.
type raftGroup struct {
	Group    int     `json:"group"`
	Role     string  `json:"role" jsonschema:"of the node that answers, in this group"`
	Leader   *string `json:"leader" jsonschema:"id of the node that leads it; null when nobody does"`
	Term     string  `json:"term"`
	Applied  string  `json:"applied"`
	Commit   string  `json:"commit" jsonschema:"newest entry that the node knows to be committed"`
	Quorum   bool    `json:"quorum" jsonschema:"a majority answers"`
	CanWrite bool    `json:"can_write" jsonschema:"a write of a tenant of the group would commit"`
	Why      string  `json:"why,omitempty" jsonschema:"why it would not"`
}

// nodeStatus is one node. What a node does not tell the others is null for these.
type nodeStatus struct {
	ID          string   `json:"id"`
	Address     string   `json:"address,omitempty" jsonschema:"for other nodes"`
	Role        string   `json:"role"`
	Votes       bool     `json:"votes"`
	Draining    bool     `json:"draining" jsonschema:"an operator has it drain: it leads only while no other voter can"`
	Leads       []int    `json:"leads_groups" jsonschema:"raft groups that it leads, as the node that answers hears"`
	Live        bool     `json:"live" jsonschema:"it answered a moment ago; what follows is empty when it did not"`
	Term        string   `json:"term"`
	Applied     string   `json:"applied"`
	Commit      *string  `json:"commit" jsonschema:"newest entry that it knows to be committed"`
	Durable     *string  `json:"durable"`
	LagEntries  *uint64  `json:"lag_entries" jsonschema:"entries that it is behind the furthest node"`
	LagMS       *int64   `json:"lag_ms" jsonschema:"for how long it has been behind, to a second or two"`
	Version     *string  `json:"version"`
	Frontends   []string `json:"frontends"`
	DiskUsedPct *float64 `json:"disk_used_pct"`
	IOMode      *string  `json:"io_mode"`
	Parked      *int64   `json:"parked_pops"`
}

type totals struct {
	Queues      uint64  `json:"queues"`
	Partitions  uint64  `json:"partitions"`
	Messages    uint64  `json:"messages"`
	Pending     uint64  `json:"pending"`
	Processing  uint64  `json:"processing"`
	DeadLetters uint64  `json:"dead_letters"`
	PushedPerS  float64 `json:"pushed_per_s"`
	DeliverPerS float64 `json:"delivered_per_s"`
	CountedAt   *string `json:"counted_at" jsonschema:"when messages were counted; null before the first time"`
}

type alarm struct {
	Code     string `json:"code"`
	Severity string `json:"severity"`
	Node     string `json:"node"`
	Hint     string `json:"hint"`
}

func clusterTools() []*tool {
	return []*tool{
		row(tool{name: "cluster_status", title: "Cluster status", toolset: "cluster",
			text: "Health of the node that answers: role, whether it can write and why not, raft groups, disk, totals, alarms; and what it knows of " +
				"the other nodes."}, status),
		row(tool{name: "diagnose", title: "Diagnose", toolset: "cluster",
			text: "Runs a fixed checklist and names causes: who is stuck and why, what keeps the node from writing. Start here for a backlog."}, diagnose),
	}
}

func status(c *call, _ noArgs) (out clusterStatus, err error) {
	out.Meta = c.meta()
	st, err := c.engine.Status(c.ctx)
	if err != nil {
		return out, err
	}
	o, err := c.engine.Inspect().Overview(c.ctx, c.caller)
	if err != nil {
		return out, err
	}
	s := c.engine.Inspect().Stats()
	out.Version, out.Role, out.Ready, out.CanWrite, out.Why = c.f.opts.Version, st.Role, st.Ready, st.CanWrite, st.Why
	out.QuorumOK, out.Probe = st.Quorum, probeOf(&st, &s)
	if !st.Cluster.IsZero() {
		out.ClusterID = st.Cluster.String()
	}
	out.Nodes = c.nodes(&st, &s)
	for i := range out.Nodes {
		if out.Nodes[i].Role == "leader" && out.Nodes[i].Live {
			out.Leader = &out.Nodes[i].ID
		}
	}
	out.Groups = c.raftGroups(&st, out.Nodes)
	out.Totals = totals{Queues: o.Queues, Partitions: o.Partitions, Messages: o.Total, Pending: o.Pending, Processing: o.Processing,
		DeadLetters: o.DeadLetters, PushedPerS: o.PushedPerSecond, DeliverPerS: o.DeliveredPerSecond, CountedAt: maybeTime(o.SweptAt)}
	out.Alarms = []alarm{}
	for _, a := range diagnosis.Alarms(&st, &s) {
		out.Alarms = append(out.Alarms, alarm{Code: a.Code, Severity: a.Severity, Node: c.f.opts.Node, Hint: a.Hint})
	}
	return out, nil
}

// raftGroups are the raft groups, of which it tells nodes which ones they lead.
func (c *call) raftGroups(st *engine.Status, nodes []nodeStatus) []raftGroup {
	all := st.RaftGroups()
	out := make([]raftGroup, len(all))
	for i := range all {
		g := &all[i]
		out[i] = raftGroup{Group: int(g.Group), Role: g.Role, Term: digits(uint64(g.Term)), Applied: digits(uint64(g.Applied)),
			Commit: digits(uint64(g.Commit)), Quorum: g.Quorum, CanWrite: g.CanWrite, Why: g.Why}
		leader := digits(uint64(g.Leader))
		switch {
		case g.Leader != 0:
		case st.Node == 0 && g.Role == "leader": // of a single node, which has no number
			leader = c.f.opts.Node
		default:
			continue
		}
		out[i].Leader = &leader
		for k := range nodes {
			if nodes[k].ID == leader {
				nodes[k].Leads = append(nodes[k].Leads, out[i].Group)
			}
		}
	}
	return out
}

// nodes are the node that answers and, in a cluster, what it knows of the others.
func (c *call) nodes(st *engine.Status, s *engine.Stats) []nodeStatus {
	durable, commit := digits(uint64(st.Durable)), digits(uint64(st.Commit))
	own := nodeStatus{ID: c.f.opts.Node, Role: st.Role, Votes: true, Leads: []int{}, Live: true, Term: digits(uint64(st.Term)),
		Applied: digits(uint64(st.Applied)), Commit: &commit, Durable: &durable, LagEntries: new(uint64), LagMS: new(int64),
		Version: &c.f.opts.Version, Frontends: c.f.opts.Frontends, DiskUsedPct: diagnosis.DiskUsed(s), IOMode: &st.IOMode, Parked: &s.Parked}
	m, ok := engine.MembershipOf(c.engine)
	if !ok {
		return []nodeStatus{own}
	}
	members := m.Members()
	furthest := st.Applied
	for i := range members {
		furthest = max(furthest, members[i].Applied)
	}
	out := make([]nodeStatus, 0, len(members))
	for i := range members {
		x := &members[i]
		n := nodeStatus{ID: digits(uint64(x.Node)), Role: "follower", Leads: []int{}, Live: x.Heard, Term: digits(uint64(x.Term)), Applied: digits(uint64(x.Applied))}
		switch {
		case x.Node == st.Node:
			n = own
			n.ID = digits(uint64(x.Node))
			*n.LagEntries, *n.LagMS = uint64(furthest-min(st.Applied, furthest)), x.Behind.Milliseconds()
		case !x.Heard:
			n.Role, n.Term, n.Applied = "unknown", "", ""
		default:
			if x.Leads {
				n.Role = "leader"
			}
			lag := uint64(furthest - min(x.Applied, furthest))
			late, commit := x.Behind.Milliseconds(), digits(uint64(x.Commit))
			n.LagEntries, n.LagMS, n.Commit = &lag, &late, &commit
			if x.Version != "" {
				n.Version = &x.Version
			}
		}
		n.Address, n.Votes, n.Draining = x.Address, x.Votes, x.Draining
		out = append(out, n)
	}
	return out
}
