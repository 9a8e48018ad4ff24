package frontendhttp

import (
	"encoding/json"

	"queen/engine"
	"queen/engine/format"
)

// instant is a time in the body of a read: milliseconds since the epoch, or ISO-8601.
type instant struct {
	at  format.Wall
	set bool
}

// maxMillis keeps milliseconds within what microseconds can count.
const maxMillis = 1 << 53

// UnmarshalJSON reads either form.
func (t *instant) UnmarshalJSON(b []byte) error {
	if isNull(b) {
		return nil
	}
	var (
		s  string
		ms int64
	)
	if json.Unmarshal(b, &ms) == nil && ms > -maxMillis && ms < maxMillis {
		t.at, t.set = format.Wall(ms*1000), true
		return nil
	}
	if json.Unmarshal(b, &s) == nil {
		if t.at, t.set = parseInstant(s); t.set {
			return nil
		}
	}
	return &json.UnmarshalTypeError{Value: "value that is no instant", Field: "a time"}
}

// fetchOffsets answers POST /api/v1/fetch/offsets: the first message at or after a time (S-fetch-7).
func fetchOffsets(c *call) error {
	var in struct {
		Entries *[]struct {
			Queue     *string       `json:"queue"`
			Partition partitionName `json:"partition"`
			Timestamp instant       `json:"timestamp"`
		} `json:"entries"`
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	if in.Entries == nil {
		return badBody("entries is missing")
	}
	if err := entryCount(len(*in.Entries)); err != nil {
		return err
	}
	queries := make([]engine.OffsetQuery, 0, len(*in.Entries))
	for _, e := range *in.Entries {
		switch {
		case e.Queue == nil:
			return badRequest("an entry has no queue")
		case !e.Timestamp.set:
			return badRequest("an entry has no timestamp")
		}
		queries = append(queries, engine.OffsetQuery{Queue: *e.Queue, Partition: e.Partition.or(),
			Kind: engine.AtTime, Time: e.Timestamp.at})
	}
	ctx, cancel := c.deadline(readDeadline)
	defer cancel()
	answers, err := c.engine.Offsets(ctx, c.caller, queries)
	if err != nil {
		return err
	}
	o := out{c.buffer()}
	o.open('{').key("entries").open('[')
	for i := range answers {
		o.offsetAnswer(&queries[i], &answers[i])
	}
	o.close(']').close('}')
	c.send(200, o.b)
	return nil
}

func (o *out) offsetAnswer(q *engine.OffsetQuery, a *engine.OffsetAnswer) {
	o.open('{')
	o.str("queue", q.Queue)
	o.str("partition", q.Partition)
	if a.Err != nil {
		o.str("error", readError(a.Err))
	}
	if a.Found && a.Err == nil {
		o.count("offset", uint64(a.Offset))
		o.time("ts", a.CreatedAt)
	} else {
		o.null("offset")
		o.null("ts")
	}
	o.count("highWatermark", uint64(a.End))
	o.count("logStartOffset", uint64(a.Start))
	o.close('}')
}

// maxChanged bounds a page of changed partitions.
const maxChanged = 1000

// changedEntry asks about one queue.
type changedEntry struct {
	Queue *string `json:"queue"`
	Since instant `json:"since"`
	After *string `json:"after"`
	Limit *int64  `json:"limit"`
}

// changed answers POST /api/v1/partitions/changed (S-fetch-8). safeTime is read before the listing: whatever is
// written later has a later stamp, so asking again from there misses nothing.
func changed(c *call) error {
	var in struct {
		Entries *[]changedEntry `json:"entries"`
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	if in.Entries == nil {
		return badBody("entries is missing")
	}
	if err := entryCount(len(*in.Entries)); err != nil {
		return err
	}
	ctx, cancel := c.deadline(readDeadline)
	defer cancel()
	over, err := c.engine.Inspect().Overview(ctx, c.caller)
	if err != nil {
		return err
	}
	o := out{c.buffer()}
	o.open('{')
	o.time("safeTime", max(over.SweptAt, 1))
	o.bool("safeTimeDegraded", over.SweptAt == 0)
	o.key("entries").open('[')
	for _, e := range *in.Entries {
		if e.Queue == nil {
			return badRequest("an entry has no queue")
		}
		page := engine.Page{Limit: maxChanged}
		if e.Limit != nil {
			page.Limit = int(min(max(*e.Limit, 1), maxChanged))
		}
		if e.After != nil {
			page.After = *e.After
		}
		rows, next, err := c.engine.Catalog().Partitions(ctx, c.caller, *e.Queue, e.Since.at, page)
		if err := o.changed(*e.Queue, rows, next, err); err != nil {
			return err
		}
	}
	o.close(']').close('}')
	c.send(200, o.b)
	return nil
}

func (o *out) changed(queue string, rows []engine.PartitionInfo, next string, err error) error {
	o.open('{')
	o.str("queue", queue)
	if err != nil {
		switch asEngineError(err).Code {
		case engine.CodeUnknownQueue:
			o.str("error", "UNKNOWN_TOPIC_OR_PARTITION")
		case engine.CodeBadRequest:
			o.str("error", "BAD_CURSOR")
		default:
			return err
		}
	}
	o.key("partitions").open('[')
	for i := range rows {
		p := &rows[i]
		o.open('{')
		o.id("id", uint64(p.ID))
		o.str("name", p.Name)
		o.num("lastOffset", int64(p.End)-1)
		o.count("logStart", uint64(p.Start))
		o.time("lastWriteAt", p.LastWriteAt)
		o.close('}')
	}
	o.close(']')
	o.strOrNull("next", next)
	o.close('}')
	return nil
}
