package replication

import (
	"context"
	"maps"
	"slices"

	"queen/engine/format"
)

// Nodes lead about as many raft groups each, so that none has the work of all. Who leads a group hands it to the node that it belongs to once
// the nodes that can lead have been the same ones for a while, and not again before they change: until then a lead stays where an operator,
// or an election, has brought it.

// byGroup is a node for each raft group.
type byGroup map[format.RaftGroup]format.Replica

// placement says which node is to lead each raft group, of the voters, in order, that are present. Group after group has one of the voters for
// its home. One whose home is away goes to the voter with the fewest, and stays where it is led among equals. None is placed where nobody is present.
func placement(groups int, voters []format.Replica, present map[format.Replica]bool, leads byGroup) byGroup {
	placed, load := byGroup{}, map[format.Replica]int{}
	if len(voters) == 0 {
		return placed
	}
	var away []format.RaftGroup
	for g := firstGroup; int(g) <= groups; g++ {
		if home := voters[int(g-firstGroup)%len(voters)]; present[home] {
			placed[g] = home
			load[home]++
		} else {
			away = append(away, g)
		}
	}
	for _, g := range away {
		best := format.Replica(0)
		for _, node := range voters {
			if present[node] && (best == 0 || load[node] < load[best] || load[node] == load[best] && leads[g] == node) {
				best = node
			}
		}
		if best != 0 {
			placed[g] = best
			load[best]++
		}
	}
	return placed
}

// spreadRounds is for how many rounds of the census the nodes that can lead have to be the same ones.
const spreadRounds = 10

// spread is what a node knows for that of one raft group.
//
// INVARIANT: from one change of the set to the next the lead is moved at most once, and not if an operator has moved it since. Who leads by
// an operator's word waits for a round that it began as leader: who led before says in its reports that it was so (ReportPlaced).
type spread struct {
	set    map[format.Replica]uint64 // who can lead, with how often its disk was opened: one that was started again has gone and come
	missed map[format.Replica]int    // for how many rounds one of the set could not
	rounds int                       // without a change of the set
	led    int                       // for how many rounds this node has led
	done   bool                      // nothing is to be moved before the set changes
}

// round notes who can lead in a round of the census. changed says that the set is not what it was: who misses a few rounds stays in it.
func (p *spread) round(can map[format.Replica]uint64, leads bool) (changed bool) {
	next, missed := maps.Clone(can), map[format.Replica]int{}
	for node, boot := range p.set {
		if _, ok := can[node]; !ok && p.missed[node] < silentRounds {
			next[node], missed[node] = boot, p.missed[node]+1
		}
	}
	p.missed = missed
	p.led++
	if !leads {
		p.led = 0
	}
	p.rounds++
	if changed = !maps.Equal(next, p.set); changed {
		p.set, p.rounds, p.done = next, 0, false
	}
	return changed
}

// due reports that the lead may be moved now. placed says that an operator has moved it since the set changed.
func (p *spread) due(placed bool) bool {
	if p.done || p.rounds < spreadRounds {
		return false
	}
	p.done = placed || p.led == 0
	return p.led > 1 && !p.done
}

// spreadLead moves the lead of this group in a round of the census, if it is the time for that.
func (s *Sequencer) spreadLead(reports map[format.Replica]Report) {
	if !s.o.Spread || s.o.groups() == 1 {
		return
	}
	can, leads := s.canLead(reports), s.leads()
	placed := false
	for _, r := range reports {
		placed = placed || r.Flags&ReportPlaced != 0
	}
	s.mu.Lock()
	p := &s.mu.spread
	if p.round(can, leads) {
		s.mu.placed = false
	}
	due := p.due(placed || s.mu.placed)
	present := map[format.Replica]bool{}
	for node := range p.set {
		present[node] = true
	}
	voters := slices.Sorted(maps.Keys(s.mu.members.Voters))
	s.mu.Unlock()
	if !due {
		return
	}
	to := placement(s.o.groups(), voters, present, s.shared.leaders())[s.group]
	moves := to != 0 && to != s.o.Node
	if moves {
		if _, ok := can[to]; !ok || reports[to].Applied+promoteLag < uint64(s.peer.Standing().Applied) || !s.giving.TryLock() {
			return // in a later round
		}
	}
	s.mu.Lock()
	p.done = true
	s.mu.Unlock()
	if !moves {
		return
	}
	s.loops.Go(func() {
		defer s.giving.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
		defer cancel()
		s.o.Log.Info("the lead is handed over, so that nodes lead about as many raft groups each", "to", to)
		if err := s.insist(ctx, to); err != nil {
			s.o.Log.Warn("the lead was not handed over", "to", to, "err", err)
		}
	})
}

// canLead are the voters that can lead this group, with how often the disk of each was opened: they take part, and do not drain.
func (s *Sequencer) canLead(reports map[format.Replica]Report) map[format.Replica]uint64 {
	can, draining := map[format.Replica]uint64{}, s.draining()
	s.mu.Lock()
	voters := s.mu.members.Voters
	s.mu.Unlock()
	for node := range voters {
		r, heard := reports[node]
		switch {
		case slices.Contains(draining, node):
		case node == s.o.Node:
			_, can[node] = s.log.Disk()
		case heard && r.Flags&ReportPart != 0:
			can[node] = r.Boot
		}
	}
	return can
}

// leaders are the nodes that lead, of each raft group that takes part here.
func (h *host) leaders() byGroup {
	h.mu.RLock()
	defer h.mu.RUnlock()
	all := byGroup{}
	for g, s := range h.mu.groups {
		if leader, _, _ := s.whoLeads(); leader != 0 {
			all[g] = leader
		}
	}
	return all
}

// place moves the lead by an operator's word, within ctx: the lead stays there until the nodes that can lead change.
func (s *Sequencer) place(ctx context.Context, to format.Replica) error {
	before := s.notePlaced(true) // first, so that who leads next hears of it
	if to == s.o.Node && s.leads() {
		return nil
	}
	err := s.insist(ctx, to)
	if err != nil {
		s.notePlaced(before)
	}
	return err
}

// notePlaced notes whether an operator had the lead moved, and returns what was so before.
func (s *Sequencer) notePlaced(placed bool) (before bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, s.mu.placed = s.mu.placed, placed
	return before
}
