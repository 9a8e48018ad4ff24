package frontendkafka

import (
	"math"
	"sync"
	"time"

	"queen/engine/format"
)

const (
	// paceWindow is over how long what producers write is measured; a window that nobody ended for paceWindowMost measured nothing.
	paceWindow     = 250 * time.Millisecond
	paceWindowMost = 2 * time.Second
	// paceGain is how much more than was written a consumer must get to be one that comes closer: a tenth, below 0 as what it lacks.
	paceGain = -0.1
	// paceBelow is what part of the bound at which consumers should just keep up a step down goes to, so that they catch up.
	paceBelow = 0.9
	// paceFloor is the part of what they wrote before that producers are not held below, all of them together, as exact as a window
	// measures. A step that would leave more than paceAtFloor is none.
	paceFloor   = 0.25
	paceAtFloor = 0.95
	// paceLeast is what one connection may always write in a second.
	paceLeast = 64 << 10
	// paceBurst is how long one may write ahead of the bound.
	paceBurst = 50 * time.Millisecond
	// paceWaitMost bounds one wait: what else comes over the connection waits with it, heartbeats and ends of transactions.
	paceWaitMost = 2 * time.Second
	// paceStep is how often the bound rises while nobody is late, paceBack how fast it does to where consumers should keep up: e-fold
	// in so long.
	paceStep = 50 * time.Millisecond
	paceBack = float64(2 * time.Second)
	// paceKept is for how long a consumer counts as late without another word at least, paceKeptMost at most.
	paceKept     = time.Second
	paceKeptMost = 10 * time.Second
	// paceGivenUp is how long producers are held to the floor: whoever is late by then is not so for their sake.
	paceGivenUp = time.Minute
)

// pace is what the producers of one tenant may write while consumers of it fall behind: a bound that each of their
// connections has for itself, so that the ones that write most make way first and those below it notice nothing. Nobody knows
// what bound is right, so it is sought: while somebody is late and comes no closer it goes down, a step for every
// window that was seen whole since the last one; while all who are late come closer it stays; and when nobody is late it
// rises, quickly to where the last step began to help, slowly from there, then faster, until it is gone. Times are those of
// Clock.Mono.
//
// INVARIANT: nobody waits for anybody: a wait of a producer ends by time, and so does what is remembered of a consumer (TestPaceEnds).
type pace struct {
	mu sync.Mutex
	// share is the bytes that a connection may write in a second, +Inf without a bound; edge is the one at which consumers should
	// keep up. top and free are what the largest connection and all of them wrote before there was one.
	share, edge, top, free float64
	// The measure: when the window began, its number, what was written in it, by all and by the largest; and that of the
	// last whole one, in bytes a second, of which whole says that it began after the last step.
	from            int64
	window          uint64
	bytes, largest  float64
	total, heaviest float64
	whole           bool
	// readers are the consumers that are late, and until when each counts without another word.
	readers map[*lag]int64
	cutAt   int64 // of the last step down
	eased   int64 // when the bound was looked at to rise
	calm    time.Duration
	floored int64 // since when producers are held to the floor, 0 while they are not
}

// written is what one connection writes; its pace's.
type written struct {
	of     *pace
	left   float64 // bytes it may write at once; below 0 a debt
	at     int64
	window uint64
	bytes  float64
}

func newPace(now int64) *pace {
	return &pace{share: math.Inf(1), from: now, readers: map[*lag]int64{}}
}

// charge takes note of n bytes that a connection wrote and tells how long it has to wait.
func (p *pace) charge(now int64, w *written, n int) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.of != p {
		*w = written{of: p}
	}
	p.roll(now)
	if w.window != p.window {
		w.window, w.bytes = p.window, 0
	}
	w.bytes += float64(n)
	p.bytes, p.largest = p.bytes+float64(n), max(p.largest, w.bytes)
	p.ease(now)
	if math.IsInf(p.share, 1) {
		w.left, w.at = 0, now
		return 0
	}
	w.left = min(w.left+p.share*seconds(now-w.at), p.share*paceBurst.Seconds()) - float64(n)
	w.left, w.at = max(w.left, -p.share*paceWaitMost.Seconds()), now
	if w.left >= 0 {
		return 0
	}
	return time.Duration(-w.left / p.share * float64(time.Second))
}

func seconds(micros int64) float64 { return float64(micros) / 1e6 }

// roll ends a window that is over.
func (p *pace) roll(now int64) {
	if took := seconds(now - p.from); took >= paceWindow.Seconds() {
		p.total, p.heaviest, p.whole = p.bytes/took, p.largest/took, took < paceWindowMost.Seconds()
		p.begin(now)
	}
}

func (p *pace) begin(now int64) { p.from, p.window, p.bytes, p.largest = now, p.window+1, 0, 0 }

// late says that a consumer is, and what part of what was written it lacks since the watch that began at from. The answer is that
// it is given up.
func (p *pace) late(l *lag, from, now int64, lacks float64) (lost bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.roll(now)
	p.ease(now)
	if p.floored != 0 && now-p.floored >= paceGivenUp.Microseconds() {
		delete(p.readers, l)
		return true
	}
	p.readers[l] = now + min(max(paceKept.Microseconds(), 3*(now-from)), paceKeptMost.Microseconds())
	p.calm = 0
	if lacks > paceGain && p.whole && from >= p.cutAt {
		p.cut(now, lacks)
	}
	return false
}

// cut takes a step down. If what is not written makes room for as much to be read, what is written and what a consumer gets meet
// half-way.
func (p *pace) cut(now int64, lacks float64) {
	if p.total <= 0 {
		return
	}
	if math.IsInf(p.share, 1) {
		p.top, p.free = 0, 0
	}
	p.top, p.free = max(p.top, p.heaviest), max(p.free, p.total)
	meet := 1 - max(lacks, 0)/2
	floor := p.free * paceFloor / p.total // what is left of the whole is at least what is left of the largest
	is := min(p.share, p.heaviest)
	to := max(paceBelow*meet, floor) * is
	if floor > paceAtFloor || to < paceLeast {
		if p.floored == 0 && !math.IsInf(p.share, 1) {
			p.floored = now
		}
		return
	}
	p.share, p.edge = to, max(to, meet*is)
	p.cutAt, p.eased, p.whole = now, now, false
	p.begin(now)
}

// ease raises the bound while nobody is late.
func (p *pace) ease(now int64) {
	if now-p.eased < paceStep.Microseconds() {
		return
	}
	dt := time.Duration(now-p.eased) * time.Microsecond
	p.eased = now
	for l, until := range p.readers {
		if until <= now {
			delete(p.readers, l)
		}
	}
	if math.IsInf(p.share, 1) || len(p.readers) > 0 {
		return
	}
	p.floored = 0
	if up := time.Duration(paceBack * math.Log(p.edge/p.share)); up > dt {
		p.share *= math.Exp(float64(dt) / paceBack)
		return
	} else if up > 0 {
		p.share, dt = p.edge, dt-up
	}
	p.share *= math.Exp(growth(p.calm+dt) - growth(p.calm))
	if p.calm += dt; p.share >= 2*p.top {
		p.share, p.calm = math.Inf(1), 0
	}
}

// growth is how much the bound has grown, as a logarithm, when nobody was late for d: by a ninth after 2 s, by a half after 5 s, to
// four times after 10 s.
func growth(d time.Duration) float64 {
	t := d.Seconds()
	return 0.05*t + 0.0009*t*t*t
}

// leave says that a consumer is not late any more.
func (p *pace) leave(l *lag) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.readers, l)
}

// lateNow is how many consumers are late.
func (p *pace) lateNow(now int64) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ease(now)
	return len(p.readers)
}

// paces are those of tenants that have had a late consumer: one tenant's consumers hold no other's producers back.
type paces struct {
	mu       sync.RWMutex
	byTenant map[format.Tenant]*pace
	clock    func() int64
}

// find is nil where nobody was late yet.
func (a *paces) find(t format.Tenant) *pace {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.byTenant[t]
}

// of makes a tenant's pace when it is first asked for.
func (a *paces) of(t format.Tenant) *pace {
	if p := a.find(t); p != nil {
		return p
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.byTenant[t]
	if p == nil {
		p = newPace(a.clock())
		a.byTenant[t] = p
	}
	return p
}

// late counts the consumers for which producers make way.
func (a *paces) late() (n int) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	now := a.clock()
	for _, p := range a.byTenant {
		n += p.lateNow(now)
	}
	return n
}

// makeWay holds a producer back while consumers fall behind: it waits before its next request is read.
func (c *conn) makeWay(n int) time.Duration {
	p := c.f.paces.find(c.caller().Tenant)
	if p == nil {
		return 0
	}
	d := p.charge(c.f.opts.Clock.Mono(), &c.written, n)
	if d > 0 {
		c.f.metrics.heldBack.Add(d.Seconds())
		c.throttled = max(c.throttled, d)
	}
	return d
}
