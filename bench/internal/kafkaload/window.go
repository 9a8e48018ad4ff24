package kafkaload

import (
	"fmt"
	"time"

	"queen/bench/internal/histo"
	"queen/bench/internal/procfs"
)

// Window is one stretch of a run, usually 10 seconds.
type Window struct {
	// From is counted from the first batch; Warmup windows are not judged.
	From, Elapsed      time.Duration
	Warmup             bool
	Produced, Consumed uint64
	Produce, Arrival   histo.Histogram
	// Usage is the broker's at the end of the window; zero when not known.
	Usage procfs.Usage
}

// String is the window in a line: rates, latencies in milliseconds, memory of the broker.
func (w Window) String() string {
	rate := func(n uint64) float64 { return float64(n) / w.Elapsed.Seconds() / 1000 }
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	mark := ' '
	if w.Warmup {
		mark = '~'
	}
	return fmt.Sprintf("%c%5.0fs  in %6.1fk out %6.1fk /s   produce ms p50 %6.2f p99 %7.2f max %7.1f   e2e ms p50 %7.2f p99 %8.2f   rss %5d MiB",
		mark, w.From.Seconds(), rate(w.Produced), rate(w.Consumed), ms(w.Produce.Percentile(50)), ms(w.Produce.Percentile(99)),
		ms(w.Produce.Max()), ms(w.Arrival.Percentile(50)), ms(w.Arrival.Percentile(99)), w.Usage.RSS>>20)
}

// moment is a reading of everything that is counted.
type moment struct {
	at             time.Time
	wire           Wire
	broker, loader procfs.Reading
}

// meters read the broker and this process.
type meters struct{ broker, loader *procfs.Meter }

func (r *run) newMeters() (m meters, err error) {
	if m.loader, err = procfs.NewMeter(".", procfs.Self()); err != nil {
		return m, err
	}
	if r.o.Process != 0 {
		dir := r.o.Data
		if dir == "" {
			dir = "."
		}
		m.broker, err = procfs.NewMeter(dir, r.o.Process)
	}
	return m, err
}

func (r *run) moment(m *meters) moment {
	w := &r.wire
	out := moment{at: time.Now(), loader: m.loader.Read(),
		wire: Wire{w.produces.Load(), w.batches.Load(), w.produceBytes.Load(), w.fetches.Load(), w.fetchBytes.Load(), w.fetchedBytes.Load(),
			time.Duration(w.fetchNanos.Load())}}
	if m.broker != nil {
		out.broker = m.broker.Read()
	}
	return out
}

func (w Wire) sub(b Wire) Wire {
	return Wire{w.Produces - b.Produces, w.Batches - b.Batches, w.ProduceBytes - b.ProduceBytes, w.Fetches - b.Fetches,
		w.FetchBytes - b.FetchBytes, w.FetchedBytes - b.FetchedBytes, w.FetchTime - b.FetchTime}
}

// measure closes windows until the counted time is over, or enough was produced in it, and adds up those that count.
func (r *run) measure(m *meters, first moment) (*Result, error) {
	out := &Result{}
	last := first
	for _, end := range r.windowEnds() {
		pause(r.ctx, time.Until(r.start.Add(end)))
		if err := r.err(); err != nil {
			return nil, err
		}
		now := r.moment(m)
		w := Window{From: max(last.at.Sub(r.start), 0), Elapsed: now.at.Sub(last.at), Usage: now.broker.Usage, Warmup: end <= r.o.Warmup}
		r.produceTimes.Take(&w.Produce)
		r.arrivals.Take(&w.Arrival)
		// What is counted is what was timed, so that a window's numbers are about the same records.
		w.Produced, w.Consumed = w.Produce.Count()*uint64(r.o.Batch), w.Arrival.Count()
		if !w.Warmup {
			out.Windows = append(out.Windows, w)
			out.Produced += w.Produced
			out.Consumed += w.Consumed
			out.Produce.Merge(&w.Produce)
			out.Arrival.Merge(&w.Arrival)
		}
		if r.o.OnWindow != nil {
			r.o.OnWindow(w)
		}
		last = now
		if w.Warmup {
			first = now
		} else if r.o.Records > 0 && out.Produced >= r.o.Records {
			break
		}
	}
	out.Elapsed = last.at.Sub(first.at)
	out.Wire = last.wire.sub(first.wire)
	out.Spent, out.Loader = last.broker.Sub(first.broker), last.loader.Sub(first.loader)
	out.Before, out.After, out.Slope = first.broker.Usage.RSS, last.broker.Usage.RSS, slope(out.Windows)
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

// slope is the growth of the memory at the ends of the windows in bytes a minute, by least squares; 0 for fewer than two.
func slope(windows []Window) float64 {
	n := float64(len(windows))
	if n < 2 {
		return 0
	}
	var meanX, meanY float64
	for _, w := range windows {
		meanX += (w.From + w.Elapsed).Minutes() / n
		meanY += float64(w.Usage.RSS) / n
	}
	var over, under float64
	for _, w := range windows {
		x := (w.From + w.Elapsed).Minutes() - meanX
		over += x * (float64(w.Usage.RSS) - meanY)
		under += x * x
	}
	return over / under
}
