package frontendhttp

import (
	"encoding/json"
	"slices"
	"time"

	"queen/engine"
	"queen/engine/format"
)

const (
	// extendDefault is how long an extend that names nothing lasts, in seconds.
	extendDefault = 60
	// mostLeases is how many leases the engine lists at most.
	mostLeases = 10000
)

// leaseRoutes are those that upstream does not have.
func leaseRoutes() []*route {
	return []*route{
		{Method: "GET", Path: "/api/v1/leases", Access: readOnly, Mark: additional,
			Summary: "List live leases, those that end first at the top.",
			Query: []param{{Name: "queue", Type: "string"}, {Name: "group", Type: "string"},
				{Name: "limit", Type: "integer", About: "Default 1000, at most 10000."}},
			Response: "Leases", Status: 200, Handle: listLeases},
		{Method: "POST", Path: "/api/v1/lease/:leaseId/release", Access: readWrite, Mark: additional,
			Summary:  "Hand back what a lease holds, which counts as no attempt. A partition on which a message was settled stays leased.",
			Response: "LeaseReleased", Status: 200, Op: "release", Handle: release},
	}
}

// extend answers POST /api/v1/lease/:leaseId/extend: 200 always, also for a lease that is not there (S-lease-4).
func extend(c *call) error {
	lease, err := c.name(0)
	if err != nil {
		return err
	}
	ctx, cancel := c.deadline(writeDeadline)
	defer cancel()
	op := engine.Extend{Lease: lease, For: extendFor(c.body())}
	res, err := c.engine.Do(ctx, c.caller, engine.Batch{Ops: []engine.Op{&op}})
	if err != nil {
		return err
	}
	item := res[0].Extend
	live := res[0].Err == nil && item.Renewed > 0
	o := out{c.buffer()}
	o.open('{')
	o.str("leaseId", lease)
	o.bool("success", live)
	o.count("renewed", uint64(item.Renewed))
	for _, key := range []string{"newExpiresAt", "expiresAt", "lease_expires_at"} {
		if live {
			o.time(key, item.Expires)
		} else {
			o.null(key)
		}
	}
	o.close('}')
	c.send(200, o.b)
	return nil
}

// extendFor reads "seconds"; whatever is not a body with such a number means the default, never an error.
func extendFor(body []byte) time.Duration {
	var in struct{ Seconds *int64 }
	if json.Unmarshal(body, &in) != nil || in.Seconds == nil {
		return extendDefault * time.Second
	}
	return time.Duration(min(max(*in.Seconds, 1), maxLease)) * time.Second
}

// listLeases answers GET /api/v1/leases. Where more leases are live than the engine lists, those that end last are not
// looked at.
func listLeases(c *call) error {
	q := c.query()
	queue, group, limit := q.text("queue"), q.text("group"), int(q.within("limit", 1000, 1, mostLeases))
	if q.err != nil {
		return q.err
	}
	ctx, cancel := c.deadline(readDeadline)
	defer cancel()
	rows, err := c.engine.Inspect().Leases(ctx, c.caller, mostLeases)
	if err != nil {
		return err
	}
	truncated := len(rows) == mostLeases
	rows = slices.DeleteFunc(rows, func(l engine.LeaseRow) bool {
		return queue != "" && l.Queue != queue || group != "" && l.Group != group
	})
	if len(rows) > limit {
		rows, truncated = rows[:limit], true
	}
	o := out{c.buffer()}
	o.open('{').key("leases").open('[')
	for i := range rows {
		l := &rows[i]
		o.open('{')
		o.str("leaseId", l.Lease)
		o.str("queue", l.Queue)
		o.str("partition", l.Partition)
		o.id("partitionId", uint64(l.PartitionID))
		o.str("group", l.Group)
		o.strOrNull("workerId", l.Worker)
		o.count("firstOffset", uint64(l.First))
		o.count("endOffset", uint64(l.End))
		o.count("attempt", uint64(l.Attempt))
		o.time("expiresAt", l.Expires)
		o.close('}')
	}
	o.close(']')
	o.bool("truncated", truncated)
	o.close('}')
	c.send(200, o.b)
	return nil
}

// release answers POST /api/v1/lease/:leaseId/release: 200 always, as an extension is.
func release(c *call) error {
	lease, err := c.name(0)
	if err != nil {
		return err
	}
	released, acked, err := c.release(lease)
	if err != nil {
		return err
	}
	o := out{c.buffer()}
	o.open('{')
	o.str("leaseId", lease)
	o.bool("success", released > 0)
	switch {
	case acked:
		o.null("released")
		o.str("reason", "acked")
	case released == 0:
		o.count("released", 0)
		o.str("reason", "over")
	default:
		o.count("released", released)
		o.null("reason")
	}
	o.close('}')
	c.send(200, o.b)
	return nil
}

// release hands a lease back and counts the partitions. acked says that on one of them a message was settled, so that it
// stays leased; how many of the others were handed back is not known then.
func (c *call) release(lease string) (released uint64, acked bool, err error) {
	if _, ok := format.ParseUUID(lease); !ok {
		return 0, false, nil // no lease has such an id
	}
	ctx, cancel := c.deadline(writeDeadline)
	defer cancel()
	res, err := c.engine.Do(ctx, c.caller, engine.Batch{Ops: []engine.Op{&engine.Release{Lease: lease}}})
	if err != nil {
		return 0, false, err
	}
	switch e := res[0].Err; {
	case e == nil:
		return res[0].Rows, false, nil
	case e.Code == engine.CodeLeaseInvalid:
		return 0, true, nil
	default:
		return 0, false, e
	}
}
