package machine

import (
	"slices"

	"queen/engine/format"
)

// live says that the lease is in force: neither ended nor out of time, fired or not.
func (l *leaseRec) live(t format.Mono) bool { return l.flags&leaseLive != 0 && t < l.expiry }

// seen is the one message of a conflating claim of [next, end) that was handed out: the last, unless what stood behind
// it can not be delivered.
func (l *leaseRec) seen(next, end format.Offset) format.Offset {
	if l.delivered > next && l.delivered <= end {
		return l.delivered - 1
	}
	return end - 1
}

// grant puts a cursor under the Pop's lease and returns the attempt number of this delivery.
func (r *popRun) grant(g *group, ch handle, next, end format.Offset, stamp uint64) uint32 {
	m := r.m
	lh, l := m.touchLease(ch)
	if l == nil {
		return 0
	}
	if l.attempts > 0 && l.first == next {
		l.attempts++
	} else {
		l.attempts = 1
	}
	length := format.Mono(r.cmd.Lease)
	if length <= 0 {
		length = format.Mono(seconds(max(g.queue.opts.LeaseTime, 1)))
	}
	l.id, l.first, l.end = r.lease, next, end
	l.expiry = m.t + min(length, maxSeconds*1_000_000)
	l.stamp, l.delivered, l.notBefore = stamp, 0, 0
	l.flags = leaseLive
	m.setWorker(l, r.cmd.Worker)
	l.chain = 0
	if r.tail == 0 {
		m.indexLease(lh, l)
	} else {
		m.leases.Touch(r.tail).chain = lh
	}
	r.tail = lh
	if r.res.Expiry == 0 || l.expiry < r.res.Expiry {
		r.res.Expiry = l.expiry
	}
	m.liveLeases++
	g.leases++
	m.soilGroup(g)
	m.arm(lh, l)
	return l.attempts
}

// touchLease returns the lease record of a cursor for writing, making it when absent.
func (m *Machine) touchLease(ch handle) (handle, *leaseRec) {
	if lh := m.cursors.Get(ch).lease; lh != 0 {
		return lh, m.leases.Touch(lh)
	}
	lh, l := m.leases.Alloc()
	if lh != 0 {
		l.cursor = ch
		m.cursors.Touch(ch).lease = lh
	}
	return lh, l
}

// setWorker keeps the worker's name for listings, cut to what the arena takes.
func (m *Machine) setWorker(l *leaseRec, name []byte) {
	if l.worker != 0 {
		if string(m.names.Get(l.worker)) == string(name) {
			return
		}
		m.names.Free(l.worker)
		l.worker = 0
	}
	if len(name) == 0 {
		return
	}
	if ref, err := m.names.Put(name[:min(len(name), format.NameBudget)]); err == nil {
		l.worker = ref
	}
}

func (m *Machine) indexLease(lh handle, l *leaseRec) {
	m.leaseIndex.Insert(m.leaseIndex.Hash(l.id[:]), lh)
}

// leaseChain finds the first record of a lease.
func (m *Machine) leaseChain(id *format.UUID) handle {
	return m.leaseIndex.Find(m.leaseIndex.Hash(id[:]), func(h handle) bool { return m.leases.Get(h).id == *id })
}

// endLease takes a record out of its lease's chain. Attempts and failures stay.
func (m *Machine) endLease(lh handle) {
	l := m.leases.Touch(lh)
	if l.flags&leaseLive == 0 {
		return
	}
	first := m.leaseChain(&l.id)
	if first == lh {
		m.leaseIndex.Delete(m.leaseIndex.Hash(l.id[:]), lh)
		if l.chain != 0 {
			m.indexLease(l.chain, m.leases.Get(l.chain))
		}
	} else {
		at := first
		for m.leases.Get(at).chain != lh {
			at = m.leases.Get(at).chain
		}
		m.leases.Touch(at).chain = l.chain
	}
	l.chain, l.flags = 0, 0
	m.liveLeases--
	if g := m.groupOf(m.cursors.Get(l.cursor)); g != nil {
		g.leases--
		m.soilGroup(g)
	}
}

// arm sets the one timer of a lease record: expiry or end of back-off.
func (m *Machine) arm(lh handle, l *leaseRec) {
	switch {
	case l.flags&leaseLive != 0:
		m.timers.Add(int64(l.expiry), lh, 0)
	case l.notBefore != 0:
		m.timers.Add(int64(l.notBefore), lh, 0)
	default:
		m.timers.Cancel(lh, 0)
	}
}

// tidy frees a lease record that has nothing left to remember, else sets its timer. What it keeps:
// possession, back-off, failures charged, and what was delivered and not yet acked, with the deliveries of
// its head.
func (m *Machine) tidy(lh handle) {
	l := m.leases.Get(lh)
	c := m.cursors.Get(l.cursor)
	switch {
	case l.flags&leaseLive != 0, l.notBefore != 0, l.retries > 0, l.end > c.next:
		m.arm(lh, l)
	default:
		m.freeLease(lh)
	}
}

// freeLease removes a lease record; 0 is none.
func (m *Machine) freeLease(lh handle) {
	if lh == 0 {
		return
	}
	m.endLease(lh)
	m.timers.Cancel(lh, 0)
	l := m.leases.Get(lh)
	if l.worker != 0 {
		m.names.Free(l.worker)
	}
	m.cursors.Touch(l.cursor).lease = 0
	m.leases.Free(lh)
}

// leaseDue handles a lease record's timer.
func (m *Machine) leaseDue(lh handle) {
	l := m.leases.Touch(lh)
	ch := l.cursor
	g := m.groupOf(m.cursors.Get(ch))
	if g == nil {
		m.freeLease(lh) // of a deleted group or an older generation
		return
	}
	m.lapse(g, ch)
	if l.notBefore != 0 && l.notBefore <= m.t {
		l.notBefore = 0
	}
	m.settle(g, ch)
	m.tidy(lh)
}

// lapse ends a lease that is out of time. The attempt counts, the budget does not move (S-lease-2, 3).
func (m *Machine) lapse(g *group, ch handle) {
	lh := m.cursors.Get(ch).lease
	if lh == 0 {
		return
	}
	if l := m.leases.Get(lh); l.flags&leaseLive != 0 && m.t >= l.expiry {
		m.endLease(lh)
		m.arm(lh, l)
	}
}

// moveHead sets where a cursor stands; deliveries of the old head no longer count (S-lease-7).
func (m *Machine) moveHead(ch handle, next format.Offset) {
	c := m.cursors.Touch(ch)
	if c.next == next {
		return
	}
	c.next = next
	c.setEpoch(format.NoLeaderEpoch)
	if c.lease != 0 {
		m.leases.Touch(c.lease).attempts = 0
	}
}

// clearBudget forgets failures and deliveries and frees the record if nothing is left (S-dlq-7).
func (m *Machine) clearBudget(ch handle) {
	if lh := m.cursors.Get(ch).lease; lh != 0 {
		l := m.leases.Touch(lh)
		l.retries, l.attempts = 0, 0
		m.tidy(lh)
	}
}

// applyExtend renews every live partition of a lease (S-lease-4).
func (m *Machine) applyExtend(c *format.Extend, res *format.ExtendResult) format.Code {
	for lh := m.leaseChain(&c.Lease); lh != 0; lh = m.leases.Get(lh).chain {
		if !m.held(lh) {
			continue
		}
		l := m.leases.Touch(lh)
		l.expiry = max(l.expiry, m.t+min(max(format.Mono(c.For), 0), maxSeconds*1_000_000))
		m.arm(lh, l)
		if res.Renewed++; res.Renewed == 1 || l.expiry < res.Expiry {
			res.Expiry = l.expiry
		}
	}
	if res.Renewed == 0 {
		return format.CodeLeaseInvalid
	}
	return format.CodeOK
}

// held says that a record is a lease in force of a group that still is.
func (m *Machine) held(lh handle) bool {
	l := m.leases.Get(lh)
	return l.live(m.t) && m.groupOf(m.cursors.Get(l.cursor)) != nil
}

// heldOn finds the record of a live lease on one partition; 0 when there is none.
func (m *Machine) heldOn(id *format.UUID, part format.PartitionID) handle {
	for lh := m.leaseChain(id); lh != 0; lh = m.leases.Get(lh).chain {
		l := m.leases.Get(lh)
		if m.parts.Get(m.cursors.Get(l.cursor).part).id == part {
			if m.held(lh) {
				return lh
			}
			return 0
		}
	}
	return 0
}

// touchedYet says that something of a live range was acked already.
func (m *Machine) touchedYet(l *leaseRec) bool {
	return l.flags&leaseAcked != 0 || m.cursors.Get(l.cursor).next != l.first
}

// applyRelease hands untouched claims back, uncounted and to their old place in the FIFO (S-pop-12): the
// last one claimed first, so that equals keep their order.
func (m *Machine) applyRelease(c *format.Release, n *format.CountResult) format.Code {
	partial := false
	one := func(lh handle) {
		n.Existed = true
		if l := m.leases.Get(lh); m.touchedYet(l) {
			partial = true
			return
		}
		m.handBack(lh)
		n.Rows++
	}
	if len(c.Partitions) == 0 {
		var chain [partitionsMax]handle
		all := chain[:0]
		for lh := m.leaseChain(&c.Lease); lh != 0; lh = m.leases.Get(lh).chain {
			all = append(all, lh)
		}
		for _, lh := range slices.Backward(all) {
			if m.held(lh) {
				one(lh)
			}
		}
	}
	for _, id := range slices.Backward(c.Partitions) {
		if lh := m.heldOn(&c.Lease, id); lh != 0 {
			one(lh)
		}
	}
	if partial {
		return format.CodePartial
	}
	return format.CodeOK
}

func (m *Machine) handBack(lh handle) {
	l := m.leases.Touch(lh)
	ch, stamp := l.cursor, l.stamp
	g := m.groupOf(m.cursors.Get(ch))
	m.endLease(lh)
	l.delivered = 0
	if l.attempts--; l.attempts == 0 {
		l.end = l.first
	}
	m.judge(g.queue, m.cursors.Get(ch).part)
	if m.claimable(g.queue, m.cursors.Get(ch)) {
		m.enqueueAgain(g, ch, stamp)
	}
	m.tidy(lh)
}

// applySkip moves a lease of which nothing was delivered past offsets that can not be delivered; it
// is not an ack, and the lease ends.
func (m *Machine) applySkip(c *format.Skip, n *format.CountResult) format.Code {
	lh := m.heldOn(&c.Lease, c.Partition)
	if lh == 0 {
		return format.CodeLeaseInvalid
	}
	l := m.leases.Touch(lh)
	if l.delivered != 0 || m.touchedYet(l) {
		return format.CodePartial
	}
	cur := m.cursors.Get(l.cursor)
	if p := m.parts.Get(cur.part); c.Upto <= cur.next || c.Upto > p.next {
		return format.CodeUnresolvable
	}
	ch, stamp := l.cursor, l.stamp
	g := m.groupOf(cur)
	n.Rows, n.Existed = uint64(c.Upto-cur.next), true
	m.endLease(lh)
	m.moveHead(ch, c.Upto)
	l.end = 0
	m.judge(g.queue, cur.part)
	if m.claimable(g.queue, cur) {
		m.enqueueAgain(g, ch, stamp)
	}
	m.tidy(lh)
	return format.CodeOK
}

// applyTrimLease shrinks a lease to what was rendered; an ack that reaches LastDelivered completes it.
func (m *Machine) applyTrimLease(c *format.TrimLease, n *format.CountResult) format.Code {
	lh := m.heldOn(&c.Lease, c.Partition)
	if lh == 0 {
		return format.CodeLeaseInvalid
	}
	l := m.leases.Touch(lh)
	next := m.cursors.Get(l.cursor).next
	if c.NewEnd > l.end || c.LastDelivered >= c.NewEnd || c.NewEnd <= next {
		return format.CodeUnresolvable
	}
	n.Rows, n.Existed = uint64(l.end-c.NewEnd), true
	l.end, l.delivered = c.NewEnd, c.LastDelivered+1
	return format.CodeOK
}
