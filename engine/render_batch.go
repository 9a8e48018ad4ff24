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

// undelivered says that a transactional batch was aborted, or is not decided yet. What went after the reader looked
// counts as such: nobody knows any more whether it was aborted.
func (f *frameReader) undelivered(body []byte, r *rows.Row) bool {
	h, err := batch.ParseHeader(body)
	if err != nil {
		return false // the walk over its records says what is wrong
	}
	producer := format.ProducerID(h.ProducerID)
	f.n.state.RLock()
	defer f.n.state.RUnlock()
	m := f.n.state.m
	return !m.Readable(r.Partition, r.End(), r.W) || m.Undecided(r.Partition, producer, r.Base) || m.IsAborted(r.Partition, producer, r.Base)
}

const ofTransactions = rows.Transactional | rows.Control

// lastBefore shows fn the last message that can be delivered of offsets from first on, before those of s, when what s has
// is an end of a transaction or was aborted: what is gone by age went from the front, this did not.
func (f *frameReader) lastBefore(s *span, first format.Offset, fn func(*Record) bool) error {
	row, ok, err := f.n.rows.At(s.pid, s.from, s.newest)
	if err != nil || !ok || row.Flags&ofTransactions == 0 {
		return err
	}
	const step = 256
	for to := s.from; to > first; {
		low := max(first, to-min(to, step))
		page, err := f.n.rows.Range(s.pid, low, to, s.newest)
		if err != nil {
			return err
		}
		for i := len(page) - 1; i >= 0; i-- {
			var rec Record
			found := false
			if s.gone(page[i].W) {
				return nil
			}
			err := f.walk(&page[i], first, to, func(r *Record) bool {
				rec, found = *r, true
				return true
			})
			if err != nil {
				return err
			}
			if found {
				fn(&rec)
				return nil
			}
		}
		if to = low; len(page) > 0 {
			to = min(to, page[0].Base)
		}
	}
	return nil
}

// abortedLook bounds how far one pop looks past what was aborted.
const abortedLook = 4096

// pastAborted moves an offset past ends of transactions and aborted records, so that a small batch does not creep
// through a large transaction. It stops at anything else, and at what is not decided.
func (n *Node) pastAborted(part *partView, from format.Offset) (format.Offset, error) {
	reader := frameReader{n: n}
	for looks := 0; from < part.stable && looks < abortedLook; {
		page, err := n.rows.Range(part.id, from, min(part.stable, from+256), part.newest)
		if err != nil || len(page) == 0 {
			return from, err
		}
		for i := range page {
			row := &page[i]
			if looks++; row.Base > from || row.Flags&ofTransactions == 0 {
				return from, nil
			}
			if row.Flags&rows.Control == 0 {
				raw, _, err := reader.frame(row)
				if err != nil {
					return from, err
				}
				_, body, err := n.openStored(raw, row.Partition, new([]byte))
				if err != nil || body == nil || !reader.undelivered(body, row) {
					return from, err
				}
			}
			from = max(from, row.End())
		}
	}
	return from, nil
}
