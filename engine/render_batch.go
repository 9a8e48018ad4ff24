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

// isThinned says that messages of a row may be missing though retention took none: it is of a transaction, or was compacted.
func isThinned(r *rows.Row) bool { return r.Flags&(ofTransactions|rows.Compacted) != 0 }

// isThinnedAt says that what should be at an offset may be missing though retention did not take it: its row is thinned, or
// compaction left none.
func (n *Node) isThinnedAt(pid format.PartitionID, at format.Offset, newest uint64) (bool, error) {
	row, ok, err := n.rows.At(pid, at, newest)
	return err == nil && (!ok || row.Base > at || isThinned(&row)), err
}

// lastBefore shows fn the last message that can be delivered of offsets from first on, before those of s, when what s has
// is an end of a transaction, was aborted or compacted, or is for another group: what is gone by age went from the front,
// this did not.
func (f *frameReader) lastBefore(s *span, first format.Offset, fn func(*Record) bool) error {
	if thinned, err := f.n.isThinnedAt(s.pid, s.from, s.newest); err != nil || !thinned && !f.passed {
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
		if to, err = f.n.before(s.pid, page, first, low, s.newest); err != nil {
			return err
		}
	}
	return nil
}

// before is where a walk to lower offsets goes on below a page of rows from low on: where that is empty, behind the next row
// that there is, or at first when there is none.
func (n *Node) before(pid format.PartitionID, page []rows.Row, first, low format.Offset, newest uint64) (format.Offset, error) {
	if len(page) > 0 {
		return min(low, page[0].Base), nil
	}
	last, ok, err := n.lastRow(pid, first, low, newest)
	if err != nil || !ok {
		return first, err
	}
	return min(low, last.End()), nil
}

// abortedLook bounds how far one pop looks past what was aborted or compacted, or is for other groups.
const abortedLook = 4096

// pastUndelivered moves an offset past ends of transactions, aborted records, what compaction left empty and messages for
// another consumer group than the given one, so that a small batch does not creep through it. It stops at anything else, and
// at what is not decided.
func (n *Node) pastUndelivered(part *partView, from format.Offset, group string) (format.Offset, error) {
	reader := frameReader{n: n, group: group}
	for looks := 0; from < part.stable && looks < abortedLook; {
		page, err := n.rows.Range(part.id, from, min(part.stable, from+256), part.newest)
		if err != nil {
			return from, err
		}
		for i := range page {
			row := &page[i]
			if looks++; !mayPass(row) {
				return max(from, row.Base), nil
			}
			has, err := n.delivers(&reader, row, max(from, row.Base))
			if err != nil && !isThinned(row) {
				return max(from, row.Base), nil // the pop that claims it says what is wrong
			}
			if err != nil || has {
				return max(from, row.Base), err
			}
			from = max(from, row.End())
		}
		if looks++; len(page) == 0 {
			if from, err = n.nextRow(part.id, from, part.stable, part.newest); err != nil {
				return from, err
			}
		}
	}
	return min(from, max(part.stable, part.start)), nil
}

// delivers says that a row that may be passed has something for the reader at or above an offset, or may have.
func (n *Node) delivers(reader *frameReader, row *rows.Row, from format.Offset) (has bool, err error) {
	if row.Flags&rows.Control != 0 || isEmptied(row) {
		return false, nil
	}
	raw, _, err := reader.frame(row)
	if err != nil {
		return true, err
	}
	head, body, err := n.openStored(raw, row.Partition, new([]byte))
	if err != nil || body == nil {
		return true, err
	}
	if passes, err := reader.passes(&head, body); err != nil || passes {
		return err != nil, err
	}
	if row.Flags&rows.Transactional != 0 && reader.undelivered(body, row) {
		return false, nil
	}
	if row.Flags&rows.Compacted == 0 {
		return true, nil
	}
	err = batch.Records(body, batchLimits, func(r *batch.Record) bool {
		has = row.Base+format.Offset(r.OffsetDelta) >= from
		return !has
	})
	return has || err != nil, err
}
