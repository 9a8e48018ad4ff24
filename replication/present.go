package replication

import "queen/engine/format"

// Present are the members of the cluster as this node knows them, true for those that answered when they were last asked,
// about a second ago, and for itself. Nil while the membership is not known. The caller owns the map.
func (s *Sequencer) Present() map[format.Replica]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all map[format.Replica]bool
	for _, addresses := range []map[format.Replica]string{s.mu.members.Voters, s.mu.members.Followers} {
		for node := range addresses {
			if all == nil {
				all = map[format.Replica]bool{}
			}
			_, answered := s.mu.reports[node]
			all[node] = answered || node == s.o.Node
		}
	}
	return all
}
