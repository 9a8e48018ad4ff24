package engine

import (
	"cmp"
	"errors"
	"slices"

	"queen/engine/format"
	"queen/engine/logstore"
	"queen/engine/logstore/rows"
)

// compacted is a frame that waits to be written.
type compacted struct {
	v     format.StoredFrame
	edit  compactEdit
	class endClass
	queue format.QueueID
}

// compactEdit is what a pass wants of a row.
type compactEdit struct {
	rows.Edited
	end  format.Offset // of the row
	dead int           // dead letters that point into it, all respected
}

// add takes a frame, and writes those that wait when they are many.
func (c *compactor) add(f compacted) error {
	c.buffer = append(c.buffer, f)
	size := len(f.v.Frame) + frameOverhead
	c.bytes, c.left = c.bytes+size, c.left-int64(size)
	if err := c.v.pacer.spend(size); err != nil {
		return err
	}
	if c.bytes < compactFlush {
		return nil
	}
	return c.flush()
}

// flush writes the frames that wait, class by class, in the order of their entries, which is that of bulk segments.
func (c *compactor) flush() error {
	slices.SortStableFunc(c.buffer, func(a, b compacted) int {
		return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.v.Index, b.v.Index))
	})
	for len(c.buffer) > 0 {
		class := c.buffer[0].class
		c.copier.out = &bulkOutput{c: &c.copier}
		for len(c.buffer) > 0 && c.buffer[0].class == class {
			f := &c.buffer[0]
			to, err := c.copier.out.add(&f.v, f.queue)
			switch {
			case errors.Is(err, logstore.ErrTooLarge): // segments were larger when it was written
				c.giveBack(f.edit.Partition, f.edit.Base)
			case err != nil:
				return err
			default:
				f.edit.Segment, f.edit.Pos = format.SegmentID(to.Segment), to.Pos
				c.edits = append(c.edits, f.edit)
			}
			c.buffer = c.buffer[1:]
		}
		if err := c.copier.out.finish(); err != nil {
			return err
		}
	}
	c.buffer, c.bytes = nil, 0
	return nil
}

// giveBack gives up the edits of a partition from an offset on: what comes later rests on what comes before.
func (c *compactor) giveBack(id format.PartitionID, from format.Offset) {
	if at, ok := c.back[id]; !ok || from < at {
		c.back[id] = from
	}
}

// settled are the edits that stand, in the order of partitions and offsets.
func (c *compactor) settled() []compactEdit {
	slices.SortFunc(c.edits, func(a, b compactEdit) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Base, b.Base))
	})
	edits := slices.DeleteFunc(c.edits, func(e compactEdit) bool {
		from, ok := c.back[e.Partition]
		return ok && e.Base >= from
	})
	for i := range c.queues {
		for k := range c.queues[i].parts {
			p := &c.queues[i].parts[k]
			if from, ok := c.back[p.id]; ok {
				p.heldFrom = min(p.heldFrom, from)
			}
		}
	}
	c.edits = edits
	return edits
}
