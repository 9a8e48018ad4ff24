package rows

import (
	"fmt"
	"slices"

	"queen/engine/format"
)

// Forget removes the runs, and forgets the gaps, none of whose segments is live any more. Rows of
// reclaimed segments in other runs stay: whether a message is retained is not judged here.
func (x *Runs) Forget(live func(s format.SegmentID) bool) error {
	x.background.Lock()
	defer x.background.Unlock()
	l := x.acquire()
	defer l.release()
	var dead []*run
	for _, r := range l.runs {
		if !slices.ContainsFunc(r.census.segments, live) {
			dead = append(dead, r)
		}
	}
	x.cancelMerge(func(r *run) bool { return slices.Contains(dead, r) })
	if err := x.remove(dead); err != nil {
		return err
	}
	x.swap(func(runs []*run, lost []Gap) ([]*run, []Gap) {
		runs = slices.DeleteFunc(runs, func(r *run) bool { return slices.Contains(dead, r) })
		return runs, slices.DeleteFunc(lost, func(g Gap) bool { return !g.live(live) })
	})
	return nil
}

func (g *Gap) live(live func(s format.SegmentID) bool) bool {
	for n := uint64(g.First); n <= uint64(g.Last); n++ {
		if live(format.SegmentID(n)) {
			return true
		}
	}
	return false
}

// inside reports whether the range lies in first..last; err when it does so in part.
func inside(name string, a, b, first, last uint32) (bool, error) {
	if b < first || a > last {
		return false, nil
	}
	if a < first || b > last {
		return false, fmt.Errorf("rows: %s reaches beyond %d to %d", name, first, last)
	}
	return true, nil
}
