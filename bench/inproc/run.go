package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"queen/bench/internal/histo"
	"queen/bench/internal/procfs"
	"queen/bench/internal/report"
	"queen/engine"
	"queen/engine/clock"
	"queen/engine/format"
	"queen/engine/vfs"
)

// load is one number of partitions under load.
type load struct {
	o          *options
	e          engine.Engine
	partitions int
	names      []string
	next       []uint32        // number of the next message, each of its producer
	seen       []atomic.Uint32 // offset that has to come next
	run        uint64

	pushed, popped, acked atomic.Int64
	latency               histo.Recorder
	stopping              atomic.Bool
	failed                atomic.Pointer[error]
	ctx                   context.Context
	cancel                context.CancelFunc
}

const (
	queue = "bench"
	group = "bench"
)

var caller = engine.Caller{Tenant: format.DefaultTenant}

// measure runs one engine on a fresh directory and notes what it did under names that begin with prefix.
func measure(ctx context.Context, o *options, partitions int, r *report.Report, prefix string) (rate float64, err error) {
	dir, err := report.TempDir(o.dir)
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	e, err := engine.OpenLocal(engine.Config{FS: vfs.NewOS(vfs.OSOptions{}), Clock: clock.Real(), Rand: clock.RealRand(),
		Dir: dir})
	if err != nil {
		return 0, err
	}
	defer func() {
		if bad := e.Close(context.Background()); err == nil {
			err = bad
		}
	}()
	meter, err := procfs.NewMeter(dir, procfs.Self())
	if err != nil {
		return 0, err
	}
	l := newLoad(ctx, o, e, partitions)
	defer l.cancel()
	var consumers, producers sync.WaitGroup
	if o.consumers > 0 {
		if err := l.register(); err != nil {
			return 0, err
		}
	}
	for range o.consumers {
		consumers.Go(l.consume)
	}
	l.fill()
	for i := range o.producers {
		producers.Go(func() { l.produce(i) })
	}
	l.sleep(o.warmup)
	var h histo.Histogram
	l.latency.Take(&h)
	h = histo.Histogram{}
	before, counts, stats := meter.Read(), l.counts(), e.Inspect().Stats()
	l.sleep(o.duration)
	spent, done, after := meter.Read().Sub(before), l.counts().sub(counts), e.Inspect().Stats()
	l.latency.Take(&h)
	l.stopping.Store(true)
	producers.Wait()
	l.cancel()
	consumers.Wait()
	if err := l.failed.Load(); err != nil {
		return 0, *err
	}
	rate = l.note(r, prefix, spent, done, &h)
	r.Add(prefix+"engine flushes per message", float64(after.Flushes-stats.Flushes)/float64(max(done.pushed, 1)), "")
	r.Add(prefix+"messages per entry", float64(done.pushed)/float64(max(after.Entries-stats.Entries, 1)), "")
	return rate, nil
}

func newLoad(ctx context.Context, o *options, e engine.Engine, partitions int) *load {
	l := &load{o: o, e: e, partitions: partitions, names: partitionNames(partitions), next: make([]uint32, partitions),
		seen: make([]atomic.Uint32, partitions), run: uint64(time.Now().UnixNano())}
	l.ctx, l.cancel = context.WithCancel(ctx)
	return l
}

// note adds a measurement to the report and returns its rate: the least of what was done to the messages.
func (l *load) note(r *report.Report, prefix string, spent procfs.Reading, done counts, h *histo.Histogram) float64 {
	seconds := spent.Elapsed.Seconds()
	rate := float64(done.pushed) / seconds
	r.Add(prefix+"push rate", rate, "msg/s")
	if l.o.consumers > 0 {
		r.Add(prefix+"pop rate", float64(done.popped)/seconds, "msg/s")
		r.Add(prefix+"ack rate", float64(done.acked)/seconds, "msg/s")
		rate = float64(min(done.pushed, done.popped, done.acked)) / seconds
		r.Add(prefix+"rate", rate, "msg/s")
	}
	r.Latency(prefix+"push", h)
	part := report.Report{}
	part.Spent(spent, uint64(done.pushed))
	for _, v := range part.Values {
		r.Add(prefix+v.Name, v.N, v.Unit)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	r.Add(prefix+"heap", float64(m.HeapAlloc)/(1<<20), "MiB")
	return rate
}

type counts struct{ pushed, popped, acked int64 }

func (c counts) sub(b counts) counts {
	return counts{c.pushed - b.pushed, c.popped - b.popped, c.acked - b.acked}
}

func (l *load) counts() counts { return counts{l.pushed.Load(), l.popped.Load(), l.acked.Load()} }

func (l *load) fail(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	l.failed.CompareAndSwap(nil, &err)
	l.cancel()
}

func (l *load) sleep(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.ctx.Done():
	}
}

// fill creates every partition with a message and, with consumers, waits until those are consumed.
func (l *load) fill() {
	var producers sync.WaitGroup
	for i := range l.o.producers {
		producers.Go(func() {
			p := newProducer(l, i)
			for from := 0; from < p.own && l.ctx.Err() == nil; from += l.o.batch {
				p.chosen = p.chosen[:0]
				for k := from; k < min(from+l.o.batch, p.own); k++ {
					p.chosen = append(p.chosen, k*l.o.producers+i)
				}
				p.push()
			}
		})
	}
	producers.Wait()
	for l.o.consumers > 0 && l.acked.Load() < l.pushed.Load() && l.ctx.Err() == nil {
		l.sleep(time.Millisecond)
	}
}
