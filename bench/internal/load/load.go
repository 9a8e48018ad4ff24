package load

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"queen/bench/internal/histo"
	"queen/bench/internal/procfs"
)

// Result is what a load measured in its counted time.
type Result struct {
	Elapsed               time.Duration
	Pushed, Popped, Acked uint64
	// Push counts from the intended send time to the answer, Arrival from there to the delivery of the message.
	Push, Arrival histo.Histogram
	Windows       []Window
	Counts        Counts
	// Spent is the node's, Loader this process's.
	Spent, Loader procfs.Reading
	Violations    []string
	// Left is what was pushed and not acked when the run ended.
	Left int64
}

// Counts are events of the whole run, warm-up included.
type Counts struct {
	// Refused pushes were answered 429 or 507 and sent again; Unanswered ones got no answer, and were sent again.
	Refused, Unanswered uint64
	// Duplicates are messages answered as duplicates, Redelivered those that came again, Empty the pops without any.
	Duplicates, Redelivered, Empty uint64
	Pushes, Pops, Acks             uint64
}

// run is a load under way.
type run struct {
	o   Options
	id  uint64
	ctx context.Context

	pushed, popped, acked        atomic.Uint64
	refused, unanswered          atomic.Uint64
	duplicates, redelivered      atomic.Uint64
	empty, pushes, pops, ackings atomic.Uint64
	pushTimes, arrivals          histo.Recorder

	next       []uint32 // by partition; each is its producer's
	start      time.Time
	stopping   atomic.Bool // producers end after their current batch
	violations violations
	judge      judge
	failed     atomic.Pointer[error]
	cancel     context.CancelFunc
}

// Run carries a load out. An error says that it could not be; violations are in the result.
func Run(ctx context.Context, o Options) (*Result, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	if o.Target == nil {
		o.Target = &HTTP{Addrs: []string{o.Addr}}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := newRun(o)
	r.ctx, r.cancel = ctx, cancel
	if err := o.Target.Prepare(&r.o); err != nil {
		return nil, err
	}
	var consumers, producers sync.WaitGroup
	for i := range o.Consumers {
		consumers.Go(func() { r.consume(i) })
	}
	stop := func() { r.stopping.Store(true); producers.Wait(); cancel(); consumers.Wait() }
	defer stop()
	if o.Fill {
		if err := r.fill(); err != nil {
			return nil, err
		}
	}
	r.start = time.Now()
	for i := 0; i < o.Producers && o.Warmup+o.Duration > 0; i++ { // without time it only fills
		producers.Go(func() { r.produce(i) })
	}
	out, err := r.measure()
	if err != nil {
		return nil, err
	}
	r.stopping.Store(true)
	producers.Wait()
	r.drain()
	stop()
	if err := r.failed.Load(); err != nil {
		return nil, *err
	}
	out.Left = r.left()
	// What an unanswered call did is not known, so that the sum only has to be right without any.
	if o.Drain > 0 && o.Consumers > 0 && out.Left != 0 && r.unanswered.Load() == 0 {
		r.violations.add("%d messages were pushed and not acked within %v after the last push", out.Left, o.Drain)
	}
	out.Violations = r.violations.list()
	out.Counts = r.counts()
	return out, nil
}

func newRun(o Options) *run {
	r := &run{o: o, id: uint64(time.Now().UnixNano()), next: make([]uint32, o.Partitions)}
	r.judge.run, r.judge.next = r, make([]atomic.Uint32, o.Partitions)
	return r
}

func (r *run) left() int64 { return int64(r.pushed.Load()) - int64(r.acked.Load()) }

func (r *run) counts() Counts {
	return Counts{Refused: r.refused.Load(), Unanswered: r.unanswered.Load(), Duplicates: r.duplicates.Load(),
		Redelivered: r.redelivered.Load(), Empty: r.empty.Load(), Pushes: r.pushes.Load(), Pops: r.pops.Load(),
		Acks: r.ackings.Load()}
}

// fail ends the run: the first error is its result.
func (r *run) fail(err error) {
	r.failed.CompareAndSwap(nil, &err)
	r.cancel()
}

// fill creates every partition with a message, so that the counted time creates none.
func (r *run) fill() error {
	var producers sync.WaitGroup
	for i := range r.o.Producers {
		producers.Go(func() {
			if p := r.newProducer(i); p != nil {
				defer p.conn.Close()
				p.fill()
			}
		})
	}
	producers.Wait()
	for r.left() > 0 && r.ctx.Err() == nil {
		pause(r.ctx, time.Millisecond)
	}
	if err := r.failed.Load(); err != nil {
		return *err
	}
	return r.ctx.Err()
}

// drain waits for the consumers to take the rest.
func (r *run) drain() {
	deadline := time.Now().Add(r.o.Drain)
	for r.o.Consumers > 0 && r.left() > 0 && r.ctx.Err() == nil && time.Now().Before(deadline) {
		pause(r.ctx, time.Millisecond)
	}
}

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

// violations keeps the first few.
type violations struct {
	mu struct {
		sync.Mutex
		some  []string
		count int
	}
}

const violationsKept = 20

func (v *violations) add(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.mu.count++; len(v.mu.some) < violationsKept {
		v.mu.some = append(v.mu.some, fmt.Sprintf(format, args...))
	}
}

func (v *violations) list() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	out := v.mu.some
	if more := v.mu.count - len(out); more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return out
}
