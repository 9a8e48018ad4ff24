package engine

import (
	"context"
	"slices"

	"queen/engine/format"
)

// sizeWindow is how many offsets are looked at a time: at most as many rows are in memory.
const sizeWindow = 4096

// PartitionSize implements Inspect.
func (in inspector) PartitionSize(ctx context.Context, who Caller, queue, partition string, keep uint64) (PartitionSize, error) {
	part, queueExists, ok := in.n.partByName(who.Tenant, queue, partition)
	switch {
	case !queueExists:
		return PartitionSize{}, errOfCode(format.CodeUnknownQueue)
	case !ok:
		return PartitionSize{}, errOfCode(format.CodeUnknownPartition)
	}
	start, err := in.n.logStart(&part)
	if err != nil {
		return PartitionSize{}, errRead(err)
	}
	size, frame := PartitionSize{From: part.next}, [3]uint32{}
	for to := part.next; to > start; {
		if ctx.Err() != nil {
			return size, errContext(ctx, OutcomeNone)
		}
		from := start
		if to-start > sizeWindow {
			from = to - sizeWindow
		}
		found, err := in.n.rows.Range(part.id, from, to, part.newest)
		if err != nil {
			return size, errRead(err)
		}
		for _, r := range slices.Backward(found) {
			if r.Base >= size.From { // it reached into the window before this one
				continue
			}
			if at := [3]uint32{r.Segment, r.Pos, r.Off}; at != frame { // a frame may have several rows
				size.Bytes += uint64(r.Len)
				frame = at
			}
			if size.From = max(r.Base, start); keep > 0 && size.Bytes >= keep {
				return size, nil
			}
		}
		if to = from; len(found) == 0 {
			if to, err = in.n.before(part.id, nil, start, from, part.newest); err != nil {
				return size, errRead(err)
			}
		}
	}
	size.From = start
	return size, nil
}
