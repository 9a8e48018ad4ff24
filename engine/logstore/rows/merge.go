package rows

import (
	"slices"

	"queen/engine/format"
	"queen/engine/logstore/runfile"
)

// Merge does one unit of background work, if there is any: it merges the oldest Fanout neighbours of
// one tier into one run. What relocation left of old runs is merged again while it is small. When Merge
// returns the result is durable and its inputs are removed. It reports whether there may be more to do.
// After an error nothing has changed but for files that the next Open removes.
func (x *Runs) Merge() (again bool, err error) {
	x.background.Lock()
	defer x.background.Unlock()
	l := x.acquire()
	defer l.release()
	inputs := l.mergeable(x.opts.Fanout)
	if inputs == nil {
		return false, nil
	}
	r, err := x.mergeRuns(inputs)
	if err != nil {
		return false, err
	}
	x.swap(func(runs []*run, lost []Gap) ([]*run, []Gap) {
		i := slices.Index(runs, inputs[0])
		return slices.Replace(runs, i, i+len(inputs), r), lost
	})
	return true, x.remove(inputs)
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

// mergeRuns writes the run of all segments that the inputs cover.
func (x *Runs) mergeRuns(inputs []*run) (*run, error) {
	var c census
	sources := make([]runfile.Source[format.Row], len(inputs))
	for i, r := range inputs {
		c.merge(&r.census)
		sources[i] = x.source(r)
	}
	w, err := x.create(inputs[0].first, inputs[len(inputs)-1].last, &c, inputs[0].file.Trailer.Low)
	if err != nil {
		return nil, err
	}
	err = runfile.Merge(sources, lessRow, func(i int, r *format.Row) error {
		return w.add(r, inputs[i].backTo(r))
	})
	if err != nil {
		return nil, w.abort(err)
	}
	return w.finish()
}
