package format

import "encoding/binary"

func putU64(b []byte, v uint64) []byte { return binary.LittleEndian.AppendUint64(b, v) }

// optionFields walks the options of o in the order of their bits, which is their order on disk.
// Exactly one of the three functions is called per option.
func optionFields(o *QueueOptions, text func(OptionMask, *string), number func(OptionMask, *int64),
	truth func(OptionMask, *bool),
) {
	text(OptNamespace, &o.Namespace)
	text(OptTask, &o.Task)
	number(OptLeaseTime, &o.LeaseTime)
	number(OptRetryLimit, &o.RetryLimit)
	number(OptPriority, &o.Priority)
	number(OptRetryDelay, &o.RetryDelayMs)
	number(OptMaxSize, &o.MaxSize)
	number(OptTTL, &o.TTL)
	truth(OptDeadLetterQueue, &o.DeadLetterQueue)
	truth(OptDLQAfterMaxRetries, &o.DLQAfterMaxRetries)
	number(OptDelayedProcessing, &o.DelayedProcessing)
	number(OptWindowBuffer, &o.WindowBuffer)
	number(OptRetentionSeconds, &o.RetentionSeconds)
	number(OptCompletedRetentionSeconds, &o.CompletedRetentionSeconds)
	truth(OptRetentionEnabled, &o.RetentionEnabled)
	truth(OptEncryptionEnabled, &o.EncryptionEnabled)
	number(OptMaxWaitTimeSeconds, &o.MaxWaitTimeSeconds)
	number(OptMinPopWaitTime, &o.MinPopWaitTimeMs)
	number(OptDedupWindowSeconds, &o.DedupWindowSeconds)
	text(OptRetentionSinkHold, &o.RetentionSinkHold)
	number(OptRetentionSinkHoldMaxSeconds, &o.RetentionSinkHoldMaxSeconds)
	number(OptMaxDeliveries, &o.MaxDeliveries)
	truth(OptDLQScope, &o.DLQScopeBatch)
	number(OptKafkaPartitions, &o.KafkaPartitions)
	number(OptRetentionBytes, &o.RetentionBytes)
	number(OptRetentionMs, &o.RetentionMs)
	truth(OptCompactKeys, &o.CompactKeys)
	number(OptTombstoneMs, &o.TombstoneMs)
	number(OptMinCompactionLagMs, &o.MinCompactionLagMs)
	number(OptMaxCompactionLagMs, &o.MaxCompactionLagMs)
	number(OptCompactDirtyPermille, &o.CompactDirtyPermille)
}

// AppendOptions appends the options in o.Set: the mask, then their values in the order of the bits.
func AppendOptions(b []byte, o *QueueOptions) []byte {
	return appendOptions(b, o, o.Set)
}

// AppendAllOptions appends every option of o and then o.Set: how state keeps a queue's options.
func AppendAllOptions(b []byte, o *QueueOptions) []byte {
	return putUvarint(appendOptions(b, o, OptAll), uint64(o.Set))
}

func appendOptions(b []byte, o *QueueOptions, which OptionMask) []byte {
	b = putUvarint(b, uint64(which))
	optionFields(o,
		func(m OptionMask, v *string) {
			if which&m != 0 {
				b = append(putUvarint(b, uint64(len(*v))), *v...)
			}
		},
		func(m OptionMask, v *int64) {
			if which&m != 0 {
				b = putVarint(b, *v)
			}
		},
		func(m OptionMask, v *bool) {
			if which&m != 0 {
				b = putBool(b, *v)
			}
		})
	return b
}

// ParseAllOptions is the way back of AppendAllOptions; b must be used up. Options that did not exist when b was written
// are 0.
func ParseAllOptions(b []byte) (o QueueOptions, err error) {
	d := decoder{b: b}
	d.options(&o)
	if o.Set != OptAll && o.Set != optSecond && o.Set != optFirst {
		d.fail("options missing")
	}
	o.Set = d.optionMask()
	return o, d.close("queue options", 0)
}

func (d *decoder) optionMask() OptionMask {
	v := d.uvarint()
	if v > uint64(OptAll) {
		d.fail("unknown option")
		return 0
	}
	return OptionMask(v)
}

func (d *decoder) options(o *QueueOptions) {
	*o = QueueOptions{Set: d.optionMask()}
	optionFields(o,
		func(m OptionMask, v *string) {
			if o.Set&m != 0 {
				*v = string(d.bytes())
			}
		},
		func(m OptionMask, v *int64) {
			if o.Set&m != 0 {
				*v = d.varint()
			}
		},
		func(m OptionMask, v *bool) {
			if o.Set&m != 0 {
				*v = d.bool()
			}
		})
}
