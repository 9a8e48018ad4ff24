package engine

import (
	"context"
	"time"

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
	// Header is the entry's.
	Header format.EntryHeader
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

// Replicated is a Sequencer of which several make one log: one leads at a time. It calls the Peer from goroutines of its own.
type Replicated interface {
	Sequencer
	// Self is the number of this replica.
	Self() format.Replica
	// Join begins to take part, after Start. From then on committed entries are applied, also those of other nodes.
	Join(p Peer) error
	// Barrier returns once everything that was committed anywhere before the call is applied here; nil only then.
	Barrier(ctx context.Context) error
	// Forward hands commands to the node that leads an epoch, in the order of the calls. It may wait for room, and gives up
	// when that epoch is over: whether they arrived nobody says, apply does.
	Forward(h Handover)
	// Stuck is for how long who leads has taken nothing that this node hands over; 0 while it does, and where nobody else leads.
	Stuck() time.Duration
	// VotersClock is the median of the wall clocks of those that vote, the lower one of two, as far as the last round of the census
	// tells; known is false where that heard of no majority. VoterFull says that the disk gate of another one that votes is closed
	// (Standing.Full). Both read memory, and call the Peer for nothing.
	VotersClock() (median format.Wall, known bool)
	VoterFull() bool
	// Lease is for how long after a proposal of this node's, which was committed in an epoch that it leads, nobody else can have
	// been elected. 0 where that is not known, as when the lead was given away. It costs a look at memory.
	Lease() time.Duration
	// Leave hands the leadership over, if it is here and somebody can take it, before ctx ends. After it Propose and Forward
	// return at once and do nothing.
	Leave(ctx context.Context)
}

// Handover is what one call contributes, on its way to the leader.
type Handover struct {
	Leader  format.Replica
	Epoch   format.Term
	Request uint64
	// Writing says that it grows storage; producers wait behind consumers.
	Writing bool
	// Commands are format.CommandBuf.AppendTo's.
	Commands []byte
}

// Peer is what a Replicated calls: the node.
type Peer interface {
	// Lead says that this node was elected in an epoch, of which Follow(0, epoch) was told before. It returns when it leads,
	// or another Follow came meanwhile.
	Lead(epoch format.Term)
	// Follow says who leads an epoch, 0 for nobody that can be asked.
	Follow(leader format.Replica, epoch format.Term)
	// Dropped says that a proposal of this node is not in the log and will never be.
	Dropped(h format.EntryHeader)
	// Accept takes what another node handed over, each once. ErrNotLeader: this node does not lead that epoch.
	Accept(from format.Replica, h Handover) error
	// Refused says that the leader could not read what was handed over with a request, and will not take it.
	Refused(request uint64)
	// Standing describes the node to others.
	Standing() Standing
	// DiskOf is what the cluster remembers of a node's disk, as far as it is applied here; false for a node that
	// never took part. NoteDisk has the cluster remember it; only the leader may.
	DiskOf(node format.Replica) (Disk, bool)
	NoteDisk(ctx context.Context, node format.Replica, d Disk) error
	// Image is what another node needs to go on from this one's newest checkpoint. It waits until nothing moves, and holds what
	// it needs until it is closed.
	Image(ctx context.Context) (*Image, error)
	// Deployment is what the cluster remembers as its number in raft's traffic, 0 for none yet. NoteDeployment has it remember one;
	// only the leader may.
	Deployment() uint64
	NoteDeployment(ctx context.Context, d uint64) error
	// Draining are the nodes that the cluster remembers to drain, as far as it is applied here, by number. ChangeDraining has it
	// remember what change makes of them; change may be called again, and with its error nothing is changed.
	Draining() []format.Replica
	ChangeDraining(ctx context.Context, change func(draining []format.Replica) ([]format.Replica, error)) error
	// Alarm reports what an operator should know.
	Alarm(what string, err error)
}

// Standing is what a node tells others about itself.
type Standing struct {
	Cluster     format.UUID // Genesis's, zero before it
	Leads, Born bool
	Epoch       format.Term
	Applied     format.Index
	Mark        uint64
	// Full says that its own disk gate is closed, whatever others' are.
	Full bool
}

// Disk names a data directory and how often it was opened.
type Disk struct {
	ID   format.UUID
	Boot uint64
}

// Committed is an entry that is durable and in log order.
type Committed struct {
	Index format.Index
	Term  format.Term // raft's, of the log's entry
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
