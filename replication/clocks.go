package replication

import (
	"slices"
	"time"

	"queen/engine/format"
)

// glimpse is what a report of another node says that counts for a moment only.
type glimpse struct {
	ahead int64 // by how much its wall clock was ahead of this node's monotonic one, in microseconds
	full  bool  // its disk gate was closed
	at    int64 // monotonic time at which it came
}

// glimpseFor is how long one counts: some rounds of the census, also when a node that swallows what it is sent makes them long.
const glimpseFor = 2 * silentRounds * censusEvery

// noteGlimpse keeps it of a report that has just come.
func (s *Sequencer) noteGlimpse(node format.Replica, r *Report) {
	if s.isForeign(r) {
		return
	}
	now := s.o.Clock.Mono()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.glimpses == nil {
		s.mu.glimpses = map[format.Replica]glimpse{}
	}
	s.mu.glimpses[node] = glimpse{ahead: r.Wall - now, full: r.Flags&ReportFull != 0, at: now}
}

// glimpseLocked is that of a node, if it counts yet.
func (s *Sequencer) glimpseLocked(node format.Replica, now int64) (glimpse, bool) {
	g, ok := s.mu.glimpses[node]
	return g, ok && time.Duration(now-g.at)*time.Microsecond < glimpseFor
}

// VotersClock implements engine.Replicated.
func (s *Sequencer) VotersClock() (median format.Wall, known bool) {
	now, own := s.o.Clock.Mono(), s.o.Clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	var walls [MaxNodes]int64
	all := walls[:0]
	for node := range s.mu.members.Voters {
		if node == s.o.Node {
			all = append(all, own)
		} else if g, ok := s.glimpseLocked(node, now); ok {
			all = append(all, g.ahead+now)
		}
	}
	if 2*len(all) <= len(s.mu.members.Voters) {
		return 0, false
	}
	slices.Sort(all)
	return format.Wall(all[(len(all)-1)/2]), true
}

// VoterFull implements engine.Replicated.
func (s *Sequencer) VoterFull() bool {
	now := s.o.Clock.Mono()
	s.mu.Lock()
	defer s.mu.Unlock()
	for node := range s.mu.members.Voters {
		if g, ok := s.glimpseLocked(node, now); ok && g.full && node != s.o.Node {
			return true
		}
	}
	return false
}
