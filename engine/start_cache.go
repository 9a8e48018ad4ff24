package engine

import (
	"sync"

	"queen/engine/format"
)

// startCache remembers where the logs of partitions begin under time retention: finding that takes some look-ups in files,
// and readers at the end of a partition ask each time. It forgets by being overwritten.
type startCache struct {
	shards [startShards]struct {
		sync.Mutex
		rows [startRows]startRow
	}
}

const (
	startShards = 64
	startRows   = 128
)

// startRow holds for a partition, its explicit start and its queue's cutoff: frames do not change their age.
type startRow struct {
	id     format.PartitionID
	trim   format.Offset
	cutoff format.Wall
	start  format.Offset
}

// place spreads ids, which are dense.
func (c *startCache) place(id format.PartitionID) (shard, row uint64) {
	h := uint64(id) * 0x9e3779b97f4a7c15 >> 32
	return h % startShards, h / startShards % startRows
}

func (c *startCache) get(part *partView) (format.Offset, bool) {
	at, i := c.place(part.id)
	s := &c.shards[at]
	s.Lock()
	defer s.Unlock()
	r := &s.rows[i]
	return r.start, r.id == part.id && r.trim == part.start && r.cutoff == part.cutoff
}

func (c *startCache) put(part *partView, start format.Offset) {
	at, i := c.place(part.id)
	s := &c.shards[at]
	s.Lock()
	defer s.Unlock()
	s.rows[i] = startRow{part.id, part.start, part.cutoff, start}
}
