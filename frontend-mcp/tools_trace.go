package frontendmcp

import (
	"cmp"
	"slices"

	"queen/engine"
	"queen/engine/format"
)

type traceArgs struct {
	Queue         string `json:"queue"`
	Partition     string `json:"partition,omitempty" jsonschema:"default: the partition that has the id, looked for"`
	TransactionID string `json:"transaction_id,omitempty" jsonschema:"or the message id"`
	TraceID       string `json:"trace_id,omitempty" jsonschema:"instead: the first message with it, looked for among 100000"`
}

type groupView struct {
	Group        string  `json:"group"`
	State        string  `json:"state" jsonschema:"consumed, leased, dead or pending"`
	LeaseExpires *string `json:"lease_expires_at"`
	Retries      uint32  `json:"retries"`
	Error        string  `json:"error,omitempty"`
}

// event is something that happened to a message, of which the broker keeps when.
type event struct {
	At    string `json:"at"`
	Kind  string `json:"kind" jsonschema:"push, lease or dlq"`
	Group string `json:"group,omitempty"`
	Error string `json:"error,omitempty"`
}

type traceResult struct {
	Meta
	State     string      `json:"state" jsonschema:"pending, processing, completed or dead"`
	Partition string      `json:"partition"`
	Message   messageRow  `json:"message"`
	Events    []event     `json:"events" jsonschema:"oldest first; acks and earlier deliveries are not kept"`
	Groups    []groupView `json:"groups"`
}

var stateNames = map[engine.MessageState]string{engine.Pending: "pending", engine.Processing: "processing",
	engine.Completed: "completed", engine.DeadState: "dead"}

func traceMessage(c *call, in traceArgs) (out traceResult, err error) {
	var p engine.PartitionInfo
	switch {
	case (in.TransactionID == "") == (in.TraceID == ""):
		return out, badArgument("transaction_id", "either transaction_id or trace_id is needed")
	case in.TraceID != "":
		p, err = c.tracedBy(&in)
	default:
		p, err = c.partitionWith(&in)
	}
	if err != nil {
		return out, err
	}
	d, err := c.engine.Inspect().Message(c.ctx, c.caller, p.ID, in.TransactionID)
	if err != nil {
		return out, err
	}
	out.Meta, out.State, out.Partition, out.Groups = c.meta(), stateNames[d.State], p.Name, []groupView{}
	out.Untrusted = true
	if out.Events, err = c.events(&p, &d); err != nil {
		return out, err
	}
	c.take(out.Events)
	out.Message, _ = c.messageRowOf(in.Queue, &d.Record, false, true)
	for _, g := range d.Groups {
		v := groupView{Group: g.Name, State: "pending", LeaseExpires: maybeTime(g.LeaseExpires), Retries: g.Retries, Error: g.Error}
		switch {
		case g.Dead:
			v.State = "dead"
		case g.Consumed:
			v.State = "consumed"
		case g.Leased:
			v.State = "leased"
		}
		if !c.take(v) && len(out.Groups) > 0 {
			c.cut(&out.Meta, len(d.Groups)-len(out.Groups), "group_list has every group")
			break
		}
		out.Groups = append(out.Groups, v)
	}
	return out, nil
}

// partitionWith is the partition that a trace names, or the first one that has a message with the id.
func (c *call) partitionWith(in *traceArgs) (p engine.PartitionInfo, err error) {
	if in.Partition != "" {
		return c.engine.Catalog().Partition(c.ctx, c.caller, in.Queue, in.Partition)
	}
	for after, looked := "", 0; looked < maxScan; {
		rows, next, err := c.engine.Catalog().Partitions(c.ctx, c.caller, in.Queue, 0, engine.Page{After: after, Limit: 200})
		if err != nil {
			return p, err
		}
		queries := make([]engine.OffsetQuery, len(rows))
		for i := range rows {
			queries[i] = engine.OffsetQuery{Queue: in.Queue, Partition: rows[i].Name, Kind: engine.OfID, ID: in.TransactionID}
		}
		answers, err := c.engine.Offsets(c.ctx, c.caller, queries)
		if err != nil {
			return p, err
		}
		for i := range answers {
			if answers[i].Err == nil && answers[i].Found {
				return rows[i], nil
			}
		}
		looked += len(rows)
		c.notify(float64(looked), maxScan)
		if after = next; next == "" {
			break
		}
	}
	return p, &toolError{Code: string(engine.CodeNotFound), Message: "no partition of the queue knows the id", Field: "transaction_id",
		Hint: "ids are remembered for the queue's dedupWindowSeconds: name the partition, or use message_search"}
}

// tracedBy looks for the first message with a trace id, of which nothing is indexed, and puts the message's own id into in.
func (c *call) tracedBy(in *traceArgs) (p engine.PartitionInfo, err error) {
	trace, ok := format.ParseUUID(in.TraceID)
	if !ok || trace.IsZero() {
		return p, badArgument("trace_id", "trace_id is no UUID")
	}
	room, found := c.room, searchResult{}
	s := &scan{call: c, in: searchArgs{Queue: in.Queue, Partition: in.Partition}, trace: trace, limit: 1, budget: scanMost, out: &found}
	if err := s.run(place{}); err != nil {
		return p, err
	}
	c.room = room // the match is not what is answered
	if len(found.Matches) == 0 {
		return p, &toolError{Code: string(engine.CodeNotFound), Message: "none of the messages that were looked at has the trace id", Field: "trace_id",
			Hint: "100000 messages are looked at: name the partition, or use transaction_id"}
	}
	in.TransactionID = found.Matches[0].Message.ID
	return c.engine.Catalog().Partition(c.ctx, c.caller, in.Queue, found.Matches[0].Partition)
}

// events are what is kept of the times of a message: its push, the leases that hold it, and its dead letters.
func (c *call) events(p *engine.PartitionInfo, d *engine.MessageDetail) ([]event, error) {
	out := []event{{At: timeText(d.CreatedAt), Kind: "push"}}
	leased := map[string]bool{}
	for i := range d.Groups {
		leased[d.Groups[i].Name] = d.Groups[i].Leased
	}
	rows, err := c.engine.Inspect().TopLag(c.ctx, c.caller, p.Queue, maxScan)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		if r := &rows[i]; r.PartitionID == p.ID && leased[r.Group] && r.LeasedAt != 0 {
			out = append(out, event{At: timeText(r.LeasedAt), Kind: "lease", Group: r.Group})
		}
	}
	dead, err := c.engine.Catalog().DeadLetters(c.ctx, c.caller, engine.DeadLetterFilter{Queue: p.Queue, Partition: p.Name, Limit: 1000})
	if err != nil {
		return nil, err
	}
	for i := range dead {
		if x := &dead[i]; x.Message.Offset == d.Offset {
			out = append(out, event{At: timeText(x.FailedAt), Kind: "dlq", Group: x.Group, Error: clipText(x.Error, 1000)})
		}
	}
	slices.SortStableFunc(out, func(a, b event) int { return cmp.Compare(a.At, b.At) })
	return out[:min(len(out), 20)], nil
}

// clipText cuts a text at a number of bytes.
func clipText(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && s[most]&0xC0 == 0x80 { // within a character
		most--
	}
	return s[:most]
}
