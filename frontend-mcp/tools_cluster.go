package frontendmcp

import (
	"queen/engine/diagnosis"
)

type noArgs struct{}

// clusterStatus answers cluster_status.
type clusterStatus struct {
	Meta
	Version  string       `json:"version"`
	Role     string       `json:"role" jsonschema:"of the node that answers: leader, follower, candidate or stopped"`
	Ready    bool         `json:"ready"`
	CanWrite bool         `json:"can_write"`
	Why      string       `json:"why,omitempty" jsonschema:"why it is not ready or can not write"`
	Nodes    []nodeStatus `json:"nodes"`
	Totals   totals       `json:"totals"`
	Alarms   []alarm      `json:"alarms"`
}

type nodeStatus struct {
	ID          string   `json:"id"`
	Role        string   `json:"role"`
	Term        string   `json:"term"`
	Applied     string   `json:"applied"`
	Durable     string   `json:"durable"`
	DiskUsedPct *float64 `json:"disk_used_pct"`
	IOMode      string   `json:"io_mode,omitempty"`
	Parked      int64    `json:"parked_pops"`
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
	Hint     string `json:"hint"`
}

func clusterTools() []*tool {
	return []*tool{
		row(tool{name: "cluster_status", title: "Cluster status", toolset: "cluster",
			text: "Health of the node that answers: role, whether it can write and why not, disk, totals, alarms."}, status),
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
	out.Nodes = []nodeStatus{{ID: c.f.opts.Node, Role: st.Role, Term: digits(uint64(st.Term)), Applied: digits(uint64(st.Applied)),
		Durable: digits(uint64(st.Durable)), DiskUsedPct: diagnosis.DiskUsed(&s), IOMode: st.IOMode, Parked: s.Parked}}
	out.Totals = totals{Queues: o.Queues, Partitions: o.Partitions, Messages: o.Total, Pending: o.Pending, Processing: o.Processing,
		DeadLetters: o.DeadLetters, PushedPerS: o.PushedPerSecond, DeliverPerS: o.DeliveredPerSecond, CountedAt: maybeTime(o.SweptAt)}
	out.Alarms = []alarm{}
	for _, a := range diagnosis.Alarms(&st, &s) {
		out.Alarms = append(out.Alarms, alarm(a))
	}
	return out, nil
}
