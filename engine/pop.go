package engine

import (
	"iter"
	"time"

	"queen/engine/format"
)

// Scope is where a pop looks: a queue, one partition of it (Pinned), or every queue of the tenant
// whose labels match (Discovery; empty label matches all, at least one is required).
type Scope struct {
	Queue     string
	Partition string
	Pinned    bool
	Discovery bool
	Namespace string
	Task      string
}

// Start is where a consumer group begins, stored at its first pop on a queue (S-sub-1). Queue mode
// ignores it and takes the oldest retained message (S-sub-6).
type Start struct {
	Kind format.StartKind // 0 means StartNew
	From format.Wall      // StartFrom
}

// PopRequest asks for messages.
type PopRequest struct {
	Scope Scope
	// Group empty means queue mode.
	Group string
	Start Start
	// Batch is the message budget of the whole call (S-pop-5); 0 means 200.
	Batch int
	// Partitions bounds the partitions claimed, clamped to 1..64; 0 means 1. Ignored when pinned.
	Partitions int
	// Autopilot lets the broker choose whichever of Batch and Partitions is 0.
	Autopilot bool
	// MaxBytes bounds the payload bytes of the answer, at least one message; 0 means 8 MiB.
	MaxBytes int64
	// Lease 0 means the queue's leaseTime (60 s for discovery).
	Lease time.Duration
	// CommitOnDelivery moves the cursor at hand-out: no lease, at most once (S-amo-1).
	CommitOnDelivery bool
	// Conflate asks for last-value delivery: the newest message of a partition stands for all before it
	// (S-con-1 to 9). What counts is what the group's first pop on the queue asked; Delivery tells. It needs
	// a group and refuses CommitOnDelivery; Partitions 0 means Batch, at most 64.
	Conflate bool
	// Wait parks the call until something is claimable, at most 60 s; 0 answers at once.
	Wait time.Duration
	// Alive, when set, is asked right before a claim and before the answer leaves: false hands the
	// claim back (S-pop-12).
	Alive func() bool
}

// Claimed is one partition's share of a delivery.
type Claimed struct {
	Queue       string
	Partition   string
	PartitionID format.PartitionID
	First, Last format.Offset
	// Attempt is the 1-based delivery count of this claim's start (S-lease-7).
	Attempt uint32
}

// Chosen reports what autopilot picked.
type Chosen struct {
	Set               bool
	Partitions, Batch int
}

// Delivered is one message handed out. Strings and slices are views, valid until the next step of
// the iterator that produced them; copy to keep.
type Delivered struct {
	Record
	// Claim is the position of the message's partition in Delivery.Claims.
	Claim int
}

// Record is a stored message.
type Record struct {
	ID            format.UUID
	Offset        format.Offset
	TransactionID string // ID's text when the producer named none
	HasCallerID   bool
	TraceID       format.UUID
	ProducerSub   string
	ContentType   string // "" means application/json
	Headers       []Header
	Payload       []byte
	CreatedAt     format.Wall
}

// Delivery is a claim being handed out.
type Delivery struct {
	// Lease is "" when the pop committed at delivery.
	Lease  string
	Group  string
	Claims []Claimed
	Chosen Chosen
	// Conflate is the group's policy; Conflict says that the request asked for the other one. A delivery without
	// claims tells only these.
	Conflate bool
	Conflict bool

	messages iter.Seq2[Delivered, error]
	finish   func(delivered bool)
}

// NewDelivery is for implementations of Engine: messages may be ranged over more than once; finish
// is called exactly once by the first of Delivered and Abandon.
func NewDelivery(d Delivery, messages iter.Seq2[Delivered, error], finish func(delivered bool)) *Delivery {
	d.messages, d.finish = messages, finish
	return &d
}

// Messages iterates over what was claimed, partition by partition, in offset order.
func (d *Delivery) Messages() iter.Seq2[Delivered, error] { return d.messages }

// Delivered says the answer was written: the lease runs.
func (d *Delivery) Delivered() { d.end(true) }

// Abandon hands the claim back at once, not counted as an attempt (S-pop-12).
func (d *Delivery) Abandon() { d.end(false) }

func (d *Delivery) end(delivered bool) {
	if f := d.finish; f != nil {
		d.finish = nil
		f(delivered)
	}
}
