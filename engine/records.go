package engine

import (
	"context"
	"time"

	"queen/engine/format"
)

// Records is the door of clients that write and read record batches: Kafka's wire. A batch is stored as it was produced
// and served as it is stored; native readers get its records as messages (S-x-2), native messages are read here as
// messages, which the caller turns into a batch. Everything is judged in apply, so every answer holds on any node.
// Byte slices of answers are the caller's to keep and never change. Methods that change something are durable and
// applied when they return.
type Records interface {
	// Produce appends batches, each to one partition. All of one call go in one submission, in order; each is judged
	// alone, its refusal is in its result. The queue must exist; a partition is made, which the caller allows by
	// having checked the queue's width.
	Produce(ctx context.Context, c Caller, batches []RecordBatch) ([]Produced, error)

	// Fetch reads stored frames from offsets on, from applied state, and never waits: park on a Watcher. Positions
	// that have something share maxBytes, 64 KiB to each at least and the first ones first; the very first gets a whole
	// frame whatever its size. An offset inside a batch returns that whole batch.
	Fetch(ctx context.Context, c Caller, at []FetchAt, maxBytes int) ([]Fetched, error)

	// RecordOffsets finds offsets by what Kafka clients see: record timestamps, the last stable offset.
	RecordOffsets(ctx context.Context, c Caller, q []RecordOffsetQuery) ([]RecordOffset, error)

	// DeleteRecords moves log starts up; an Offset of DeleteToEnd means the end. It returns the new starts.
	DeleteRecords(ctx context.Context, c Caller, at []FetchAt) ([]RecordOffset, error)

	// InitProducer gives a producer its id and epoch. With a TransactionalID the id is bound to it: an open transaction
	// is aborted first and the epoch rises, which fences whoever had it (KIP-360, KIP-890).
	InitProducer(ctx context.Context, c Caller, p ProducerInit) (ProducerIdentity, error)

	// AddToTxn adds partitions to the producer's open transaction, beginning it if need be, also with none (KIP-98). All
	// are added or none; partitions are made, their queues are not.
	AddToTxn(ctx context.Context, c Caller, p ProducerRef, parts []PartitionRef) error

	// EndTxn commits or aborts in one entry: every partition and every position of the transaction, or nothing.
	// Repeated with the same outcome it answers as before. With Bump (TV2) the identity returned is the next epoch.
	EndTxn(ctx context.Context, c Caller, e TxnEnd) (ProducerIdentity, error)

	// Transactions lists transactional ids with their state, by id, above after; "" starts.
	Transactions(ctx context.Context, c Caller, after string, limit int) (rows []TxnInfo, next string, err error)
	// Transaction finds one; CodeNotFound.
	Transaction(ctx context.Context, c Caller, id string) (TxnInfo, error)
	// Producers lists the live producers of a partition.
	Producers(ctx context.Context, c Caller, p PartitionRef) ([]ProducerState, error)

	// CommitOffsets sets positions of one consumer group, all or, if the whole is refused, none (one entry). The
	// same positions a native ack moves; leases of the group there end. With a Producer they are pending until its
	// transaction ends.
	CommitOffsets(ctx context.Context, c Caller, g GroupCommit) ([]*Error, error)
	// Committed reads positions of a consumer group; nil refs mean all it has. Linearizable.
	Committed(ctx context.Context, c Caller, group string, refs []PartitionRef) ([]GroupOffset, error)

	// Leader is the node that leads where the caller's partitions are, 0 on a single node and where none is known, and the term of
	// those partitions: what Status says of them, without asking other nodes. It never waits. Nodes and terms of different tenants
	// have nothing to do with each other.
	Leader(c Caller) (format.Replica, format.Term)

	// GroupRow reads what a coordinator keeps of a consumer group, linearizable; CodeNotFound.
	GroupRow(ctx context.Context, c Caller, group string) (GroupRow, error)
	// GroupRowAt is the At of a row as far as this node has applied, zero when there is none. It never waits: whoever has read
	// a row looks whether it still is that one.
	GroupRowAt(c Caller, group string) format.Place
	// GroupTenants are the tenants that have rows, as far as this node has applied, in no order. It never waits: whoever begins to
	// coordinate looks through what is there.
	GroupTenants() []format.Tenant
	// GroupRows lists them by name above after.
	GroupRows(ctx context.Context, c Caller, after string, limit int) (rows []GroupRow, next string, err error)
	// SetGroupRow writes a row, or with Delete removes it, while the row's last change still is r.At (zero: while
	// there is none); else CodeGone and nothing changed. It returns the row's new At.
	SetGroupRow(ctx context.Context, c Caller, r GroupRow) (format.Place, error)
}

// NoProducer and NoSequence are those of a batch whose producer is not idempotent.
const (
	NoProducer = int64(-1)
	NoSequence = int32(-1)
)

// DeleteToEnd as the offset of a FetchAt of DeleteRecords means the partition's end.
const DeleteToEnd = ^format.Offset(0)

// RecordBatch is one batch for one partition.
type RecordBatch struct {
	Queue, Partition string
	// Batch is exactly one v2 record batch whose checksum, count and records the caller has verified
	// (package engine/batch). Base offset and leader epoch are ignored. Copied before Produce returns.
	Batch []byte
	// Records, MaxTimestamp, producer and sequence are read out of the batch; TransactionalID only travels beside it.
	TransactionalID string
	// Implicit adds the partition to the transaction if it is not in it (TV2).
	Implicit bool
}

// Produced answers one RecordBatch. Base is its first offset, also for a repeat of one of the last five batches of the
// producer, of which nothing is written (Duplicate). CreatedAt is the append time, 0 for a repeat of what is not there any
// more.
type Produced struct {
	Err       *Error
	Base      format.Offset
	Start     format.Offset
	CreatedAt format.Wall
	Duplicate bool
	// End is the partition's next offset after it. Start is its explicit log start: what time took is not looked up.
	End format.Offset
}

// FetchAt is where to read.
type FetchAt struct {
	Queue, Partition string
	Offset           format.Offset
	// MaxBytes bounds this partition; 0 means 1 MiB.
	MaxBytes int
	// Committed stops before the last stable offset (read_committed).
	Committed bool
}

// Frame is one stored piece of a partition. Exactly one of Batch and Messages is filled.
type Frame struct {
	Base  format.Offset
	Epoch format.Term
	// CreatedAt is the append time.
	CreatedAt format.Wall
	// Batch is a record batch as produced, or a control batch made for the end of a transaction; base offset and
	// leader epoch are already patched.
	Batch []byte
	// Messages are those of a native frame, from the asked offset on.
	Messages []Record
}

// Aborted is a range of an aborted transaction: Kafka's aborted_transactions.
type Aborted struct {
	Producer int64
	First    format.Offset
}

// Fetched answers one FetchAt.
type Fetched struct {
	// Err is CodeUnknownQueue, CodeUnknownPartition, CodeOffsetOutOfRange or a read error.
	Err    *Error
	Frames []Frame
	// Start is the first retained offset, End the next to be assigned, Stable the last stable offset.
	Start, End, Stable format.Offset
	Aborted            []Aborted
	Epoch              format.Term
}

// RecordOffsetKind says what a RecordOffsetQuery asks for.
type RecordOffsetKind uint8

const (
	RecordEarliest RecordOffsetKind = 1
	RecordLatest   RecordOffsetKind = 2
	RecordStable   RecordOffsetKind = 3 // the last stable offset
	RecordAtTime   RecordOffsetKind = 4 // first record with timestamp >= Time
	RecordMaxTime  RecordOffsetKind = 5 // the record with the greatest timestamp
	RecordOfEpoch  RecordOffsetKind = 6 // one past the last offset of epochs up to Epoch
)

// RecordOffsetQuery asks for one offset of one partition.
type RecordOffsetQuery struct {
	Queue, Partition string
	Kind             RecordOffsetKind
	Time             int64 // milliseconds, as records carry it
	Epoch            format.Term
	// Committed bounds the answer by the last stable offset.
	Committed bool
}

// RecordOffset answers a query. Found is false when there is none.
type RecordOffset struct {
	Err       *Error
	Found     bool
	Offset    format.Offset
	Timestamp int64 // of the record, milliseconds; -1 when it does not apply
	Epoch     format.Term
}

// ProducerRef names a producer at an epoch.
type ProducerRef struct {
	TransactionalID string
	ID              int64
	Epoch           int16
}

// ProducerInit asks for an identity. ID NoProducer asks for a fresh one; else the current one, to be bumped.
type ProducerInit struct {
	ProducerRef
	// Timeout after which an open transaction is aborted; only with a TransactionalID.
	Timeout time.Duration
}

// ProducerIdentity is what a producer stamps on its batches.
type ProducerIdentity struct {
	ID    int64
	Epoch int16
}

// TxnEnd ends a transaction.
type TxnEnd struct {
	ProducerRef
	Commit bool
	Bump   bool
}

// TxnState is where a transactional id is. The names are Kafka's.
type TxnState uint8

const (
	TxnEmpty     TxnState = 1
	TxnOngoing   TxnState = 2
	TxnCommitted TxnState = 3 // CompleteCommit
	TxnAborted   TxnState = 4 // CompleteAbort
)

// TxnInfo describes a transactional id.
type TxnInfo struct {
	ProducerRef
	State      TxnState
	Timeout    time.Duration
	Started    format.Wall // 0 while none is open
	Partitions []PartitionRef
}

// ProducerState describes a producer on a partition.
type ProducerState struct {
	ID            int64
	Epoch         int16
	LastSequence  int32
	LastTimestamp int64
	// TxnStart is the first offset of its open transaction; HasTxn says that there is one.
	TxnStart format.Offset
	HasTxn   bool
}

// GroupPosition is one position that a group commits.
type GroupPosition struct {
	Queue, Partition string
	Offset           format.Offset
	LeaderEpoch      int32  // -1 none
	Metadata         string // at most format.MaxPositionMetadata bytes
}

// GroupCommit commits positions. With Fenced they count only while the group's row was last changed at Row (zero:
// while there is none); else all are refused with CodeGone.
type GroupCommit struct {
	Group     string
	Positions []GroupPosition
	Fenced    bool
	Row       format.Place
	// Producer, when its ID is not NoProducer, makes them part of its transaction.
	Producer ProducerRef
	Implicit bool // begin the transaction if none is open (TV2)
}

// GroupOffset is one position of a group. Unstable says that a transaction that is not decided holds another.
type GroupOffset struct {
	Err *Error
	PartitionRef
	Found       bool
	Offset      format.Offset
	LeaderEpoch int32
	Metadata    string
	Unstable    bool
}

// GroupRow is what a coordinator keeps of a consumer group. Value is opaque to the engine, at most format.MaxGroupRow
// bytes.
type GroupRow struct {
	Group  string
	Value  []byte
	At     format.Place
	Delete bool
}
