package engine

import (
	"context"

	"queen/engine/format"
)

// RecordOffsets implements Records.
func (r recordsDoor) RecordOffsets(ctx context.Context, c Caller, qs []RecordOffsetQuery) ([]RecordOffset, error) {
	if len(qs) > maxRecordPositions {
		return nil, errPositions()
	}
	if r.n.closing() {
		return nil, errClosed()
	}
	out := make([]RecordOffset, len(qs))
	for i := range qs {
		if ctx.Err() != nil {
			return nil, errContext(ctx, OutcomeNone)
		}
		out[i].Timestamp = -1
		r.offset(c, &qs[i], &out[i])
	}
	return out, nil
}

func (r recordsDoor) offset(c Caller, q *RecordOffsetQuery, out *RecordOffset) {
	n := r.n
	if out.Err = checkNames(q.Queue, q.Partition, "partition"); out.Err != nil {
		return
	}
	part, queueExists, ok := n.partByName(c.Tenant, q.Queue, q.Partition)
	switch {
	case !queueExists:
		out.Err = errOfCode(format.CodeUnknownQueue)
		return
	case !ok:
		out.Err = errOfCode(format.CodeUnknownPartition)
		return
	}
	end, stable := part.next, part.stable
	if q.Committed {
		end = min(end, stable)
	}
	switch q.Kind {
	case RecordEarliest:
		start, err := n.logStart(&part)
		if err != nil {
			out.Err = errRead(err)
			return
		}
		out.Found, out.Offset = true, start
	case RecordLatest:
		out.Found, out.Offset = true, end
	case RecordStable:
		out.Found, out.Offset = true, stable
	case RecordAtTime, RecordMaxTime, RecordOfEpoch:
		out.Err = errNotBuilt()
	default:
		out.Err = errBad("kind", "", "unknown kind of offset query")
	}
}
