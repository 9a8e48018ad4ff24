package engine

import (
	"context"
	"sync"

	"queen/engine/format"
)

// watching is the registry of watchers by partition name. A watch is memory only: the apply
// goroutine marks, Next reads.
type watching struct {
	mu     sync.Mutex
	byName map[watchKey]map[*watcher]struct{}
}

type watchKey struct {
	queueName
	partition string
}

// watcher implements Watcher. Each changed partition is reported at most once between two Next.
type watcher struct {
	n      *Node
	tenant format.Tenant
	wake   chan struct{}
	// Guarded by the registry's lock.
	watched map[PartitionRef]struct{}
	changed map[PartitionRef]struct{}
}

// Watch implements Engine.
func (n *Node) Watch(c Caller) Watcher {
	return &watcher{n: n, tenant: c.Tenant, wake: make(chan struct{}, 1),
		watched: map[PartitionRef]struct{}{}, changed: map[PartitionRef]struct{}{}}
}

func (w *watcher) key(r PartitionRef) watchKey {
	return watchKey{queueName{w.tenant, r.Queue}, r.Partition}
}

func (w *watcher) Add(refs ...PartitionRef) {
	reg := &w.n.watching
	reg.mu.Lock()
	defer reg.mu.Unlock()
	if reg.byName == nil {
		reg.byName = map[watchKey]map[*watcher]struct{}{}
	}
	for _, r := range refs {
		w.watched[r] = struct{}{}
		k := w.key(r)
		if reg.byName[k] == nil {
			reg.byName[k] = map[*watcher]struct{}{}
		}
		reg.byName[k][w] = struct{}{}
	}
}

func (w *watcher) Remove(refs ...PartitionRef) {
	reg := &w.n.watching
	reg.mu.Lock()
	defer reg.mu.Unlock()
	for _, r := range refs {
		delete(w.watched, r)
		delete(w.changed, r)
		k := w.key(r)
		delete(reg.byName[k], w)
		if len(reg.byName[k]) == 0 {
			delete(reg.byName, k)
		}
	}
}

func (w *watcher) Next(ctx context.Context) ([]Change, error) {
	for {
		if out := w.collect(); len(out) > 0 {
			return out, nil
		}
		select {
		case <-w.wake:
		case <-w.n.stopping:
			return nil, errClosed()
		case <-ctx.Done():
			return nil, errContext(ctx, OutcomeNone)
		}
	}
}

func (w *watcher) collect() []Change {
	reg := &w.n.watching
	reg.mu.Lock()
	refs := make([]PartitionRef, 0, len(w.changed))
	for r := range w.changed {
		refs = append(refs, r)
	}
	clear(w.changed)
	reg.mu.Unlock()
	out := make([]Change, 0, len(refs))
	for _, r := range refs {
		part, _, ok := w.n.partByName(w.tenant, r.Queue, r.Partition)
		c := Change{PartitionRef: r, Exists: ok}
		if ok {
			c.Start, c.End = part.start, part.next
		}
		out = append(out, c)
	}
	return out
}

func (w *watcher) Close() {
	reg := &w.n.watching
	reg.mu.Lock()
	refs := make([]PartitionRef, 0, len(w.watched))
	for r := range w.watched {
		refs = append(refs, r)
	}
	reg.mu.Unlock()
	w.Remove(refs...)
}

// empty reports whether nobody watches anything, so that apply need not look names up.
func (g *watching) empty() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.byName) == 0
}

// mark notes a change of a partition for whoever watches it.
func (g *watching) mark(k watchKey) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for w := range g.byName[k] {
		w.changed[PartitionRef{k.queue, k.partition}] = struct{}{}
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}
