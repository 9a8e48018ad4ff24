package rows

import (
	"slices"

	"queen/engine/format"
)

// The census of a run is what must be known of it without reading it: its first rows, of partitions
// that can not exist (a partition's counter is at least 1).
//
//   - Partition 0: one row per segment that rows of the run may lie in; Base and Segment are its number.
//   - Partition g (1 to 63): the row numbers of raft group g that the run covers, Count of them from
//     Base on. Count 0: they are not known, since rows were made again from relocated frames.
//
// INVARIANT: every segment a row of the run names is in the census; it may name more (TestModel).
const firstPartition format.PartitionID = 64

// census is the parsed form. Both lists ascend.
type census struct {
	segments []format.SegmentID
	numbers  []numberRange
}

// numberRange says that rows lo..hi-1 of a raft group were in the segments that a run covers; hi 0: it is
// not known which.
type numberRange struct {
	group  format.RaftGroup
	lo, hi uint64
}

func (c *census) addSegment(s format.SegmentID) {
	if i, found := slices.BinarySearch(c.segments, s); !found {
		c.segments = slices.Insert(c.segments, i, s)
	}
}

func (c *census) addNumbers(g format.RaftGroup, lo, hi uint64) {
	if lo >= hi {
		return
	}
	n := c.number(g)
	switch {
	case n == nil:
		c.putNumbers(numberRange{g, lo, hi})
	case n.hi > 0:
		n.lo, n.hi = min(n.lo, lo), max(n.hi, hi)
	}
}

// forgetNumbers says that the run has rows of a raft group whose numbers are not known. Then no other may
// be: a look-up would take a number below them for one of an older run.
func (c *census) forgetNumbers(g format.RaftGroup) {
	if n := c.number(g); n != nil {
		n.lo, n.hi = 0, 0
		return
	}
	c.putNumbers(numberRange{group: g})
}

func (c *census) number(g format.RaftGroup) *numberRange {
	for i := range c.numbers {
		if c.numbers[i].group == g {
			return &c.numbers[i]
		}
	}
	return nil
}

func (c *census) putNumbers(n numberRange) {
	c.numbers = append(c.numbers, n)
	slices.SortFunc(c.numbers, func(a, b numberRange) int { return int(a.group) - int(b.group) })
}

func (c *census) merge(o *census) {
	for _, s := range o.segments {
		c.addSegment(s)
	}
	for _, n := range o.numbers {
		if n.hi == 0 {
			c.forgetNumbers(n.group)
		}
		c.addNumbers(n.group, n.lo, n.hi)
	}
}

// each gives the census as rows; at is a time inside the run's.
func (c *census) each(at format.Wall, emit func(r *format.Row) error) error {
	for _, s := range c.segments {
		if err := emit(&format.Row{Base: format.Offset(s), Segment: s, Created: at}); err != nil {
			return err
		}
	}
	for _, n := range c.numbers {
		r := format.Row{
			Partition: format.PartitionID(n.group), Base: format.Offset(n.lo), Count: uint32(n.hi - n.lo), Created: at,
		}
		if err := emit(&r); err != nil {
			return err
		}
	}
	return nil
}

// take reads one row of the census.
func (c *census) take(r *format.Row) {
	if r.Partition == 0 {
		c.segments = append(c.segments, r.Segment)
		return
	}
	lo := uint64(r.Base)
	c.numbers = append(c.numbers, numberRange{format.RaftGroup(r.Partition), lo, lo + uint64(r.Count)})
}

// of returns the numbers of a raft group that the run covers.
func (c *census) of(g format.RaftGroup) (n numberRange, ok bool) {
	if n := c.number(g); n != nil {
		return *n, true
	}
	return n, false
}
