package engine

import (
	"queen/engine/batch"
	"queen/engine/format"
	"queen/engine/logstore/rows"
)

// batchLimits bound what is decompressed of a stored batch: more than any producer is let store.
var batchLimits = batch.Limits{Bytes: format.MaxFrameRaw, Records: format.MaxOrdinals}

// walkBatch walks the records of a record batch as native readers see them: in their JSON form (S-x-2), created when
// they were appended, named by their place. first is the place of the first record.
func (f *frameReader) walkBatch(body []byte, first format.Place, r *rows.Row, from, to format.Offset, fn func(rec *Record) bool) error {
	var room []byte // of payloads; what was handed out is not written again
	return batch.Records(body, batchLimits, func(b *batch.Record) bool {
		offset := r.Base + format.Offset(b.OffsetDelta)
		if offset < from {
			return true
		}
		if offset >= to {
			return false
		}
		start := len(room)
		room = batch.AppendEnvelope(room, b)
		place := first
		place.Ordinal += format.Ordinal(b.OffsetDelta)
		id := f.n.identity.messageID(r.W, place)
		f.rec = Record{ID: id, TransactionID: id.String(), Offset: offset, CreatedAt: r.W, Payload: room[start:len(room):len(room)]}
		return fn(&f.rec)
	})
}

// undelivered says that a transactional batch was aborted, or is not decided yet.
func (f *frameReader) undelivered(body []byte, r *rows.Row) bool {
	h, err := batch.ParseHeader(body)
	if err != nil {
		return false // the walk over its records says what is wrong
	}
	producer := format.ProducerID(h.ProducerID)
	f.n.state.RLock()
	defer f.n.state.RUnlock()
	if f.n.state.m.Undecided(r.Partition, producer, r.Base) {
		return true
	}
	return f.n.state.m.IsAborted(r.Partition, producer, r.Base)
}
