package frontendhttp

import (
	"queen/engine"
	"queen/engine/format"
)

func redriveRoutes() []*route {
	return []*route{
		{Method: "POST", Path: "/api/v1/dlq/redrive", Access: readWrite, Mark: additional,
			Summary: "Start a job that moves dead letters of a queue back to their partitions, oldest failure first; " +
				"with target group-only each is for the consumer group that gave it up, else for all. " +
				"With dryRun tell at once, with status 200, what it would move.",
			Request: "Redrive", Response: "RedriveJob", Status: 202, Also: map[int]string{200: "RedriveJob"}, Keyed: true, Handle: startRedrive},
		{Method: "GET", Path: "/api/v1/dlq/redrive/:id", Access: readOnly, Mark: additional,
			Summary: "Tell how far a job is that moves dead letters.", Response: "RedriveJob", Status: 200, Handle: redriveJob},
	}
}

// operations is the operator's door of the node.
func (c *call) operations() (engine.Operations, error) {
	o, ok := engine.OperationsOf(c.engine)
	if !ok {
		return nil, &engine.Error{Code: engine.CodeNotBuilt, Message: "this node has no such operation"}
	}
	return o, nil
}

// startRedrive answers POST /api/v1/dlq/redrive.
func startRedrive(c *call) error {
	var in struct {
		Queue         *string `json:"queue"`
		ConsumerGroup string  `json:"consumerGroup"`
		Error         string  `json:"error"`
		From          string  `json:"from"`
		To            string  `json:"to"`
		RatePerSecond *int    `json:"ratePerSecond"`
		Target        *string `json:"target"`
		DryRun        bool    `json:"dryRun"`
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	r := engine.RedriveRequest{Group: in.ConsumerGroup, Error: in.Error}
	if in.Queue == nil {
		return badRequest("queue is required")
	}
	r.Queue = *in.Queue
	if err := checkNames(len(r.Queue), len(r.Group)); err != nil {
		return err
	}
	for _, at := range []struct {
		name, text string
		to         *format.Wall
	}{{"from", in.From, &r.From}, {"to", in.To, &r.To}} {
		ok := at.text == ""
		if !ok {
			*at.to, ok = parseInstant(at.text)
		}
		if !ok {
			return badRequest(at.name + " must be an ISO-8601 instant")
		}
	}
	if in.RatePerSecond != nil {
		if r.PerSecond = *in.RatePerSecond; r.PerSecond <= 0 {
			return badRequest("ratePerSecond must be above 0")
		}
	}
	var err error
	if r.GroupOnly, err = groupOnly(in.Target); err != nil {
		return err
	}
	return c.redriveMany(r, in.DryRun)
}

// Targets of a move: who is handed the copies.
const (
	targetAll       = "all"
	targetGroupOnly = "group-only"
)

// groupOnly reads target, which is everybody unless it says otherwise.
func groupOnly(target *string) (bool, error) {
	if target == nil || *target == targetAll {
		return false, nil
	}
	if *target != targetGroupOnly {
		return false, badRequest("target must be " + targetAll + " or " + targetGroupOnly)
	}
	return true, nil
}

func (c *call) redriveMany(r engine.RedriveRequest, dry bool) error {
	ops, err := c.operations()
	if err != nil {
		return err
	}
	ctx, cancel := c.deadline(writeDeadline)
	defer cancel()
	if !dry {
		j, err := ops.StartRedrive(ctx, c.caller, r)
		if err != nil {
			return err
		}
		c.redriveStands(202, &j)
		return nil
	}
	count, err := ops.CountRedrive(ctx, c.caller, r)
	if err != nil {
		return err
	}
	o := out{c.buffer()}
	o.open('{')
	o.redriveRequest(&r, true, count.Count, count.AtLeast)
	o.key("sample").open('[')
	for i := range count.Sample {
		o.deadLetter(c.f.opts.Masks, &count.Sample[i])
	}
	o.close(']').close('}')
	c.send(200, o.b)
	return nil
}

func (o *out) redriveRequest(r *engine.RedriveRequest, dry bool, total uint64, minimum bool) {
	o.bool("dryRun", dry)
	o.str("queue", r.Queue)
	o.strOrNull("consumerGroup", r.Group)
	o.strOrNull("error", r.Error)
	if r.PerSecond == 0 {
		o.null("ratePerSecond")
	} else {
		o.num("ratePerSecond", int64(r.PerSecond))
	}
	if r.GroupOnly {
		o.str("target", targetGroupOnly)
	} else {
		o.str("target", targetAll)
	}
	o.count("total", total)
	o.bool("totalIsMinimum", minimum)
}

// redriveStates are the states' names on the wire.
var redriveStates = map[engine.RedriveState]string{engine.RedriveRunning: "running", engine.RedriveDone: "done",
	engine.RedriveFailed: "failed"}

// redriveStands answers with a job as it stands.
func (c *call) redriveStands(status int, j *engine.RedriveJob) {
	o := out{c.buffer()}
	o.open('{')
	o.str("id", j.ID)
	o.redriveRequest(&j.RedriveRequest, false, j.Total, j.AtLeast)
	o.str("state", redriveStates[j.State])
	o.time("createdAt", j.Created)
	o.time("endedAt", j.Ended)
	o.count("moved", j.Moved)
	o.count("duplicates", j.Duplicates)
	o.count("failed", j.Failed)
	o.count("gone", j.Gone)
	o.count("remaining", j.Remaining())
	o.strOrNull("lastError", j.LastError)
	o.close('}')
	c.send(status, o.b)
}

// redriveJob answers GET /api/v1/dlq/redrive/:id.
func redriveJob(c *call) error {
	id, err := c.name(0)
	if err != nil {
		return err
	}
	ops, err := c.operations()
	if err != nil {
		return err
	}
	ctx, cancel := c.deadline(readDeadline)
	defer cancel()
	j, err := ops.RedriveJob(ctx, c.caller, id)
	if err != nil {
		return err
	}
	c.redriveStands(200, &j)
	return nil
}
