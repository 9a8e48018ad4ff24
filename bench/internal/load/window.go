package load

import (
	"fmt"
	"time"

	"queen/bench/internal/histo"
	"queen/bench/internal/procfs"
)

// Window is one stretch of a run, usually 10 seconds.
type Window struct {
	// From is counted from the first push; Warmup windows are not judged.
	From, Elapsed         time.Duration
	Warmup                bool
	Pushed, Popped, Acked uint64
	Push, Arrival         histo.Histogram
	// Usage is the node's at the end of the window, DiskBytes what its directory holds; zero when not known.
	Usage     procfs.Usage
	DiskBytes int64
}

// String is the window in a line: rates, latencies in milliseconds, what the node holds.
func (w Window) String() string {
	rate := func(n uint64) float64 { return float64(n) / w.Elapsed.Seconds() / 1000 }
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	mark := ' '
	if w.Warmup {
		mark = '~'
	}
	return fmt.Sprintf("%c%5.0fs  push %6.1fk pop %6.1fk ack %6.1fk /s   push ms p50 %6.2f p99 %7.2f p99.9 %7.2f max %7.1f"+
		"   arrival ms p50 %7.2f p99 %8.2f   rss %5d MiB  fds %4d  disk %6d MiB",
		mark, w.From.Seconds(), rate(w.Pushed), rate(w.Popped), rate(w.Acked), ms(w.Push.Percentile(50)),
		ms(w.Push.Percentile(99)), ms(w.Push.Percentile(99.9)), ms(w.Push.Max()), ms(w.Arrival.Percentile(50)),
		ms(w.Arrival.Percentile(99)), w.Usage.RSS>>20, w.Usage.FDs, w.DiskBytes>>20)
}

// moment is a reading of everything that is counted.
type moment struct {
	at                    time.Time
	pushed, popped, acked uint64
	node, loader          procfs.Reading
}

// meters read the node and this process.
type meters struct{ node, loader *procfs.Meter }

func (r *run) newMeters() (m meters, err error) {
	if m.loader, err = procfs.NewMeter(".", procfs.Self()); err != nil {
		return m, err
	}
	if r.o.Process != 0 {
		dir := r.o.Data
		if dir == "" {
			dir = "."
		}
		m.node, err = procfs.NewMeter(dir, r.o.Process)
	}
	return m, err
}

func (r *run) moment(m *meters) moment {
	out := moment{at: time.Now(), pushed: r.pushed.Load(), popped: r.popped.Load(), acked: r.acked.Load(),
		loader: m.loader.Read()}
	if m.node != nil {
		out.node = m.node.Read()
	}
	return out
}

// measure closes windows until the counted time is over and adds up those that count.
func (r *run) measure() (*Result, error) {
	m, err := r.newMeters()
	if err != nil {
		return nil, err
	}
	out := &Result{}
	ends := r.windowEnds()
	last := r.moment(&m)
	var first moment
	counting := r.o.Warmup == 0
	if counting {
		first = last
	}
	for _, end := range ends {
		pause(r.ctx, time.Until(r.start.Add(end)))
		if err := r.failed.Load(); err != nil {
			return nil, *err
		}
		if r.ctx.Err() != nil {
			return nil, r.ctx.Err()
		}
		now := r.moment(&m)
		w := r.window(last, now)
		w.Warmup = end <= r.o.Warmup
		if !w.Warmup {
			out.Windows = append(out.Windows, w)
			out.Push.Merge(&w.Push)
			out.Arrival.Merge(&w.Arrival)
		}
		if r.o.OnWindow != nil {
			r.o.OnWindow(w)
		}
		last = now
		if end == r.o.Warmup {
			first = now
		}
	}
	out.Elapsed = last.at.Sub(first.at)
	out.Pushed, out.Popped, out.Acked = last.pushed-first.pushed, last.popped-first.popped, last.acked-first.acked
	out.Spent, out.Loader = last.node.Sub(first.node), last.loader.Sub(first.loader)
	return out, nil
}

// windowEnds are the moments at which windows close; one of them is the end of the warm-up.
func (r *run) windowEnds() (ends []time.Duration) {
	width := r.o.Window
	if width <= 0 {
		width = 10 * time.Second
	}
	for _, stretch := range []struct{ from, to time.Duration }{{0, r.o.Warmup}, {r.o.Warmup, r.o.Warmup + r.o.Duration}} {
		for at := stretch.from; at < stretch.to; {
			at = min(at+width, stretch.to)
			ends = append(ends, at)
		}
	}
	return ends
}

func (r *run) window(from, to moment) Window {
	w := Window{From: from.at.Sub(r.start), Elapsed: to.at.Sub(from.at), Pushed: to.pushed - from.pushed,
		Popped: to.popped - from.popped, Acked: to.acked - from.acked, Usage: to.node.Usage}
	r.pushTimes.Take(&w.Push)
	r.arrivals.Take(&w.Arrival)
	if r.o.Data != "" {
		w.DiskBytes, _, _ = procfs.DirBytes(r.o.Data)
	}
	return w
}
