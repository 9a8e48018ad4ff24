package keyed

import (
	"bytes"
	"iter"
	"sync"

	"github.com/google/btree"
)

// Overlay holds the rows that changed since a checkpoint, tombstones included.
//
// Its life: the apply goroutine writes the live overlay; at a mark the owner swaps pointers, so that
// it becomes the frozen one and a new one goes on top; the flusher writes Rows of the frozen one;
// once that flush is recorded the frozen one is dropped.
//
// INVARIANT: a tombstone is never left out, not even for a key that the last checkpoint does not
// hold: a flush that was cut off may have left the key behind at a higher version, and only the
// tombstone hides it then (TestTombstoneHidesCutFlush).
//
// Writes come from one goroutine, reads from any. An overlay keeps the slices it is given and hands
// them out: nobody may change them.
type Overlay struct {
	mu struct {
		sync.RWMutex
		tree  *btree.BTreeG[Row]
		bytes int64
	}
	limits OverlayLimits
}

// OverlayLimits say when an overlay asks for a checkpoint. The zero value means the defaults.
type OverlayLimits struct {
	Bytes int64 // keys, values and bookkeeping; default 64 MiB
	Rows  int   // default 500,000
}

const (
	overlayDegree       = 32
	overlayRowOverhead  = 96 // slice headers, flag, and the tree's share of a node
	overlayBytesDefault = 64 << 20
	overlayRowsDefault  = 500_000
)

// NewOverlay returns an empty overlay.
func NewOverlay(limits OverlayLimits) *Overlay {
	if limits.Bytes == 0 {
		limits.Bytes = overlayBytesDefault
	}
	if limits.Rows == 0 {
		limits.Rows = overlayRowsDefault
	}
	o := &Overlay{limits: limits}
	o.mu.tree = btree.NewG(overlayDegree, func(a, b Row) bool { return bytes.Compare(a.Key, b.Key) < 0 })
	return o
}

// Put sets a row. It returns the error of CheckRow for one that no flush could write.
func (o *Overlay) Put(key, value []byte) error {
	if err := CheckRow(key, value); err != nil {
		return err
	}
	o.replace(Row{Key: key, Value: value})
	return nil
}

// Delete leaves a tombstone, whether or not the key is known here.
func (o *Overlay) Delete(key []byte) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	o.replace(Row{Key: key, Tombstone: true})
	return nil
}

func (o *Overlay) replace(row Row) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.bytes += row.overlayBytes()
	if old, ok := o.mu.tree.ReplaceOrInsert(row); ok {
		o.mu.bytes -= old.overlayBytes()
	}
}

func (r Row) overlayBytes() int64 { return int64(len(r.Key) + len(r.Value) + overlayRowOverhead) }

// Get returns the row of key, which may be a tombstone, and whether the overlay has one.
func (o *Overlay) Get(key []byte) (Row, bool) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.mu.tree.Get(Row{Key: key})
}

// Snapshot returns the overlay as it is now, untouched by what is written from now on. It takes the same
// short time whatever the size; the first writes after it copy the nodes they change.
func (o *Overlay) Snapshot() *Overlay {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := &Overlay{limits: o.limits}
	s.mu.tree, s.mu.bytes = o.mu.tree.Clone(), o.mu.bytes
	return s
}

// Len returns the number of rows, tombstones included.
func (o *Overlay) Len() int {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.mu.tree.Len()
}

// Bytes returns what the rows take in memory, roughly.
func (o *Overlay) Bytes() int64 {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.mu.bytes
}

// Full says that a limit is reached and a checkpoint is due. Writes go on all the same.
func (o *Overlay) Full() bool {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.mu.bytes >= o.limits.Bytes || o.mu.tree.Len() >= o.limits.Rows
}

// Rows returns all rows in key order, tombstones included: what FlushAt and a delta file take. It is
// for a frozen overlay; on a live one it sees some of the changes made meanwhile.
func (o *Overlay) Rows() iter.Seq[Row] {
	return func(yield func(Row) bool) {
		cur := newOverlayCursor(o, nil, nil)
		for ; cur.valid(); cur.next() {
			if !yield(cur.row()) {
				return
			}
		}
	}
}

// overlayCursor walks the rows with a prefix in key order. It copies rows out in chunks, so that the
// lock is held for microseconds and never across a read of the store.
type overlayCursor struct {
	o      *Overlay
	prefix []byte
	from   []byte // where the next chunk begins
	chunk  []Row
	at     int
	done   bool // no further chunk
}

const overlayChunkRows = 128

// newOverlayCursor begins after startAfter if that is not nil. A nil overlay has no rows.
func newOverlayCursor(o *Overlay, prefix, startAfter []byte) *overlayCursor {
	c := &overlayCursor{o: o, prefix: prefix, from: prefix, done: o == nil}
	if startAfter != nil && bytes.Compare(startAfter, prefix) >= 0 {
		c.from = append(bytes.Clone(startAfter), 0)
	}
	c.fill()
	return c
}

func (c *overlayCursor) fill() {
	c.chunk, c.at = c.chunk[:0], 0
	if c.done {
		return
	}
	c.o.mu.RLock()
	defer c.o.mu.RUnlock()
	c.done = true
	c.o.mu.tree.AscendGreaterOrEqual(Row{Key: c.from}, func(row Row) bool {
		if !bytes.HasPrefix(row.Key, c.prefix) {
			return false
		}
		if len(c.chunk) == overlayChunkRows {
			c.from, c.done = row.Key, false
			return false
		}
		c.chunk = append(c.chunk, row)
		return true
	})
}

func (c *overlayCursor) valid() bool { return c.at < len(c.chunk) }

func (c *overlayCursor) row() Row { return c.chunk[c.at] }

func (c *overlayCursor) next() {
	if c.at++; c.at == len(c.chunk) {
		c.fill()
	}
}
