package main

import (
	"slices"
	"time"

	"queen/bench/internal/message"
	"queen/engine"
	"queen/engine/format"
)

func (l *load) pop(wait time.Duration) (*engine.Delivery, error) {
	return l.e.Pop(l.ctx, caller, engine.PopRequest{Scope: engine.Scope{Queue: queue}, Group: group,
		Start: engine.Start{Kind: format.StartAll}, Batch: l.o.popBatch, Partitions: l.o.popPartitions, Wait: wait})
}

// register subscribes the group before there is a message.
func (l *load) register() error {
	d, err := l.pop(0)
	if d != nil {
		d.Abandon()
	}
	return err
}

// consume pops and acks every message with an ack of its own, and judges their order.
func (l *load) consume() {
	var acks []engine.Ack
	var ops []engine.Op
	var room []engine.Result
	for l.ctx.Err() == nil {
		d, err := l.pop(time.Second)
		if err != nil {
			if l.ctx.Err() == nil {
				l.fail("pop: %w", err)
			}
			return
		}
		if d == nil {
			continue
		}
		acks, ops = acks[:0], ops[:0]
		for m, err := range d.Messages() {
			if err != nil {
				l.fail("pop: %w", err)
				return
			}
			c := &d.Claims[m.Claim]
			l.judge(c, &m.Record)
			acks = append(acks, engine.Ack{Partition: c.PartitionID, Group: group, Lease: d.Lease,
				TransactionID: string(append([]byte(nil), m.TransactionID...)), Status: format.AckCompleted})
		}
		d.Delivered()
		l.popped.Add(int64(len(acks)))
		for i := range acks {
			ops = append(ops, &acks[i])
		}
		room = slices.Grow(room[:0], len(ops))
		results, err := l.e.Do(l.ctx, caller, engine.Batch{Ops: ops, Results: room})
		if err != nil {
			if l.ctx.Err() == nil {
				l.fail("ack: %w", err)
			}
			return
		}
		for i := range results {
			if results[i].Err != nil {
				l.fail("ack: %w", results[i].Err)
				return
			}
		}
		l.acked.Add(int64(len(results)))
	}
}

// judge checks that a message is the next of its partition, which only one consumer has at a time.
func (l *load) judge(c *engine.Claimed, m *engine.Record) {
	part, err := message.ParsePartition([]byte(c.Partition))
	if err != nil || part >= l.partitions {
		l.fail("a message of the partition %q was delivered", c.Partition)
		return
	}
	s, ok := message.ParseStamp(m.Payload)
	next := l.seen[part].Load()
	if !ok || s.N != uint64(m.Offset) || uint32(m.Offset) != next {
		l.fail("%s: offset %d came with message %d (%v), want %d", c.Partition, m.Offset, s.N, ok, next)
	}
	l.seen[part].Store(next + 1)
}
