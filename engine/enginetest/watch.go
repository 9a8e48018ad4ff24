package enginetest

import (
	"context"
	"slices"

	"queen/engine"
	"queen/engine/format"
)

// watcher is a set of watched partitions and those of them that changed since the last Next.
type watcher struct {
	m       *Model
	tenant  format.Tenant
	watched map[engine.PartitionRef]bool
	dirty   []engine.PartitionRef // in order of change, each once
	wake    chan struct{}         // room for one
	closed  bool
}

// Watch starts with nothing watched.
func (m *Model) Watch(c engine.Caller) engine.Watcher {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := &watcher{m: m, tenant: c.Tenant, watched: map[engine.PartitionRef]bool{}, wake: make(chan struct{}, 1)}
	m.mu.watches = append(m.mu.watches, w)
	return w
}

// changedLocked is told by the state, under the mutex.
func (m *Model) changedLocked(ref engine.PartitionRef, t format.Tenant) {
	for _, w := range m.mu.watches {
		if w.tenant != t || !w.watched[ref] || slices.Contains(w.dirty, ref) {
			continue
		}
		w.dirty = append(w.dirty, ref)
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

func (w *watcher) Add(refs ...engine.PartitionRef) {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	for _, r := range refs {
		w.watched[r] = true
	}
}

func (w *watcher) Remove(refs ...engine.PartitionRef) {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	for _, r := range refs {
		delete(w.watched, r)
		w.dirty = slices.DeleteFunc(w.dirty, func(o engine.PartitionRef) bool { return o == r })
	}
}

func (w *watcher) Next(ctx context.Context) ([]engine.Change, error) {
	for {
		if out, err := w.take(); out != nil || err != nil {
			return out, err
		}
		w.m.mu.Lock()
		bump := w.m.mu.bump
		w.m.mu.Unlock()
		select {
		case <-w.wake:
		case <-bump:
		case <-ctx.Done():
			return nil, errGone(ctx)
		}
	}
}

func (w *watcher) take() ([]engine.Change, error) {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	if w.closed || w.m.mu.closed {
		return nil, errClosed()
	}
	s := w.m.stepLocked()
	var out []engine.Change
	for _, r := range w.dirty {
		ch := engine.Change{PartitionRef: r}
		if q := s.queue(w.tenant, r.Queue); q != nil {
			if p := q.part(r.Partition); p != nil {
				ch.Exists, ch.Start, ch.End = true, p.start, p.end()
			}
		}
		out = append(out, ch)
	}
	w.dirty = nil
	return out, nil
}

func (w *watcher) Close() {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	if !w.closed {
		w.closed = true
		w.m.mu.watches = slices.DeleteFunc(w.m.mu.watches, func(o *watcher) bool { return o == w })
	}
}
