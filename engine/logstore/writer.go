package logstore

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"queen/engine/format"
	"queen/engine/invariants"
	"queen/engine/vfs"
)

// Failpoints of the writer, in the order in which an extent and a seal pass them.
var (
	failExtentPlanned = invariants.Register("logstore.extent.planned")
	failExtentWritten = invariants.Register("logstore.extent.written")
	failExtentAcked   = invariants.Register("logstore.extent.before-ack")
	failFooterPlanned = invariants.Register("logstore.seal.before-footer")
	failFooterWritten = invariants.Register("logstore.seal.footer-written")
)

// writer owns the commit stream. Everything in it belongs to whoever holds the role of writing, except the queue:
// a caller of Append that finds the role free takes it, writes its own extent without waking anybody, and leaves
// what came meanwhile to the writer's goroutine, which writes on until nothing is left. A hand-over costs up to a
// third of a flush where cores are idle, and a caller that came alone would pay two.
//
// INVARIANT: one extent is outstanding on the whole node: writeExtent returns before the next is planned, and
// one goroutine holds the role. That at most the last extent of the log can be torn rests on it
// (TestCrashAtEveryOperation, TestOneWriterAtATime).
type writer struct {
	s *Store

	queue struct {
		sync.Mutex
		wake    *sync.Cond // the goroutine may have to do something
		waiting []*saver
		held    bool // somebody has the role
		handed  bool // it is the goroutine's, which has not seen it yet
		closing bool
		failed  error
	}
	done chan struct{}

	seg    *segment
	file   vfs.File
	plan   plan
	active []*saver
	order  map[replicaKey][]*saver // savers not planned to their end, by replica, in order of arrival
	begun  int64                   // sum of rest over the active savers

	rollPending bool
	rate        struct{ used, at int64 } // of the segment, when noteRate looked last
	beacon      beaconWriter
	fatal       error // to be reported by the goroutine
}

func newWriter(s *Store) *writer {
	w := &writer{s: s, done: make(chan struct{}), order: map[replicaKey][]*saver{}}
	w.queue.wake = sync.NewCond(&w.queue)
	w.plan.lanes = map[replicaKey]*lane{}
	return w
}

// submit makes a saver durable: by its caller, or by whoever writes already. It blocks while the disk does.
func (w *writer) submit(v *saver) error {
	w.queue.Lock()
	switch {
	case w.queue.failed != nil:
		defer w.queue.Unlock()
		return fmt.Errorf("%w: %w", ErrFailed, w.queue.failed)
	case w.queue.closing:
		w.queue.Unlock()
		return ErrClosed
	}
	w.queue.waiting = append(w.queue.waiting, v)
	lead := !w.queue.held
	w.queue.held = true
	w.queue.Unlock()
	if lead {
		w.writeUntil(func() bool { return v.answered })
		w.handOver()
	}
	return <-v.done
}

// writeUntil writes what waits until nothing does or enough says so. The caller holds the role.
func (w *writer) writeUntil(enough func() bool) {
	for !enough() && w.collect() {
		if err := w.s.failed.Load(); err != nil { // killed
			w.fail(*err)
			return
		}
		err := w.step()
		if errors.Is(err, ErrClosed) {
			w.abandon() // closed while the pool was empty: what waits was not written
			return
		}
		if err != nil {
			w.fail(err)
			return
		}
	}
}

// handOver gives the role up: to the goroutine if there is something to do.
func (w *writer) handOver() {
	w.queue.Lock()
	defer w.queue.Unlock()
	if w.queue.handed = len(w.active) > 0 || len(w.queue.waiting) > 0 || w.queue.closing; w.queue.handed {
		w.queue.wake.Signal()
	} else {
		w.queue.held = false
	}
}

// run is the goroutine: it writes what callers leave over, reports a failure, and shuts down.
func (w *writer) run() {
	defer close(w.done)
	defer w.stopBeacon()
	for !w.own() {
		w.writeUntil(never)
		w.handOver()
	}
	w.writeUntil(never)
	if w.s.failed.Load() == nil { // a failed store writes nothing any more
		w.stopBeacon()
		if err := w.shutDown(); err != nil {
			w.fail(err)
		}
	}
	if w.fatal != nil {
		w.s.opts.Fatal(w.fatal)
	}
}

func never() bool { return false }

// own waits for the role; closing says that it is for good.
func (w *writer) own() (closing bool) {
	w.queue.Lock()
	defer w.queue.Unlock()
	for !w.queue.handed && (w.queue.held || !w.queue.closing) {
		w.queue.wake.Wait()
	}
	w.queue.held, w.queue.handed = true, false
	return w.queue.closing
}

// collect takes over what waits; false when nothing does.
func (w *writer) collect() bool {
	w.queue.Lock()
	defer w.queue.Unlock()
	for _, v := range w.queue.waiting {
		w.enter(v)
	}
	clear(w.queue.waiting)
	w.queue.waiting = w.queue.waiting[:0]
	return len(w.active) > 0
}

// step writes one extent, or makes room for it.
func (w *writer) step() error {
	w.planExtent()
	if w.plan.empty() {
		w.plan.reset()
		if w.rollPending {
			return w.roll()
		}
		return nil
	}
	if err := w.writeExtent(); err != nil {
		return err
	}
	invariants.Failpoint(failExtentAcked)
	for i := range w.plan.items {
		if v := w.plan.items[i].saver; v != nil && v.next == len(v.pieces) {
			w.answer(v, nil)
		}
	}
	w.noteRate()
	return w.beaconDue()
}

// noteRate tells the pool when the segment fills fast, looking at each eighth of it.
func (w *writer) noteRate() {
	eighth := w.seg.size() / 8
	if w.seg.used-w.rate.used < eighth {
		return
	}
	now := w.s.opts.Clock.Mono()
	if now-w.rate.at < busySegment.Microseconds()*(w.seg.used-w.rate.used)/w.seg.size() {
		w.s.pool.grow()
	}
	w.rate.used, w.rate.at = w.seg.used, now
}

// writeExtent encodes the plan, writes it behind the last extent, and shows it to readers. It is durable
// when it returns.
func (w *writer) writeExtent() error {
	invariants.Failpoint(failExtentPlanned)
	g := w.seg
	buf := w.s.tail.buffer(int(w.plan.size()))
	head := format.ExtentHead{
		Segment: g.head.Segment, Number: g.extents + 1, Nonce: g.head.Nonce, Previous: w.previous(),
		Records: uint32(len(w.plan.items)), Boot: w.s.boot,
	}
	full := format.FinishExtent(w.plan.encode(buf[:format.ExtentHeadSize]), &head)
	if len(full) != len(buf) || &full[0] != &buf[0] {
		invariants.Fail("logstore: extent of %d bytes was planned as %d", len(full), len(buf))
	}
	start := w.s.opts.Clock.Mono()
	if err := w.file.WriteAtSync(buf, g.used); err != nil {
		return fmt.Errorf("logstore: write extent %d of %s: %w", head.Number, g.name, err)
	}
	took := w.s.opts.Clock.Mono() - start
	w.s.stats.wrote(len(buf), took)
	if f := w.s.opts.Events.Flushed; f != nil {
		f(len(buf), time.Duration(took)*time.Microsecond)
	}
	invariants.Failpoint(failExtentWritten)
	w.publish(buf, head.Checksum())
	return nil
}

// previous is the checksum that the next extent repeats.
func (w *writer) previous() uint64 {
	if w.seg.extents > 0 {
		return w.seg.sum
	}
	return w.s.chainBefore
}

// publish makes a durable extent visible to readers. It goes the way that loading goes.
func (w *writer) publish(buf []byte, sum uint64) {
	g, pos := w.seg, uint32(w.seg.used)
	w.s.tail.add(g.seq(), pos, buf)
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	for i := range w.plan.items {
		it := &w.plan.items[i]
		head, err := format.ParseRecordHead(buf[it.pos:])
		var entry EntryPos
		if err == nil {
			body := buf[it.pos+format.RecordHeadSize:][:head.Length]
			entry, err = w.s.apply(place{g, pos + uint32(it.pos)}, &head, body)
			w.s.heads.wrote(g.seq(), pos+uint32(it.pos), &head)
		}
		if err != nil {
			invariants.Fail("logstore: own record at %d of %s does not apply: %v", pos+uint32(it.pos), g.name, err)
		}
		if it.piece != nil && it.piece.kind == pieceEntry && !entry.IsZero() {
			it.piece.save.Placed[it.piece.at] = entry
		}
	}
	g.used += int64(len(buf))
	g.extents++
	g.sum = sum
}

// abandon answers everything that waits with ErrClosed. The open segment is sealed already.
func (w *writer) abandon() {
	for _, v := range w.active {
		w.answer(v, ErrClosed)
	}
	w.active = nil
}

func (w *writer) answer(v *saver, err error) {
	if !v.answered {
		v.answered = true
		v.done <- err
	}
}

// refuse answers a saver of which nothing was planned.
func (w *writer) refuse(v *saver, err error) {
	w.leave(v)
	w.answer(v, err)
}

// roll seals the segment and begins the next one.
func (w *writer) roll() error {
	invariants.Check(w.begun == 0, "logstore: seal of %s inside a record", w.seg.name)
	if err := w.seal(); err != nil {
		return err
	}
	w.rollPending = false
	return w.begin(format.SegmentID(w.seg.seq() + 1))
}

// begin takes a file from the pool and makes it the segment that is written.
func (w *writer) begin(id format.SegmentID) error {
	head := format.SegmentHead{
		Segment: id, Nonce: w.s.opts.Rand.Uint64(), Disk: w.s.disk, Size: uint64(w.s.opts.SegmentBytes), Boot: w.s.boot,
	}
	g := newSegment(w.s.opts.Dir, head)
	f, err := w.s.pool.take(&head)
	if err != nil {
		return fmt.Errorf("logstore: begin %s: %w", g.name, err)
	}
	if w.seg != nil {
		w.s.chainBefore = w.previous()
	}
	g.file, g.pins = f, 1 // the writer's
	w.seg, w.file = g, f
	w.rate.used, w.rate.at = g.used, w.s.opts.Clock.Mono()
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	w.s.segments = append(w.s.segments, g)
	return nil
}

// seal writes the footer at the end of the file.
func (w *writer) seal() error {
	g := w.seg
	footer := w.s.encodeFooter(g)
	pos := g.size() - int64(len(footer))
	invariants.Check(pos >= g.used, "logstore: footer of %s begins at %d, before %d", g.name, pos, g.used)
	invariants.Failpoint(failFooterPlanned)
	if err := w.file.WriteAtSync(footer, pos); err != nil {
		return fmt.Errorf("logstore: seal %s: %w", g.name, err)
	}
	invariants.Failpoint(failFooterWritten)
	w.s.mu.Lock()
	g.sealed = true
	in := g.info()
	w.s.mu.Unlock()
	w.s.handles.adopt(g)
	if f := w.s.opts.Events.Sealed; f != nil {
		f(in)
	}
	return nil
}

// shutDown writes what was kept in memory, seals what was written and makes the beacon durable.
func (w *writer) shutDown() error {
	w.plan.reset()
	if w.planCommits(); len(w.plan.items) > 0 && !w.seg.sealed && w.fitsCommits() {
		if err := w.writeExtent(); err != nil {
			return err
		}
	}
	if w.seg.extents > 0 && !w.seg.sealed {
		if err := w.seal(); err != nil {
			return err
		}
	}
	return w.writeBeacon(true)
}

// fitsCommits reports that an extent of commit indexes fits in front of the footer. If it does not they
// are lost, which raft allows.
func (w *writer) fitsCommits() bool {
	return w.seg.used+w.plan.size()+w.footerRoom() <= w.seg.size()
}

// fail is the end: nothing is tried again, everybody learns it. The goroutine reports it: Fatal ends the process, and
// a caller that wrote for itself must not be in the middle of that.
func (w *writer) fail(err error) {
	if w.s.markFailed(err) {
		w.fatal = err
	}
	w.queue.Lock()
	waiting := w.queue.waiting
	w.queue.waiting = nil
	w.queue.closing = true // the goroutine ends
	w.queue.Unlock()
	answer := fmt.Errorf("%w: %w", ErrFailed, err)
	for i := range w.plan.items { // savers planned to their end have left active
		if v := w.plan.items[i].saver; v != nil {
			w.answer(v, answer)
		}
	}
	for _, v := range append(w.active, waiting...) {
		w.answer(v, answer)
	}
	w.active = nil
}
