package engine

import (
	"context"

	"queen/engine/format"
)

// ConfigureRequest merges options into a queue (S-cfg-1).
type ConfigureRequest struct {
	Queue   string
	Replace bool
	Reset   format.OptionMask
	Patch   format.QueueOptions // Patch.Set says which fields count
	// Guarded makes the change only to the queue whose id is Life, or with zero only if there is no queue; else CodeGone.
	Guarded bool
	Life    format.QueueID
}

// QueueInfo describes a queue.
type QueueInfo struct {
	ID        format.QueueID
	Name      string
	CreatedAt format.Wall
	Options   format.QueueOptions
	// Partitions counts the live ones.
	Partitions uint64
	// Messages counts retained ones as of the last sweep, Pending those above the slowest cursor,
	// Processing those under a live lease; SweptAt is that sweep's time, 0 when none ran yet.
	Messages, Pending, Processing uint64
	DeadLetters                   uint64
	RetainedBytes                 uint64
	Segments                      uint64
	SweptAt                       format.Wall
	// Topic is the id that Kafka clients know the queue by: never zero nor one that Kafka reserves, another one when the
	// queue is made anew. Width is one more than the highest number that names a partition, and never falls; Hidden
	// counts partitions of other names, which Kafka clients do not see.
	Topic  format.UUID
	Width  uint32
	Hidden uint64
}

// PartitionInfo describes a partition.
type PartitionInfo struct {
	ID          format.PartitionID
	Queue, Name string
	CreatedAt   format.Wall
	LastWriteAt format.Wall
	Start, End  format.Offset
	Pending     uint64
	Processing  uint64
	DeadLetters uint64
}

// GroupInfo describes one consumer group on one queue (S-grp-1).
type GroupInfo struct {
	Name, Queue  string
	Start        Start
	RegisteredAt format.Wall
	Conflate     bool
	// Cursors counts partitions with a cursor record.
	Cursors uint64
	// Consumed says that it ever moved a cursor.
	Consumed bool
	// Lag figures come from the last sweep (SweptAt; 0 when none ran yet).
	Lag               uint64
	PartitionsWithLag uint64
	OldestLagAt       format.Wall
	Leases            uint64
	SweptAt           format.Wall
	// Members are those that came by Kafka's protocol and hold partitions of the queue. The engine knows none: the frontend
	// that coordinates them fills them in.
	Members []GroupMember
}

// GroupMember is a consumer that shares a queue's partitions with others of its consumer group by assignment, not by lease.
type GroupMember struct {
	ID           string
	Instance     string // "" of one that is not static
	Client, Host string
	// Protocol is classic or consumer.
	Protocol string
	// Partitions are the names of those it holds.
	Partitions []string
}

// GroupPartition is one partition as one consumer group sees it (S-grp-4).
type GroupPartition struct {
	Partition   PartitionInfo
	Next        format.Offset
	Lag         uint64
	OldestLagAt format.Wall
	Leased      bool
	Worker      string
	LastAckAt   format.Wall
	Consumed    uint64
	Attempts    uint32
}

// DeadLetter is a filed message (S-dlq-10).
type DeadLetter struct {
	ID          format.DeadLetterID
	Queue       string
	Partition   string
	PartitionID format.PartitionID
	Group       string
	Error       string
	Retries     uint32
	FailedAt    format.Wall
	// Timer is the key of the timer that could not fire, whose message was never stored: its Offset, from
	// format.TimerOffset, only tells it from others. "" for a message that was.
	Timer   string
	Message Record
}

// Page bounds a listing: at most Limit rows after the opaque cursor After ("" starts).
type Page struct {
	After string
	Limit int
}

// Catalog lists and changes what exists. Changes are durable when they return.
type Catalog interface {
	// CatchUp returns when what this node tells of the caller's queues is no older than the call. On a node that is sure to lead it
	// costs nothing; CodeNoLeader when it can not be made sure of.
	CatchUp(ctx context.Context, c Caller) error
	Configure(ctx context.Context, c Caller, r ConfigureRequest) (QueueInfo, error)
	DeleteQueue(ctx context.Context, c Caller, queue string) (existed bool, err error)
	// DeleteLife is DeleteQueue of the queue of that name only while its id is life; existed is false of any other.
	DeleteLife(ctx context.Context, c Caller, queue string, life format.QueueID) (existed bool, err error)
	// DeleteGroup forgets a consumer group on one queue, or on all when queue is empty and all is
	// set; keepRegistration keeps where it starts. It returns the number of cursors removed.
	DeleteGroup(ctx context.Context, c Caller, group, queue string, all, keepRegistration bool) (uint64, error)
	// SetSubscription changes where not yet touched partitions of a group start, on every queue it
	// is registered on (S-grp-6); it returns the number of registrations changed.
	SetSubscription(ctx context.Context, c Caller, group string, from format.Wall) (uint64, error)

	Queue(ctx context.Context, c Caller, queue string) (QueueInfo, error) // CodeUnknownQueue
	Queues(ctx context.Context, c Caller, p Page) (rows []QueueInfo, next string, err error)
	// Topic is Queue without the figures that are counted (messages, pending, processing), in
	// constant time; Topics lists like Queues. TopicByID finds one by QueueInfo.Topic; CodeUnknownQueue.
	Topic(ctx context.Context, c Caller, queue string) (QueueInfo, error)
	TopicByID(ctx context.Context, c Caller, id format.UUID) (QueueInfo, error)
	Topics(ctx context.Context, c Caller, p Page) (rows []QueueInfo, next string, err error)
	// TopicsGeneration changes whenever any queue, of whatever tenant, comes, goes, is configured or gets wider.
	TopicsGeneration() uint64
	// Partition finds one partition by name; CodeUnknownPartition.
	Partition(ctx context.Context, c Caller, queue, partition string) (PartitionInfo, error)
	// PartitionByID finds one by id; another tenant's answers as an unknown one (S-ack-23).
	PartitionByID(ctx context.Context, c Caller, id format.PartitionID) (PartitionInfo, error)
	// Partitions lists in creation order those last written at or after since (0 lists all).
	Partitions(ctx context.Context, c Caller, queue string, since format.Wall, p Page) (rows []PartitionInfo, next string, err error)
	Groups(ctx context.Context, c Caller) ([]GroupInfo, error)
	// GroupPartitions pages over the partitions of a queue as a group sees them.
	GroupPartitions(ctx context.Context, c Caller, group, queue string, p Page) (rows []GroupPartition, next string, err error)

	DeadLetters(ctx context.Context, c Caller, f DeadLetterFilter) ([]DeadLetter, error)
	// DeleteDeadLetters removes those of an address; it returns how many there were.
	DeleteDeadLetters(ctx context.Context, c Caller, id format.PartitionID, transactionID string) (uint64, error)
	// Purge removes the dead letters of a queue, of one group when group is not nil.
	Purge(ctx context.Context, c Caller, queue string, group *string) (uint64, error)
}

// DeadLetterFilter selects dead letters, newest failure first (S-dlq-21).
type DeadLetterFilter struct {
	Queue     string // "" means every queue of the tenant
	Partition string // "" means all
	Group     string // "" means all
	Error     string // substring; "" means all
	From, To  format.Wall
	// Skip and Limit page; Limit 0 means 100.
	Skip, Limit int
}

// Inspect is read-only: nothing here writes to the log or moves a cursor.
type Inspect interface {
	// Message finds one message and what every consumer group thinks of it (S-obs-1).
	Message(ctx context.Context, c Caller, id format.PartitionID, transactionID string) (MessageDetail, error)
	// Messages browses newest first (S-obs-3).
	Messages(ctx context.Context, c Caller, f MessageFilter) ([]MessageDetail, error)
	// Depth counts what a group has before it on a queue; "" counts against the slowest cursor.
	Depth(ctx context.Context, c Caller, queue, group string) (Depth, error)
	// PartitionSize adds up the stored frames of a partition from its end backwards until they are at least keep bytes; 0
	// is all. It takes time with the number of frames.
	PartitionSize(ctx context.Context, c Caller, queue, partition string, keep uint64) (PartitionSize, error)
	// TopLag lists the partitions furthest behind, of one queue or of all.
	TopLag(ctx context.Context, c Caller, queue string, limit int) ([]LagRow, error)
	// Leases lists live leases, oldest expiry first.
	Leases(ctx context.Context, c Caller, limit int) ([]LeaseRow, error)
	// Lease finds a live lease on one partition; false when it is over, or another tenant's. First is the
	// next offset that an ack of it would settle.
	Lease(ctx context.Context, c Caller, lease string, p format.PartitionID) (LeaseRow, bool, error)
	// Overview sums up the tenant's queues from the last sweep.
	Overview(ctx context.Context, c Caller) (Overview, error)
	// Stats is a snapshot of the node's counters; the caller owns it.
	Stats() Stats
}

// MessageState is derived: dead letter over completed over processing over pending (S-obs-2).
type MessageState uint8

const (
	Pending    MessageState = 1
	Processing MessageState = 2
	Completed  MessageState = 3
	DeadState  MessageState = 4
)

// GroupView is what one consumer group thinks of one message.
type GroupView struct {
	Name     string
	Consumed bool
	Leased   bool
	// LeaseExpires is calendar time, 0 when not leased.
	LeaseExpires format.Wall
	Dead         bool
	Retries      uint32
	Error        string
}

// MessageDetail is a stored message with its surroundings.
type MessageDetail struct {
	Record
	Queue     QueueInfo
	Partition PartitionInfo
	State     MessageState
	Groups    []GroupView
	// Segment is where its bytes are, for operators.
	Segment uint64
}

// MessageFilter selects messages to browse.
type MessageFilter struct {
	Queue, Partition, Namespace, Task string
	State                             MessageState // 0 means all
	From, To                          format.Wall
	Skip, Limit                       int
}

// PartitionDepth is one partition's share of a Depth.
type PartitionDepth struct {
	Partition           string
	Pending, Processing uint64
}

// Depth counts a queue's messages before a consumer group.
type Depth struct {
	Queue, Group                      string
	HasGroup                          bool
	Pending, Processing               uint64
	PartitionsPending, PartitionReady uint64
	// Conflates says that the group takes a partition's messages as one.
	Conflates bool
	// Partitions lists those with anything pending, at most 1,000.
	Partitions []PartitionDepth
}

// PartitionSize is what a partition stores from an offset on, as it is stored.
type PartitionSize struct {
	Bytes uint64
	From  format.Offset
}

// LagRow is one (partition, group) that is behind.
type LagRow struct {
	Queue, Partition, Group, Worker string
	PartitionID                     format.PartitionID
	Lag, Processing                 uint64
	OldestAt                        format.Wall
	// Retries are the failures of the message at the cursor, Attempts how often it was handed out. HoldUntil is when
	// its back-off ends, 0 for none.
	Retries, Attempts uint32
	HoldUntil         format.Wall
	// LeasedAt and LeaseExpires are calendar time, 0 when not leased.
	LeasedAt, LeaseExpires format.Wall
}

// LeaseRow is one live lease on one partition.
type LeaseRow struct {
	Lease                           string
	Queue, Partition, Group, Worker string
	PartitionID                     format.PartitionID
	First, End                      format.Offset
	Attempt                         uint32
	Expires                         format.Wall
}

// Overview sums up a tenant.
type Overview struct {
	Queues, Partitions, Namespaces, Tasks              uint64
	Total, Pending, Processing, Completed, DeadLetters uint64
	Lag, LagMax                                        uint64
	PushedPerSecond, DeliveredPerSecond                float64
	SweptAt                                            format.Wall
}

// Stats is a snapshot of counters since start; gauges say so.
type Stats struct {
	Pushed, PushedBytes, Duplicates, Refused  uint64
	DeliveredMessages, DeliveredBytes, Claims uint64
	Acked, Nacked, DeadLettered, Redriven     uint64
	HandedBack, Expired                       uint64
	Entries, EntryBytes, Flushes, FlushMicros uint64
	DuplicateProbes, RunProbes, StaleEvidence uint64
	Overloaded, StorageRefused                uint64
	KVWrites, KVReads, KVLost                 uint64 // ops; lost ones did not apply
	Transactions, RolledBack, Repeated        uint64 // Repeated counts answers given again under a key
	LocksGranted, LocksRefused                uint64
	TimersScheduled, TimersCancelled          uint64
	TimersFired, TimersRefused                uint64 // Refused counts fires that were put off
	Parked, InflightWriteBytes                int64  // gauges
	KVRows, TimersPending                     uint64 // gauges
	TimerOldestLateMicros                     uint64 // gauge: of the timer that is most overdue
	Queues, Partitions, Groups, LiveLeases    uint64 // gauges
	Segments, LogBytes                        uint64 // gauges: of the commit stream
	Bulks, BulkBytes                          uint64 // gauges: of the segments that live messages were moved to
	CheckpointBytes                           uint64 // gauge: checkpoints, indexes of the log and keyed rows on disk
	DiskTotal, DiskFree                       uint64 // gauges
	CommitMicros                              Histogram
	TimerLateMicros                           Histogram   // from due to fired
	LastCommitMicros                          uint64      // of the newest entry that this node proposed
	LastCommitAt                              format.Wall // when that was; 0 before the first
	// DeadBytes is what segments that are closed take without holding anything that is needed, as far as it was known when
	// they were last looked at, DeadAt; 0 before the first look.
	DeadBytes uint64
	DeadAt    format.Wall
}

// Histogram has one count per power of two of microseconds, and the sum.
type Histogram struct {
	Counts [32]uint64
	Sum    uint64
}
