package engine

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"path"
	"time"

	"queen/engine/format"
	"queen/engine/invariants"
	"queen/engine/logstore"
	"queen/engine/logstore/rows"
	"queen/sidecar"
)

// Failpoints of reclaim, in order.
var (
	failReclaimListed = invariants.Register("engine.reclaim.unlisted")
	failReclaimLog    = invariants.Register("engine.reclaim.segments-given-away")
)

// floorKeeper is a sequencer that keeps raft's floor in the log.
type floorKeeper interface {
	// SaveFloor says durably that no entry at or below i is needed for replay.
	SaveFloor(i format.Index) error
}

// recountEvery is how often a live segment's rows are counted against the state at most.
const recountEvery = time.Minute

// reclaim gives away segments in which nothing is retained, in the order that the design asserts: dead
// by state, the floor past it, the older checkpoint less eight marks past it, the id runs up to there
// durable. The oldest go first and none is passed over: a segment holds outcomes of the one before.
func (f *files) reclaim() error {
	now := f.n.cfg.Clock.Mono()
	if !f.mayReclaim(now) {
		return nil
	}
	floor, err := f.raiseFloor()
	if err != nil || floor == 0 {
		return err
	}
	segments := f.n.seq.Log().Segments()
	var dead []uint32
	for i := range segments {
		s := &segments[i]
		if !s.Sealed || i == len(segments)-1 || !f.isClosed(s.Segment) || lastOf(s, f.n.seq.Group()) > floor {
			break
		}
		gone, err := f.isDead(s, now)
		if err != nil {
			return err
		}
		if !gone {
			break
		}
		dead = append(dead, s.Segment)
	}
	if len(dead) == 0 {
		return nil
	}
	return f.giveUp(dead)
}

// mayReclaim spaces passes.
func (f *files) mayReclaim(now int64) bool {
	if f.reclaimed != 0 && now-f.reclaimed < f.n.cfg.RetentionEvery.Microseconds() {
		return false
	}
	f.reclaimed = max(now, 1)
	return true
}

// raiseFloor moves the floor up to eight marks before the older checkpoint and returns it; 0 while two
// checkpoints are not kept, since then only the log backs the one there is.
func (f *files) raiseFloor() (format.Index, error) {
	g := f.group()
	if len(g.Checkpoints) < keptPositions {
		return 0, nil
	}
	older := g.Checkpoints[len(g.Checkpoints)-1]
	floor := format.Index(0)
	for _, m := range g.Marks {
		if m.Number+marksBehind == older.Mark {
			floor = m.Index
		}
	}
	if floor == 0 || !f.idsDurable(older.Mark-marksBehind) {
		return g.Floor, nil
	}
	keeper, ok := f.n.seq.(floorKeeper)
	if !ok || floor <= g.Floor {
		return g.Floor, nil
	}
	if err := keeper.SaveFloor(floor); err != nil {
		return g.Floor, err
	}
	g.Floor = floor
	return floor, nil
}

// isDead reports that no frame of a segment is retained and no dead letter points into it. The sidecar
// answers for what time retention took; only then, or now and then because of trims, rows are counted.
func (f *files) isDead(s *logstore.SegmentInfo, now int64) (bool, error) {
	side, err := f.readSidecar(s)
	if err != nil {
		return false, err
	}
	if f.retains(&side) {
		if last, ok := f.recounted[s.Segment]; ok && now-last < recountEvery.Microseconds() {
			return false, nil
		}
		f.recounted[s.Segment] = now
	}
	err = f.runs.Walk(format.SegmentID(s.Segment), func(row *rows.Row) error {
		if f.isLive(row) {
			return errLive
		}
		return nil
	})
	if errors.Is(err, errLive) {
		return false, nil
	}
	return err == nil, err
}

var errLive = errors.New("a frame is retained")

// retains reports that time retention left something of the segment, as far as queues tell.
func (f *files) retains(side *sidecar.Sidecar) bool {
	f.n.state.RLock()
	defer f.n.state.RUnlock()
	for _, q := range side.Queues {
		if v, ok := f.n.state.m.QueueByID(q.Queue); ok && q.NewestW >= v.Cutoff {
			return true
		}
	}
	return false
}

// isLive judges one frame by the state: not trimmed, not before the cutoff, or pinned.
func (f *files) isLive(row *rows.Row) bool {
	f.n.state.RLock()
	defer f.n.state.RUnlock()
	m := f.n.state.m
	if start, cutoff, ok := m.Retained(row.Partition); ok && row.End() > start && row.W >= cutoff {
		return true
	}
	return len(m.DeadLettersAt(row.Partition, row.Base, row.End(), 1)) > 0
}

// giveUp lets go of segments: both manifest files stop listing them, then the log, then what was
// derived of them.
func (f *files) giveUp(dead []uint32) error {
	for _, s := range dead {
		f.giveAway[s] = true
	}
	for range 2 {
		if err := f.saveManifest(); err != nil {
			return err
		}
	}
	invariants.Failpoint(failReclaimListed)
	if err := f.n.seq.Log().Reclaim(dead...); err != nil {
		return err
	}
	invariants.Failpoint(failReclaimLog)
	f.n.cfg.Log.Info("segments reclaimed", "first", dead[0], "last", dead[len(dead)-1])
	f.mu.Lock()
	for _, s := range dead {
		delete(f.mu.closed, s)
		delete(f.giveAway, s)
		delete(f.recounted, s)
	}
	f.mu.Unlock()
	for _, s := range dead {
		name := path.Join(f.n.cfg.Dir, sidecar.FileName(format.SegmentID(s)))
		if err := f.n.cfg.FS.Remove(name); err != nil && !errors.Is(err, iofs.ErrNotExist) {
			return fmt.Errorf("engine: reclaim: %w", err)
		}
	}
	return f.forget()
}

// forget removes index files that lead to no segment any more.
func (f *files) forget() error {
	live := map[format.SegmentID]bool{}
	for _, s := range f.n.seq.Log().Segments() {
		live[format.SegmentID(s.Segment)] = true
	}
	return f.runs.Forget(func(s format.SegmentID) bool { return live[s] })
}
