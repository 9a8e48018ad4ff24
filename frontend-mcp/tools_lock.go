package frontendmcp

import (
	"strconv"
	"strings"
	"unicode"

	"queen/engine"
	"queen/engine/format"
)

// maxLocks bounds the locks of one answer, below what the engine looks up in one call.
const maxLocks = 50

type lockListArgs struct {
	Prefix string   `json:"prefix,omitempty" jsonschema:"of names; default all locks that are held"`
	Names  []string `json:"names,omitempty" jsonschema:"instead of prefix: 1 to 50 names, those that nobody holds too"`
	Listing
}

type holderRow struct {
	Slot      uint32 `json:"slot"`
	Owner     string `json:"owner,omitempty"`
	Since     string `json:"since"`
	ExpiresAt string `json:"expires_at"`
}

type lockRow struct {
	Name    string      `json:"name"`
	Held    int         `json:"held" jsonschema:"permits that are held"`
	Holders []holderRow `json:"holders" jsonschema:"as many as there is room for"`
}

type lockList struct {
	Meta
	Locks []lockRow `json:"locks"`
}

func lockListing(c *call, in lockListArgs) (out lockList, err error) {
	limit, err := c.bounds(in.Listing)
	if err != nil {
		return out, err
	}
	at, err := c.resume(in.Cursor, in.Prefix, in.Names)
	switch {
	case err != nil:
		return out, err
	case len(in.Names) > maxLocks || in.Names != nil && len(in.Names) == 0:
		return out, &toolError{Code: "bad_request", Message: "names is out of its bounds", Field: "names", Limit: "1..50"}
	case in.Names != nil && in.Prefix != "":
		return out, badArgument("prefix", "prefix and names are there: only one can count")
	}
	c.keepCursor()
	names, more := in.Names, false
	if names == nil {
		if names, more, err = c.heldLocks(in.Prefix, at.After, min(limit, maxLocks)); err != nil {
			return out, err
		}
	}
	all, err := c.engine.Keyed().Locks(c.ctx, c.caller, names)
	if err != nil {
		return out, err
	}
	rows, last := []lockRow{}, []string{} // last is where the cursor goes on behind a row
	for i, holders := range all {
		if in.Names == nil && len(holders) == 0 {
			continue // given back meanwhile
		}
		l := lockRow{Name: names[i], Held: len(holders), Holders: []holderRow{}}
		for _, h := range holders {
			l.Holders = append(l.Holders, holderRow{h.Slot, h.Owner, timeText(h.Since), timeText(h.Expires)})
		}
		rows, last = append(rows, l), append(last, names[i])
	}
	out.Meta = c.meta()
	out.Untrusted = true
	if in.Names != nil {
		rows = rows[min(at.Skip, len(rows)):]
	}
	out.Locks = c.locksThatFit(&out.Meta, rows)
	switch kept := len(out.Locks); {
	case in.Names != nil && kept < len(rows):
		out.NextCursor = place{Skip: at.Skip + kept, Of: at.Of}.text()
		c.cut(&out.Meta, len(rows)-kept, goOn)
	case in.Names == nil && (more || kept < len(rows)):
		after := names[len(names)-1]
		if kept < len(rows) {
			after = last[kept-1]
		}
		out.NextCursor = place{After: after, Of: at.Of}.text()
		c.cut(&out.Meta, -1, goOn)
	}
	return out, nil
}

// heldLocks are the names of locks with permits that are held, behind a name; more says that there are further ones.
func (c *call) heldLocks(prefix, after string, limit int) (names []string, more bool, err error) {
	if after != "" {
		after = permitsEnd(after)
	}
	for looked := 0; looked < maxScan; {
		item, err := c.engine.Keyed().Browse(c.ctx, c.caller, engine.KVBrowse{Namespace: format.LockNamespace, Prefix: prefix, After: after,
			Limit: 1000, KeysOnly: true})
		if err != nil {
			return nil, false, err
		}
		looked += len(item.Rows)
		for i := range item.Rows {
			name, slot, _ := strings.Cut(item.Rows[i].Key, "#")
			if !isLock(name, slot) || len(names) > 0 && names[len(names)-1] == name {
				continue
			}
			if len(names) == limit {
				return names, true, nil
			}
			names = append(names, name)
		}
		if !item.Truncated {
			return names, false, nil
		}
		after = item.Next
	}
	return names, len(names) > 0, nil
}

// permitsEnd is a key behind those of all permits of a lock, whose slots are digits.
func permitsEnd(name string) string { return name + "#~" }

// isLock tells permits from what else callers keep in their namespace.
func isLock(name, slot string) bool {
	_, err := strconv.ParseUint(slot, 10, 32)
	return err == nil && name != "" && len(name) <= format.MaxLockName && !strings.ContainsFunc(name, unicode.IsControl)
}

// locksThatFit keeps the locks that there is room for, at least one: of its holders then as many as fit.
func (c *call) locksThatFit(m *Meta, rows []lockRow) []lockRow {
	for i := range rows {
		l, before := &rows[i], c.room
		if c.take(*l) {
			continue
		}
		if c.room = before; i > 0 {
			return rows[:i]
		}
		holders := l.Holders
		l.Holders = []holderRow{}
		c.take(*l)
		l.Holders, _ = fit(c, holders)
		c.cut(m, l.Held-len(l.Holders), "a lock has more holders than fit: ask with a larger max_bytes")
	}
	return rows
}
