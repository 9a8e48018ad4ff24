package frontendmcp

import (
	"slices"

	"queen/engine"
	"queen/engine/diagnosis"
	"queen/engine/format"
)

type groupRow struct {
	Queue             string   `json:"queue"`
	Group             string   `json:"group"`
	State             string   `json:"state" jsonschema:"active (holds leases), idle (nothing to do), stalled (lag, no lease), never_started (took nothing yet)"`
	Mode              string   `json:"mode" jsonschema:"where it began: new, all or a time"`
	Conflates         bool     `json:"conflates,omitempty"`
	Lag               uint64   `json:"lag_sum"`
	LagMax            *uint64  `json:"lag_max" jsonschema:"of one partition; null where no queue is named"`
	PartitionsWithLag uint64   `json:"partitions_with_lag"`
	Blocked           *uint64  `json:"blocked_partitions" jsonschema:"of those furthest behind, the ones with lease_held or poison; null where no queue is named"`
	OldestAgeS        *float64 `json:"oldest_unacked_age_s"`
	Leased            uint64   `json:"leased" jsonschema:"live leases"`

	KafkaMembers []kafkaMember `json:"kafka_members,omitempty" jsonschema:"members by Kafka's protocol, which hold partitions instead of leases"`

	Cursors      uint64  `json:"cursors"`
	RegisteredAt *string `json:"registered_at"`
	CountedAt    *string `json:"counted_at"`
}

// kafkaMember is a member of a consumer group that came by Kafka's protocol.
type kafkaMember struct {
	ID         string   `json:"id"`
	Instance   string   `json:"instance,omitempty"`
	Client     string   `json:"client"`
	Host       string   `json:"host"`
	Protocol   string   `json:"protocol" jsonschema:"classic or consumer"`
	Partitions []string `json:"partitions"`
}

// groupRowOf describes a group; s is what was seen of its queue, nil for nothing.
func (c *call) groupRowOf(g *engine.GroupInfo, s *diagnosis.Sight) groupRow {
	r := groupRow{Queue: g.Queue, Group: g.Name, Mode: startText(g.Start), Conflates: g.Conflate, Lag: g.Lag,
		PartitionsWithLag: g.PartitionsWithLag, OldestAgeS: c.ageSeconds(g.OldestLagAt), Leased: g.Leases, Cursors: g.Cursors,
		RegisteredAt: maybeTime(g.RegisteredAt), CountedAt: maybeTime(g.SweptAt)}
	for i := range g.Members {
		m := &g.Members[i]
		r.KafkaMembers = append(r.KafkaMembers, kafkaMember{m.ID, m.Instance, m.Client, m.Host, m.Protocol, m.Partitions})
	}
	switch {
	case g.Leases > 0 || len(g.Members) > 0:
		r.State = "active"
	case !g.Consumed:
		r.State = "never_started"
	case g.Lag > 0:
		r.State = "stalled"
	default:
		r.State = "idle"
	}
	if s == nil {
		return r
	}
	r.LagMax, r.Blocked = new(uint64), new(uint64)
	for i := range s.Rows {
		b := &s.Rows[i]
		if b.Queue != g.Queue || b.Group != g.Name {
			continue
		}
		*r.LagMax = max(*r.LagMax, b.Lag)
		if b.Reason == diagnosis.ReasonLeaseHeld || b.Reason == diagnosis.ReasonPoison {
			*r.Blocked++
		}
	}
	return r
}

func startText(s engine.Start) string {
	switch s.Kind {
	case format.StartAll:
		return "all"
	case format.StartFrom:
		return timeText(s.From)
	}
	return "new"
}

func groupTools() []*tool {
	return []*tool{
		row(tool{name: "group_list", title: "List consumer groups", toolset: "groups",
			text: "Consumer groups: state, lag, age of what is not acknowledged."}, groupListing),
		row(tool{name: "group_describe", title: "Describe a consumer group", toolset: "groups",
			text: "One consumer group on a queue: state, lag, live leases, the partitions it is furthest behind on."}, groupDescribe),
		row(tool{name: "lag_top", title: "Who is stuck", toolset: "groups",
			text: "Partitions that consumer groups are furthest behind on, each with the reason."}, lagTop),
	}
}

// groups are the consumer groups of a queue and of a name, each "" for all.
func (c *call) groups(queue, group string) ([]engine.GroupInfo, error) {
	all, err := c.engine.Catalog().Groups(c.ctx, c.caller)
	return slices.DeleteFunc(all, func(g engine.GroupInfo) bool {
		return queue != "" && g.Queue != queue || group != "" && g.Name != group
	}), err
}

type groupListArgs struct {
	Queue string `json:"queue,omitempty"`
	Group string `json:"group,omitempty" jsonschema:"__QUEUE_MODE__ is the readers without a group"`
	Listing
}

type leaseInfo struct {
	Partition string  `json:"partition"`
	Worker    string  `json:"worker,omitempty"`
	First     string  `json:"first"`
	End       string  `json:"end"`
	Attempt   uint32  `json:"attempt"`
	ExpiresAt string  `json:"expires_at"`
	ExpiresIn float64 `json:"expires_in_s"`
}

type groupList struct {
	Meta
	Groups []groupRow `json:"groups"`
}

func groupListing(c *call, in groupListArgs) (out groupList, err error) {
	limit, err := c.bounds(in.Listing)
	if err != nil {
		return out, err
	}
	at, err := c.resume(in.Cursor, in.Queue, in.Group)
	if err != nil {
		return out, err
	}
	var s *diagnosis.Sight
	if in.Queue != "" {
		if s, err = c.look(in.Queue, in.Group); err != nil {
			return out, err
		}
	}
	all, err := c.groups(in.Queue, in.Group)
	if err != nil {
		return out, err
	}
	rows := make([]groupRow, 0, len(all))
	for i := range all {
		rows = append(rows, c.groupRowOf(&all[i], s))
	}
	out.Meta = c.meta()
	out.Untrusted = true
	out.Groups = pageOf(c, &out.Meta, rows, at, limit)
	return out, nil
}

type groupArgs struct {
	Queue    string `json:"queue"`
	Group    string `json:"group" jsonschema:"__QUEUE_MODE__ is the readers without a group"`
	MaxBytes int    `json:"max_bytes,omitempty"`
}

type groupDescription struct {
	Meta
	Groups []groupRow  `json:"groups" jsonschema:"the one"`
	Leases []leaseInfo `json:"leases" jsonschema:"live ones, the first 20"`
	Behind []lagRow    `json:"behind" jsonschema:"partitions, the 20 furthest behind"`
}

func groupDescribe(c *call, in groupArgs) (out groupDescription, err error) {
	if in.Queue == "" || in.Group == "" { // to the listing, all of them
		return out, badArgument("group", "queue and group are needed, neither empty")
	}
	if err := c.setRoom(in.MaxBytes); err != nil {
		return out, err
	}
	s, err := c.look(in.Queue, in.Group)
	if err != nil {
		return out, err
	}
	all, err := c.groups(in.Queue, in.Group)
	if err != nil {
		return out, err
	}
	if len(all) == 0 {
		return out, &engine.Error{Code: engine.CodeUnknownGroup}
	}
	leases, err := c.leases(in.Queue, in.Group)
	if err != nil {
		return out, err
	}
	out.Meta = c.meta()
	out.Untrusted = true
	out.Groups, _ = fit(c, []groupRow{c.groupRowOf(&all[0], s)})
	out.Leases, out.Behind = []leaseInfo{}, []lagRow{}
	for i := range leases[:min(len(leases), 20)] {
		out.Leases = append(out.Leases, c.leaseInfoOf(&leases[i]))
	}
	worst := s.Worst()
	for i := range worst[:min(len(worst), 20)] {
		out.Behind = append(out.Behind, c.lagRowOf(&worst[i]))
	}
	out.Leases, _ = fit(c, out.Leases)
	out.Behind, _ = fit(c, out.Behind)
	c.cut(&out.Meta, len(leases)-len(out.Leases)+len(worst)-len(out.Behind), "partition_list with group has them all")
	return out, nil
}

// leases are the live leases of a consumer group on a queue.
func (c *call) leases(queue, group string) ([]engine.LeaseRow, error) {
	all, err := c.engine.Inspect().Leases(c.ctx, c.caller, maxScan)
	return slices.DeleteFunc(all, func(l engine.LeaseRow) bool { return l.Queue != queue || l.Group != group }), err
}

func (c *call) leaseInfoOf(l *engine.LeaseRow) leaseInfo {
	return leaseInfo{Partition: l.Partition, Worker: l.Worker, First: digits(uint64(l.First)), End: digits(uint64(l.End)),
		Attempt: l.Attempt, ExpiresAt: timeText(l.Expires), ExpiresIn: float64(l.Expires-c.f.now()) / 1e6}
}

type lagRow struct {
	Queue       string   `json:"queue"`
	Group       string   `json:"group"`
	Partition   string   `json:"partition"`
	PartitionID string   `json:"partition_id"`
	Lag         uint64   `json:"lag"`
	Leased      uint64   `json:"leased"`
	AgeS        *float64 `json:"age_s" jsonschema:"of the oldest message not acknowledged"`
	Worker      string   `json:"worker,omitempty"`
	Attempts    uint32   `json:"attempts" jsonschema:"deliveries of the message at the cursor"`
	Retries     uint32   `json:"retries" jsonschema:"its failures"`
	LeasedForS  *float64 `json:"leased_for_s" jsonschema:"null when no lease is live"`
	Reason      string   `json:"reason" jsonschema:"lease_held, poison, never_started, no_consumer, delayed, retry_wait, in_progress, waiting_turn, behind_lease"`
}

func (c *call) lagRowOf(r *diagnosis.Behind) lagRow {
	return lagRow{Queue: r.Queue, Group: r.Group, Partition: r.Partition, PartitionID: digits(uint64(r.PartitionID)), Lag: r.Lag,
		Leased: r.Processing, AgeS: c.ageSeconds(r.OldestAt), Worker: r.Worker, Reason: r.Reason, Attempts: r.Attempts,
		Retries: r.Retries, LeasedForS: c.ageSeconds(r.LeasedAt)}
}

type lagArgs struct {
	Queue    string `json:"queue,omitempty"`
	Group    string `json:"group,omitempty"`
	K        int    `json:"k,omitempty" jsonschema:"rows at most, 1 to 50; default 10"`
	MaxBytes int    `json:"max_bytes,omitempty"`
}

type lagList struct {
	Meta
	Rows []lagRow `json:"rows"`
}

func lagTop(c *call, in lagArgs) (out lagList, err error) {
	k, err := oneOf("k", in.K, 10, 1, 50)
	if err == nil {
		err = c.setRoom(in.MaxBytes)
	}
	if err != nil {
		return out, err
	}
	s, err := c.look(in.Queue, in.Group)
	if err != nil {
		return out, err
	}
	out.Meta = c.meta()
	out.Untrusted = true
	worst := s.Worst()
	out.Rows = []lagRow{}
	for i := range worst[:min(k, len(worst))] {
		out.Rows = append(out.Rows, c.lagRowOf(&worst[i]))
	}
	out.Rows, _ = fit(c, out.Rows)
	c.cut(&out.Meta, min(k, len(worst))-len(out.Rows), larger)
	return out, nil
}
