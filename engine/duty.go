package engine

import (
	"sync"
	"sync/atomic"
	"time"

	"queen/engine/clock"
)

// duty keeps background work of a node (index files, id runs, checkpoints, counting what segments still hold)
// to a share of one processor: it is done in short pieces with pauses between them. Without
// them a merge of some million rows takes half of a machine with two processors away from commits for
// seconds.
type duty struct {
	clock clock.Clock
	quit  <-chan struct{} // closed: no pauses any more
	pause time.Duration   // how many times as long as the work before it a pause is
	// on is set once the node serves: nothing waits while it starts.
	on atomic.Bool
	// before, if there is any, is what goes before this work: while that is under way, this one rests dutyYield times
	// as long, so that both together leave room for what callers wait for.
	before *duty
	busy   atomic.Bool // set while there is work

	mu     sync.Mutex
	rested int64 // mono reading at the end of the newest pause
}

const (
	// dutyPiece is how long work goes on at least between two pauses.
	dutyPiece = 2 * time.Millisecond
	// dutyPause leaves a quarter of a processor to what nobody waits for, idPause half of one to the runs of new
	// ids, which pushes need after some marks.
	dutyPause = 3
	dutyYield = 3
	idPause   = 1
	// dutyLong is the longest piece that counts, and dutyIdle the time after which it is taken for granted
	// that most of it was no work.
	dutyLong = 20 * time.Millisecond
	dutyIdle = time.Second
)

// rest is called by background work every millisecond or so, between two steps. It holds no lock of its
// caller's and waits at most dutyYield*pause*dutyLong for each goroutine that works.
func (d *duty) rest() {
	if !d.on.Load() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	worked := time.Duration(d.clock.Mono()-d.rested) * time.Microsecond
	if worked < dutyPiece {
		return
	}
	if worked < dutyIdle {
		pause := d.pause * min(worked, dutyLong)
		if d.before != nil && d.before.busy.Load() {
			pause *= dutyYield
		}
		t := d.clock.NewTimer(pause)
		defer t.Stop()
		select {
		case <-t.C():
		case <-d.quit:
		}
	}
	d.rested = d.clock.Mono()
}
