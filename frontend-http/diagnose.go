package frontendhttp

import (
	"cmp"
	"errors"
	"slices"
	"strconv"

	"queen/engine"
	"queen/engine/diagnosis"
	"queen/engine/format"
)

func diagnosisRoutes() []*route {
	which := []param{{Name: "queue", Type: "string"}, {Name: "group", Type: "string"}}
	return []*route{
		{Method: "GET", Path: "/api/v1/diagnose", Access: readOnly, Mark: additional,
			Summary: "Go through a fixed checklist and name causes with evidence and a next step, worst first.",
			Query: append([]param{{Name: "symptom", Type: "string",
				About: "backlog, not_delivered, duplicates, slow, node_down, disk or kafka; default every check."}}, which...),
			Response: "Diagnosis", Status: 200, Handle: diagnose},
		{Method: "GET", Path: "/api/v1/lag", Access: readOnly, Mark: additional,
			Summary:  "List partitions that consumer groups are behind on, each with the reason, and sums by group; worst first.",
			Query:    append([]param{{Name: "limit", Type: "integer", About: "Default 100, at most 1000."}}, which...),
			Response: "LagList", Status: 200, Handle: lagList},
		{Method: "GET", Path: "/api/v1/raft/members", Access: readOnly, Mark: operator,
			Summary:  "List the members of the cluster as this node knows them, none on a single node, and its raft groups.",
			Response: "Members", Status: 200, Handle: raftMembers},
	}
}

// maxFindings bounds the findings of one answer.
const maxFindings = 1000

// diagnose answers GET /api/v1/diagnose.
func diagnose(c *call) error {
	q := c.query()
	in := diagnosis.Request{Symptom: q.text("symptom"), Queue: q.text("queue"), Group: q.text("group")}
	if q.err != nil {
		return q.err
	}
	ctx, cancel := c.deadline(readDeadline)
	defer cancel()
	now := c.f.now()
	r, err := diagnosis.Run(ctx, c.engine, c.caller, now, in)
	if errors.Is(err, diagnosis.ErrSymptom) {
		return badRequest(err.Error())
	}
	if err != nil {
		return err
	}
	o := out{c.buffer()}
	o.open('{')
	o.time("asOf", now)
	o.key("node").diagnosed(&r)
	o.key("findings").open('[')
	for i := range r.Findings[:min(len(r.Findings), maxFindings)] {
		o.finding(&r.Findings[i])
	}
	o.close(']').key("checks").open('[')
	for _, k := range r.Checks {
		o.open('{')
		o.str("name", k.Name)
		o.str("outcome", k.Outcome)
		o.close('}')
	}
	o.close(']')
	o.bool("truncated", len(r.Findings) > maxFindings)
	o.close('}')
	c.send(200, o.b)
	return nil
}

// diagnosed tells of the node that looked.
func (o *out) diagnosed(r *diagnosis.Report) {
	s := &r.Status
	o.open('{')
	o.str("role", s.Role)
	o.replica("node", s.Node)
	o.replica("leader", s.Leader)
	o.bool("ready", s.Ready)
	o.bool("canWrite", s.CanWrite)
	o.bool("quorum", s.Quorum)
	o.strOrNull("why", s.Why)
	o.count("term", uint64(s.Term))
	o.count("applied", uint64(s.Applied))
	o.count("durable", uint64(s.Durable))
	if used := diagnosis.DiskUsed(&r.Stats); used != nil {
		o.float("diskUsedPercent", *used)
	} else {
		o.null("diskUsedPercent")
	}
	o.bool("storageFull", s.StorageFull)
	o.strOrNull("clockStep", s.ClockStep)
	o.strOrNull("ioMode", s.IOMode)
	o.close('}')
}

// raftMembers answers GET /api/v1/raft/members. What a member that did not answer lately would say is null. What members say is of
// raft group 1; which groups they lead is what this node hears.
func raftMembers(c *call) error {
	ctx, cancel := c.deadline(readDeadline)
	defer cancel()
	s, err := c.engine.Status(ctx)
	if err != nil {
		return err
	}
	var all []engine.Member
	if m, ok := engine.MembershipOf(c.engine); ok {
		all = m.Members()
	}
	var furthest format.Index
	for i := range all {
		furthest = max(furthest, all[i].Applied)
	}
	o := out{c.buffer()}
	o.open('{')
	o.replica("node", s.Node)
	o.replica("leader", s.Leader)
	o.bool("quorum", s.Quorum)
	groups := s.RaftGroups()
	o.raftGroups(groups)
	o.key("members").open('[')
	for i := range all {
		o.member(&all[i], furthest, groups)
	}
	o.close(']').close('}')
	c.send(200, o.b)
	return nil
}

func (o *out) member(m *engine.Member, furthest format.Index, groups []engine.GroupStatus) {
	o.open('{')
	o.count("node", uint64(m.Node))
	o.str("address", m.Address)
	o.bool("votes", m.Votes)
	o.bool("heard", m.Heard)
	o.bool("draining", m.Draining)
	o.key("leadsGroups").open('[')
	for i := range groups {
		if groups[i].Leader == m.Node {
			o.comma()
			o.b = strconv.AppendUint(o.b, uint64(groups[i].Group), 10)
		}
	}
	o.close(']')
	if !m.Heard {
		for _, unknown := range []string{"leads", "term", "applied", "last", "behind", "mark"} {
			o.null(unknown)
		}
	} else {
		o.bool("leads", m.Leads)
		o.count("term", uint64(m.Term))
		o.count("applied", uint64(m.Applied))
		o.count("last", uint64(m.Last))
		o.count("behind", uint64(furthest-m.Applied))
		o.count("mark", m.Mark)
	}
	o.close('}')
}

// replica is a number of a cluster's; null on a single node, and where nobody leads.
func (o *out) replica(k string, r format.Replica) {
	if r == 0 {
		o.null(k)
		return
	}
	o.count(k, uint64(r))
}

func (o *out) finding(f *diagnosis.Finding) {
	o.open('{')
	o.str("cause", f.Cause)
	o.str("severity", f.Severity)
	o.str("title", f.Title)
	o.strOrNull("queue", f.Queue)
	o.strOrNull("group", f.Group)
	o.strOrNull("partition", f.Partition)
	o.strOrNull("worker", f.Worker)
	o.num("partitions", int64(f.Partitions))
	o.count("lag", f.Lag)
	o.key("evidence").open('[')
	for _, e := range f.Evidence {
		o.text(e)
	}
	o.close(']')
	o.str("nextStep", f.NextStep)
	o.close('}')
}

// groupLag sums up what a consumer group is behind on.
type groupLag struct {
	queue, group string
	lag          uint64
	partitions   int
	oldest       format.Wall
}

// sumLag sums rows by consumer group and queue, the worst first.
func sumLag(rows []diagnosis.Behind) (sums []*groupLag) {
	at := map[[2]string]*groupLag{}
	for i := range rows {
		r := &rows[i]
		k := [2]string{r.Queue, r.Group}
		g := at[k]
		if g == nil {
			g = &groupLag{queue: r.Queue, group: r.Group}
			at[k], sums = g, append(sums, g)
		}
		g.lag += r.Lag
		g.partitions++
		if r.OldestAt != 0 && (g.oldest == 0 || r.OldestAt < g.oldest) {
			g.oldest = r.OldestAt
		}
	}
	slices.SortStableFunc(sums, func(a, b *groupLag) int { return cmp.Compare(b.lag, a.lag) })
	return sums
}

// lagList answers GET /api/v1/lag.
func lagList(c *call) error {
	q := c.query()
	queue, group, limit := q.text("queue"), q.text("group"), int(q.within("limit", 100, 1, topRows))
	if q.err != nil {
		return q.err
	}
	ctx, cancel := c.deadline(readDeadline)
	defer cancel()
	s, err := diagnosis.Look(ctx, c.engine, c.caller, c.f.now(), queue, group)
	if err != nil {
		return err
	}
	if group != "" && len(s.Groups) == 0 {
		return &engine.Error{Code: engine.CodeUnknownGroup}
	}
	rows := s.Worst()
	o := out{c.buffer()}
	o.open('{')
	o.time("asOf", s.Now)
	o.key("rows").open('[')
	for i := range rows[:min(limit, len(rows))] {
		r := &rows[i]
		o.open('{')
		o.str("queue", r.Queue)
		o.str("group", r.Group)
		o.str("partition", r.Partition)
		o.id("partitionId", uint64(r.PartitionID))
		o.count("lag", r.Lag)
		o.count("leased", r.Processing)
		o.time("oldestAt", r.OldestAt)
		o.num("ageSeconds", age(s.Now, r.OldestAt))
		o.strOrNull("worker", r.Worker)
		o.time("leasedAt", r.LeasedAt)
		o.time("leaseExpiresAt", r.LeaseExpires)
		o.count("attempts", uint64(r.Attempts))
		o.count("retries", uint64(r.Retries))
		o.str("reason", r.Reason)
		o.close('}')
	}
	o.close(']').key("groups").open('[')
	for _, g := range sumLag(rows) {
		o.open('{')
		o.str("queue", g.queue)
		o.str("group", g.group)
		o.count("lag", g.lag)
		o.num("partitions", int64(g.partitions))
		o.num("ageSeconds", age(s.Now, g.oldest))
		o.close('}')
	}
	o.close(']')
	o.bool("truncated", len(rows) > limit)
	o.close('}')
	c.send(200, o.b)
	return nil
}
