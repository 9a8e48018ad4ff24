package engine

import "context"

// routedWatcher is a watcher of a tenant of whom the node could not tell the group when it was taken. It becomes one of the tenant's
// node in Next, which may wait; one of group 1 would learn of nothing once the tenant is placed elsewhere.
type routedWatcher struct {
	r      *Router
	caller Caller
	inner  Watcher // nil until the group is known
	early  map[PartitionRef]struct{}
}

// Add implements Watcher.
func (w *routedWatcher) Add(refs ...PartitionRef) {
	if w.inner != nil {
		w.inner.Add(refs...)
		return
	}
	for _, r := range refs {
		w.early[r] = struct{}{}
	}
}

// Remove implements Watcher.
func (w *routedWatcher) Remove(refs ...PartitionRef) {
	if w.inner != nil {
		w.inner.Remove(refs...)
		return
	}
	for _, r := range refs {
		delete(w.early, r)
	}
}

// Next implements Watcher.
func (w *routedWatcher) Next(ctx context.Context) ([]Change, error) {
	if w.inner == nil {
		found, err := w.find(ctx)
		if err != nil || len(found) > 0 {
			return found, err
		}
	}
	return w.inner.Next(ctx)
}

// find begins to watch where the tenant is. What exists of it there counts as changed: it may have come after it was added here.
func (w *routedWatcher) find(ctx context.Context) (found []Change, err error) {
	n, err := w.r.of(ctx, w.caller.Tenant)
	if err != nil {
		return nil, err
	}
	w.inner = n.Watch(w.caller)
	for ref := range w.early {
		w.inner.Add(ref)
		if part, _, ok := n.partByName(w.caller.Tenant, ref.Queue, ref.Partition); ok {
			found = append(found, Change{PartitionRef: ref, Exists: true, Start: part.start, End: part.next})
		}
	}
	w.early = nil
	return found, nil
}

// Close implements Watcher.
func (w *routedWatcher) Close() {
	if w.inner != nil {
		w.inner.Close()
	}
}
