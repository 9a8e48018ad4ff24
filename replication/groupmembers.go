package replication

import (
	"context"
	"fmt"
	"slices"

	"github.com/lni/dragonboat/v4"

	"queen/engine"
	"queen/engine/format"
)

// A cluster has one membership for whoever asks, and each of its raft groups has one of its own, which its leader changes. So what is asked of
// the first group is done in all: who leads that one asks the leaders of the others. What ends half-way can be asked for again, and goes on.

// all are the raft groups of this node, the first one first; an error while one is not open.
func (h *host) all() (all []*Sequencer, err error) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for g := firstGroup; int(g) <= h.o.groups(); g++ {
		s := h.mu.groups[g]
		if s == nil || s.hosted() == nil {
			return nil, fmt.Errorf("replication: raft group %d does not take part here yet", g)
		}
		all = append(all, s)
	}
	return all, nil
}

// leadsAll reports that this is the group that speaks for others.
func (s *Sequencer) leadsAll() bool { return s.group == firstGroup && s.o.groups() > 1 }

// changeAll is changeMembers in all raft groups that are not as it is asked for.
func (s *Sequencer) changeAll(ctx context.Context, what ask, node format.Replica, addr string) error {
	if !s.leadsAll() {
		return s.changeMembers(ctx, what, node, addr)
	}
	if !s.leads() {
		return engine.ErrNotLeader
	}
	groups, err := s.shared.all()
	if err != nil {
		return err
	}
	var lacking []*Sequencer
	for _, t := range groups {
		m, err := t.membershipNow(ctx)
		if err != nil {
			return fmt.Errorf("replication: the membership of raft group %d is not known: %w", t.group, err)
		}
		if isSo(m, what, node) {
			continue
		}
		if err := t.may(ctx, m, what, node); err != nil {
			return err
		}
		lacking = append(lacking, t)
	}
	if len(lacking) == 0 {
		return s.changeMembers(ctx, what, node, addr) // which says why not
	}
	if what == askRemove {
		// Until it is out of all others it stands in the first one, which is what an operator sees.
		slices.Reverse(lacking)
	}
	for i, t := range lacking {
		if err := t.changeBy(ctx, what, node, addr); err != nil {
			if err = fmt.Errorf("raft group %d: %w", t.group, err); i > 0 && !MayBeDone(err) {
				err = unsure{err} // the groups before have it
			}
			return err
		}
	}
	return nil
}

// isSo reports that a membership is as it is asked for.
func isSo(m *dragonboat.Membership, what ask, node format.Replica) bool {
	_, votes := m.Nodes[uint64(node)]
	_, follows := m.NonVotings[uint64(node)]
	switch what {
	case askAdd:
		return votes || follows
	case askPromote:
		return votes
	}
	return !votes && !follows
}

// may refuses what this group would refuse once others have done it.
func (s *Sequencer) may(ctx context.Context, m *dragonboat.Membership, what ask, node format.Replica) error {
	_, removed := m.Removed[uint64(node)]
	_, follows := m.NonVotings[uint64(node)]
	switch {
	case removed:
		return fmt.Errorf("replication: node %d was removed: a number is used once, take another", node)
	case what == askPromote && !follows:
		return fmt.Errorf("replication: node %d is not one that follows in raft group %d", node, s.group)
	case what == askRemove:
		if leader, _, err := s.whoLeads(); err != nil || leader == node {
			return fmt.Errorf("replication: node %d leads raft group %d, or nobody does: have another one lead first", node, s.group)
		}
		if err := s.keepsMajority(ctx, m, node); err != nil {
			return fmt.Errorf("raft group %d: %w", s.group, err)
		}
	}
	return nil
}

// membershipNow is membership on a node that may follow.
func (s *Sequencer) membershipNow(ctx context.Context) (*dragonboat.Membership, error) {
	for {
		m, err := s.membership(ctx)
		if err == nil || !s.rest(ctx) {
			return m, err
		}
	}
}

// changeBy has who leads the group change it.
func (s *Sequencer) changeBy(ctx context.Context, what ask, node format.Replica, addr string) error {
	if s.leads() {
		return s.changeMembers(ctx, what, node, addr)
	}
	_, leader, err := s.whoLeads()
	if err == nil {
		_, err = s.query(ctx, leader, what, node, addr)
		err = askedOutcome(err)
	}
	return err
}

// transferAll is Transfer in all raft groups that the node does not lead.
func (s *Sequencer) transferAll(ctx context.Context, to format.Replica) error {
	if !s.leadsAll() {
		return s.place(ctx, to)
	}
	if !s.leads() {
		return engine.ErrNotLeader
	}
	groups, err := s.shared.all()
	if err != nil {
		return err
	}
	for _, t := range groups {
		if err := t.MakeLead(ctx, t.group, to); err != nil {
			return fmt.Errorf("raft group %d: %w", t.group, err)
		}
	}
	return nil
}
