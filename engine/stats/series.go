package stats

import (
	"math"
	"sync"
	"sync/atomic"
)

// Kind is what a Series counts.
type Kind uint8

const (
	PushRequests Kind = iota
	PushMessages
	PushBytes
	PopRequests // that delivered
	PopMessages
	PopEmpty
	AckRequests
	AckSuccess
	AckFailed
	Transactions
	// PopLag adds up how old messages were when they were delivered, microseconds; PopLagMax is the oldest one's age.
	PopLag
	PopLagMax
	kinds
)

// Counts are one number of each kind.
type Counts [kinds]uint64

// Add adds o to c; of what is a maximum the larger one stays.
func (c *Counts) Add(o *Counts) {
	most := max(c[PopLagMax], o[PopLagMax])
	for i, v := range o {
		c[i] += v
	}
	c[PopLagMax] = most
}

// SeriesKey names one series: a tenant's, with Queue 0, or one of its queues'.
type SeriesKey struct {
	Tenant [16]byte
	Queue  uint64
}

// Bounds of a Series: two hours by the minute, of at most that many keys, 5 MiB in all.
const (
	SeriesMinutes = 120
	seriesKeys    = 512
	seriesIdle    = 10 // minutes after which a key may make room for another one
)

// Series counts by key and minute, in fixed rings. Where there is no room for a key because all others are in use, it is
// not counted and Read says so. Safe for concurrent use; the zero value is ready.
type Series struct {
	mu    sync.RWMutex
	rings map[SeriesKey]*ring
	// full is the minute in which no key was idle: nobody looks for one again in it.
	full int64
}

type ring struct {
	since   int64 // first minute counted
	last    atomic.Int64
	turning sync.Mutex
	buckets [SeriesMinutes]bucket
}

type bucket struct {
	minute atomic.Int64
	counts [kinds]atomic.Uint64
}

// Add counts c in a minute. What is 0 costs nothing.
func (s *Series) Add(k SeriesKey, minute int64, c *Counts) {
	s.mu.RLock()
	r := s.rings[k]
	s.mu.RUnlock()
	if r == nil {
		if r = s.make(k, minute); r == nil {
			return
		}
	}
	if r.last.Load() != minute {
		r.last.Store(minute)
	}
	b := r.at(minute)
	for i, v := range c {
		switch {
		case v == 0:
		case Kind(i) == PopLagMax:
			raise(&b.counts[i], v)
		default:
			b.counts[i].Add(v)
		}
	}
}

// raise lifts a maximum.
func raise(at *atomic.Uint64, v uint64) {
	for {
		if was := at.Load(); was >= v || at.CompareAndSwap(was, v) {
			return
		}
	}
}

// make finds room for a key; nil when there is none.
func (s *Series) make(k SeriesKey, minute int64) *ring {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.rings[k]; r != nil {
		return r
	}
	if s.rings == nil {
		s.rings = map[SeriesKey]*ring{}
	}
	if len(s.rings) >= seriesKeys && !s.evict(minute) {
		return nil
	}
	r := &ring{since: minute}
	for i := range r.buckets {
		r.buckets[i].minute.Store(math.MinInt64)
	}
	r.last.Store(minute)
	s.rings[k] = r
	return r
}

// evict drops the keys that are idle, so that looking at all of them makes room for more than one. With mu.
func (s *Series) evict(minute int64) (some bool) {
	if s.full == minute {
		return false
	}
	for k, r := range s.rings {
		if r.last.Load() < minute-seriesIdle {
			delete(s.rings, k)
			some = true
		}
	}
	if !some {
		s.full = minute
	}
	return some
}

// at is the bucket of a minute, emptied of what it counted a turn of the ring before.
func (r *ring) at(minute int64) *bucket {
	b := &r.buckets[uint64(minute)%SeriesMinutes]
	if b.minute.Load() == minute {
		return b
	}
	r.turning.Lock()
	defer r.turning.Unlock()
	if b.minute.Load() != minute {
		for i := range b.counts {
			b.counts[i].Store(0)
		}
		b.minute.Store(minute)
	}
	return b
}

// Read calls visit for each minute in [from, to] that is known of a key, in order: from when it was first counted, at
// most SeriesMinutes back from the last one. false when the key is not counted.
func (s *Series) Read(k SeriesKey, from, to int64, visit func(minute int64, c *Counts)) bool {
	s.mu.RLock()
	r := s.rings[k]
	s.mu.RUnlock()
	if r == nil {
		return false
	}
	first := max(from, r.since, to-SeriesMinutes+1, r.last.Load()-SeriesMinutes+1)
	for m := first; m <= to; m++ {
		var c Counts
		b := &r.buckets[uint64(m)%SeriesMinutes]
		if b.minute.Load() == m {
			for i := range b.counts {
				c[i] = b.counts[i].Load()
			}
		}
		visit(m, &c)
	}
	return true
}
