package frontendhttp

import (
	"encoding/json"
	"net/url"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"

	"queen/engine"
	"queen/engine/format"
	"queen/engine/mask"
)

const (
	maxEntries      = 1024
	defaultMaxBytes = 1 << 20
	mostMaxBytes    = 8 << 20
	maxFetchWait    = 30 * time.Second
	// maxCallBytes bounds the payload bytes of a whole answer, whatever its entries ask for.
	maxCallBytes = 64 << 20
)

// partitionName is a partition in the body of a read: a string, a number, or absent.
type partitionName string

// UnmarshalJSON keeps a number's digits as the name.
func (p *partitionName) UnmarshalJSON(b []byte) error {
	switch {
	case isNull(b):
		return nil
	case b[0] == '"':
		return json.Unmarshal(b, (*string)(p))
	}
	var n json.Number
	if err := json.Unmarshal(b, &n); err != nil {
		return &json.UnmarshalTypeError{Value: "value of this type", Field: "partition"}
	}
	*p = partitionName(n)
	return nil
}

func (p partitionName) or() string {
	if p == "" {
		return format.DefaultPartition
	}
	return string(p)
}

type fetchEntry struct {
	Queue     *string       `json:"queue"`
	Partition partitionName `json:"partition"`
	Offset    *int64        `json:"offset"`
	MaxBytes  *int64        `json:"maxBytes"`
}

// entryCount holds a read to its limit.
func entryCount(n int) error {
	if n > maxEntries {
		return badRequest("more than 1024 entries")
	}
	return nil
}

// fetch answers POST /api/v1/fetch; with maxWaitMs it parks until minBytes are there (S-fetch-5).
func fetch(c *call) error {
	var in struct {
		Entries   *[]fetchEntry `json:"entries"`
		MaxWaitMs int64         `json:"maxWaitMs"`
		MinBytes  *int64        `json:"minBytes"`
		MaxBytes  *int64        `json:"maxBytes"`
		Masked    bool          `json:"masked"`
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	if in.Entries == nil {
		return badBody("entries is missing")
	}
	entries := *in.Entries
	if err := entryCount(len(entries)); err != nil {
		return err
	}
	r := engine.ReadRequest{MinBytes: 1, At: make([]engine.Position, len(entries))}
	if in.MinBytes != nil {
		r.MinBytes = int(min(max(*in.MinBytes, 0), mostMaxBytes*maxEntries))
	}
	r.Wait = time.Duration(min(max(in.MaxWaitMs, 0), maxFetchWait.Milliseconds())) * time.Millisecond
	for i, e := range entries {
		at, err := e.position()
		if err != nil {
			return err
		}
		r.At[i] = at
	}
	budget := maxCallBytes
	if in.MaxBytes != nil {
		budget = int(min(max(*in.MaxBytes, 1), maxCallBytes))
	}
	parts, err := c.readWithin(r, budget)
	if err != nil {
		return err
	}
	o := out{c.buffer()}
	o.open('{').key("entries").open('[')
	for i := range parts {
		o.fetched(c.masks(in.Masked), &r.At[i], &parts[i])
	}
	o.close(']').close('}')
	c.send(200, o.b)
	return nil
}

func (e *fetchEntry) position() (engine.Position, error) {
	switch {
	case e.Queue == nil:
		return engine.Position{}, badRequest("an entry has no queue")
	case e.Offset == nil || *e.Offset < 0:
		return engine.Position{}, badRequest("offset must be 0 or more")
	}
	size := int64(defaultMaxBytes)
	if e.MaxBytes != nil {
		size = min(max(*e.MaxBytes, 1), mostMaxBytes)
	}
	return engine.Position{Queue: *e.Queue, Partition: e.Partition.or(), Offset: format.Offset(*e.Offset),
		MaxBytes: int(size)}, nil
}

// readWithin reads without waiting first. Only when that gave less than what the caller waits for does it park, on all
// entries at once and with the budget shared among them.
func (c *call) readWithin(r engine.ReadRequest, budget int) ([]engine.PartitionRead, error) {
	now := r
	now.Wait = 0
	parts, err := c.readInTurn(now, budget)
	if err != nil || r.Wait == 0 || enough(parts, r.MinBytes) {
		return parts, err
	}
	for i := range r.At {
		r.At[i].MaxBytes = min(r.At[i].MaxBytes, max(budget/len(r.At), 1))
	}
	res, err := c.read(r)
	if err != nil {
		return nil, err
	}
	return res.Parts, nil
}

// enough reports whether waiting is over: the bytes are there, or an entry failed, or there is nothing to wait for.
func enough(parts []engine.PartitionRead, least int) bool {
	total := 0
	for i := range parts {
		if parts[i].Err != nil {
			return true
		}
		total += payloadBytes(&parts[i])
	}
	return len(parts) == 0 || total >= least
}

func payloadBytes(p *engine.PartitionRead) (n int) {
	for i := range p.Records {
		n += len(p.Records[i].Payload)
	}
	return n
}

// readInTurn reads entry after entry while the budget lasts; those after it have no records, and the caller asks again.
func (c *call) readInTurn(r engine.ReadRequest, budget int) ([]engine.PartitionRead, error) {
	parts := make([]engine.PartitionRead, 0, len(r.At))
	for len(parts) < len(r.At) && (budget > 0 || len(parts) == 0) {
		rest, n, asked := r.At[len(parts):], 0, 0
		for n < len(rest) && (n == 0 || asked+rest[n].MaxBytes <= budget) {
			asked += rest[n].MaxBytes
			n++
		}
		if n == 1 {
			rest[0].MaxBytes = min(rest[0].MaxBytes, budget)
		}
		res, err := c.read(engine.ReadRequest{At: rest[:n]})
		if err != nil {
			return nil, err
		}
		for i := range res.Parts {
			budget -= payloadBytes(&res.Parts[i])
		}
		parts = append(parts, res.Parts...)
	}
	return c.bounds(parts, r.At)
}

// bounds completes an answer with where the entries without a turn begin and end.
func (c *call) bounds(parts []engine.PartitionRead, at []engine.Position) ([]engine.PartitionRead, error) {
	if len(parts) == len(at) {
		return parts, nil
	}
	var queries []engine.OffsetQuery
	for _, p := range at[len(parts):] {
		queries = append(queries, engine.OffsetQuery{Queue: p.Queue, Partition: p.Partition, Kind: engine.Earliest})
	}
	ctx, cancel := c.deadline(readDeadline)
	defer cancel()
	answers, err := c.engine.Offsets(ctx, c.caller, queries)
	if err != nil {
		return nil, err
	}
	for _, a := range answers {
		parts = append(parts, engine.PartitionRead{Err: a.Err, Start: a.Start, End: a.End})
	}
	return parts, nil
}

// read parks like a pop: it ends when the client hangs up or the node drains.
func (c *call) read(r engine.ReadRequest) (*engine.ReadResult, error) {
	ctx, cancel := c.deadline(readDeadline + r.Wait)
	defer cancel()
	if r.Wait > 0 {
		parked, unpark := c.conn().ParkContext(c.f.stopping)
		defer unpark()
		ctx = parked
		c.unmeasured = true
		c.f.parked.Add(1)
		defer c.f.parked.Add(-1)
	}
	return c.engine.Read(ctx, c.caller, r)
}

// masks are those of a read by offset, which serves consumers as well as people: they hold where the call says that it looks, and
// for callers that may look only.
func (c *call) masks(looks bool) *mask.Set {
	if looks || !c.consumes {
		return c.f.opts.Masks
	}
	return nil
}

func (o *out) fetched(masks *mask.Set, at *engine.Position, p *engine.PartitionRead) {
	o.open('{')
	o.str("queue", at.Queue)
	o.str("partition", at.Partition)
	if p.Err != nil {
		o.str("error", readError(p.Err))
	}
	o.key("records").open('[')
	for i := range p.Records {
		r := &p.Records[i]
		o.open('{')
		o.count("offset", uint64(r.Offset))
		o.str("transactionId", r.TransactionID)
		s := show(masks, at.Queue, r)
		o.shown("payload", &s)
		o.time("ts", r.CreatedAt)
		o.close('}')
	}
	o.close(']')
	o.count("highWatermark", uint64(p.End))
	o.count("logStartOffset", uint64(p.Start))
	o.close('}')
}

// fetchRaw answers GET /api/v1/fetch/raw: one message's bytes as they were pushed, or what the operator shows of them, which a header
// tells.
func fetchRaw(c *call) error {
	q := c.query()
	at := engine.Position{Queue: q.text("queue"), Partition: partitionName(q.text("partition")).or(), MaxBytes: 1}
	offset, looks := q.integer("offset", -1), q.boolean("masked")
	switch {
	case q.err != nil:
		return q.err
	case !q.has("queue"):
		return badRequest("query parameter queue is missing")
	case offset < 0:
		return badRequest("query parameter offset must be 0 or more")
	}
	at.Offset = format.Offset(offset)
	res, err := c.read(engine.ReadRequest{At: []engine.Position{at}})
	if err != nil {
		return err
	}
	p := &res.Parts[0]
	switch {
	case p.Err != nil:
		return p.Err
	case len(p.Records) == 0:
		return notFound("no message at this offset")
	}
	r := show(c.masks(looks), at.Queue, &p.Records[0])
	h := &c.ctx.Response.Header
	if r.masked {
		if r.Payload == nil {
			return &refusal{status: fiber.StatusForbidden, code: "masked", text: "mcp.mask hides parts of the queue's payloads, and of one that is no JSON all"}
		}
		h.Set("Queen-Payload-Masked", "true")
	}
	setMessageHeaders(h, r.Headers)
	h.Set("Queen-Offset", strconv.FormatUint(uint64(r.Offset), 10))
	h.Set("Queen-Transaction-Id", url.PathEscape(r.TransactionID))
	kind := r.ContentType
	switch {
	case kind == "":
		kind = jsonType
	case !plainHeader(kind):
		kind = binaryType
	}
	c.send(200, append(c.buffer(), r.Payload...))
	c.ctx.SetContentType(kind)
	return nil
}
