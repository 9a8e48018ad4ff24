package replication

import (
	"slices"
	"time"
)

// paceRounds is how many rounds of the census are remembered in which entries were applied: ten minutes at least.
const paceRounds = 600

// pace remembers how far the furthest node had applied, round by round of the census, so that what a node is behind by can be
// told in time too. Rounds in which nothing was applied are left out: nobody fell behind in them.
type pace struct{ rounds []paceRound } // the oldest first, with ever more entries

type paceRound struct {
	at      int64 // monotonic
	applied uint64
}

// note adds a round. It is to be of before the others were asked: who had applied as much when it answered is not behind.
func (p *pace) note(at int64, applied uint64) {
	if n := len(p.rounds); n > 0 && applied <= p.rounds[n-1].applied {
		return
	}
	if len(p.rounds) == paceRounds {
		p.rounds = slices.Delete(p.rounds, 0, 1)
	}
	p.rounds = append(p.rounds, paceRound{at, applied})
}

// behind is for how long a node that has applied so much lacked an entry: since the first round that had one more. It is 0
// when none had.
func (p *pace) behind(now int64, applied uint64) time.Duration {
	i, _ := slices.BinarySearchFunc(p.rounds, applied, func(r paceRound, applied uint64) int {
		if r.applied > applied {
			return 1
		}
		return -1
	})
	if i == len(p.rounds) {
		return 0
	}
	return time.Duration(now-p.rounds[i].at) * time.Microsecond
}

// late is for how long a node that has applied so much has been behind, as far as this one saw.
func (s *Sequencer) late(applied uint64) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.pace.behind(s.o.Clock.Mono(), applied)
}

// furthest is how far any node had applied as far as is known now.
func (s *Sequencer) furthest() uint64 {
	furthest := uint64(s.peer.Standing().Applied)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.mu.reports {
		furthest = max(furthest, r.Applied)
	}
	return furthest
}
