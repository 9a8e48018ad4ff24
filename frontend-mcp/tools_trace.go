package frontendmcp

import (
	"cmp"
	"slices"

	"queen/engine"
	"queen/engine/format"
)

type traceArgs struct {
	Queue         string `json:"queue,omitempty" jsonschema:"default: the first queue that has the message, looked for"`
	Partition     string `json:"partition,omitempty" jsonschema:"of queue; default: the one that has the message, looked for"`
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

// event is something that happened to a message and of which the broker keeps something.
type event struct {
	At     *string `json:"at" jsonschema:"null where only that it happened is kept"`
	Kind   string  `json:"kind" jsonschema:"push, lease, nack, retry or dlq"`
	Group  string  `json:"group,omitempty"`
	Worker string  `json:"worker,omitempty"`
	Count  uint32  `json:"count,omitempty" jsonschema:"failures so far"`
	Error  string  `json:"error,omitempty"`
	Detail string  `json:"detail,omitempty"`
}

type traceResult struct {
	Meta
	State     string      `json:"state" jsonschema:"pending, processing, completed or dead"`
	Queue     string      `json:"queue"`
	Partition string      `json:"partition"`
	Message   messageRow  `json:"message"`
	Events    []event     `json:"events" jsonschema:"oldest first, then those without a time; acks, earlier deliveries, transactions and replays are not kept"`
	Groups    []groupView `json:"groups"`
}

var stateNames = map[engine.MessageState]string{engine.Pending: "pending", engine.Processing: "processing",
	engine.Completed: "completed", engine.DeadState: "dead"}

func traceMessage(c *call, in traceArgs) (out traceResult, err error) {
	p, err := c.traced(&in)
	if err != nil {
		return out, err
	}
	d, err := c.engine.Inspect().Message(c.ctx, c.caller, p.ID, in.TransactionID)
	if err != nil {
		return out, err
	}
	out.Meta, out.State, out.Queue, out.Partition, out.Groups = c.meta(), stateNames[d.State], p.Queue, p.Name, []groupView{}
	out.Untrusted = true
	if out.Events, err = c.events(&p, &d); err != nil {
		return out, err
	}
	c.take([]string{out.Queue, out.Partition}) // names may be long
	c.take(out.Events)
	out.Message, _ = c.messageRowOf(p.Queue, &d.Record, false, true)
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

// traced finds the partition of the message that a trace is of, in the queue that is named or in all of them, one after the
// other within one budget, and puts the message's own id into in.
func (c *call) traced(in *traceArgs) (p engine.PartitionInfo, err error) {
	s := &scan{call: c, limit: 1, budget: maxScan} // partitions that are asked; of a trace id, messages that are read
	if in.TraceID != "" {
		ok := false
		if s.trace, ok = format.ParseUUID(in.TraceID); !ok || s.trace.IsZero() {
			return p, badArgument("trace_id", "trace_id is no UUID")
		}
		s.budget = scanMost
	}
	switch {
	case (in.TransactionID == "") == (in.TraceID == ""):
		return p, badArgument("transaction_id", "either transaction_id or trace_id is needed")
	case in.Queue == "" && in.Partition != "":
		return p, badArgument("queue", "a partition is one of a queue: name that too")
	case in.Queue != "":
		p, err = c.tracedIn(in.Queue, in, s)
	default:
		p, err = c.tracedAnywhere(in, s)
	}
	if err == nil && p.ID == 0 {
		return p, notTraced(in)
	}
	return p, err
}

// notTraced says that nothing was found, and what else finds a message.
func notTraced(in *traceArgs) error {
	if in.TraceID != "" {
		return &toolError{Code: string(engine.CodeNotFound), Message: "none of the messages that were looked at has the trace id", Field: "trace_id",
			Hint: "100000 messages are looked at: name the queue and the partition, or use transaction_id"}
	}
	return &toolError{Code: string(engine.CodeNotFound), Message: "no partition knows the id", Field: "transaction_id",
		Hint: "ids are remembered for the queue's dedupWindowSeconds: name the queue and the partition, or use message_search"}
}

// tracedAnywhere looks through the queues until one has the message or the budget is used up; no partition when none has it.
func (c *call) tracedAnywhere(in *traceArgs, s *scan) (p engine.PartitionInfo, err error) {
	queues, _, err := c.queues()
	for i := 0; i < len(queues) && err == nil && p.ID == 0 && s.budget > 0; i++ {
		p, err = c.tracedIn(queues[i].Name, in, s)
		if code := codeOf(err); code == engine.CodeUnknownQueue || code == engine.CodeUnknownPartition {
			err = nil // it went meanwhile
		}
	}
	return p, err
}

// tracedIn looks for the message in one queue; no partition when it is not there.
func (c *call) tracedIn(queue string, in *traceArgs, s *scan) (engine.PartitionInfo, error) {
	if in.TraceID != "" {
		return c.tracedBy(queue, in, s)
	}
	if in.Partition != "" {
		return c.engine.Catalog().Partition(c.ctx, c.caller, queue, in.Partition)
	}
	for after := ""; s.budget > 0; {
		rows, next, err := c.engine.Catalog().Partitions(c.ctx, c.caller, queue, 0, engine.Page{After: after, Limit: 200})
		if err != nil {
			return engine.PartitionInfo{}, err
		}
		queries := make([]engine.OffsetQuery, len(rows))
		for i := range rows {
			queries[i] = engine.OffsetQuery{Queue: queue, Partition: rows[i].Name, Kind: engine.OfID, ID: in.TransactionID}
		}
		answers, err := c.engine.Offsets(c.ctx, c.caller, queries)
		if err != nil {
			return engine.PartitionInfo{}, err
		}
		for i := range answers {
			if answers[i].Err == nil && answers[i].Found {
				return rows[i], nil
			}
		}
		s.budget -= min(len(rows), s.budget)
		c.notify(float64(maxScan-s.budget), maxScan)
		if after = next; next == "" {
			break
		}
	}
	return engine.PartitionInfo{}, nil
}

// tracedBy looks for the first message of a queue with a trace id, of which nothing is indexed.
func (c *call) tracedBy(queue string, in *traceArgs, s *scan) (p engine.PartitionInfo, err error) {
	room, found := c.room, searchResult{}
	s.in, s.out = searchArgs{Queue: queue, Partition: in.Partition}, &found
	if err := s.run(place{}); err != nil {
		return p, err
	}
	c.room = room // the match is not what is answered
	if len(found.Matches) == 0 {
		return p, nil
	}
	in.TransactionID = found.Matches[0].Message.ID
	return c.engine.Catalog().Partition(c.ctx, c.caller, queue, found.Matches[0].Partition)
}

// events are what is kept of what happened to a message: its push, the leases that hold it, its failures and when it is handed
// out again after one, and its dead letters.
func (c *call) events(p *engine.PartitionInfo, d *engine.MessageDetail) ([]event, error) {
	out := []event{{At: maybeTime(d.CreatedAt), Kind: "push"}}
	views := map[string]*engine.GroupView{}
	for i := range d.Groups {
		g := &d.Groups[i]
		views[g.Name] = g
		if g.Retries > 0 && !g.Consumed {
			out = append(out, event{Kind: "nack", Group: g.Name, Count: g.Retries})
		}
	}
	rows, err := c.engine.Inspect().TopLag(c.ctx, c.caller, p.Queue, maxScan)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		r := &rows[i]
		g := views[r.Group]
		if r.PartitionID != p.ID || g == nil {
			continue
		}
		if g.Leased && r.LeasedAt != 0 {
			out = append(out, event{At: maybeTime(r.LeasedAt), Kind: "lease", Group: r.Group, Worker: r.Worker})
		}
		if g.Retries > 0 && !g.Consumed && !g.Leased && r.HoldUntil != 0 {
			out = append(out, event{At: maybeTime(r.HoldUntil), Kind: "retry", Group: r.Group, Detail: "not handed out again before this"})
		}
	}
	dead, err := c.engine.Catalog().DeadLetters(c.ctx, c.caller, engine.DeadLetterFilter{Queue: p.Queue, Partition: p.Name, Limit: 1000})
	if err != nil {
		return nil, err
	}
	for i := range dead {
		if x := &dead[i]; x.Message.Offset == d.Offset {
			out = append(out, event{At: maybeTime(x.FailedAt), Kind: "dlq", Group: x.Group, Count: x.Retries, Error: clipText(x.Error, 1000)})
		}
	}
	slices.SortStableFunc(out, func(a, b event) int {
		switch {
		case a.At == nil || b.At == nil:
			return cmp.Compare(boolRank(a.At == nil), boolRank(b.At == nil))
		}
		return cmp.Compare(*a.At, *b.At)
	})
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
