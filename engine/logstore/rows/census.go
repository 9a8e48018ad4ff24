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
//     Base on.
//
// INVARIANT: every segment a row of the run names is in the census; it may name more (TestModel).
const firstPartition format.PartitionID = 64

// census is the parsed form. Both lists ascend.
type census struct {
	segments []format.SegmentID
	numbers  []numberRange
}

// numberRange says that rows lo..hi-1 of a raft group were in the segments that a run covers.
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
	for i := range c.numbers {
		if n := &c.numbers[i]; n.group == g {
			n.lo, n.hi = min(n.lo, lo), max(n.hi, hi)
			return
		}
	}
	c.numbers = append(c.numbers, numberRange{g, lo, hi})
	slices.SortFunc(c.numbers, func(a, b numberRange) int { return int(a.group) - int(b.group) })
}

func (c *census) merge(o *census) {
	for _, s := range o.segments {
		c.addSegment(s)
	}
	for _, n := range o.numbers {
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
	for i := range c.numbers {
		if c.numbers[i].group == g {
			return c.numbers[i], true
		}
	}
	return n, false
}
