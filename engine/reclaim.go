package engine

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"path"
	"slices"

	"queen/engine/format"
	"queen/engine/invariants"
	"queen/sidecar"
)

// Failpoints of reclaim, in order.
var (
	failReclaimListed = invariants.Register("engine.reclaim.unlisted")
	failReclaimLog    = invariants.Register("engine.reclaim.segments-given-away")
)

// floorKeeper is a sequencer that keeps raft's floor in the log.
type floorKeeper interface {
	// SaveFloor says durably that no entry at or below i is needed for replay, and returns the floor: lower than i while others
	// need what lies between.
	SaveFloor(i format.Index) (format.Index, error)
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
		if m.Number == keptFrom(older.Mark) {
			floor = m.Index
		}
	}
	if floor == 0 || !f.idsDurable(keptFrom(older.Mark)) {
		return g.Floor, nil
	}
	keeper, ok := f.n.seq.(floorKeeper)
	if !ok || floor <= g.Floor {
		return g.Floor, nil
	}
	saved, err := keeper.SaveFloor(floor)
	if err != nil {
		return g.Floor, err
	}
	g.Floor = max(g.Floor, saved)
	return g.Floor, nil
}

// giveUp lets go of segments of either kind, in the order that the design asserts: no frame in them is
// needed by the state, or rows lead to a copy; the floor is past them, with the older checkpoint less
// eight marks and the id runs up to there (raiseFloor). Both manifest files stop listing them, then the log
// does, then what was derived of them goes.
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
	there := f.liveSegments()
	left := slices.DeleteFunc(slices.Clone(dead), func(s uint32) bool { return !there(format.SegmentID(s)) })
	if err := f.n.seq.Log().Reclaim(left...); err != nil { // all of them, unless a full disk stopped it half way
		return err
	}
	invariants.Failpoint(failReclaimLog)
	f.n.cfg.Log.Info("segments reclaimed", "count", len(dead))
	f.mover.compactor.reclaim++
	f.mu.Lock()
	for _, s := range dead {
		delete(f.mu.closed, s)
		delete(f.giveAway, s)
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

// forget removes index files that lead to no segment any more. Those of segments in which frames were born
// that have moved are needed as long as the copies.
func (f *files) forget() error {
	there, origins := f.liveSegments(), f.origins()
	return f.runs.Forget(func(s format.SegmentID) bool { return there(s) || origins[s] })
}
