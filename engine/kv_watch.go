package engine

import (
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"slices"
	"sync"

	"queen/engine/format"
)

// Bounds of what is remembered for watchers, and of what one Next returns.
const (
	watchEvents     = 16_384
	watchEventBytes = 8 << 20
	watchBatch      = 256
	watchBatchBytes = 1 << 20
	// watchBacklog bounds the rows that a watcher which lost its place catches up on in one pass.
	watchBacklog = 16_384
)

// kvEvent is a change of a KV row: its key and row as the store has them, no row for a deletion or the end of
// its time. Each has a version of its own, and versions rise.
type kvEvent struct {
	version uint64
	key     []byte
	row     []byte
}

func (e *kvEvent) bytes() int { return len(e.key) + len(e.row) + 64 }

// kvChanges remembers the newest changes of KV rows and wakes who follows them.
type kvChanges struct {
	// fresh are the changes of the entry being applied; the apply goroutine's.
	fresh []kvEvent

	mu struct {
		sync.Mutex
		events []kvEvent // oldest first
		bytes  int
		// floor is the version up to which changes are not remembered.
		floor    uint64
		watchers map[string]map[*kvWatcher]struct{} // by tenant and namespace, as in the store's key
	}
}

// begin sets where memory starts: at the state that was loaded.
func (c *kvChanges) begin(version uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.mu.events) == 0 && c.mu.floor == 0 {
		c.mu.floor = version
	}
}

// add notes a change of the entry being applied.
func (c *kvChanges) add(e kvEvent) { c.fresh = append(c.fresh, e) }

// publish shows the changes of the entry that was applied, and wakes each watcher once.
func (c *kvChanges) publish() {
	if len(c.fresh) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.fresh {
		e := &c.fresh[i]
		c.mu.events = append(c.mu.events, *e)
		c.mu.bytes += e.bytes()
		c.wakeLocked(e)
	}
	clear(c.fresh)
	c.fresh = c.fresh[:0]
	drop := 0
	for left := c.mu.bytes; len(c.mu.events)-drop > watchEvents || left > watchEventBytes && drop < len(c.mu.events); drop++ {
		left -= c.mu.events[drop].bytes()
	}
	c.dropLocked(drop)
}

// dropLocked forgets the oldest events, a few at a time so that what is kept is seldom moved.
func (c *kvChanges) dropLocked(n int) {
	if n == 0 {
		return
	}
	for i := range n {
		c.mu.bytes -= c.mu.events[i].bytes()
	}
	c.mu.floor = c.mu.events[n-1].version
	clear(c.mu.events[:n])
	c.mu.events = c.mu.events[n:]
}

func (c *kvChanges) wakeLocked(e *kvEvent) {
	if len(c.mu.watchers) == 0 {
		return
	}
	for w := range c.mu.watchers[string(e.key[:spaceEnd(e.key)])] {
		if bytes.HasPrefix(e.key, w.prefix) {
			select {
			case w.wake <- struct{}{}:
			default:
			}
		}
	}
}

// spaceEnd is the length of family, tenant and namespace in a KV row's key.
func spaceEnd(key []byte) int {
	const head = 1 + len(format.Tenant{})
	return head + bytes.IndexByte(key[head:], 0) + 1
}

// followed reports that somebody waits for changes, so that the ends of rows are noticed soon.
func (c *kvChanges) followed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.mu.watchers) > 0
}

// kvWatcher implements KVWatcher. Its place is a version: all changes up to it were handed out.
type kvWatcher struct {
	n      *Node
	tenant format.Tenant
	ns     string
	prefix []byte // of the store's keys
	wake   chan struct{}
	gone   chan struct{}

	mu struct {
		sync.Mutex
		seen   uint64
		closed bool
		// astray says that its place was never reached here: it belongs to other data.
		astray bool
		// While it catches up on rows: those of a pass that are left, and the place after them.
		behind  bool
		backlog []versionedKey
		upto    uint64
	}
}

// versionedKey is a row found by a catching up watcher.
type versionedKey struct {
	version uint64
	key     []byte
}

// WatchKV implements Keyed.
func (k keyedReader) WatchKV(ctx context.Context, c Caller, what KVWatch) (KVWatcher, error) {
	if err := k.open(ctx); err != nil {
		return nil, err
	}
	if err := checkNamespace(what.Namespace); err != nil {
		return nil, err
	}
	switch {
	case len(what.Prefix) > MaxKVKey || bytes.IndexByte(viewBytes(what.Prefix), 0) >= 0:
		return nil, errBad("prefix", "512 bytes, no NUL", "not a prefix of keys")
	case what.From > maxExpect:
		return nil, errBad("fromVersion", "2^53", "no version is that high")
	}
	n := k.n
	w := &kvWatcher{n: n, tenant: c.Tenant, ns: what.Namespace, prefix: kvStoreKey(c.Tenant, what.Namespace, what.Prefix),
		wake: make(chan struct{}, 1), gone: make(chan struct{})}
	ch := &n.keyed.changes
	n.state.RLock() // no entry between the look at the version and the registration
	defer n.state.RUnlock()
	switch newest := n.state.m.KeyVersion(); {
	case what.From == 0:
		w.mu.seen = newest
	case what.From > newest:
		// Waiting for that version would hide every change up to it: the place is lost, and all rows are told.
		w.mu.astray = true
	default:
		w.mu.seen = what.From
	}
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.mu.watchers == nil {
		ch.mu.watchers = map[string]map[*kvWatcher]struct{}{}
	}
	space := w.space()
	if ch.mu.watchers[space] == nil {
		ch.mu.watchers[space] = map[*kvWatcher]struct{}{}
	}
	ch.mu.watchers[space][w] = struct{}{}
	return w, nil
}

func (w *kvWatcher) space() string { return string(w.prefix[:spaceEnd(w.prefix)]) }

// Next implements KVWatcher.
func (w *kvWatcher) Next(ctx context.Context) ([]KVChange, bool, error) {
	for {
		changes, lost, more, err := w.take()
		switch {
		case err != nil:
			w.n.event("watch", err)
			return nil, false, errRead(err)
		case len(changes) > 0 || lost:
			return changes, lost, nil
		case more:
			continue
		}
		select {
		case <-w.wake:
		case <-w.gone:
			return nil, false, errClosed()
		case <-w.n.stopping:
			return nil, false, errClosed()
		case <-ctx.Done():
			return nil, false, errContext(ctx, OutcomeNone)
		}
	}
}

// Close implements KVWatcher.
func (w *kvWatcher) Close() {
	w.mu.Lock()
	closed := w.mu.closed
	w.mu.closed = true
	w.mu.Unlock()
	if closed {
		return
	}
	close(w.gone)
	ch := &w.n.keyed.changes
	ch.mu.Lock()
	defer ch.mu.Unlock()
	space := w.space()
	delete(ch.mu.watchers[space], w)
	if len(ch.mu.watchers[space]) == 0 {
		delete(ch.mu.watchers, space)
	}
}

// take hands out the next changes, from memory or, when the watcher's place is no longer there, from the rows.
// more says that nothing was found so far and the search goes on.
func (w *kvWatcher) take() (changes []KVChange, lost, more bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.behind {
		changes, more, err = w.drain()
		return changes, false, more, err
	}
	var found []kvEvent
	ok := false
	if !w.mu.astray {
		found, ok = w.remembered()
	}
	if !ok {
		if err := w.scan(); err != nil {
			return nil, false, false, err
		}
		w.mu.astray = false
		changes, more, err = w.drain()
		return changes, true, more, err
	}
	base := spaceEnd(w.prefix)
	for i := range found {
		e := &found[i]
		c := KVChange{Deleted: e.row == nil, Row: KVRow{Key: string(e.key[base:]), Version: e.version}}
		if !c.Deleted {
			row, err := format.ParseKVRow(e.row)
			if err != nil {
				return nil, false, false, err
			}
			c.Row = rowOf(c.Row.Key, &row)
		}
		changes = append(changes, c)
	}
	return changes, false, false, nil
}

// remembered returns events of the watcher's keys behind its place, which it moves on; false when memory does
// not reach back to it.
func (w *kvWatcher) remembered() (found []kvEvent, ok bool) {
	c := &w.n.keyed.changes
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.mu.seen < c.mu.floor {
		return nil, false
	}
	from, _ := slices.BinarySearchFunc(c.mu.events, w.mu.seen+1, func(e kvEvent, v uint64) int { return cmp.Compare(e.version, v) })
	size := 0
	for i := from; i < len(c.mu.events) && len(found) < watchBatch && size < watchBatchBytes; i++ {
		e := &c.mu.events[i]
		w.mu.seen = e.version
		if bytes.HasPrefix(e.key, w.prefix) {
			found = append(found, *e)
			size += e.bytes()
		}
	}
	return found, true
}

// scan looks for rows that are newer than the watcher's place: the oldest of them, as many as a pass holds.
func (w *kvWatcher) scan() error {
	n := w.n
	n.state.RLock()
	v, upto := n.keyed.view.Load().Snapshot(), n.state.m.KeyVersion()
	n.state.RUnlock()
	var newest oldestFirst
	var bad error
	cut := false
	err := v.ScanPrefix(w.prefix, nil, scanStep, func(key, value []byte) bool {
		row, err := format.ParseKVRow(value)
		if bad = err; err != nil {
			return false
		}
		if row.Version <= w.mu.seen {
			return true
		}
		if len(newest) == watchBacklog {
			cut = true
			if row.Version > newest[0].version {
				return true
			}
			heap.Pop(&newest)
		}
		heap.Push(&newest, versionedKey{row.Version, bytes.Clone(key)})
		return true
	})
	if err = cmp.Or(err, bad); err != nil {
		return err
	}
	slices.SortFunc(newest, func(a, b versionedKey) int { return cmp.Compare(a.version, b.version) })
	if w.mu.behind, w.mu.backlog, w.mu.upto = true, newest, upto; cut {
		w.mu.upto = newest[len(newest)-1].version
	}
	return nil
}

// drain hands out rows of the backlog as they are now. One that changed since comes again with its new
// version, behind the place at which the watcher goes on.
func (w *kvWatcher) drain() (changes []KVChange, more bool, err error) {
	base, size := spaceEnd(w.prefix), 0
	for len(w.mu.backlog) > 0 && len(changes) < watchBatch && size < watchBatchBytes {
		at := w.mu.backlog[0]
		look := kvLook{tenant: w.tenant, points: []kvPoint{{key: at.key}}}
		w.n.takeLook(&look, w.n.wall())
		row, found, err := look.row(0)
		if err != nil {
			return nil, false, err
		}
		w.mu.backlog = w.mu.backlog[1:]
		if found && row.Version == at.version {
			changes = append(changes, KVChange{Row: rowOf(string(at.key[base:]), &row)})
			size += len(at.key) + len(row.JSON)
		}
	}
	if len(w.mu.backlog) == 0 {
		w.mu.behind, w.mu.backlog, w.mu.seen = false, nil, w.mu.upto
	}
	return changes, len(changes) == 0, nil
}

// oldestFirst is a heap with the newest version on top, so that it is the one that goes.
type oldestFirst []versionedKey

func (h oldestFirst) Len() int           { return len(h) }
func (h oldestFirst) Less(i, k int) bool { return h[i].version > h[k].version }
func (h oldestFirst) Swap(i, k int)      { h[i], h[k] = h[k], h[i] }
func (h *oldestFirst) Push(x any)        { *h = append(*h, x.(versionedKey)) }

func (h *oldestFirst) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
