package frontendmcp

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"unicode/utf8"

	"queen/engine"
	"queen/engine/batch"
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
	Key           *string     `json:"key,omitempty" jsonschema:"of a Kafka client's record; base64: in front of what is no text"`
	Headers       []headerRow `json:"headers,omitempty"`
	HeadersCut    bool        `json:"headers_truncated,omitempty"`
	Size          int         `json:"size"`
	SHA256        string      `json:"sha256,omitempty" jsonschema:"of the payload; left out of a masked one"`
	Encoding      string      `json:"encoding,omitempty" jsonschema:"of payload: json and utf8 are its very bytes, base64 is of other bytes"`
	Payload       *string     `json:"payload,omitempty" jsonschema:"left out where a record's value is null"`
	Cut           bool        `json:"payload_truncated,omitempty"`
	Masked        bool        `json:"payload_masked,omitempty" jsonschema:"the operator hides parts of it, or all of one that is no JSON"`
}

// content is a message as it is meant: of the JSON form of a Kafka client's record, the record.
type content struct {
	key     []byte // nil for none
	headers []headerRow
	payload []byte // nil where a record's value is null, or all of it is hidden
	stored  []byte // the payload with nothing hidden
	masked  bool
}

// contentOf reads a message of a queue, with what its operator hides left out.
func (f *Frontend) contentOf(queue string, r *engine.Record) content {
	c := content{payload: r.Payload}
	for _, h := range r.Headers {
		c.headers = append(c.headers, headerRow{h.Name, textOrBase64(h.Value)})
	}
	if record, ok := batch.ParseEnvelope(r.Payload); ok {
		c.key, c.payload = record.Key, record.Value
		for _, h := range record.Headers {
			c.headers = append(c.headers, headerRow{textOrBase64(h.Key), textOrBase64(h.Value)})
		}
	}
	if c.stored = c.payload; c.stored != nil {
		c.payload, c.masked = f.opts.Masks.Value(queue, c.stored)
	}
	return c
}

// messageRowOf renders a message of a queue into what is left of the room; false when it does not fit. The first one always
// does: its headers and its payload are cut. meta leaves payloads out.
func (c *call) messageRowOf(queue string, r *engine.Record, meta, first bool) (messageRow, bool) {
	m := c.f.contentOf(queue, r)
	row := messageRow{Offset: digits(uint64(r.Offset)), ID: r.ID.String(), TransactionID: r.TransactionID, CreatedAt: timeText(r.CreatedAt),
		Producer: r.ProducerSub, ContentType: r.ContentType, Headers: m.headers, Size: len(m.stored), Masked: m.masked}
	if !m.masked {
		sum := sha256.Sum256(m.stored)
		row.SHA256 = hex.EncodeToString(sum[:]) // of few possible values the sum tells which: a masked one has none
	}
	if !r.TraceID.IsZero() {
		row.TraceID = r.TraceID.String()
	}
	if m.key != nil {
		key := textOrBase64(m.key)
		row.Key = &key
	}
	room := c.room
	if !meta && m.payload != nil {
		row.show(m.payload, len(m.payload))
	}
	switch {
	case c.take(row):
		return row, true
	case !first:
		return row, false
	}
	row.Payload, row.Encoding = nil, ""
	if c.room = room; !c.take(row) {
		row.Headers, row.HeadersCut, row.Key = nil, len(row.Headers) > 0, nil
	}
	if meta || m.payload == nil {
		return row, true
	}
	for n := len(m.payload) / 2; ; n /= 2 {
		c.room = room
		if row.show(m.payload, n); c.take(row) || n == 0 {
			return row, true
		}
	}
}

// show puts the first n bytes of a payload into a row, or a few less where the n-th is within a character.
func (r *messageRow) show(payload []byte, n int) {
	r.Encoding = encodingOf(payload)
	if r.Cut = n < len(payload); r.Cut && r.Encoding == "json" {
		r.Encoding = "utf8" // a part of it is no JSON
	}
	part := payload[:n]
	if r.Encoding == "base64" {
		part = base64.StdEncoding.AppendEncode(nil, part)
	}
	for len(part) > 0 && !utf8.Valid(part) {
		part = part[:len(part)-1]
	}
	text := string(part)
	r.Payload = &text
}

// encodingOf tells how a payload can be shown without losing a byte.
func encodingOf(payload []byte) string {
	switch {
	case !utf8.Valid(payload):
		return "base64"
	case json.Valid(payload):
		return "json"
	}
	return "utf8"
}

// textOrBase64 is a text, or the base64 of bytes that are none behind a mark.
func textOrBase64(v []byte) string {
	if utf8.Valid(v) {
		return string(v)
	}
	return "base64:" + base64.StdEncoding.EncodeToString(v)
}
