package engine

import (
	"sync"
	"time"

	"queen/engine/clock"
	"queen/engine/format"
	"queen/engine/machine"
)

// What one entry fires at most (S-tmr-5).
const (
	fireBatch = 256
	fireBytes = 4 << 20
)

// How long a refused fire is put off: a second, doubling up to a minute (S-tmr-17). One that is refused for good
// comes to its end in timer_dead.go.
const (
	putOffFirst = time.Second
	putOffMost  = time.Minute
)

// timers fires what is due. It proposes; whether a timer fires apply decides, by the version it has then, so
// that a cancel is before or after and never in between (S-tmr-7, S-tmr-8).
type timers struct {
	n     *Node
	nudge chan struct{}
	done  sync.WaitGroup

	// firing is held by who fires: one batch is under way at a time.
	firing sync.Mutex
	// held is the monotonic time before which nothing is tried again; with firing.
	held int64

	mu struct {
		sync.Mutex
		next format.Wall // due time that the loop knows of, 0 for none
	}
}

func newTimers(n *Node) *timers { return &timers{n: n, nudge: make(chan struct{}, 1)} }

func (t *timers) start() {
	t.done.Add(1)
	go t.run()
}

// poke wakes the loop.
func (t *timers) poke() {
	select {
	case t.nudge <- struct{}{}:
	default:
	}
}

func (t *timers) stop() { t.done.Wait() }

// applied runs after every entry: it wakes the loop when something is due before what it waits for.
func (t *timers) applied() {
	t.n.state.RLock()
	due, ok := t.n.state.m.NextTimer()
	t.n.state.RUnlock()
	if !ok {
		return
	}
	t.mu.Lock()
	sooner := t.mu.next == 0 || due < t.mu.next
	if sooner {
		t.mu.next = due
	}
	t.mu.Unlock()
	if sooner {
		t.poke()
	}
}

func (t *timers) run() {
	defer t.done.Done()
	timer := t.n.cfg.Clock.NewTimer(idleTurn)
	defer timer.Stop()
	for !t.n.closing() {
		if t.turn() {
			continue
		}
		t.wait(timer)
	}
}

// wait sleeps until something is due, as far as it is known. W may run a little slower or faster than the
// clock, so that a long sleep is taken in pieces. Who does not lead sleeps until it does: what is due is not fired here, and
// may be due for long.
func (t *timers) wait(timer clock.Timer) {
	t.mu.Lock()
	t.mu.next = 0 // before the look: whatever comes due after it nudges
	t.mu.Unlock()
	t.n.state.RLock()
	due, ok := t.n.state.m.NextTimer()
	t.n.state.RUnlock()
	t.mu.Lock()
	if ok && (t.mu.next == 0 || due < t.mu.next) {
		t.mu.next = due
	}
	t.mu.Unlock()
	var fire <-chan struct{}
	if ok && t.n.leading() {
		pause := time.Duration(due-t.n.wall()) * time.Microsecond
		if held := t.heldFor(); held > 0 {
			pause = held
		}
		timer.Reset(min(max(pause, 0), idleTurn))
		fire = timer.C()
	}
	select {
	case <-fire:
	case <-t.nudge:
	case <-t.n.stopping:
	}
}

func (t *timers) heldFor() time.Duration {
	t.firing.Lock()
	defer t.firing.Unlock()
	return time.Duration(t.held-t.n.cfg.Clock.Mono()) * time.Microsecond
}

// hold lets nothing be tried for a while. The caller holds firing.
func (t *timers) hold(d time.Duration) { t.held = t.n.cfg.Clock.Mono() + d.Microseconds() }

// turn fires a batch of what is due and reports whether there was any.
func (t *timers) turn() bool {
	t.firing.Lock()
	defer t.firing.Unlock()
	n := t.n
	if n.cfg.Clock.Mono() < t.held || !n.leading() {
		return false
	}
	if n.off()&fireOff != 0 {
		t.hold(idleTurn)
		return false
	}
	b := fireRun{n: n, w: n.wall(), sub: newSubmission(consumption)}
	if b.take(); len(b.due) == 0 {
		b.sub.recycle()
		return false
	}
	if n.storageFull() {
		b.sub.recycle()
		t.hold(idleTurn) // late, but not lost: the log must not meet a full disk
		return false
	}
	b.encode()
	if !b.commit() {
		t.hold(idleTurn / 10)
		return false
	}
	if !b.judge() {
		t.hold(putOffFirst)
		return false
	}
	return true
}

// settle fires everything that is due now.
func (t *timers) settle() {
	for !t.n.closing() && t.turn() {
	}
}

// fireRun is one batch.
type fireRun struct {
	n    *Node
	w    format.Wall
	due  []pendingTimer
	sub  *submission
	evid idEvidence
	// fires says which timer each command of sub is about.
	fires []int
	// off are timers to be put off, and why.
	off []putOff
}

type putOff struct {
	timer  int
	until  format.Wall // 0 for a while that grows with the attempts
	reason string
	// counted says that the fire would be refused again, whenever it is tried.
	counted bool
}

// take notes what is due, longest due first, and reads it.
func (b *fireRun) take() {
	n := b.n
	n.state.RLock()
	v := *n.keyed.view.Load()
	n.state.m.DueTimers(b.w, fireBatch, func(key []byte, head machine.TimerHead) bool {
		tenant, queue, name, ok := format.ParseTimerKey(key)
		if ok {
			p := pendingTimer{tenant: tenant, queue: string(queue), key: string(name)}
			p.found(v, head)
			b.due = append(b.due, p)
		}
		return true
	})
	n.state.RUnlock()
	below := v.Below()
	b.read(func(p *pendingTimer) error {
		err := p.read(below)
		if err != nil {
			n.event("timer", err)
		}
		return err
	})
}

// read reads of what is due as much as one entry takes. The rest is due in the next one, and is not read before: a batch of
// large timers would be 256 MiB, and all but four of them would be read again.
func (b *fireRun) read(row func(p *pendingTimer) error) {
	size := 0
	for i := range b.due {
		if row(&b.due[i]) != nil {
			b.putOff(i, "its row can not be read")
			continue
		}
		n := len(b.due[i].row.Frame)
		if size > 0 && size+n > fireBytes {
			b.due = b.due[:i]
			return
		}
		size += n
	}
}

func (b *fireRun) putOff(i int, reason string) {
	b.off = append(b.off, putOff{timer: i, reason: reason})
}

// encode makes the commands. Those that can not fire are put off.
func (b *fireRun) encode() {
	unread := b.off
	for i := range b.due {
		if len(unread) > 0 && unread[0].timer == i {
			unread = unread[1:]
			continue
		}
		b.encodeOne(i)
	}
	if b.evid.err != nil {
		// What is known of older ids can not be told: nothing that has an id may be appended.
		b.fires = nil
		b.sub.buf.Reset()
		for i := range b.due {
			b.putOff(i, b.evid.err.Message)
		}
	}
}

func (b *fireRun) encodeOne(i int) {
	n, p := b.n, &b.due[i]
	cmd := format.Fire{Version: p.head.Version, Key: viewBytes(p.key)}
	m, err := p.message(n)
	if err != nil {
		n.event("timer", err)
		b.putOff(i, errRead(err).Message)
		return
	}
	ring, refused := n.sealFor(p.tenant, p.queue)
	if refused != nil {
		b.putOff(i, refused.Message)
		return
	}
	if m.TransactionID, m.HasID = p.row.TransactionID, len(p.row.TransactionID) > 0; len(p.row.Recur) > 0 {
		if !b.recur(i, &cmd) {
			return
		}
		m.TransactionID, m.HasID = p.numbered(), true
	} else {
		m.ExplicitID = p.id(n)
	}
	cmd.Append = format.Append{Tenant: p.tenant, Queue: viewBytes(p.queue), Partition: p.row.Partition,
		Frame: format.FrameNative, Count: 1, IDs: format.IDsNone, ExplicitID: !m.ExplicitID.IsZero()}
	if m.HasID {
		h := format.HashID(n.identity.hashKey, m.TransactionID)
		cmd.Append.IDs, cmd.Append.Hashes = format.IDsAll, h[:]
		b.evid.attach(n, &cmd.Append)
	}
	frame := format.EncodeFrame(nil, []format.FrameMessage{m}, format.FrameOptions{Compress: true})
	if frame, refused = n.seal(ring, frame, timerOwner(p.tenant, cmd.Append.Queue, p.row.Partition)); refused != nil {
		b.putOff(i, refused.Message)
		return
	}
	b.fires = append(b.fires, i)
	b.sub.buf.AddFire(&cmd, frame)
	b.sub.addQueue(p.tenant, p.queue)
}

// recur fills in when a recurring timer fires next; false when this fire does not take place.
func (b *fireRun) recur(i int, cmd *format.Fire) bool {
	p := &b.due[i]
	r, ok := parseRecurrence(p.row.Recur)
	if !ok {
		b.off = append(b.off, putOff{timer: i, reason: "its recurrence can not be read", counted: true})
		return false
	}
	if next := r.next(b.w); next != 0 && r.skips(p.head.Due, b.w) {
		b.off = append(b.off, putOff{timer: i, until: next, reason: "skipped: it would have been late"})
		return false
	}
	cmd.Next = r.after(p.head.Due, b.w, p.head.Fires+1)
	return true
}

// commit proposes the fires and waits for them; false when the node stops or the entry was refused.
func (b *fireRun) commit() bool {
	if b.sub.buf.Count == 0 {
		b.sub.recycle()
		return true
	}
	return b.n.house.commit(b.sub)
}

// judge counts what fired, and puts off or gives up what was refused; false when a timer that is given up could not be
// filed, and would be tried again at once.
func (b *fireRun) judge() bool {
	n := b.n
	for k, i := range b.fires {
		it := &b.sub.items()[k]
		switch it.Code {
		case format.CodeOK:
			n.counters.timersFired.Add(1)
			n.counters.timerLate.Observe(int64(b.sub.flight.header.W - b.due[i].head.Due))
		case format.CodeGone: // cancelled, rescheduled or fired meanwhile
		case format.CodeStaleEvidence:
			n.counters.staleEvidence.Add(1) // looked up again in the next batch
		case format.CodeLimit:
			b.off = append(b.off, putOff{timer: i, reason: "the queue takes no more: its maxSize or a limit of the state is reached", counted: true})
		case format.CodeEncryption:
			b.putOff(i, n.errUnsealed().Message)
		default:
			e := errOfCode(it.Code)
			b.off = append(b.off, putOff{timer: i, reason: e.Message, counted: !passing(e.Code)})
		}
	}
	return len(b.off) == 0 || b.settleOff()
}

// settleOff proposes what becomes of the timers that did not fire.
func (b *fireRun) settleOff() bool {
	n, s := b.n, newSubmission(consumption)
	for i := range b.off {
		o := &b.off[i]
		p := &b.due[o.timer]
		if dead, ok := b.dead(o); ok {
			s.buf.AddTimer(&dead)
			n.counters.timersRefused.Add(1)
			continue
		}
		cmd := format.Timer{Tenant: p.tenant, Op: format.TimerFailed, Queue: viewBytes(p.queue), Key: viewBytes(p.key), Due: o.until,
			Version: p.head.Version, Reason: viewBytes(o.reason), Counted: o.counted}
		if o.until == 0 {
			cmd.Due = n.wall() + format.Wall(putOffFor(p.head.Attempts).Microseconds())
			n.counters.timersRefused.Add(1)
		}
		s.buf.AddTimer(&cmd)
	}
	if !n.house.commit(s) {
		return true // the next turn holds
	}
	for _, it := range s.items() {
		switch status := s.flight.results.Timers[it.At].Status; {
		case it.Code == format.CodeOK && status == format.TimerFiled:
			n.counters.deadLettered.Add(1)
		case it.Code != format.CodeOK && it.Code != format.CodeGone:
			return false
		}
	}
	return true
}

// putOffFor is how long a fire is put off that was refused so often before.
func putOffFor(attempts uint32) time.Duration {
	return min(putOffFirst<<min(attempts, 16), putOffMost)
}
