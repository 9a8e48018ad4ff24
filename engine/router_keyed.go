package engine

import "context"

// routedKeyed implements Keyed: each call is that of the node that the caller's tenant is on.
type routedKeyed struct{ r *Router }

// Keyed implements Engine.
func (r *Router) Keyed() Keyed { return routedKeyed{r} }

func (x routedKeyed) KV(ctx context.Context, c Caller, reads []KV) ([]KVItem, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return nil, err
	}
	return n.Keyed().KV(ctx, c, reads)
}

func (x routedKeyed) Namespaces(ctx context.Context, c Caller) ([]KVNamespace, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return nil, err
	}
	return n.Keyed().Namespaces(ctx, c)
}

func (x routedKeyed) Browse(ctx context.Context, c Caller, b KVBrowse) (KVItem, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return KVItem{}, err
	}
	return n.Keyed().Browse(ctx, c, b)
}

func (x routedKeyed) Locks(ctx context.Context, c Caller, names []string) ([][]LockHolder, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return nil, err
	}
	return n.Keyed().Locks(ctx, c, names)
}

func (x routedKeyed) Timer(ctx context.Context, c Caller, queue, key string) (TimerInfo, bool, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return TimerInfo{}, false, err
	}
	return n.Keyed().Timer(ctx, c, queue, key)
}

func (x routedKeyed) Timers(ctx context.Context, c Caller, queue string, p Page) ([]TimerInfo, string, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return nil, "", err
	}
	return n.Keyed().Timers(ctx, c, queue, p)
}

func (x routedKeyed) CountTimers(ctx context.Context, c Caller, queue, prefix string) (uint64, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return 0, err
	}
	return n.Keyed().CountTimers(ctx, c, queue, prefix)
}

func (x routedKeyed) WatchKV(ctx context.Context, c Caller, w KVWatch) (KVWatcher, error) {
	n, err := x.r.of(ctx, c.Tenant)
	if err != nil {
		return nil, err
	}
	return n.Keyed().WatchKV(ctx, c, w)
}
