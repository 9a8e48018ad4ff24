package engine

import (
	"errors"

	"queen/engine/format"
	"queen/engine/logstore/rows"
)

// pinsMost bounds the leases and dead letters that are looked up one by one to say that segments are not
// needed any more. With more of them the segments' rows are counted.
const pinsMost = 1 << 14

// pin is what holds frames that retention took: a lease, or a dead letter.
type pin struct {
	part     format.PartitionID
	from, to format.Offset
	newest   uint64 // row of the partition
}

// unpinned finds out which of the segments, of whose frames retention took all, nothing else holds, and
// leaves the others. The cost is that of the pins and not of the rows there are.
//
// No pin comes to a frame that retention took: it is delivered to nobody any more, and only what was
// delivered becomes a dead letter. Leases are read before dead letters, because the one becomes the other.
func (v *mover) unpinned(dying map[format.SegmentID]*measured) error {
	pins, ok := v.pins()
	if !ok {
		return nil
	}
	held := map[uint32]bool{}
	var found []rows.Row
	for i := range pins {
		p := &pins[i]
		if err := v.pacer.spend(pinCost); err != nil {
			return err
		}
		var err error
		if found, err = v.n.rows.AppendRange(found[:0], p.part, p.from, p.to, p.newest); err != nil {
			if errors.Is(err, rows.ErrAhead) {
				return nil // the next pass finds it
			}
			return err
		}
		for i := range found {
			held[found[i].Segment] = true
		}
	}
	for s, m := range dying {
		if !held[uint32(s)] {
			v.looks[uint32(s)].m = m
			delete(dying, s)
		}
	}
	return nil
}

// pinCost is what looking a pin up counts of the pace, bytes: a block of rows.
const pinCost = format.BlockSize

// pins lists what may hold a frame; false when there are too many, or one's rows can not be named.
func (v *mover) pins() (pins []pin, ok bool) {
	v.n.state.RLock()
	defer v.n.state.RUnlock()
	m := v.n.state.m
	add := func(part format.PartitionID, from, to format.Offset) bool {
		row, known := m.NewestRow(part)
		ok = known && len(pins) < pinsMost
		pins = append(pins, pin{part, from, to, row})
		return ok
	}
	ok = true
	m.LeasedRanges(add)
	if ok {
		m.DeadAddresses(func(part format.PartitionID, at format.Offset) bool { return add(part, at, at+1) })
	}
	return pins, ok
}
