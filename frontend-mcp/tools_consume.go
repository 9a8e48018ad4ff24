package frontendmcp

import (
	"time"

	"queen/engine"
	"queen/engine/auth"
	"queen/engine/format"
)

func consumeTools() []*tool {
	return []*tool{
		row(writes(ModeWrite, auth.LevelReadWrite, tool{name: "message_take", title: "Take messages", toolset: "consume",
			text: "Takes messages of a queue for a consumer group under a lease, as a worker does. Refuses a group that others use unless share is true."}), take),
		row(writes(ModeWrite, auth.LevelReadWrite, tool{name: "message_ack", title: "Settle messages", toolset: "consume", destructive: true,
			text: "Settles messages taken under a lease: completed, failed, retry or dlq."}), settle),
	}
}

type takeArgs struct {
	Queue  string `json:"queue"`
	Group  string `json:"group"`
	Limit  int    `json:"limit,omitempty" jsonschema:"messages at most, 1 to 10; default 1"`
	LeaseS int    `json:"lease_s,omitempty" jsonschema:"seconds, 1 to 600; default the queue's leaseTime"`
	Share  bool   `json:"share,omitempty" jsonschema:"take although other workers use the group"`
}

type takenRow struct {
	Partition   string     `json:"partition"`
	PartitionID string     `json:"partition_id"`
	Attempt     uint32     `json:"attempt"`
	Message     messageRow `json:"message"`
}

type takeResult struct {
	Meta
	LeaseID  string     `json:"lease_id,omitempty"`
	Messages []takenRow `json:"messages"`
}

func take(c *call, in takeArgs) (out takeResult, err error) {
	limit, err := oneOf("limit", in.Limit, 1, 1, 10)
	if err != nil {
		return out, err
	}
	lease, err := oneOf("lease_s", in.LeaseS, 0, 1, 600)
	if err != nil {
		return out, err
	}
	if in.Group == "" {
		return out, badArgument("group", "group is needed")
	}
	if _, err := c.engine.Catalog().Queue(c.ctx, c.caller, in.Queue); err != nil {
		return out, err // a pop would create it
	}
	groups, err := c.groups(in.Queue, in.Group)
	if err != nil {
		return out, err
	}
	k := takenKey{c.id.Tenant, in.Queue, in.Group}
	if len(groups) > 0 && (groups[0].Consumed || groups[0].Leases > 0) && !in.Share {
		if used, err := c.usedByOthers(k); err != nil {
			return out, err
		} else if used {
			return out, &toolError{Code: "group_in_use", Message: "workers may have used this consumer group in the last ten minutes: they miss what is taken here",
				Field: "share", Hint: "use a group of your own, peek instead, or set share true"}
		}
	}
	c.room = mostRoom
	d, err := c.engine.Pop(c.ctx, c.caller, engine.PopRequest{Scope: engine.Scope{Queue: in.Queue}, Group: in.Group,
		Start: engine.Start{Kind: format.StartAll}, Batch: limit, Partitions: 1, MaxBytes: 32 << 10, Lease: time.Duration(lease) * time.Second})
	if err != nil {
		return out, err
	}
	out.Meta, out.Messages = c.meta(), []takenRow{}
	out.Untrusted = true
	if d == nil {
		return out, nil
	}
	for m, err := range d.Messages() {
		if err != nil {
			d.Abandon()
			return out, err
		}
		claim := &d.Claims[m.Claim]
		row, _ := c.messageRowOf(in.Queue, &m.Record, false, true)
		out.Messages = append(out.Messages, takenRow{Partition: claim.Partition, PartitionID: digits(uint64(claim.PartitionID)),
			Attempt: claim.Attempt, Message: row})
	}
	d.Delivered()
	out.LeaseID = d.Lease
	c.f.taken.took(d.Lease, k)
	c.left(k)
	return out, nil
}

type ackRow struct {
	PartitionID string `json:"partition_id"`
	Offset      string `json:"offset"`
	Status      string `json:"status" jsonschema:"completed, failed, retry or dlq"`
	Reason      string `json:"reason,omitempty"`
}

type ackArgs struct {
	Group   string   `json:"group"`
	LeaseID string   `json:"lease_id"`
	Results []ackRow `json:"results" jsonschema:"1 to 10"`
	Confirming
}

type ackVerdict struct {
	Offset  string `json:"offset"`
	Verdict string `json:"verdict" jsonschema:"settled, dead_letter, noop or the code of a refusal"`
}

type ackResult struct {
	Planned
	Verdicts []ackVerdict `json:"verdicts"`
}

var ackStatuses = map[string]format.AckStatus{"completed": format.AckCompleted, "failed": format.AckFailed, "retry": format.AckRetry, "dlq": format.AckDLQ}

func settle(c *call, in ackArgs) (out ackResult, err error) {
	out.Verdicts = []ackVerdict{}
	if len(in.Results) == 0 || len(in.Results) > 10 {
		return out, &toolError{Code: "bad_request", Message: "results is out of its bounds", Field: "results", Limit: "1..10"}
	}
	b := engine.Batch{}
	for i := range in.Results {
		r := &in.Results[i]
		status, ok := ackStatuses[r.Status]
		id, okID := number(r.PartitionID)
		offset, okOffset := number(r.Offset)
		if !ok || !okID || !okOffset {
			return out, badArgument("results", "a result needs partition_id and offset in digits, and a status of completed, failed, retry or dlq")
		}
		b.Ops = append(b.Ops, &engine.Ack{Partition: format.PartitionID(id), Group: in.Group, Lease: in.LeaseID, HasOffset: true,
			Offset: format.Offset(offset), Status: status, Reason: r.Reason})
	}
	asked, err := c.confirm(in.Confirming, []any{in.Group, in.LeaseID, in.Results}, in.Group, Plan{Action: "settle messages",
		Target: map[string]string{"group": in.Group}, Counts: map[string]uint64{"messages": uint64(len(in.Results))},
		Effects: []string{"The cursor moves past completed ones: the group does not get them again."}})
	if err != nil || asked != nil {
		out.Planned = orNone(asked)
		return out, err
	}
	res, err := c.engine.Do(c.ctx, c.caller, b)
	if err != nil {
		return out, err
	}
	out.Planned = c.done()
	if k, ours := c.f.taken.ofLease(in.LeaseID); ours {
		c.left(k)
	}
	for i := range res {
		v := ackVerdict{Offset: in.Results[i].Offset, Verdict: "settled"}
		switch {
		case res[i].Err != nil:
			v.Verdict = string(res[i].Err.Code)
		case res[i].Ack.Filed:
			v.Verdict = "dead_letter"
		case res[i].Ack.Noop:
			v.Verdict = "noop"
		}
		out.Verdicts = append(out.Verdicts, v)
	}
	return out, nil
}
