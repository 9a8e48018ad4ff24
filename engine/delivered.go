package engine

import (
	"maps"
	"math/bits"
	"slices"
	"sync"

	"github.com/zeebo/xxh3"

	"queen/engine/format"
)

// delivered remembers, node-locally and bounded, which ids a lease handed out, so that acks by
// transactionId become offsets without reading the log. It is a cache: what it forgot is found
// through the leased range (engine design section 7).
type delivered struct {
	limit int64

	mu struct {
		sync.Mutex
		leases map[format.UUID]*deliveredLease
		order  []format.UUID // oldest first; entries whose lease is gone are skipped
		bytes  int64
	}
}

type deliveredLease struct {
	tenant format.Tenant
	claims []deliveredClaim
	bytes  int64
}

// deliveredClaim holds one id hash per delivered message. Offsets are first + position unless the
// claim has gaps, which deliveredClaim.offsets then lists.
type deliveredClaim struct {
	partition format.PartitionID
	group     string
	first     format.Offset
	offsets   []format.Offset
	ids       []xxh3.Uint128
	repeats   bool // some id stands more than once
}

func newDelivered(limit int64) *delivered {
	d := &delivered{limit: limit}
	d.mu.leases = map[format.UUID]*deliveredLease{}
	return d
}

func hashDelivered(id string) xxh3.Uint128 { return xxh3.HashString128(id) }

// add remembers what a lease handed out and forgets the oldest leases above the limit.
func (d *delivered) add(t format.Tenant, lease format.UUID, claims []deliveredClaim) {
	l := &deliveredLease{tenant: t, claims: claims, bytes: 128}
	for i := range claims {
		l.bytes += 96 + int64(len(claims[i].ids))*16 + int64(len(claims[i].offsets))*8
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.leases[lease] = l
	d.mu.order = append(d.mu.order, lease)
	d.mu.bytes += l.bytes
	for d.mu.bytes > d.limit && len(d.mu.order) > 1 {
		d.dropLocked(d.mu.order[0])
		d.mu.order = d.mu.order[1:]
	}
	if len(d.mu.order) > 64 && len(d.mu.order) > 4*len(d.mu.leases) {
		kept := d.mu.order[:0]
		for _, id := range d.mu.order {
			if d.mu.leases[id] != nil {
				kept = append(kept, id)
			}
		}
		d.mu.order = kept
	}
}

func (d *delivered) dropLocked(lease format.UUID) {
	if l := d.mu.leases[lease]; l != nil {
		d.mu.bytes -= l.bytes
		delete(d.mu.leases, lease)
	}
}

// leaseReader reads what one lease after another handed out, in the order in which it did: acks come like that. It is
// used by one call.
type leaseReader struct {
	id     format.UUID
	looked bool            // of is that of id, nil when there is none
	of     *deliveredLease // never changes once it is in the table
	claim  int             // where the item before was found
	at     int             // one past it
}

// next finds the message after the one found before, or the first one of the claim after that one's; false when the id is
// not there, or stands twice, and has to be looked for.
func (r *leaseReader) next(d *delivered, t format.Tenant, g *ackKey, id string) (format.Offset, bool) {
	if !r.looked || r.id != g.lease {
		d.mu.Lock()
		*r = leaseReader{id: g.lease, looked: true, of: d.mu.leases[g.lease]}
		d.mu.Unlock()
	}
	if r.of == nil || r.of.tenant != t || !r.seek(g.partition) {
		return 0, false
	}
	c := &r.of.claims[r.claim]
	if c.repeats || r.at >= len(c.ids) || c.ids[r.at] != hashDelivered(id) {
		return 0, false
	}
	r.at++
	return c.offset(r.at - 1), true
}

// seek goes to the claim of a partition, which is most often the same or the next one.
func (r *leaseReader) seek(pid format.PartitionID) bool {
	claims := r.of.claims
	for i := r.claim; i < len(claims) && i < r.claim+2; i++ {
		if claims[i].partition == pid {
			if i != r.claim {
				r.claim, r.at = i, 0
			}
			return true
		}
	}
	for i := range claims {
		if claims[i].partition == pid {
			r.claim, r.at = i, 0
			return true
		}
	}
	return false
}

// find looks an id up in what the lease handed out for a partition. An id that stands there more than
// once resolves to the lowest offset that is open (at or above the cursor) and not yet named by this
// call, else to the lowest; open is asked only then.
func (d *delivered) find(t format.Tenant, lease format.UUID, pid format.PartitionID, id string, open func(format.Offset) bool) (format.Offset, bool) {
	h := hashDelivered(id)
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.mu.leases[lease]
	if l == nil || l.tenant != t {
		return 0, false
	}
	for i := range l.claims {
		if c := &l.claims[i]; c.partition == pid {
			return c.find(h, open)
		}
	}
	return 0, false
}

func (c *deliveredClaim) find(h xxh3.Uint128, open func(format.Offset) bool) (format.Offset, bool) {
	first := slices.Index(c.ids, h)
	if first < 0 {
		return 0, false
	}
	if !c.repeats {
		return c.offset(first), true
	}
	for k := first; k < len(c.ids); k++ {
		if c.ids[k] == h && open(c.offset(k)) {
			return c.offset(k), true
		}
	}
	return c.offset(first), true
}

// judgeRepeats notes whether some id stands more than once. The ids are hashes, so that a table of them needs none.
func (c *deliveredClaim) judgeRepeats() {
	n := len(c.ids)
	if n <= 16 {
		for i := 1; i < n && !c.repeats; i++ {
			c.repeats = slices.Contains(c.ids[:i], c.ids[i])
		}
		return
	}
	mask := uint64(1)<<bits.Len(uint(2*n)) - 1
	table := make([]int32, mask+1)
	for i, id := range c.ids {
		at := id.Lo & mask
		for ; table[at] != 0; at = (at + 1) & mask {
			if c.ids[table[at]-1] == id {
				c.repeats = true
				return
			}
		}
		table[at] = int32(i + 1)
	}
}

func (c *deliveredClaim) offset(k int) format.Offset {
	if c.offsets != nil {
		return c.offsets[k]
	}
	return c.first + format.Offset(k)
}

// forget lets go of what it holds for leases that are over, when the node falls idle: while it is busy the newest
// ones are kept up to the limit, since repeated acks name them too.
func (d *delivered) forget(held func(lease format.UUID) bool) {
	d.mu.Lock()
	all := slices.Collect(maps.Keys(d.mu.leases))
	d.mu.Unlock()
	over := all[:0]
	for _, id := range all {
		if !held(id) {
			over = append(over, id)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range over {
		d.dropLocked(id)
	}
	// A map does not shrink, so the few that are left move to another one.
	leases := make(map[format.UUID]*deliveredLease, len(d.mu.leases))
	order := make([]format.UUID, 0, len(d.mu.leases))
	for _, id := range d.mu.order {
		if l := d.mu.leases[id]; l != nil {
			leases[id], order = l, append(order, id)
		}
	}
	d.mu.leases, d.mu.order = leases, order
}
