package frontendmcp

import (
	"slices"

	"queen/engine"
	"queen/engine/format"
)

type drainArgs struct {
	Node string `json:"node" jsonschema:"id of a node of cluster_status"`
	Undo bool   `json:"undo,omitempty" jsonschema:"end it instead"`
	Confirming
}

type drainResult struct {
	Planned
	Before bool `json:"before" jsonschema:"it drained"`
	After  bool `json:"after" jsonschema:"it drains"`
	Leads  bool `json:"leads" jsonschema:"it leads: a node that drains does so only while no other voter can"`
}

func nodeDrain(c *call, in drainArgs) (out drainResult, err error) {
	m, ok := engine.MembershipOf(c.engine)
	if !ok {
		return out, &toolError{Code: "not_a_cluster", Message: "this is a single node: there is no other one to take its place"}
	}
	members := m.Members()
	node, ok := number(in.Node)
	i := slices.IndexFunc(members, func(x engine.Member) bool { return ok && uint64(x.Node) == node })
	if i < 0 {
		return out, badArgument("node", "node is the id of no node of this cluster: see cluster_status")
	}
	out.Before, out.After, out.Leads = members[i].Draining, members[i].Draining, members[i].Leads
	plan := Plan{Action: "drain a node", Target: map[string]string{"node": in.Node}, Counts: map[string]uint64{}, Reversible: true, Effects: []string{
		"It is not ready any more, so that whoever balances calls sends it none, and gives the lead away if it has it. It serves what reaches it.",
		"It holds over restarts, until it is undone."}}
	if in.Undo {
		plan.Action, plan.Effects = "end that a node drains", []string{"It is ready again and may lead."}
	}
	asked, err := c.confirm(in.Confirming, []any{in.Node, in.Undo}, in.Node, plan)
	if err != nil || asked != nil {
		out.Planned = orNone(asked)
		return out, err
	}
	if out.Leads, err = m.Drain(c.ctx, format.Replica(node), !in.Undo); err != nil {
		return out, err
	}
	out.Planned, out.After = c.done(), !in.Undo
	return out, nil
}
