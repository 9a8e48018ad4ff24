package replication

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lni/dragonboat/v4"

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

// handLeadership asks the other voters to lead, one after the other, until one does. Those come first that answered a moment ago: one that swallows
// what it is sent would use up the time.
func (s *Sequencer) handLeadership(ctx context.Context) {
	nodes, heard := s.drainingLast(slices.Sorted(maps.Keys(s.memberAddresses()))), s.Reports()
	slices.SortStableFunc(nodes, func(a, b format.Replica) int {
		_, first := heard[a]
		_, second := heard[b]
		switch {
		case first == second:
			return 0
		case first:
			return -1
		}
		return 1
	})
	for _, node := range nodes {
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

// linger stays until every other node that answers has applied the Term of who leads now. Until then the new leader may need this one for a
// majority: it may not have reached another one yet, as one that has just been started.
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

const (
	// leastTry bounds a try to move the lead with short ticks, betweenTries is from one to the next, in which calls go on.
	leastTry     = time.Second
	betweenTries = 100 * time.Millisecond
	// heirWithin is how long a node may take to answer that is to lead.
	heirWithin = 2 * time.Second
)

// later is why the lead did not move that may not be so a moment later.
type later struct{ why error }

// laterWords end its words, which tell it apart on the wire as well.
const laterWords = "; it can be asked for again"

func (l later) Error() string { return l.why.Error() + laterWords }

func (l later) Unwrap() error { return l.why }

// Again reports that a transfer of the lead, which came to err here or at the node that led, may succeed when it is asked for once more: another
// node leads meanwhile, or the one that is to lead was slow.
func Again(err error) bool {
	if err == nil || errors.Is(err, errNoneLeads) {
		return err != nil
	}
	words := err.Error()
	return strings.HasSuffix(words, laterWords) || strings.HasSuffix(words, engine.ErrNotLeader.Error())
}

// Transfer makes another node lead, in one try, in which calls wait. Only who leads can ask for it. A node that does not vote, does not answer
// or is far behind is refused before anything waits.
func (s *Sequencer) Transfer(ctx context.Context, to format.Replica) error {
	switch {
	case !s.leads():
		return engine.ErrNotLeader
	case to == s.o.Node:
		return nil
	}
	addr, err := s.voter(ctx, to)
	if err == nil {
		err = s.canTake(ctx, to, addr)
	}
	if err != nil {
		return err
	}
	within := max(2*electionTicks*s.o.Tick, leastTry) // the library gives up after half of that at most
	ready, done := context.WithTimeout(ctx, within/2)
	defer done()
	defer s.unhold()
	if !s.hold(ready) {
		return later{errors.New("replication: what is under way takes too long")}
	}
	if err := s.caughtUp(ready, to, addr); err != nil {
		return err
	}
	s.lent.Store(true)
	switch err := s.host.RequestLeaderTransfer(uint64(s.group), uint64(to)); {
	case errors.Is(err, dragonboat.ErrSystemBusy):
		return later{fmt.Errorf("replication: node %d can not be made to lead: %w", to, err)}
	case err != nil:
		return fmt.Errorf("replication: node %d can not be made to lead: %w", to, err)
	}
	return s.awaitLead(ctx, to, within)
}

// insist tries Transfer until the node leads, as long as ctx lasts and another try may help.
func (s *Sequencer) insist(ctx context.Context, to format.Replica) error {
	for {
		err := s.Transfer(ctx, to)
		if !errors.As(err, new(later)) || !s.restIn(ctx, betweenTries) {
			return err
		}
		if leader, _, _ := s.whoLeads(); leader == to {
			return nil // it took its time
		}
	}
}

// voter is the raft address of a node that votes; an error for one that does not.
func (s *Sequencer) voter(ctx context.Context, node format.Replica) (string, error) {
	for _, learned := range []bool{false, true} {
		if learned { // it may vote since a moment ago
			short, cancel := context.WithTimeout(ctx, heirWithin)
			s.learnMembers(short)
			cancel()
		}
		s.mu.Lock()
		addr, votes := s.mu.members.Voters[node]
		s.mu.Unlock()
		if votes {
			return addr, nil
		}
	}
	return "", fmt.Errorf("replication: node %d does not vote in this cluster, as far as node %d knows", node, s.o.Node)
}

// canTake refuses a node that can not lead now.
func (s *Sequencer) canTake(ctx context.Context, node format.Replica, addr string) error {
	short, cancel := context.WithTimeout(ctx, heirWithin)
	defer cancel()
	r, err := s.query(short, addr, askReport, node, "")
	own := uint64(s.peer.Standing().Applied)
	switch {
	case errors.As(err, new(refusal)): // it runs, and is not in this group yet
		return later{fmt.Errorf("replication: node %d: %w", node, err)}
	case err != nil && ctx.Err() != nil:
		return later{errSlow(node, err)}
	case err != nil:
		return fmt.Errorf("replication: node %d does not answer: %w", node, err)
	case r.Node != uint64(node) || s.isForeign(&r):
		return fmt.Errorf("replication: node %d: %s %w", node, addr, errForeign)
	case r.Flags&ReportPart == 0:
		return later{fmt.Errorf("replication: node %d does not take part yet", node)}
	case r.Applied+promoteLag < own:
		return later{fmt.Errorf("replication: node %d has applied %d of %d entries: it has to catch up first", node, r.Applied, own)}
	}
	return nil
}

func errSlow(node format.Replica, err error) error {
	return fmt.Errorf("replication: node %d did not answer in time: %w", node, err)
}

// hold stops proposals, and waits until those under way are applied; false when they are not in time.
func (s *Sequencer) hold(ctx context.Context) bool {
	s.mu.Lock()
	s.mu.held = true
	s.mu.Unlock()
	for {
		s.mu.Lock()
		idle := s.mu.inFlight == 0
		s.mu.Unlock()
		if idle || !s.rest(ctx) {
			return idle
		}
	}
}

func (s *Sequencer) unhold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.held = false
	s.mu.room.Broadcast()
}

// caughtUp waits until a node has applied what this one has: with anything left to apply it does not stand for election.
func (s *Sequencer) caughtUp(ctx context.Context, node format.Replica, addr string) error {
	var why error
	for {
		own := uint64(s.peer.Standing().Applied)
		r, err := s.query(ctx, addr, askReport, node, "")
		switch {
		case err == nil && r.Applied >= own:
			return nil
		case err == nil:
			why = fmt.Errorf("replication: node %d has applied %d of %d entries", node, r.Applied, own)
		case why == nil: // else the last question was cut off
			why = errSlow(node, err)
		}
		if !s.rest(ctx) {
			return later{why}
		}
	}
}

// awaitLead waits until a node that was asked to leads.
func (s *Sequencer) awaitLead(ctx context.Context, node format.Replica, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for s.rest(ctx) {
		switch leader, _, _ := s.whoLeads(); leader {
		case node:
			return nil
		case s.o.Node, 0: // not yet
		default:
			return later{fmt.Errorf("replication: node %d leads, and not node %d", leader, node)}
		}
	}
	return later{fmt.Errorf("replication: node %d did not take the lead", node)}
}

// patience is for how long who asks for a transfer waits, in words that go with the question: less than ctx lasts, so that the answer still
// comes. Nodes that do not know of it take as long as they would.
func patience(ctx context.Context) string {
	end, ends := ctx.Deadline()
	if !ends {
		return ""
	}
	return (time.Until(end) * 9 / 10).String()
}

// withPatience ends with the patience of who asked, or with ctx.
func withPatience(ctx context.Context, words string) (context.Context, context.CancelFunc) {
	d, err := time.ParseDuration(words)
	if err != nil {
		d = answerWithin // it was not said
	}
	return context.WithTimeout(ctx, d)
}
