package kafkaload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// producer writes to the partitions that are its own: those whose number leaves its own when divided by the number of
// producers.
type producer struct {
	r    *run
	i    int
	own  int // partitions
	cl   *kgo.Client
	rng  *rand.Rand
	free chan *batch // what is not in flight
}

// batch is up to Options.Batch records, for one partition except while filling; it is used again once all are answered.
type batch struct {
	p       *producer
	records []kgo.Record
	values  []byte
	n       int
	due     time.Time
	open    atomic.Int32 // records without an answer
	failed  atomic.Bool
}

func (r *run) newProducer(i int) (*producer, error) {
	batches := r.o.InFlight / r.o.Batch / r.o.Producers
	size := r.o.batchBytes()
	if r.o.Merge {
		size = batchBytesMax
	}
	cl, err := r.client(fmt.Sprintf("producer-%d", i), kgo.ProducerBatchMaxBytes(size), kgo.DefaultProduceTopic(r.o.Topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchCompression(kgo.Lz4Compression()), kgo.ProducerLinger(r.o.Linger),
		// Batches are what bounds it: Produce itself never waits.
		kgo.MaxBufferedRecords(batches*r.o.Batch+1))
	if err != nil {
		return nil, err
	}
	p := &producer{r: r, i: i, own: (r.o.Partitions - i + r.o.Producers - 1) / r.o.Producers, cl: cl,
		rng: rand.New(rand.NewPCG(r.id, uint64(i))), free: make(chan *batch, batches)}
	for range batches {
		p.free <- &batch{p: p, records: make([]kgo.Record, r.o.Batch), values: make([]byte, 0, r.o.Batch*r.o.Size)}
	}
	return p, nil
}

// identify gets the client its identity. A client that is given none writes without one and says nothing, and would be
// measured as what it is not.
func (p *producer) identify() error {
	ctx, cancel := context.WithTimeout(p.r.ctx, p.r.o.Setup)
	defer cancel()
	id, _, err := p.cl.ProducerID(ctx)
	if err != nil {
		return fmt.Errorf("kafkaload: identity of a producer: %w", err)
	}
	if id < 0 {
		return errors.New("kafkaload: the broker gives producers no identity")
	}
	return nil
}

func (p *producer) over() bool { return p.r.stopping.Load() || p.r.ctx.Err() != nil }

// produce writes until the run stops.
func (p *producer) produce() {
	if p.r.o.Rate > 0 {
		p.paced()
		return
	}
	for !p.over() {
		if p.r.o.Backlog > 0 && p.r.o.Consumers > 0 && p.r.left() > p.r.o.Backlog {
			pause(p.r.ctx, time.Millisecond)
			continue
		}
		b := p.take()
		if b == nil {
			return
		}
		p.send(b, p.rng.IntN(p.own), 0, p.r.o.Batch, time.Now())
	}
}

// paced writes at the moments of a schedule, those of the producers one after another.
func (p *producer) paced() {
	o := &p.r.o
	step := time.Duration(float64(o.Batch*o.Producers) / o.Rate * float64(time.Second))
	due := p.r.start.Add(step * time.Duration(p.i) / time.Duration(o.Producers))
	for ; !p.over(); due = due.Add(step) {
		pause(p.r.ctx, time.Until(due))
		b := p.take()
		if b == nil || p.over() {
			return
		}
		at := due
		if o.FromSend {
			at = time.Now()
		}
		p.send(b, p.rng.IntN(p.own), 0, o.Batch, at)
	}
}

// fill writes one record to each of its partitions.
func (p *producer) fill() {
	for own := 0; own < p.own; own += p.r.o.Batch {
		b := p.take()
		if b == nil {
			return
		}
		p.send(b, own, 1, min(p.r.o.Batch, p.own-own), time.Now())
	}
}

// take waits for a batch that is not in flight; nil when the run is over.
func (p *producer) take() *batch {
	select {
	case b := <-p.free:
		return b
	case <-p.r.ctx.Done():
	case <-p.r.stop:
	}
	return nil
}

// send hands n records to the client, whose latency counts from due: all for one partition with step 0, one for each of n partitions
// with step 1.
func (p *producer) send(b *batch, own, step, n int, due time.Time) {
	b.n, b.due, b.values = n, due, b.values[:0]
	b.open.Store(int32(n))
	p.r.flying.Add(1)
	s := stamp{run: p.r.id, at: due.UnixNano()}
	for k := range n {
		partition := (own+k*step)*p.r.o.Producers + p.i
		s.partition, s.number = uint32(partition), p.r.next[partition]
		p.r.next[partition]++
		from := len(b.values)
		b.values = appendValue(b.values, p.r.o.Size, s, p.rng.Uint64())
		b.records[k] = kgo.Record{Partition: int32(partition), Value: b.values[from:len(b.values):len(b.values)]}
		p.cl.Produce(p.r.background, &b.records[k], b.answered)
	}
}

// answered is called by the client for every record.
func (b *batch) answered(rec *kgo.Record, err error) {
	r := b.p.r
	if err != nil {
		b.failed.Store(true)
		r.fail(fmt.Errorf("kafkaload: produce to partition %d: %w", rec.Partition, err))
	} else if s, _ := parseStamp(rec.Value); int64(s.number) != rec.Offset {
		r.judge.violations.add("partition %d: record %d was answered with offset %d", rec.Partition, s.number, rec.Offset)
	}
	if b.open.Add(-1) > 0 {
		return
	}
	r.flying.Add(-1)
	if b.failed.Load() {
		return // the run ends, and the numbers of this batch are not used again
	}
	r.produceTimes.Add(time.Since(b.due))
	r.produced.Add(uint64(b.n))
	b.p.free <- b
}
