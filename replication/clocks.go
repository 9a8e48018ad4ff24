package replication

import "queen/engine/format"

// VotersClock implements engine.Replicated.
func (s *Sequencer) VotersClock() (median format.Wall, known bool) {
	return format.Wall(s.o.Clock.Now()), true
}

// VoterFull implements engine.Replicated.
func (s *Sequencer) VoterFull() bool { return false }
