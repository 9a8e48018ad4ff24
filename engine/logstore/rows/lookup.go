package rows

import (
	"errors"
	"sort"
	"sync/atomic"

	"queen/engine/format"
)

// errLost is why a gap can not be looked through.
var errLost = errors.New("the run that covers these segments is lost")

// list is the runs that count at a moment, ascending by the segments they cover. It never changes;
// look-ups hold one while they read.
type list struct {
	runs  []*run
	lost  []Gap
	users atomic.Int64
}

// Gap is a range of closed segments of which the index is lost.
type Gap struct {
	First, Last uint32
	// Err says why.
	Err error
}

// acquire returns the current list; release it.
func (x *Runs) acquire() *list {
	x.mu.RLock()
	defer x.mu.RUnlock()
	x.mu.list.users.Add(1)
	return x.mu.list
}

func (l *list) release() {
	if l.users.Add(-1) == 0 {
		for _, r := range l.runs {
			r.file.Release()
		}
	}
}

// at returns the newest run that covers t or something below it, -1 when there is none. It is an error
// if what lies between can not be known.
func (l *list) at(t uint64) (int, error) {
	i := sort.Search(len(l.runs), func(i int) bool { return uint64(l.runs[i].first) > t }) - 1
	for k := range l.lost {
		g := &l.lost[k]
		if uint64(g.First) <= t && (i < 0 || g.First > l.runs[i].last) {
			return 0, &DamageError{File: runName(g.First, g.Last), First: g.First, Last: g.Last, Err: g.Err}
		}
	}
	return i, nil
}

// last is the newest segment covered, 0 when none is.
func (l *list) last() uint32 {
	if len(l.runs) == 0 {
		return 0
	}
	return l.runs[len(l.runs)-1].last
}

// newest is a number above every run's.
const newest = uint64(1) << 32

// covering returns a number at or above that of the run which holds row number n of raft group g.
func (l *list) covering(g format.RaftGroup, n uint64) uint64 {
	if n == PrevUnknown {
		return newest
	}
	t := newest
	for i := len(l.runs) - 1; i >= 0; i-- {
		c, ok := l.runs[i].census.of(g)
		switch {
		case !ok:
		case n >= c.hi:
			return t
		case n >= c.lo:
			return uint64(l.runs[i].last)
		default:
			t = uint64(l.runs[i].first) - 1
		}
	}
	return t
}

// place is where a search ended: the newest run, index in the list, that holds a row of the partition
// at or below the offset (-1: none), and the lowest row above those in it, if a newer run has one.
type place struct {
	run      int
	above    format.Row
	hasAbove bool
}

// locate searches the runs from number t down. A partition's offsets rise from run to run, so it
// bisects; where a run knows nothing of the partition it follows the way back from newer ones, which
// leaves out the runs that do not hold it.
func (l *list) locate(pid format.PartitionID, off format.Offset, t uint64) (p place, err error) {
	low := -1
	high, err := l.at(t)
	for err == nil && high > low {
		var found presence
		var first format.Row
		if found, err = l.probe(high, pid, off, &first); err != nil || found == held {
			break
		}
		if high, err = l.down(high, found, &first, &p); err != nil || high <= low {
			break
		}
		mid := low + (high-low)/2
		if mid <= low || mid == high {
			continue
		}
		switch found, err = l.probe(mid, pid, off, &first); {
		case err != nil || found == absent:
		case found == held:
			low = mid
		default:
			high, err = l.down(mid, found, &first, &p)
		}
	}
	p.run = max(high, low)
	return p, err
}

func (l *list) probe(i int, pid format.PartitionID, off format.Offset, first *format.Row) (presence, error) {
	found, err := l.runs[i].probe(pid, off, first)
	return found, l.runs[i].damage(err)
}

// down is the run to look at after run i, which has nothing at or below the offset.
func (l *list) down(i int, found presence, first *format.Row, p *place) (int, error) {
	t := uint64(l.runs[i].first) - 1
	if found == above {
		p.above, p.hasAbove = *first, true
		t = min(t, l.runs[i].backTo(first))
	}
	if t == 0 {
		return -1, nil
	}
	return l.at(t)
}

// collect appends, newest first, the rows of pid that hold offsets of [from, to), from the run of row
// number n down.
func (x *Runs) collect(out []Row, pid format.PartitionID, from, to format.Offset, n uint64) ([]Row, error) {
	if from >= to {
		return out, nil
	}
	l := x.acquire()
	defer l.release()
	p, err := l.locate(pid, to-1, l.covering(pid.RaftGroup(), n))
	for i := p.run; err == nil && i >= 0; {
		var t uint64
		if out, t, err = l.runs[i].collect(out, pid, from, to); err != nil || t == 0 {
			err = l.runs[i].damage(err)
			break
		}
		i, err = l.at(t)
	}
	return out, err
}

// collect appends what the run holds, and returns the number from which to go on, 0 when done.
func (r *run) collect(out []Row, pid format.PartitionID, from, to format.Offset) ([]Row, uint64, error) {
	older := uint64(r.first) - 1
	var row format.Row
	c, ok, err := r.seek(pid, to-1)
	if err != nil {
		return out, 0, err
	}
	if !ok || c.partition() != pid {
		found, err := r.probe(pid, to-1, &row)
		if err == nil && found == above {
			older = min(older, r.backTo(&row))
		}
		return out, older, err
	}
	for {
		if err := c.row(&row); err != nil {
			return out, 0, err
		}
		if row.Base+format.Offset(row.Count) > from {
			out = append(out, ofFormat(&row))
		}
		if row.Base <= from {
			return out, 0, nil
		}
		if ok, err = c.back(); err != nil {
			return out, 0, err
		}
		if !ok || c.partition() != pid {
			return out, min(older, r.backTo(&row)), nil
		}
	}
}

// at returns the row of pid that holds offset from, or else the first one above it, in the run of row
// number n or older ones.
func (x *Runs) at(pid format.PartitionID, from format.Offset, n uint64) (row Row, ok bool, err error) {
	l := x.acquire()
	defer l.release()
	p, err := l.locate(pid, from, l.covering(pid.RaftGroup(), n))
	if err != nil {
		return Row{}, false, err
	}
	if p.run >= 0 {
		if row, ok, err = l.runs[p.run].at(pid, from); err != nil || ok {
			return row, ok, l.runs[p.run].damage(err)
		}
	}
	if !p.hasAbove {
		return Row{}, false, nil
	}
	return ofFormat(&p.above), true, nil
}

// at returns the row that holds from, or else the next one in the run.
func (r *run) at(pid format.PartitionID, from format.Offset) (Row, bool, error) {
	var row format.Row
	c, ok, err := r.seek(pid, from)
	if err != nil || !ok || c.partition() != pid {
		return Row{}, false, err
	}
	if err := c.row(&row); err != nil || row.Base+format.Offset(row.Count) > from {
		return ofFormat(&row), err == nil, err
	}
	if ok, err = c.next(); err != nil || !ok || c.partition() != pid {
		return Row{}, false, err
	}
	if err := c.row(&row); err != nil {
		return Row{}, false, err
	}
	return ofFormat(&row), true, nil
}
