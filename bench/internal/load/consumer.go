package load

import (
	"fmt"
	"sync/atomic"
	"time"

	"queen/bench/internal/client"
	"queen/bench/internal/message"
)

// consume pops and acks until the run ends.
func (r *run) consume(i int) {
	c, err := r.o.Target.Consumer(&r.o, i)
	if err != nil {
		r.fail(fmt.Errorf("load: consumer %d: %w", i, err))
		return
	}
	defer c.Close()
	var d client.Delivery
	var late []time.Duration
	for r.ctx.Err() == nil {
		r.pops.Add(1)
		a, err := c.Pop(&d)
		switch {
		case err != nil:
			if r.ctx.Err() == nil && r.unanswered.Add(1) > maxUnanswered {
				r.fail(fmt.Errorf("load: pops stay unanswered: %w", err))
			}
			pause(r.ctx, time.Millisecond)
			continue
		case a.Refused != nil:
			r.fail(fmt.Errorf("load: pop: %w", a.Refused))
			return
		case a.Later:
			r.refused.Add(1)
			pause(r.ctx, max(a.Wait, time.Millisecond))
			continue
		case len(d.Messages) == 0:
			r.empty.Add(1)
			continue
		}
		r.popped.Add(uint64(len(d.Messages)))
		late = r.judge.delivery(&d, late[:0])
		r.arrivals.AddAll(late)
		if !r.ack(c, len(d.Messages)) {
			return
		}
	}
}

// ack completes the n messages of a delivery with an item for each.
func (r *run) ack(c Consumer, n int) bool {
	for {
		r.ackings.Add(1)
		a, err := c.Ack()
		switch {
		case err != nil:
			// The messages come again when the lease has run out.
			r.judge.lostAck.Store(true)
			return r.ctx.Err() == nil && r.unanswered.Add(1) <= maxUnanswered
		case a.Refused != nil:
			r.fail(fmt.Errorf("load: ack: %w", a.Refused))
			return false
		case a.Later:
			r.refused.Add(1)
			pause(r.ctx, max(a.Wait, time.Millisecond))
			if r.ctx.Err() != nil {
				return false
			}
			continue
		}
		r.acked.Add(uint64(a.Acked))
		if a.Acked != n {
			r.judge.lostAck.Store(true)
			r.violations.add("%d of %d acks under a live lease were not carried out: %.300s", n-a.Acked, n, a.Text)
		}
		return true
	}
}

// judge follows every partition of the queue: which offset has to come next. A partition is leased to one consumer at a
// time, so that its deliveries are judged in their order.
type judge struct {
	run  *run
	next []atomic.Uint32 // by number of the partition
	// lostAck is set once an ack was not carried out for certain: from then on messages may come again.
	lostAck atomic.Bool
}

// delivery judges the order of a delivery and appends how long each message was on its way.
func (j *judge) delivery(d *client.Delivery, late []time.Duration) []time.Duration {
	now := time.Now().UnixMicro()
	for from := 0; from < len(d.Messages); {
		to := from + 1
		for to < len(d.Messages) && string(d.Messages[to].PartitionID) == string(d.Messages[from].PartitionID) {
			to++
		}
		late = j.claim(d.Messages[from:to], now, late)
		from = to
	}
	return late
}

// claim judges the messages of one partition.
func (j *judge) claim(ms []client.Message, now int64, late []time.Duration) []time.Duration {
	v := &j.run.violations
	part, err := message.ParsePartition(ms[0].Partition)
	if err != nil || part >= len(j.next) {
		v.add("a message of the partition %q was delivered, which is not ours", ms[0].Partition)
		return late
	}
	next := uint64(j.next[part].Load())
	for i := range ms {
		m := &ms[i]
		s, ok := message.ParseStamp(m.Data)
		if !ok {
			v.add("a message of %s is not ours: %.100s", m.Partition, m.Data)
			continue
		}
		late = append(late, time.Duration(now-s.At)*time.Microsecond)
		if j.run.o.Unordered {
			if m.Attempt > 1 {
				j.run.redelivered.Add(1)
			}
			continue
		}
		switch {
		case s.N != m.Offset:
			v.add("message %d of %s has offset %d", s.N, m.Partition, m.Offset)
		case m.Offset > next:
			v.add("%s went on at %d after %d: a gap", m.Partition, m.Offset, next)
		case m.Offset < next:
			j.run.redelivered.Add(1)
			if m.Attempt < 2 && !j.lostAck.Load() {
				v.add("%s: message %d came again as its first delivery", m.Partition, m.Offset)
			}
		}
		next = max(next, m.Offset+1)
	}
	j.next[part].Store(uint32(next))
	return late
}
