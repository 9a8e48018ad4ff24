package replication

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"queen/engine/format"
)

// A node that raft reaches need not be one that answers: what nodes ask each other, calls that are handed over and copies of the
// state go to the port above raft's, which may be closed or filtered alone. Then elections come out and entries are applied, and
// still a follower can not write, or log is kept for a node that has applied it. So that is told.

// silentRounds is how many rounds of the census a member may miss before that is told.
const silentRounds = 5

// noteAsked remembers that a node asks: it runs.
func (s *Sequencer) noteAsked(node format.Replica) {
	if node == 0 {
		return // a tool
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.mu.asked[node]; known || len(s.mu.asked) < maxAsked {
		s.mu.asked[node] = max(s.o.Clock.Mono(), 1)
	}
}

// maxAsked bounds the numbers that are remembered, whoever asks: removed nodes were members once.
const maxAsked = 1024

// noteAnswer remembers why a node did not answer, nil when it did.
func (s *Sequencer) noteAnswer(node format.Replica, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.unheard[node] = err
}

// whyUnheard joins why nodes did not answer when they were last asked.
func (s *Sequencer) whyUnheard() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, node := range slices.Sorted(maps.Keys(s.mu.unheard)) {
		if err := s.mu.unheard[node]; err != nil {
			errs = append(errs, fmt.Errorf("node %d: %w", node, err))
		}
	}
	return errors.Join(errs...)
}

// runs reports that a node shows that it runs though it may not answer: it asked lately, or raft hears it lead.
func (s *Sequencer) runs(node format.Replica) bool {
	s.mu.Lock()
	at := s.mu.asked[node]
	s.mu.Unlock()
	if at != 0 && time.Duration(s.o.Clock.Mono()-at)*time.Microsecond < silentRounds*censusEvery {
		return true
	}
	h := s.hosted()
	if h == nil {
		return false
	}
	leader, _, ok, err := h.GetLeaderID(uint64(s.group))
	return err == nil && ok && leader == uint64(node)
}

// noteSilent tells once of each member that did not answer for silentRounds rounds of the census, and once when it answers again.
func (s *Sequencer) noteSilent() {
	for node, answers := range s.Present() {
		told := s.silent[node] >= silentRounds
		if answers {
			if told {
				s.o.Log.Info("a node answers again", "node", node)
			}
			delete(s.silent, node)
			continue
		}
		if s.silent[node]++; told || s.silent[node] < silentRounds {
			continue
		}
		s.mu.Lock()
		err := s.mu.unheard[node]
		s.mu.Unlock()
		if err == nil { // an answer that does not count
			err = errForeign
		}
		what := fmt.Sprintf("node %d does not answer", node)
		if s.runs(node) {
			what = fmt.Sprintf("node %d runs, and does not answer at the port above raft's: unless it is starting, calls and copies of the "+
				"state do not reach it; log is kept for it", node)
		}
		s.peer.Alarm(what, err)
	}
}
