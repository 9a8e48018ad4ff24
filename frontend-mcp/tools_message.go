package frontendmcp

import (
	"strconv"
	"time"

	"queen/engine"
	"queen/engine/format"
)

func messageTools() []*tool {
	return []*tool{
		row(tool{name: "message_peek", title: "Peek at messages", toolset: "messages",
			text: "Messages of one partition by offset or time. Takes no lease and moves no cursor."}, peek),
	}
}

type peekArgs struct {
	Queue     string `json:"queue"`
	Partition string `json:"partition"`
	From      string `json:"from,omitempty" jsonschema:"an offset in digits, an RFC 3339 time, first (default) or last"`
	Limit     int    `json:"limit,omitempty" jsonschema:"messages at most, 1 to 20; default 5"`
	MaxBytes  int    `json:"max_bytes,omitempty" jsonschema:"size of the answer at most, 2048 to 131072; default 32768"`
	Fields    string `json:"fields,omitempty" jsonschema:"payload (default) or meta, which leaves payloads out"`
}

type peekResult struct {
	Meta
	Messages      []messageRow `json:"messages"`
	NextOffset    string       `json:"next_offset" jsonschema:"from for what comes after these"`
	LowWatermark  string       `json:"low_watermark"`
	HighWatermark string       `json:"high_watermark"`
}

func peek(c *call, in peekArgs) (out peekResult, err error) {
	limit, err := oneOf("limit", in.Limit, 5, 1, 20)
	if err == nil {
		err = c.setRoom(in.MaxBytes)
	}
	if err != nil {
		return out, err
	}
	meta := in.Fields == "meta"
	if !meta && in.Fields != "" && in.Fields != "payload" {
		return out, badArgument("fields", "fields is neither meta nor payload")
	}
	from, err := c.offsetOf(in.Queue, in.Partition, in.From, limit)
	if err != nil {
		return out, err
	}
	res, err := c.engine.Read(c.ctx, c.caller, engine.ReadRequest{
		At: []engine.Position{{Queue: in.Queue, Partition: in.Partition, Offset: from, MaxBytes: 1 << 20}}})
	if err != nil {
		return out, err
	}
	part := &res.Parts[0]
	if part.Err != nil {
		return out, part.Err
	}
	out.Meta, out.Messages = c.meta(), []messageRow{}
	out.Untrusted = true
	next := from
	for i := range part.Records {
		if len(out.Messages) == limit {
			break
		}
		row, ok := c.messageRowOf(in.Queue, &part.Records[i], meta, len(out.Messages) == 0)
		if !ok {
			c.cut(&out.Meta, -1, "go on with next_offset as from")
			break
		}
		out.Messages = append(out.Messages, row)
		next = part.Records[i].Offset + 1
	}
	out.NextOffset, out.LowWatermark, out.HighWatermark = digits(uint64(next)), digits(uint64(part.Start)), digits(uint64(part.End))
	return out, nil
}

// offsetOf finds where to read: words, an offset, or a time. last means the last n messages.
func (c *call) offsetOf(queue, partition, from string, n int) (format.Offset, error) {
	q := engine.OffsetQuery{Queue: queue, Partition: partition, Kind: engine.Earliest}
	switch at, number := strconv.ParseUint(from, 10, 63); {
	case number == nil:
		return format.Offset(at), nil
	case from == "" || from == "first":
	case from == "last":
		q.Kind = engine.Latest
	default:
		when, err := time.Parse(time.RFC3339Nano, from)
		if err != nil {
			return 0, badArgument("from", "from is neither an offset in digits, nor an RFC 3339 time, nor first or last")
		}
		q.Kind, q.Time = engine.AtTime, format.Wall(when.UnixMicro())
	}
	answers, err := c.engine.Offsets(c.ctx, c.caller, []engine.OffsetQuery{q})
	if err != nil {
		return 0, err
	}
	a := &answers[0]
	switch {
	case a.Err != nil:
		return 0, a.Err
	case q.Kind == engine.Latest:
		return max(a.End-min(format.Offset(n), a.End), a.Start), nil
	case q.Kind == engine.AtTime && !a.Found:
		return a.End, nil
	case q.Kind == engine.Earliest:
		return a.Start, nil
	}
	return a.Offset, nil
}
