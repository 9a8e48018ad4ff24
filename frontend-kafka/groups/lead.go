package groups

import (
	"context"

	"queen/engine/format"
)

// Look has this node coordinate a group whose row names members, if it does not yet: from then on who gives no sign of life
// is given up.
func (m *Manager) Look(ctx context.Context, k Key) { _ = m.with(ctx, k, func(*group) {}) }

// Take is Look for a row that was read already: value, as it was written at a place. A row that is another by now is left to whoever
// wrote it, and one that names nobody needs no coordinator.
func (m *Manager) Take(k Key, value []byte, at format.Place) {
	m.mu.Lock()
	known := m.groups[k] != nil
	m.mu.Unlock()
	if known {
		return
	}
	row, err := parseRow(value)
	if err != nil {
		_ = m.codeOf(k, err)
		return
	}
	if len(row.Members) == 0 || m.o.Store.At(k) != at {
		return
	}
	g := &group{m: m, key: k}
	g.mu.Lock()
	defer g.mu.Unlock()
	m.mu.Lock()
	if known = m.groups[k] != nil; !known {
		m.groups[k] = g
	}
	m.mu.Unlock()
	if known {
		return
	}
	g.reset()
	g.row = at
	if err = g.restore(&row); err != nil {
		_ = m.codeOf(k, err)
	}
	g.loaded = err == nil
	g.tidy()
}

// LetGo lets go of the groups that other nodes coordinate by now: whoever waits for an answer about one looks for its coordinator,
// which knows nothing of that request. A group that is being worked on is left to the next call, as it may wait for the disk.
func (m *Manager) LetGo() {
	m.mu.Lock()
	all := make([]*group, 0, len(m.groups))
	for _, g := range m.groups {
		all = append(all, g)
	}
	m.mu.Unlock()
	for _, g := range all {
		if m.o.Owns(g.key) || !g.mu.TryLock() {
			continue
		}
		if !g.gone {
			g.abandon()
		}
		g.mu.Unlock()
	}
}
