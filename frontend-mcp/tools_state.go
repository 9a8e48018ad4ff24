package frontendmcp

import (
	"strings"

	"queen/engine"
	"queen/engine/format"
)

// kvRow is one key. Value is JSON text, byte for byte.
type kvRow struct {
	Key       string  `json:"key"`
	Value     *string `json:"value,omitempty" jsonschema:"JSON text"`
	Cut       bool    `json:"value_truncated,omitempty"`
	Size      int     `json:"size"`
	Version   string  `json:"version"`
	ExpiresAt *string `json:"expires_at"`
	Expired   bool    `json:"expired"`
	UpdatedAt *string `json:"updated_at"`
}

func stateTools() []*tool {
	return []*tool{
		row(tool{name: "kv_get", title: "Read a key", toolset: "state", text: "One key of a namespace, with its version."}, kvGet),
		row(tool{name: "kv_list", title: "List keys", toolset: "state",
			text: "Keys of a namespace by prefix; without namespace, the namespaces."}, kvListing),
		row(tool{name: "timer_list", title: "List timers", toolset: "state",
			text: "Pending timers of a queue, with due time and last error."}, timerListing),
		row(tool{name: "lock_list", title: "Show locks", toolset: "state",
			text: "Locks that are held, by prefix, and who holds them; with names, these."}, lockListing),
	}
}

type kvGetArgs struct {
	Namespace string `json:"namespace"`
	Key       string `json:"key"`
	MaxBytes  int    `json:"max_bytes,omitempty"`
}

type kvGetResult struct {
	Meta
	Found bool   `json:"found"`
	Row   *kvRow `json:"row"`
}

// callersNamespace refuses what a node keeps for itself beside the keys of callers: streams, traces, confirmations. The engine
// leaves that to frontends, which read and write there.
func callersNamespace(ns string) error {
	if ns != "" && ns[0] == format.InternalNamespace {
		return &toolError{Code: string(engine.CodeBadRequest), Message: "namespace is none of the callers'", Field: "namespace",
			Limit: "64 characters of a-z 0-9 . _ -, the first a letter or digit"}
	}
	return nil
}

func kvGet(c *call, in kvGetArgs) (out kvGetResult, err error) {
	if err = c.setRoom(in.MaxBytes); err == nil {
		err = callersNamespace(in.Namespace)
	}
	if err != nil {
		return out, err
	}
	items, err := c.engine.Keyed().KV(c.ctx, c.caller, []engine.KV{{Kind: engine.KVGet, Namespace: in.Namespace, Key: in.Key}})
	if err != nil {
		return out, err
	}
	out.Meta, out.Found = c.meta(), items[0].Found
	out.Untrusted = true
	if out.Found {
		row, _ := c.kvRowOf(&items[0].Row, true)
		out.Row = &row
	}
	return out, nil
}

// kvRowOf renders a row into what is left of the room; false when it does not fit. The first one always does: its value is
// cut.
func (c *call) kvRowOf(r *engine.KVRow, first bool) (kvRow, bool) {
	row := kvRow{Key: r.Key, Size: len(r.Value), Version: digits(r.Version), ExpiresAt: maybeTime(r.Expires), UpdatedAt: maybeTime(r.Updated),
		Expired: r.Expires != 0 && r.Expires <= c.f.now()}
	text, room := string(r.Value), c.room
	if r.Value != nil {
		row.Value = &text
	}
	if c.take(row) || r.Value == nil || !first {
		return row, first || c.room >= envelope
	}
	for n := len(text) / 2; ; n /= 2 {
		cut := strings.ToValidUTF8(text[:n], "")
		c.room, row.Value, row.Cut = room, &cut, true
		if c.take(row) || n == 0 {
			return row, true
		}
	}
}

type kvListArgs struct {
	Namespace      string `json:"namespace,omitempty"`
	Prefix         string `json:"prefix,omitempty"`
	KeysOnly       bool   `json:"keys_only,omitempty"`
	IncludeExpired bool   `json:"include_expired,omitempty"`
	Listing
}

type namespaceRow struct {
	Namespace string `json:"namespace"`
	Keys      uint64 `json:"keys"`
}

type kvList struct {
	Meta
	Namespaces []namespaceRow `json:"namespaces"`
	Rows       []kvRow        `json:"rows"`
}

func kvListing(c *call, in kvListArgs) (out kvList, err error) {
	limit, err := c.bounds(in.Listing)
	if err == nil {
		err = callersNamespace(in.Namespace)
	}
	if err != nil {
		return out, err
	}
	at, err := c.resume(in.Cursor, in.Namespace, in.Prefix, in.KeysOnly, in.IncludeExpired)
	if err != nil {
		return out, err
	}
	c.keepCursor()
	out.Meta, out.Namespaces, out.Rows = c.meta(), []namespaceRow{}, []kvRow{}
	out.Untrusted = true
	if in.Namespace == "" {
		spaces, err := c.engine.Keyed().Namespaces(c.ctx, c.caller)
		if err != nil {
			return out, err
		}
		rows := make([]namespaceRow, 0, len(spaces))
		for _, s := range spaces {
			rows = append(rows, namespaceRow{s.Name, s.Keys})
		}
		out.Namespaces = pageOf(c, &out.Meta, rows, at, limit)
		return out, nil
	}
	item, err := c.engine.Keyed().Browse(c.ctx, c.caller, engine.KVBrowse{Namespace: in.Namespace, Prefix: in.Prefix, After: at.After,
		Limit: limit, KeysOnly: in.KeysOnly, IncludeExpired: in.IncludeExpired})
	if err != nil {
		return out, err
	}
	for i := range item.Rows {
		row, fits := c.kvRowOf(&item.Rows[i], i == 0)
		if !fits {
			out.NextCursor = place{After: item.Rows[i-1].Key, Of: at.Of}.text()
			c.cut(&out.Meta, -1, goOn)
			return out, nil
		}
		out.Rows = append(out.Rows, row)
	}
	if item.Truncated {
		out.NextCursor = place{After: item.Next, Of: at.Of}.text()
		c.cut(&out.Meta, -1, goOn)
	}
	return out, nil
}

type timerRow struct {
	Key       string  `json:"key"`
	Partition string  `json:"partition"`
	Due       string  `json:"due_at"`
	Cron      string  `json:"cron,omitempty"`
	Zone      string  `json:"zone,omitempty"`
	Fires     uint64  `json:"fires"`
	Paused    bool    `json:"paused"`
	Attempts  uint32  `json:"attempts"`
	LastError string  `json:"last_error,omitempty"`
	CreatedAt *string `json:"created_at"`
}

type timerListArgs struct {
	Queue string `json:"queue"`
	Listing
}

type timerList struct {
	Meta
	Timers []timerRow `json:"timers"`
}

func timerListing(c *call, in timerListArgs) (out timerList, err error) {
	limit, err := c.bounds(in.Listing)
	if err != nil {
		return out, err
	}
	at, err := c.resume(in.Cursor, in.Queue)
	if err != nil {
		return out, err
	}
	timers, next, err := c.engine.Keyed().Timers(c.ctx, c.caller, in.Queue, engine.Page{After: at.After, Limit: limit})
	if err != nil {
		return out, err
	}
	c.keepCursor()
	rows := make([]timerRow, 0, len(timers))
	for i := range timers {
		t := &timers[i]
		rows = append(rows, timerRow{Key: t.Key, Partition: t.Partition, Due: timeText(t.Due), Cron: t.Cron, Zone: t.Zone, Fires: t.Fires, Paused: t.Paused,
			Attempts: t.Attempts, LastError: t.LastError, CreatedAt: maybeTime(t.Created)})
	}
	out.Meta = c.meta()
	out.Untrusted = true
	out.Timers = pageOf(c, &out.Meta, rows, place{Skip: at.Skip, After: at.After, Of: at.Of}, limit)
	if !out.Truncated && next != "" {
		out.NextCursor = place{After: next, Of: at.Of}.text()
		c.cut(&out.Meta, -1, goOn)
	}
	return out, nil
}
