package engine

import (
	"context"

	"github.com/zeebo/xxh3"

	"queen/engine/format"
	"queen/engine/machine"
)

// deliver renders what a pop claimed and settles, before the answer leaves, what it could not
// render: ranges that are gone are skipped, ranges cut by the byte budget are trimmed, ranges that
// can not be read are handed back (engine design section 3). It returns nil when nothing of the claim
// was deliverable, so that the caller pops again.
func (c *popCall) deliver(ctx context.Context, a *popAnswer) (*Delivery, error) {
	n := c.n
	d := rendering{call: c, answer: a, left: c.req.MaxBytes, reader: frameReader{n: n, group: c.group}}
	d.begin()
	for i := range a.result.Claims {
		if err := d.claim(&a.result.Claims[i], &d.spans[i]); err != nil {
			n.event("read", err)
			d.failed = err
			d.handBack(&a.result.Claims[i])
		}
	}
	if c.req.CommitOnDelivery {
		if c.isGone() || ctx.Err() != nil {
			c.handBackNow(a)
			return nil, errGone
		}
		d.commit()
	}
	if err := d.settle(ctx); err != nil {
		n.release(a.result.Lease, 0)
		return nil, err
	}
	if len(d.messages) == 0 {
		if d.failed != nil {
			e := errRead(d.failed)
			e.Message += "; what was claimed was handed back"
			return nil, e
		}
		return nil, nil
	}
	if !c.req.CommitOnDelivery && (c.isGone() || ctx.Err() != nil) {
		c.handBackNow(a)
		return nil, errGone
	}
	return d.delivery(), nil
}

// rendering is one pop's answer in the making.
type rendering struct {
	call     *popCall
	answer   *popAnswer
	reader   frameReader
	left     int64
	claims   []Claimed
	messages []Delivered
	ids      []deliveredClaim
	spans    []claimedSpan
	hashes   []xxh3.Uint128 // room for those of ids
	after    *submission    // Skip, TrimLease and Release commands
	back     []format.PartitionID
	failed   error
	tallied  int // of messages
}

// claimedSpan is what rendering has to know of a claimed partition.
type claimedSpan struct {
	machine.Span
	name string
	gone bool // deleted since: the lease went with it
}

// manyMessages bounds what is made ready at once for the messages of a claim; more are made room for as they come.
const manyMessages = 4096

// begin looks all claimed partitions up under one lock, and makes room for what they will give.
func (d *rendering) begin() {
	n, claims := d.call.n, d.answer.result.Claims
	d.spans = make([]claimedSpan, len(claims))
	var names []byte
	total := 0
	n.state.RLock()
	for i := range claims {
		s := &d.spans[i]
		at, ok := n.state.m.SpanOf(d.call.caller.Tenant, claims[i].Partition)
		s.Span, s.gone = at, !ok
		names = append(names, at.Name...)
		total += int(min(claims[i].End-claims[i].First-format.Offset(claims[i].Conflated), manyMessages))
	}
	n.state.RUnlock()
	for i := range d.spans {
		s := &d.spans[i]
		s.name = viewString(names[:len(s.Name):len(s.Name)])
		names = names[len(s.Name):]
	}
	total = min(total, manyMessages)
	d.messages = make([]Delivered, 0, total)
	d.claims = make([]Claimed, 0, len(claims))
	if !d.answer.result.Lease.IsZero() {
		d.ids, d.hashes = make([]deliveredClaim, 0, len(claims)), make([]xxh3.Uint128, 0, total)
	}
}

// claim renders one claimed range.
func (d *rendering) claim(cl *format.Claim, part *claimedSpan) error {
	if part.gone {
		return nil
	}
	if d.left <= 0 && len(d.messages) > 0 {
		d.handBack(cl)
		return nil
	}
	s := span{pid: cl.Partition, from: max(cl.First, part.Trim), to: cl.End, newest: cl.NewestRow, cutoff: part.Cutoff,
		ttl: int64(part.TTL), now: d.answer.header.W}
	// A conflating claim delivers its last message. Where that one is gone, so are those before it: what goes
	// by age and by trimming goes from the front.
	s.from = max(s.from, cl.First+format.Offset(cl.Conflated))
	at := len(d.claims)
	first := len(d.messages)
	lease := !d.answer.result.Lease.IsZero()
	ids := deliveredClaim{partition: cl.Partition, group: d.call.group, ids: d.hashes[len(d.hashes):]}
	take := func(rec *Record) bool {
		d.left -= int64(len(rec.Payload))
		d.messages = append(d.messages, Delivered{Record: *rec, Claim: at})
		if lease {
			ids.add(rec)
		}
		return true
	}
	d.reader.passed = false
	next, err := d.reader.read(s, d.left, first > 0, take)
	if err == nil && len(d.messages) == first && cl.Conflated > 0 {
		err = d.reader.lastBefore(&s, cl.First, take)
	}
	if err != nil {
		d.messages = d.messages[:first]
		return err
	}
	if next < cl.End {
		d.left = 0 // the answer is full: what comes after is handed back
	}
	if len(d.messages) == first {
		if next < cl.End {
			d.handBack(cl) // it has something, for which the answer has no room
			return nil
		}
		return d.skip(cl)
	}
	if part.Counts && lease {
		if moved, err := d.toHead(cl, &s, first); moved || err != nil {
			return err
		}
	}
	last := d.messages[len(d.messages)-1].Offset
	switch {
	case next < cl.End: // the byte budget cut the range
		d.trim(cl, last, last+1)
	case last+1 < cl.End: // the rest of it is gone
		d.trim(cl, last, cl.End)
	}
	d.claims = append(d.claims, Claimed{Queue: part.QueueName, Partition: part.name,
		PartitionID: cl.Partition, First: d.messages[first].Offset, Last: last, Attempt: cl.Attempt})
	if lease {
		d.keep(&ids)
	}
	return nil
}

// keep remembers the ids under which the messages of a claim go out.
func (d *rendering) keep(ids *deliveredClaim) {
	ids.judgeRepeats()
	d.ids = append(d.ids, *ids)
	if used := len(d.hashes) + len(ids.ids); used <= cap(d.hashes) {
		d.hashes = d.hashes[:used] // those of ids are there, or were moved elsewhere and this part stays unused
	}
}

// toHead moves the cursor to the first message when the range begins with ends of transactions, aborted or compacted records, or
// messages for another consumer group, where deliveries of the head are counted: what is given up in the end has to be that
// message. The partition is popped again.
func (d *rendering) toHead(cl *format.Claim, s *span, first int) (moved bool, err error) {
	head := d.messages[first].Offset
	if head == s.from || cl.Conflated > 0 {
		return false, nil
	}
	if thinned, err := d.call.n.isThinnedAt(s.pid, s.from, s.newest); err != nil || !thinned && !d.reader.passed {
		return false, err
	}
	d.messages = d.messages[:first]
	d.commands().AddSkip(&format.Skip{Lease: d.answer.result.Lease, Partition: cl.Partition, Upto: head})
	return true, nil
}

func (d *rendering) commands() *format.CommandBuf {
	if d.after == nil {
		d.after = newSubmission(consumption)
	}
	return d.after.buf
}

// skip moves the cursor over a range of which nothing is left, and over all that is gone behind it: a
// small batch must not creep through what retention removed.
func (d *rendering) skip(cl *format.Claim) error {
	n := d.call.n
	lease := d.answer.result.Lease
	part, ok := n.partByID(d.call.caller.Tenant, cl.Partition)
	if lease.IsZero() || !ok {
		return nil
	}
	start, err := n.logStart(&part)
	if err == nil {
		start, err = n.deliverableFrom(&part, start, d.answer.header.W)
	}
	if err != nil {
		return err
	}
	upto, err := n.pastUndelivered(&part, max(start, cl.End), d.call.group)
	if err != nil {
		return err
	}
	d.commands().AddSkip(&format.Skip{Lease: lease, Partition: cl.Partition, Upto: upto})
	return nil
}

func (d *rendering) trim(cl *format.Claim, last, end format.Offset) {
	if lease := d.answer.result.Lease; !lease.IsZero() {
		d.commands().AddTrimLease(&format.TrimLease{Lease: lease, Partition: cl.Partition, LastDelivered: last, NewEnd: end})
	}
}

// handBack returns a range uncounted, in one command with all others so that they keep their order.
func (d *rendering) handBack(cl *format.Claim) { d.back = append(d.back, cl.Partition) }

// commit completes what was rendered, before the answer leaves: at most once (S-amo-1). The claim
// itself was made under a lease, so that what did not fit, could not be read or met a caller that was
// gone already is handed back instead of lost.
func (d *rendering) commit() {
	for i := range d.claims {
		c := &d.claims[i]
		c.Attempt = 1
		d.commands().AddAck(&format.Ack{Partition: c.PartitionID, Group: viewBytes(d.call.group), Lease: d.answer.result.Lease,
			Runs: []format.AckRun{{First: c.First, Count: uint32(c.Last - c.First + 1), Status: format.AckCompleted}}})
	}
}

// settle makes the skips, trims and hand-backs durable before the answer leaves. With an unknown
// outcome there is no answer.
func (d *rendering) settle(ctx context.Context) *Error {
	if lease := d.answer.result.Lease; len(d.back) > 0 && !lease.IsZero() {
		d.commands().AddRelease(&format.Release{Lease: lease, Partitions: d.back})
	}
	if d.after == nil {
		return nil
	}
	return d.call.n.commit(ctx, d.after)
}

func (d *rendering) delivery() *Delivery {
	c, n := d.call, d.call.n
	out := Delivery{Group: c.group, Claims: d.claims, Chosen: c.chosen,
		Conflate: d.answer.result.Conflate || c.conflates, Conflict: d.answer.result.Conflict || c.conflicts}
	if out.Chosen.Set {
		out.Chosen.Partitions, out.Chosen.Batch = int(c.cmd.Partitions), int(c.cmd.Batch)
		if c.req.Partitions == 0 {
			out.Chosen.Partitions = len(d.claims) // those that were ready, up to 64
		}
	}
	lease := d.answer.result.Lease
	var bytes uint64
	for i := range d.messages {
		bytes += uint64(len(d.messages[i].Payload))
	}
	n.counters.claims.Add(uint64(len(d.claims)))
	n.counters.deliveredMessages.Add(uint64(len(d.messages)))
	n.counters.deliveredBytes.Add(bytes)
	d.tally()
	if c.req.CommitOnDelivery {
		lease = format.UUID{}
	}
	if !lease.IsZero() {
		out.Lease = lease.String()
		n.delivered.add(c.caller.Tenant, lease, d.ids)
	}
	messages := d.messages
	return NewDelivery(out, func(yield func(Delivered, error) bool) {
		for i := range messages {
			if !yield(messages[i], nil) {
				return
			}
		}
	}, func(delivered bool) {
		if !delivered && !lease.IsZero() {
			n.release(lease, 0)
		}
	})
}

// add remembers the id under which a message was handed out.
func (c *deliveredClaim) add(rec *Record) {
	k := len(c.ids)
	if k == 0 {
		c.first = rec.Offset
	}
	if c.offsets == nil && rec.Offset != c.first+format.Offset(k) {
		for i := range k {
			c.offsets = append(c.offsets, c.first+format.Offset(i))
		}
	}
	if c.offsets != nil {
		c.offsets = append(c.offsets, rec.Offset)
	}
	c.ids = append(c.ids, hashDelivered(rec.TransactionID))
}
