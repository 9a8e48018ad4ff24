package frontendhttp

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"sort"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"queen/engine"
	"queen/engine/format"
)

// Traces are what an application notes about messages (S-trc-1 to 3). Each is a row of the key-value store under the
// address of its message, and one more under each of its names; both go away after seven days.
const (
	traceNamespace     = "~traces"
	traceNameNamespace = "~trace-names"
	traceKeep          = 7 * 24 * time.Hour
	// maxTraceKey bounds a transaction id and a name, maxTraceNames the names of one trace.
	maxTraceKey   = 511
	maxTraceNames = 32
	// maxTraceRows bounds the rows that one listing looks at.
	maxTraceRows = 100_000
)

func traceRoutes() []*route {
	page := []param{{Name: "limit", Type: "integer"}, {Name: "offset", Type: "integer"}}
	return []*route{
		{Method: "POST", Path: "/api/v1/traces", Access: readWrite, Mark: common, Summary: "Note something about a message.",
			Request: "Trace", Response: "TraceMade", Status: 201, Op: "traces", Handle: trace},
		{Method: "GET", Path: "/api/v1/traces/names", Access: readOnly, Mark: operator, Summary: "List the names of traces.",
			Query: page, Response: "TraceNames", Status: 200, Handle: traceNames},
		{Method: "GET", Path: "/api/v1/traces/by-name/*traceName", Access: readOnly, Mark: operator,
			Summary: "List the traces of one name, newest first.", Query: page, Response: "TracesByName", Status: 200,
			Handle: tracesByName, split: everything},
		{Method: "GET", Path: "/api/v1/traces/:partitionId/:transactionId", Access: readOnly, Mark: operator,
			Summary: "List the traces of one message, oldest first.", Response: "Traces", Status: 200,
			Handle: tracesOf, split: address("")},
	}
}

// storedTrace is the row of a trace.
type storedTrace struct {
	ID        string          `json:"id"`
	Partition string          `json:"partition"`
	Message   string          `json:"message"`
	Type      string          `json:"type"`
	Group     string          `json:"group,omitempty"`
	Worker    string          `json:"worker,omitempty"`
	At        format.Wall     `json:"at"`
	Names     []string        `json:"names,omitempty"`
	Data      json.RawMessage `json:"data"`
}

// traceAddress is the prefix of a message's traces: ids of any bytes, in a key of bounded length.
func traceAddress(partition, message string) string {
	sum := xxh3.HashString128(message).Bytes()
	return partition + "/" + hex.EncodeToString(sum[:]) + "/"
}

// trace answers POST /api/v1/traces. Nothing checks that the message is there.
func trace(c *call) error {
	var in struct {
		Message   string          `json:"transactionId"`
		Partition string          `json:"partitionId"`
		Group     *string         `json:"consumerGroup"`
		Names     json.RawMessage `json:"traceNames"`
		Type      *string         `json:"eventType"`
		Worker    *string         `json:"workerId"`
		Data      json.RawMessage `json:"data"`
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	if in.Message == "" || in.Partition == "" || in.Data == nil {
		return badRequest("transactionId, partitionId and data are required")
	}
	t := storedTrace{ID: newID(), Partition: in.Partition, Message: in.Message, Type: "info",
		At: format.Wall(c.f.opts.Clock.Now()), Data: compact(in.Data)}
	for _, set := range []struct {
		to   *string
		from *string
	}{{&t.Type, in.Type}, {&t.Group, in.Group}, {&t.Worker, in.Worker}} {
		if set.from != nil {
			*set.to = *set.from
		}
	}
	var err error
	if t.Names, err = traceNameList(in.Names); err != nil {
		return err
	}
	for _, key := range append([]string{in.Message, in.Partition, t.Group, t.Type}, t.Names...) {
		if len(key) > maxTraceKey {
			return &refusal{status: 400, code: "name_too_long", text: "ids and names of a trace are at most 511 bytes"}
		}
	}
	if len(t.Data) > engine.MaxKVValue {
		return &refusal{status: 413, code: "too_large", text: "data exceeds 65536 bytes of compact JSON"}
	}
	ctx, cancel := c.deadline(writeDeadline)
	defer cancel()
	if err := c.putTrace(ctx, &t); err != nil {
		return err
	}
	o := out{c.buffer()}
	o.open('{')
	o.bool("success", true)
	o.str("traceId", t.ID)
	o.close('}')
	c.send(201, o.b)
	return nil
}

// traceNameList reads a name, or an array of them; names that repeat count once.
func traceNameList(raw json.RawMessage) (names []string, err error) {
	if absent(raw) {
		return nil, nil
	}
	if raw[0] == '"' {
		s, ok := jsonObject{{[]byte("n"), raw}}.text("n")
		if !ok {
			return nil, badRequest("traceNames must be a string or an array of strings")
		}
		return []string{s}, nil
	}
	all, err := stringList(raw)
	if err != nil {
		return nil, badRequest("traceNames must be a string or an array of strings")
	}
	seen := map[string]bool{}
	for _, n := range all {
		if n != "" && !seen[n] {
			seen[n] = true
			names = append(names, n)
		}
	}
	if len(names) > maxTraceNames {
		return nil, badRequest("more than 32 trace names")
	}
	return names, nil
}

func (c *call) putTrace(ctx context.Context, t *storedTrace) error {
	value, err := json.Marshal(t)
	if err != nil {
		return err
	}
	row := func(namespace, key string) engine.Op {
		return &engine.KV{Kind: engine.KVPut, Namespace: namespace, Key: key, Value: value, Keep: traceKeep}
	}
	ops := []engine.Op{row(traceNamespace, traceAddress(t.Partition, t.Message)+t.ID)}
	for _, n := range t.Names {
		ops = append(ops, row(traceNameNamespace, nameKey(n)+t.ID))
	}
	_, err = c.engine.Do(ctx, c.caller, engine.Batch{Ops: ops, Atomic: true})
	return err
}

// nameKey is the prefix of a name's traces. The length keeps one name from being the start of another.
func nameKey(name string) string {
	return hex.EncodeToString([]byte{byte(len(name) >> 8), byte(len(name))}) + name + "/"
}

// eachTrace reads the rows below a prefix in key order, at most maxTraceRows of them.
func (c *call) eachTrace(ctx context.Context, namespace, prefix string, visit func(t *storedTrace)) error {
	read := engine.KV{Kind: engine.KVPrefix, Namespace: namespace, Key: prefix, Limit: kvPrefixMax}
	for seen := 0; seen < maxTraceRows; {
		items, err := c.engine.Keyed().KV(ctx, c.caller, []engine.KV{read})
		if err != nil {
			return err
		}
		for i := range items[0].Rows {
			var t storedTrace
			if err := json.Unmarshal(items[0].Rows[i].Value, &t); err != nil {
				return err
			}
			visit(&t)
		}
		if seen += len(items[0].Rows); !items[0].Truncated {
			return nil
		}
		read.After = items[0].Next
	}
	return nil
}

// traceRow writes the members that all listings share.
func (o *out) traceRow(t *storedTrace) {
	o.str("id", t.ID)
	o.str("event_type", t.Type)
	o.raw("data", t.Data)
	o.strOrNull("consumer_group", t.Group)
	o.strOrNull("worker_id", t.Worker)
	o.time("created_at", t.At)
	o.key("trace_names").open('[')
	for _, n := range t.Names {
		o.text(n)
	}
	o.close(']')
}

// tracesOf answers GET /api/v1/traces/:partitionId/:transactionId.
func tracesOf(c *call) error {
	partition, err := c.name(0)
	if err != nil {
		return err
	}
	message, err := c.name(1)
	if err != nil {
		return err
	}
	ctx, cancel := c.deadline(readDeadline)
	defer cancel()
	o := out{c.buffer()}
	o.open('{').key("traces").open('[')
	err = c.eachTrace(ctx, traceNamespace, traceAddress(partition, message), func(t *storedTrace) {
		o.open('{')
		o.traceRow(t)
		o.close('}')
	})
	if err != nil {
		return err
	}
	o.close(']').close('}')
	c.send(200, o.b)
	return nil
}

// tracesByName answers GET /api/v1/traces/by-name/:traceName.
func tracesByName(c *call) error {
	name, err := c.name(0)
	if err != nil {
		return err
	}
	limit, offset, err := c.tracePage(100)
	if err != nil {
		return err
	}
	ctx, cancel := c.deadline(readDeadline)
	defer cancel()
	var all []storedTrace
	if err := c.eachTrace(ctx, traceNameNamespace, nameKey(name), func(t *storedTrace) { all = append(all, *t) }); err != nil {
		return err
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].At > all[j].At })
	o := out{c.buffer()}
	o.open('{').key("traces").open('[')
	for i := offset; i < min(offset+limit, len(all)); i++ {
		t := &all[i]
		o.open('{')
		o.traceRow(t)
		o.str("transaction_id", t.Message)
		o.str("partition_id", t.Partition)
		info, err := c.engine.Catalog().PartitionByID(ctx, c.caller, partitionID(t.Partition))
		if err != nil {
			o.null("queue_name")
			o.null("partition_name")
		} else {
			o.str("queue_name", info.Queue)
			o.str("partition_name", info.Name)
		}
		o.null("message_payload")
		o.close('}')
	}
	o.close(']')
	o.num("total", int64(len(all)))
	o.tracePages(limit, offset)
	c.send(200, o.b)
	return nil
}

func (c *call) tracePage(limit int64) (int, int, error) {
	q := c.query()
	l, o := q.within("limit", limit, 1, maxPage), q.within("offset", 0, 0, maxTraceRows)
	return int(l), int(o), q.err
}

func (o *out) tracePages(limit, offset int) {
	o.key("pagination").open('{')
	o.num("limit", int64(limit))
	o.num("offset", int64(offset))
	o.close('}').close('}')
}

// traceSum is one name's line in the list of names.
type traceSum struct {
	name     string
	traces   map[string]bool
	messages map[string]bool
	last     format.Wall
}

// traceNames answers GET /api/v1/traces/names, the most used first.
func traceNames(c *call) error {
	limit, offset, err := c.tracePage(50)
	if err != nil {
		return err
	}
	ctx, cancel := c.deadline(readDeadline)
	defer cancel()
	sums := map[string]*traceSum{}
	// Every key of the namespace begins with the length of its name, in hexadecimal.
	for high := range 2 {
		prefix := hex.EncodeToString([]byte{byte(high)})
		if err := c.eachTrace(ctx, traceNameNamespace, prefix, func(t *storedTrace) { addTrace(sums, t) }); err != nil {
			return err
		}
	}
	all := make([]*traceSum, 0, len(sums))
	for _, s := range sums {
		all = append(all, s)
	}
	sort.Slice(all, func(i, j int) bool {
		if len(all[i].traces) != len(all[j].traces) {
			return len(all[i].traces) > len(all[j].traces)
		}
		return strings.Compare(all[i].name, all[j].name) < 0
	})
	o := out{c.buffer()}
	o.open('{').key("trace_names").open('[')
	for i := offset; i < min(offset+limit, len(all)); i++ {
		o.open('{')
		o.str("trace_name", all[i].name)
		o.num("trace_count", int64(len(all[i].traces)))
		o.num("message_count", int64(len(all[i].messages)))
		o.time("last_seen", all[i].last)
		o.close('}')
	}
	o.close(']')
	o.num("total", int64(len(all)))
	o.tracePages(limit, offset)
	c.send(200, o.b)
	return nil
}

// addTrace counts a trace under each of its names. It is read once for every name, and counted when it is first met.
func addTrace(sums map[string]*traceSum, t *storedTrace) {
	for _, n := range t.Names {
		s := sums[n]
		if s == nil {
			s = &traceSum{name: n, traces: map[string]bool{}, messages: map[string]bool{}}
			sums[n] = s
		}
		s.traces[t.ID] = true
		s.messages[t.Partition+"/"+t.Message] = true
		s.last = max(s.last, t.At)
	}
}
