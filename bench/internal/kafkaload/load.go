package kafkaload

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"queen/bench/internal/histo"
	"queen/bench/internal/procfs"
)

// Result is what a load measured in its counted time.
type Result struct {
	Elapsed            time.Duration
	Produced, Consumed uint64
	// Produce counts from the moment a batch was meant to leave to the answer of its last record, Arrival from there to
	// the delivery of each record.
	Produce, Arrival histo.Histogram
	Windows          []Window
	// Before is the broker's memory in bytes when counting began, After when it ended, Slope what it grew by a minute.
	Before, After int64
	Slope         float64
	Wire          Wire
	// Spent is the broker's, Loader this process's.
	Spent, Loader procfs.Reading
	Violations    []string
	// Repeats are records that a group got again; Left is what was produced and not consumed when the run ended.
	Repeats uint64
	Left    int64
}

// Wire is what the clients sent and read in the counted time.
type Wire struct {
	Produces, Batches, ProduceBytes   uint64
	Fetches, FetchBytes, FetchedBytes uint64
	// FetchTime is what consumers waited for answers; the rest of their time is their own.
	FetchTime time.Duration
}

// run is a load under way.
type run struct {
	o          Options
	id         uint64
	ctx        context.Context
	background context.Context // of records: they end with their client
	cancel     context.CancelCauseFunc

	produced, consumed     atomic.Uint64
	produceTimes, arrivals histo.Recorder
	flying                 atomic.Int64 // batches without an answer
	assigned               atomic.Int64 // partitions that the members of the group have
	wire                   wire
	judge                  judge

	next     []uint32 // by partition; each is its producer's
	start    time.Time
	stopping atomic.Bool
	stop     chan struct{} // closed when stopping is set
	closing  atomic.Bool   // errors of clients mean nothing any more
}

// Run carries a load out. An error says that it could not be; violations are in the result. The cause of ctx's end is
// its error.
func Run(ctx context.Context, o Options) (*Result, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Setup == 0 {
		o.Setup = 3 * time.Minute
	}
	r := &run{o: o, id: uint64(time.Now().UnixNano()), next: make([]uint32, o.Partitions), background: context.WithoutCancel(ctx),
		stop: make(chan struct{})}
	r.judge.run, r.judge.group, r.judge.next = r.id, o.Group != "", make([]atomic.Uint32, o.Partitions)
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	defer r.over()
	err := r.prepare()
	var out *Result
	if err == nil {
		out, err = r.carryOut()
	}
	if cause := r.err(); err != nil && cause != nil {
		err = cause // whoever waited was only told that the run is over
	}
	return out, err
}

// fail ends the run: the first error is its result.
func (r *run) fail(err error) {
	if !r.closing.Load() {
		r.cancel(err)
	}
}

// errOver is the cause of a run that came to its end.
var errOver = errors.New("kafkaload: the run is over")

// over ends the run where nothing went wrong.
func (r *run) over() { r.cancel(errOver) }

// err is why the run was ended early, nil while it goes on and when it came to its end.
func (r *run) err() error {
	if cause := context.Cause(r.ctx); cause != errOver {
		return cause
	}
	return nil
}

func (r *run) carryOut() (*Result, error) {
	var consumers []*consumer
	var producers []*producer
	var reading sync.WaitGroup
	defer func() {
		r.closing.Store(true)
		r.over()
		reading.Wait()
		for _, p := range producers {
			p.cl.Close()
		}
		for _, c := range consumers {
			c.cl.CloseAllowingRebalance()
		}
	}()
	for i := range r.o.Consumers {
		c, err := r.newConsumer(i)
		if err != nil {
			return nil, err
		}
		consumers = append(consumers, c)
		reading.Go(c.consume)
	}
	for i := range r.o.Producers {
		p, err := r.newProducer(i)
		if err != nil {
			return nil, err
		}
		producers = append(producers, p)
		if err := p.identify(); err != nil {
			return nil, err
		}
	}
	if err := r.setUp(producers); err != nil {
		return nil, err
	}
	meters, err := r.newMeters()
	if err != nil {
		return nil, err
	}
	first := r.moment(&meters)
	var writing sync.WaitGroup
	r.start = time.Now()
	for _, p := range producers {
		writing.Go(p.produce)
	}
	out, err := r.measure(&meters, first)
	r.stopping.Store(true)
	close(r.stop)
	writing.Wait()
	if err != nil {
		return nil, err
	}
	r.drain()
	if err := r.err(); err != nil {
		return nil, err
	}
	out.Left, out.Repeats, out.Violations = r.left(), r.judge.repeats.Load(), r.judge.violations.list()
	if n := r.flying.Load(); n > 0 {
		out.Violations = append(out.Violations, fmt.Sprintf("%d batches have no answer after %v", n, r.o.Drain))
	} else if out.Left != 0 && r.o.Consumers > 0 && !r.o.LeaveRest {
		out.Violations = append(out.Violations, fmt.Sprintf("%d records were produced and not consumed within %v after the last one",
			out.Left, r.o.Drain))
	}
	return out, nil
}

// setUp returns when the group has every partition and, if asked for, every partition had a record.
func (r *run) setUp(producers []*producer) error {
	if r.o.Group != "" && r.o.Consumers > 0 {
		if !r.wait(r.o.Setup, func() bool { return r.assigned.Load() == int64(r.o.Partitions) }) {
			return errors.Join(fmt.Errorf("kafkaload: the group has %d of %d partitions after %v", r.assigned.Load(),
				r.o.Partitions, r.o.Setup), r.err())
		}
	}
	if !r.o.Fill {
		return nil
	}
	var filling sync.WaitGroup
	for _, p := range producers {
		filling.Go(p.fill)
	}
	stuck := time.AfterFunc(r.o.Setup, func() { r.fail(fmt.Errorf("kafkaload: one record for every partition took more than %v", r.o.Setup)) })
	defer stuck.Stop()
	filling.Wait()
	if !r.wait(r.o.Setup, func() bool { return r.flying.Load() == 0 && r.left() == 0 }) && r.err() == nil {
		return fmt.Errorf("kafkaload: of one record for every partition %d are not consumed after %v", r.left(), r.o.Setup)
	}
	// What filling took is not counted.
	r.produceTimes.Take(&histo.Histogram{})
	r.arrivals.Take(&histo.Histogram{})
	return r.err()
}

// drain waits for the last answers and, unless the rest is left, for the consumers to take it.
func (r *run) drain() {
	if r.wait(r.o.Drain, func() bool { return r.flying.Load() == 0 }) && r.o.Consumers > 0 && !r.o.LeaveRest {
		r.wait(r.o.Drain, func() bool { return r.left() <= 0 })
	}
}

// wait is false when done was not within the limit or the run has ended.
func (r *run) wait(limit time.Duration, done func() bool) bool {
	for deadline := time.Now().Add(limit); !done(); {
		if r.ctx.Err() != nil || time.Now().After(deadline) {
			return false
		}
		pause(r.ctx, time.Millisecond)
	}
	return true
}

// left is what was answered and is not consumed; below zero while answers are behind deliveries.
func (r *run) left() int64 { return int64(r.produced.Load()) - int64(r.consumed.Load()) }

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
