package frontendmcp

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"queen/engine"
	"queen/engine/format"
)

type purgeArgs struct {
	Queue     string `json:"queue"`
	Partition string `json:"partition"`
	Confirming
}

type purgeResult struct {
	Planned
	Start string `json:"start,omitempty" jsonschema:"first offset that is there now"`
}

func partitionPurge(c *call, in purgeArgs) (out purgeResult, err error) {
	p, err := c.engine.Catalog().Partition(c.ctx, c.caller, in.Queue, in.Partition)
	if err != nil {
		return out, err
	}
	counts := map[string]uint64{"messages": uint64(p.End - p.Start)}
	asked, err := c.confirm(in.Confirming, []string{in.Queue, in.Partition}, in.Partition, Plan{Action: "purge a partition",
		Target: map[string]string{"queue": in.Queue, "partition": in.Partition}, Counts: counts,
		Effects: []string{"No consumer group gets these messages any more, whether it has had them or not."}})
	if err != nil || asked != nil {
		out.Planned = orNone(asked)
		return out, err
	}
	// Up to what was counted: what has come since is nobody's plan.
	res, err := c.engine.Records().DeleteRecords(c.ctx, c.caller, []engine.FetchAt{{Queue: in.Queue, Partition: in.Partition, Offset: p.End}})
	if err == nil && res[0].Err != nil {
		err = res[0].Err
	}
	if err != nil {
		return out, err
	}
	out.Planned, out.Start = c.doneWith(counts), digits(uint64(res[0].Offset))
	return out, nil
}

type transferArgs struct {
	To    string `json:"to" jsonschema:"id of a node of cluster_status that votes"`
	Group int    `json:"group,omitempty" jsonschema:"raft group of cluster_status; without it all of them, and before and after are of the first"`
	Confirming
}

type transferResult struct {
	Planned
	Before *string `json:"before" jsonschema:"id of the node that led; null when nobody did"`
	After  *string `json:"after"`
}

func leaderTransfer(c *call, in transferArgs) (out transferResult, err error) {
	m, ok := engine.MembershipOf(c.engine)
	if !ok {
		return out, &toolError{Code: "not_a_cluster", Message: "this is a single node: nobody else can lead"}
	}
	members := m.Members()
	to, ok := number(in.To)
	i := slices.IndexFunc(members, func(x engine.Member) bool { return ok && uint64(x.Node) == to })
	switch {
	case i < 0:
		return out, badArgument("to", "to is the id of no node of this cluster: see cluster_status")
	case !members[i].Votes || !members[i].Heard:
		return out, badArgument("to", "that node does not vote, or has not answered a moment ago")
	case members[i].Draining:
		return out, badArgument("to", "that node drains: it would give the lead away again; node_drain with undo ends that")
	}
	if out.Before, err = c.leader(in.Group); err != nil {
		return out, err
	}
	target := map[string]string{"node": in.To}
	if in.Group != 0 {
		target["group"] = strconv.Itoa(in.Group)
	}
	asked, err := c.confirm(in.Confirming, []any{in.To, in.Group}, in.To, Plan{Action: "hand over the lead", Target: target, Counts: map[string]uint64{},
		Reversible: true, Effects: []string{"Calls wait while the lead changes hands, about as long as an election takes."}})
	if err != nil || asked != nil {
		out.Planned = orNone(asked)
		return out, err
	}
	if err := m.MakeLead(c.ctx, format.RaftGroup(in.Group), format.Replica(to)); err != nil {
		e := &toolError{Code: string(engine.CodeNoLeader), Message: "the node did not take the lead", Retryable: true, RetryAfterMs: 1000,
			Hint: "look at cluster_status: it may be behind, or nobody leads"}
		if !errors.Is(err, engine.ErrNotLeader) {
			e.Outcome = outcomeNames[engine.OutcomeUnknown]
		}
		return out, e
	}
	out.Planned = c.done()
	out.After, err = c.leader(in.Group)
	return out, err
}

// leader is the id of the node that leads a raft group, the first one for 0, as far as this one knows.
func (c *call) leader(group int) (*string, error) {
	st, err := c.engine.Status(c.ctx)
	if err != nil {
		return nil, err
	}
	groups := st.RaftGroups()
	if group < 0 || group > len(groups) {
		return nil, badArgument("group", fmt.Sprintf("group is from 1 to %d: the cluster has %d raft groups", len(groups), len(groups)))
	}
	leader := groups[max(group, 1)-1].Leader
	if leader == 0 {
		return nil, nil
	}
	id := digits(uint64(leader))
	return &id, nil
}
