package frontendkafka

import "time"

// leadEvery is how often a node looks whether it still coordinates the groups that it has in memory.
const leadEvery = 500 * time.Millisecond

// every calls fn again and again until the node stops, with d in between.
func (f *Frontend) every(d time.Duration, fn func()) {
	for f.stopping.Err() == nil {
		fn()
		t := f.opts.Clock.NewTimer(d)
		select {
		case <-t.C():
		case <-f.stopping.Done():
		}
		t.Stop()
	}
}
