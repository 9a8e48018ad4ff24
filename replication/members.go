package replication

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/lni/dragonboat/v4"

	"queen/engine"
	"queen/engine/format"
)

// Members is a membership: the raft addresses of who votes and of who only follows.
type Members struct{ Voters, Followers map[format.Replica]string }

// learnMembers keeps what the library knows of the membership, so that added nodes are found.
func (s *Sequencer) learnMembers(ctx context.Context) {
	m, err := s.host.SyncGetShardMembership(ctx, uint64(s.group))
	if err != nil {
		return
	}
	all := Members{Voters: map[format.Replica]string{}, Followers: map[format.Replica]string{}}
	for node, addr := range m.Nodes {
		all.Voters[format.Replica(node)] = addr
	}
	for node, addr := range m.NonVotings {
		all.Followers[format.Replica(node)] = addr
	}
	s.mu.Lock()
	s.mu.members = all
	s.mu.Unlock()
	s.shared.addresses.learn(s.group, s.memberAddresses())
}

// memberAddresses are the raft addresses of all members that are known: before the library tells of them those that the group began with, of which
// some may have been removed since.
func (s *Sequencer) memberAddresses() map[format.Replica]string {
	all := map[format.Replica]string{}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.members.Voters) == 0 {
		for node, addr := range s.members {
			all[format.Replica(node)] = addr
		}
	}
	maps.Copy(all, s.mu.members.Voters)
	maps.Copy(all, s.mu.members.Followers)
	return all
}

// knows reports that another node is a member, as far as that is known here, or can be learned now.
func (s *Sequencer) knows(ctx context.Context, node format.Replica) bool {
	_, ok := s.others()[node]
	if !ok && s.hosted() != nil {
		s.learnMembers(ctx) // it may have been added a moment ago
		_, ok = s.others()[node]
	}
	return ok
}

// changeMembers adds a node that follows, makes one that follows vote, or removes one. Each is a change of its own, in an order
// of their own, that the leader proposes.
func (s *Sequencer) changeMembers(ctx context.Context, what ask, node format.Replica, addr string) error {
	if !s.leads() {
		return engine.ErrNotLeader
	}
	m, err := s.membership(ctx)
	if err != nil {
		return fmt.Errorf("replication: the membership is not known: %w", err)
	}
	_, removed := m.Removed[uint64(node)]
	_, votes := m.Nodes[uint64(node)]
	follower, follows := m.NonVotings[uint64(node)]
	switch {
	case node == 0:
		return fmt.Errorf("replication: a node has a number above 0")
	case removed:
		return fmt.Errorf("replication: node %d was removed: a number is used once, take another", node)
	case what == askAdd && (votes || follows):
		return fmt.Errorf("replication: node %d is a member", node)
	case what == askAdd:
		if _, err := sideAddress(addr); err != nil {
			return err
		}
		return changeOutcome(s.host.SyncRequestAddNonVoting(ctx, uint64(s.group), uint64(node), addr, m.ConfigChangeID))
	case what == askPromote && !follows:
		return fmt.Errorf("replication: node %d is not one that follows", node)
	case what == askPromote:
		return s.promote(ctx, node, follower, m.ConfigChangeID)
	case !votes && !follows:
		return fmt.Errorf("replication: node %d is no member", node)
	case votes && len(m.Nodes) == 1:
		return fmt.Errorf("replication: node %d is the last one that votes", node)
	case node == s.o.Node:
		return fmt.Errorf("replication: node %d leads: have another one lead first", node)
	}
	if err := s.keepsMajority(ctx, m, node); err != nil {
		return err
	}
	return changeOutcome(s.host.SyncRequestDeleteReplica(ctx, uint64(s.group), uint64(node), m.ConfigChangeID))
}

// keepsMajority refuses to remove a voter where too few of those that stay answer and take part: they could commit nothing any more, and not
// even add another one.
func (s *Sequencer) keepsMajority(ctx context.Context, m *dragonboat.Membership, node format.Replica) error {
	if _, votes := m.Nodes[uint64(node)]; !votes {
		return nil
	}
	short, cancel := context.WithTimeout(ctx, heirWithin)
	defer cancel()
	s.learnMembers(short) // one may vote since a moment ago
	reports := s.poll(short, askReport)
	stay, there := 0, 0
	for voter := range m.Nodes {
		if format.Replica(voter) == node {
			continue
		}
		stay++
		r, heard := reports[format.Replica(voter)]
		if format.Replica(voter) == s.o.Node || heard && r.Flags&ReportPart != 0 && !s.isForeign(&r) {
			there++
		}
	}
	if 2*there > stay {
		return nil
	}
	return errors.Join(fmt.Errorf("replication: without node %d there are %d voters, of which %d take part: that is no majority, and nothing could be "+
		"committed any more", node, stay, there), s.whyUnheard())
}

// membership reads the membership as everybody has agreed on it. What the library drops while the leadership moves is asked anew.
func (s *Sequencer) membership(ctx context.Context) (*dragonboat.Membership, error) {
	for {
		short, cancel := context.WithTimeout(ctx, time.Second)
		m, err := s.host.SyncGetShardMembership(short, uint64(s.group))
		cancel()
		if err == nil || !s.leads() || !s.rest(ctx) {
			return m, err
		}
	}
}

// promoteLag is how many entries a node may be behind that is made to vote: until it has caught up it is missing from every
// majority that needs it.
const promoteLag = 1000

func (s *Sequencer) promote(ctx context.Context, node format.Replica, addr string, change uint64) error {
	r, err := s.query(ctx, addr, askReport, node, "")
	if err != nil {
		return fmt.Errorf("replication: node %d does not answer: %w", node, err)
	}
	if r.Address != addressHash(addr) {
		return fmt.Errorf("replication: node %d was added as %s, and runs under another raft address: what it says would count for nothing", node, addr)
	}
	if r.Flags&ReportPart == 0 || r.Leader != uint64(s.o.Node) {
		return fmt.Errorf("replication: node %d does not follow this leader yet", node)
	}
	if own := uint64(s.peer.Standing().Applied); r.Applied+promoteLag < own {
		return fmt.Errorf("replication: node %d has applied %d of %d entries: it has to catch up first", node, r.Applied, own)
	}
	return changeOutcome(s.host.SyncRequestAddReplica(ctx, uint64(s.group), uint64(node), addr, change))
}
