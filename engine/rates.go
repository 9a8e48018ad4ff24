package engine

import "sync"

// rates keeps what was pushed and delivered in the last seconds, for overviews: a fixed ring of one
// sample per second.
type rates struct {
	mu      sync.Mutex
	samples [rateSamples]rateSample
	next    int
}

const rateSamples = 11

type rateSample struct {
	mono              int64
	pushed, delivered uint64
}

// sample is called about once per second.
func (r *rates) sample(mono int64, pushed, delivered uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.samples[r.next%rateSamples] = rateSample{mono, pushed, delivered}
	r.next++
}

// perSecond is the mean over the samples kept, 0 before there are two.
func (r *rates) perSecond() (pushed, delivered float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next < 2 {
		return 0, 0
	}
	last := r.samples[(r.next-1)%rateSamples]
	first := r.samples[max(r.next-rateSamples, 0)%rateSamples]
	seconds := float64(last.mono-first.mono) / 1e6
	if seconds <= 0 {
		return 0, 0
	}
	return float64(last.pushed-first.pushed) / seconds, float64(last.delivered-first.delivered) / seconds
}
