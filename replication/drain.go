package replication

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lni/dragonboat/v4"

	"queen/engine"
	"queen/engine/format"
)

// A node that drains serves what reaches it, and does not lead while another voter can: whoever balances calls finds it not ready, and
// it can be stopped without an election. That it drains is replicated: it holds over restarts, and the others do not give it the lead.

// giving paces how a node that drains gives the lead away: at once when it comes to it rarely, and then seldom. So a lead that comes back does not
// go to and fro, and a transfer that fails, which holds calls up, is rare.
type giving struct {
	sync.Mutex
	gaps
	told bool // that nobody can take it
}

// The gap after a first try, and the largest.
const (
	minGivingGap = time.Second
	maxGivingGap = time.Minute
)

// tried notes a try.
func (g *giving) tried(now int64) { g.gaps.tried(now, minGivingGap, maxGivingGap) }

// drains reports that a node drains, as far as it is applied here.
func (s *Sequencer) drains(node format.Replica) bool { return slices.Contains(s.draining(), node) }

// draining are the nodes that drain. The first raft group says it for all of a cluster's.
func (s *Sequencer) draining() []format.Replica {
	if s.o.origin != nil {
		return s.o.origin.draining()
	}
	return s.peer.Draining()
}

// mayLead refuses a node that would give the lead away again.
func (s *Sequencer) mayLead(node format.Replica) error {
	if s.drains(node) {
		return fmt.Errorf("replication: node %d drains: it would give the lead away again", node)
	}
	return nil
}

// drainingLast puts nodes that drain behind the others.
func (s *Sequencer) drainingLast(nodes []format.Replica) []format.Replica {
	draining := s.draining()
	rank := func(node format.Replica) int {
		if slices.Contains(draining, node) {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(nodes, func(a, b format.Replica) int { return cmp.Compare(rank(a), rank(b)) })
	return nodes
}

// refusedDrain begins the words of a refusal for what is asked: nothing was changed. The words tell it apart on the wire as well.
const refusedDrain = "drain: "

// Drain implements engine.Membership: who leads does it, others ask who leads to.
func (s *Sequencer) Drain(ctx context.Context, node format.Replica, on bool) (leads bool, err error) {
	if s.leads() {
		err = s.drain(ctx, node, on)
		return err == nil && node == s.o.Node && s.leads(), drainError(err)
	}
	r, err := s.askLeader(ctx, drainAsk(on), node)
	if err == nil {
		_ = s.Barrier(ctx) // so that it is known here as well; it is done in any case
	}
	return err == nil && r.Leader == uint64(node), drainError(err)
}

func drainAsk(on bool) ask {
	if on {
		return askDrain
	}
	return askUndrain
}

// askLeader asks who leads, as far as this node knows, for one thing about a node.
func (s *Sequencer) askLeader(ctx context.Context, a ask, node format.Replica) (r Report, err error) {
	_, addr, err := s.whoLeads()
	if err != nil {
		return r, err
	}
	return s.query(ctx, addr, a, node, "")
}

// drainError makes what a caller is told of what happened here, or to the node that leads.
func drainError(err error) error {
	var told *engine.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &told):
		return told
	case strings.HasPrefix(err.Error(), refusedDrain):
		return &engine.Error{Code: engine.CodeBadRequest, Field: "node", Message: err.Error()}
	case err.Error() == engine.ErrNotLeader.Error(): // here, or in the words of who led
		return &engine.Error{Code: engine.CodeNoLeader, RetryAfter: time.Second, Cause: err, Message: "nobody leads the cluster at the moment"}
	}
	return &engine.Error{Code: engine.CodeOutcomeUnknown, Outcome: engine.OutcomeUnknown, RetryAfter: time.Second, Cause: err,
		Message: "it may have been done; it can be said again"}
}

// drain has the cluster remember that a node drains, or does not any more, and gives the lead away if that is this one.
func (s *Sequencer) drain(ctx context.Context, node format.Replica, on bool) error {
	if !s.leads() {
		return engine.ErrNotLeader
	}
	if err := s.Barrier(ctx); err != nil { // what it knows of who drains is then what everybody knows
		return fmt.Errorf("replication: this node can not make sure that it leads: %w", err)
	}
	m, err := s.membership(ctx)
	if err != nil {
		return fmt.Errorf("replication: the membership is not known: %w", err)
	}
	err = s.peer.ChangeDraining(ctx, func(draining []format.Replica) ([]format.Replica, error) {
		return changeDraining(m, draining, node, on)
	})
	if err != nil || !on || node != s.o.Node {
		return rowOutcome(err)
	}
	s.giving.Lock()
	defer s.giving.Unlock()
	s.giving.gap, s.giving.told = 0, false
	s.giveAway(ctx)
	return nil
}

// changeDraining adds a node to those that drain, which are in order, or takes it out. Of the voters one stays that can lead.
func changeDraining(m *dragonboat.Membership, draining []format.Replica, node format.Replica, on bool) ([]format.Replica, error) {
	at, found := slices.BinarySearch(draining, node)
	_, votes := m.Nodes[uint64(node)]
	_, follows := m.NonVotings[uint64(node)]
	switch {
	case found && !on:
		return slices.Delete(draining, at, at+1), nil
	case !votes && !follows:
		return nil, fmt.Errorf(refusedDrain+"node %d is no member of the cluster", node)
	case found == on:
		return draining, nil
	}
	others := 0
	for voter := range m.Nodes {
		if _, drains := slices.BinarySearch(draining, format.Replica(voter)); !drains && format.Replica(voter) != node {
			others++
		}
	}
	if votes && others == 0 {
		return nil, fmt.Errorf(refusedDrain+"node %d is the last voter that does not drain: the lead would have nowhere to go", node)
	}
	return slices.Insert(draining, at, node), nil
}

// forgetRemoved takes nodes that were removed out of those that drain: their numbers do not come back.
func (s *Sequencer) forgetRemoved(ctx context.Context) {
	if len(s.peer.Draining()) == 0 {
		return
	}
	m, err := s.membership(ctx)
	if err == nil {
		err = s.peer.ChangeDraining(ctx, func(draining []format.Replica) ([]format.Replica, error) {
			return slices.DeleteFunc(draining, func(node format.Replica) bool {
				_, removed := m.Removed[uint64(node)]
				return removed
			}), nil
		})
	}
	if err != nil {
		s.o.Log.Debug("removed nodes were not taken out of those that drain", "err", err)
	}
}

// yield gives the lead away if this node has it and drains: when it was elected, and in each round of the census. It may take as
// long as some elections.
func (s *Sequencer) yield() {
	if !s.drains(s.o.Node) || !s.leads() || !s.giving.TryLock() {
		return
	}
	defer s.giving.Unlock()
	if !s.giving.due(s.o.Clock.Mono()) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	s.giveAway(ctx)
}

// yieldSoon does so in a goroutine of its own.
func (s *Sequencer) yieldSoon() {
	if !s.drains(s.o.Node) || !s.leads() {
		return
	}
	s.loops.Add(1)
	go func() {
		defer s.loops.Done()
		s.yield()
	}()
}

// giveAway asks the voters that can lead to do so, one after the other, until one does. The caller holds giving.
func (s *Sequencer) giveAway(ctx context.Context) {
	heirs := s.heirs(ctx)
	switch {
	case ctx.Err() != nil:
		return // who was not asked is not missing
	case len(heirs) == 0:
		if !s.giving.told {
			s.giving.told = true
			s.peer.Alarm("this node drains and leads on: no voter that does not drain is up to date", s.whyUnheard())
		}
		return
	}
	s.giving.told = false
	s.giving.tried(s.o.Clock.Mono())
	for _, node := range heirs {
		if !s.leads() || ctx.Err() != nil {
			return
		}
		if err := s.Transfer(ctx, node); err != nil {
			s.o.Log.Warn("a node that drains could not give the lead away", "to", node, "err", err)
		}
	}
}

// heirs are the voters that can take the lead, those first that have applied most: they answer, do not drain and are about as far as
// this node.
func (s *Sequencer) heirs(ctx context.Context) []format.Replica {
	own := uint64(s.peer.Standing().Applied)
	short, cancel := context.WithTimeout(ctx, censusEvery)
	defer cancel()
	s.learnMembers(short) // one may vote since a moment ago
	reports := s.poll(short, askReport)
	s.mu.Lock()
	voters := s.mu.members.Voters
	s.mu.Unlock()
	return heirsOf(reports, func(node format.Replica, r *Report) bool {
		_, votes := voters[node]
		return votes && !s.drains(node) && !s.isForeign(r) && r.Flags&ReportPart != 0 && r.Applied+promoteLag >= own
	})
}

// heirsOf orders who can.
func heirsOf(reports map[format.Replica]Report, can func(format.Replica, *Report) bool) []format.Replica {
	maps.DeleteFunc(reports, func(node format.Replica, r Report) bool { return !can(node, &r) })
	return slices.SortedFunc(maps.Keys(reports), func(a, b format.Replica) int {
		return cmp.Or(cmp.Compare(reports[b].Applied, reports[a].Applied), cmp.Compare(a, b))
	})
}
