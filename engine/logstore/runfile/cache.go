package runfile

import "sync"

const (
	cacheShards = 16
	// blockCost is what a cached block takes, in bytes: 4 KiB and what was parsed of it.
	blockCost = 4096 + 512
)

// Cache holds verified blocks of any number of files, the most recently used ones, within a budget.
type Cache[B any] struct {
	shards [cacheShards]cacheShard[B]
}

type cacheKey struct {
	file  uint64
	block uint32
}

// cacheShard evicts by second chance: the hand clears the mark of used blocks and takes the first one
// without.
type cacheShard[B any] struct {
	mu    sync.Mutex
	at    map[cacheKey]int
	slots []cacheSlot[B]
	limit int
	hand  int
}

type cacheSlot[B any] struct {
	key   cacheKey
	block *B
	used  bool
}

// NewCache makes a cache of at most about bytes; below 16 blocks it keeps 16.
func NewCache[B any](bytes int64) *Cache[B] {
	c := new(Cache[B])
	for i := range c.shards {
		c.shards[i].limit = max(1, int(bytes/blockCost)/cacheShards)
		c.shards[i].at = map[cacheKey]int{}
	}
	return c
}

func (c *Cache[B]) shard(k cacheKey) *cacheShard[B] {
	return &c.shards[(k.file*0x9e3779b97f4a7c15>>32+uint64(k.block))%cacheShards]
}

func (c *Cache[B]) get(k cacheKey) *B {
	s := c.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := s.at[k]
	if !ok {
		return nil
	}
	s.slots[i].used = true
	return s.slots[i].block
}

func (c *Cache[B]) put(k cacheKey, b *B) {
	s := c.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.at[k]; ok {
		return
	}
	i := len(s.slots)
	if i < s.limit {
		s.slots = append(s.slots, cacheSlot[B]{})
	} else {
		for s.slots[s.hand].used {
			s.slots[s.hand].used = false
			s.hand = (s.hand + 1) % len(s.slots)
		}
		i = s.hand
		s.hand = (s.hand + 1) % len(s.slots)
		delete(s.at, s.slots[i].key)
	}
	s.slots[i] = cacheSlot[B]{key: k, block: b}
	s.at[k] = i
}
