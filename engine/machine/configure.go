package machine

import "queen/engine/format"

// applyConfigure merges options into a queue, creating it when absent (S-cfg-1 to 7, 9).
func (m *Machine) applyConfigure(c *format.Configure, res *format.ConfigResult) format.Code {
	if c.Guarded && m.lifeOf(c.Tenant, c.Queue) != c.Life {
		return format.CodeGone
	}
	q, created := m.ensureQueue(c.Tenant, c.Queue, byConfigure)
	if q == nil {
		return format.CodeLimit
	}
	old := q.opts
	defaults := format.DefaultOptions(q.declared)
	if c.Replace {
		q.opts = defaults
	}
	overlay(&q.opts, &defaults, c.Reset)
	q.opts.Set &^= c.Reset
	overlay(&q.opts, &c.Patch, c.Patch.Set)
	q.opts.Set |= c.Patch.Set
	clamp(&q.opts)
	q.implicit = false
	m.optionsChanged(q, &old)
	m.soilQueue(q)
	m.topicsGen++
	res.Queue, res.Created, res.Options = format.QueueID(q.id), created, q.opts
	return format.CodeOK
}

// lifeOf is the id of a queue; zero when there is none.
func (m *Machine) lifeOf(t format.Tenant, name []byte) format.QueueID {
	q := m.queueBy(t, name)
	if q == nil {
		return 0
	}
	return format.QueueID(q.id)
}

// overlay copies the options of mask from src to dst.
func overlay(dst, src *format.QueueOptions, mask format.OptionMask) {
	take := func(bit format.OptionMask, d *int64, s int64) {
		if mask&bit != 0 {
			*d = s
		}
	}
	take(format.OptLeaseTime, &dst.LeaseTime, src.LeaseTime)
	take(format.OptRetryLimit, &dst.RetryLimit, src.RetryLimit)
	take(format.OptPriority, &dst.Priority, src.Priority)
	take(format.OptRetryDelay, &dst.RetryDelayMs, src.RetryDelayMs)
	take(format.OptMaxSize, &dst.MaxSize, src.MaxSize)
	take(format.OptTTL, &dst.TTL, src.TTL)
	take(format.OptDelayedProcessing, &dst.DelayedProcessing, src.DelayedProcessing)
	take(format.OptWindowBuffer, &dst.WindowBuffer, src.WindowBuffer)
	take(format.OptRetentionSeconds, &dst.RetentionSeconds, src.RetentionSeconds)
	take(format.OptCompletedRetentionSeconds, &dst.CompletedRetentionSeconds, src.CompletedRetentionSeconds)
	take(format.OptMaxWaitTimeSeconds, &dst.MaxWaitTimeSeconds, src.MaxWaitTimeSeconds)
	take(format.OptMinPopWaitTime, &dst.MinPopWaitTimeMs, src.MinPopWaitTimeMs)
	take(format.OptDedupWindowSeconds, &dst.DedupWindowSeconds, src.DedupWindowSeconds)
	take(format.OptRetentionSinkHoldMaxSeconds, &dst.RetentionSinkHoldMaxSeconds, src.RetentionSinkHoldMaxSeconds)
	take(format.OptMaxDeliveries, &dst.MaxDeliveries, src.MaxDeliveries)
	take(format.OptKafkaPartitions, &dst.KafkaPartitions, src.KafkaPartitions)
	take(format.OptRetentionBytes, &dst.RetentionBytes, src.RetentionBytes)
	take(format.OptRetentionMs, &dst.RetentionMs, src.RetentionMs)
	take(format.OptTombstoneMs, &dst.TombstoneMs, src.TombstoneMs)
	take(format.OptMinCompactionLagMs, &dst.MinCompactionLagMs, src.MinCompactionLagMs)
	take(format.OptMaxCompactionLagMs, &dst.MaxCompactionLagMs, src.MaxCompactionLagMs)
	take(format.OptCompactDirtyPermille, &dst.CompactDirtyPermille, src.CompactDirtyPermille)
	flip := func(bit format.OptionMask, d *bool, s bool) {
		if mask&bit != 0 {
			*d = s
		}
	}
	flip(format.OptDeadLetterQueue, &dst.DeadLetterQueue, src.DeadLetterQueue)
	flip(format.OptDLQAfterMaxRetries, &dst.DLQAfterMaxRetries, src.DLQAfterMaxRetries)
	flip(format.OptRetentionEnabled, &dst.RetentionEnabled, src.RetentionEnabled)
	flip(format.OptCompactKeys, &dst.CompactKeys, src.CompactKeys)
	flip(format.OptEncryptionEnabled, &dst.EncryptionEnabled, src.EncryptionEnabled)
	flip(format.OptDLQScope, &dst.DLQScopeBatch, src.DLQScopeBatch)
	name := func(bit format.OptionMask, d *string, s string) {
		if mask&bit != 0 {
			*d = s
		}
	}
	name(format.OptNamespace, &dst.Namespace, src.Namespace)
	name(format.OptTask, &dst.Task, src.Task)
	name(format.OptRetentionSinkHold, &dst.RetentionSinkHold, src.RetentionSinkHold)
}

// clamp brings options into their bounds; the echo shows what came of them (S-cfg-4).
func clamp(o *format.QueueOptions) {
	for _, n := range []*int64{
		&o.LeaseTime, &o.RetryLimit, &o.RetryDelayMs, &o.MaxSize, &o.TTL, &o.DelayedProcessing, &o.WindowBuffer,
		&o.RetentionSeconds, &o.CompletedRetentionSeconds, &o.MaxWaitTimeSeconds, &o.DedupWindowSeconds,
		&o.MaxDeliveries, &o.KafkaPartitions, &o.RetentionBytes, &o.RetentionMs, &o.TombstoneMs,
		&o.MinCompactionLagMs, &o.MaxCompactionLagMs, &o.CompactDirtyPermille,
	} {
		*n = max(*n, 0)
	}
	o.CompactDirtyPermille = min(o.CompactDirtyPermille, 1000)
	o.MinPopWaitTimeMs = min(max(o.MinPopWaitTimeMs, 0), 60_000)
}

// optionsChanged draws the consequences of new options for what is stored already.
func (m *Machine) optionsChanged(q *queue, old *format.QueueOptions) {
	before, now := seconds(old.DedupWindowSeconds), q.dedup()
	if now > before {
		// Ids older than the old window were not kept for a verdict: they do not come back.
		q.dedupFrom = max(q.dedupFrom, m.w-before)
	}
	if q.opts == *old {
		return
	}
	q.optGen++
	if q.opts.DelayedProcessing != old.DelayedProcessing || q.opts.WindowBuffer != old.WindowBuffer {
		q.holdGen++
		if q.parts == 0 {
			return
		}
		m.addTask(&task{kind: sweepHolds, queue: q.id, gen: q.holdGen})
	}
}
