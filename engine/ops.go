package engine

import (
	"time"

	"queen/engine/format"
)

// Batch is what one call commits.
type Batch struct {
	Ops []Op
	// Atomic commits all ops in one entry or none (transactions): Append, Ack, CommitOffset, KV and Timer.
	// A refusal is an *Error whose Failed says which op it was.
	Atomic bool
	// KeepDuplicates has an Atomic batch answer a message whose id was pushed before as a Duplicate, instead of being
	// refused for it (S-str-8).
	KeepDuplicates bool
	// Minted, when it is not nil, is filled with an id of the Atomic batch that no other has, also when it was rolled back:
	// the same one for every repeat under an Idempotency-Key. It stays zero where nothing was proposed.
	Minted *format.UUID
	// Results is memory for the answer, which Do uses when it has the capacity of a Result for each op: those are large.
	// What is in it is overwritten.
	Results []Result
}

// Op is one of Append, Ack, Extend, Release, SetOffset, CommitOffset, KV, Lock, Timer, Redrive;
// the set is closed. Ops are passed by pointer and not kept after Do returns.
type Op interface{ op() }

// Header is one message header; names are not unique and keep their order.
type Header struct {
	Name  string
	Value []byte
}

// Message is what a producer hands over.
type Message struct {
	// TransactionID is the dedup key; empty means none: it never collides and costs dedup nothing.
	TransactionID string
	TraceID       format.UUID
	// ContentType empty means application/json.
	ContentType string
	Headers     []Header
	Payload     []byte
}

// Append is the messages of one call to one partition, in order (S-push-5).
type Append struct {
	Queue, Partition string
	Messages         []Message
}

// Ack settles one message of one partition for one consumer group.
type Ack struct {
	Partition format.PartitionID
	// Group empty means queue mode.
	Group string
	// Lease is the lease id as text; empty is refused unless Unfenced.
	Lease    string
	Unfenced bool
	// TransactionID or Offset names the message; HasOffset chooses.
	TransactionID string
	Offset        format.Offset
	HasOffset     bool
	Status        format.AckStatus
	// Reason is kept with the dead letter, at most MaxReason bytes (longer is cut at a rune).
	Reason string
	Delay  time.Duration
}

// MaxReason bounds the stored reason of a dead letter, bytes.
const MaxReason = 4096

// Extend renews every live partition of a lease (S-lease-4); For below a second counts as one.
type Extend struct {
	Lease string
	For   time.Duration
}

// Release hands back what a lease still holds untouched, uncounted. Partition 0 means all.
type Release struct {
	Lease     string
	Partition format.PartitionID
}

// SetOffset seeks a consumer group: one partition, or the whole queue when Whole (S-seek-1).
type SetOffset struct {
	Queue, Partition, Group string
	Whole                   bool
	To                      SeekTo
}

// SeekTo names a position: exactly one of End, a time, an offset.
type SeekTo struct {
	End    bool
	Time   format.Wall
	ByTime bool
	Offset format.Offset
}

// Redrive moves a dead letter back to a partition's tail (S-dlq-14). Empty names mean its own.
type Redrive struct {
	DeadLetter format.DeadLetterID
	// ByAddress chooses the newest dead letter of (Partition, TransactionID) instead.
	ByAddress       bool
	PartitionID     format.PartitionID
	TransactionID   string
	Queue           string
	Partition       string
	ToOther, ToPart bool
	// GroupOnly has the copy handed to the consumer group that gave the message up and to no other one. It stays in
	// the dead letter's queue.
	GroupOnly bool
}

func (*Append) op()    {}
func (*Ack) op()       {}
func (*Extend) op()    {}
func (*Release) op()   {}
func (*SetOffset) op() {}
func (*Redrive) op()   {}
func (*KV) op()        {}
func (*Timer) op()     {}

// MessageStatus is what became of one pushed message (S-push-2).
type MessageStatus uint8

const (
	Queued    MessageStatus = 1
	Duplicate MessageStatus = 2
	Refused   MessageStatus = 3 // nothing written, Err says why
)

// MessageResult answers one message of an Append, in order.
type MessageResult struct {
	Status MessageStatus
	// ID is the stored message's id; for a duplicate the original's, zero when no longer known.
	ID     format.UUID
	Offset format.Offset
	Err    *Error
}

// AckItem answers one Ack (S-ack-1). Err is set when the instruction was not carried out.
type AckItem struct {
	Released  bool
	Filed     bool
	Noop      bool
	Conflated uint64
}

// ExtendItem answers one Extend.
type ExtendItem struct {
	Renewed uint32
	// Expires is the earliest expiry among renewed partitions, as calendar time now.
	Expires format.Wall
}

// RedriveItem answers one Redrive.
type RedriveItem struct {
	DeadLetter       format.DeadLetterID
	Queue, Partition string
	Group            string
	TransactionID    string // of the original
	// Record says that Kafka produced it: the copy is named by its message id, where others are by "dlq:" and the dead
	// letter's.
	Record    bool
	Duplicate bool
	Message   MessageResult
}

// Result answers one op; which part is filled follows from the op's type.
type Result struct {
	Err      *Error
	Messages []MessageResult
	Ack      AckItem
	Extend   ExtendItem
	Redrive  RedriveItem
	KV       KVItem
	Lock     LockItem
	Timer    TimerItem
	// Rows counts partitions touched by a SetOffset or Release.
	Rows uint64
}
