package engine

import (
	"container/list"
	"sync"
)

// parking holds the pops that wait for work: FIFO per (queue, consumer group), and beside them
// those pinned to one partition. A parked poll costs memory only; it writes nothing.
//
// INVARIANT: a pop parks while the state lock is held for reading and after it found nothing ready,
// and wake runs after every apply, so no edge falls between two owners (test: park_test.go).
type parking struct {
	mu struct {
		sync.Mutex
		lanes  map[laneKey]*lane
		groups map[queueName]map[string]*lane // the unpinned lanes of a queue
		parked int
		pinned int // of them, those pinned to a partition
		closed bool
	}
}

// laneKey names a FIFO of waiters; partition is "" for pops the broker picks a partition for.
type laneKey struct {
	queueName
	group     string
	partition string
	pinned    bool
}

type lane struct {
	key     laneKey
	waiters list.List // of *popCall
	// flying counts pops of this lane that are in an entry or on the way into one.
	flying int
}

func newParking() *parking {
	p := &parking{}
	p.mu.lanes = map[laneKey]*lane{}
	p.mu.groups = map[queueName]map[string]*lane{}
	return p
}

func (p *parking) laneLocked(k laneKey) *lane {
	l := p.mu.lanes[k]
	if l == nil {
		l = &lane{key: k}
		p.mu.lanes[k] = l
		if !k.pinned {
			g := p.mu.groups[k.queueName]
			if g == nil {
				g = map[string]*lane{}
				p.mu.groups[k.queueName] = g
			}
			g[k.group] = l
		}
	}
	return l
}

// tidyLocked forgets a lane that nobody uses, so that lanes are bounded by live pops.
func (p *parking) tidyLocked(l *lane) {
	if l.waiters.Len() > 0 || l.flying > 0 {
		return
	}
	delete(p.mu.lanes, l.key)
	if g := p.mu.groups[l.key.queueName]; g != nil && g[l.key.group] == l {
		delete(g, l.key.group)
		if len(g) == 0 {
			delete(p.mu.groups, l.key.queueName)
		}
	}
}

// flying is how many pops of the lane are under way.
func (p *parking) flying(k laneKey) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.mu.lanes[k]; l != nil {
		return l.flying
	}
	return 0
}

// depart counts a pop of the lane as under way.
func (p *parking) depart(k laneKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.laneLocked(k).flying++
}

// arrive ends depart.
func (p *parking) arrive(k laneKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.laneLocked(k)
	l.flying--
	p.tidyLocked(l)
}

// park queues c: at the back, or in front when it comes back from an empty pop and keeps its turn.
// It reports false when the node is closing.
func (p *parking) park(c *popCall, front bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed {
		return false
	}
	l := p.laneLocked(c.lane)
	if front {
		c.place = l.waiters.PushFront(c)
	} else {
		c.place = l.waiters.PushBack(c)
	}
	p.countLocked(l, 1)
	return true
}

// leave takes c out; false when it was not parked any more.
func (p *parking) leave(c *popCall) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.leaveLocked(c)
}

func (p *parking) leaveLocked(c *popCall) bool {
	if c.place == nil {
		return false
	}
	l := p.mu.lanes[c.lane]
	l.waiters.Remove(c.place)
	c.place = nil
	p.countLocked(l, -1)
	p.tidyLocked(l)
	return true
}

// take removes up to n waiters of a lane, oldest first, and counts them as under way.
func (p *parking) take(k laneKey, n int) []*popCall {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.mu.lanes[k]
	if l == nil {
		return nil
	}
	return p.takeLocked(l, n)
}

func (p *parking) takeLocked(l *lane, n int) []*popCall {
	var out []*popCall
	for n > 0 && l.waiters.Len() > 0 {
		c := l.waiters.Remove(l.waiters.Front()).(*popCall)
		c.place = nil
		p.countLocked(l, -1)
		if c.isGone() {
			c.answerEmpty()
			continue
		}
		l.flying++
		out = append(out, c)
		n--
	}
	p.tidyLocked(l)
	return out
}

// waitingLanes lists the unpinned lanes of a queue that have waiters, with how many pops of each
// are under way.
func (p *parking) waitingLanes(q queueName, dst []laneState) []laneState {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.mu.groups[q] {
		if l.waiters.Len() > 0 {
			dst = append(dst, laneState{key: l.key, waiters: l.waiters.Len(), flying: l.flying})
		}
	}
	return dst
}

// pinnedWaiting lists the lanes pinned to a partition that have waiters; groups are few.
func (p *parking) pinnedWaiting(q queueName, partition string, groups []string, dst []laneState) []laneState {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range groups {
		l := p.mu.lanes[laneKey{queueName: q, group: g, partition: partition, pinned: true}]
		if l != nil && l.waiters.Len() > 0 {
			dst = append(dst, laneState{key: l.key, waiters: l.waiters.Len(), flying: l.flying})
		}
	}
	return dst
}

type laneState struct {
	key     laneKey
	waiters int
	flying  int
}

// ride takes waiters that may find what an entry is about to append to q: at most frames
// partitions' worth per consumer group.
func (p *parking) ride(q queueName, frames int) []*popCall {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []*popCall
	for _, l := range p.mu.groups[q] {
		left := frames
		for left > 0 && l.waiters.Len() > 0 {
			c := l.waiters.Front().Value.(*popCall)
			left -= int(max(c.cmd.Partitions, 1))
			out = append(out, p.takeLocked(l, 1)...)
		}
	}
	return out
}

// close answers every parked pop with nothing and lets nobody park any more.
func (p *parking) close() {
	p.mu.Lock()
	p.mu.closed = true
	var all []*popCall
	for _, l := range p.mu.lanes {
		for e := l.waiters.Front(); e != nil; e = e.Next() {
			all = append(all, e.Value.(*popCall))
		}
	}
	for _, c := range all {
		p.leaveLocked(c)
	}
	p.mu.Unlock()
	for _, c := range all {
		c.answerEmpty()
	}
}

func (p *parking) countLocked(l *lane, by int) {
	if p.mu.parked += by; l.key.pinned {
		p.mu.pinned += by
	}
}

func (p *parking) count() int {
	parked, _ := p.counts()
	return parked
}

// counts tells how many pops wait, and how many of them for one partition.
func (p *parking) counts() (parked, pinned int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.parked, p.mu.pinned
}
