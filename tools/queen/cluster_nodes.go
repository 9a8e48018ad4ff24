package main

import (
	"context"
	"fmt"

	"queen/engine/format"
	"queen/replication"
	"queen/tools/cli"
)

// nodeRow is what one node says of one raft group.
type nodeRow struct {
	Node     uint64 `json:"node"`
	Group    uint64 `json:"group"`
	Address  string `json:"address"`
	Role     string `json:"role"`
	Leader   uint64 `json:"leader,omitempty"`
	Term     uint64 `json:"term,omitempty"`
	Applied  uint64 `json:"applied,omitempty"`
	Behind   uint64 `json:"behind"`
	Mark     uint64 `json:"mark,omitempty"`
	Version  string `json:"version,omitempty"`
	UpToDate bool   `json:"upToDate"`
	Draining bool   `json:"draining"`
	Error    string `json:"error,omitempty"`
}

var nodeColumns = []cli.Column[nodeRow]{
	{Head: "node", Cell: func(r nodeRow) string { return fmt.Sprint(r.Node) }, Key: true},
	{Head: "group", Cell: func(r nodeRow) string { return fmt.Sprint(r.Group) }, Help: "raft group; there is one unless peer.groups says otherwise"},
	{Head: "address", Cell: func(r nodeRow) string { return r.Address }},
	{Head: "role", Cell: func(r nodeRow) string { return r.Role }},
	{Head: "term", Cell: func(r nodeRow) string { return fmt.Sprint(r.Term) }},
	{Head: "applied", Cell: func(r nodeRow) string { return fmt.Sprint(r.Applied) }},
	{Head: "behind", Cell: func(r nodeRow) string { return fmt.Sprint(r.Behind) }, Help: "entries that another node had applied and it had not"},
	{Head: "up to date", Cell: func(r nodeRow) string { return fmt.Sprint(r.UpToDate) }, Tone: func(r nodeRow) cli.Tone {
		if r.UpToDate {
			return cli.Good
		}
		return cli.Bad
	}, Help: "it had applied what was confirmed when it was asked"},
	{Head: "draining", Cell: func(r nodeRow) string { return fmt.Sprint(r.Draining) }, Help: "an operator has it drain"},
	{Head: "error", Cell: func(r nodeRow) string { return r.Error }},
}

// nodes asks all and says whether all is well.
func (f *clusterFlags) nodes(ctx context.Context) (rows []nodeRow, fine bool, err error) {
	c, err := f.client()
	if err != nil {
		return nil, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	rows, fine = rowsOf(c.Status(ctx), c.Peers)
	return rows, fine, nil
}

// rowsOf are the lines of what nodes said. All is well when each is up to date in each raft group, and each group has one leader.
func rowsOf(answers []replication.Answer, peers map[format.Replica]string) (rows []nodeRow, fine bool) {
	newest, leaders := map[format.RaftGroup]uint64{}, map[format.RaftGroup]int{}
	for i := range answers {
		a := &answers[i]
		newest[a.Group] = max(newest[a.Group], a.Report.Applied)
		leaders[a.Group] = 0
	}
	fine = true
	for i := range answers {
		a := &answers[i]
		r := nodeRow{Node: uint64(a.Node), Group: uint64(a.Group), Address: peers[a.Node], Role: "unknown"}
		if a.Err != nil {
			r.Error = a.Err.Error()
		} else {
			v := &a.Report
			r.Role, r.Leader, r.Term, r.Applied, r.Mark = "follower", v.Leader, v.Epoch, v.Applied, v.Mark
			r.Behind, r.UpToDate, r.Version = newest[a.Group]-v.Applied, v.Flags&replication.ReportSure != 0, v.Release()
			r.Draining = v.Flags&replication.ReportDrains != 0
			switch {
			case v.Flags&replication.ReportLeads != 0:
				r.Role = "leader"
				leaders[a.Group]++
			case v.Leader == 0:
				r.Role = "candidate"
			}
			if v.Flags&replication.ReportOpening != 0 {
				r.UpToDate, r.Error = false, "it is not in all of its raft groups yet"
			}
		}
		fine = fine && r.UpToDate
		rows = append(rows, r)
	}
	for _, n := range leaders {
		fine = fine && n == 1
	}
	return rows, fine && len(rows) > 0
}

// byNode makes one row of those of each node: up to date is who is so in all raft groups, and who leads one is a leader.
func byNode(rows []nodeRow) []nodeRow {
	var all []nodeRow
	for _, r := range rows {
		if n := len(all); n == 0 || all[n-1].Node != r.Node {
			all = append(all, r)
			continue
		}
		one := &all[len(all)-1]
		one.UpToDate = one.UpToDate && r.UpToDate
		if r.Role == "leader" {
			one.Role = r.Role
		}
		if one.Error == "" {
			one.Error = r.Error
		}
	}
	return all
}
