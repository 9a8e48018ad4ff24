package replication

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"queen/engine"
	"queen/engine/format"
)

// Leave implements engine.Replicated.
func (s *Sequencer) Leave(ctx context.Context) {
	if s.host != nil && s.leads() {
		s.handLeadership(ctx)
		s.linger(ctx)
	}
	s.mu.Lock()
	s.mu.left = true
	s.mu.room.Broadcast()
	s.mu.Unlock()
	if s.links != nil {
		s.links.leave()
	}
}

// handLeadership asks the other voters to lead, one after the other, until one does.
func (s *Sequencer) handLeadership(ctx context.Context) {
	for _, node := range s.drainingLast(slices.Sorted(maps.Keys(s.memberAddresses()))) {
		if !s.leads() || ctx.Err() != nil {
			return
		}
		if node != s.o.Node {
			_ = s.Transfer(ctx, node) // the next one is asked
		}
	}
}

// lingerWithin bounds how long a node that led stays once another one does, lingerEvery is between its looks.
const (
	lingerWithin = 2 * time.Second
	lingerEvery  = 2 * pause
)

// linger stays until every other node that answers has applied the Term of who leads now. Until then the new leader may reach nobody
// but this one: the library's connection to a node that was restarted meanwhile is found broken only when it is used, and opened
// again up to a second later.
func (s *Sequencer) linger(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lingerWithin)
	defer cancel()
	for !s.leads() && s.restIn(ctx, lingerEvery) {
		_, term, ok, err := s.host.GetLeaderID(uint64(s.group))
		if err != nil || !ok {
			continue // it was not heard yet
		}
		begun := true
		for _, r := range s.poll(ctx, askReport) {
			begun = begun && r.Epoch >= term
		}
		if begun {
			return
		}
	}
}

// leads reports that this node leads as far as the library knows.
func (s *Sequencer) leads() bool {
	h := s.hosted()
	if h == nil {
		return false
	}
	leader, _, ok, err := h.GetLeaderID(uint64(s.group))
	return err == nil && ok && leader == uint64(s.o.Node)
}

// hold stops proposals, waits until those under way are applied, and lets a moment pass in which the others come to
// apply them as well: a node does not stand for election while it has anything to apply.
func (s *Sequencer) hold(ctx context.Context) {
	s.mu.Lock()
	s.mu.held = true
	s.mu.Unlock()
	s.lent.Store(true)
	for range transferTries {
		if !s.rest(ctx) {
			return
		}
		s.mu.Lock()
		idle := s.mu.inFlight == 0
		s.mu.Unlock()
		if idle {
			s.restIn(ctx, 4*pause)
			return
		}
	}
}

func (s *Sequencer) unhold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.held = false
	s.mu.room.Broadcast()
}

// Transfer makes another node lead. Only who leads can ask for it. The library gives up after an election's time when that
// node does not answer or is too far behind.
func (s *Sequencer) Transfer(ctx context.Context, to format.Replica) error {
	if !s.leads() {
		return engine.ErrNotLeader
	}
	s.hold(ctx)
	defer s.unhold()
	if err := s.host.RequestLeaderTransfer(uint64(s.group), uint64(to)); err != nil {
		return fmt.Errorf("replication: node %d can not be made to lead: %w", to, err)
	}
	for range transferTries {
		if !s.rest(ctx) {
			return ctx.Err()
		}
		if leader, _, ok, err := s.host.GetLeaderID(uint64(s.group)); err == nil && ok && leader == uint64(to) {
			return nil
		}
	}
	return fmt.Errorf("replication: node %d did not take the lead", to)
}

// transferTries pauses are more than the library tries a transfer for, with the default tick.
const transferTries = 250
