package main

import (
	"fmt"
	"sync"
	"time"
)

// How long what comes behind the load may take, once nothing does harm any more.
const (
	answersMost = 2 * time.Minute // those who write may wait so long for their last answer
	drainMost   = 6 * time.Minute // those who read may take so long for what is left
	// stillMost is for how long nothing at all may be settled while something is left. The longest pause that has a reason is half of it: a
	// transaction of Kafka's whose client is gone ends after 20 s, and then members of the group may change.
	stillMost = time.Minute
	// failedMost is how long a run is waited for that has failed already: what was found may be why somebody does not come to an end.
	failedMost = 20 * time.Second
	homeMost   = 20 * time.Second // those who were told to go home may take so long
)

// finished waits for a group, within a limit.
func finished(wg *sync.WaitGroup, limit time.Duration) bool {
	all := make(chan struct{})
	go func() { wg.Wait(); close(all) }()
	select {
	case <-all:
		return true
	case <-time.After(limit):
		return false
	}
}

// drain waits until all who take have gone home. An error says why it waits no longer: that things are slow is one, and that they stand
// still is another.
func (w *crew) drain() error {
	all := make(chan struct{})
	go func() { w.takers.Wait(); close(all) }()
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for p := newProgress(w.settled(), w.h.now()); ; {
		select {
		case <-all:
			return nil
		case <-look.C:
			if err := p.judge(w.settled(), w.h.now(), w.h.isBroken()); err != nil {
				return err
			}
		}
	}
}

// progress is what is seen of those who take what is left.
type progress struct {
	begin, changed time.Duration // when it began, and when the number of what is settled changed last
	first, last    int64         // that number
}

func newProgress(settled int64, now time.Duration) progress {
	return progress{now, now, settled, settled}
}

// judge says why nobody should wait any longer; nil as long as somebody should.
func (p *progress) judge(settled int64, now time.Duration, broken bool) error {
	if settled != p.last {
		p.last, p.changed = settled, now
	}
	switch took := now - p.begin; {
	case broken && took > failedMost:
		return fmt.Errorf("a promise was found broken, so that nobody waited longer than %v for everything to be consumed", failedMost)
	case now-p.changed > stillMost:
		return fmt.Errorf("consumption stands still: for %v nothing was settled; that is %v after the load, and %d messages were settled before",
			(now - p.changed).Round(time.Second), took.Round(time.Second), p.last-p.first)
	case took > drainMost:
		return fmt.Errorf("consumption is slow: it goes on, but is not done %v after the load; %d messages were settled meanwhile",
			took.Round(time.Second), p.last-p.first)
	}
	return nil
}

// settled counts what those who take have got done: it rises as long as one of them gets on.
func (w *crew) settled() (n int64) {
	for _, l := range w.h.order {
		n += l.taking.settled()
	}
	if k := w.h.kafka; k != nil {
		for _, f := range k.follows {
			n += f.end()
		}
		for p := range k.moved {
			n += k.moved[p].Load()
		}
	}
	return n
}
