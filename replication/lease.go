package replication

import "time"

// electionTicks is after how many ticks without a leader another one may be elected, at the earliest.
const electionTicks = 10

// Lease implements engine.Replicated: half of the time for which one that has heard a leader votes for nobody else, since clocks and
// ticks differ. A transfer is not held up by that, and what began one may arrive late; so there is none for the rest of the epoch.
func (s *Sequencer) Lease() time.Duration {
	if s.lent.Load() {
		return 0
	}
	return electionTicks / 2 * s.o.Tick
}
