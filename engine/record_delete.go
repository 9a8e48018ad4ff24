package engine

import (
	"context"

	"queen/engine/format"
)

// DeleteRecords implements Records. All of one queue travel in one command; each answer holds for itself.
func (r recordsDoor) DeleteRecords(ctx context.Context, c Caller, at []FetchAt) ([]RecordOffset, error) {
	n := r.n
	if len(at) > maxRecordPositions {
		return nil, errPositions()
	}
	out := make([]RecordOffset, len(at))
	trims := map[format.QueueID]*format.Trim{}
	var order []format.QueueID
	for i := range at {
		out[i].Timestamp = -1
		part, err := n.trimPoint(c, &at[i], &out[i].Offset)
		if out[i].Err = err; err != nil {
			continue
		}
		t := trims[part.Queue]
		if t == nil {
			t = &format.Trim{Queue: part.Queue}
			trims[part.Queue], order = t, append(order, part.Queue)
		}
		t.Items = append(t.Items, format.TrimItem{Partition: part.id, Upto: out[i].Offset})
	}
	if len(order) == 0 {
		return out, nil
	}
	s := newSubmission(consumption)
	for _, id := range order {
		s.buf.AddTrim(trims[id])
	}
	if err := n.commit(ctx, s); err != nil {
		return nil, err
	}
	defer s.flight.release()
	failed := map[format.QueueID]*Error{}
	for i, it := range s.items() {
		failed[order[i]] = errOfCode(it.Code)
	}
	for i := range at {
		if out[i].Err != nil {
			continue
		}
		part, _, ok := n.partByName(c.Tenant, at[i].Queue, at[i].Partition)
		if !ok {
			out[i].Err = errOfCode(format.CodeUnknownPartition)
			continue
		}
		if out[i].Err = failed[part.Queue]; out[i].Err == nil {
			start, err := n.logStart(&part)
			if err != nil {
				out[i].Err = errRead(err)
			}
			out[i].Found, out[i].Offset = true, start
		}
	}
	return out, nil
}

// trimPoint finds the partition, and up to where it is trimmed.
func (n *Node) trimPoint(c Caller, at *FetchAt, upto *format.Offset) (partView, *Error) {
	if err := checkNames(at.Queue, at.Partition, "partition"); err != nil {
		return partView{}, err
	}
	part, queueExists, ok := n.partByName(c.Tenant, at.Queue, at.Partition)
	switch {
	case !queueExists:
		return part, errOfCode(format.CodeUnknownQueue)
	case !ok:
		return part, errOfCode(format.CodeUnknownPartition)
	case at.Offset == DeleteToEnd:
		*upto = part.next
	case at.Offset > part.next:
		return part, errRange()
	default:
		*upto = at.Offset
	}
	return part, nil
}
