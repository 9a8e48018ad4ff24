package engine

import (
	"bytes"
	"errors"
	"sync/atomic"

	"queen/engine/format"
	"queen/engine/keyed"
	"queen/engine/machine"
)

// keyedRows takes the keyed rows of apply into the overlay that is newer than the last checkpoint,
// and reads them back, overlay over frozen overlay over store. It implements machine.KeyedSink.
type keyedRows struct {
	live   *keyed.Overlay // written by the apply goroutine
	frozen *keyed.Overlay // being flushed, nil when nothing is; the apply goroutine's
	store  *keyed.Store
	at     uint64 // the store's version that is read
	view   atomic.Pointer[keyed.View]
	failed error
	limits keyed.OverlayLimits

	// While an entry is applied: the looks that its callers want taken, by ordinal.
	m       *machine.Machine
	settles []settle
	settled int

	changes   kvChanges
	snapshots kvSnapshots
	// written counts the bytes of all rows that were ever put into an overlay.
	written atomic.Int64
}

// rowOverhead is what a row takes in an overlay beside its bytes, roughly.
const rowOverhead = 96

func newKeyedRows(store *keyed.Store, at uint64, limits keyed.OverlayLimits) *keyedRows {
	k := &keyedRows{live: keyed.NewOverlay(limits), store: store, at: at, limits: limits}
	k.publish(nil, store, at)
	return k
}

func (k *keyedRows) publish(frozen *keyed.Overlay, store *keyed.Store, at uint64) {
	v := keyed.NewView(k.live, frozen, store, at)
	k.view.Store(&v)
}

// full is the store's key, in memory of its own: the overlay keeps it.
func full(family byte, key []byte) []byte {
	return append(append(make([]byte, 0, 1+len(key)), family), key...)
}

// Put implements machine.KeyedSink. Rows are checked at the edge, so a refusal is our fault: it is
// kept and ends the node at the next apply.
func (k *keyedRows) Put(family byte, key, value []byte) {
	at, row := full(family, key), bytes.Clone(value)
	k.failed = errors.Join(k.failed, k.live.Put(at, row))
	k.written.Add(int64(len(at) + len(row) + rowOverhead))
	if family == machine.FamilyKV {
		k.changes.add(kvEvent{version: k.m.KeyVersion(), key: at, row: row})
	}
}

// Delete implements machine.KeyedSink.
func (k *keyedRows) Delete(family byte, key []byte) {
	at := full(family, key)
	k.failed = errors.Join(k.failed, k.live.Delete(at))
	k.written.Add(int64(len(at) + rowOverhead))
	if family == machine.FamilyKV {
		k.changes.add(kvEvent{version: k.m.KeyVersion(), key: at})
	}
}

// expect notes the looks that the callers of an entry want.
func (k *keyedRows) expect(m *machine.Machine, fl *flight) {
	if k.m == nil {
		k.changes.begin(m.KeyVersion())
	}
	k.m, k.settles, k.settled = m, k.settles[:0], 0
	for _, s := range fl.subs {
		for _, w := range s.settles {
			k.settles = append(k.settles, settle{at: s.ordinal + w.at, look: w.look})
		}
	}
}

// Settled implements machine.KeyedSink. Looks stand in the order of the commands.
func (k *keyedRows) Settled(o format.Ordinal) {
	for ; k.settled < len(k.settles) && k.settles[k.settled].at <= o; k.settled++ {
		if s := &k.settles[k.settled]; s.at == o {
			s.look.take(k.m, k, k.m.W())
		}
	}
}

// deadRow reads the row of a dead letter; false when it went away meanwhile. The bytes are the caller's to read.
func (k *keyedRows) deadRow(id []byte) (row format.DeadRow, ok bool, err error) {
	key := append([]byte{byte(keyed.FamilyDeadLetter)}, id...)
	v, ok, err := k.view.Load().Get(key)
	if err != nil || !ok {
		return row, false, err
	}
	row, err = format.ParseDeadRow(v)
	return row, err == nil, err
}

// deadReason reads why a dead letter was filed. "" when none was given.
func (k *keyedRows) deadReason(id []byte) (string, error) {
	row, _, err := k.deadRow(id)
	return string(row.Reason), err
}
