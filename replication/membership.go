package replication

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"queen/engine"
	"queen/engine/format"
)

var _ engine.Membership = (*Sequencer)(nil)

// Members implements engine.Membership: of this node what is so now, of the others what they said last.
func (s *Sequencer) Members() []engine.Member {
	own, reports, all := s.report(0), s.Reports(), s.memberAddresses()
	all[s.o.Node] = s.o.Peers[s.o.Node]
	s.mu.Lock()
	followers := maps.Clone(s.mu.members.Followers)
	s.mu.Unlock()
	draining := s.draining()
	out := make([]engine.Member, 0, len(all))
	for _, node := range slices.Sorted(maps.Keys(all)) {
		r, heard := reports[node] // nil before the first census
		if node == s.o.Node {
			r, heard = own, true
		}
		_, follows := followers[node]
		out = append(out, engine.Member{Node: node, Address: all[node], Votes: !follows, Draining: slices.Contains(draining, node), Heard: heard,
			Alive: heard || s.runs(node), Leads: r.Flags&ReportLeads != 0, Term: format.Term(r.Epoch), Applied: format.Index(r.Applied),
			Commit: format.Index(r.Commit), Last: format.Index(r.Last), Mark: r.Mark, Behind: s.late(r.Applied), Version: r.Release()})
	}
	return out
}

// MakeLead implements engine.Membership, for this raft group: who leads does it, others ask who leads to.
func (s *Sequencer) MakeLead(ctx context.Context, g format.RaftGroup, to format.Replica) error {
	if g != 0 && g != s.group {
		return engine.NoGroup(g, s.o.groups())
	}
	if err := s.mayLead(to); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	if s.leads() {
		return s.place(ctx, to)
	}
	leader, addr, err := s.whoLeads()
	switch {
	case err != nil:
		return err
	case leader == to:
		s.notePlaced(true)
		return nil
	}
	_, err = s.query(ctx, addr, askLead, to, patience(ctx))
	return err
}

// whoLeads is the node that leads, as far as this one knows, and its raft address.
func (s *Sequencer) whoLeads() (leader format.Replica, addr string, err error) {
	h := s.hosted()
	if h == nil {
		return 0, "", engine.ErrNotLeader
	}
	id, _, ok, err := h.GetLeaderID(uint64(s.group))
	if err != nil || !ok {
		return 0, "", engine.ErrNotLeader
	}
	leader = format.Replica(id)
	if addr = s.addressOf(leader); addr == "" {
		return leader, "", fmt.Errorf("replication: the address of node %d, which leads, is not known", leader)
	}
	return leader, addr, nil
}
