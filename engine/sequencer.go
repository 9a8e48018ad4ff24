package engine

import (
	"queen/engine/format"
	"queen/engine/logstore"
)

// Proposal is an entry on its way to the sequencer: Head and the pieces of Payload, joined, are its bytes.
type Proposal struct {
	// Head reaches to the end of the id region. It is read until the entry was applied.
	Head []byte
	// Payload is the payload region as its callers left it, so that it is copied once, into what is written. It
	// is read until Propose returns.
	Payload [][]byte
	// Wait says that the caller is going to wait until the entry is applied, so that it may as well be applied before
	// Propose returns.
	Wait bool
}

// Len is the length of the entry in bytes.
func (p *Proposal) Len() int {
	n := len(p.Head)
	for _, b := range p.Payload {
		n += len(b)
	}
	return n
}

// AppendTo appends the entry in one piece.
func (p *Proposal) AppendTo(dst []byte) []byte {
	dst = append(dst, p.Head...)
	for _, b := range p.Payload {
		dst = append(dst, b...)
	}
	return dst
}

// Committed is an entry that is durable and in log order.
type Committed struct {
	Index format.Index
	// Data is the entry, at least up to the end of its id region.
	Data []byte
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
	// Propose hands over the next entry and returns when the sequencer can take another. One goroutine
	// calls it at a time. An error says that the entry is not accepted and never will be, or that it can
	// not be applied: the process has to end.
	Propose(p *Proposal) error
	// Prompt says that Propose takes no longer than the disk does, so that a call may propose for itself
	// although its context may end meanwhile.
	Prompt() bool
	// Group is the raft group whose log this is.
	Group() format.RaftGroup
	// Log is the store that holds the entries' bytes, for readers.
	Log() *logstore.Store
	// FlushOutcomes makes every outcome produced so far durable (index-close, checkpoints, stop).
	FlushOutcomes() error
	// Close stops the apply goroutine after what was proposed is applied, and closes the log cleanly.
	Close() error
}
