package auth

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"
)

// tracked bounds the tenants whose buckets are remembered. One that is forgotten, the least recently seen, finds its
// buckets full again.
const tracked = 10_000

// Quotas holds tenants to their plans. A nil *Quotas bounds nothing. Calls are counted on this node only.
type Quotas struct {
	plans func() *Plans
	now   func() time.Time
	// refused counts what was refused, or would have been, by what was used up.
	refused [int(buckets) + int(bounds)]atomic.Uint64

	mu struct {
		sync.Mutex
		tenants map[Tenant]*list.Element // of *usage
		recent  *list.List               // most recently seen first
		// parked counts waiting pops. It has an entry while there is one, whether the tenant is tracked or not.
		parked map[Tenant]int
	}
}

// Bound is a cap of a plan that is not a rate.
type Bound uint8

// The bounds.
const (
	BoundQueues Bound = iota
	BoundPartitions
	BoundParked
	BoundPayload
	BoundBatch
	bounds
)

var boundNames = [bounds]string{"queues", "partitions_per_queue", "parked_pops", "payload_bytes", "batch_items"}

func (b Bound) String() string { return boundNames[b] }

// usage is one tenant's buckets.
type usage struct {
	tenant  Tenant
	buckets [buckets]bucket
}

// bucket is what is left of a rate. More may be taken than it ever holds, once it is full: what is owed then is paid
// before anything else passes, so that a large batch is late instead of impossible.
type bucket struct {
	left float64
	at   time.Time // zero: never used, full
}

// NewQuotas makes Quotas over plans that may change.
func NewQuotas(plans func() *Plans, now func() time.Time) *Quotas {
	q := &Quotas{plans: plans, now: now}
	q.mu.tenants = make(map[Tenant]*list.Element)
	q.mu.recent = list.New()
	q.mu.parked = make(map[Tenant]int)
	return q
}

// Plan is the plan of a tenant; the zero Plan when it has none.
func (q *Quotas) Plan(t Tenant) Plan {
	if p := q.plan(t); p != nil {
		return *p
	}
	return Plan{}
}

func (q *Quotas) plan(t Tenant) *Plan {
	if q == nil {
		return nil
	}
	return q.plans().of(t)
}

// Take takes n from a bucket of a tenant. False refuses, takes nothing, and tells when it would pass.
func (q *Quotas) Take(t Tenant, b Bucket, n int) (ok bool, retryAfter time.Duration) {
	p := q.plan(t)
	if p == nil || p.Rates[b].Per <= 0 || n <= 0 {
		return true, 0
	}
	r := p.Rates[b]
	q.mu.Lock()
	u := q.usageLocked(t)
	wait := u.buckets[b].take(q.now(), r, float64(n))
	q.mu.Unlock()
	if wait <= 0 {
		return true, 0
	}
	q.refused[b].Add(1)
	return p.Shadow, wait
}

// Give puts back what was taken by a call that was refused for another reason.
func (q *Quotas) Give(t Tenant, b Bucket, n int) {
	p := q.plan(t)
	if p == nil || p.Rates[b].Per <= 0 || n <= 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	k := &q.usageLocked(t).buckets[b]
	k.left = min(k.left+float64(n), p.Rates[b].burst())
}

// Park counts a waiting pop; false refuses it. Every true is followed by one Unpark.
func (q *Quotas) Park(t Tenant) bool {
	if q == nil {
		return true
	}
	p := q.plan(t)
	q.mu.Lock()
	defer q.mu.Unlock()
	if p != nil && p.ParkedPops > 0 && q.mu.parked[t] >= p.ParkedPops {
		q.refused[int(buckets)+int(BoundParked)].Add(1)
		if !p.Shadow {
			return false
		}
	}
	q.mu.parked[t]++
	return true
}

// Unpark ends what Park counted.
func (q *Quotas) Unpark(t Tenant) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.parked[t]--; q.mu.parked[t] <= 0 {
		delete(q.mu.parked, t)
	}
}

// Exceeds counts something that is over a bound of the plan and tells whether to refuse it: in shadow only sizes are.
func (q *Quotas) Exceeds(p *Plan, b Bound) bool {
	q.refused[int(buckets)+int(b)].Add(1)
	return !p.Shadow || b == BoundPayload || b == BoundBatch
}

// Refused calls fn with every bucket and bound and how often it was used up.
func (q *Quotas) Refused(fn func(name string, n uint64)) {
	if q == nil {
		return
	}
	for b, name := range bucketNames {
		fn(name, q.refused[b].Load())
	}
	for b, name := range boundNames {
		fn(name, q.refused[int(buckets)+b].Load())
	}
}

// usageLocked finds or makes the buckets of a tenant.
func (q *Quotas) usageLocked(t Tenant) *usage {
	if e, ok := q.mu.tenants[t]; ok {
		q.mu.recent.MoveToFront(e)
		return e.Value.(*usage)
	}
	if q.mu.recent.Len() >= tracked {
		last := q.mu.recent.Back()
		delete(q.mu.tenants, last.Value.(*usage).tenant)
		q.mu.recent.Remove(last)
	}
	u := &usage{tenant: t}
	q.mu.tenants[t] = q.mu.recent.PushFront(u)
	return u
}

// take takes n or tells how long until it could.
func (k *bucket) take(now time.Time, r Rate, n float64) (wait time.Duration) {
	most := r.burst()
	switch since := now.Sub(k.at).Seconds(); {
	case k.at.IsZero():
		k.left = most
	case since > 0: // a clock that was set back gives nothing and takes nothing
		k.left = min(k.left+since*r.Per, most)
	}
	k.at = now
	need := min(n, most)
	if k.left >= need {
		k.left -= n
		return 0
	}
	return max(time.Duration((need-k.left)/r.Per*float64(time.Second)), 1)
}
