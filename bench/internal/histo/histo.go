package histo

import (
	"math/bits"
	"sync"
	"time"
)

const (
	perOctave = 64 // buckets per power of two
	buckets   = 59 * perOctave
)

// Histogram counts durations; the zero value is empty and ready.
type Histogram struct {
	counts [buckets]uint64
	n, sum uint64
	max    uint64
}

func bucketOf(v uint64) int {
	if v < perOctave {
		return int(v)
	}
	e := bits.Len64(v) - 7
	return (e+1)*perOctave + int(v>>e) - perOctave
}

// upper is the largest value of a bucket.
func upper(b int) uint64 {
	if b < perOctave {
		return uint64(b)
	}
	e := b/perOctave - 1
	return uint64(b%perOctave+perOctave+1)<<e - 1
}

// Add counts d; below zero counts as zero.
func (h *Histogram) Add(d time.Duration) {
	v := uint64(max(d, 0))
	h.counts[bucketOf(v)]++
	h.n++
	h.sum += v
	h.max = max(h.max, v)
}

// Merge counts everything that o counted.
func (h *Histogram) Merge(o *Histogram) {
	if o.n == 0 {
		return
	}
	for i, c := range o.counts {
		h.counts[i] += c
	}
	h.n += o.n
	h.sum += o.sum
	h.max = max(h.max, o.max)
}

// Count is how many durations there were.
func (h *Histogram) Count() uint64 { return h.n }

// Mean is 0 when there were none.
func (h *Histogram) Mean() time.Duration {
	if h.n == 0 {
		return 0
	}
	return time.Duration(h.sum / h.n)
}

// Max is the longest, exactly.
func (h *Histogram) Max() time.Duration { return time.Duration(h.max) }

// Percentile is the duration that a share p (0 to 100) of all did not exceed; 0 when there were none.
func (h *Histogram) Percentile(p float64) time.Duration {
	want := uint64(p / 100 * float64(h.n))
	if float64(want) < p/100*float64(h.n) || want == 0 {
		want++
	}
	seen := uint64(0)
	for i, c := range h.counts {
		if seen += c; c > 0 && seen >= want {
			return time.Duration(min(upper(i), h.max))
		}
	}
	return 0
}

// Recorder is a Histogram that many goroutines may add to while another one takes windows out of it.
type Recorder struct {
	mu struct {
		sync.Mutex
		h Histogram
	}
}

// Add counts d.
func (r *Recorder) Add(d time.Duration) {
	r.mu.Lock()
	r.mu.h.Add(d)
	r.mu.Unlock()
}

// AddAll counts every one of ds.
func (r *Recorder) AddAll(ds []time.Duration) {
	r.mu.Lock()
	for _, d := range ds {
		r.mu.h.Add(d)
	}
	r.mu.Unlock()
}

// Take merges what was counted into h and starts again from nothing.
func (r *Recorder) Take(h *Histogram) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h.Merge(&r.mu.h)
	r.mu.h = Histogram{}
}
