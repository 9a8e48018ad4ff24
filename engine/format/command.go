package format

// Kind is the kind byte of a command. The numbers are on disk: never renumber.
type Kind uint8

// Every command kind of the design is defined at once; kinds whose feature is not built yet are
// refused by apply with CodeNotBuilt.
const (
	KindGenesis   Kind = 1
	KindTerm      Kind = 2
	KindTick      Kind = 3
	KindAppend    Kind = 4
	KindPop       Kind = 5
	KindAck       Kind = 6
	KindExtend    Kind = 7
	KindRelease   Kind = 8
	KindSkip      Kind = 9
	KindTrimLease Kind = 10
	KindSetOffset Kind = 11
	KindRegister  Kind = 12
	KindTxn       Kind = 13
	KindLock      Kind = 14
	KindKV        Kind = 15
	KindTimer     Kind = 16
	KindFire      Kind = 17
	KindRedrive   Kind = 18
	KindReveal    Kind = 19
	KindRetain    Kind = 20
	KindTrim      Kind = 21
	KindProducer  Kind = 22
	KindEndTxn    Kind = 23
	KindGroup     Kind = 24
	KindConfigure Kind = 25
	KindDelete    Kind = 26
	KindSweep     Kind = 27
	KindMark      Kind = 28
	KindPurge     Kind = 29
	KindTrace     Kind = 30
	KindReport    Kind = 31
	KindAdmin     Kind = 32
	KindOnce      Kind = 33
	KindOrigin    Kind = 34
)

// EntryHeader opens every entry. An entry whose stamps or epoch are below the state's, or whose
// epoch is above it without a Term command, is refused whole (CodeMoved), stamps included.
type EntryHeader struct {
	Epoch Term
	T     Mono
	W     Wall
	// Fuse numbers the entries of one epoch 1, 2, ...; apply refuses one not above the last applied.
	Fuse uint64
}

// Genesis is the first command of each raft group.
type Genesis struct {
	Cluster UUID
	// HashKey keys IDHash (SipHash-2-4-128).
	HashKey [16]byte
	// NameSeed seeds the name index.
	NameSeed uint64
	// IDMask is xored into the 74 place bits of message ids.
	IDMask [10]byte
	Level  uint32
}

// TermCmd announces the epoch of a new leader; equal to the state's epoch it is a boot mark.
type TermCmd struct{ Epoch Term }

// IDMode says which messages of a frame carry a caller's transactionId.
type IDMode uint8

const (
	IDsNone IDMode = 0
	IDsAll  IDMode = 1
	IDsSome IDMode = 2 // a bitmap of Count bits follows in the id region
)

// FrameKind says how the stored bytes of a frame are laid out.
type FrameKind uint8

const (
	FrameNative FrameKind = 1
	FrameKafka  FrameKind = 2
)

// Original is evidence that a caller's id was stored before: where, and when.
type Original struct {
	// At is the message's number inside its frame as proposed.
	At     uint32
	Offset Offset
	Place  Place
	W      Wall
}

// Append stores one frame: the messages of one push to one partition. The frame's payload lies in
// the entry's payload region and its ids in the id region, both in command order; PayloadLen is
// what ties them together. Creates queue and partition when absent.
type Append struct {
	Tenant    Tenant
	Queue     []byte
	Partition []byte
	Frame     FrameKind
	Count     uint32
	// PayloadLen is the length of the stored frame in bytes, head included.
	PayloadLen uint32
	// ClearTo is evidence: no id of this frame is an original at or below the end of chunk ClearTo
	// except those in Originals. 0 claims nothing (right only while no chunk is closed).
	ClearTo   uint64
	Originals []Original
	// ExplicitID is set for frames whose message ids were told before the append (timers).
	ExplicitID bool
	// Batch is what apply has to know of the record batch of a FrameKafka; zero for other frames.
	Batch BatchHead

	// Filled by the decoder from the regions, aliasing the entry:
	PayloadPos uint32 // position of the frame in the entry's bytes
	PayloadSum uint64 // xxh3-64 of the stored payload bytes
	Sealed     bool   // the frame is sealed
	IDs        IDMode
	Bitmap     []byte // IDsSome only: bit i of byte i/8, low bit first
	Hashes     []byte // 16 bytes per id, in message order
}

// BatchHead is the part of a record batch that is judged: apply reads no payload.
type BatchHead struct {
	// Idempotent says that Producer, Epoch and Sequence count.
	Idempotent bool
	Producer   ProducerID
	Epoch      int16
	// Sequence is that of the first record, 0 to 2^31-1; it goes back to 0 after that.
	Sequence int32
	// Transactional: the batch is part of its producer's transaction, to which Implicit adds the partition.
	Transactional, Implicit bool
	// MaxTime is the greatest timestamp of its records, milliseconds; Timed says that it counts, and is set whenever the
	// batch is Idempotent.
	Timed   bool
	MaxTime int64
}

// StartKind is where a consumer group begins on a queue, stored at its registration (S-sub-1).
type StartKind uint8

const (
	StartNew  StartKind = 1 // messages whose place is after the registration
	StartAll  StartKind = 2 // the oldest retained message
	StartFrom StartKind = 3 // the first message with createdAt >= From
)

// CursorEvidence answers where a missing cursor starts; valid while the consumer group's
// generation on the queue is Generation.
type CursorEvidence struct {
	Partition  PartitionID
	Generation uint32
	Offset     Offset
}

// Pop claims contiguous offset ranges for a consumer group. Everything is explicit: defaults of
// the node are resolved before encoding.
type Pop struct {
	Tenant Tenant
	// Queues are served in order until Batch or Partitions is used up; one for a queue pop, several
	// for discovery (labels are resolved by the proposer).
	Queues []([]byte)
	// Partition pins the pop to one partition; nil means the broker picks.
	Partition []byte
	Pinned    bool
	Group     []byte
	Start     StartKind
	From      Wall
	Batch     uint32
	// Partitions bounds the partitions claimed, 1..64.
	Partitions uint32
	// Lease is the lease length on T, microseconds; 0 means the queue's leaseTime.
	Lease int64
	// Commit moves the cursor at hand-out: no lease, at most once (S-amo-1).
	Commit   bool
	Conflate bool
	Worker   []byte
	Evidence []CursorEvidence
}

// AckStatus is a worker's verdict about a message. Where several resolve to one offset the higher
// number wins: dlq, then failed, then retry (S-ack-7).
type AckStatus uint8

const (
	AckCompleted AckStatus = 1
	AckRetry     AckStatus = 2
	AckFailed    AckStatus = 3
	AckDLQ       AckStatus = 4
)

// AckRun is the same verdict for Count messages from First on.
type AckRun struct {
	First  Offset
	Count  uint32
	Status AckStatus
	// Reason is kept with the dead letter when this run files one.
	Reason []byte
	// Delay holds the redelivery back, microseconds on T; 0 means at once.
	Delay int64
}

// Ack settles messages of one (partition, consumer group); runs are sorted by First and disjoint.
type Ack struct {
	Partition PartitionID
	Group     []byte
	// Lease fences the call; ignored when Unfenced.
	Lease    UUID
	Unfenced bool
	Runs     []AckRun
}

// Extend renews every live partition of a lease: expiry becomes max(current, T + For).
type Extend struct {
	Lease UUID
	For   int64 // microseconds on T
}

// Release hands a claim back uncounted (S-pop-12), judged per (lease, partition): untouched ones
// only. No partition named means all of the lease.
type Release struct {
	Lease      UUID
	Partitions []PartitionID
}

// Skip moves a lease on which nothing was delivered past undeliverable offsets; the lease ends.
type Skip struct {
	Lease     UUID
	Partition PartitionID
	// Upto is the next offset to deliver.
	Upto Offset
}

// TrimLease shrinks a lease to what was rendered; an ack of LastDelivered completes to NewEnd.
type TrimLease struct {
	Lease         UUID
	Partition     PartitionID
	LastDelivered Offset
	// NewEnd is one past the last offset the lease still covers.
	NewEnd Offset
}

// SetOffset moves one cursor: the next offset to deliver becomes To, live leases end and retry
// state resets (S-seek-1). With Create it is a position of a transaction (S-txn-18).
type SetOffset struct {
	Tenant    Tenant
	Queue     []byte
	Partition []byte
	Group     []byte
	// ToEnd ignores To and takes the end as of apply.
	ToEnd bool
	To    Offset
	// Forget ignores To and takes the cursor away: the group starts there as it would anew.
	Forget bool
	// Create makes the partition and registers the group with Start (StartNew or StartAll) when they are
	// not there; the queue must be.
	Create bool
	Start  StartKind
	// Metadata is kept with the position until the next SetOffset of it, at most MaxPositionMetadata bytes.
	Metadata []byte
}

// MaxPositionMetadata bounds SetOffset.Metadata, bytes (S-txn-18).
const MaxPositionMetadata = 4096

// Register stores where a consumer group starts on a queue. With Reset it is a seek of the whole
// group: a new generation, older cursors and leases count as missing. With OnlyMissing the start
// of not yet touched partitions changes and no cursor moves (S-grp-6).
type Register struct {
	Tenant      Tenant
	Queue       []byte
	Group       []byte
	Start       StartKind
	From        Wall
	Conflate    bool
	Reset       bool
	OnlyMissing bool
}

// Redrive moves a dead letter: the frame that follows like an Append's is appended and the record
// is deleted, both or neither (S-dlq-14).
type Redrive struct {
	DeadLetter DeadLetterID
	Append     Append
}

// Reveal makes hidden messages deliverable up to Visible; Next is the due time of the next hidden
// frame, 0 when none. Valid while the queue's option generation is Generation.
type Reveal struct {
	Partition  PartitionID
	Visible    Offset
	Next       Wall
	Generation uint32
}

// Retain declares every frame of the queue created before Cutoff gone.
type Retain struct {
	Queue      QueueID
	Cutoff     Wall
	Generation uint32
	// Aborts is how many aborted ranges of the queue that retention took whole are forgotten at most, the oldest first.
	Aborts uint32
}

// TrimItem sets an explicit log start.
type TrimItem struct {
	Partition PartitionID
	Upto      Offset
}

// Trim sets explicit log starts of partitions of one queue. Completed says that the evidence is
// the consumer groups' progress, valid while the queue's group generation is Generation; Bounded that it is the
// queue's options, valid while their generation is.
type Trim struct {
	Queue      QueueID
	Completed  bool
	Generation uint32
	Items      []TrimItem
	Bounded    bool
}

// DeleteWhat says what a Delete removes.
type DeleteWhat uint8

const (
	DeleteQueue      DeleteWhat = 1
	DeleteGroup      DeleteWhat = 2 // one consumer group on one queue, or on all when Queue is empty and AllQueues
	DeletePartition  DeleteWhat = 3
	DeleteDeadLetter DeleteWhat = 4 // by address: every record of (partition, offset)
)

// Delete removes a queue, a consumer group, a partition or dead letters of an address.
type Delete struct {
	What      DeleteWhat
	Tenant    Tenant
	Queue     []byte
	AllQueues bool
	Name      []byte // group or partition
	// KeepRegistration keeps where the group starts when only its cursors are deleted.
	KeepRegistration bool
	Partition        PartitionID
	Offset           Offset
	// Guarded removes a queue only while its life is Life, else CodeGone; nothing but a queue has one.
	Guarded bool
	Life    QueueID
}

// Sweep frees at most Limit rows of deleted queues, groups and old generations.
type Sweep struct{ Limit uint32 }

// Mark ends a chunk. It stands alone in its entry. Number counts marks of the raft group from 1.
type Mark struct {
	Number uint64
	// Chain is the leader's chain hash of the chunk before; Digest its state digest.
	Chain  [16]byte
	Digest [16]byte
}

// Purge deletes dead letters of a queue, optionally of one consumer group only.
type Purge struct {
	Tenant   Tenant
	Queue    []byte
	Group    []byte
	AnyGroup bool
}

// Opaque carries a command whose feature is not built yet: decoded as bytes, refused by apply.
type Opaque struct {
	Kind Kind
	Body []byte
}
