package frontendmcp

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"time"
	"unicode/utf8"

	"queen/engine"
	"queen/engine/format"
)

type headerRow struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// messageRow is a message as a reader sees it. Everything in it but offset, times and sizes comes from its producer.
type messageRow struct {
	Offset        string      `json:"offset"`
	ID            string      `json:"id"`
	TransactionID string      `json:"transaction_id"`
	TraceID       string      `json:"trace_id,omitempty"`
	CreatedAt     string      `json:"created_at"`
	Producer      string      `json:"producer,omitempty"`
	ContentType   string      `json:"content_type,omitempty"`
	Headers       []headerRow `json:"headers,omitempty"`
	Size          int         `json:"size"`
	SHA256        string      `json:"sha256"`
	Encoding      string      `json:"encoding,omitempty" jsonschema:"of payload: json and utf8 are its very bytes, base64 is of other bytes"`
	Payload       *string     `json:"payload,omitempty"`
	Cut           bool        `json:"payload_truncated,omitempty"`
}

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
		row, ok := c.messageRowOf(&part.Records[i], meta, len(out.Messages) == 0)
		if !ok {
			out.Truncated = true
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

// messageRowOf renders a message into what is left of the room; false when it does not fit. The first one always
// does: its payload is cut.
func (c *call) messageRowOf(r *engine.Record, meta, first bool) (messageRow, bool) {
	sum := sha256.Sum256(r.Payload)
	row := messageRow{Offset: digits(uint64(r.Offset)), ID: r.ID.String(), TransactionID: r.TransactionID, CreatedAt: timeText(r.CreatedAt),
		Producer: r.ProducerSub, ContentType: r.ContentType, Size: len(r.Payload), SHA256: hex.EncodeToString(sum[:])}
	if !r.TraceID.IsZero() {
		row.TraceID = r.TraceID.String()
	}
	for _, h := range r.Headers {
		row.Headers = append(row.Headers, headerRow{h.Name, headerText(h.Value)})
	}
	if meta {
		return row, c.take(row) || first
	}
	row.Encoding = encodingOf(r)
	text := encoded(row.Encoding, r.Payload)
	row.Payload = &text
	if c.take(row) {
		return row, true
	}
	if !first {
		return row, false
	}
	room := leastRoom / 4 // of the payload's first bytes
	cut := r.Payload[:min(room, len(r.Payload))]
	if row.Encoding != "base64" {
		for len(cut) > 0 && !utf8.Valid(cut) {
			cut = cut[:len(cut)-1]
		}
		if row.Encoding == "json" {
			row.Encoding = "utf8" // a part of it is no JSON
		}
	}
	text = encoded(row.Encoding, cut)
	row.Cut = len(cut) < len(r.Payload)
	return row, true
}

// encodingOf tells how a payload can be shown without losing a byte.
func encodingOf(r *engine.Record) string {
	switch {
	case !utf8.Valid(r.Payload):
		return "base64"
	case json.Valid(r.Payload):
		return "json"
	}
	return "utf8"
}

func encoded(encoding string, payload []byte) string {
	if encoding == "base64" {
		return base64.StdEncoding.EncodeToString(payload)
	}
	return string(payload)
}

// headerText is the value of a header, or its base64 behind a mark when it is no text.
func headerText(v []byte) string {
	if utf8.Valid(v) {
		return string(v)
	}
	return "base64:" + base64.StdEncoding.EncodeToString(v)
}
