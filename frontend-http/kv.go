package frontendhttp

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"

	"queen/engine"
	"queen/engine/auth"
	"queen/engine/format"
)

func kvRoutes() []*route {
	key := []string{"GET", "PUT", "DELETE"}
	over := map[int]string{410: "KeyedError"}
	rows := []*route{
		{Method: "POST", Path: "/api/v1/kv", Access: readWrite, Mark: common, Summary: "Read and change keys, in one step; " +
			"pages of getPrefix with snapshot (new, then what the first page answered) are of one moment, or 410 snapshot_expired.",
			Request: "KVCall", Response: "KVResults", Status: 200, Errors: familyKV, Op: "kv", Keyed: true, Handle: kv, Also: over},
		{Method: "GET", Path: "/api/v1/resources/kv/namespaces", Access: readOnly, Mark: operator,
			Summary: "List the namespaces of the key-value store.", Response: "KVNamespaces", Status: 200,
			Errors: familyKV, Handle: kvNamespaces},
		{Method: "POST", Path: "/api/v1/resources/kv/list", Access: readOnly, Mark: operator,
			Summary: "Page over a namespace, expired rows too if asked; with snapshot (new, then what the first page answered) " +
				"all pages are of one moment, or 410 snapshot_expired.", Request: "KVList", Response: "KVListed", Also: over,
			Status: 200, Errors: familyKV, Handle: kvList},
	}
	handlers := []handler{kvGet, kvPut, kvDelete}
	bodies := []string{"", "KVPut", "KVExpect"}
	answers := []string{"KVRead", "KVWritten", "KVWritten"}
	levels := []access{readOnly, readWrite, readWrite}
	for i, m := range key {
		rows = append(rows, &route{Method: m, Path: "/api/v1/kv/:ns/*key", Access: levels[i], Mark: common,
			Summary: "Key-value store: one key.", Request: bodies[i], Response: answers[i], Status: 200,
			Errors: familyKV, Op: "kv", Keyed: m != "GET", Frees: m == "DELETE", Handle: handlers[i], split: splitFirst})
	}
	return rows
}

// kvReasons are the words for why a write did not apply.
var kvReasons = map[format.KVReason]string{
	format.KVExists: "exists", format.KVAbsent: "absent", format.KVVersion: "version",
	format.KVLimit: "limit", format.KVType: "type", format.LockHeld: "held", format.LockLost: "lost",
}

// kv answers POST /api/v1/kv: one result per op, in order, or why nothing of the call took place.
func kv(c *call) error {
	b := kvBatch{}
	err := operations(c.body(), kvOps, func(kind, detail string) error {
		if kind == "many" {
			return kvBad("kv_too_many_ops", detail)
		}
		return kvBad("kv_bad_body", detail)
	}, func(_ int, ms jsonObject) error { return orNil(b.add(ms)) })
	if err != nil {
		return err
	}
	items, lost, err := c.commitKV(&b)
	if err != nil {
		return err
	}
	o := out{c.buffer()}
	if lost != nil {
		o.kvLost(lost)
	} else {
		o.open('{').key("results").open('[')
		for i := range items {
			o.open('{')
			o.num("index", int64(i))
			o.str("op", b.names[i])
			o.kvItem(&b.ops[i], &items[i])
			o.close('}')
		}
		o.close(']').close('}')
	}
	c.send(200, o.b)
	return nil
}

// orNil keeps a nil refusal from becoming an error that is not nil.
func orNil(r *keyedRefusal) error {
	if r == nil {
		return nil
	}
	return r
}

// commitKV carries the ops out. lost is set when a required one lost, and then nothing took place.
func (c *call) commitKV(b *kvBatch) (items []engine.KVItem, lost *engine.FailedOp, err error) {
	if len(b.ops) == 0 {
		return nil, nil, nil
	}
	if err := c.chargeKV(b); err != nil {
		return nil, nil, err
	}
	ctx, cancel := c.deadline(writeDeadline)
	defer cancel()
	if !b.writes {
		return c.readKV(ctx, b)
	}
	ops := make([]engine.Op, len(b.ops))
	for i := range b.ops {
		ops[i] = &b.ops[i]
	}
	results, err := c.engine.Do(ctx, c.caller, engine.Batch{Ops: ops, Atomic: true})
	if err != nil {
		var e *engine.Error
		if errors.As(err, &e) && e.Code == engine.CodeKVPrecondition && e.Failed != nil {
			return nil, e.Failed, nil
		}
		return nil, nil, err
	}
	items = make([]engine.KVItem, len(results))
	for i := range results {
		items[i] = results[i].KV
	}
	return items, nil, nil
}

// chargeKV takes what a call costs from the rates of the key-value store. Deletes cost nothing, so that no rate keeps a
// tenant from giving room back (S-kv-21).
func (c *call) chargeKV(b *kvBatch) error {
	deletes := 0
	for i := range b.ops {
		switch b.ops[i].Kind {
		case engine.KVPut, engine.KVIncr:
			return c.charge(auth.KVWrites, 1)
		case engine.KVDelete:
			deletes++
		}
	}
	if deletes == len(b.ops) {
		return nil
	}
	return c.charge(auth.KVReads, 1)
}

// readKV answers a call of reads and checks.
func (c *call) readKV(ctx context.Context, b *kvBatch) (items []engine.KVItem, lost *engine.FailedOp, err error) {
	if items, err = c.engine.Keyed().KV(ctx, c.caller, b.ops); err != nil {
		return nil, nil, err
	}
	for i := range items {
		if b.ops[i].Kind == engine.KVCheck && b.ops[i].Required && !items[i].Applied {
			return nil, &engine.FailedOp{Op: i, KV: items[i]}, nil
		}
	}
	return items, nil, nil
}

// kvItem writes the members of one result.
func (o *out) kvItem(op *engine.KV, it *engine.KVItem) {
	switch op.Kind {
	case engine.KVGet:
		o.bool("found", it.Found)
		o.str("key", op.Key)
		if it.Found {
			o.kvRow(&it.Row, false)
		}
	case engine.KVGetMany:
		o.kvRows(it, false)
		o.key("missing").open('[')
		for _, k := range it.Missing {
			o.text(k)
		}
		o.close(']')
		o.bool("truncated", it.Truncated)
	case engine.KVPrefix:
		o.kvRows(it, op.KeysOnly)
		o.bool("truncated", it.Truncated)
		o.strOrNull("nextAfter", it.Next)
		if op.Snapshot != "" {
			o.strOrNull("snapshot", it.Snapshot)
		}
	default:
		o.kvWrite(op, it)
	}
}

func (o *out) kvRows(it *engine.KVItem, keysOnly bool) {
	o.key("rows").open('[')
	for i := range it.Rows {
		o.open('{')
		o.str("key", it.Rows[i].Key)
		o.kvRow(&it.Rows[i], keysOnly)
		o.close('}')
	}
	o.close(']')
}

// kvRow writes what is known of a live row besides its key.
func (o *out) kvRow(r *engine.KVRow, keysOnly bool) {
	if !keysOnly {
		o.raw("value", r.Value)
	}
	o.count("version", r.Version)
	o.time("expiresAt", r.Expires)
	o.time("updatedAt", r.Updated)
}

// kvWrite writes the verdict about a write or a check; a held check shows no value, and a delete the version that it
// is (S-kv-14).
func (o *out) kvWrite(op *engine.KV, it *engine.KVItem) {
	o.bool("applied", it.Applied)
	o.str("key", op.Key)
	if !it.Applied {
		o.str("reason", kvReasons[it.Reason])
	}
	held, ended := op.Kind == engine.KVCheck && it.Applied, op.Kind == engine.KVDelete && it.Applied
	switch {
	case held:
	case it.Found:
		o.raw("value", it.Row.Value)
	default:
		o.null("value")
	}
	if held || ended || it.Found {
		o.count("version", it.Row.Version)
	} else {
		o.null("version")
	}
}

// kvLost answers a call that a required op undid.
func (o *out) kvLost(f *engine.FailedOp) {
	o.open('{')
	o.bool("ok", false)
	o.str("reason", "kv_precondition")
	o.kvLoser(f, f.Op)
	o.close('}')
}

// kvLoser writes which op lost, and to what.
func (o *out) kvLoser(f *engine.FailedOp, index int) {
	o.num("failedIndex", int64(index))
	o.str("kvReason", kvReasons[f.KV.Reason])
	if f.KV.Found {
		o.count("version", f.KV.Row.Version)
		o.raw("value", f.KV.Row.Value)
	} else {
		o.null("version")
		o.null("value")
	}
}

// kvPath reads namespace and key of a path, on which no query string is allowed.
func (c *call) kvPath() (ns, key string, err error) {
	if len(c.ctx.URI().QueryString()) > 0 {
		return "", "", kvBad("kv_no_query_string", "this route takes no query string")
	}
	if ns, err = c.name(0); err != nil {
		return "", "", kvBad("kv_bad_namespace", err.Error())
	}
	if !validNamespace(ns) {
		return "", "", kvBad("kv_bad_namespace", "the namespace must match ^[a-z0-9][a-z0-9._-]{0,63}$")
	}
	if key, err = c.name(1); err != nil {
		return "", "", kvBad("kv_bad_key", err.Error())
	}
	key, bad := kvKey(key, true)
	return ns, key, orNil(bad)
}

// kvGet answers GET /api/v1/kv/:ns/*key: a miss is an answer, not an error.
func kvGet(c *call) error {
	ns, key, err := c.kvPath()
	if err != nil {
		return err
	}
	if err := c.charge(auth.KVReads, 1); err != nil {
		return err
	}
	ctx, cancel := c.deadline(readDeadline)
	defer cancel()
	items, err := c.engine.Keyed().KV(ctx, c.caller, []engine.KV{{Kind: engine.KVGet, Namespace: ns, Key: key}})
	if err != nil {
		return err
	}
	it := &items[0]
	o := out{c.buffer()}
	o.open('{')
	o.bool("found", it.Found)
	o.str("key", key)
	if it.Found {
		o.kvRow(&it.Row, false)
		c.ctx.Response.Header.Set("ETag", `"`+strconv.FormatUint(it.Row.Version, 10)+`"`)
	}
	o.close('}')
	c.send(200, o.b)
	return nil
}

func kvPut(c *call) error    { return c.kvOne("put") }
func kvDelete(c *call) error { return c.kvOne("delete") }

// kvOne carries out one write whose namespace and key are in the path.
func (c *call) kvOne(name string) error {
	ns, key, err := c.kvPath()
	if err != nil {
		return err
	}
	var ms jsonObject
	if body := c.body(); len(body) > 0 || name == "put" {
		if ms, err = bodyObject(body); err != nil {
			return kvBad("kv_bad_body", err.Error())
		}
	}
	for _, field := range []string{"op", "ns", "namespace", "key"} {
		if ms.has(field) {
			return kvBad("kv_field_in_path", field+" is in the path")
		}
	}
	b := kvBatch{}
	ms = append(ms, member{[]byte("op"), quoted(name)}, member{[]byte("ns"), quoted(ns)}, member{[]byte("key"), quoted(key)})
	if bad := b.add(ms); bad != nil {
		return bad
	}
	items, lost, err := c.commitKV(&b)
	if err != nil {
		return err
	}
	o := out{c.buffer()}
	if lost != nil {
		o.kvLost(lost)
	} else {
		o.open('{')
		o.str("op", name)
		o.kvItem(&b.ops[0], &items[0])
		o.close('}')
	}
	c.send(200, o.b)
	return nil
}

func quoted(s string) []byte { return appendString(nil, s) }

// kvNamespaces answers GET /api/v1/resources/kv/namespaces.
func kvNamespaces(c *call) error {
	if len(c.ctx.URI().QueryString()) > 0 {
		return kvBad("kv_no_query_string", "this route takes no query string")
	}
	ctx, cancel := c.deadline(readDeadline)
	defer cancel()
	rows, err := c.engine.Keyed().Namespaces(ctx, c.caller)
	if err != nil {
		return err
	}
	o := out{c.buffer()}
	o.open('{').key("namespaces").open('[')
	for i := range rows {
		o.open('{')
		o.str("namespace", rows[i].Name)
		o.count("keys", rows[i].Keys)
		o.close('}')
	}
	o.close(']').close('}')
	c.send(200, o.b)
	return nil
}

// kvList answers POST /api/v1/resources/kv/list.
func kvList(c *call) error {
	var in struct {
		Namespace      string `json:"namespace"`
		Prefix         string `json:"prefix"`
		After          string `json:"after"`
		Limit          *int   `json:"limit"`
		KeysOnly       bool   `json:"keysOnly"`
		IncludeExpired bool   `json:"includeExpired"`
		Snapshot       string `json:"snapshot"`
	}
	if err := json.Unmarshal(c.body(), &in); err != nil {
		return kvBad("kv_bad_body", jsonProblem(err))
	}
	if !validNamespace(in.Namespace) {
		return kvBad("kv_bad_namespace", "namespace must match ^[a-z0-9][a-z0-9._-]{0,63}$")
	}
	b := engine.KVBrowse{Namespace: in.Namespace, Prefix: in.Prefix, After: in.After, Limit: kvPrefixDefault,
		KeysOnly: in.KeysOnly, IncludeExpired: in.IncludeExpired, Snapshot: in.Snapshot}
	if in.Limit != nil {
		b.Limit = min(max(*in.Limit, 1), kvPrefixMax)
	}
	ctx, cancel := c.deadline(readDeadline)
	defer cancel()
	it, err := c.engine.Keyed().Browse(ctx, c.caller, b)
	if err != nil {
		return err
	}
	now := format.Wall(c.f.opts.Clock.Now())
	size := 0
	o := out{c.buffer()}
	o.open('{').key("rows").open('[')
	for i := range it.Rows {
		r := &it.Rows[i]
		size += len(r.Key) + len(r.Value)
		o.open('{')
		o.str("key", r.Key)
		o.kvRow(r, b.KeysOnly)
		o.bool("expired", r.Expires != 0 && r.Expires <= now)
		o.close('}')
	}
	o.close(']')
	o.bool("truncated", it.Truncated)
	o.strOrNull("nextAfter", it.Next)
	if b.Snapshot != "" {
		o.strOrNull("snapshot", it.Snapshot)
	}
	o.num("bytes", int64(size))
	o.close('}')
	c.send(200, o.b)
	return nil
}
