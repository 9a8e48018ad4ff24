package frontendhttp

import (
	"encoding/json"
	"fmt"

	"queen/engine/format"
)

// option is one option of a queue as it is named on the wire. Exactly one of the getters is set.
type option struct {
	key  string
	bit  format.OptionMask
	num  func(*format.QueueOptions) *int64
	flag func(*format.QueueOptions) *bool
	text func(*format.QueueOptions) *string
	// own options are those upstream does not know; they are echoed only when set.
	own bool
}

// queueOptions is in the order of the echo; namespace and task stand beside it.
var queueOptions = []option{
	{key: "leaseTime", bit: format.OptLeaseTime, num: func(o *format.QueueOptions) *int64 { return &o.LeaseTime }},
	{key: "retryLimit", bit: format.OptRetryLimit, num: func(o *format.QueueOptions) *int64 { return &o.RetryLimit }},
	{key: "priority", bit: format.OptPriority, num: func(o *format.QueueOptions) *int64 { return &o.Priority }},
	{key: "retryDelay", bit: format.OptRetryDelay, num: func(o *format.QueueOptions) *int64 { return &o.RetryDelayMs }},
	{key: "maxSize", bit: format.OptMaxSize, num: func(o *format.QueueOptions) *int64 { return &o.MaxSize }},
	{key: "ttl", bit: format.OptTTL, num: func(o *format.QueueOptions) *int64 { return &o.TTL }},
	{key: "deadLetterQueue", bit: format.OptDeadLetterQueue,
		flag: func(o *format.QueueOptions) *bool { return &o.DeadLetterQueue }},
	{key: "dlqAfterMaxRetries", bit: format.OptDLQAfterMaxRetries,
		flag: func(o *format.QueueOptions) *bool { return &o.DLQAfterMaxRetries }},
	{key: "delayedProcessing", bit: format.OptDelayedProcessing,
		num: func(o *format.QueueOptions) *int64 { return &o.DelayedProcessing }},
	{key: "windowBuffer", bit: format.OptWindowBuffer,
		num: func(o *format.QueueOptions) *int64 { return &o.WindowBuffer }},
	{key: "retentionSeconds", bit: format.OptRetentionSeconds,
		num: func(o *format.QueueOptions) *int64 { return &o.RetentionSeconds }},
	{key: "completedRetentionSeconds", bit: format.OptCompletedRetentionSeconds,
		num: func(o *format.QueueOptions) *int64 { return &o.CompletedRetentionSeconds }},
	{key: "retentionEnabled", bit: format.OptRetentionEnabled,
		flag: func(o *format.QueueOptions) *bool { return &o.RetentionEnabled }},
	{key: "encryptionEnabled", bit: format.OptEncryptionEnabled,
		flag: func(o *format.QueueOptions) *bool { return &o.EncryptionEnabled }},
	{key: "maxWaitTimeSeconds", bit: format.OptMaxWaitTimeSeconds,
		num: func(o *format.QueueOptions) *int64 { return &o.MaxWaitTimeSeconds }},
	{key: "minPopWaitTime", bit: format.OptMinPopWaitTime,
		num: func(o *format.QueueOptions) *int64 { return &o.MinPopWaitTimeMs }},
	{key: "dedupWindowSeconds", bit: format.OptDedupWindowSeconds,
		num: func(o *format.QueueOptions) *int64 { return &o.DedupWindowSeconds }},
	{key: "retentionSinkHold", bit: format.OptRetentionSinkHold,
		text: func(o *format.QueueOptions) *string { return &o.RetentionSinkHold }},
	{key: "retentionSinkHoldMaxSeconds", bit: format.OptRetentionSinkHoldMaxSeconds,
		num: func(o *format.QueueOptions) *int64 { return &o.RetentionSinkHoldMaxSeconds }},
	{key: "maxDeliveries", bit: format.OptMaxDeliveries, own: true,
		num: func(o *format.QueueOptions) *int64 { return &o.MaxDeliveries }},
	{key: "kafkaPartitions", bit: format.OptKafkaPartitions, own: true,
		num: func(o *format.QueueOptions) *int64 { return &o.KafkaPartitions }},
	{key: "retentionBytes", bit: format.OptRetentionBytes, own: true,
		num: func(o *format.QueueOptions) *int64 { return &o.RetentionBytes }},
	{key: "retentionMs", bit: format.OptRetentionMs, own: true,
		num: func(o *format.QueueOptions) *int64 { return &o.RetentionMs }},
	{key: "compactKeys", bit: format.OptCompactKeys, own: true,
		flag: func(o *format.QueueOptions) *bool { return &o.CompactKeys }},
	{key: "tombstoneMs", bit: format.OptTombstoneMs, own: true,
		num: func(o *format.QueueOptions) *int64 { return &o.TombstoneMs }},
	{key: "minCompactionLagMs", bit: format.OptMinCompactionLagMs, own: true,
		num: func(o *format.QueueOptions) *int64 { return &o.MinCompactionLagMs }},
	{key: "maxCompactionLagMs", bit: format.OptMaxCompactionLagMs, own: true,
		num: func(o *format.QueueOptions) *int64 { return &o.MaxCompactionLagMs }},
	{key: "compactDirtyPermille", bit: format.OptCompactDirtyPermille, own: true,
		num: func(o *format.QueueOptions) *int64 { return &o.CompactDirtyPermille }},
}

// labelOptions are echoed at the top level.
var labelOptions = []option{
	{key: "namespace", bit: format.OptNamespace, text: func(o *format.QueueOptions) *string { return &o.Namespace }},
	{key: "task", bit: format.OptTask, text: func(o *format.QueueOptions) *string { return &o.Task }},
}

// dlqScopes are the values of the option that is a choice.
var dlqScopes = map[string]bool{"message": false, "batch": true}

// set reads one value into a patch.
func (p *option) set(o *format.QueueOptions, raw json.RawMessage) error {
	var target any
	want := "an integer"
	switch {
	case p.num != nil:
		target = p.num(o)
	case p.flag != nil:
		target, want = p.flag(o), "true or false"
	default:
		target, want = p.text(o), "a string"
	}
	if json.Unmarshal(raw, target) != nil {
		return &refusal{status: 400, code: "bad_request", field: p.key,
			text: fmt.Sprintf("option %s must be %s", p.key, want)}
	}
	o.Set |= p.bit
	return nil
}

// readOptions sorts an object's members into values and nulls; unknown keys are ignored.
func readOptions(in map[string]json.RawMessage, patch *format.QueueOptions) (reset format.OptionMask, err error) {
	for _, list := range [][]option{labelOptions, queueOptions} {
		for i := range list {
			raw, ok := in[list[i].key]
			switch {
			case !ok:
			case isNull(raw):
				reset |= list[i].bit
			default:
				if err := list[i].set(patch, raw); err != nil {
					return 0, err
				}
			}
		}
	}
	raw, ok := in["dlqScope"]
	if !ok {
		return reset, nil
	}
	if isNull(raw) {
		return reset | format.OptDLQScope, nil
	}
	var name string
	whole, known := false, false
	if json.Unmarshal(raw, &name) == nil {
		whole, known = dlqScopes[name]
	}
	if !known {
		return 0, &refusal{status: 400, code: "bad_request", field: "dlqScope",
			text: "option dlqScope must be message or batch"}
	}
	patch.DLQScopeBatch = whole
	patch.Set |= format.OptDLQScope
	return reset, nil
}

func isNull(raw json.RawMessage) bool { return string(raw) == "null" }

// optionsSet lists the options that a configure call set, in the order of the echo: the others are at their defaults,
// which for some of them is not what the echo shows.
func (o *out) optionsSet(q *format.QueueOptions) {
	o.open('[')
	for _, list := range [][]option{labelOptions, queueOptions} {
		for i := range list {
			if q.Set&list[i].bit != 0 {
				o.text(list[i].key)
			}
		}
	}
	if q.Set&format.OptDLQScope != 0 {
		o.text("dlqScope")
	}
	o.close(']')
}

// options writes the effective options; labels are among them where the route wants all keys in one object.
func (o *out) options(q *format.QueueOptions, labels bool) {
	o.open('{')
	if labels {
		o.str("namespace", q.Namespace)
		o.str("task", q.Task)
	}
	for i := range queueOptions {
		p := &queueOptions[i]
		switch {
		case p.own && q.Set&p.bit == 0:
		case p.num != nil:
			o.num(p.key, *p.num(q))
		case p.flag != nil:
			o.bool(p.key, *p.flag(q))
		default:
			o.str(p.key, *p.text(q))
		}
	}
	if q.Set&format.OptDLQScope != 0 {
		scope := "message"
		if q.DLQScopeBatch {
			scope = "batch"
		}
		o.str("dlqScope", scope)
	}
	o.close('}')
}
