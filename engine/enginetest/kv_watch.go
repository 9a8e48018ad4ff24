package enginetest

import (
	"context"
	"slices"
	"strings"

	"queen/engine"
	"queen/engine/format"
)

// kvWatcher follows a prefix by its place in the order of versions.
type kvWatcher struct {
	m      *Model
	tenant format.Tenant
	what   engine.KVWatch
	seen   uint64
	closed chan struct{}
}

func (m *modelKeyed) WatchKV(_ context.Context, c engine.Caller, w engine.KVWatch) (engine.KVWatcher, error) {
	if !namespaceForm.MatchString(w.Namespace) {
		return nil, bad("ns", "not a namespace")
	}
	out := &kvWatcher{m: (*Model)(m), tenant: c.Tenant, what: w, seen: w.From, closed: make(chan struct{})}
	err := m.look(func(s *state) error {
		if w.From == 0 {
			out.seen = s.keyed.version
		}
		m.mu.kvWatches++
		return nil
	})
	return out, err
}

func (w *kvWatcher) Next(ctx context.Context) ([]engine.KVChange, bool, error) {
	for {
		changes, lost, bump, err := w.take()
		if err != nil || lost || len(changes) > 0 {
			return changes, lost, err
		}
		select {
		case <-bump:
		case <-w.closed:
			return nil, false, errClosed()
		case <-ctx.Done():
			return nil, false, errGone(ctx)
		}
	}
}

// take returns what is newer than what was seen: from the remembered changes, or where these do not
// reach back to it, the live rows.
func (w *kvWatcher) take() (changes []engine.KVChange, lost bool, bump chan struct{}, err error) {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	if w.m.mu.closed {
		return nil, false, nil, errClosed()
	}
	s := w.m.stepLocked()
	ours := func(k kvKey) bool {
		return k.tenant == w.tenant && k.ns == w.what.Namespace && strings.HasPrefix(k.key, w.what.Prefix)
	}
	if lost = w.seen < s.keyed.dropped; lost {
		for _, k := range s.kvKeys(ours) {
			if row := s.kvLive(k); row != nil && row.version > w.seen {
				changes = append(changes, engine.KVChange{Row: row.view(k.key)})
			}
		}
		slices.SortFunc(changes, func(a, b engine.KVChange) int { return int(int64(a.Row.Version) - int64(b.Row.Version)) })
	} else {
		for _, e := range s.keyed.changes {
			switch {
			case e.version <= w.seen || !ours(e.at):
			case e.row == nil:
				changes = append(changes, engine.KVChange{Deleted: true, Row: engine.KVRow{Key: e.at.key, Version: e.version}})
			default:
				changes = append(changes, engine.KVChange{Row: e.row.view(e.at.key)})
			}
		}
	}
	w.seen = s.keyed.version
	return changes, lost, w.m.mu.bump, nil
}

func (w *kvWatcher) Close() {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	select {
	case <-w.closed:
	default:
		close(w.closed)
		w.m.mu.kvWatches--
	}
}
