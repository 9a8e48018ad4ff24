package frontendhttp

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"queen/engine"
	"queen/engine/format"
)

// The broker's side of stream processing: a registered query, its state rows, and cycles that commit state, sink pushes and
// the ack of the source batch as one entry (S-str-1 to 10). Queries and state are rows of the key-value store, in
// namespaces that no caller can name.
const (
	queryNamespace = "~stream-queries"
	stateNamespace = "~stream-state"
	// streamStateMax bounds what one state/get answers, bytes.
	streamStateMax = 16 << 20
	// cycleOps bounds the state ops, and the pushed items, of one cycle.
	cycleOps = 10_000
)

func streamRoutes() []*route {
	return []*route{
		{Method: "POST", Path: "/streams/v1/queries", Access: readWrite, Mark: common, Summary: "Register a stream query.",
			Request: "StreamQuery", Response: "StreamRegistered", Status: 200, Op: "streams", Handle: registerQuery},
		{Method: "POST", Path: "/streams/v1/state/get", Access: readOnly, Mark: common,
			Summary: "Read state rows of a stream query.", Request: "StreamStateGet", Response: "StreamState", Status: 200,
			Op: "streams", Handle: streamState},
		{Method: "POST", Path: "/streams/v1/cycle", Access: readWrite, Mark: common,
			Summary: "Commit state, sink messages and the source ack of one cycle.", Request: "StreamCycle",
			Response: "StreamCycled", Status: 200, Op: "streams", Handle: cycle},
	}
}

// storedQuery is the row of a query. Epoch is part of the key of every state row: a reset begins a new one.
type storedQuery struct {
	ID     string `json:"id"`
	Source string `json:"source"`
	Sink   string `json:"sink,omitempty"`
	Hash   string `json:"hash"`
	Epoch  uint64 `json:"epoch"`
}

// streamFailure is the family's own body of a call that could not be carried out.
type streamFailure struct {
	status int
	text   string
}

func (f *streamFailure) Error() string { return f.text }

func (c *call) failStream(f *streamFailure) {
	o := out{c.buffer()}
	o.open('{')
	o.bool("success", false)
	o.str("error", f.text)
	o.close('}')
	c.send(f.status, o.b)
}

// registerQuery answers POST /streams/v1/queries: the same hash keeps the state, another one needs reset (S-str-1).
func registerQuery(c *call) error {
	var in struct {
		Name   string `json:"name"`
		Source string `json:"source_queue"`
		Sink   string `json:"sink_queue"`
		Hash   string `json:"config_hash"`
		Reset  bool   `json:"reset"`
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	if in.Name == "" || in.Source == "" || in.Hash == "" {
		return &streamFailure{400, "name, source_queue and config_hash are required"}
	}
	if len(in.Name) > engine.MaxKVKey || strings.IndexByte(in.Name, 0) >= 0 {
		return &streamFailure{400, "name must be at most 512 bytes without NUL"}
	}
	ctx, cancel := c.deadline(writeDeadline)
	defer cancel()
	for {
		was, version, err := c.query1(ctx, in.Name)
		if err != nil {
			return err
		}
		now := storedQuery{ID: was.ID, Source: in.Source, Sink: in.Sink, Hash: in.Hash, Epoch: was.Epoch}
		fresh := version == 0
		reset := !fresh && in.Reset && was.Hash != in.Hash
		switch {
		case fresh:
			now.ID = newID()
		case reset:
			now.Epoch++
		case was.Hash != in.Hash:
			return &streamFailure{409, "the query is registered with another configuration; send reset to start over"}
		}
		done, err := c.putQuery(ctx, in.Name, &now, version)
		if err != nil {
			return err
		}
		if !done {
			continue // another process registered it meanwhile
		}
		if reset {
			if err := c.forgetState(ctx, statePrefix(was.ID, was.Epoch)); err != nil {
				return err
			}
		}
		o := out{c.buffer()}
		o.open('{')
		o.bool("success", true)
		o.str("query_id", now.ID)
		o.str("name", in.Name)
		o.str("config_hash", in.Hash)
		o.bool("fresh", fresh)
		o.bool("reset", reset)
		o.close('}')
		c.send(200, o.b)
		return nil
	}
}

// query1 reads a query's row by name; version 0 means there is none.
func (c *call) query1(ctx context.Context, name string) (q storedQuery, version uint64, err error) {
	items, err := c.engine.Keyed().KV(ctx, c.caller, []engine.KV{{Kind: engine.KVGet, Namespace: queryNamespace, Key: name}})
	if err != nil || !items[0].Found {
		return q, 0, err
	}
	return q, items[0].Row.Version, json.Unmarshal(items[0].Row.Value, &q)
}

// putQuery stores a query under its name and its id, if the row is still at version.
func (c *call) putQuery(ctx context.Context, name string, q *storedQuery, version uint64) (bool, error) {
	value, err := json.Marshal(q)
	if err != nil {
		return false, err
	}
	_, err = c.engine.Do(ctx, c.caller, engine.Batch{Atomic: true, Ops: []engine.Op{
		&engine.KV{Kind: engine.KVPut, Namespace: queryNamespace, Key: name, Value: value, HasExpect: true, Expect: version,
			Required: true},
		&engine.KV{Kind: engine.KVPut, Namespace: queryNamespace, Key: idKey(q.ID), Value: value},
	}})
	var e *engine.Error
	if errors.As(err, &e) && e.Code == engine.CodeKVPrecondition {
		return false, nil
	}
	return err == nil, err
}

// idKey finds a query by id. A tab can not be told from a name, and no id holds one.
func idKey(id string) string { return "\t" + id }

// statePrefix starts the keys of a query's state; the partition and the row's own key follow.
func statePrefix(id string, epoch uint64) string {
	return id + "/" + strconv.FormatUint(epoch, 10) + "/"
}

// forgetState deletes state rows, a page at a time. What a crash leaves behind belongs to no epoch any more.
func (c *call) forgetState(ctx context.Context, prefix string) error {
	for {
		items, err := c.engine.Keyed().KV(ctx, c.caller, []engine.KV{{Kind: engine.KVPrefix, Namespace: stateNamespace,
			Key: prefix, Limit: kvOps, KeysOnly: true}})
		if err != nil || len(items[0].Rows) == 0 {
			return err
		}
		var ops []engine.Op
		for _, r := range items[0].Rows {
			ops = append(ops, &engine.KV{Kind: engine.KVDelete, Namespace: stateNamespace, Key: r.Key})
		}
		if _, err := c.engine.Do(ctx, c.caller, engine.Batch{Atomic: true, Ops: ops}); err != nil {
			return err
		}
	}
}

// streamPartition is what query_id and partition_id name.
type streamPartition struct {
	query  storedQuery
	id     format.PartitionID
	queue  string
	prefix string // of the state rows' keys
}

// streamPartition resolves the ids of a call; ok is false for a query that is not registered.
func (c *call) streamPartition(ctx context.Context, query, partition string) (p streamPartition, ok bool, err error) {
	if query == "" || partition == "" {
		return p, false, &streamFailure{400, "query_id and partition_id are required"}
	}
	p.id = partitionID(partition)
	info, err := c.engine.Catalog().PartitionByID(ctx, c.caller, p.id)
	if err != nil {
		if asEngineError(err).Code == engine.CodeUnknownPartition {
			return p, false, &refusal{status: 404, text: "not found"}
		}
		return p, false, err
	}
	if len(query) > engine.MaxKVKey-1 {
		return p, false, nil
	}
	var version uint64
	if p.query, version, err = c.query1(ctx, idKey(query)); err != nil || version == 0 {
		return p, false, err
	}
	p.queue = info.Queue
	p.prefix = statePrefix(p.query.ID, p.query.Epoch) + partition + "/"
	return p, true, nil
}

// streamState answers POST /streams/v1/state/get: rows that pass every filter, in key order (S-str-2).
func streamState(c *call) error {
	var in struct {
		Query     string   `json:"query_id"`
		Partition string   `json:"partition_id"`
		Keys      []string `json:"keys"`
		Prefix    string   `json:"key_prefix"`
		Ripe      *float64 `json:"ripe_at_or_before"`
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	ctx, cancel := c.deadline(readDeadline)
	defer cancel()
	p, ok, err := c.streamPartition(ctx, in.Query, in.Partition)
	if err != nil {
		return err
	}
	var rows []engine.KVRow
	if ok {
		if rows, err = c.stateRows(ctx, &p, in.Keys, in.Prefix); err != nil {
			return err
		}
	}
	o := out{c.buffer()}
	o.open('{')
	o.bool("success", true)
	o.key("rows").open('[')
	for i := range rows {
		key := rows[i].Key[len(p.prefix):]
		if !strings.HasPrefix(key, in.Prefix) || in.Ripe != nil && !ripe(rows[i].Value, *in.Ripe) {
			continue
		}
		o.open('{')
		o.str("key", key)
		o.raw("value", rows[i].Value)
		o.time("updated_at", rows[i].Updated)
		o.close('}')
	}
	o.close(']').close('}')
	c.send(200, o.b)
	return nil
}

// ripe tells whether a row's window has ended.
func ripe(value []byte, at float64) bool {
	var v struct{ WindowEnd *float64 }
	return json.Unmarshal(value, &v) == nil && v.WindowEnd != nil && *v.WindowEnd <= at
}

// stateRows reads rows by their keys, or all that begin with a prefix.
func (c *call) stateRows(ctx context.Context, p *streamPartition, keys []string, prefix string) ([]engine.KVRow, error) {
	read := engine.KV{Kind: engine.KVPrefix, Namespace: stateNamespace, Key: p.prefix + prefix, Limit: kvPrefixMax}
	if len(keys) > 0 {
		if len(keys) > cycleOps {
			return nil, &streamFailure{413, "more than 10000 keys in one call"}
		}
		read.Kind = engine.KVGetMany
		for _, k := range keys {
			read.Keys = append(read.Keys, p.prefix+k)
		}
	}
	var rows []engine.KVRow
	size := 0
	for {
		items, err := c.engine.Keyed().KV(ctx, c.caller, []engine.KV{read})
		if err != nil {
			return nil, err
		}
		for i := range items[0].Rows {
			size += len(items[0].Rows[i].Value)
		}
		rows = append(rows, items[0].Rows...)
		switch {
		case size > streamStateMax:
			return nil, &streamFailure{413, "the state that was asked for exceeds 16 MiB: ask for fewer keys"}
		case !items[0].Truncated:
			return rows, nil
		case len(keys) > 0:
			read.Keys = read.Keys[len(items[0].Rows)+len(items[0].Missing):]
		default:
			read.After = items[0].Next
		}
	}
}
