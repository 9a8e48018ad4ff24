package main

import (
	"math/rand/v2"
	"slices"
	"time"

	"queen/bench/internal/message"
	"queen/engine"
)

// partitionNames makes all names once: producers share them.
func partitionNames(n int) []string {
	b := make([]byte, 0, n*message.NameBytes)
	for i := range n {
		b = message.AppendPartition(b, i)
	}
	text := string(b)
	out := make([]string, n)
	for i := range out {
		out[i] = text[i*message.NameBytes : (i+1)*message.NameBytes]
	}
	return out
}

// producer pushes batches to the partitions that are its own, so that it knows the offset of every message.
type producer struct {
	l      *load
	i, own int
	rng    *rand.Rand
	chosen []int // partitions of the next batch

	numbers  []uint32
	payloads []byte
	ids      []byte
	messages []engine.Message
	appends  []engine.Append
	ops      []engine.Op
	results  []engine.Result
}

func newProducer(l *load, i int) *producer {
	return &producer{l: l, i: i, own: (l.partitions - i + l.o.producers - 1) / l.o.producers,
		rng: rand.New(rand.NewPCG(l.run, uint64(i)))}
}

func (l *load) produce(i int) {
	p := newProducer(l, i)
	for !l.stopping.Load() && l.ctx.Err() == nil {
		if l.o.consumers > 0 && l.o.backlog > 0 && l.pushed.Load()-l.acked.Load() > l.o.backlog {
			l.sleep(time.Millisecond)
			continue
		}
		p.chosen = p.chosen[:0]
		for range l.o.batch {
			p.chosen = append(p.chosen, p.rng.IntN(p.own)*l.o.producers+p.i)
		}
		p.push()
	}
}

// push commits one batch and judges its answer.
func (p *producer) push() {
	p.build()
	start := time.Now()
	p.results = slices.Grow(p.results[:0], len(p.ops))
	results, err := p.l.e.Do(p.l.ctx, caller, engine.Batch{Ops: p.ops, Results: p.results})
	if err != nil {
		if p.l.ctx.Err() == nil {
			p.l.fail("push: %w", err)
		}
		return
	}
	p.l.latency.Add(time.Since(start))
	at := 0
	for i := range results {
		if results[i].Err != nil {
			p.l.fail("push: %w", results[i].Err)
			return
		}
		for _, m := range results[i].Messages {
			if m.Status != engine.Queued || uint32(m.Offset) != p.numbers[at] {
				p.l.fail("message %d of %s: status %d at offset %d", p.numbers[at], p.appends[i].Partition, m.Status, m.Offset)
				return
			}
			at++
		}
	}
	p.l.pushed.Add(int64(at))
}

// build turns the chosen partitions into one Append for each, the messages of a partition in order.
func (p *producer) build() {
	l := p.l
	slices.Sort(p.chosen)
	n := len(p.chosen)
	p.messages, p.appends = slices.Grow(p.messages[:0], n), slices.Grow(p.appends[:0], n)
	p.numbers, p.ops = p.numbers[:0], p.ops[:0]
	p.payloads, p.ids = slices.Grow(p.payloads[:0], n*l.o.size), p.ids[:0]
	at := time.Now().UnixMicro()
	for _, part := range p.chosen {
		p.ids = message.AppendID(p.ids, l.run, uint32(part), l.next[part])
		p.numbers = append(p.numbers, l.next[part])
		p.payloads = message.AppendPayload(p.payloads, l.o.size, l.next[part], at, p.rng.Uint64())
		l.next[part]++
	}
	ids := string(p.ids)
	for k, part := range p.chosen {
		p.messages = append(p.messages, engine.Message{TransactionID: ids[k*message.IDBytes : (k+1)*message.IDBytes],
			Payload: p.payloads[k*l.o.size : (k+1)*l.o.size]})
		if k == 0 || p.chosen[k-1] != part {
			p.appends = append(p.appends, engine.Append{Queue: queue, Partition: l.names[part]})
		}
		a := &p.appends[len(p.appends)-1]
		a.Messages = p.messages[k-len(a.Messages) : k+1]
	}
	for i := range p.appends {
		p.ops = append(p.ops, &p.appends[i])
	}
}
