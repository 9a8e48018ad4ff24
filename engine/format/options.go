package format

// QueueOptions are the effective options of a queue. Seconds unless the name says otherwise.
type QueueOptions struct {
	Namespace string
	Task      string

	LeaseTime                   int64
	RetryLimit                  int64
	Priority                    int64
	RetryDelayMs                int64
	MaxSize                     int64 // messages retained per partition; see below
	TTL                         int64
	DeadLetterQueue             bool
	DLQAfterMaxRetries          bool
	DelayedProcessing           int64
	WindowBuffer                int64
	RetentionSeconds            int64
	CompletedRetentionSeconds   int64
	RetentionEnabled            bool
	EncryptionEnabled           bool
	MaxWaitTimeSeconds          int64
	MinPopWaitTimeMs            int64
	DedupWindowSeconds          int64
	RetentionSinkHold           string
	RetentionSinkHoldMaxSeconds int64

	// MaxSize, once set and above 0, bounds the messages a partition retains, acknowledged or not: from its
	// log start to its next offset, none when retention removed all. What a push brings beyond the bound is
	// refused message by message as too_large and leaves no trace; repeats of known ids are told as always.
	// Nothing stored is removed for it.

	// MaxDeliveries bounds how often a head message is handed out; 0 is no bound.
	MaxDeliveries int64
	// DLQScopeBatch files the whole nacked batch instead of the head message only.
	DLQScopeBatch bool
	// KafkaPartitions is the number of partitions Kafka clients see; 0 means the node's default.
	KafkaPartitions int64
	// RetentionBytes, above 0, is what a partition keeps of its frames at least, bytes as they are stored: older
	// ones are removed, whole, as long as that much is left.
	RetentionBytes int64
	// RetentionMs says RetentionSeconds to the millisecond. It counts only while RetentionSeconds is what it is
	// rounded up: who sets seconds alone gets them.
	RetentionMs int64

	// CompactKeys keeps, of the records of one key that Kafka producers wrote to a partition, the newest one; see Compaction.
	CompactKeys bool
	// TombstoneMs is how long a record without a value is kept after what it deletes was removed, milliseconds; not
	// set it is a day.
	TombstoneMs int64
	// MinCompactionLagMs is for how long after its append no record is compacted away, milliseconds.
	MinCompactionLagMs int64
	// MaxCompactionLagMs is how long at most records wait to be compacted once their segment is closed, milliseconds;
	// 0 is no bound.
	MaxCompactionLagMs int64
	// CompactDirtyPermille is how much of a partition's bytes has to be new before it is compacted, 0 to 1000; not
	// set it is 500.
	CompactDirtyPermille int64

	// Set remembers which options a configure call named: RetryDelayMs, TTL and MaxSize act only
	// when set, and the keys that upstream does not know are echoed only when set.
	Set OptionMask
}

// OptionMask has one bit per option, in the order of OptionNames. The order is on disk.
type OptionMask uint32

// Bits of OptionMask.
const (
	OptNamespace OptionMask = 1 << iota
	OptTask
	OptLeaseTime
	OptRetryLimit
	OptPriority
	OptRetryDelay
	OptMaxSize
	OptTTL
	OptDeadLetterQueue
	OptDLQAfterMaxRetries
	OptDelayedProcessing
	OptWindowBuffer
	OptRetentionSeconds
	OptCompletedRetentionSeconds
	OptRetentionEnabled
	OptEncryptionEnabled
	OptMaxWaitTimeSeconds
	OptMinPopWaitTime
	OptDedupWindowSeconds
	OptRetentionSinkHold
	OptRetentionSinkHoldMaxSeconds
	OptMaxDeliveries
	OptDLQScope
	OptKafkaPartitions
	OptRetentionBytes
	OptRetentionMs
	OptCompactKeys
	OptTombstoneMs
	OptMinCompactionLagMs
	OptMaxCompactionLagMs
	OptCompactDirtyPermille
	OptAll = OptCompactDirtyPermille<<1 - 1
	// optFirst are those that every row of a queue holds; optSecond those of rows before compaction.
	optFirst  = OptKafkaPartitions<<1 - 1
	optSecond = OptRetentionMs<<1 - 1
)

// DefaultOptions are a queue's options before anybody set one: leaseTime 60 when a push, pop or
// timer creates the queue, 300 when configure does (S-cfg-2).
func DefaultOptions(byConfigure bool) QueueOptions {
	o := QueueOptions{
		LeaseTime: 60, RetryLimit: 3, RetryDelayMs: 1000, TTL: 3600,
		DeadLetterQueue: true, DLQAfterMaxRetries: true,
		DedupWindowSeconds: 3600, RetentionSinkHoldMaxSeconds: 604800,
	}
	if byConfigure {
		o.LeaseTime = 300
	}
	return o
}

// Configure merges options into a queue, creating it when absent (S-cfg-1).
type Configure struct {
	Tenant Tenant
	Queue  []byte
	// Replace resets every option that is not in Patch.Set.
	Replace bool
	// Reset names options that go back to their default (a null on the wire).
	Reset OptionMask
	// Patch holds the values of the options in Patch.Set.
	Patch QueueOptions
	// Guarded refuses the change (CodeGone) unless the queue's life is Life; zero means that there is no queue.
	Guarded bool
	Life    QueueID
}
