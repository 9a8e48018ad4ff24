package frontendmcp

import (
	"queen/engine/format"
)

// option is one option of a queue.
type option struct {
	key string
	bit format.OptionMask
	// at is a *int64, *bool or *string.
	at func(*format.QueueOptions) any
	// effect is what the option is about; destroys says that a change can cost messages.
	effect   string
	destroys bool
}

var queueOptions = []option{
	{"namespace", format.OptNamespace, func(o *format.QueueOptions) any { return &o.Namespace },
		"a label that pops of several queues go by", false},
	{"task", format.OptTask, func(o *format.QueueOptions) any { return &o.Task },
		"a label that pops of several queues go by", false},
	{"leaseTime", format.OptLeaseTime, func(o *format.QueueOptions) any { return &o.LeaseTime },
		"seconds until what was handed out is handed out again", false},
	{"retryLimit", format.OptRetryLimit, func(o *format.QueueOptions) any { return &o.RetryLimit },
		"failures until a message becomes a dead letter", true},
	{"priority", format.OptPriority, func(o *format.QueueOptions) any { return &o.Priority },
		"none: it is echoed", false},
	{"retryDelay", format.OptRetryDelay, func(o *format.QueueOptions) any { return &o.RetryDelayMs },
		"milliseconds until a message that failed is tried again", false},
	{"maxSize", format.OptMaxSize, func(o *format.QueueOptions) any { return &o.MaxSize },
		"messages that a partition holds at most: more are refused", true},
	{"ttl", format.OptTTL, func(o *format.QueueOptions) any { return &o.TTL },
		"seconds after which a message is not handed out any more", true},
	{"deadLetterQueue", format.OptDeadLetterQueue, func(o *format.QueueOptions) any { return &o.DeadLetterQueue },
		"whether messages that are given up are kept", true},
	{"dlqAfterMaxRetries", format.OptDLQAfterMaxRetries, func(o *format.QueueOptions) any { return &o.DLQAfterMaxRetries },
		"whether spent retries make a dead letter", true},
	{"delayedProcessing", format.OptDelayedProcessing, func(o *format.QueueOptions) any { return &o.DelayedProcessing },
		"seconds until a message is handed out first", false},
	{"windowBuffer", format.OptWindowBuffer, func(o *format.QueueOptions) any { return &o.WindowBuffer },
		"seconds without a push until a partition hands out", false},
	{"retentionSeconds", format.OptRetentionSeconds, func(o *format.QueueOptions) any { return &o.RetentionSeconds },
		"age at which messages go, consumed or not", true},
	{"completedRetentionSeconds", format.OptCompletedRetentionSeconds, func(o *format.QueueOptions) any { return &o.CompletedRetentionSeconds },
		"age at which messages go that every group consumed", true},
	{"retentionEnabled", format.OptRetentionEnabled, func(o *format.QueueOptions) any { return &o.RetentionEnabled },
		"whether messages go by age", true},
	{"encryptionEnabled", format.OptEncryptionEnabled, func(o *format.QueueOptions) any { return &o.EncryptionEnabled },
		"whether new messages are stored encrypted", true},
	{"maxWaitTimeSeconds", format.OptMaxWaitTimeSeconds, func(o *format.QueueOptions) any { return &o.MaxWaitTimeSeconds },
		"age at which messages go, whatever else is set", true},
	{"minPopWaitTime", format.OptMinPopWaitTime, func(o *format.QueueOptions) any { return &o.MinPopWaitTimeMs },
		"none: it is echoed", false},
	{"dedupWindowSeconds", format.OptDedupWindowSeconds, func(o *format.QueueOptions) any { return &o.DedupWindowSeconds },
		"seconds for which transaction ids are remembered", false},
	{"retentionSinkHold", format.OptRetentionSinkHold, func(o *format.QueueOptions) any { return &o.RetentionSinkHold },
		"whether retention waits for consumer groups", true},
	{"retentionSinkHoldMaxSeconds", format.OptRetentionSinkHoldMaxSeconds, func(o *format.QueueOptions) any { return &o.RetentionSinkHoldMaxSeconds },
		"how long it waits for them", true},
	{"maxDeliveries", format.OptMaxDeliveries, func(o *format.QueueOptions) any { return &o.MaxDeliveries },
		"deliveries after which a message becomes a dead letter", true},
	{"kafkaPartitions", format.OptKafkaPartitions, func(o *format.QueueOptions) any { return &o.KafkaPartitions },
		"partitions that Kafka clients see", false},
	{"retentionBytes", format.OptRetentionBytes, func(o *format.QueueOptions) any { return &o.RetentionBytes },
		"bytes that a partition keeps at least; older messages go", true},
	{"retentionMs", format.OptRetentionMs, func(o *format.QueueOptions) any { return &o.RetentionMs },
		"age at which messages go, in milliseconds", true},
	{"compactKeys", format.OptCompactKeys, func(o *format.QueueOptions) any { return &o.CompactKeys },
		"whether of the records of one key only the newest is kept", true},
	{"tombstoneMs", format.OptTombstoneMs, func(o *format.QueueOptions) any { return &o.TombstoneMs },
		"milliseconds for which the mark of a deleted key stays", true},
	{"minCompactionLagMs", format.OptMinCompactionLagMs, func(o *format.QueueOptions) any { return &o.MinCompactionLagMs },
		"milliseconds for which a record is not compacted away", true},
	{"maxCompactionLagMs", format.OptMaxCompactionLagMs, func(o *format.QueueOptions) any { return &o.MaxCompactionLagMs },
		"milliseconds that a new record waits at most for compaction", false},
	{"compactDirtyPermille", format.OptCompactDirtyPermille, func(o *format.QueueOptions) any { return &o.CompactDirtyPermille },
		"how much of a partition has to be new before it is compacted, of 1000", false},
}

// value reads an option.
func (p *option) value(o *format.QueueOptions) any {
	switch v := p.at(o).(type) {
	case *int64:
		return *v
	case *bool:
		return *v
	case *string:
		return *v
	}
	return nil
}

// dlqScope is the option that is a choice.
func dlqScope(o *format.QueueOptions) string {
	if o.DLQScopeBatch {
		return "batch"
	}
	return "message"
}

func optionRows(o *format.QueueOptions) []optionRow {
	def := format.DefaultOptions(false)
	rows := make([]optionRow, 0, len(queueOptions)+1)
	for i := range queueOptions {
		p := &queueOptions[i]
		rows = append(rows, optionRow{p.key, p.value(o), p.value(&def), o.Set&p.bit != 0})
	}
	return append(rows, optionRow{"dlqScope", dlqScope(o), "message", o.Set&format.OptDLQScope != 0})
}
