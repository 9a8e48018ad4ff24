package frontendhttp

import (
	"context"

	"queen/engine"
	"queen/engine/format"
)

// laggingAfter is the age of the oldest unconsumed message above which a group is called Lagging (S-grp-3).
const laggingAfter = 300

// maxGroupRows bounds the partitions of one queue in a group's detail; topRows those of a listing by lag.
const (
	maxGroupRows = 1000
	topRows      = 1000
)

func groupRoutes() []*route {
	seek := func(path, summary, response string, h handler) *route {
		return &route{Method: "POST", Path: path, Access: readWrite, Mark: common, Summary: summary, Request: "Seek",
			Response: response, Status: 200, Also: map[int]string{404: response + "|Error"}, Op: "seek", Handle: h}
	}
	forget := []param{{Name: "deleteMetadata", Type: "boolean",
		About: "Forget where the group starts, too; default true."}}
	return []*route{
		{Method: "GET", Path: "/api/v1/consumer-groups", Access: readOnly, Mark: common,
			Summary: "List consumer groups, one entry per queue.", Response: "Groups", Status: 200, Handle: listGroups},
		{Method: "GET", Path: "/api/v1/consumer-groups/lagging", Access: readOnly, Mark: common,
			Summary:  "List partitions that a group is behind on, worst first.",
			Query:    []param{{Name: "minLagSeconds", Type: "integer", About: "Default 3600."}},
			Response: "Lagging", Status: 200, Handle: lagging},
		{Method: "GET", Path: "/api/v1/consumer-groups/:group", Access: readOnly, Mark: common,
			Summary: "Describe a group on each of its queues.", Response: "Group", Status: 200, Handle: groupDetail},
		{Method: "POST", Path: "/api/v1/consumer-groups/:group/subscription", Access: readWrite, Mark: common,
			Summary: "Change where partitions not yet touched start.", Request: "Subscription",
			Response: "Subscribed", Status: 200, Handle: subscription},
		seek("/api/v1/consumer-groups/:group/queues/:queue/partitions/:partition/seek",
			"Move a group on one partition.", "SoughtPartition", seekPartition),
		seek("/api/v1/consumer-groups/:group/queues/:queue/seek", "Move a group on a whole queue.",
			"Sought", seekQueue),
		{Method: "DELETE", Path: "/api/v1/consumer-groups/:group/queues/:queue", Access: admin, Mark: common,
			Summary: "Forget a group on one queue.", Query: forget, Response: "GroupDeleted", Status: 200,
			Handle: func(c *call) error { return deleteGroup(c, true) }},
		{Method: "DELETE", Path: "/api/v1/consumer-groups/:group", Access: admin, Mark: common,
			Summary: "Forget a group on every queue.", Query: forget, Response: "GroupDeleted", Status: 200,
			Handle: func(c *call) error { return deleteGroup(c, false) }},
	}
}

// age is whole seconds from then to now, 0 for an absent or future time.
func age(now, then format.Wall) int64 {
	if then == 0 || then > now {
		return 0
	}
	return int64(now-then) / 1e6
}

// subscriptionMode names a stored start.
func subscriptionMode(s engine.Start) string {
	switch s.Kind {
	case format.StartAll:
		return "all"
	case format.StartFrom:
		return "timestamp"
	}
	return "new"
}

func listGroups(c *call) error {
	ctx, cancel := c.deadline(readDeadline)
	defer cancel()
	groups, err := c.engine.Catalog().Groups(ctx, c.caller)
	if err != nil {
		return err
	}
	o := out{c.buffer()}
	o.open('[')
	now := c.f.now()
	for i := range groups {
		o.group(&groups[i], now)
	}
	o.close(']')
	c.send(200, o.b)
	return nil
}

func (o *out) group(g *engine.GroupInfo, now format.Wall) {
	behind := age(now, g.OldestLagAt)
	state := "Dead"
	switch {
	case behind > laggingAfter:
		state = "Lagging"
	case g.Consumed || len(g.Members) > 0:
		state = "Stable"
	}
	o.open('{')
	o.str("name", g.Name)
	o.key("topics").open('[').text(g.Queue)
	o.close(']')
	o.str("queueName", g.Queue)
	o.count("members", g.Leases+uint64(len(g.Members)))
	o.count("partitionCursors", g.Cursors)
	o.count("partitionsWithLag", g.PartitionsWithLag)
	o.count("totalLag", g.Lag)
	o.num("maxTimeLag", behind)
	o.str("state", state)
	o.str("storage", "segments")
	o.str("subscriptionMode", subscriptionMode(g.Start))
	switch g.Start.Kind {
	case format.StartFrom:
		o.time("subscriptionTimestamp", g.Start.From)
	case format.StartAll:
		o.null("subscriptionTimestamp")
	default:
		o.time("subscriptionTimestamp", g.RegisteredAt)
	}
	o.time("subscriptionCreatedAt", g.RegisteredAt)
	o.bool("conflation", g.Conflate)
	o.time("sweptAt", g.SweptAt)
	o.kafkaMembers(g)
	o.close('}')
}

// kafkaMembers lists who came by Kafka's protocol, where there is somebody.
func (o *out) kafkaMembers(g *engine.GroupInfo) {
	if len(g.Members) == 0 {
		return
	}
	o.key("kafkaMembers").open('[')
	for i := range g.Members {
		m := &g.Members[i]
		o.open('{')
		o.str("memberId", m.ID)
		o.strOrNull("instanceId", m.Instance)
		o.str("clientId", m.Client)
		o.str("host", m.Host)
		o.str("protocol", m.Protocol)
		o.key("partitions").open('[')
		for _, name := range m.Partitions {
			o.text(name)
		}
		o.close(']').close('}')
	}
	o.close(']')
}

func lagging(c *call) error {
	q := c.query()
	least := q.integer("minLagSeconds", 3600)
	if q.err != nil {
		return q.err
	}
	ctx, cancel := c.deadline(readDeadline)
	defer cancel()
	rows, err := c.engine.Inspect().TopLag(ctx, c.caller, "", topRows)
	if err != nil {
		return err
	}
	now := c.f.now()
	o := out{c.buffer()}
	o.open('[')
	for i := range rows {
		r := &rows[i]
		behind := age(now, r.OldestAt)
		if r.OldestAt == 0 || behind < least {
			continue
		}
		o.open('{')
		o.str("consumer_group", r.Group)
		o.str("queue_name", r.Queue)
		o.str("partition_name", r.Partition)
		o.id("partition_id", uint64(r.PartitionID))
		o.strOrNull("worker_id", r.Worker)
		o.count("offset_lag", r.Lag)
		o.num("time_lag_seconds", behind)
		o.float("lag_hours", float64(behind)/3600)
		o.time("oldest_unconsumed_at", r.OldestAt)
		o.null("last_consumed_at")
		o.close('}')
	}
	o.close(']')
	c.send(200, o.b)
	return nil
}

// groupDetail is keyed by queue; an unknown group is the empty object.
func groupDetail(c *call) error {
	name, err := c.name(0)
	if err != nil {
		return err
	}
	ctx, cancel := c.deadline(readDeadline)
	defer cancel()
	groups, err := c.engine.Catalog().Groups(ctx, c.caller)
	if err != nil {
		return err
	}
	o := out{c.buffer()}
	o.open('{')
	for i := range groups {
		if groups[i].Name != name {
			continue
		}
		if err := c.groupQueue(ctx, &o, &groups[i]); err != nil {
			return err
		}
	}
	o.close('}')
	c.send(200, o.b)
	return nil
}

func (c *call) groupQueue(ctx context.Context, o *out, g *engine.GroupInfo) error {
	rows, next, err := c.engine.Catalog().GroupPartitions(ctx, c.caller, groupName(g.Name), g.Queue,
		engine.Page{Limit: maxGroupRows})
	if err != nil {
		return err
	}
	now := c.f.now()
	o.comma()
	o.b = appendString(o.b, g.Queue)
	o.b = append(o.b, ':')
	o.open('{')
	o.bool("conflation", g.Conflate)
	if next != "" {
		o.bool("truncated", true)
	}
	o.key("partitions").open('[')
	for i := range rows {
		r := &rows[i]
		o.open('{')
		o.str("partition", r.Partition.Name)
		o.strOrNull("workerId", r.Worker)
		o.time("lastConsumedAt", r.LastAckAt)
		o.count("totalConsumed", r.Consumed)
		o.count("offsetLag", r.Lag)
		o.num("timeLagSeconds", age(now, r.OldestLagAt))
		o.bool("leaseActive", r.Leased)
		o.close('}')
	}
	o.close(']')
	o.kafkaMembers(g)
	o.close('}')
	return nil
}

func subscription(c *call) error {
	group, err := c.name(0)
	if err != nil {
		return err
	}
	var in struct {
		SubscriptionTimestamp string `json:"subscriptionTimestamp"`
	}
	if err := c.decodeOptional(&in); err != nil {
		return err
	}
	from, ok := parseInstant(in.SubscriptionTimestamp)
	if !ok {
		return badRequest("subscriptionTimestamp must be an ISO-8601 instant")
	}
	ctx, cancel := c.deadline(writeDeadline)
	defer cancel()
	n, err := c.engine.Catalog().SetSubscription(ctx, c.caller, groupName(group), from)
	if err != nil {
		return err
	}
	o := out{c.buffer()}
	o.open('{')
	o.bool("success", true)
	o.str("consumerGroup", group)
	o.time("newTimestamp", from)
	o.count("rowsUpdated", n)
	o.close('}')
	c.send(200, o.b)
	return nil
}

// deleteGroup answers both forms; an unknown group is a success with 0 (S-seek-5).
func deleteGroup(c *call, oneQueue bool) error {
	group, err := c.name(0)
	if err != nil {
		return err
	}
	queue, err := c.name(1)
	if err != nil {
		return err
	}
	q := c.query()
	forget := q.loose("deleteMetadata", true)
	if q.err != nil {
		return q.err
	}
	ctx, cancel := c.deadline(writeDeadline)
	defer cancel()
	n, err := c.engine.Catalog().DeleteGroup(ctx, c.caller, groupName(group), queue, !oneQueue, !forget)
	if err != nil {
		code := asEngineError(err).Code
		if code != engine.CodeUnknownGroup && code != engine.CodeUnknownQueue {
			return err
		}
	}
	o := out{c.buffer()}
	o.open('{')
	o.bool("success", true)
	o.str("consumerGroup", group)
	if oneQueue {
		o.str("queueName", queue)
	}
	o.count("deletedPartitions", n)
	o.bool("metadataDeleted", forget)
	o.close('}')
	c.send(200, o.b)
	return nil
}

// seekBody is where to; exactly one of the two is needed.
type seekBody struct {
	ToEnd     bool    `json:"toEnd"`
	Timestamp *string `json:"timestamp"`
}

// target reads a seek; emptyIsEnd says that a body naming nothing means the end (S-seek-4).
func (c *call) target(emptyIsEnd bool) (to engine.SeekTo, err error) {
	var in seekBody
	if err := c.decodeOptional(&in); err != nil {
		return to, err
	}
	switch {
	case in.ToEnd && in.Timestamp != nil:
		return to, badRequest("toEnd and timestamp exclude each other")
	case in.ToEnd || in.Timestamp == nil && emptyIsEnd:
		to.End = true
	case in.Timestamp == nil:
		return to, badRequest("toEnd or timestamp is required")
	default:
		var ok bool
		to.ByTime = true
		if to.Time, ok = parseInstant(*in.Timestamp); !ok {
			return to, badRequest("timestamp must be an ISO-8601 instant")
		}
	}
	return to, nil
}

// seek moves a group; missing says what there was not to move, wholly when it was the queue or the partition.
func (c *call) seek(op *engine.SetOffset, wholly string) (rows uint64, missing string, err error) {
	if err := checkNames(len(op.Queue), max(len(op.Partition), len(op.Group))); err != nil {
		return 0, "", err
	}
	ctx, cancel := c.deadline(writeDeadline)
	defer cancel()
	op.Group = groupName(op.Group)
	res, err := c.engine.Do(ctx, c.caller, engine.Batch{Ops: []engine.Op{op}})
	if err != nil {
		return 0, "", err
	}
	if e := res[0].Err; e != nil {
		switch e.Code {
		case engine.CodeUnknownQueue, engine.CodeUnknownPartition:
			return 0, wholly, nil
		case engine.CodeUnknownGroup:
			return 0, "Consumer group not found", nil
		}
		return 0, "", e
	}
	if op.Whole && res[0].Rows == 0 {
		missing = wholly
	}
	return res[0].Rows, missing, nil
}

func seekQueue(c *call) error {
	group, err := c.name(0)
	if err != nil {
		return err
	}
	queue, err := c.name(1)
	if err != nil {
		return err
	}
	to, err := c.target(false)
	if err != nil {
		return err
	}
	rows, missing, err := c.seek(&engine.SetOffset{Queue: queue, Group: group, Whole: true, To: to},
		"Queue not found or has no partitions")
	if err != nil {
		return err
	}
	o := out{c.buffer()}
	o.open('{')
	o.bool("success", missing == "")
	if missing != "" {
		o.str("error", missing)
	}
	o.str("consumerGroup", group)
	o.str("queueName", queue)
	o.target(to)
	o.count("partitionsUpdated", rows)
	o.close('}')
	c.send(statusOf(missing == ""), o.b)
	return nil
}

func seekPartition(c *call) error {
	var names [maxNames]string
	for i := range names {
		var err error
		if names[i], err = c.name(i); err != nil {
			return err
		}
	}
	to, err := c.target(true)
	if err != nil {
		return err
	}
	_, missing, err := c.seek(&engine.SetOffset{Group: names[0], Queue: names[1], Partition: names[2], To: to},
		"Partition not found")
	if err != nil {
		return err
	}
	o := out{c.buffer()}
	o.open('{')
	o.bool("success", missing == "")
	if missing != "" {
		o.str("error", missing)
	}
	o.str("consumerGroup", names[0])
	o.str("queueName", names[1])
	o.str("partitionName", names[2])
	o.target(to)
	o.bool("updated", missing == "")
	o.close('}')
	c.send(statusOf(missing == ""), o.b)
	return nil
}

func (o *out) target(to engine.SeekTo) {
	o.bool("seekToEnd", to.End)
	if to.ByTime {
		o.key("targetTimestamp")
		o.b = appendTime(o.b, max(to.Time, 1))
	} else {
		o.null("targetTimestamp")
	}
}

func statusOf(found bool) int {
	if found {
		return 200
	}
	return 404
}
