package engine

import (
	"fmt"
	"slices"

	"queen/engine/format"
	"queen/engine/invariants"
	"queen/engine/logstore/rows"
)

// Failpoints of what follows a pass of the compactor, in order.
var (
	failCompactListed = invariants.Register("engine.compact.bulk-listed")
	failCompactRows   = invariants.Register("engine.compact.rows-replaced")
)

// unpinned looks again, right before the rows change, whether consumer groups took something under a lease or filed dead
// letters since the pass looked: what they have stays, and all that comes behind it in the partition.
func (c *compactor) unpinned(edits []compactEdit) []compactEdit {
	clear(c.back)
	var part judgedPartition
	for i := range edits {
		e := &edits[i]
		if part.id != e.Partition {
			part = c.v.n.judgedPartition(e.Partition)
		}
		taken := slices.ContainsFunc(part.held, func(h offsetRange) bool {
			known := slices.ContainsFunc(c.held[e.Partition], func(k offsetRange) bool { return k.from <= h.from && h.to <= k.to })
			return !known && e.end > h.from && e.Base < h.to
		})
		if !taken && part.dead {
			c.v.n.state.RLock()
			taken = len(c.v.n.state.m.DeadLettersAt(e.Partition, e.Base, e.end, e.dead+1)) > e.dead
			c.v.n.state.RUnlock()
		}
		if taken {
			c.giveBack(e.Partition, e.Base)
		}
	}
	if len(c.back) == 0 {
		return edits
	}
	c.edits = edits
	return c.settled()
}

// replaceCompacted leads look-ups to the batches that the compactor wrote. First both manifest files name the bulk segments,
// as for a relocation.
func (f *files) replaceCompacted(r *relocated) error {
	c := &f.mover.compactor
	r.edits = c.unpinned(r.edits)
	if len(r.edits) == 0 {
		return nil
	}
	for range 2 {
		if err := f.saveManifest(); err != nil {
			return err
		}
	}
	invariants.Failpoint(failCompactListed)
	edits := make([]rows.Edited, len(r.edits))
	from := map[format.SegmentID]bool{}
	for i := range r.edits {
		edits[i] = r.edits[i].Edited
		from[edits[i].From] = true
	}
	if err := f.editRows(edits); err != nil {
		return fmt.Errorf("engine: compaction: %w", err)
	}
	invariants.Failpoint(failCompactRows)
	for s := range from {
		f.mover.recount(uint32(s))
	}
	f.n.cfg.Log.Info("records compacted", "frames", len(edits))
	return nil
}

// editRows changes the rows, and has the bytes of their partitions counted anew: a count of more than there is would remove
// something too early.
func (f *files) editRows(edits []rows.Edited) error {
	z := &f.n.house.sizes
	z.mu.Lock()
	defer z.mu.Unlock()
	for i := range edits {
		delete(z.counts, edits[i].Partition)
	}
	return f.runs.EditRows(edits, f.liveSegments())
}
