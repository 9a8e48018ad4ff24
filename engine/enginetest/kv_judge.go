package enginetest

import (
	"slices"
	"strings"

	"queen/engine"
	"queen/engine/format"
	"queen/engine/value"
)

// kvDo judges one op that changes or checks a key.
func (s *state) kvDo(t format.Tenant, op *engine.KV) engine.KVItem {
	k := kvKey{t, op.Namespace, op.Key}
	old := s.kvLive(k)
	if why := kvLoses(old, op); why != format.KVApplied {
		return kvLost(op.Key, old, why)
	}
	switch op.Kind {
	case engine.KVPut:
		row := kvRow{value: compact(op.Value), expires: s.until(op)}
		row.number = value.Number(row.value)
		return kvWritten(op.Key, s.kvSet(k, row))
	case engine.KVDelete:
		return engine.KVItem{Applied: true, Row: engine.KVRow{Version: s.kvDrop(k)}}
	case engine.KVIncr:
		return s.kvIncr(k, old, op)
	}
	item := engine.KVItem{Applied: true} // a check that holds tells the version and nothing else (S-kv-15)
	if old != nil {
		item.Row.Version = old.version
	}
	return item
}

// kvLoses says why a condition does not hold (S-kv-5 to 8).
func kvLoses(old *kvRow, op *engine.KV) format.KVReason {
	switch {
	case op.HasExpect && op.Expect == 0 && old != nil:
		return format.KVExists
	case op.HasExpect && op.Expect > 0 && old == nil, op.Kind == engine.KVDelete && old == nil:
		return format.KVAbsent
	case op.HasExpect && op.Expect > 0 && old.version != op.Expect:
		return format.KVVersion
	}
	return format.KVApplied
}

func kvLost(key string, old *kvRow, why format.KVReason) engine.KVItem {
	item := engine.KVItem{Reason: why}
	if old != nil {
		item.Found, item.Row = true, old.view(key)
	}
	return item
}

func kvWritten(key string, row *kvRow) engine.KVItem {
	return engine.KVItem{Applied: true, Found: true, Row: row.view(key)}
}

// kvIncr counts from zero where there is nothing, and sets a lifetime only there (S-kv-9 to 11).
func (s *state) kvIncr(k kvKey, old *kvRow, op *engine.KV) engine.KVItem {
	from, row := format.Number{Kind: format.IntNumber}, kvRow{expires: s.until(op)}
	if old != nil {
		if from = old.number; from.Kind == format.NotANumber {
			return kvLost(k.key, old, format.KVType)
		}
		row.expires = old.expires
	}
	sum, ok := addNumbers(from, op.Delta)
	if !ok || op.Min.Kind != format.NotANumber && below(sum, op.Min) || op.Max.Kind != format.NotANumber && below(op.Max, sum) {
		return kvLost(k.key, old, format.KVLimit)
	}
	row.value, row.number = numberText(sum), sum
	return kvWritten(k.key, s.kvSet(k, row))
}

// until is when a row written now ends, 0 for never.
func (s *state) until(op *engine.KV) format.Wall {
	if op.Keep == 0 {
		return 0
	}
	return s.w + format.Wall(max(micros(op.Keep), 1000))
}

func kvReads(kind engine.KVKind) bool {
	return kind == engine.KVGet || kind == engine.KVGetMany || kind == engine.KVPrefix
}

// kvReadBytes bounds what the pages of one call hold.
const kvReadBytes = 4 << 20

// kvRead answers one read; left is what the call may still return in pages.
func (s *state) kvRead(t format.Tenant, op *engine.KV, left *int) engine.KVItem {
	switch op.Kind {
	case engine.KVGet:
		row := s.kvLive(kvKey{t, op.Namespace, op.Key})
		if row == nil {
			return engine.KVItem{}
		}
		return engine.KVItem{Found: true, Row: row.view(op.Key)}
	case engine.KVCheck:
		return s.kvDo(t, op)
	case engine.KVGetMany:
		return s.kvGetMany(t, op, left)
	}
	limit := op.Limit
	if limit == 0 {
		limit = 100
	}
	return s.kvPage(t, op.Namespace, op.Key, op.After, min(limit, 1000), op.KeysOnly, left)
}

func (s *state) kvGetMany(t format.Tenant, op *engine.KV, left *int) engine.KVItem {
	var page kvPage
	keys := slices.Compact(slices.Sorted(slices.Values(op.Keys)))
	for _, key := range keys {
		row := s.kvLive(kvKey{t, op.Namespace, key})
		if row == nil {
			page.Missing = append(page.Missing, key)
			continue
		}
		if !page.take(row.view(key), false, left) {
			break
		}
	}
	return page.KVItem
}

// kvPage lists rows in key order after a key.
func (s *state) kvPage(t format.Tenant, ns, prefix, after string, limit int, keysOnly bool, left *int) engine.KVItem {
	var page kvPage
	for _, k := range s.kvKeys(func(k kvKey) bool {
		return k.tenant == t && k.ns == ns && strings.HasPrefix(k.key, prefix) && k.key > after
	}) {
		row := s.kvLive(k)
		if row == nil {
			continue
		}
		if len(page.Rows) == limit {
			page.cut()
			break
		}
		if !page.take(row.view(k.key), keysOnly, left) {
			break
		}
	}
	return page.KVItem
}

// kvPage is a page in the making.
type kvPage struct{ engine.KVItem }

// take adds a row; false when the page is full before it. The first row is taken whatever its size.
func (p *kvPage) take(row engine.KVRow, keysOnly bool, left *int) bool {
	if keysOnly {
		row.Value = nil
	}
	size := len(row.Key) + len(row.Value)
	if size > *left && len(p.Rows) > 0 {
		p.cut()
		return false
	}
	*left -= size
	p.Rows = append(p.Rows, row)
	return true
}

func (p *kvPage) cut() { p.Truncated, p.Next = true, p.Rows[len(p.Rows)-1].Key }
