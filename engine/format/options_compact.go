package format

// Compaction says how the partitions of a queue are compacted: of the records of one key the newest stays, the others
// go, offsets do not change. Times are on W.
type Compaction struct {
	On bool
	// Tombstones is how long a record without a value stays after what it deletes has gone.
	Tombstones Wall
	// MinLag is for how long after its append nothing goes; MaxLag, if not 0, how long at most it waits for its turn.
	MinLag, MaxLag Wall
	// Dirty is how much of a thousand bytes has to be more than new before the partition has its turn.
	Dirty int64
}

const (
	defaultTombstoneMs   = 86_400_000
	defaultDirtyPermille = 500
	// compactionMsMost bounds each time, so that sums with stamps can not wrap: a thousand years.
	compactionMsMost = 1000 * 366 * 86_400_000
)

// Compaction is what the options say, with Kafka's defaults for what nobody set.
func (o *QueueOptions) Compaction() Compaction {
	wall := func(ms int64) Wall { return Wall(min(max(ms, 0), compactionMsMost)) * 1000 }
	c := Compaction{On: o.CompactKeys, Tombstones: wall(o.TombstoneMs), MinLag: wall(o.MinCompactionLagMs),
		MaxLag: wall(o.MaxCompactionLagMs), Dirty: o.CompactDirtyPermille}
	if o.Set&OptTombstoneMs == 0 {
		c.Tombstones = wall(defaultTombstoneMs)
	}
	if o.Set&OptCompactDirtyPermille == 0 {
		c.Dirty = defaultDirtyPermille
	}
	return c
}
