package enginetest

import (
	"context"
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
			items = append(items, s.kvRead(c.Tenant, &reads[i], &left))
		}
		return nil
	})
	return items, err
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
		left := kvReadBytes
		item = s.kvPage(c.Tenant, b.Namespace, b.Prefix, b.After, min(limit, 1000), b.KeysOnly, &left)
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
