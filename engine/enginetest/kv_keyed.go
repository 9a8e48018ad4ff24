package enginetest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"queen/engine"
	"queen/engine/format"
)

// modelKeyed is the Keyed of a Model; it shares its memory and mutex.
type modelKeyed Model

// Keyed reads rows by key.
func (m *Model) Keyed() engine.Keyed { return (*modelKeyed)(m) }

func (m *modelKeyed) look(f func(*state) error) error { return (*Model)(m).with(f) }

func (m *modelKeyed) KV(_ context.Context, c engine.Caller, reads []engine.KV) (items []engine.KVItem, err error) {
	b := engine.Batch{Atomic: true}
	for i := range reads {
		b.Ops = append(b.Ops, &reads[i])
	}
	err = m.look(func(s *state) error {
		refused, whole := s.checkOps(c.Tenant, &b)
		for i := range reads {
			if refused[i] == nil && !kvReads(reads[i].Kind) && reads[i].Kind != engine.KVCheck {
				refused[i] = bad("op", "not a read")
			}
		}
		if e := firstOf(refused, whole); e != nil {
			return e
		}
		left := kvReadBytes
		for i := range reads {
			at := m.moment(c.Tenant, reads[i].Snapshot, s)
			if at == nil {
				return failed(i, errExpired())
			}
			item := at.kvRead(c.Tenant, &reads[i], &left)
			m.keep(c.Tenant, reads[i].Snapshot, s, &item)
			items = append(items, item)
		}
		return nil
	})
	return items, err
}

// kvSnapshot is the keys of a moment of which later pages may be asked for.
type kvSnapshot struct {
	tenant format.Tenant
	token  string
	s      *state
}

// snapshotsKept bounds them.
const snapshotsKept = 16

func errExpired() *engine.Error { return fail(engine.CodeSnapshotExpired, "the snapshot is over") }

// moment is the state that a page is of: as it is, or as it was when its snapshot began; nil when nobody knows any more.
func (m *modelKeyed) moment(t format.Tenant, token string, s *state) *state {
	if token == "" || token == engine.SnapshotNew {
		return s
	}
	for _, k := range m.mu.snapshots {
		if k.token == token && k.tenant == t {
			return k.s
		}
	}
	return nil
}

// keep names the moment of a page that is not the last one.
func (m *modelKeyed) keep(t format.Tenant, asked string, s *state, page *engine.KVItem) {
	if !page.Truncated || asked != engine.SnapshotNew {
		if page.Truncated {
			page.Snapshot = asked
		}
		return
	}
	m.mu.began++
	page.Snapshot = fmt.Sprintf("%d-%016x", s.keyed.version, m.mu.began)
	if len(m.mu.snapshots) == snapshotsKept {
		m.mu.snapshots = slices.Delete(m.mu.snapshots, 0, 1)
	}
	m.mu.snapshots = append(m.mu.snapshots, kvSnapshot{t, page.Snapshot, &state{w: s.w, keyed: s.keyed.clone()}})
}

// firstOf is the error of a call that is refused for one of its ops, which it names, or as a whole.
func firstOf(refused []*engine.Error, whole *engine.Error) *engine.Error {
	for i, e := range refused {
		if e != nil {
			return failed(i, e)
		}
	}
	return whole
}

func (m *modelKeyed) Namespaces(_ context.Context, c engine.Caller) (out []engine.KVNamespace, err error) {
	err = m.look(func(s *state) error {
		for _, k := range s.kvKeys(func(k kvKey) bool { return k.tenant == c.Tenant && !strings.HasPrefix(k.ns, "~") }) {
			if n := len(out); n > 0 && out[n-1].Name == k.ns {
				out[n-1].Keys++
			} else {
				out = append(out, engine.KVNamespace{Name: k.ns, Keys: 1})
			}
		}
		return nil
	})
	return out, err
}

func (m *modelKeyed) Browse(_ context.Context, c engine.Caller, b engine.KVBrowse) (item engine.KVItem, err error) {
	if !namespaceForm.MatchString(b.Namespace) {
		return item, bad("namespace", "not a namespace")
	}
	limit := b.Limit
	if limit <= 0 {
		limit = 100
	}
	err = m.look(func(s *state) error {
		if len(b.Snapshot) > 64 {
			return bad("snapshot", "not the name of a snapshot")
		}
		at, left := m.moment(c.Tenant, b.Snapshot, s), kvReadBytes
		if at == nil {
			return errExpired()
		}
		item = at.kvPage(c.Tenant, b.Namespace, b.Prefix, b.After, min(limit, 1000), b.KeysOnly, &left)
		m.keep(c.Tenant, b.Snapshot, s, &item)
		return nil
	})
	return item, err
}

func (m *modelKeyed) Locks(_ context.Context, c engine.Caller, names []string) (out [][]engine.LockHolder, err error) {
	for _, name := range names {
		if e := checkLockName(name); e != nil {
			return nil, e
		}
	}
	err = m.look(func(s *state) error {
		for _, name := range names {
			out = append(out, s.holders(c.Tenant, name, engine.MaxLockSlots))
		}
		return nil
	})
	return out, err
}

func (m *modelKeyed) Timer(_ context.Context, c engine.Caller, queue, key string) (info engine.TimerInfo, ok bool, err error) {
	err = m.look(func(s *state) error {
		if row := s.keyed.timers[timerKey{c.Tenant, queue, key}]; row != nil {
			info, ok = row.view(true), true
		}
		return nil
	})
	return info, ok, err
}

func (m *modelKeyed) Timers(_ context.Context, c engine.Caller, queue string, p engine.Page) (rows []engine.TimerInfo, next string, err error) {
	limit := p.Limit
	if limit <= 0 {
		limit = 100
	}
	limit = min(limit, 1000)
	err = m.look(func(s *state) error {
		for _, k := range s.timerKeys(c.Tenant, queue, "") {
			if k.key <= p.After {
				continue
			}
			if len(rows) == limit {
				next = rows[limit-1].Key
				break
			}
			rows = append(rows, s.keyed.timers[k].view(false))
		}
		return nil
	})
	return rows, next, err
}

func (m *modelKeyed) CountTimers(_ context.Context, c engine.Caller, queue, prefix string) (n uint64, err error) {
	err = m.look(func(s *state) error {
		n = uint64(len(s.timerKeys(c.Tenant, queue, prefix)))
		return nil
	})
	return n, err
}

// timerKeys lists the timers of a queue in byte order of their keys.
func (s *state) timerKeys(t format.Tenant, queue, prefix string) (all []timerKey) {
	for k := range s.keyed.timers {
		if k.tenant == t && k.queue == queue && strings.HasPrefix(k.key, prefix) {
			all = append(all, k)
		}
	}
	slices.SortFunc(all, func(a, b timerKey) int { return strings.Compare(a.key, b.key) })
	return all
}
