package engine

import (
	"errors"
	"fmt"
	"slices"

	"queen/engine/format"
	"queen/engine/invariants"
	"queen/engine/logstore/rows"
)

// Failpoints of what follows a pass, in order.
var (
	failRelocateListed  = invariants.Register("engine.relocate.bulk-listed")
	failRelocateRows    = invariants.Register("engine.relocate.rows-replaced")
	failRelocateThinned = invariants.Register("engine.relocate.rows-thinned")
)

// startPass begins to look for segments that can go, unless a pass is under way or what it found still
// waits. A node that stops begins none.
func (f *files) startPass() error {
	f.mu.Lock()
	busy := f.mu.passing || f.mu.passed != nil
	f.mu.Unlock()
	if busy || f.images > 0 || f.isStopping() || !f.mayReclaim(f.n.cfg.Clock.Mono()) {
		return nil
	}
	floor, err := f.raiseFloor()
	if err != nil || floor == 0 {
		return err
	}
	log := f.candidates(floor)
	f.mu.Lock()
	f.mu.passing = true
	f.mu.Unlock()
	f.done.Add(1)
	go func() {
		defer f.done.Done()
		r := f.mover.pass(log)
		f.mu.Lock()
		f.mu.passing, f.mu.passed = false, r
		f.mu.Unlock()
		f.poke()
	}()
	return nil
}

func (f *files) isStopping() bool {
	select {
	case <-f.quit:
		return true
	default:
		return false
	}
}

// finishPass makes true what a pass found. A full disk leaves what is not done for the next turn; after any
// other error the next pass finds what is left to do.
func (f *files) finishPass() error {
	f.mu.Lock()
	r := f.mu.passed
	f.mu.Unlock()
	if r == nil || f.isStopping() {
		return nil // copies to which no row leads are given away by the next life
	}
	useful := len(r.dead)+len(r.gone)+len(r.edits) > 0 || r.further
	err := f.settlePass(r)
	f.postponed = isNoSpace(err)
	if !f.postponed {
		f.mu.Lock()
		f.mu.passed = nil
		f.mu.Unlock()
		if (r.more || r.further) && useful && err == nil {
			f.reclaimed = 0 // the next pass need not wait, since this one made room for it
			f.poke()
		}
	}
	return err
}

// settlePass goes from what frees space to what may need some. Each step can be repeated.
func (f *files) settlePass(r *relocated) error {
	if err := f.passFailed(r); err != nil {
		return err
	}
	dead := append(r.dead, r.orphans...)
	if len(dead) > 0 {
		if err := f.giveUp(dead); err != nil {
			return err
		}
		r.dead, r.orphans = nil, nil
	}
	if len(r.gone) > 0 {
		if err := f.replaceRows(r); err != nil {
			return err
		}
		gone := r.after
		for _, s := range r.gone {
			if !slices.Contains(r.empty, uint32(s)) {
				gone = append(gone, uint32(s))
			}
		}
		if err := f.giveUp(gone); err != nil {
			return err
		}
		for _, s := range r.empty {
			f.mover.recount(s)
		}
		r.gone, r.moved, r.after = nil, nil, nil
	}
	if len(r.edits) > 0 {
		if err := f.replaceCompacted(r); err != nil {
			return err
		}
		r.edits = nil
	}
	again, err := f.runs.Thin(f.liveSegments())
	if again {
		invariants.Failpoint(failRelocateThinned)
		f.poke()
	}
	return err
}

// passFailed says what the error of a pass means: the end of the node, or that it is tried again. What the
// pass found before stands.
func (f *files) passFailed(r *relocated) error {
	err := r.err
	r.err = nil
	if err == nil {
		return nil
	}
	r.gone, r.moved, r.after, r.empty, r.edits = nil, nil, nil, nil, nil
	switch {
	case errors.Is(err, errStopping):
		return nil
	case isNoSpace(err):
		f.n.event("relocation postponed", err)
		return nil
	}
	return err
}

// indexDamage makes a damaged index file again from the log. Where that is not possible look-ups that need
// the file fail by name, and segments stay.
func (f *files) indexDamage(err error) error {
	var damage *rows.DamageError
	if !errors.As(err, &damage) {
		return err
	}
	r := restorer{n: f.n, f: f}
	again := r.remakeRun(rows.Gap{First: damage.First, Last: damage.Last, Err: damage.Err})
	if again == nil {
		f.n.event("row index damaged, made again from the log", err)
		return f.saveManifest()
	}
	if isNoSpace(again) {
		return again
	}
	f.n.event("segments stay: a row index can not be read, nor made again", errors.Join(err, again))
	return nil
}

// replaceRows leads look-ups to the copies. First both manifest files name the bulk segments: whichever is
// read later, what rows lead to is known to have to be there.
func (f *files) replaceRows(r *relocated) error {
	for range 2 {
		if err := f.saveManifest(); err != nil {
			return err
		}
	}
	invariants.Failpoint(failRelocateListed)
	if err := f.runs.ReplaceSegments(r.gone, r.moved, f.liveSegments()); err != nil {
		return fmt.Errorf("engine: relocation: %w", err)
	}
	invariants.Failpoint(failRelocateRows)
	f.n.cfg.Log.Info("frames relocated", "segments", len(r.gone), "rows", len(r.moved))
	return nil
}

// liveSegments tells the segments that are there, of either kind.
func (f *files) liveSegments() func(format.SegmentID) bool {
	live := map[format.SegmentID]bool{}
	for _, s := range f.n.seq.Log().Segments() {
		live[format.SegmentID(s.Segment)] = true
	}
	for _, s := range f.n.seq.Log().Bulks() {
		live[format.SegmentID(s.Segment)] = true
	}
	return func(s format.SegmentID) bool { return live[s] }
}

// origins are the segments of the commit stream in which frames of bulk segments were born.
func (f *files) origins() map[format.SegmentID]bool {
	born := map[format.SegmentID]bool{}
	for _, b := range f.n.seq.Log().Bulks() {
		for _, s := range b.Replaces {
			if !s.IsBulk() {
				born[s] = true
			}
		}
	}
	return born
}

// firstBulk is a number above that of every bulk segment that is there or that some row may still name.
func (f *files) firstBulk() uint32 {
	next := uint32(1)
	for _, s := range f.n.seq.Log().Bulks() {
		next = max(next, format.SegmentID(s.Segment).Number()+1)
	}
	for _, s := range f.runs.Segments() {
		if s.IsBulk() {
			next = max(next, s.Number()+1)
		}
	}
	return next
}
