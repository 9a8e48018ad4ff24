package rows

import (
	"math"
	"slices"

	"queen/engine/format"
	"queen/engine/logstore/runfile"
)

// merge is a merge under way. It is a user of its inputs.
type merge struct {
	inputs []*run
	rows   *runfile.Merger[format.Row]
	w      *runWriter
}

// Merge does one unit of background work, if there is any: it merges Options.MergeRows rows of the oldest Fanout
// neighbours of one tier into one run. What relocation left of old runs is merged again while it is small. With the
// last of them the result is durable and the inputs are removed. It reports whether there may be more to do. What
// replaces or removes an input between two calls ends the merge, and the one after it is done in one call, so that
// relocation does not put merges off for ever. After an error nothing has changed but for files that the next Open
// removes.
func (x *Runs) Merge() (again bool, err error) {
	x.background.Lock()
	defer x.background.Unlock()
	b := &x.background
	if b.merge == nil {
		if b.merge, err = x.beginMerge(); b.merge == nil {
			return false, err
		}
	}
	most := x.opts.MergeRows
	if b.cancelled {
		most = math.MaxInt
	}
	done, err := b.merge.step(most)
	if err == nil && !done {
		return true, nil
	}
	m := b.merge
	b.merge, b.cancelled = nil, false
	defer m.release()
	if err != nil {
		return false, m.w.abort(err)
	}
	r, err := m.w.finish()
	if err != nil {
		return false, err
	}
	x.swap(func(runs []*run, lost []Gap) ([]*run, []Gap) {
		i := slices.Index(runs, m.inputs[0])
		return slices.Replace(runs, i, i+len(m.inputs), r), lost
	})
	return true, x.remove(m.inputs)
}

// beginMerge returns nil when nothing is to be merged.
func (x *Runs) beginMerge() (*merge, error) {
	l := x.acquire()
	defer l.release()
	inputs := l.mergeable(x.opts.Fanout)
	if inputs == nil {
		return nil, nil
	}
	var c census
	sources := make([]runfile.Source[format.Row], len(inputs))
	for i, r := range inputs {
		c.merge(&r.census)
		sources[i] = x.source(r)
	}
	rows, err := runfile.NewMerger(sources, lessRow)
	if err != nil {
		return nil, err
	}
	w, err := x.create(inputs[0].first, inputs[len(inputs)-1].last, &c, inputs[0].file.Trailer.Low)
	if err != nil {
		return nil, err
	}
	for _, r := range inputs {
		r.file.Retain()
	}
	return &merge{inputs: inputs, rows: rows, w: w}, nil
}

// step merges up to so many rows.
func (m *merge) step(most int) (done bool, err error) {
	for range most {
		r, i, err := m.rows.Next()
		if err != nil || r == nil {
			return err == nil, err
		}
		if err := m.w.add(r, m.inputs[i].backTo(r)); err != nil {
			return false, err
		}
	}
	return false, nil
}

func (m *merge) release() {
	for _, r := range m.inputs {
		r.file.Release()
	}
}

// cancelMerge ends the merge under way when one of its inputs is hit: what it has written is not true any more. The
// caller holds background.
func (x *Runs) cancelMerge(hit func(r *run) bool) {
	b := &x.background
	if b.merge == nil || !slices.ContainsFunc(b.merge.inputs, hit) {
		return
	}
	b.merge.w.w.Abort()
	b.merge.release()
	b.merge, b.cancelled = nil, true
}

// tier is how often the rows of a run were merged: 0 to lastTier. It goes by the segments covered, which
// are numbered without gap. In tierThin are runs of which so little is left that they are merged
// however often they were: their number is bounded by bytes, and not by how long the log has been.
func (r *run) tier(fanout int) int {
	covered, full := int(r.last-r.first)+1, fanout
	for t := range lastTier {
		if covered < full {
			return t
		}
		full *= fanout
	}
	if r.file.Size < thinBytes {
		return tierThin
	}
	return lastTier
}

const (
	lastTier  = 3
	tierThin  = 4
	thinBytes = 1 << 20
)

// mergeable finds the oldest runs to merge: fanout neighbours of one tier that is not the last, with nothing lost
// between them.
func (l *list) mergeable(fanout int) []*run {
	count := 0
	for i, r := range l.runs {
		if i > 0 && (r.tier(fanout) != l.runs[i-1].tier(fanout) || l.gapBetween(l.runs[i-1].last, r.first)) {
			count = 0
		}
		if r.tier(fanout) == lastTier {
			continue
		}
		if count++; count == fanout {
			return slices.Clone(l.runs[i+1-fanout : i+1])
		}
	}
	return nil
}

func (l *list) gapBetween(last, first uint32) bool {
	return slices.ContainsFunc(l.lost, func(g Gap) bool { return g.First < first && g.Last > last })
}
