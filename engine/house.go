package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"queen/engine/clock"
	"queen/engine/format"
	"queen/engine/logstore/rows"
)

// house keeps the node in order: it proposes what is due by time alone, reveals hidden messages,
// applies retention, ends chunks, watches the disk, and counts lag. It never touches the state
// itself: what it wants it proposes, and apply decides.
type house struct {
	n      *Node
	nudge  chan struct{}
	done   sync.WaitGroup
	chunk  chunkHash
	lag    lagTable
	sizes  sizes
	writes lastWrites
	rates  rates
	rest   rest
	// forget asks the apply goroutine to let resident ids go that are over.
	forget  atomic.Bool
	expired atomic.Int64 // monotonic time of the newest entry that was to free keyed rows
	// marking is held from the look at the chunk to the end of its Mark.
	marking sync.Mutex
	// retaining is held by a retention pass.
	retaining  sync.Mutex
	abortsMost uint32 // aborted ranges that one entry forgets; smaller in tests only

	// Owned by the apply goroutine.
	rowBatch []rows.Row
	lanes    []laneState
}

// idleTurn is how long upkeep sleeps at most: the disk gate and the mark by time are looked at then.
const idleTurn = time.Second

func newHouse(n *Node) *house {
	return &house{n: n, nudge: make(chan struct{}, 1), abortsMost: retainAborts}
}

func (h *house) start() {
	h.done.Add(3)
	go h.upkeep()
	go h.compact()
	go h.sweepLoop()
}

func (h *house) stop() { h.done.Wait() }

// applied runs in the apply goroutine after every entry.
func (h *house) applied(c *Committed, e *format.Entry, o *Applied) {
	_, marked := h.n.state.m.Marks()
	h.chunk.add(c.Index, c.Term, format.EntryEncoded, e, o.Canonical, h.n.cfg.Clock.Mono(), marked == c.Index)
	h.writes.note(h.n.state.m.Touched(), e.Header.W)
	h.n.files.applied(c, e, marked == c.Index)
	h.forgotten()
	h.n.timers.applied()
	if h.chunk.bytes() >= h.n.cfg.MarkBytes || h.soonDue() || h.n.keyed.full() {
		h.poke()
	}
}

func (h *house) poke() {
	select {
	case h.nudge <- struct{}{}:
	default:
	}
}

// soonDue reports that something falls due before upkeep would wake on its own.
func (h *house) soonDue() bool {
	h.n.state.RLock()
	defer h.n.state.RUnlock()
	t, w := h.n.state.m.NextDue()
	p := h.n.state.m.Pending()
	soon := idleTurn.Microseconds()
	return p.Tasks > 0 || p.Reveals > 0 || t != 0 && int64(t-h.n.state.m.T()) < soon ||
		w != 0 && int64(w-h.n.state.m.W()) < soon
}

// upkeep is the loop of everything that is proposed on the node's own account.
func (h *house) upkeep() {
	defer h.done.Done()
	n := h.n
	timer := n.cfg.Clock.NewTimer(idleTurn)
	defer timer.Stop()
	var retained, voters int64
	for {
		again := h.turn()
		if now := n.cfg.Clock.Mono(); n.cluster != nil && now-voters >= idleTurn.Microseconds() {
			voters = now
			h.votersGate()
		}
		h.rates.sample(n.cfg.Clock.Mono(), n.counters.pushed.Load(), n.counters.deliveredMessages.Load())
		if now := n.cfg.Clock.Mono(); now-retained >= n.cfg.RetentionEvery.Microseconds() {
			retained = now
			h.retain()
			h.diskGate()
		}
		n.keyed.snapshots.drop(n.cfg.Clock.Mono(), n.keyed.written.Load())
		if n.closing() {
			return
		}
		if again {
			continue
		}
		h.restTurn(n.cfg.Clock.Mono())
		timer.Reset(h.pause())
		h.wait(timer)
	}
}

func (h *house) wait(timer clock.Timer) {
	select {
	case <-timer.C():
	case <-h.nudge:
	case <-h.n.stopping:
	}
}

// pause is how long nothing is due.
func (h *house) pause() time.Duration {
	if !h.n.leading() {
		return idleTurn
	}
	h.n.state.RLock()
	t, w := h.n.state.m.NextDue()
	_, end := h.n.state.m.DueTransactions(0, 0)
	h.n.state.RUnlock()
	if w == 0 || end != 0 && end < w {
		w = end
	}
	nowT, nowW := h.n.stamp.now()
	pause := idleTurn
	if t != 0 {
		pause = min(pause, time.Duration(t-nowT)*time.Microsecond)
	}
	if w != 0 {
		pause = min(pause, time.Duration(w-nowW)*time.Microsecond)
	}
	return max(pause, 0)
}

// turn does one round of what is due and reports whether there is more.
func (h *house) turn() (again bool) {
	n := h.n
	if !n.leading() {
		return false
	}
	n.state.RLock()
	t, w := n.state.m.NextDue()
	pending := n.state.m.Pending()
	n.state.RUnlock()
	nowT, nowW := n.stamp.now()
	if t != 0 && nowT >= t || w != 0 && nowW >= w {
		s := newSubmission(consumption)
		s.buf.AddTick()
		h.commit(s)
		again = true
	}
	if h.expire(false) {
		again = true
	}
	if h.expireTxns() {
		again = true
	}
	if pending.Reveals > 0 {
		again = h.reveal() || again
	}
	if pending.Tasks > 0 {
		s := newSubmission(consumption)
		s.buf.AddSweep(&format.Sweep{Limit: sweepRows})
		h.commit(s)
		again = true
	}
	h.mark()
	return again
}

// How long a keyed row may outlive its time before it is freed: nobody sees it any more, except that who follows
// changes is told of its end.
const (
	expireEvery   = 5 * time.Second
	expireWatched = 250 * time.Millisecond
)

// expire proposes an entry that frees keyed rows whose time is over, if there is one and none was proposed for a
// while. It reports whether it did.
func (h *house) expire(now bool) bool {
	n := h.n
	n.state.RLock()
	due, ok := n.state.m.NextExpiry()
	n.state.RUnlock()
	mono := n.cfg.Clock.Mono()
	every := expireEvery
	if n.keyed.changes.followed() {
		every = expireWatched
	}
	if !ok || due > n.wall() || !now && mono-h.expired.Load() < every.Microseconds() {
		return false
	}
	h.expired.Store(mono)
	s := newSubmission(consumption)
	s.buf.AddTick()
	return h.commit(s)
}

// sweepRows bounds the rows that one Sweep frees, so that apply is not held up.
const sweepRows = 2048

// commit submits and waits; false when the node stopped or the entry was refused.
func (h *house) commit(s *submission) bool {
	if s.buf.Count == 0 || !h.n.leading() {
		return false
	}
	s.local = true
	return h.n.commit(context.Background(), s) == nil
}

// reveal looks up how far hidden messages have become deliverable and proposes it.
func (h *house) reveal() (again bool) {
	const limit = 256
	n := h.n
	n.state.RLock()
	due := n.state.m.DueReveals(nil, limit)
	n.state.RUnlock()
	_, nowW := n.stamp.now()
	s := newSubmission(consumption)
	for i := range due {
		d := &due[i]
		r := format.Reveal{Partition: d.Partition, Visible: d.End, Generation: d.Generation}
		part := partView{id: d.Partition, next: d.End, newest: d.NewestRow}
		at, err := n.firstAt(&part, d.Visible, nowW-d.Delay+1)
		if err != nil {
			n.event("reveal", err)
			continue
		}
		if at.found {
			r.Visible, r.Next = at.offset, at.w+d.Delay
		}
		s.buf.AddReveal(&r)
	}
	return h.commit(s)
}

// compact sorts and merges the frame index in the background.
func (h *house) compact() {
	defer h.done.Done()
	n := h.n
	timer := n.cfg.Clock.NewTimer(idleTurn)
	defer timer.Stop()
	for !n.closing() {
		if n.rows.Compact() {
			continue
		}
		timer.Reset(idleTurn / 10)
		select {
		case <-timer.C():
		case <-n.stopping:
		}
	}
}

// diskGate closes for pushes above the high mark and opens again below the low one (S-bp-4).
func (h *house) diskGate() {
	n := h.n
	space, err := n.cfg.FS.Free(n.cfg.Dir)
	if err != nil || space.Total <= 0 {
		n.event("disk", err)
		return
	}
	used := int(100 * (space.Total - space.Available) / space.Total)
	if used >= n.cfg.DiskLow {
		n.seq.Log().FillPool() // acks and deletes go on from it when the disk is full
	}
	switch {
	case used >= n.cfg.DiskHigh && n.full.CompareAndSwap(false, true):
		n.cfg.Log.Error("disk above its high mark: pushes are refused", "used_percent", used)
	case used < n.cfg.DiskLow && n.full.CompareAndSwap(true, false):
		n.cfg.Log.Info("disk below its low mark: pushes are taken again", "used_percent", used)
	}
}

// votersGate closes the gate while the disk of another node that votes is full, which is told within a second or two.
func (h *house) votersGate() {
	n := h.n
	full := n.cluster.seq.VoterFull()
	switch {
	case full && n.voterFull.CompareAndSwap(false, true):
		n.cfg.Log.Error("the disk of another node is above its high mark: pushes are refused")
	case !full && n.voterFull.CompareAndSwap(true, false):
		n.cfg.Log.Info("no other node's disk is full any more: pushes are taken again")
	}
}

// Settle returns once everything that was due by the clock when it was called has been applied:
// leases and delays that ended, retention, sweeps, lag figures. For tests and for tools that need
// fresh figures; the node does the same on its own, a little later.
func (n *Node) Settle() {
	for again := true; again && !n.closing(); {
		again = n.house.turn()
	}
	for !n.closing() && n.house.expire(true) {
	}
	n.timers.settle()
	n.house.retain()
	n.house.sweep(func() {})
	for again := true; again && !n.closing(); {
		again = n.house.turn()
	}
}
