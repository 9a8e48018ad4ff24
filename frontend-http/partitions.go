package frontendhttp

import (
	"fmt"

	"queen/engine"
	"queen/engine/format"
)

// partitionRoutes are those that upstream does not have.
func partitionRoutes() []*route {
	return []*route{{Method: "POST", Path: "/api/v1/partitions/purge", Access: admin, Mark: additional,
		Summary: "Remove the messages of a partition, those before an offset or all that are there. Its offsets and dead letters stay.",
		Request: "PartitionPurge", Response: "PartitionPurged", Status: 200, Handle: purgePartition}}
}

// purgePartition answers POST /api/v1/partitions/purge. What is pushed while it is under way is not removed.
func purgePartition(c *call) error {
	var in struct {
		Queue     *string        `json:"queue"`
		Partition string         `json:"partition"`
		Before    *format.Offset `json:"before"`
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	switch {
	case in.Queue == nil:
		return badRequest("queue is required")
	case in.Partition == "":
		return badRequest("partition is required")
	}
	ctx, cancel := c.deadline(writeDeadline)
	defer cancel()
	p, err := c.engine.Catalog().Partition(ctx, c.caller, *in.Queue, in.Partition)
	if err != nil {
		return err
	}
	before := p.End
	if in.Before != nil {
		before = *in.Before
	}
	if before > p.End {
		return &engine.Error{Code: engine.CodeOffsetOutOfRange, Field: "before",
			Message: fmt.Sprintf("before is above %d, which is what the next message of the partition gets", p.End)}
	}
	at := engine.FetchAt{Queue: *in.Queue, Partition: in.Partition, Offset: before}
	res, err := c.engine.Records().DeleteRecords(ctx, c.caller, []engine.FetchAt{at})
	if err == nil && res[0].Err != nil {
		err = res[0].Err
	}
	if err != nil {
		return err
	}
	o := out{c.buffer()}
	o.open('{')
	o.str("queue", *in.Queue)
	o.str("partition", in.Partition)
	o.count("deleted", uint64(before-min(p.Start, before)))
	o.count("logStartOffset", uint64(res[0].Offset))
	o.close('}')
	c.send(200, o.b)
	return nil
}
