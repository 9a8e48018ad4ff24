package engine

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/zeebo/xxh3"

	"queen/engine/format"
	"queen/engine/keyed"
	"queen/engine/machine"
)

// kvReadBytes bounds the keys and values that the pages of one call return (S-kv-19).
const kvReadBytes = 4 << 20

// kvLook is one look at KV rows: what is asked for is noted before, take fixes it at one moment of the state,
// and values are read afterwards, without holding anything up. A row of which the state keeps a head
// and the store has nothing, or something else, is an error and never an absent key.
type kvLook struct {
	tenant format.Tenant
	points []kvPoint
	pages  bool // a prefix is asked for: the live rows have to be held still
	begins bool // later pages will be asked for of the same moment

	// Set by take.
	w    format.Wall // rows past it are hidden
	then format.Wall // W of the state at that moment
	view keyed.View  // below the live rows, or with pages all of them
	// late says that a row was hidden by w which the state did not hide then.
	late bool
	// Of that moment, with pages: the version of the newest change, and what was written of keyed rows so far.
	version uint64
	written int64
}

// kvPoint is one key.
type kvPoint struct {
	key  []byte // of the store
	head machine.KeyHead
	row  keyed.Row
	has  bool // there is a head
	live bool // row is what the live overlay has
}

// keptPoints is how many points a look may have room for that is kept.
const keptPoints = 64

// emptied is a new look with l's memory.
func (l *kvLook) emptied() kvLook {
	if cap(l.points) > keptPoints {
		return kvLook{}
	}
	clear(l.points)
	return kvLook{points: l.points[:0]}
}

// kvStoreKey is the store's key of a KV row, family included.
func kvStoreKey(t format.Tenant, ns, key string) []byte {
	b := make([]byte, 0, 1+len(t)+len(ns)+1+len(key))
	return format.AppendKVKey(append(b, byte(keyed.FamilyKV)), t, viewBytes(ns), viewBytes(key))
}

// want notes what an op reads and returns the number of its first point.
func (l *kvLook) want(op *KV) (first int) {
	first = len(l.points)
	switch op.Kind {
	case KVPrefix:
		l.pages = true
		l.begins = l.begins || op.Snapshot == SnapshotNew
	case KVGetMany:
		for _, key := range sortedKeys(op.Keys) {
			l.point(op.Namespace, key)
		}
	default:
		l.point(op.Namespace, op.Key)
	}
	return first
}

func (l *kvLook) point(ns, key string) {
	l.points = append(l.points, kvPoint{key: kvStoreKey(l.tenant, ns, key)})
}

func sortedKeys(keys []string) []string { return slices.Compact(slices.Sorted(slices.Values(keys))) }

// take fixes the look at this moment. The state must not change meanwhile: its lock is held, or it is the
// apply goroutine that asks.
func (l *kvLook) take(m *machine.Machine, rows *keyedRows, w format.Wall) {
	v := *rows.view.Load()
	l.w, l.then, l.late = w, m.W(), false
	for i := range l.points {
		p := &l.points[i]
		t, ns, key, _ := format.ParseKVKey(p.key[1:])
		if p.head, p.has = m.KVHead(t, ns, key); !p.has {
			continue
		}
		if p.head.Due != 0 && p.head.Due <= w {
			l.late = l.late || p.head.Due > l.then
			p.has = false
			continue
		}
		p.row, p.live = v.Live(p.key)
	}
	if l.view = v.Below(); l.pages {
		l.view, l.version, l.written = v.Snapshot(), m.KeyVersion(), rows.written.Load()
	}
}

// row reads the row of a point; false when there is none.
func (l *kvLook) row(i int) (format.KVRow, bool, error) {
	p := &l.points[i]
	if !p.has {
		return format.KVRow{}, false, nil
	}
	value, found := p.row.Value, p.live && !p.row.Tombstone
	if !p.live {
		var err error
		if value, found, err = l.view.Get(p.key); err != nil {
			return format.KVRow{}, false, err
		}
	}
	if err := checkRow(p.key, value, found, &p.head); err != nil {
		return format.KVRow{}, false, err
	}
	row, err := format.ParseKVRow(value)
	return row, err == nil, err
}

// errRowLost says that the keyed store and the state differ.
var errRowLost = errors.New("the row is not the one that the state knows of")

// checkRow holds a keyed row against the head that the state keeps of it.
func checkRow(key, value []byte, found bool, head *machine.KeyHead) error {
	if !found {
		return fmt.Errorf("engine: keyed row of version %d is missing: %w", head.Version, errRowLost)
	}
	h := xxh3.New()
	_, _ = h.Write(key)
	_, _ = h.Write(value)
	if h.Sum128().Lo != head.Sum {
		return fmt.Errorf("engine: keyed row of version %d, %d bytes: %w", head.Version, len(value), errRowLost)
	}
	return nil
}

// kvAnswers renders what a look found, op by op.
type kvAnswers struct {
	look *kvLook
	left int // bytes that pages may still return
}

func (l *kvLook) answers() kvAnswers { return kvAnswers{look: l, left: kvReadBytes} }

// answer answers one op that reads, or a check; first is what want returned for it.
func (a *kvAnswers) answer(op *KV, first int) (KVItem, error) {
	switch op.Kind {
	case KVPrefix:
		return a.page(op)
	case KVGetMany:
		return a.many(op, first)
	}
	row, found, err := a.look.row(first)
	if err != nil {
		return KVItem{}, err
	}
	if op.Kind == KVCheck {
		return checked(op, &row, found), nil
	}
	item := KVItem{Found: found}
	if found {
		item.Row = rowOf(op.Key, &row)
	}
	return item, nil
}

// rowOf is a row as callers get it; the value is theirs.
func rowOf(key string, r *format.KVRow) KVRow {
	return KVRow{Key: key, Value: append([]byte{}, r.JSON...), Version: r.Version, Expires: r.Expires, Updated: r.Updated}
}

// checked judges a check that travels in no entry (S-kv-15).
func checked(op *KV, row *format.KVRow, found bool) KVItem {
	item := KVItem{}
	switch {
	case op.Expect == 0 && found:
		item.Reason = format.KVExists
	case op.Expect != 0 && !found:
		item.Reason = format.KVAbsent
	case op.Expect != row.Version:
		item.Reason = format.KVVersion
	default:
		item.Applied, item.Row.Version = true, row.Version
		return item
	}
	if item.Found = found; found {
		item.Row = rowOf(op.Key, row)
	}
	return item
}

func (a *kvAnswers) many(op *KV, first int) (KVItem, error) {
	var page kvPage
	for i, key := range sortedKeys(op.Keys) {
		row, found, err := a.look.row(first + i)
		if err != nil {
			return KVItem{}, err
		}
		if !found {
			page.Missing = append(page.Missing, key)
			continue
		}
		if !page.take(rowOf(key, &row), &a.left) {
			break
		}
	}
	return page.KVItem, nil
}

// page reads one page of a prefix.
func (a *kvAnswers) page(op *KV) (KVItem, error) {
	return a.look.scan(scanOf(op), &a.left)
}

func scanOf(op *KV) kvScan {
	return kvScan{ns: op.Namespace, prefix: op.Key, after: op.After, limit: pageLimit(op.Limit), keysOnly: op.KeysOnly}
}

// kvScan says which rows of a namespace, in key order.
type kvScan struct {
	ns, prefix, after string
	limit             int
	keysOnly, expired bool
}

// scanStep: a scan ends when its page is full, however many rows it passes over.
const scanStep = math.MaxInt

func (l *kvLook) scan(s kvScan, left *int) (KVItem, error) {
	prefix := kvStoreKey(l.tenant, s.ns, s.prefix)
	var after []byte
	if s.after != "" {
		after = kvStoreKey(l.tenant, s.ns, s.after)
	}
	base := len(prefix) - len(s.prefix)
	var page kvPage
	var bad error
	err := l.view.ScanPrefix(prefix, after, scanStep, func(key, value []byte) bool {
		row, err := format.ParseKVRow(value)
		if err != nil {
			bad = fmt.Errorf("engine: keyed row of %d bytes: %w", len(value), err)
			return false
		}
		if row.Expires != 0 && row.Expires <= l.w && !s.expired {
			l.late = l.late || row.Expires > l.then
			return true
		}
		if len(page.Rows) == s.limit {
			page.cut()
			return false
		}
		if s.keysOnly {
			row.JSON = nil
		}
		r := rowOf(string(key[base:]), &row)
		if s.keysOnly {
			r.Value = nil
		}
		return page.take(r, left)
	})
	return page.KVItem, errors.Join(err, bad)
}

// kvPage is a page in the making.
type kvPage struct{ KVItem }

// take adds a row; false when the page is full before it. The first row fits whatever its size.
func (p *kvPage) take(r KVRow, left *int) bool {
	size := len(r.Key) + len(r.Value)
	if size > *left && len(p.Rows) > 0 {
		p.cut()
		return false
	}
	*left -= size
	p.Rows = append(p.Rows, r)
	return true
}

func (p *kvPage) cut() { p.Truncated, p.Next = true, p.Rows[len(p.Rows)-1].Key }
