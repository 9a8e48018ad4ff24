package keyed

import (
	"bytes"

	"github.com/dgraph-io/badger/v4"
)

// View reads the current state: the live overlay, over the frozen one while a flush is under way,
// over the store at the last recorded checkpoint. It is an immutable value; its owner publishes a
// new one at every freeze and after every record. An older View stays right as long as the store
// keeps the history of its checkpoint, and answers ErrDiscarded afterwards.
type View struct {
	live, frozen *Overlay
	store        *Store
	at           uint64
}

// NewView puts a view together. Overlays and store may be nil when there is none.
func NewView(live, frozen *Overlay, store *Store, at uint64) View {
	return View{live: live, frozen: frozen, store: store, at: at}
}

// Get returns the current value of key, and whether there is one. The value must not be changed.
// Errors are those of Store.GetAt.
func (v View) Get(key []byte) (value []byte, found bool, err error) {
	for _, o := range [...]*Overlay{v.live, v.frozen} {
		if o == nil {
			continue
		}
		if row, ok := o.Get(key); ok {
			return row.Value, !row.Tombstone, nil
		}
	}
	if v.store == nil {
		return nil, false, CheckKey(key)
	}
	return v.store.GetAt(v.at, key)
}

// Snapshot returns the view as it is now, untouched by what is written to its live overlay from now on.
func (v View) Snapshot() View {
	if v.live != nil {
		v.live = v.live.Snapshot()
	}
	return v
}

// Live returns the row of key if the live overlay has one, which may be a tombstone. It reads nothing
// else, so that it may be asked while apply waits.
func (v View) Live(key []byte) (Row, bool) {
	if v.live == nil {
		return Row{}, false
	}
	return v.live.Get(key)
}

// LiveBytes is what the live overlay takes in memory; full says that it asks for a checkpoint.
func (v View) LiveBytes() (bytes int64, full bool) {
	if v.live == nil {
		return 0, false
	}
	return v.live.Bytes(), v.live.Full()
}

// Below returns the view without its live overlay: what does not change any more.
func (v View) Below() View {
	v.live = nil
	return v
}

// ScanPrefix calls fn for the rows whose key begins with prefix, in ascending key order, beginning
// after the key startAfter (from the first row if it is nil), for at most limit rows or until fn
// returns false. key and value are valid during the call only.
//
// Each row is as it was at some moment between call and return; changes made meanwhile may show or
// not, row by row. No row is seen twice, and none that was there all the time is missed.
func (v View) ScanPrefix(prefix, startAfter []byte, limit int, fn func(key, value []byte) bool) error {
	if err := CheckKey(prefix); err != nil {
		return err
	}
	if limit <= 0 {
		return ErrLimit
	}
	m := merge{
		upper: [2]*overlayCursor{
			newOverlayCursor(v.live, prefix, startAfter),
			newOverlayCursor(v.frozen, prefix, startAfter),
		},
		limit: limit,
		fn:    fn,
	}
	if v.store == nil {
		return m.run(nil)
	}
	return v.store.read(v.at, func(txn *badger.Txn) error {
		cur := newStoreCursor(txn, prefix)
		defer cur.close()
		cur.seek(prefix, startAfter)
		return m.run(cur)
	})
}

// merge walks two overlays and the store together; where several have a key the upper one wins.
type merge struct {
	upper [2]*overlayCursor
	limit int
	fn    func(key, value []byte) bool
}

func (m *merge) run(store *storeCursor) error {
	for m.limit > 0 {
		key, ok := m.lowest(store)
		if !ok {
			return nil
		}
		more, err := m.emit(key, store)
		if err != nil || !more {
			return err
		}
		m.pass(key, store)
	}
	return nil
}

// lowest returns the smallest key any of the three stands at.
func (m *merge) lowest(store *storeCursor) (key []byte, ok bool) {
	if store != nil && store.valid() {
		key, ok = store.key(), true
	}
	for _, c := range m.upper {
		if c.valid() && (!ok || bytes.Compare(c.row().Key, key) < 0) {
			key, ok = c.row().Key, true
		}
	}
	return key, ok
}

// emit hands the uppermost row of key to fn, nothing if it is a tombstone.
func (m *merge) emit(key []byte, store *storeCursor) (more bool, err error) {
	var value []byte
	switch row, ok := m.upperRow(key); {
	case ok && row.Tombstone:
		return true, nil
	case ok:
		value = row.Value
	default:
		if value, err = store.value(); err != nil {
			return false, err
		}
	}
	m.limit--
	return m.fn(key, value), nil
}

func (m *merge) upperRow(key []byte) (Row, bool) {
	for _, c := range m.upper {
		if c.valid() && bytes.Equal(c.row().Key, key) {
			return c.row(), true
		}
	}
	return Row{}, false
}

// pass moves all three beyond key. The store moves last: key may be its own.
func (m *merge) pass(key []byte, store *storeCursor) {
	for _, c := range m.upper {
		if c.valid() && bytes.Equal(c.row().Key, key) {
			c.next()
		}
	}
	if store != nil && store.valid() && bytes.Equal(store.key(), key) {
		store.next()
	}
}
