package frontendkafka

import (
	"math"
	"strconv"
	"strings"

	"queen/engine/format"
)

// compaction is what a topic's configuration says of it, as a queue has options for it.
type compaction struct {
	on bool
	// Milliseconds; maxLag 0 is no bound.
	tombstones, minLag, maxLag int64
	dirty                      int64 // of a thousand
}

// compactionOf reads what is set, with the defaults of the rest.
func compactionOf(set map[string]string) compaction {
	if !compacts(set) {
		return compaction{}
	}
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(strings.TrimSpace(valueOr(set, name, topicConfigs.find(name).def)), 10, 64)
		return n
	}
	c := compaction{on: true, tombstones: number(deleteRetentionMs), minLag: number(minCompactionLag), maxLag: number(maxCompactionLag)}
	if c.maxLag == math.MaxInt64 {
		c.maxLag = 0
	}
	ratio, _ := strconv.ParseFloat(strings.TrimSpace(valueOr(set, minDirtyRatio, topicConfigs.find(minDirtyRatio).def)), 64)
	c.dirty = int64(math.Round(1000 * ratio))
	o := c.options()
	return compactedBy(&o) // within their bounds
}

// options are those that say it.
func (c compaction) options() (o format.QueueOptions) {
	c.patch(&o)
	return o
}

// compactedBy is what a queue's options say.
func compactedBy(o *format.QueueOptions) compaction {
	rule := o.Compaction()
	if !rule.On {
		return compaction{}
	}
	return compaction{true, int64(rule.Tombstones / 1000), int64(rule.MinLag / 1000), int64(rule.MaxLag / 1000), rule.Dirty}
}

// patch adds it to options.
func (c compaction) patch(o *format.QueueOptions) {
	o.Set |= format.OptCompactKeys
	if o.CompactKeys = c.on; c.on {
		o.Set |= format.OptTombstoneMs | format.OptMinCompactionLagMs | format.OptMaxCompactionLagMs | format.OptCompactDirtyPermille
		o.TombstoneMs, o.MinCompactionLagMs, o.MaxCompactionLagMs, o.CompactDirtyPermille = c.tombstones, c.minLag, c.maxLag, c.dirty
	}
}

// tellCompaction writes into the values of a topic what its queue does where somebody else configured that.
func tellCompaction(o *format.QueueOptions, values map[string]string, set map[string]bool) {
	have := compactedBy(o)
	if !have.on {
		return
	}
	tell := func(name, value string) { values[name], set[name] = value, true }
	if !compacts(values) {
		tell(cleanupPolicy, "compact,delete")
	}
	want := compactionOf(values)
	if have.tombstones != want.tombstones {
		tell(deleteRetentionMs, strconv.FormatInt(have.tombstones, 10))
	}
	if have.minLag != want.minLag {
		tell(minCompactionLag, strconv.FormatInt(have.minLag, 10))
	}
	switch {
	case have.maxLag == want.maxLag:
	case have.maxLag == 0:
		tell(maxCompactionLag, maxLong)
	default:
		tell(maxCompactionLag, strconv.FormatInt(have.maxLag, 10))
	}
	if have.dirty != want.dirty {
		tell(minDirtyRatio, strconv.FormatFloat(float64(have.dirty)/1000, 'g', -1, 64))
	}
}
