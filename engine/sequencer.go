package engine

import (
	"queen/engine/format"
	"queen/engine/logstore"
)

// Committed is an entry that is durable and in log order.
type Committed struct {
	Index format.Index
	Data  []byte
	// Pos is where the entry's record lies in the log.
	Pos logstore.EntryPos
	// Replayed entries were found in the log at open; Outcome is the canonical outcome found with
	// them.
	Replayed bool
	Outcome  []byte
	// HasOutcome tells an empty outcome from one that did not become durable.
	HasOutcome bool
}

// Applied is what applying one entry decided about its frames.
type Applied struct {
	// Canonical is format.AppendOutcome of the verdicts.
	Canonical []byte
	// FramesBefore counts the frames the raft group had stored before the entry.
	FramesBefore uint64
}

// Applier consumes committed entries, one at a time, in log order.
type Applier interface {
	// Apply applies an entry and returns its outcome, which the sequencer makes durable with the next
	// extent it writes. An error is our fault and ends the process.
	Apply(c Committed) (Applied, error)
}

// Sequencer is all that a single node and a replicated one do differently: it orders entries, makes
// them durable, and hands them to the Applier, durable first.
type Sequencer interface {
	// Start replays what the log holds above the applier's state, then begins to lead. It returns
	// the epoch under which entries are to be stamped.
	Start(a Applier, applied format.Index) (format.Term, error)
	// Propose hands over the next entry and returns when the sequencer can take another; the bytes
	// belong to the sequencer from then on. It is called by one goroutine. An error says that the
	// entry was not accepted and never will be applied.
	Propose(data []byte) error
	// Group is the raft group whose log this is.
	Group() format.RaftGroup
	// Log is the store that holds the entries' bytes, for readers.
	Log() *logstore.Store
	// FlushOutcomes makes every outcome produced so far durable (index-close, checkpoints, stop).
	FlushOutcomes() error
	// Close stops the apply goroutine after what was proposed is applied, and closes the log cleanly.
	Close() error
}
