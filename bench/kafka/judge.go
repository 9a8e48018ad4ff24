package main

import (
	"math"
	"time"

	"queen/bench/internal/kafkaload"
	"queen/bench/internal/report"
)

// Numbers that promises are held to.
const (
	holdOfFlush   = 5.0
	holdOfCeiling = 0.6
	holdCPU       = 1.15
	// Under more than the capacity consumers get this share of what is accepted, over the whole time and in each window,
	// and of what they get at the capacity; a record is with them within holdArrival of being sent, at p99.
	holdOverload = 0.9
	holdArrival  = 2 * time.Second
	// tookAll is the share of what was offered from which on it was no overload.
	tookAll       = 0.95
	fewPartitions = 200
	allPartitions = 10_000
)

// ours tells whether a cell is held to the node's promises. Other brokers stand beside it.
func (c *cell) ours() bool { return c.target == "queen" || c.target == "running" }

// code is the exit code of everything measured: 1 when a promise was broken, 2 when our own node could not be measured.
func (t *table) code() (code int) {
	for _, c := range t.cells {
		switch {
		case c.ours() && (c.err != nil || c.unmeasured):
			code = 2
		case c.report != nil && len(c.report.Violations) > 0:
			code = max(code, 1)
		}
	}
	if t.short {
		code = max(code, 1)
	}
	return code
}

// pressure is what consumers got while more was offered than the capacity; rates are records a second.
type pressure struct {
	capacity, offered, accepted, consumed float64
	// worst is the least share of what was accepted in a window that consumers got in it.
	worst float64
	// arrival is the p99 from the sending of a record to its delivery.
	arrival time.Duration
}

func newPressure(capacity, offered float64, r *kafkaload.Result) *pressure {
	seconds := r.Elapsed.Seconds()
	return &pressure{capacity: capacity, offered: offered, accepted: float64(r.Produced) / seconds, consumed: float64(r.Consumed) / seconds,
		worst: worstShare(r.Windows), arrival: r.Arrival.Percentile(99)}
}

// share is how much of what was accepted was consumed.
func (p *pressure) share() float64 { return p.consumed / max(p.accepted, 1) }

// kept is how much was consumed of what is without pressure.
func (p *pressure) kept() float64 { return p.consumed / p.capacity }

// none says that all that was offered was taken: the capacity was measured too low, and nothing is known of an overload.
func (p *pressure) none() bool { return p.accepted > tookAll*p.offered }

// judge holds the node to what it promises under pressure.
func (p *pressure) judge(r *report.Report) {
	for _, one := range []struct {
		share float64
		what  string
	}{
		{p.share(), "of what was accepted"}, {p.worst, "of what was accepted in the worst window"},
		{p.kept(), "of what they get at the capacity"},
	} {
		// Written so that what is no number does not hold.
		if !(one.share >= holdOverload) {
			r.Violate("consumers got %.3f %s, at least %.1f", one.share, one.what, holdOverload)
		}
	}
	if p.arrival > holdArrival {
		r.Violate("a record was with its consumer after %v at p99, at most %v", p.arrival.Round(time.Millisecond), holdArrival)
	}
}

// worstShare is the least that consumers got in a window of what was accepted in it. What is left of the time in the last
// window is not judged by itself when it is less than half of the others': the windows before have it as their edge.
func worstShare(windows []kafkaload.Window) float64 {
	worst := math.Inf(1)
	for i := range windows {
		w := &windows[i]
		if i > 0 && w.Elapsed < windows[0].Elapsed/2 {
			continue
		}
		worst = min(worst, float64(w.Consumed)/float64(max(w.Produced, 1)))
	}
	return worst
}

// judgeSoak holds a long run to its promises: the p99 of a produce in each window, and the growth of memory a minute.
func judgeSoak(r *report.Report, res *kafkaload.Result, p99 time.Duration, growth float64) {
	for i := range res.Windows {
		w := &res.Windows[i]
		if got := w.Produce.Percentile(99); got > p99 {
			r.Violate("the window at %v has a produce p99 of %v, at most %v", w.From.Round(time.Second), got, p99)
		}
	}
	if res.Before <= 0 {
		r.Violate("the memory of the node is not known")
		return
	}
	grown := res.Slope / float64(res.Before)
	r.Add("rss growth", grown, "of that before a minute")
	if grown >= growth {
		r.Violate("memory grew by %.2f %% a minute, below %.2f %%", grown*100, growth*100)
	}
}
