package replication

import "time"

// gaps pace what is tried again: at once when it was not tried for long, and then ever more seldom. The zero value was never tried.
//
// INVARIANT: from try to try there is at least the gap, which doubles up to the largest until there was none for twice that.
type gaps struct {
	last, gap int64 // monotonic time of the last try, and how long after it there is none
}

// due reports that the gap has passed.
func (g *gaps) due(now int64) bool { return g.gap == 0 || now-g.last >= g.gap }

// tried notes a try; least is the gap after a first one.
func (g *gaps) tried(now int64, least, most time.Duration) {
	if g.gap == 0 || now-g.last >= 2*most.Microseconds() {
		g.gap = least.Microseconds() / 2
	}
	g.last, g.gap = now, min(2*g.gap, most.Microseconds())
}
