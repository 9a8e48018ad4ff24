package engine

import (
	"errors"
	"maps"
	"slices"
	"time"

	"queen/engine/format"
	"queen/engine/invariants"
	"queen/engine/logstore"
	"queen/engine/logstore/rows"
)

var failRelocateCopied = invariants.Register("engine.relocate.frames-copied")

// mover finds segments that can go, and copies what is still needed of them into bulk segments. One pass
// is under way at a time, in a goroutine of its own; what it found is made true by the files' goroutine
// (relocate_commit.go), which is the only one that changes the manifest and the index.
//
// INVARIANT: a pass takes away nothing and changes nothing that counts: it adds bulk segments to which no
// row leads yet.
type mover struct {
	n *Node

	// Of the pass under way; passes follow each other through files.mu.
	looks     map[uint32]*look
	countFrom int64 // mono; no rows are counted before
	nextBulk  uint32
	pacer     pacer

	compactor compactor
	moved     bool // the pass before relocated something: it is the compactor's turn
}

// look is what is known of a segment from earlier passes.
type look struct {
	m       *measured
	next    int64 // mono; its sidecar is not looked at before
	count   int64 // mono; its rows are not counted before
	pause   time.Duration
	blocked int64 // mono; something in it can not be read: it stays until then
}

const (
	// lookEvery is how long a change that no clock tells of (an option, a deletion) may go unnoticed.
	lookEvery = time.Minute
	// countEvery and countSeldom bound the pauses between counts of the rows of a segment of which the
	// sidecar says that it is live: only trims make the two differ. They double.
	countEvery  = time.Minute
	countSeldom = 64 * time.Minute
	// countShare is how many times as long as a count took none is made: all the segments that wait are
	// counted together, because it reads the rows of all segments that were merged with them.
	countShare = 20
	// countBytes is how many bytes of segments are counted in one pass, or one segment: what the pass has found dead
	// waits for its end. Twenty segments took 50 s, in which 3 GB of dead log came together.
	countBytes = 512 << 20
	// blockedFor is how long a segment is left alone that could not be read to its end.
	blockedFor = time.Hour
)

// relocated is what a pass found and did.
type relocated struct {
	dead  []uint32           // no live frame, and nothing else needs them
	gone  []format.SegmentID // their live frames were copied
	moved []rows.Moved
	after []uint32 // dead segments that go when those in gone have
	empty []uint32 // segments in gone that stay, for the outcomes in them
	// orphans are bulk segments that a pass finished before it failed.
	orphans []uint32
	edits   []compactEdit // of a pass that moved nothing else
	further bool          // the compactor came further in a partition, and not to its end
	more    bool          // the budget left something
	err     error
}

func newMover(n *Node, quit <-chan struct{}) *mover {
	v := &mover{n: n, looks: map[uint32]*look{}, pacer: pacer{n: n, quit: quit}}
	v.compactor.v = v
	return v
}

// candidates are the segments of the commit stream that may go as far as the log is concerned: closed, and
// at or below the floor. The newest one stays whatever it is, and the newest one that is sealed: as long as the manifest
// lists it, a segment that is missing below it was given up and not lost.
func (f *files) candidates(floor format.Index) (list []logstore.SegmentInfo) {
	segments := f.n.seq.Log().Segments()
	for i := range segments {
		s := &segments[i]
		if !s.Sealed || i == len(segments)-1 || !segments[i+1].Sealed || !f.isClosed(s.Segment) || lastOf(s, f.n.seq.Group()) > floor {
			break
		}
		list = append(list, *s)
	}
	return list
}

// pass does one pass over the segments.
func (v *mover) pass(log []logstore.SegmentInfo) *relocated {
	bulks := v.n.seq.Log().Bulks()
	v.forget(log, bulks)
	p := &relocationPlan{now: v.n.wall(), segmentBytes: v.n.cfg.SegmentBytes, blocked: v.isBlocked}
	r := &relocated{}
	if r.err = v.measure(slices.Concat(log, bulks)); r.err != nil {
		return r
	}
	v.tellDead()
	if p.budget, r.err = v.budget(); r.err != nil {
		return r
	}
	var stream []logSegment
	for i := range log {
		stream = append(stream, ofLog(v.looks[log[i].Segment].m, &log[i], v.n.seq.Group()))
	}
	p.log(stream)
	var all []*measured
	for i := range bulks {
		all = append(all, v.looks[bulks[i].Segment].m)
	}
	p.bulks(all)
	r.dead, r.after, r.empty, r.more = p.dead, p.after, p.empty, p.more
	if r.err = v.compactor.look(log); r.err != nil {
		return r
	}
	if len(p.move) > 0 && !(v.moved && v.compactor.isDue()) {
		v.moved = true
		c := copier{v: v, r: r, sources: p.move}
		r.err = c.run()
		invariants.Failpoint(failRelocateCopied)
		return r
	}
	v.moved, r.more = false, r.more || len(p.move) > 0
	r.err = v.compactor.pass(r, p.budget)
	return r
}

// tellDead has the counters say what the segments that were looked at take beyond what is live in them.
func (v *mover) tellDead() {
	d := deadBytes{at: v.n.wall()}
	for _, l := range v.looks {
		d.bytes += uint64(max(l.m.alloc-l.m.live, 0))
	}
	v.n.counters.dead.Store(&d)
}

// forget drops what is known of segments that are gone.
func (v *mover) forget(lists ...[]logstore.SegmentInfo) {
	there := map[uint32]bool{}
	for _, list := range lists {
		for i := range list {
			there[list[i].Segment] = true
		}
	}
	for s := range v.looks {
		if !there[s] {
			delete(v.looks, s)
		}
	}
}

func (v *mover) isBlocked(segment uint32) bool {
	l := v.looks[segment]
	return l != nil && v.n.cfg.Clock.Mono() < l.blocked
}

// block leaves a segment where it is for a while.
func (v *mover) block(segment uint32, why error) {
	v.n.event("segment stays where it is: it can not be read to its end", why)
	if l := v.looks[segment]; l != nil {
		l.blocked = v.n.cfg.Clock.Mono() + blockedFor.Microseconds()
	}
}

// recount has the rows of a segment counted by the next pass. No pass is under way.
func (v *mover) recount(segment uint32) {
	if l := v.looks[segment]; l != nil {
		l.next, l.count, l.pause = 0, 0, countEvery
	}
}

// relocateSegments bounds the live bytes that one pass copies, in segments.
const relocateSegments = 2

// budget is how many live bytes a pass may copy: not more than fit on the disk beside what the log wants.
func (v *mover) budget() (int64, error) {
	space, err := v.n.cfg.FS.Free(v.n.cfg.Dir)
	if err != nil {
		return 0, err
	}
	most := relocateSegments * v.n.cfg.SegmentBytes
	if space.Total <= 0 {
		return most, nil
	}
	return max(0, min(most, space.Available-v.n.cfg.SegmentBytes)), nil
}

// measure brings what is known of the segments up to date.
func (v *mover) measure(segments []logstore.SegmentInfo) error {
	now := v.n.cfg.Clock.Mono()
	dying, count := map[format.SegmentID]*measured{}, map[format.SegmentID]*measured{}
	for i := range segments {
		s := &segments[i]
		l := v.looks[s.Segment]
		if l == nil {
			l = &look{m: &measured{segment: s.Segment, alloc: s.Bytes, live: s.Used}, count: now + countEvery.Microseconds(), pause: countEvery}
			v.looks[s.Segment] = l
		}
		if l.m.isDead() || now < l.next {
			continue
		}
		bound, err := v.bound(s)
		if err != nil {
			return err
		}
		stale := !l.m.exact || bound.live < l.m.retained()
		fresh := &measured{segment: s.Segment, alloc: s.Bytes, exact: true}
		if stale && bound.live == 0 {
			// What was known stays until it is shown that nothing pins its frames, or they are counted.
			dying[format.SegmentID(s.Segment)] = fresh
			l.next = now + v.n.cfg.RetentionEvery.Microseconds()
			continue
		}
		if stale {
			l.m = bound
		}
		l.next = now + v.pause(bound.soonest()).Microseconds()
		if now >= l.count {
			count[format.SegmentID(s.Segment)] = fresh
		}
	}
	if len(dying) > 0 {
		if err := v.unpinned(dying); err != nil {
			return err
		}
		maps.Copy(count, dying)
	}
	if len(count) == 0 || now < v.countFrom {
		return nil
	}
	trimCount(count, dying)
	return v.count(count)
}

// trimCount leaves of what is to be counted as much as one pass counts: those that die first, then the oldest.
func trimCount(count, dying map[format.SegmentID]*measured) {
	bytes := int64(0)
	order := slices.Sorted(maps.Keys(count))
	slices.SortStableFunc(order, func(a, b format.SegmentID) int {
		switch dies := dying[a] != nil; {
		case dies == (dying[b] != nil):
			return 0
		case dies:
			return -1
		}
		return 1
	})
	for _, s := range order {
		if size := count[s].alloc; bytes > 0 && bytes+size > countBytes {
			delete(count, s)
		} else {
			bytes += size
		}
	}
}

// pause is how long nothing of a segment can have ended by time.
func (v *mover) pause(soonest format.Wall) time.Duration {
	if soonest == 0 {
		return lookEvery
	}
	left := time.Duration(soonest-v.n.wall()) * time.Microsecond
	return min(max(left, v.n.cfg.RetentionEvery), lookEvery)
}

// bound is what the sidecar says of a segment: at most that much is live.
func (v *mover) bound(s *logstore.SegmentInfo) (*measured, error) {
	side, err := v.n.files.readSidecar(s)
	if err != nil {
		return nil, err
	}
	m := &measured{segment: s.Segment, alloc: s.Bytes}
	v.n.state.RLock()
	defer v.n.state.RUnlock()
	for i := range side.Queues {
		q := &side.Queues[i]
		view, ok := v.n.state.m.QueueByID(q.Queue)
		if !ok || q.NewestW < view.Cutoff {
			continue
		}
		d := verdict{class: classOf(view.Expiry), expiry: view.Expiry}
		if view.Expiry > 0 {
			d.ends = q.NewestW + view.Expiry
		}
		m.add(&d, int64(q.Bytes))
	}
	return m, nil
}

// count counts the rows of segments against the state, each index file once.
func (v *mover) count(of map[format.SegmentID]*measured) error {
	j := judge{n: v.n}
	began := v.n.cfg.Clock.Mono()
	var last rows.Row
	err := v.n.files.runs.WalkAll(func(s format.SegmentID) bool { return of[s] != nil }, func(r *rows.Row) error {
		if err := v.pacer.spend(rowCost); err != nil {
			return err
		}
		if d := j.frame(r); d.live && !sameFrame(r, &last) {
			of[format.SegmentID(r.Segment)].add(&d, int64(r.Len))
			last = *r
		}
		return nil
	})
	if err != nil {
		return err
	}
	now := v.n.cfg.Clock.Mono()
	v.countFrom = now + countShare*(now-began)
	for s, m := range of {
		l := v.looks[uint32(s)]
		l.m = m
		l.count = now + l.pause.Microseconds()
		l.pause = min(2*l.pause, countSeldom)
	}
	return nil
}

// rowCost is what looking at a row counts of the pace, bytes.
const rowCost = 64

// sameFrame says that two rows are of one frame: files split large ones of which messages were refused.
func sameFrame(a, b *rows.Row) bool {
	return a.Partition == b.Partition && a.Segment == b.Segment && a.Pos == b.Pos && a.Off == b.Off
}

// errStopping ends a pass when the node stops.
var errStopping = errors.New("engine: the node is stopping")

// pacer bounds the bytes per second of background work. It is used by one goroutine.
type pacer struct {
	n     *Node
	quit  <-chan struct{}
	bytes int
}

// spend counts bytes and waits when many were spent; errStopping when the node stops.
func (p *pacer) spend(bytes int) error {
	select {
	case <-p.quit:
		return errStopping
	default:
	}
	if p.bytes += bytes; p.bytes < p.n.cfg.pace {
		return nil
	}
	p.bytes = 0
	t := p.n.cfg.Clock.NewTimer(paceEvery)
	defer t.Stop()
	select {
	case <-t.C():
		return nil
	case <-p.quit:
		return errStopping
	}
}
