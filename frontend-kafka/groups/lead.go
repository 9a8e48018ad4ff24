package groups

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
