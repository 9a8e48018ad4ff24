package engine

import (
	"queen/engine/batch"
	"queen/engine/format"
	"queen/engine/logstore/rows"
)

// movedRecord completes the append of a dead letter that Kafka produced and makes its frame: the record alone in a batch,
// with its key, headers, those of its move and time, since the JSON that native readers see can not say all of it. nil is a
// native message. only is the consumer group that it is for, "" for every one.
func (n *Node) movedRecord(t format.Tenant, dead *DeadLetter, only string, a *format.Append) ([]byte, *Error) {
	if dead.Timer != "" {
		return nil, nil
	}
	part, ok := n.partByID(t, dead.PartitionID)
	if !ok {
		return nil, errOfCode(format.CodeGone)
	}
	at := dead.Message.Offset
	row, ok, err := n.rows.At(part.id, at, part.newest)
	switch {
	case err != nil:
		return nil, errRead(err)
	case !ok || row.Base > at:
		return nil, errOfCode(format.CodeGone)
	case row.Flags&rows.Kafka == 0:
		return nil, nil
	}
	reader := frameReader{n: n}
	raw, _, err := reader.frame(&row)
	if err != nil {
		return nil, errRead(err)
	}
	_, body, err := n.openStored(raw, part.id, &reader.scratch)
	if err != nil {
		return nil, errRead(err)
	}
	if body == nil {
		return nil, errOfCode(format.CodeGone) // with its partition
	}
	one, ok, err := batch.Single(nil, body, int32(at-row.Base), batchLimits, func(r *batch.Record) {
		r.Headers = movedRecordHeaders(r.Headers, &dead.Message, only)
	})
	if err != nil {
		return nil, errRead(err)
	}
	if !ok {
		return nil, errOfCode(format.CodeGone)
	}
	h, err := batch.ParseHeader(one)
	if err != nil {
		return nil, errRead(err)
	}
	a.Frame = format.FrameKafka
	if refused := batchHead(&RecordBatch{}, &h, &a.Batch); refused != nil {
		return nil, refused
	}
	return format.EncodeKafkaFrame(nil, 1, one), nil
}
