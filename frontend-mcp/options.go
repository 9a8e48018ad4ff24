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
}

var queueOptions = []option{
	{"namespace", format.OptNamespace, func(o *format.QueueOptions) any { return &o.Namespace }},
	{"task", format.OptTask, func(o *format.QueueOptions) any { return &o.Task }},
	{"leaseTime", format.OptLeaseTime, func(o *format.QueueOptions) any { return &o.LeaseTime }},
	{"retryLimit", format.OptRetryLimit, func(o *format.QueueOptions) any { return &o.RetryLimit }},
	{"priority", format.OptPriority, func(o *format.QueueOptions) any { return &o.Priority }},
	{"retryDelay", format.OptRetryDelay, func(o *format.QueueOptions) any { return &o.RetryDelayMs }},
	{"maxSize", format.OptMaxSize, func(o *format.QueueOptions) any { return &o.MaxSize }},
	{"ttl", format.OptTTL, func(o *format.QueueOptions) any { return &o.TTL }},
	{"deadLetterQueue", format.OptDeadLetterQueue, func(o *format.QueueOptions) any { return &o.DeadLetterQueue }},
	{"dlqAfterMaxRetries", format.OptDLQAfterMaxRetries, func(o *format.QueueOptions) any { return &o.DLQAfterMaxRetries }},
	{"delayedProcessing", format.OptDelayedProcessing, func(o *format.QueueOptions) any { return &o.DelayedProcessing }},
	{"windowBuffer", format.OptWindowBuffer, func(o *format.QueueOptions) any { return &o.WindowBuffer }},
	{"retentionSeconds", format.OptRetentionSeconds, func(o *format.QueueOptions) any { return &o.RetentionSeconds }},
	{"completedRetentionSeconds", format.OptCompletedRetentionSeconds, func(o *format.QueueOptions) any { return &o.CompletedRetentionSeconds }},
	{"retentionEnabled", format.OptRetentionEnabled, func(o *format.QueueOptions) any { return &o.RetentionEnabled }},
	{"encryptionEnabled", format.OptEncryptionEnabled, func(o *format.QueueOptions) any { return &o.EncryptionEnabled }},
	{"maxWaitTimeSeconds", format.OptMaxWaitTimeSeconds, func(o *format.QueueOptions) any { return &o.MaxWaitTimeSeconds }},
	{"minPopWaitTime", format.OptMinPopWaitTime, func(o *format.QueueOptions) any { return &o.MinPopWaitTimeMs }},
	{"dedupWindowSeconds", format.OptDedupWindowSeconds, func(o *format.QueueOptions) any { return &o.DedupWindowSeconds }},
	{"retentionSinkHold", format.OptRetentionSinkHold, func(o *format.QueueOptions) any { return &o.RetentionSinkHold }},
	{"retentionSinkHoldMaxSeconds", format.OptRetentionSinkHoldMaxSeconds, func(o *format.QueueOptions) any { return &o.RetentionSinkHoldMaxSeconds }},
	{"maxDeliveries", format.OptMaxDeliveries, func(o *format.QueueOptions) any { return &o.MaxDeliveries }},
	{"kafkaPartitions", format.OptKafkaPartitions, func(o *format.QueueOptions) any { return &o.KafkaPartitions }},
	{"retentionBytes", format.OptRetentionBytes, func(o *format.QueueOptions) any { return &o.RetentionBytes }},
	{"retentionMs", format.OptRetentionMs, func(o *format.QueueOptions) any { return &o.RetentionMs }},
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
